package model

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/x448/float16"

	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/internal/safetensors"
	"github.com/gpc-engine/gpc/tensor"
)

// Identification of a model file, in the container's __metadata__.
const (
	fileFormat  = "gpc-model"
	fileVersion = 2
	maxCodes    = 1_000_000
)

// files are far larger at most than a map of this kind needs.
var files = safetensors.Kind{HeaderBytes: 1 << 20, FileBytes: 1 << 30, Tensors: 64, Align: 8}

// metadataKeys are exactly the entries of __metadata__. case is Model.Case;
// calibration, provenance and navigation are JSON.
var metadataKeys = []string{"calibration", "case", "format", "navigation", "provenance", "version"}

// network is one of the networks under the name its tensors carry:
// NAME.LAYER.weight [out][in], NAME.LAYER.bias [out], and norm_NAME.mean and
// norm_NAME.scale of its normalisation, if it has one of its own.
type network struct {
	name string
	net  **MLP
	norm *Normalizer
}

func (m *Model) networks() []network {
	return []network{
		{"encoder_x", &m.EncoderX, &m.NormX},
		{"encoder_o", &m.EncoderO, &m.NormO},
		{"decoder_s", &m.DecoderS, &m.NormS},
		{"decoder_u", &m.DecoderU, &m.NormU},
	}
}

// manifoldDecoder is the optional D_u from before rollout-aware refinement; it
// shares D_u's normalisation.
func (m *Model) manifoldDecoder() network {
	return network{"decoder_u_manifold", &m.DecoderUManifold, nil}
}

// Write stores the model as safetensors (little-endian): the networks and their
// normalisations as float32, Codes as float16 where that loses nothing (the codes
// of a trained map are so rounded) and float32 otherwise, with case, calibration, provenance and
// navigation constants in the versioned __metadata__. The bytes depend on the
// model alone. A model that Validate refuses, or with a code that is not
// finite, is not written.
func (m *Model) Write(w io.Writer) error {
	if err := m.validateFile(); err != nil {
		return err
	}
	calibration, err := json.Marshal(m.Calibration)
	if err != nil {
		return fmt.Errorf("model: calibration: %w", err)
	}
	provenance, err := json.Marshal(m.Provenance)
	if err != nil {
		return fmt.Errorf("model: provenance: %w", err)
	}
	err = files.Write(w, map[string]string{
		"format":      fileFormat,
		"version":     strconv.Itoa(fileVersion),
		"case":        m.Case,
		"calibration": string(calibration),
		"provenance":  string(provenance),
		"navigation":  string(m.Navigation),
	}, m.Parameters())
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	return nil
}

// RoundHalf rounds values to the nearest float16 in place; they must be within
// its range.
func RoundHalf(values []float32) {
	for i, v := range values {
		values[i] = float16.Fromfloat32(v).Float32()
	}
}

// fitsHalf reports whether float16 holds every value exactly.
func fitsHalf(values []float32) bool {
	return !slices.ContainsFunc(values, func(v float32) bool { return float16.Fromfloat32(v).Float32() != v })
}

// WriteFile stores the model at path, which never holds half a model.
func (m *Model) WriteFile(path string) error {
	if err := durable.Create(path, m.Write); err != nil {
		return fmt.Errorf("model: %s: %w", path, err)
	}
	return nil
}

// SHA256 is that of the model's file, in hexadecimal, by which datasets, other models and
// records name it.
func (m *Model) SHA256() (string, error) {
	sum := sha256.New()
	if err := m.Write(sum); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Read loads a model that Write stored. It refuses, naming the tensor or field
// and what it expects, anything truncated, beyond the size limits, of another
// format or version, with a checksum that does not hold, with unknown tensors or metadata,
// with a parameter that is not finite, or that Validate refuses. CodesDecoded is left empty.
func Read(r io.Reader) (*Model, error) {
	metadata, tensors, err := files.Read(bufio.NewReaderSize(r, 1<<16))
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if format := metadata["format"]; format != fileFormat {
		return nil, fmt.Errorf("model: metadata format is %q, want %q", format, fileFormat)
	}
	if version := metadata["version"]; version != strconv.Itoa(fileVersion) {
		return nil, fmt.Errorf("model: metadata version is %q, this program reads version %d", version, fileVersion)
	}
	for _, key := range metadataKeys {
		if _, ok := metadata[key]; !ok {
			return nil, fmt.Errorf("model: metadata lacks %q", key)
		}
	}
	for key := range metadata {
		if !slices.Contains(metadataKeys, key) {
			return nil, fmt.Errorf("model: metadata has the unknown key %q, want %q", key, metadataKeys)
		}
	}
	m := &Model{Case: metadata["case"]}
	if err := jsonin.Known([]byte(metadata["calibration"]), &m.Calibration); err != nil {
		return nil, fmt.Errorf("model: metadata calibration: %w", err)
	}
	if err := jsonin.Known([]byte(metadata["provenance"]), &m.Provenance); err != nil {
		return nil, fmt.Errorf("model: metadata provenance: %w", err)
	}
	if nav := metadata["navigation"]; nav != "" {
		m.Navigation = json.RawMessage(nav)
	}
	if err := m.take(tensors); err != nil {
		return nil, err
	}
	return m, nil
}

// take makes the model's networks of the tensors, all of which are its own, and checks it.
func (m *Model) take(tensors map[string]Parameter) error {
	for _, n := range m.networks() {
		if err := n.take(tensors); err != nil {
			return err
		}
	}
	if _, ok := tensors["decoder_u_manifold.0.weight"]; ok {
		if err := m.manifoldDecoder().take(tensors); err != nil {
			return err
		}
	}
	if t, ok := tensors["codes"]; ok {
		if len(t.Shape) != 2 {
			return fmt.Errorf("model: tensor codes has shape %v, want [codes, latent]", t.Shape)
		}
		m.Codes = tensor.Matrix{Rows: t.Shape[0], Cols: t.Shape[1], Stride: t.Shape[1], Data: t.Data}
		delete(tensors, "codes")
	}
	for name := range tensors {
		return fmt.Errorf("model: unknown tensor %q", name)
	}
	return m.validateFile()
}

// ReadFile loads the model at path; errors begin with the path.
func ReadFile(path string) (*Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > files.FileBytes {
		return nil, fmt.Errorf("%s: model: the file has %d bytes, at most %d are allowed", path, info.Size(), files.FileBytes)
	}
	m, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// take moves the network's tensors out of the map.
func (n network) take(tensors map[string]safetensors.Tensor) error {
	vector := func(name string) ([]float32, error) {
		t, ok := tensors[name]
		if !ok {
			return nil, fmt.Errorf("model: tensor %s is missing", name)
		}
		if len(t.Shape) != 1 || t.Shape[0] > MaxWidth {
			return nil, fmt.Errorf("model: tensor %s has shape %v, want a vector of at most %d", name, t.Shape, MaxWidth)
		}
		delete(tensors, name)
		return t.Data, nil
	}
	net := &MLP{}
	for i := 0; ; i++ {
		prefix := n.name + "." + strconv.Itoa(i)
		w, ok := tensors[prefix+".weight"]
		if !ok {
			break
		}
		if len(w.Shape) != 2 {
			return fmt.Errorf("model: tensor %s.weight has shape %v, want [out, in]", prefix, w.Shape)
		}
		delete(tensors, prefix+".weight")
		b, err := vector(prefix + ".bias")
		if err != nil {
			return err
		}
		net.Layers = append(net.Layers, Layer{
			W: tensor.Matrix{Rows: w.Shape[0], Cols: w.Shape[1], Stride: w.Shape[1], Data: w.Data},
			B: b,
		})
	}
	if len(net.Layers) == 0 {
		return fmt.Errorf("model: tensor %s.0.weight is missing", n.name)
	}
	*n.net = net
	if n.norm == nil {
		return nil
	}
	var err error
	if n.norm.Mean, err = vector("norm_" + n.name + ".mean"); err != nil {
		return err
	}
	n.norm.Scale, err = vector("norm_" + n.name + ".scale")
	return err
}

// validateFile is Validate and what only files are held to.
func (m *Model) validateFile() error {
	if m.Case == "" {
		return fmt.Errorf("model: case is empty, want the name of the case it was trained for")
	}
	if err := m.Validate(); err != nil {
		return err
	}
	if m.Codes.Rows > maxCodes {
		return fmt.Errorf("model: %d codes, at most %d are allowed", m.Codes.Rows, maxCodes)
	}
	for i := range m.Codes.Rows {
		for j, v := range m.Codes.Row(i) {
			if v-v != 0 { // NaN or infinite
				return fmt.Errorf("model: codes have %v at row %d, column %d, want a finite number", v, i, j)
			}
		}
	}
	// E_o reads [s, σ, J]: its width says how many objectives there are.
	objectives := (m.EncoderO.In() - m.DecoderS.Out()) / 2
	for _, f := range []struct {
		name string
		v    []float64
	}{{"objective_ideal", m.Calibration.ObjectiveIdeal}, {"objective_nadir", m.Calibration.ObjectiveNadir}} {
		if len(f.v) != 0 && len(f.v) != objectives {
			return fmt.Errorf("model: calibration %s has %d entries, want %d or none", f.name, len(f.v), objectives)
		}
	}
	if n, want := len(m.Calibration.ContextRange), m.EncoderX.In()-m.DecoderS.Out()-1-objectives; n != 0 && n != want {
		return fmt.Errorf("model: calibration context_range has %d entries, want %d or none", n, want)
	}
	if len(m.Navigation) > 0 && !json.Valid(m.Navigation) {
		return fmt.Errorf("model: navigation is not valid JSON")
	}
	return nil
}
