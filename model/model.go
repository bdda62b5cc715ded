// Package model holds the learned map of the paper: encoders E_x and E_o,
// decoders D_u and D_s, their normalisation, the codes of M*, and the constants
// calibrated on held-out data.
//
// The central type is Model. Networks work in normalised units: an input or
// output v of the physical world is (v − Mean)/Scale inside. Encoders read
//
//	E_x: normalised [s, c, slot]        → z
//	E_o: normalised [s, σ, J]           → z
//	D_s: z → normalised s
//	D_u: z → normalised (plan − Base)
//
// (paper, "Manifold Learning via Structured Loss System").
package model

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

// Normalizer is the affine map between physical and normalised units.
type Normalizer struct {
	Mean, Scale []float32
}

// Apply writes (v − Mean)/Scale to dst.
func (n Normalizer) Apply(dst, v []float32) {
	for i, x := range v {
		dst[i] = (x - n.Mean[i]) / n.Scale[i]
	}
}

// Invert writes Mean + Scale·v to dst.
func (n Normalizer) Invert(dst, v []float32) {
	for i, x := range v {
		dst[i] = n.Mean[i] + n.Scale[i]*x
	}
}

// Size is the width of the vectors it maps.
func (n Normalizer) Size() int { return len(n.Mean) }

// Validate checks the sizes and that scales are positive and finite.
func (n Normalizer) Validate(name string, size int) error {
	if len(n.Mean) != size || len(n.Scale) != size {
		return fmt.Errorf("model: %s normalisation has %d means and %d scales, want %d", name, len(n.Mean), len(n.Scale), size)
	}
	for i := range n.Mean {
		m, s := float64(n.Mean[i]), float64(n.Scale[i])
		if math.IsNaN(m) || math.IsInf(m, 0) || !(s > 0) || math.IsInf(s, 0) {
			return fmt.Errorf("model: %s normalisation has mean %v, scale %v at entry %d, want finite numbers and a scale above 0", name, m, s, i)
		}
	}
	return nil
}

// Model is a trained map. It is immutable after loading and safe to share.
type Model struct {
	Case                                   string // Spec.Name it was trained for
	EncoderX, EncoderO, DecoderU, DecoderS *MLP
	NormX, NormO, NormS, NormU             Normalizer
	// DecoderUManifold is D_u as the manifold phase left it, before rollout-aware
	// refinement; nil where the two do not differ or it was not kept.
	DecoderUManifold *MLP
	// Codes are M*: [N][n_z], the encoder image of training samples chosen to
	// cover. CodesDecoded are D_s of them, normalised, [N][n_s]; they are not
	// stored.
	Codes, CodesDecoded tensor.Matrix
	Calibration         Calibration
	Provenance          Provenance
	// Navigation holds the constants of the online step the model was calibrated
	// with, as the JSON of domain.Navigation; empty: the case's defaults.
	Navigation json.RawMessage
}

// WithoutRollout is the map with D_u as it was before rollout-aware refinement,
// sharing everything else with m. It is an error where that D_u was not kept.
func (m *Model) WithoutRollout() (*Model, error) {
	if m.DecoderUManifold == nil {
		return nil, fmt.Errorf("model: the map for %s holds no D_u from before the rollout-aware refinement", m.Case)
	}
	result := *m
	result.DecoderU, result.DecoderUManifold = m.DecoderUManifold, nil
	return &result, nil
}

// Latent is n_z.
func (m *Model) Latent() int { return m.DecoderS.In() }

// Calibration holds what is estimated on held-out data after training, and how E_x reads
// a user's preference.
type Calibration struct {
	TauGeom         float64      `json:"tau_geom"`                   // τ_geom of the map: mean ‖s − D_s(E_x(x))‖², normalised
	DeltaDec        float64      `json:"delta_dec"`                  // largest ‖D_u − u*‖ after decoding, physical units
	DeltaDecP99     float64      `json:"delta_dec_p99"`              // its 99th percentile
	ObjectiveIdeal  []float64    `json:"objective_ideal"`            // least of each objective over the dataset
	ObjectiveNadir  []float64    `json:"objective_nadir"`            // largest of each
	ContextRange    [][2]float64 `json:"context_range,omitempty"`    // least and largest of each entry of the context on the map
	LatentSpread    float64      `json:"latent_spread"`              // RMS distance of codes from their mean
	PreferenceFloor float64      `json:"preference_floor,omitempty"` // ε of the priority slot that E_x was trained with
}

// Provenance says how a model came to be; it is what makes a bundled model
// reproducible.
type Provenance struct {
	Command string `json:"command"`
	Seed    uint64 `json:"seed"`
	Version string `json:"version"`
	// Backend is what it was trained on, as far as bits depend on it, such as "cpu amd64
	// avx512"; "" of a program before that was recorded.
	Backend string `json:"backend"`
	Samples int    `json:"samples"`
	// ProblemSHA256 is the domain.FingerprintOf of the problem that it is a map of,
	// DatasetSHA256 of its samples, InitialSHA256 of the model that training began with, ""
	// for none.
	ProblemSHA256 string `json:"problem_sha256"`
	DatasetSHA256 string `json:"dataset_sha256"`
	InitialSHA256 string `json:"initial_sha256,omitempty"`
	// Method is the one that the map was compiled for; "": none. Choices are, line by line,
	// what each round of that was and why, how it ended, and what the method was chosen among.
	Method  string   `json:"method,omitempty"`
	Choices []string `json:"choices,omitempty"`
	// Rounds are the datasets that it was trained on together; of a map of data that
	// were in memory, or of a program before there were rounds, none.
	Rounds []Round `json:"rounds,omitempty"`
}

// Round is a dataset of some seed: solved, at the states that a policy visits, or
// distilled from one.
type Round struct {
	SamplesSHA256 string `json:"samples_sha256"` // of one dataset
	Samples       int    `json:"samples"`        // in it
	Seed          uint64 `json:"seed"`           // of it
	Scenarios     int    `json:"scenarios"`      // of it
	Policy        Policy `json:"policy,omitzero"`
	Distilled     bool   `json:"distilled,omitempty"` // whether its samples are a policy's own decisions
	Program       string `json:"program"`             // that made it
	ISA           string `json:"isa"`                 // instruction set that made it
}

// Policy is the controller that led to the states of a dataset: a method of a map.
type Policy struct {
	Method      string `json:"method"`       // that visited its states
	ModelSHA256 string `json:"model_sha256"` // of its map
	Backend     string `json:"backend"`      // that it decided on
}

func (p Policy) String() string {
	if p == (Policy{}) {
		return "none"
	}
	return fmt.Sprintf("%s of the model %s on %s", p.Method, p.ModelSHA256, p.Backend)
}

// Validate checks that the four networks, the normalisations and the codes fit
// each other.
func (m *Model) Validate() error {
	for _, n := range []struct {
		name string
		net  *MLP
		norm Normalizer
		size func(*MLP) int
	}{
		{"E_x", m.EncoderX, m.NormX, (*MLP).In},
		{"E_o", m.EncoderO, m.NormO, (*MLP).In},
		{"D_s", m.DecoderS, m.NormS, (*MLP).Out},
		{"D_u", m.DecoderU, m.NormU, (*MLP).Out},
	} {
		if n.net == nil {
			return fmt.Errorf("model: %s is missing", n.name)
		}
		if err := n.net.Validate(); err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		if err := n.norm.Validate(n.name, n.size(n.net)); err != nil {
			return err
		}
	}
	if decoder := m.DecoderUManifold; decoder != nil {
		if err := decoder.Validate(); err != nil {
			return fmt.Errorf("model: D_u before refinement: %w", err)
		}
		if decoder.In() != m.DecoderU.In() || decoder.Out() != m.DecoderU.Out() {
			return fmt.Errorf("model: D_u takes %d values to %d, D_u before refinement %d to %d: want the same sizes", m.DecoderU.In(), m.DecoderU.Out(), decoder.In(), decoder.Out())
		}
	}
	nz := m.Latent()
	if m.EncoderX.Out() != nz || m.EncoderO.Out() != nz || m.DecoderU.In() != nz {
		return fmt.Errorf("model: the latent sizes of the networks differ: E_x %d, E_o %d, D_u %d, D_s %d; want one size", m.EncoderX.Out(), m.EncoderO.Out(), m.DecoderU.In(), nz)
	}
	if m.Codes.Rows > 0 && m.Codes.Cols != nz {
		return &tensor.ShapeError{Op: "model", What: "codes", WantRows: m.Codes.Rows, WantCols: nz, GotRows: m.Codes.Rows, GotCols: m.Codes.Cols}
	}
	return nil
}
