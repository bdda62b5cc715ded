package dataset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/bits"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// Limits of a dataset on disk; they bound what a hostile file can make a reader
// allocate.
const (
	maxWidth     = 4096      // components of one vector
	maxRows      = 1 << 28   // samples of a dataset
	maxPartRows  = 1 << 24   // samples of one part
	maxPartBytes = 1 << 31   // bytes of one part
	maxChunks    = 1 << 17   // parts of a dataset
	maxScenarios = 1 << 30   // scenarios of a dataset
	maxWeights   = 1 << 16   // fixed preferences per scenario
	maxLocal     = 1 << 20   // trajectories of one solve
	maxHeader    = 4 << 20   // bytes of a JSON manifest
	maxFooter    = 16 << 20  // bytes of a parquet footer
	maxStep      = 1<<31 - 1 // step within a trajectory
)

// Layout names the components of a sample's vectors, in order, with their
// units. It is what a reader checks against a domain.Spec.
type Layout struct {
	S          []Component `json:"s"`
	C          []Component `json:"c"`
	U          []Component `json:"u"` // the plan: action 0, action 1, …
	Objectives []Component `json:"objectives"`
	Margins    []Component `json:"margins"`
}

// Component is one named scalar; the unit is the problem's own.
type Component struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
}

// LayoutOf is the layout of a problem's samples.
func LayoutOf(spec *domain.Spec) Layout {
	names := func(vs []domain.Variable) []Component {
		out := make([]Component, len(vs))
		for i, v := range vs {
			out[i] = Component{v.Name, v.Unit}
		}
		return out
	}
	l := Layout{S: names(spec.Measured), C: names(spec.Context), Objectives: names(spec.Objectives), Margins: names(spec.Margins)}
	for t := range spec.Plan {
		for _, v := range spec.Action {
			c := Component{v.Name, v.Unit}
			if spec.Plan > 1 {
				c.Name = fmt.Sprintf("%s[%d]", v.Name, t)
			}
			l.U = append(l.U, c)
		}
	}
	return l
}

func (l Layout) validate() error {
	for _, f := range []struct {
		name string
		n    int
		min  int
	}{{"s", len(l.S), 1}, {"c", len(l.C), 0}, {"u", len(l.U), 1}, {"objectives", len(l.Objectives), 1}, {"margins", len(l.Margins), 0}} {
		if f.n < f.min || f.n > maxWidth {
			return fmt.Errorf("layout field %s has %d components, want %d to %d", f.name, f.n, f.min, maxWidth)
		}
	}
	return nil
}

// floats is the number of float32 values of a stored sample: w, s, c, u, target, σ, J, margins and the KKT residual.
func (l Layout) floats() int {
	return 3*len(l.Objectives) + len(l.S) + len(l.C) + 2*len(l.U) + len(l.Margins) + 1
}

// rowBytes is the least size of a stored sample: the float32 values, two int32 and one int64. It leaves out the flags
// of one bit.
func (l Layout) rowBytes() int64 { return 4*int64(l.floats()) + 16 }

// differs describes the first difference of two layouts; "" where there is none.
func (l Layout) differs(expected Layout) string {
	for _, f := range []struct {
		name            string
		value, expected []Component
	}{{"s", l.S, expected.S}, {"c", l.C, expected.C}, {"u", l.U, expected.U}, {"objectives", l.Objectives, expected.Objectives}, {"margins", l.Margins, expected.Margins}} {
		if len(f.value) != len(f.expected) {
			return fmt.Sprintf("column %s has %d components, want %d", f.name, len(f.value), len(f.expected))
		}
		for i := range f.value {
			if f.value[i] != f.expected[i] {
				return fmt.Sprintf("column %s_%d is %s [%s], want %s [%s]", f.name, i, f.value[i].Name, f.value[i].Unit, f.expected[i].Name, f.expected[i].Unit)
			}
		}
	}
	return ""
}

// Columns are samples in column-major blocks, one row of every matrix per
// sample. Values are float32, as they are stored.
type Columns struct {
	S, C       tensor.Matrix // measured state, context
	Preference tensor.Matrix // the slot of domain.Preference: 1 and W, or zeros
	U, Target  tensor.Matrix // optimal plan, and what D_u learns
	Sigma, J   tensor.Matrix
	Margins    tensor.Matrix
	KKT        []float32
	Scenario   []int32
	Trajectory []int64
	Step       []int32
	Perturbed  []bool
}

func newColumns(l Layout, rows int) *Columns {
	m := len(l.Objectives)
	return &Columns{
		S: tensor.New(rows, len(l.S)), C: tensor.New(rows, len(l.C)),
		Preference: tensor.New(rows, 1+m),
		U:          tensor.New(rows, len(l.U)), Target: tensor.New(rows, len(l.U)),
		Sigma: tensor.New(rows, m), J: tensor.New(rows, m), Margins: tensor.New(rows, len(l.Margins)),
		KKT: make([]float32, rows), Scenario: make([]int32, rows),
		Trajectory: make([]int64, rows), Step: make([]int32, rows), Perturbed: make([]bool, rows),
	}
}

// ColumnsOf copies samples into columns. The error names a sample whose vectors have
// other lengths than the layout, or that holds a number which is no finite float32.
func ColumnsOf(l Layout, samples []domain.Sample) (*Columns, error) {
	c := newColumns(l, len(samples))
	for i := range samples {
		s := &samples[i]
		if err := l.check(s); err != nil {
			return nil, fmt.Errorf("dataset: sample %d has %w", i, err)
		}
		if !s.Preference.Adaptive && len(s.Preference.W) != len(l.Objectives) {
			return nil, fmt.Errorf("dataset: sample %d has a preference of %d weights, want %d", i, len(s.Preference.W), len(l.Objectives))
		}
		c.set(i, s)
	}
	return c, nil
}

// check reports a vector that does not fit the layout or a float32.
func (l Layout) check(s *domain.Sample) error {
	m := len(l.Objectives)
	for _, f := range []struct {
		name string
		v    []float64
		n    int
	}{
		{"S", s.S, len(l.S)}, {"C", s.C, len(l.C)}, {"U", s.U, len(l.U)}, {"Target", s.Target, len(l.U)},
		{"Sigma", s.Sigma, m}, {"J", s.J, m}, {"Margins", s.Margins, len(l.Margins)}, {"KKT", []float64{s.KKT}, 1},
	} {
		if len(f.v) != f.n {
			return fmt.Errorf("%d values of %s, want %d", len(f.v), f.name, f.n)
		}
		for j, v := range f.v {
			if math.IsNaN(v) || math.Abs(v) > math.MaxFloat32 {
				return fmt.Errorf("%v as %s[%d], want a finite float32: %w", v, f.name, j, &domain.Reason{Kind: domain.ErrNotConverged, Text: "not finite"})
			}
		}
	}
	return nil
}

// Rows is the number of samples.
func (c *Columns) Rows() int { return len(c.KKT) }

// Select copies some rows, in the given order.
func (c *Columns) Select(rows []int) *Columns {
	matrix := func(m tensor.Matrix) tensor.Matrix {
		out := tensor.New(len(rows), m.Cols)
		for i, r := range rows {
			copy(out.Row(i), m.Row(r))
		}
		return out
	}
	return &Columns{
		S: matrix(c.S), C: matrix(c.C), Preference: matrix(c.Preference), U: matrix(c.U), Target: matrix(c.Target),
		Sigma: matrix(c.Sigma), J: matrix(c.J), Margins: matrix(c.Margins),
		KKT: pick(c.KKT, rows), Scenario: pick(c.Scenario, rows), Trajectory: pick(c.Trajectory, rows),
		Step: pick(c.Step, rows), Perturbed: pick(c.Perturbed, rows),
	}
}

func pick[T any](v []T, rows []int) []T {
	out := make([]T, len(rows))
	for i, r := range rows {
		out[i] = v[r]
	}
	return out
}

// set stores one sample as row i.
func (c *Columns) set(i int, s *domain.Sample) {
	tensor.Narrow(c.S.Row(i), s.S)
	tensor.Narrow(c.C.Row(i), s.C)
	slot := c.Preference.Row(i)
	clear(slot)
	if !s.Preference.Adaptive {
		slot[0] = 1
		tensor.Narrow(slot[1:], s.Preference.W)
	}
	tensor.Narrow(c.U.Row(i), s.U)
	tensor.Narrow(c.Target.Row(i), s.Target)
	tensor.Narrow(c.Sigma.Row(i), s.Sigma)
	tensor.Narrow(c.J.Row(i), s.J)
	tensor.Narrow(c.Margins.Row(i), s.Margins)
	c.KKT[i] = float32(s.KKT)
	c.Scenario[i] = int32(s.Scenario)
	c.Trajectory[i] = s.Trajectory
	c.Step[i] = int32(s.Step)
	c.Perturbed[i] = s.Perturbed
}

// blocks are the float columns under their names on disk.
func (c *Columns) blocks() []block {
	return []block{
		{"s", c.S, 0}, {"c", c.C, 0}, {"w", c.Preference, 1}, {"u", c.U, 0}, {"target", c.Target, 0},
		{"sigma", c.Sigma, 0}, {"J", c.J, 0}, {"margin", c.Margins, 0},
		{"kkt", tensor.Matrix{Rows: c.Rows(), Cols: 1, Stride: 1, Data: c.KKT}, 0},
	}
}

// block is one vector column; the components before from are not stored as
// floats (the preference's flag is a boolean column).
type block struct {
	name string
	m    tensor.Matrix
	from int
}

// column is the name of component j on disk: name_j, or name alone for kkt.
func (b block) column(j int) string {
	if b.name == "kkt" {
		return b.name
	}
	return fmt.Sprintf("%s_%d", b.name, j-b.from)
}

// contentHash identifies a set of samples whatever their order and their
// division into parts: the sum modulo 2^256 of the SHA-256 of each.
type contentHash [4]uint64

func (h *contentHash) add(o contentHash) {
	var carry uint64
	for i := range h {
		h[i], carry = bits.Add64(h[i], o[i], carry)
	}
}

func (h contentHash) String() string {
	var b [32]byte
	for i, v := range h {
		binary.BigEndian.PutUint64(b[8*(3-i):], v)
	}
	return hex.EncodeToString(b[:])
}

func parseHash(s string) (contentHash, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 32 {
		return contentHash{}, fmt.Errorf("hash %q is not 64 hexadecimal digits", s)
	}
	var h contentHash
	for i := range h {
		h[i] = binary.BigEndian.Uint64(b[8*(3-i):])
	}
	return h, nil
}

// hash is the content hash of rows [from, to).
func (c *Columns) hash(from, to int) contentHash {
	var sum contentHash
	var buf []byte
	blocks := c.blocks()
	for i := from; i < to; i++ {
		buf = binary.LittleEndian.AppendUint32(buf[:0], uint32(c.Scenario[i]))
		buf = binary.LittleEndian.AppendUint64(buf, uint64(c.Trajectory[i]))
		buf = binary.LittleEndian.AppendUint32(buf, uint32(c.Step[i]))
		perturbed := byte(0)
		if c.Perturbed[i] {
			perturbed = 1
		}
		buf = append(buf, perturbed)
		for _, b := range blocks {
			for _, v := range b.m.Row(i) {
				buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
			}
		}
		d := sha256.Sum256(buf)
		var row contentHash
		for k := range row {
			row[k] = binary.LittleEndian.Uint64(d[8*k:])
		}
		sum.add(row)
	}
	return sum
}
