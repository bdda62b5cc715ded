package lanes

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/internal/simd/isa"
)

// repeated is a program of columns whose cells advance, stay or jump, and overlap, and the same without stretches. Bits of what
// may not be a number are left out, as instruction sets differ in them.
func repeated(rng *rand.Rand, layout *Layout, cells int) (plain, short *Program) {
	var singles Builder
	b := NewBuilder(layout)
	for range 30 {
		o := op(1 + rng.IntN(int(opCount)-1))
		if !o.stretches() || onBits(o) {
			continue
		}
		n := 1 + rng.IntN(40)
		near := 50 + rng.IntN(cells-150)
		columns := make([]Col, operands[o])
		for q := range columns {
			cell, stride := Ref(near+rng.IntN(12)-6), Ref(min(1, rng.IntN(5)))
			if rng.IntN(12) == 0 {
				stride = 2
			}
			columns[q] = make(Col, n)
			for i := range columns[q] {
				if rng.IntN(60) == 0 {
					cell++
				}
				columns[q][i] = cell
				cell += stride
			}
			if rng.IntN(8) == 0 && q > 0 {
				columns[q] = columns[q][:1]
			}
		}
		head := Ref(rng.IntN(2))
		for i := range n {
			args := singles.extend(o, head, 0, 1)
			for q, c := range columns {
				args[q] = uint32(c[min(i, len(c)-1)])
			}
		}
		if reduces[o] {
			columns = append([]Col{{head}}, columns...)
		}
		b.emit(o, n, columns...)
	}
	singles.close()
	return &Program{code: singles.code, cells: cells, size: singles.size}, b.Program()
}

// Code with stretches computes bitwise what it computed before, on every instruction set, wherever operands overlap.
func TestStretchesAreTheirRepetitions(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const cells = 260
	found := 0
	for range 600 {
		var layout Layout
		layout.New(cells)
		plain, short := repeated(rng, &layout, cells)
		if plain.Operations() != short.Operations() || plain.Flops() != short.Flops() {
			t.Fatalf("%d operations of %d flops became %d of %d", plain.Operations(), plain.Flops(), short.Operations(), short.Flops())
		}
		forEachRun(short.code, func(r run) {
			if r.op >= stretch {
				found++
			}
		})
		for _, k := range kernels() {
			m := machineOf(t, k.level, k.width, short)
			want := make([]*Machine, k.width)
			for l := range want {
				want[l] = machineOf(t, isa.Generic, 1, plain)
				for i := range Ref(cells) {
					v := rng.NormFloat64()
					m.Set(i, l, v)
					want[l].Set(i, 0, v)
				}
				want[l].Run(0)
			}
			m.Run(0)
			for l, one := range want {
				for i := range Ref(cells) {
					if got, want := m.Get(i, l), one.Get(i, 0); math.Float64bits(got) != math.Float64bits(want) && !(math.IsNaN(got) && math.IsNaN(want)) {
						t.Fatalf("%v × %d: cell %d of lane %d is %v, want %v", k.level, k.width, i, l, got, want)
					}
				}
			}
		}
	}
	if found < 1000 {
		t.Errorf("%d runs of stretches, want 1000 at least", found)
	}
}

func machineOf(t *testing.T, level isa.Level, width int, p *Program) *Machine {
	t.Helper()
	c, err := Compile(level, width, p)
	if err != nil {
		t.Fatal(err)
	}
	return NewMachine(c)
}

// Temporaries keep their values until they are used last, in columns of any length, gathered and joined.
func TestTemporariesKeepTheirValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		var layout Layout
		type value struct {
			cells Col
			want  []float64
		}
		inputs, sink := layout.New(150), layout.New(150)
		in, outputs := value{cells: inputs}, value{}
		for range inputs {
			in.want = append(in.want, rng.NormFloat64())
		}
		b, live := NewBuilder(&layout), []value{in}
		// pick is a column of n cells of some values: a part of one, or gathered from two.
		pick := func(n int) (v value) {
			x, y := live[rng.IntN(len(live))], live[rng.IntN(len(live))]
			if first := rng.IntN(len(x.cells)); rng.IntN(2) == 0 && first+n <= len(x.cells) {
				return value{x.cells[first : first+n], x.want[first : first+n]}
			}
			for i := range n {
				if i > n/2 {
					x = y
				}
				k := (i + rng.IntN(2)) % len(x.cells)
				v.cells, v.want = append(v.cells, x.cells[k]), append(v.want, x.want[k])
			}
			return v
		}
		for range 40 {
			n := 1 + rng.IntN(70)
			x, y := pick(n), pick(n)
			sum := value{cells: b.Add(x.cells, y.cells)}
			for i := range n {
				sum.want = append(sum.want, x.want[i]+y.want[i])
			}
			if live = append(live, sum); rng.IntN(3) == 0 {
				live = live[len(live)/2:]
			}
		}
		outputs = pick(len(sink))
		b.Copy(sink, outputs.cells)
		m := machineOf(t, isa.Generic, 1, b.Program())
		for i, x := range in.want {
			m.Set(inputs[i], 0, x)
		}
		m.Run(0)
		for i, want := range outputs.want {
			if got := m.Get(sink[i], 0); got != want {
				t.Fatalf("cell %d is %v, want %v", i, got, want)
			}
		}
	}
}
