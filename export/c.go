package export

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/x448/float16"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Record is one observation with what this module decides there: the clipped plan,
// before the projection. All are physical units.
type Record struct {
	S, C []float32
	W    []float32 // a user's fixed preference; nil: adaptive
	// Plan is of the CPU backend in float32, Reference of the float64 one, rounded once,
	// Whole of the CPU backend and the map whose weights were not rounded to float16; nil
	// where Plan is.
	Plan, Reference, Whole []float32
}

// Result says what was written.
type Result struct {
	Case          string   `json:"case"`                 // its name
	Dir           string   `json:"dir"`                  // folder written
	Symbol        string   `json:"symbol"`               // of all names in C: gpc_symbol_direct
	SHA256        string   `json:"sha256"`               // of the model
	Base          string   `json:"base"`                 // copied, or hook where the program that uses the map has to supply the base plan
	Half          bool     `json:"half"`                 // whether weights are float16
	ConstantBytes int      `json:"constant_bytes"`       // of parameters
	ScratchBytes  int      `json:"scratch_bytes"`        // of static memory
	MulAdds       int      `json:"mul_adds"`             // of a decision, at most
	Records       int      `json:"records"`              // recorded decisions in the test
	Method        string   `json:"method,omitempty"`     // of a whole controller: what was exported, and driven; absent of a map alone, as the rows below
	Episodes      int      `json:"episodes,omitempty"`   // that it was driven in
	Unsafe        *int     `json:"unsafe,omitempty"`     // how many of them were
	Operations    int      `json:"operations,omitempty"` // bound of the arithmetic operations of a decision
	LoopBytes     int      `json:"loop_bytes,omitempty"` // memory of a closed loop
	Libm          []string `json:"libm,omitempty"`       // functions of libm that the C calls
	FMU           []string `json:"fmu,omitempty"`        // files of the units of FMI 2.0
	RoundingError float64  `json:"rounding_error"`       // largest deviation from float64, in units of D_u's normalisation
	HalfError     float64  `json:"half_error"`           // that of rounding weights to float16; 0 without
}

// Tolerance bounds the deviation of an entry of a plan between two correct float32
// evaluations of a map, or of one from float64, in units of D_u's normalisation; an
// entry's own rounding, 2⁻²² of it, comes on top. It is what numerics.md allows the
// action of a step, whose input is another float32 result too.
const Tolerance = 5e-5

// Rounded is the map whose E_x and D_u have their weights rounded to float16, sharing
// everything else with m. It names the first weight that is beyond float16's range.
func Rounded(m *model.Model) (*model.Model, error) {
	half := *m
	half.EncoderX, half.DecoderU = m.EncoderX.Clone(), m.DecoderU.Clone()
	for _, n := range []struct {
		name string
		net  *model.MLP
	}{{"E_x", half.EncoderX}, {"D_u", half.DecoderU}} {
		for l, layer := range n.net.Layers {
			for i, v := range layer.W.Data {
				if float16.Fromfloat32(v).IsInf(0) {
					return nil, fmt.Errorf("export: weight %d of layer %d of %s is %v, beyond float16", i, l, n.name, v)
				}
			}
			model.RoundHalf(layer.W.Data)
		}
	}
	return &half, nil
}

// C writes the map m of problem p to the folder dir, which must be durable.Vacant
// and appears whole or not at all. With half the
// weights are rounded to float16 and stored so. The records are what the written test
// compares with, decisions of m or with half of its Rounded; there must be at least one.
func C(dir string, m *model.Model, p domain.Problem, half bool, records []Record) (*Result, error) {
	u, err := newUnit(m, p, half, records)
	if err != nil {
		return nil, err
	}
	files, err := u.files()
	if err != nil {
		return nil, err
	}
	if err := durable.WriteFolder(dir, files); err != nil {
		return nil, err
	}
	base := "copied"
	if u.BaseHook {
		base = "hook"
	}
	return &Result{
		Case: m.Case, Dir: dir, Symbol: u.Symbol, SHA256: u.SHA256, Base: base, Half: half, Records: len(records),
		ConstantBytes: u.ConstantBytes, ScratchBytes: u.ScratchBytes, MulAdds: m.EncoderX.MulAdds() + m.DecoderU.MulAdds(),
		RoundingError: u.deviation(func(r *Record) []float32 { return r.Reference }), HalfError: u.deviation(func(r *Record) []float32 { return r.Whole }),
	}, nil
}

// unit is one translation unit: what the templates read.
type unit struct {
	Symbol, Macro  string // integrator_convex, INTEGRATOR_CONVEX
	Version, Build string
	SHA256         string
	Half           bool
	Spec           *domain.Spec
	Model          *model.Model
	Layers         []layer // E_x's, then D_u's
	StateLayers    []layer // D_s's, of a whole controller
	Encoder        int     // how many of Layers are E_x's
	Widest         int     // of all vectors
	Copies         []source
	BaseHook       bool
	Lo, Hi         []float32 // box of one action; both 0: none
	Records        []Record
	Bases          [][]float32
	Tolerance      float64

	ConstantBytes, ScratchBytes int
}

// layer is one affine map with the name of its arrays.
type layer struct {
	Name    string
	In, Out int
	ReLU    bool
	W       []float32 // [In][Out], the transpose of the model's
	B       []float32
}

func newUnit(m *model.Model, p domain.Problem, half bool, records []Record) (*unit, error) {
	spec := p.Spec()
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if m.Case != spec.Name || m.EncoderX.In() != spec.ObservationSize() || m.DecoderU.Out() != spec.PlanSize() {
		return nil, fmt.Errorf("export: a map of case %q, %d → %d, for problem %q, %d → %d", m.Case, m.EncoderX.In(), m.DecoderU.Out(), spec.Name, spec.ObservationSize(), spec.PlanSize())
	}
	if len(records) == 0 {
		return nil, errors.New("export: no recorded decisions to test with, want at least 1")
	}
	sum := sha256.New()
	if err := m.Write(sum); err != nil {
		return nil, err
	}
	if half {
		var err error
		if m, err = Rounded(m); err != nil {
			return nil, err
		}
	}
	symbol := identifier(spec.Name)
	u := &unit{
		Symbol: symbol, Macro: strings.ToUpper(symbol), Version: version.Version, Build: version.Build(), SHA256: hex.EncodeToString(sum.Sum(nil)),
		Half: half, Spec: spec, Model: m, Encoder: len(m.EncoderX.Layers), Records: records, Tolerance: Tolerance,
	}
	u.Layers = append(u.layers("encoder", m.EncoderX), u.layers("decoder", m.DecoderU)...)
	u.ConstantBytes += 4 * (2*m.EncoderX.In() + 2*m.DecoderU.Out() + 2*spec.ActionSize())
	// Two vectors, and the list of active inputs.
	u.ScratchBytes = (4 + 4 + 2) * u.Widest
	for _, a := range spec.Action {
		u.Lo, u.Hi = append(u.Lo, float32(a.Lo)), append(u.Hi, float32(a.Hi))
	}
	u.Copies = copies(p, records)
	u.BaseHook = u.Copies == nil
	for _, r := range records {
		u.Bases = append(u.Bases, base(p, r.S, r.C))
	}
	return u, nil
}

// layers are those of a network as they are written; their sizes are added up.
func (u *unit) layers(name string, net *model.MLP) (all []layer) {
	size := 4
	if u.Half {
		size = 2
	}
	for i, l := range net.Layers {
		out, in := l.W.Rows, l.W.Cols
		w := make([]float32, in*out)
		for r := range out {
			for k, v := range l.W.Row(r) {
				w[k*out+r] = v
			}
		}
		all = append(all, layer{fmt.Sprintf("%s%d", name, i), in, out, i < len(net.Layers)-1, w, l.B})
		u.Widest = max(u.Widest, in, out)
		u.ConstantBytes += size*len(w) + 4*out
	}
	return all
}

// identifier makes a case's name a part of C's names.
func identifier(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, name)
}

// deviation is the largest of an entry of the recorded plans from other ones, in units
// of D_u's normalisation; 0 where there are none.
func (u *unit) deviation(other func(*Record) []float32) float64 {
	largest := 0.0
	for i := range u.Records {
		r := &u.Records[i]
		for j, v := range other(r) {
			largest = math.Max(largest, math.Abs(float64(r.Plan[j])-float64(v))/float64(u.Model.NormU.Scale[j]))
		}
	}
	return largest
}

// base is Problem.Base as a backend takes it: of float32 inputs, rounded.
func base(p domain.Problem, s, c []float32) []float32 {
	spec := p.Spec()
	state, context, plan := make([]float64, len(s)), make([]float64, len(c)), make([]float64, spec.PlanSize())
	tensor.Widen(state, s)
	tensor.Widen(context, c)
	p.Base(state, context, plan)
	out := make([]float32, len(plan))
	tensor.Narrow(out, plan)
	return out
}

// source is where an entry of Base comes from: entry Index of the vector From, "s" or
// "c", or where From is "" the constant Value.
type source struct {
	From  string
	Index int
	Value float32
}

// copies finds, for each entry of Base, the entry of the observation or the constant
// that it equals, bit for bit, at every record and at drawn observations; nil where
// some entry has none. The drawn ones are of all magnitudes and of both signs, far
// outside what the problem's limits allow, so that a copy that is limited or scaled is
// not taken for one.
func copies(p domain.Problem, records []Record) []source {
	spec := p.Spec()
	var probes [][2][]float32
	for _, r := range records {
		probes = append(probes, [2][]float32{r.S, r.C})
	}
	probes = append(probes, probeObservations(spec.MeasuredSize(), spec.ContextSize())...)
	sources := make([][]source, spec.PlanSize())
	for probe, x := range probes {
		for j, v := range base(p, x[0], x[1]) {
			if probe == 0 {
				sources[j] = append(sources[j], source{Value: v})
				for i := range x[0] {
					sources[j] = append(sources[j], source{From: "s", Index: i})
				}
				for i := range x[1] {
					sources[j] = append(sources[j], source{From: "c", Index: i})
				}
			}
			sources[j] = slices.DeleteFunc(sources[j], func(f source) bool {
				switch f.From {
				case "s":
					f.Value = x[0][f.Index]
				case "c":
					f.Value = x[1][f.Index]
				}
				return f.Value != v
			})
			if len(sources[j]) == 0 {
				return nil
			}
		}
	}
	one := make([]source, len(sources))
	for j, f := range sources {
		one[j] = f[0]
	}
	return one
}

// files are the unit's, by their templates.
func (u *unit) files() ([]durable.Text, error) {
	var all []durable.Text
	for _, f := range []struct{ name, template string }{
		{"gpc_" + u.Symbol + ".h", "header.h"},
		{"gpc_" + u.Symbol + ".c", "source.c"},
		{"gpc_" + u.Symbol + "_weights.h", "weights.h"},
		{"test_vectors.h", "vectors.h"},
		{"main_test.c", "test.c"},
		{"README.md", "README.md"},
	} {
		text, err := templates().execute(f.template, u)
		if err != nil {
			return nil, err
		}
		all = append(all, durable.Text{Name: f.name, Text: text})
	}
	return all, nil
}
