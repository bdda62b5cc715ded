// Package backendtest is the one conformance suite of package backend: every
// backend is compared with package ref, operation by operation, over shapes,
// batch sizes and edge values. RunDomain does the same for a control problem.
//
// The central function is Run. Tolerances stand in one table (tolerances.go),
// which docs/contribute/numerics.md repeats with its reasons.
//
// # What is asked of a backend
//
//   - Results within tolerance of ref at every shape; outputs may be strided,
//     inputs may be strided or broadcast (stride 0).
//   - A finite reference asks for a finite result, a non-finite reference for a
//     non-finite one. The derivative operations of a row whose latent is not
//     finite are not compared.
//   - One row's NaN changes no other row, bitwise.
//   - A row computed alone equals the row inside a batch within tolerance (not
//     bitwise: a batch's tail may run through another register tile).
//   - The same call gives bitwise the same result with one thread and with two.
//   - A wrong shape is an error that leaves outputs alone, never a panic.
//   - A trainer resumed from a State is bitwise the trainer it was taken from,
//     and States carry the same arrays as ref's.
package backendtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Open makes a backend that uses the given number of threads; 0 is its default.
// A backend without threads ignores it. The suite closes what it opens.
type Open func(t testing.TB, threads int) backend.Backend

// Run holds the backend to the reference. Under -short it takes some of the shapes, among
// them every size.
func Run(t *testing.T, open Open) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.run(t, open) })
	}
}

// check is a part of the suite.
type check struct {
	name string
	run  func(t testing.TB, open Open)
}

// checks are the parts of the suite.
var checks = []check{
	{"net", checkNets},
	{"net-strides", checkNetStrides},
	{"net-edges", checkNetEdges},
	{"net-position", checkNetPosition},
	{"net-shapes", checkNetShapes},
	{"eig", checkEig},
	{"eig-degenerate", checkEigDegenerate},
	{"eig-shapes", checkEigShapes},
	{"index", checkIndex},
	{"index-ties", checkIndexTies},
	{"index-edges", checkIndexEdges},
	{"index-shapes", checkIndexShapes},
	{"step", checkStep},
	{"step-plain", checkStepPlain},
	{"step-group", checkStepGroup},
	{"step-broadcast", checkStepBroadcast},
	{"step-fallbacks", checkStepFallbacks},
	{"step-shapes", checkStepShapes},
	{"loops", checkLoops},
	{"trainer-manifold", checkManifold},
	{"trainer-rollout", checkRollout},
	{"trainer-chain", checkChain},
	{"trainer-resume", checkResume},
	{"trainer-shapes", checkTrainerShapes},
	{"threads", checkThreads},
}

var (
	latentSizes = []int{1, 2, 3, 5, 16, 32, 33, 64}
	hiddenSizes = []int{7, 33, 256}
	outputSizes = []int{1, 2, 12, 60}
	batchSizes  = []int{1, 2, 31, 32, 33}
)

// bigBatch is run only where a row is cheap.
const bigBatch = 1000

func opened(t testing.TB, open Open, threads int) backend.Backend {
	b := open(t, threads)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)) }

// strided returns a matrix of the same content with a gap of garbage after
// every row.
func strided(m tensor.Matrix) tensor.Matrix {
	const gap = 5
	s := tensor.Matrix{Rows: m.Rows, Cols: m.Cols, Stride: m.Cols + gap, Data: make([]float32, m.Rows*(m.Cols+gap))}
	for i := range s.Data {
		s.Data[i] = garbage
	}
	for b := range m.Rows {
		copy(s.Row(b), m.Row(b))
	}
	return s
}

// garbage fills outputs before a call and gaps between rows: what must be
// written is not left so, what must not be written is.
const garbage = 12345.678

func output(rows, cols int) tensor.Matrix {
	m := tensor.New(rows, cols)
	for i := range m.Data {
		m.Data[i] = garbage
	}
	return m
}

// gapsUntouched reports whether the gaps of a strided output still hold garbage.
func gapsUntouched(m tensor.Matrix) bool {
	for b := range m.Rows {
		end := min((b+1)*m.Stride, len(m.Data))
		for _, v := range m.Data[b*m.Stride+m.Cols : end] {
			if v != garbage {
				return false
			}
		}
	}
	return true
}

func row64(row []float32) []float64 {
	v := make([]float64, len(row))
	tensor.Widen(v, row)
	return v
}

// wantError fails unless the call returned an error and did not panic.
func wantError(t testing.TB, what string, call func() error) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%s: panics with %v, want an error", what, p)
		}
	}()
	if err := call(); err == nil {
		t.Errorf("%s: no error", what)
	}
}

// shape is one network of the suite.
type shape struct {
	widths  []int
	batches []int
}

func (s shape) String() string { return fmt.Sprint(s.widths) }

// shapes is every latent × hidden × output size as a network of three layers,
// with two of the batch sizes each in rotation (one for the most expensive) and
// the big batch where cheap,
// and some networks of one, two and four layers.
func shapes() []shape {
	var list []shape
	for i, n := range latentSizes {
		for j, h := range hiddenSizes {
			for k, m := range outputSizes {
				turn := i + 2*j + 3*k
				s := shape{[]int{n, h, h, m}, []int{batchSizes[turn%5], batchSizes[(turn+2)%5]}}
				if h == 256 && m == 60 {
					s.batches = s.batches[:1]
				}
				if h <= 33 && m <= 2 && n <= 16 {
					s.batches = append(s.batches, bigBatch)
				}
				list = append(list, s)
			}
		}
	}
	for i, widths := range [][]int{{1, 1}, {5, 12}, {64, 60}, {3, 7, 2}, {33, 256, 12}, {16, 33, 7, 31, 5}, {2, 65, 17, 129, 3}} {
		list = append(list, shape{widths, []int{batchSizes[i%5], batchSizes[(i+3)%5]}})
	}
	return list
}

func everyNth(list []shape, n int) (some []shape) {
	for i := 0; i < len(list); i += n {
		some = append(some, list[i])
	}
	return some
}

// KinkMargin is the smallest |a|/(Σ|w||h| + |b|) over the hidden pre-activations
// a = Σ w h + b at x: how far, relative to what rounding can move it, the row is
// from a point where the derivative jumps. +Inf without a hidden layer.
func KinkMargin(m *ref.MLP, x []float64) float64 {
	p := m.Run(x)
	margin := math.Inf(1)
	for l, layer := range m.Layers[:len(m.Layers)-1] {
		for o, a := range p.Pre[l] {
			size := math.Abs(layer.B[o])
			for i, w := range layer.W[o*layer.In : (o+1)*layer.In] {
				size += math.Abs(w * p.Input[l][i])
			}
			if size > 0 {
				margin = math.Min(margin, math.Abs(a)/size)
			}
		}
	}
	return margin
}

// smoothRows marks the rows that are away from every kink of the networks.
func smoothRows(z tensor.Matrix, nets ...*model.MLP) []bool {
	keep := make([]bool, z.Rows)
	for b := range keep {
		keep[b] = true
		for _, n := range nets {
			if !(KinkMargin(ref.Widen(n), row64(z.Row(b))) > kinkMargin) {
				keep[b] = false
			}
		}
	}
	return keep
}

// share fails when the exclusions leave too few rows to mean anything.
func share(t testing.TB, what string, kept, total int) {
	t.Helper()
	if float64(kept) < comparedShare*float64(total) {
		t.Errorf("%s: only %d of %d rows can be compared; the suite's inputs are badly chosen", what, kept, total)
	}
}

func count(keep []bool) int {
	n := 0
	for _, k := range keep {
		if k {
			n++
		}
	}
	return n
}

// all joins slices of float32 for bitwise comparison.
func all(parts ...[]float32) []float32 { return slices.Concat(parts...) }
