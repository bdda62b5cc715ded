package lanes

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/internal/isa"
)

// edges are the values that instruction sets are most likely to treat
// differently.
var edges = []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), 5e-324, -5e-324, math.MaxFloat64, 0.5, 1.5, -2.5, 1e-300}

// numbers is how many cells stay numbers: the bits of a NaN are nobody's promise, so that the operations on bits read these alone.
const numbers = 20

func onBits(o op) bool { return o == opAnd || o == opOr || o == opShiftUp || o == opShiftDown }

// randomProgram is a program of one run per operation in a random order on
// random cells, block operands apart from one another.
func randomProgram(rng *rand.Rand, cells int) *Program {
	p := &Program{cells: cells}
	sizes := func(o op) [4]int {
		switch o {
		case opPivot:
			return [4]int{16, 16, 1}
		case opScale, opSymmetric, opProduct:
			return [4]int{16, 16, 16}
		case opForward, opBackward, opLower:
			return [4]int{4, 16, 4}
		case opUpper:
			return [4]int{4, 16}
		case opRow:
			return [4]int{1, 15}
		case opRowSet:
			return [4]int{9, 1, 9}
		}
		return [4]int{1, 1, 1, 1}
	}
	for _, k := range rng.Perm(int(opCount) - 1) {
		o := op(k + 1)
		r := run{op: o}
		if reduces[o] {
			r.head = Ref(numbers + rng.IntN(cells-numbers))
		}
		if o == opRow {
			r.head, r.row = Ref(numbers+rng.IntN(cells-numbers-15)), 1+rng.IntN(15)
		}
		for range 1 + rng.IntN(5) {
			var taken [][2]int
			for i := range operands[o] {
				n := sizes(o)[i]
				if o == opRowSet && i == counts {
					r.args = append(r.args, Ref(1+rng.IntN(9)))
					continue
				}
				for {
					at := numbers + rng.IntN(cells-numbers-n)
					if onBits(o) && i > 0 {
						at = rng.IntN(numbers)
					}
					free := !reduces[o] || Ref(at) != r.head
					if o == opRow {
						free = at+n <= int(r.head) || int(r.head)+r.row <= at
					}
					for _, t := range taken {
						free = free && (n == 1 && t[1] == 1 || at+n <= t[0] || t[0]+t[1] <= at)
					}
					if free {
						taken = append(taken, [2]int{at, n})
						r.args = append(r.args, Ref(at))
						break
					}
				}
			}
		}
		p.runs = append(p.runs, r)
	}
	return p
}

type kernel struct {
	level isa.Level
	width int
}

// kernels lists what this CPU and build can run.
func kernels() (out []kernel) {
	for _, level := range isa.Available() {
		for _, width := range Widths(level) {
			out = append(out, kernel{level, width})
		}
	}
	return out
}

// Every lane of every instruction set holds bitwise what the Go interpreter
// computes for that lane alone.
func TestInstructionSetsAgreeBitwise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const cells = 150
	for trial := range 200 {
		p := randomProgram(rng, cells)
		for _, k := range kernels() {
			level, width := k.level, k.width
			c, err := Compile(level, width, p)
			if err != nil {
				t.Fatal(err)
			}
			m := NewMachine(c)
			single, err := Compile(isa.Generic, 1, p)
			if err != nil {
				t.Fatal(err)
			}
			want := make([]*Machine, width)
			for l := range want {
				want[l] = NewMachine(single)
				for i := range Ref(cells) {
					v := rng.NormFloat64()
					if trial%2 == 1 && rng.IntN(8) == 0 {
						if edge := edges[rng.IntN(len(edges))]; i >= numbers || !math.IsNaN(edge) {
							v = edge
						}
					}
					m.Set(i, l, v)
					want[l].Set(i, 0, v)
				}
				want[l].Run(0)
			}
			m.Run(0)
			for l := range want {
				for i := range Ref(cells) {
					got, w := m.Get(i, l), want[l].Get(i, 0)
					if math.Float64bits(got) != math.Float64bits(w) && !(math.IsNaN(got) && math.IsNaN(w)) {
						t.Fatalf("trial %d, %+v: lane %d, cell %d is %v, want %v", trial, k, l, i, got, w)
					}
				}
			}
		}
	}
}

// A pivoted block solves by its lower and upper factor, and counts negative
// eigenvalues.
func TestPivotSolvesAndCounts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		a := mat.NewSymDense(4, nil)
		for i := range 4 {
			for j := range i + 1 {
				a.SetSym(i, j, rng.NormFloat64())
			}
		}
		var layout Layout
		block, pivot, negative := layout.Blocks(1)[0], layout.Blocks(1)[0], layout.New(1)[0]
		y, x := layout.New(4), layout.New(4)
		b := NewBuilder(&layout)
		b.Pivot(block, pivot, negative)
		b.Lower(y[0], pivot, x[0])
		b.Upper(x[0], pivot)
		c, err := Compile(isa.Generic, 1, b.Program())
		if err != nil {
			rt.Fatal(err)
		}
		m := NewMachine(c)
		for i := range 4 {
			for j := range i + 1 {
				m.Set(block+Ref(4*i+j), 0, a.At(i, j))
			}
		}
		var rhs [4]float64
		for i := range rhs {
			rhs[i] = rng.NormFloat64()
			m.Set(y[i], 0, rhs[i])
		}
		m.Run(0)
		var e mat.EigenSym
		if !e.Factorize(a, false) {
			rt.Fatal("no eigenvalues")
		}
		least, want := math.Inf(1), 0.0
		for _, v := range e.Values(nil) {
			least = min(least, math.Abs(v))
			if v < 0 {
				want++
			}
		}
		corner := a.At(0, 0)*a.At(1, 1) - a.At(0, 1)*a.At(0, 1)
		if least < 1e-3 || math.Abs(corner) < 1e-3 {
			return // too near to singular for the tolerance below
		}
		if got := m.Get(negative, 0); got != want {
			rt.Fatalf("%v negative eigenvalues, want %v", got, want)
		}
		for i, want := range rhs {
			for j := range 4 {
				want -= a.At(i, j) * m.Get(x[j], 0)
			}
			if !(math.Abs(want) < 1e-9) {
				rt.Fatalf("(y − A·x)[%d] = %g", i, want)
			}
		}
	})
}

func TestCompileRefusesAWidthThatAssemblyDoesNotHave(t *testing.T) {
	for _, level := range isa.Available() {
		if level == isa.Generic {
			continue
		}
		if _, err := Compile(level, 3); err == nil {
			t.Errorf("%v with 3 lanes was accepted", level)
		}
	}
	if _, err := Compile(isa.Generic, 0); err == nil {
		t.Error("no lanes were accepted")
	}
}
