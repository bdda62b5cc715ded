//go:build linux && amd64 && !purego

package lanes

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/internal/simd/isa"
)

// Native code holds bitwise what the interpreter computes, in every cell that outlives the program.
func TestNativeCodeAgreesBitwise(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const cells = 150
	ran := 0
	for trial := range 400 {
		p := randomSingles(rng, cells, 1+rng.IntN(600))
		for _, k := range kernels() {
			native, err := Native(k.level, k.width, p)
			if err != nil {
				t.Fatal(err)
			}
			interpreted, err := Compile(k.level, k.width, p)
			if err != nil {
				t.Fatal(err)
			}
			got, want := NewMachine(native), NewMachine(interpreted)
			for i := range got.cells {
				v := edges[rng.IntN(len(edges))]
				if i < numbers*k.width || rng.IntN(3) > 0 {
					v = rng.NormFloat64()
				}
				got.cells[i], want.cells[i] = v, v
			}
			if native.native != nil {
				ran++
			}
			got.Run(0)
			want.Run(0)
			for i, w := range want.cells[:cells*k.width] {
				if g := got.cells[i]; math.Float64bits(g) != math.Float64bits(w) && !(math.IsNaN(g) && math.IsNaN(w)) {
					t.Fatalf("trial %d, %v, %d lanes: cell %d is %v, want %v", trial, k.level, k.width, i/k.width, g, w)
				}
			}
		}
	}
	for _, k := range kernels() {
		if k.level != isa.Generic && k.width > 1 && ran == 0 {
			t.Error("nothing ran as native code")
		}
	}
}

// randomSingles is a program of operations on cells and rows, with temporaries.
func randomSingles(rng *rand.Rand, cells, size int) *Program {
	var layout Layout
	layout.New(cells)
	b := NewBuilder(&layout)
	var made []Col
	cell := func() Col {
		if len(made) > 0 && rng.IntN(2) == 0 {
			return made[len(made)-1-rng.IntN(min(len(made), 40))]
		}
		return Col{Ref(numbers + rng.IntN(cells-numbers))}
	}
	for range size {
		o := op(1 + rng.IntN(int(opCount)-1))
		switch {
		case o >= opPivot && o <= opUpper:
		case onBits(o):
			b.fresh(o, []Col{{Ref(rng.IntN(numbers))}, {Ref(rng.IntN(numbers))}}[:operands[o]-1]...)
		case o == opRow || o == opRowSum || o == opRowSet:
			row := 1 + rng.IntN(20)
			d, x := Ref(numbers+1+rng.IntN(60-numbers-row)), Ref(80+rng.IntN(70-row))
			for range 1 + rng.IntN(4) {
				a := uint32(60 + rng.IntN(20)) // a factor is in neither row
				if o == opRowSet {
					copy(b.extend(o, 0, 0, 1), []uint32{uint32(d), a, uint32(x), uint32(row)})
				} else {
					copy(b.extend(o, d, row, 1), []uint32{a, uint32(x)})
				}
			}
		case reduces[o]:
			for d := Ref(numbers); rng.IntN(4) > 0; { // which is no term of the sum
				args := b.extend(o, d, 0, 1)
				for i := range args {
					args[i] = uint32(numbers + 1 + rng.IntN(cells-numbers-1))
				}
			}
		default:
			n := 1 + rng.IntN(9)
			in := make([]Col, operands[o]-1)
			for i := range in {
				if in[i] = cell(); rng.IntN(3) == 0 { // a column, of which stretches are made
					in[i] = nil
					first := Ref(numbers + rng.IntN(cells-numbers-n))
					for k := range n {
						in[i] = append(in[i], first+Ref(k))
					}
				}
			}
			if rng.IntN(2) == 0 {
				d := b.fresh(o, in...)
				made = append(made, d[:1], d[len(d)-1:])
				continue
			}
			d := make(Col, length(in...))
			first := Ref(numbers + rng.IntN(cells-numbers-len(d)))
			for k := range d {
				d[k] = first + Ref(k)
			}
			b.emit(o, len(d), append([]Col{d}, in...)...)
		}
	}
	return b.Program()
}
