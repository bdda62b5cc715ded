package programs

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// runner is a function on the lanes of one instruction set.
type runner struct {
	machine *lanes.Machine
	in, out lanes.Col
}

func laid(t testing.TB, f *program.Function, level isa.Level, width int) *runner {
	t.Helper()
	var layout lanes.Layout
	r := &runner{in: layout.New(f.Entries()), out: layout.New(f.Results())}
	constants := NewConstants(&layout)
	code := New(constants)
	inputs := make([]Value, f.Entries())
	for i, at := range r.in {
		inputs[i] = code.Cell(at)
	}
	outputs := code.Function(f, inputs)
	b := lanes.NewBuilder(&layout)
	for i, at := range code.Emit(b, outputs, nil) {
		b.Copy(r.out[i:i+1], lanes.Col{at})
	}
	compiled, err := lanes.Compile(level, width, b.Program())
	if err != nil {
		t.Fatal(err)
	}
	r.machine = lanes.NewMachine(compiled)
	constants.Fill(r.machine)
	return r
}

// run evaluates points, as many as there are lanes or fewer.
func (r *runner) run(points [][]float64) (out [][]float64) {
	for l, x := range points {
		for i, v := range x {
			r.machine.Set(r.in[i], l, v)
		}
	}
	r.machine.Run(0)
	for l := range points {
		y := make([]float64, len(r.out))
		for i, at := range r.out {
			y[i] = r.machine.Get(at, l)
		}
		out = append(out, y)
	}
	return out
}

// elementary is an operation as a function.
func elementary(o program.Op) *program.Function {
	b := program.NewBuilder(o.String(), program.Argument{Name: "x", Size: o.Arity()})
	return b.Function([]program.Argument{{Name: "y", Size: 1}}, []program.Value{b.Apply(o, b.In(0)...)})
}

func same(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}

// argument is one that the operation has a finite result for, most of them.
func argument(o program.Op, rng *rand.Rand) float64 {
	wide := func(lo, hi float64) float64 {
		return math.Copysign(math.Exp2(lo+(hi-lo)*rng.Float64()), rng.Float64()-0.5)
	}
	switch o {
	case program.Sin, program.Cos, program.Tan:
		if rng.IntN(3) == 0 { // near a multiple of π/2
			return float64(rng.IntN(1<<20)) * math.Pi / 2
		}
		return wide(-30, 29)
	case program.Asin, program.Acos:
		if rng.IntN(3) == 0 {
			return wide(-30, 0)
		}
		return 2*rng.Float64() - 1
	case program.Exp, program.Sinh, program.Cosh:
		if rng.IntN(2) == 0 {
			return 1400*rng.Float64() - 700
		}
		return wide(-30, 6)
	case program.Log:
		if rng.IntN(2) == 0 {
			return 0.5 + rng.Float64()
		}
		return math.Abs(wide(-1070, 1020))
	case program.Pow:
		return math.Abs(wide(-20, 20))
	case program.Hypot:
		return wide(-500, 500)
	}
	return wide(-40, 10)
}

// errorOf is in units of the last place of the exact result.
func errorOf(got float64, want *big.Float) float64 {
	near, _ := want.Float64()
	if math.IsInf(near, 0) && got == near {
		return 0
	}
	unit := math.Nextafter(math.Abs(near), math.Inf(1)) - math.Abs(near)
	unit = math.Max(unit, 0x1p-1074)
	if math.IsNaN(got) || math.IsInf(got, 0) || math.IsInf(near, 0) {
		return math.Inf(1)
	}
	d, _ := bigDiv(bigSub(bigOf(got), want), bigOf(unit)).Float64()
	return math.Abs(d)
}

// bounds are the largest errors of elementary functions, in units of the last place of the result. Arguments are any
// but those of Sin, Cos and Tan, which are NaN beyond Widest, and those of Pow with an exponent y that is not
// a small integer, whose error grows with it: 4 + 4|y|. Results below the least normal number may be off by as much of it. The sign of a zero that Sin or Tan returns is not kept.
var bounds = map[program.Op]float64{
	program.Sin: 1.5, program.Cos: 1.5, program.Tan: 3, program.Asin: 4, program.Acos: 3, program.Atan: 2, program.Atan2: 3,
	program.Exp: 1.5, program.Log: 1.5, program.Sinh: 4, program.Cosh: 3, program.Tanh: 4, program.Pow: 4, program.Hypot: 3,
}

// Elementary functions keep their bounds beside 300 bits.
func TestElementaryFunctionsKeepTheirBounds(t *testing.T) {
	trials := 5000
	if testing.Short() {
		trials = 500
	}
	for _, o := range program.Ops() {
		bound, ok := bounds[o]
		if !ok {
			continue
		}
		t.Run(o.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(o), 1))
			r := laid(t, elementary(o), isa.Generic, 1)
			worst, at := 0.0, []float64(nil)
			for range trials {
				x := make([]float64, o.Arity())
				for i := range x {
					x[i] = argument(o, rng)
				}
				limit := bound
				if o == program.Pow {
					x[1] = 8 * rng.NormFloat64()
					limit += 4 * math.Abs(x[1])
				}
				want := reference(o, x[0], x[len(x)-1])
				got := r.run([][]float64{x})[0][0]
				if near, _ := want.Float64(); math.Abs(near) < 0x1p-1022 {
					limit = math.Max(limit, 8)
				}
				e := errorOf(got, want)
				if e > limit {
					t.Fatalf("%s%v is %v, which is off by %.3g units of the last place, want at most %v", o, x, got, e, limit)
				}
				if e/limit > worst {
					worst, at = e/limit, x
				}
			}
			t.Logf("the largest error is %.2f of the bound, at %v", worst, at)
		})
	}
}

// edges are where functions are not what they are elsewhere.
var edges = []float64{0, math.Copysign(0, -1), 1, -1, 2, 3, -3, 0.5, -0.5, 1.5, math.Inf(1), math.Inf(-1), math.NaN(), 5e-324, math.MaxFloat64, -math.MaxFloat64, 1e-310, 710, -750, 1e5}

// At the edges the functions are those of package math: what is NaN, infinite or zero there is here.
func TestElementaryFunctionsAtTheEdges(t *testing.T) {
	for _, o := range program.Ops() {
		if _, ok := bounds[o]; !ok {
			continue
		}
		r := laid(t, elementary(o), isa.Generic, 1)
		for _, x := range edges {
			for _, y := range edges {
				if o.Arity() == 1 {
					y = 0
				}
				if (o == program.Log || o == program.Pow) && x != 0 && math.Abs(x) < 0x1p-1022 {
					continue // package math's logarithm is not one there on every processor
				}
				want := o.Compute(x, y, 0)
				switch o {
				case program.Sin, program.Cos, program.Tan:
					if math.Abs(x) > Widest {
						want = math.NaN()
					}
				case program.Hypot:
					if math.IsNaN(x) || math.IsNaN(y) {
						want = math.NaN()
					}
				}
				both := []float64{x, y}
				got := r.run([][]float64{both[:o.Arity()]})[0][0]
				tolerance := 1e-13 * math.Abs(want)
				if o == program.Pow && !math.IsInf(y, 0) {
					tolerance *= 1 + math.Abs(y)
				}
				ok := got == want || math.IsNaN(got) && math.IsNaN(want) || math.Abs(got-want) <= math.Max(tolerance, 1e-322)
				if !ok || want == 0 && o != program.Sin && o != program.Tan && math.Signbit(got) != math.Signbit(want) && o != program.Pow {
					t.Errorf("%s(%v, %v) is %v, want %v", o, x, y, got, want)
				}
			}
		}
	}
}

// powers are exponents that have products or roots of their own.
func TestConstantExponents(t *testing.T) {
	for _, y := range []float64{0.5, -0.5, 1.5, 2, 3, 7, 16, -1, -2, 2.5, 0.3, 20, -3.7} {
		b := program.NewBuilder("power", program.Argument{Name: "x", Size: 1})
		f := b.Function([]program.Argument{{Name: "y", Size: 1}}, []program.Value{b.Apply(program.Pow, 0, b.Const(y))})
		r := laid(t, f, isa.Generic, 1)
		for _, x := range append([]float64{0.1, 1.7, 123.4, -2.3}, edges...) {
			if x != 0 && math.Abs(x) < 0x1p-1022 {
				continue // as above
			}
			got, want := r.run([][]float64{{x}})[0][0], math.Pow(x, y)
			if !(got == want || math.IsNaN(got) && math.IsNaN(want) || math.Abs(got-want) <= 2e-14*math.Abs(want)) {
				t.Errorf("%v to the power of %v is %v, want %v", x, y, got, want)
			}
		}
	}
}

// random is a function of three inputs with every operation; exact ones alone where there is to be no elementary one.
func random(seed uint64, exact bool) *program.Function {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := program.NewBuilder("random", program.Argument{Name: "x", Size: 3})
	pool := append(b.In(0), b.Const(0.7), b.Const(-1.3), b.Const(2))
	for range 60 {
		o := program.Ops()[1+rng.IntN(len(program.Ops())-1)]
		if _, ok := bounds[o]; ok && exact {
			continue
		}
		var args []program.Value
		for range o.Arity() {
			args = append(args, pool[rng.IntN(len(pool))])
		}
		pool = append(pool, b.Apply(o, args...))
	}
	return b.Function([]program.Argument{{Name: "y", Size: len(pool)}}, pool)
}

func points(rng *rand.Rand, n int) (list [][]float64) {
	for range n {
		x := make([]float64, 3)
		for i := range x {
			if x[i] = 3 * rng.NormFloat64(); rng.IntN(6) == 0 {
				x[i] = edges[rng.IntN(len(edges))]
			}
		}
		list = append(list, x)
	}
	return list
}

// Without elementary functions lanes have the bits of the specification; with them, of each other on every instruction set and width.
func TestLanesAgreeBitwise(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		exact := seed%2 == 0
		f := random(seed, exact)
		at := points(rng, 8)
		single := laid(t, f, isa.Generic, 1)
		var want [][]float64
		for _, x := range at {
			want = append(want, single.run([][]float64{x})[0])
		}
		if exact {
			for k, x := range at {
				y := make([]float64, f.Results())
				f.Evaluate(x, y)
				if !slices.EqualFunc(y, want[k], same) {
					t.Fatalf("seed %d: at %v lanes have %v, the specification %v", seed, x, want[k], y)
				}
			}
		}
		for _, level := range isa.Available() {
			for _, width := range lanes.Widths(level) {
				r := laid(t, f, level, width)
				for from := 0; from < len(at); from += width {
					for k, y := range r.run(at[from : from+width]) {
						if !slices.EqualFunc(y, want[from+k], same) {
							t.Fatalf("seed %d, %v, %d lanes: at %v they have %v, want %v", seed, level, width, at[from+k], y, want[from+k])
						}
					}
				}
			}
		}
	}
}

// BenchmarkElementary is the time of one function in every lane, beside package math's.
func BenchmarkElementary(b *testing.B) {
	for _, o := range []program.Op{program.Sin, program.Exp, program.Log, program.Tanh, program.Atan} {
		const many = 64
		builder := program.NewBuilder("many", program.Argument{Name: "x", Size: many})
		var results []program.Value
		for _, x := range builder.In(0) {
			results = append(results, builder.Apply(o, x))
		}
		f := builder.Function([]program.Argument{{Name: "y", Size: many}}, results)
		x, y := make([]float64, many), make([]float64, many)
		for i := range x {
			x[i] = 0.1 + float64(i)/20
		}
		b.Run(fmt.Sprint(o, "/math"), func(b *testing.B) {
			for range b.N {
				f.Evaluate(x, y)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/value")
		})
		for _, level := range isa.Available() {
			width := lanes.Widths(level)[0]
			r := laid(b, f, level, width)
			for l := range width {
				for i, at := range r.in {
					r.machine.Set(at, l, x[i])
				}
			}
			b.Run(fmt.Sprint(o, "/", level), func(b *testing.B) {
				for range b.N {
					r.machine.Run(0)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many/float64(width), "ns/value")
			})
		}
	}
}
