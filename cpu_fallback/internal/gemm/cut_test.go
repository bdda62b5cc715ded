package gemm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/isa"
	"github.com/gpc-engine/gpc/tensor"
)

// Whatever the height of a tile and the depth of a pass, every result has the same bits: from
// zero, bias and old values, with and without ReLU, mask and lists, with zeros of both signs,
// infinities and NaN among the operands.
func TestNoCutChangesABit(t *testing.T) {
	rng := rand.New(rand.NewPCG(991, 1))
	for _, level := range isa.Available() {
		whole := For(level).Cut(math.MaxInt, 0)
		for variant := range 96 {
			rows, inner, cols := 1+rng.IntN(30), rng.IntN(90), 1+rng.IntN(150)
			p := Product{Rows: rows, A: random(rng, rows*(inner+1)), ARow: inner + 1, AStep: 1, CRow: cols, Init: Init(variant % 3), ReLU: variant%2 == 0}
			if variant%4 == 3 {
				p.ARow, p.AStep = 1, rows
			}
			w := tensor.Matrix{Rows: inner, Cols: cols, Stride: cols, Data: random(rng, inner*cols)}
			bias := random(rng, cols)
			special(rng, p.A, true)
			special(rng, bias, true)
			special(rng, w.Data, false) // a single row leaves its zeros out
			p.B = whole.NewPanels(inner, cols)
			p.B.Pack(w)
			copy(p.B.Bias, bias)
			if variant%3 == 1 {
				p.Where, p.WhereRow = random(rng, rows*cols), cols
			}
			if variant%5 == 4 && p.AStep == 1 {
				p.AList, p.BList = randomSublists(rng, inner)
			}
			old := random(rng, rows*cols)
			special(rng, old, true)
			multiplied := func(k Kernel) []float32 {
				q := p
				q.C = slices.Clone(old)
				k.Multiply(&q)
				return q.C
			}
			want := multiplied(whole)
			for _, height := range []int{1, 2, whole.rows/2 + 1, whole.rows} {
				for _, depth := range []int{1, 3, 16, 64, 0} {
					got := multiplied(whole.Cut(height, depth))
					for i := range want {
						if math.Float32bits(got[i]) != math.Float32bits(want[i]) && !(got[i] != got[i] && want[i] != want[i]) {
							t.Fatalf("%v, %d×%d×%d, variant %d, tiles of %d rows, passes of %d: element %d is %v, whole %v", level, rows, inner, cols, variant, height, depth, i, got[i], want[i])
						}
					}
				}
			}
		}
	}
}

// special puts zeros of both signs and, seldom, what is no number among values.
func special(rng *rand.Rand, v []float32, infinite bool) {
	for i := range v {
		switch rng.IntN(40) {
		case 0, 1:
			v[i] = 0
		case 2, 3:
			v[i] = float32(math.Copysign(0, -1))
		case 4:
			if infinite && rng.IntN(20) == 0 {
				v[i] = []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}[rng.IntN(3)]
			}
		}
	}
}
