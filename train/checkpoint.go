package train

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/internal/safetensors"
)

// A checkpoint is a safetensors file of vectors; its __metadata__ carries the
// run's own state as JSON.
const (
	checkpointVersion = 2
	checkpointKey     = "gpc_checkpoint"
)

// checkpoints have headers that learning curves of 10⁵ epochs fit in, which end
// where their text ends.
var checkpoints = safetensors.Kind{HeaderBytes: 64 << 20, FileBytes: 1 << 40, Tensors: 1 << 10, Align: 1}

// saved is everything besides the trainer's arrays that continuing needs.
type saved struct {
	Version         int             `json:"version"`
	Run             json.RawMessage `json:"run"` // runIdentity
	Cursor          cursor          `json:"cursor"`
	History         []EpochRecord   `json:"history"`
	ManifoldSteps   int64           `json:"manifold_steps"`
	RolloutSteps    int64           `json:"rollout_steps"`
	RolloutPrepared bool            `json:"rollout_prepared"`
}

// runIdentity is all that decides the numbers of a run, so that a checkpoint is never
// continued under something else.
type runIdentity struct {
	Case          string               `json:"case"`
	ProblemSHA256 string               `json:"problem_sha256"`
	DataSHA256    string               `json:"data_sha256"` // of what training reads of the samples
	InitialSHA256 string               `json:"initial_sha256"`
	Program       string               `json:"program"`
	Backend       string               `json:"backend"`
	Options       Options              `json:"options"`
	Manifold      backend.ManifoldLoss `json:"manifold"`
	Rollout       backend.RolloutLoss  `json:"rollout"`
	Adam          backend.Adam         `json:"adam"`
}

// difference says the first way in which the run of a checkpoint is not this one, "" if
// there is none.
func difference(saved, own []byte) string {
	values := [2]any{}
	for i, text := range [][]byte{saved, own} {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber() // a seed may have more digits than a float64
		if dec.Decode(&values[i]) != nil {
			return "it does not say which run it is of"
		}
	}
	d, differ := jsonin.FirstDifference(values[0], values[1], reflect.DeepEqual)
	if !differ {
		return ""
	}
	return fmt.Sprintf("its %s is %v, this run's is %v", d.Path, d.A, d.B)
}

// writeCheckpoint replaces path in one step: after a crash there is the old file
// or the new one, never a part.
func writeCheckpoint(path string, s saved, arrays map[string][]float32) error {
	meta, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("train: checkpoint: %w", err)
	}
	var tensors []safetensors.Tensor
	for _, n := range slices.Sorted(maps.Keys(arrays)) {
		tensors = append(tensors, safetensors.OfVector(n, arrays[n]))
	}
	if err := durable.Create(path, func(w io.Writer) error {
		return checkpoints.Write(w, map[string]string{checkpointKey: string(meta)}, tensors)
	}); err != nil {
		return fmt.Errorf("train: writing checkpoint %s: %w", path, err)
	}
	return nil
}

// readCheckpoint reads what writeCheckpoint wrote. The error of a missing file
// satisfies errors.Is(err, fs.ErrNotExist); every other error names the file and
// what is wrong in it.
func readCheckpoint(path string) (saved, map[string][]float32, error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return saved{}, nil, err
		}
		return saved{}, nil, fmt.Errorf("train: reading checkpoint: %w", err)
	}
	defer f.Close()
	s, arrays, err := parseCheckpoint(bufio.NewReader(f))
	if err != nil {
		return saved{}, nil, fmt.Errorf("train: checkpoint %s: %w", path, err)
	}
	return s, arrays, nil
}

func parseCheckpoint(r io.Reader) (saved, map[string][]float32, error) {
	var s saved
	meta, tensors, err := checkpoints.Read(r)
	if err != nil {
		return s, nil, err
	}
	if err := json.Unmarshal([]byte(meta[checkpointKey]), &s); err != nil {
		return s, nil, fmt.Errorf("metadata %s: %w", checkpointKey, err)
	}
	if s.Version != checkpointVersion {
		return s, nil, fmt.Errorf("version %d, this program reads version %d", s.Version, checkpointVersion)
	}
	arrays := make(map[string][]float32, len(tensors))
	for name, t := range tensors {
		if len(t.Shape) != 1 || t.Half {
			return s, nil, fmt.Errorf("array %q has shape %v, want float32 of one dimension", name, t.Shape)
		}
		arrays[name] = t.Data
	}
	return s, arrays, nil
}

func (s saved) trainerState(arrays map[string][]float32) backend.TrainerState {
	return backend.TrainerState{Arrays: arrays, ManifoldSteps: s.ManifoldSteps, RolloutSteps: s.RolloutSteps, RolloutPrepared: s.RolloutPrepared}
}

// decoderArray names the arrays of D_u as the manifold phase left it.
func decoderArray(layer int, what string) string {
	return fmt.Sprintf("manifold_phase.decoder_u.%d.%s", layer, what)
}

// saveDecoder adds D_u as the manifold phase left it to a checkpoint's arrays.
func (r *run) saveDecoder(state *backend.TrainerState) {
	if r.manifoldDecoder == nil {
		return
	}
	for i, l := range r.manifoldDecoder.Layers {
		state.Arrays[decoderArray(i, "weight")] = l.W.Clone().Data
		state.Arrays[decoderArray(i, "bias")] = l.B
	}
}

// restoreDecoder takes that decoder out of a checkpoint's arrays, where it is one
// of the rollout phase.
func (r *run) restoreDecoder(arrays map[string][]float32) error {
	if _, ok := arrays[decoderArray(0, "weight")]; !ok {
		return nil
	}
	nets, err := r.trainer.Networks()
	if err != nil {
		return err
	}
	for i, l := range nets.DecoderU.Layers {
		for _, a := range []struct {
			what string
			into []float32
		}{{"weight", l.W.Data}, {"bias", l.B}} {
			name := decoderArray(i, a.what)
			if len(arrays[name]) != len(a.into) {
				return fmt.Errorf("array %q has %d entries, want %d", name, len(arrays[name]), len(a.into))
			}
			copy(a.into, arrays[name])
			delete(arrays, name)
		}
	}
	r.manifoldDecoder = nets.DecoderU
	return nil
}
