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

// checkpoints have headers that fit learning curves of 10⁵ epochs, without padding.
var checkpoints = safetensors.Kind{HeaderBytes: 64 << 20, FileBytes: 1 << 40, Tensors: 1 << 10, Align: 1}

// checkpoint is the state of a run besides the trainer's arrays.
type checkpoint struct {
	Version         int             `json:"version"`
	Run             json.RawMessage `json:"run"` // runIdentity
	Cursor          cursor          `json:"cursor"`
	History         []EpochRecord   `json:"history"`
	ManifoldSteps   int64           `json:"manifold_steps"`
	RolloutSteps    int64           `json:"rollout_steps"`
	RolloutPrepared bool            `json:"rollout_prepared"`
}

// runIdentity determines the numbers of a run; a checkpoint with another identity is refused.
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

// difference describes the first difference between a checkpoint's run and this one; "" where there is none.
func difference(stored, present []byte) string {
	values := [2]any{}
	for i, text := range [][]byte{stored, present} {
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

// writeCheckpoint replaces path atomically: after a crash the file is the old or the new one.
func writeCheckpoint(path string, s checkpoint, arrays map[string][]float32) error {
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

// readCheckpoint reads a checkpoint. The error of a missing file satisfies errors.Is(err, fs.ErrNotExist). Every
// other error names the file and the fault.
func readCheckpoint(path string) (checkpoint, map[string][]float32, error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return checkpoint{}, nil, err
		}
		return checkpoint{}, nil, fmt.Errorf("train: reading checkpoint: %w", err)
	}
	defer f.Close()
	s, arrays, err := parseCheckpoint(bufio.NewReader(f))
	if err != nil {
		return checkpoint{}, nil, fmt.Errorf("train: checkpoint %s: %w", path, err)
	}
	return s, arrays, nil
}

func parseCheckpoint(r io.Reader) (checkpoint, map[string][]float32, error) {
	var s checkpoint
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

// decoderArray names the arrays of D_u at the end of the manifold phase.
func decoderArray(layer int, part string) string {
	return fmt.Sprintf("manifold_phase.decoder_u.%d.%s", layer, part)
}

// saveDecoder adds D_u at the end of the manifold phase to a checkpoint's arrays.
func (r *run) saveDecoder(state *backend.TrainerState) {
	if r.manifoldDecoder == nil {
		return
	}
	for i, l := range r.manifoldDecoder.Layers {
		state.Arrays[decoderArray(i, "weight")] = l.W.Clone().Data
		state.Arrays[decoderArray(i, "bias")] = l.B
	}
}

// restoreDecoder removes that decoder from the arrays of a rollout phase's checkpoint.
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
			kind   string
			values []float32
		}{{"weight", l.W.Data}, {"bias", l.B}} {
			name := decoderArray(i, a.kind)
			if len(arrays[name]) != len(a.values) {
				return fmt.Errorf("array %q has %d entries, want %d", name, len(arrays[name]), len(a.values))
			}
			copy(a.values, arrays[name])
			delete(arrays, name)
		}
	}
	r.manifoldDecoder = nets.DecoderU
	return nil
}
