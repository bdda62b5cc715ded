package lanes

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/require"
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
	var layout Layout
	layout.New(cells)
	b := NewBuilder(&layout)
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
		case opRow, opRowSum:
			return [4]int{1, 15}
		case opRowSet:
			return [4]int{9, 1, 9}
		}
		return [4]int{1, 1, 1, 1}
	}
	for _, k := range rng.Perm(int(opCount) - 1) {
		o := op(k + 1)
		row, head := 0, Ref(0)
		if reduces[o] {
			head = Ref(numbers + rng.IntN(cells-numbers))
		}
		if o.onRow() {
			head, row = Ref(numbers+rng.IntN(cells-numbers-15)), 1+rng.IntN(15)
		}
		for range 1 + rng.IntN(5) {
			var taken [][2]int
			args := b.extend(o, head, row, 1)
			for i := range args {
				n := sizes(o)[i]
				if o == opRowSet && i == counts {
					args[i] = uint32(1 + rng.IntN(9))
					continue
				}
				for {
					at := numbers + rng.IntN(cells-numbers-n)
					if onBits(o) && i > 0 {
						at = rng.IntN(numbers)
					}
					free := !reduces[o] || Ref(at) != head
					if o.onRow() {
						free = at+n <= int(head) || int(head)+row <= at
					}
					for _, t := range taken {
						free = free && (n == 1 && t[1] == 1 || at+n <= t[0] || t[0]+t[1] <= at)
					}
					if free {
						taken = append(taken, [2]int{at, n})
						args[i] = uint32(at)
						break
					}
				}
			}
		}
	}
	return b.Program()
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

// A program of several chunks computes what one loop does: a chain of sums, a reduction, a row
// and a sum of rows, each longer than a chunk.
func TestProgramsOfSeveralChunks(t *testing.T) {
	const n, length = chunkWords, 5
	var layout Layout
	x, sum, row, rows, chain := layout.New(n), layout.New(1), layout.New(length), layout.New(length), layout.New(1)
	b := NewBuilder(&layout)
	latest := chain
	for i := range n {
		latest = b.FMA(latest, x[i:i+1], x[i:i+1])
	}
	b.Copy(chain, latest)
	b.Dot(sum, x, x)
	for i := range n - length {
		b.Row(row[0], x[i], x[i+1], length)
	}
	b.RowSum(rows[0], x[:1], x[9:10], length) // is lost
	b.RowSum(rows[0], x[:n-length], x[1:1+n-length], length)
	b.Copy(x[:n-1], x[1:])
	p := b.Program()
	if len(p.code) < 4 || p.Operations() != n+1+n+2*(n-length)+1+n-1 || p.cells > n+2+2*length+2 {
		t.Fatalf("%d chunks, %d operations, %d cells, want at least 4, %d, at most %d",
			len(p.code), p.Operations(), p.cells, 5*n-2*length+1, n+2*length+4)
	}
	at := func(i int) float64 { return math.Sin(float64(i)) }
	wantChain, wantSum, wantRow := 0.0, 0.0, [length]float64{}
	for i := range n {
		wantChain = math.FMA(wantChain, at(i), at(i))
		wantSum = math.FMA(at(i), at(i), wantSum)
	}
	for i := range n - length {
		for k := range wantRow {
			wantRow[k] = math.FMA(at(i), at(i+1+k), wantRow[k])
		}
	}
	for _, k := range kernels() {
		c, err := Compile(k.level, k.width, p)
		if err != nil {
			t.Fatal(err)
		}
		m := NewMachine(c)
		for i := range n {
			m.SetAll(x[i], at(i))
		}
		for _, r := range rows { // what a sum writes over
			m.SetAll(r, math.NaN())
		}
		m.Run(0)
		got := []float64{m.Get(chain[0], 0), m.Get(sum[0], k.width-1), m.Get(x[0], 0), m.Get(x[n-2], 0)}
		want := []float64{wantChain, wantSum, at(1), at(n - 1)}
		for i := range wantRow {
			got, want = append(got, m.Get(row[i], 0), m.Get(rows[i], 0)), append(want, wantRow[i], wantRow[i])
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%v×%d: number %d is %v, want %v", k.level, k.width, i, got[i], want[i])
			}
		}
	}
}

// Programs that were taken, and those made for another width from them, have the code of a copy.
func TestTakenProgramsAreTheSame(t *testing.T) {
	made := func() *Program { return randomProgram(rand.New(rand.NewPCG(5, 6)), 150) }
	p := made()
	operations, count := p.Operations(), p.Flops()
	taken, err := Take(isa.Generic, 2, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{2, 4, 1} {
		want, err := Compile(isa.Generic, width, made())
		if err != nil {
			t.Fatal(err)
		}
		got, err := taken.For(isa.Generic, width)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the code for %d lanes is another one", width)
		}
	}
	if p.Operations() != operations || p.Flops() != count {
		t.Errorf("a taken program has %d operations, %d flops, want %d, %d", p.Operations(), p.Flops(), operations, count)
	}
	if _, err := Compile(isa.Generic, 1, p); err == nil {
		t.Error("a program that was taken was compiled")
	}
	if _, err := taken.For(isa.Generic, 0); err == nil {
		t.Error("no lanes were accepted")
	}
}

// Cells that are read in all lanes and written elsewhere are the same there.
func TestCellsAreReadAndWrittenInAllLanes(t *testing.T) {
	var layout Layout
	layout.New(7)
	c := require.Get(Compile(isa.Generic, 3, NewBuilder(&layout).Program()))(t)
	from, to := NewMachine(c), NewMachine(c)
	for r := range Ref(7) {
		for lane := range 3 {
			from.Set(r, lane, float64(10*r)+float64(lane))
		}
	}
	kept := make([]float64, 2*3)
	from.Read(kept, 4)
	to.Write(1, kept)
	for r, want := range map[Ref]float64{0: 0, 1: 40, 2: 50, 3: 0} {
		for lane := range 3 {
			if want > 0 && lane > 0 {
				want++
			}
			if got := to.Get(r, lane); got != want {
				t.Errorf("cell %d, lane %d: %g, want %g", r, lane, got, want)
			}
		}
	}
}

// Rows go into lanes and come back, whatever their number, length and distance, and nothing beside them is written.
func TestRowsAreThoseOfSingleLanes(t *testing.T) {
	const most = 19
	program := randomProgram(rand.New(rand.NewPCG(1, 2)), 150)
	for _, k := range kernels() {
		level, width := k.level, k.width
		m := NewMachine(require.Get(Compile(level, width, program))(t))
		for columns := range most + 1 {
			for n := 1; n <= width; n++ {
				stride := columns + n%3
				rows := make([]float64, n*stride)
				for i := range rows {
					rows[i] = float64(i + 1)
				}
				for i := range m.cells {
					m.cells[i] = -1
				}
				m.ScatterRows(1, rows, stride, columns, n)
				out := make([]float64, len(rows))
				m.GatherRows(out, stride, columns, n, 1)
				for lane := range width {
					for i := range most + 2 {
						want := -1.0
						if i > 0 && i <= columns {
							want = rows[min(lane, n-1)*stride+i-1]
						}
						if got := m.Get(Ref(i), lane); got != want {
							t.Fatalf("%v, %d lanes, %d rows of %d: cell %d of lane %d is %v, want %v", level, width, n, columns, i, lane, got, want)
						}
					}
				}
				for i, v := range out {
					want := 0.0
					if i%max(1, stride) < columns {
						want = rows[i]
					}
					if v != want {
						t.Fatalf("%v, %d lanes, %d rows of %d: number %d comes back as %v, want %v", level, width, n, columns, i, v, want)
					}
				}
			}
		}
	}
}
