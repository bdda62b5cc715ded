package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/durable"
)

// identify fills in the run's identity.
func (r *run) identify() error {
	o := r.opt
	id := runIdentity{
		Case: o.Problem.Spec().Name, ProblemSHA256: durable.Sum(domain.FingerprintOf(o.Problem)), DataSHA256: o.Data.contentHash(o.Problem.Spec()),
		Program: o.Version, Backend: numericIdentity(o.Backend), Manifold: o.manifold, Rollout: o.rollout, Adam: o.adam,
	}
	var err error
	if o.Initial != nil {
		if r.initial, err = o.Initial.SHA256(); err != nil {
			return fmt.Errorf("train: the initial map: %w", err)
		}
	}
	id.InitialSHA256 = r.initial
	// The hashes cover these, or they determine no number.
	o.Backend, o.Problem, o.Data = nil, nil, Data{}
	o.Initial, o.Resume = nil, false
	o.Command, o.Version, o.Checkpoint = "", "", ""
	id.Options = o
	if r.identity, err = json.Marshal(id); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return nil
}

// numericIdentity names a backend as far as the bits of its results depend on it; the number of threads does not
// matter.
func numericIdentity(b backend.Backend) string {
	d := b.Describe()
	return strings.TrimSpace(strings.Join([]string{d.Name, runtime.GOARCH, d.ISA, d.Precision}, " "))
}

func (r *run) resume() error {
	s, arrays, err := readCheckpoint(r.opt.Checkpoint)
	if errors.Is(err, fs.ErrNotExist) {
		r.progress(Progress{Note: fmt.Sprintf("no checkpoint at %s yet, starting from the beginning", r.opt.Checkpoint)})
		return nil
	}
	if err != nil {
		return err
	}
	if d := difference(s.Run, r.identity); d != "" {
		return fmt.Errorf("train: checkpoint %s belongs to another run: %s; remove it, or resume with the options it was begun with", r.opt.Checkpoint, d)
	}
	c := s.Cursor
	if c.Epochs > 0 && c.Phase >= 0 && c.Phase < len(r.phases) {
		r.phases[c.Phase].epochs = min(c.Epochs, r.phases[c.Phase].epochs)
	}
	if c.Phase < 0 || c.Phase > len(r.phases) || c.Epoch < 0 || c.Step < 0 ||
		c.Phase < len(r.phases) && (c.Epoch >= r.phases[c.Phase].epochs || c.Step >= r.stepsPerEpoch(c.Phase)) {
		return fmt.Errorf("train: checkpoint %s stopped at phase %d, epoch %d, step %d, which this run does not reach", r.opt.Checkpoint, c.Phase, c.Epoch, c.Step)
	}
	if err := r.restoreDecoder(arrays); err != nil {
		return fmt.Errorf("train: checkpoint %s: %w", r.opt.Checkpoint, err)
	}
	if r.emphasis != nil && c.Phase < len(r.phases) {
		if err := r.emphasis.restore(arrays, len(r.phases[c.Phase].rows)); err != nil {
			return fmt.Errorf("train: checkpoint %s: %w", r.opt.Checkpoint, err)
		}
	}
	if err := r.trainer.Restore(backend.TrainerState{Arrays: arrays, ManifoldSteps: s.ManifoldSteps, RolloutSteps: s.RolloutSteps, RolloutPrepared: s.RolloutPrepared}); err != nil {
		return fmt.Errorf("train: checkpoint %s: %w", r.opt.Checkpoint, err)
	}
	if s.RolloutPrepared && c.Phase < len(r.phases) {
		if err := r.setChain(); err != nil {
			return err
		}
	}
	r.cursor, r.history = c, s.History
	r.progress(Progress{Note: fmt.Sprintf("resuming from %s at phase %d, epoch %d, step %d", r.opt.Checkpoint, c.Phase+1, c.Epoch+1, c.Step+1)})
	return nil
}

func (r *run) save() error {
	if r.opt.Checkpoint == "" {
		return nil
	}
	start := time.Now()
	state, err := r.trainer.State()
	if err != nil {
		return err
	}
	r.emphasis.save(&state)
	r.saveDecoder(&state)
	err = writeCheckpoint(r.opt.Checkpoint, checkpoint{
		Version: checkpointVersion, Run: r.identity, Cursor: r.cursor, History: r.history,
		ManifoldSteps: state.ManifoldSteps, RolloutSteps: state.RolloutSteps, RolloutPrepared: state.RolloutPrepared,
	}, state.Arrays)
	r.lastSave = time.Now()
	r.saving = r.lastSave.Sub(start)
	return err
}

// savingShare is the largest share of the time that checkpoints may take.
const savingShare = 1. / 30

// saveIfDue saves if the last save is long enough ago.
func (r *run) saveIfDue() error {
	if time.Since(r.lastSave) < max(r.opt.interval, time.Duration(float64(r.saving)/savingShare)) {
		return nil
	}
	return r.save()
}
