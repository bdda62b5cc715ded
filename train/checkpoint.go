package train

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"

	"github.com/google/renameio/v2"

	"github.com/gpc-engine/gpc/internal/backend"
)

// A checkpoint is a safetensors file: an 8-byte little-endian header length, a
// JSON header naming each float32 array with its byte range, the data. The
// header's __metadata__ carries the run's own state as JSON.
const (
	checkpointVersion   = 1
	checkpointKey       = "gpc_checkpoint"
	maxCheckpointHeader = 64 << 20 // learning curves of 10⁵ epochs fit
)

// saved is everything besides the trainer's arrays that continuing needs.
type saved struct {
	Version         int           `json:"version"`
	Fingerprint     string        `json:"fingerprint"` // of data, options and backend
	Cursor          cursor        `json:"cursor"`
	History         []EpochRecord `json:"history"`
	ManifoldSteps   int64         `json:"manifold_steps"`
	RolloutSteps    int64         `json:"rollout_steps"`
	RolloutPrepared bool          `json:"rollout_prepared"`
}

type tensorEntry struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// writeCheckpoint replaces path in one step: after a crash there is the old file
// or the new one, never a part.
func writeCheckpoint(path string, s saved, arrays map[string][]float32) error {
	meta, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("train: checkpoint: %w", err)
	}
	header := map[string]any{"__metadata__": map[string]string{checkpointKey: string(meta)}}
	names := slices.Sorted(maps.Keys(arrays))
	at := int64(0)
	for _, n := range names {
		size := int64(4 * len(arrays[n]))
		header[n] = tensorEntry{DType: "F32", Shape: []int{len(arrays[n])}, Offsets: [2]int64{at, at + size}}
		at += size
	}
	text, err := json.Marshal(header)
	if err != nil {
		return fmt.Errorf("train: checkpoint: %w", err)
	}
	buf := make([]byte, 0, 8+int64(len(text))+at)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(len(text)))
	buf = append(buf, text...)
	for _, n := range names {
		for _, v := range arrays[n] {
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
		}
	}
	if err := renameio.WriteFile(path, buf, 0o644); err != nil {
		return fmt.Errorf("train: writing checkpoint %s: %w", path, err)
	}
	return nil
}

// readCheckpoint reads what writeCheckpoint wrote. The error of a missing file
// satisfies errors.Is(err, fs.ErrNotExist); every other error names the file and
// what is wrong in it.
func readCheckpoint(path string) (saved, map[string][]float32, error) {
	buf, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return saved{}, nil, err
		}
		return saved{}, nil, fmt.Errorf("train: reading checkpoint: %w", err)
	}
	s, arrays, err := parseCheckpoint(buf)
	if err != nil {
		return saved{}, nil, fmt.Errorf("train: checkpoint %s: %w", path, err)
	}
	return s, arrays, nil
}

func parseCheckpoint(buf []byte) (saved, map[string][]float32, error) {
	var s saved
	if len(buf) < 8 {
		return s, nil, fmt.Errorf("%d bytes, too short for a header length", len(buf))
	}
	size := binary.LittleEndian.Uint64(buf)
	if size > maxCheckpointHeader || size > uint64(len(buf)-8) {
		return s, nil, fmt.Errorf("header of %d bytes in a file of %d, at most %d allowed", size, len(buf), maxCheckpointHeader)
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(buf[8:8+size], &header); err != nil {
		return s, nil, fmt.Errorf("header: %w", err)
	}
	var meta map[string]string
	if err := json.Unmarshal(header["__metadata__"], &meta); err != nil {
		return s, nil, fmt.Errorf("header has no readable __metadata__: %w", err)
	}
	if err := json.Unmarshal([]byte(meta[checkpointKey]), &s); err != nil {
		return s, nil, fmt.Errorf("metadata %s: %w", checkpointKey, err)
	}
	if s.Version != checkpointVersion {
		return s, nil, fmt.Errorf("version %d, this program reads version %d", s.Version, checkpointVersion)
	}
	delete(header, "__metadata__")
	data := buf[8+size:]
	arrays := make(map[string][]float32, len(header))
	claimed := int64(0)
	for name, raw := range header {
		var e tensorEntry
		if err := json.Unmarshal(raw, &e); err != nil {
			return s, nil, fmt.Errorf("array %q: %w", name, err)
		}
		from, to := e.Offsets[0], e.Offsets[1]
		if from < 0 || to < from || to > int64(len(data)) || (to-from)%4 != 0 {
			return s, nil, fmt.Errorf("array %q: bytes [%d, %d) of %d", name, from, to, len(data))
		}
		if e.DType != "F32" || len(e.Shape) != 1 || int64(e.Shape[0]) != (to-from)/4 {
			return s, nil, fmt.Errorf("array %q: %s of shape %v in %d bytes, want F32 of one dimension", name, e.DType, e.Shape, to-from)
		}
		// Ranges that overlap could claim more memory than the file has bytes.
		if claimed += to - from; claimed > int64(len(data)) {
			return s, nil, fmt.Errorf("array %q: arrays claim more than the %d bytes of data", name, len(data))
		}
		values := make([]float32, (to-from)/4)
		for i := range values {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[from+int64(4*i):]))
		}
		arrays[name] = values
	}
	if claimed != int64(len(data)) {
		return s, nil, fmt.Errorf("arrays cover %d of %d bytes of data", claimed, len(data))
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
