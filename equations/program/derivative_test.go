package program

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/equations/dual"
)

// random is a function of three inputs, smooth at most points near zero, with every operation that has a derivative.
func random(seed uint64) *Function {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := NewBuilder("random", Argument{Name: "x", Size: 3}, Argument{Name: "p", Size: 1})
	pool := append(b.inputValues(), b.Const(0.7), b.Const(-1.3), b.Const(2))
	pick := func() Value { return pool[len(pool)-1-min(rng.IntN(len(pool)), rng.IntN(len(pool)))] }
	// positive and within keep operations where they are defined, and sizes moderate.
	positive := func(v Value) Value { return b.Apply(Add, b.Const(0.3), b.Apply(Mul, v, v)) }
	within := func(v Value) Value { return b.Apply(Mul, b.Const(0.8), b.Apply(Sin, v)) }
	for range 5 + rng.IntN(25) {
		x, y := pick(), pick()
		var v Value
		switch o := Op(rng.IntN(int(opCount))); o {
		case Add, Sub, Min, Max:
			v = b.Apply(o, x, y)
		case Mul, Hypot, Atan2:
			v = b.Apply(o, within(x), positive(y))
		case Div:
			v = b.Apply(o, x, positive(y))
		case Pow:
			v = b.Apply(o, positive(within(x)), y)
			v = b.Apply(Tanh, v)
		case Sqrt, Log:
			v = b.Apply(o, positive(x))
		case Tan, Asin, Acos, Sinh, Cosh, Exp:
			v = b.Apply(o, within(x))
		case Neg, Abs, Sin, Cos, Atan, Tanh, Detach:
			v = b.Apply(o, x)
		case Select:
			v = b.Apply(o, b.Apply(Less, x, y), pick(), pick())
		default:
			continue
		}
		pool = append(pool, v)
	}
	return b.Function([]Argument{{Name: "y", Size: 3}}, pool[len(pool)-3:])
}

func point(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// duals evaluates f on dual numbers.
func duals(f *Function, in []complex128) []complex128 {
	w := make([]complex128, f.inputs+len(f.nodes))
	copy(w, in)
	for i, n := range f.nodes {
		x, y, z := w[n.arg[0]], w[n.arg[1]], w[n.arg[2]]
		at := &w[f.inputs+i]
		switch n.op {
		case Const:
			*at = complex(n.value, 0)
		case Add:
			*at = x + y
		case Sub:
			*at = x - y
		case Mul:
			*at = x * y
		case Div:
			*at = dual.Div(x, y)
		case Neg:
			*at = -x
		case Abs:
			*at = dual.Abs(x)
		case Sqrt:
			*at = dual.Sqrt(x)
		case Sin:
			*at = dual.Sin(x)
		case Cos:
			*at = dual.Cos(x)
		case Tan:
			*at = dual.Tan(x)
		case Asin:
			*at = dual.Asin(x)
		case Acos:
			*at = dual.Acos(x)
		case Atan:
			*at = dual.Atan(x)
		case Sinh:
			*at = dual.Sinh(x)
		case Cosh:
			*at = dual.Cosh(x)
		case Tanh:
			*at = dual.Tanh(x)
		case Exp:
			*at = dual.Exp(x)
		case Log:
			*at = dual.Log(x)
		case Pow:
			*at = dual.Pow(x, y)
		case Atan2:
			*at = dual.Atan2(x, y)
		case Hypot:
			*at = dual.Hypot(x, y)
		case Min:
			*at = dual.Min(x, y)
		case Max:
			*at = dual.Max(x, y)
		case Select:
			if *at = z; real(x) != 0 {
				*at = y
			}
		default: // Floor, Detach and truths
			*at = complex(compute(n.op, real(x), real(y), real(z)), 0)
		}
	}
	out := make([]complex128, len(f.results))
	for i, v := range f.results {
		out[i] = w[v]
	}
	return out
}

// along is the derivatives of f's outputs along a direction, by dual numbers.
func along(f *Function, x, direction []float64) []float64 {
	in := make([]complex128, len(x))
	for i, v := range x {
		in[i] = dual.Seed(v, direction[i])
	}
	out := duals(f, in)
	d := make([]float64, len(out))
	for i, v := range out {
		d[i] = dual.Derivative(v)
	}
	return d
}

func evaluate(f *Function, in ...float64) []float64 {
	out := make([]float64, f.Results())
	f.Evaluate(in, out)
	return out
}

// matrix is the last output of s, dense, with the rows of a symmetric one's upper triangle where symmetric.
func matrix(s *Sparse, rows, cols int, symmetric bool, in []float64) [][]float64 {
	m := make([][]float64, rows)
	for i := range m {
		m[i] = make([]float64, cols)
	}
	out := evaluate(s.Function, in...)
	for k, v := range out[len(out)-len(s.Rows):] {
		m[s.Rows[k]][s.Cols[k]] = v
		if symmetric {
			m[s.Cols[k]][s.Rows[k]] = v
		}
	}
	return m
}

func near(a, b, tolerance float64) bool {
	return math.Abs(a-b) <= tolerance*(1+math.Abs(a)+math.Abs(b))
}

// First derivatives, forward and reverse, are those of dual numbers to rounding, and of central differences to theirs.
func TestJacobianIsExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		f := random(seed)
		rng := rand.New(rand.NewPCG(seed, 2))
		x := point(rng, 4)
		forward, reverse := f.jacobian(nil, false), f.jacobian(nil, true)
		a, b := matrix(forward, 3, 4, false, x), matrix(reverse, 3, 4, false, x)
		if got, want := evaluate(forward.Function, x...)[:3], evaluate(f, x...); fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Fatalf("values beside the Jacobian are %v, want %v", got, want)
		}
		kinks := 0
		for k := range 4 {
			unit := make([]float64, 4)
			unit[k] = 1
			want := along(f, x, unit)
			const h = 1e-6
			plus, minus := append([]float64{}, x...), append([]float64{}, x...)
			plus[k] += h
			minus[k] -= h
			up, down := evaluate(f, plus...), evaluate(f, minus...)
			for i := range want {
				if !near(a[i][k], want[i], 1e-9) || !near(b[i][k], want[i], 1e-9) {
					rt.Fatalf("∂y[%d]/∂[%d] is %v forward and %v in reverse, by dual numbers %v", i, k, a[i][k], b[i][k], want[i])
				}
				if detached(f) {
					continue
				}
				if d := (up[i] - down[i]) / (2 * h); !near(a[i][k], d, 1e-3) {
					kinks++
				}
			}
		}
		if kinks > 0 && smooth(f) {
			rt.Fatalf("%d derivatives differ from differences", kinks)
		}
	})
}

func has(f *Function, list ...Op) bool {
	for _, n := range f.nodes {
		for _, o := range list {
			if n.op == o {
				return true
			}
		}
	}
	return false
}

func detached(f *Function) bool { return has(f, Detach) }

// smooth functions have no kink that a difference may straddle.
func smooth(f *Function) bool { return !has(f, Abs, Min, Max, Select, Floor) }

// The gradient is weightsᵀ·Jacobian, and the Hessian the Jacobian of the gradient by dual numbers.
func TestHessianIsExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		f := random(seed)
		rng := rand.New(rand.NewPCG(seed, 3))
		x, w := point(rng, 4), point(rng, 3)
		by := []int{0, 1, 2}
		in := append(append([]float64{}, x...), w...)
		gradient := f.Gradient(by)
		got := evaluate(gradient, in...)
		jacobian := matrix(f.Jacobian(by), 3, 4, false, x)
		for k := range by {
			want := 0.0
			for i := range w {
				want += w[i] * jacobian[i][k]
			}
			if !near(got[k], want, 1e-9) {
				rt.Fatalf("gradient[%d] is %v, want %v", k, got[k], want)
			}
		}
		s := f.Hessian(by)
		if first := evaluate(s.Function, in...)[:3]; fmt.Sprint(first) != fmt.Sprint(got) {
			rt.Fatalf("the gradient beside the Hessian is %v, want %v", first, got)
		}
		hessian := matrix(s, 4, 4, true, in)
		for k := range by {
			unit := make([]float64, len(in))
			unit[k] = 1
			for i, want := range along(gradient, in, unit) {
				if !near(hessian[i][k], want, 1e-7) {
					rt.Fatalf("∂²/∂[%d]∂[%d] is %v, by dual numbers %v", i, k, hessian[i][k], want)
				}
			}
		}
	})
}

// What is not in the pattern is zero everywhere, and what is there is not a constant zero.
func TestSparsityIsKnown(t *testing.T) {
	b := NewBuilder("f", Argument{Name: "x", Size: 4})
	x := b.In(0)
	square := b.Apply(Mul, x[0], x[0])
	f := b.Function([]Argument{{Name: "y", Size: 4}}, []Value{
		b.Apply(Add, square, b.Apply(Sin, x[1])), // x0² + sin x1
		b.Apply(Mul, b.Const(3), x[2]),           // linear
		b.Apply(Floor, x[3]),                     // flat
		b.Apply(Mul, x[1], x[2]),
	})
	j := f.Jacobian(nil)
	if got := fmt.Sprint(j.Rows, j.Cols); got != "[0 0 1 3 3] [0 1 2 1 2]" {
		t.Errorf("the Jacobian's pattern is %s", got)
	}
	h := f.Hessian(nil)
	if got := fmt.Sprint(h.Rows, h.Cols); got != "[0 1 2] [0 1 1]" {
		t.Errorf("the Hessian's pattern is %s", got)
	}
	if _, _, c := j.Operation(j.Result(4 + 2)); c != 3 {
		t.Errorf("∂(3 x2)/∂x2 is %v, want the constant 3", c)
	}
}

// one is a function of one input.
func one(f func(b *Builder, x Value) Value) *Function {
	b := NewBuilder("f", Argument{Name: "x", Size: 1})
	return b.Function([]Argument{{Name: "y", Size: 1}}, []Value{f(b, 0)})
}

// A derivative of the arm that was not taken is not a number, and is not seen: first and second, nested, shared.
func TestTheOtherArmOfABranchDoesNotLeak(t *testing.T) {
	positive := func(b *Builder, x Value) Value { return b.Apply(Less, b.Const(0), x) }
	for _, c := range []struct {
		name                       string
		f                          func(b *Builder, x Value) Value
		at, value, first, secondly float64
	}{
		{"√ behind a guard, not taken", func(b *Builder, x Value) Value {
			return b.Apply(Select, positive(b, x), b.Apply(Sqrt, x), b.Const(0))
		}, -1, 0, 0, 0},
		{"√ behind a guard, taken", func(b *Builder, x Value) Value {
			return b.Apply(Select, positive(b, x), b.Apply(Sqrt, x), b.Const(0))
		}, 4, 2, 0.25, -1. / 32},
		{"ln of a shared product", func(b *Builder, x Value) Value {
			cube := b.Apply(Mul, x, b.Apply(Mul, x, x))
			return b.Apply(Select, positive(b, x), b.Apply(Log, cube), cube)
		}, -2, -8, 12, -12},
		{"in an arm of an arm", func(b *Builder, x Value) Value {
			inner := b.Apply(Select, b.Apply(Less, x, b.Const(1)), b.Apply(Log, x), b.Apply(Sqrt, b.Apply(Sub, x, b.Const(1))))
			return b.Apply(Select, positive(b, x), inner, b.Apply(Mul, x, x))
		}, -3, 9, -6, 2},
		{"a quotient by zero", func(b *Builder, x Value) Value {
			return b.Apply(Select, b.Apply(Equal, x, b.Const(0)), b.Apply(Mul, b.Const(2), x), b.Apply(Div, b.Apply(Sin, x), b.Apply(Mul, x, x)))
		}, 0, 0, 2, 0},
		{"max of a constant and an infinite slope", func(b *Builder, x Value) Value {
			return b.Apply(Max, b.Const(-1), b.Apply(Sub, b.Const(-2), b.Apply(Div, b.Const(1), x)))
		}, 0, -1, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := one(c.f)
			for _, reverse := range []bool{false, true} {
				out := evaluate(f.jacobian(nil, reverse).Function, c.at)
				slope := 0.0
				if len(out) > 1 {
					slope = out[1]
				}
				if !(math.Abs(out[0]-c.value) < 1e-12) || !(math.Abs(slope-c.first) < 1e-12) {
					t.Errorf("reverse %v: value %v and derivative %v, want %v and %v", reverse, out[0], slope, c.value, c.first)
				}
			}
			s := f.Hessian(nil)
			if got := matrix(s, 1, 1, true, []float64{c.at, 1})[0][0]; !(math.Abs(got-c.secondly) < 1e-12) {
				t.Errorf("second derivative %v, want %v", got, c.secondly)
			}
		})
	}
}

// The conventions of docs/reference/program.md where a derivative is not defined.
func TestConventions(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		op          Op
		x, y        float64
		value       float64
		by          [2]float64
		byXX        float64
		binary      bool
		description string
	}{
		{op: Sqrt, x: 0, value: 0, by: [2]float64{0}, byXX: 0},
		{op: Sqrt, x: -1, value: nan, by: [2]float64{nan}, byXX: nan},
		{op: Abs, x: 0, value: 0, by: [2]float64{0}},
		{op: Abs, x: math.Copysign(0, -1), value: 0, by: [2]float64{0}},
		{op: Abs, x: -3, value: 3, by: [2]float64{-1}},
		{op: Floor, x: 2, value: 2, by: [2]float64{0}},
		{op: Detach, x: 2, value: 2, by: [2]float64{0}},
		{op: Log, x: 0, value: -inf, by: [2]float64{inf}, byXX: -inf},
		{op: Asin, x: 1, value: math.Pi / 2, by: [2]float64{inf}, byXX: nan},
		{op: Max, x: 2, y: 2, value: 2, by: [2]float64{1, 0}, binary: true},
		{op: Min, x: 2, y: 2, value: 2, by: [2]float64{1, 0}, binary: true},
		{op: Max, x: math.Copysign(0, -1), y: 0, value: 0, by: [2]float64{1, 0}, binary: true},
		{op: Max, x: nan, y: 2, value: nan, by: [2]float64{0, 1}, binary: true},
		{op: Hypot, x: 0, y: 0, value: 0, by: [2]float64{0, 0}, byXX: 0, binary: true},
		{op: Atan2, x: 0, y: 0, value: 0, by: [2]float64{0, 0}, byXX: 0, binary: true},
		{op: Pow, x: 0, y: 2, value: 0, by: [2]float64{0, 0}, byXX: 2, binary: true},
		{op: Pow, x: 0, y: 0.5, value: 0, by: [2]float64{inf, 0}, byXX: -inf, binary: true},
		{op: Pow, x: -2, y: 3, value: -8, by: [2]float64{12, nan}, byXX: -12, binary: true},
		{op: Less, x: 1, y: 1, value: 0, binary: true},
		{op: AtMost, x: 1, y: 1, value: 1, binary: true},
		{op: Equal, x: nan, y: nan, value: 0, binary: true},
	} {
		t.Run(fmt.Sprint(c.op, c.x, c.y), func(t *testing.T) {
			arguments := []Argument{{Name: "x", Size: 1}}
			in := []float64{c.x}
			if c.binary {
				arguments, in = append(arguments, Argument{Name: "y", Size: 1}), append(in, c.y)
			}
			b := NewBuilder("f", arguments...)
			f := b.Function([]Argument{{Name: "z", Size: 1}}, []Value{b.Apply(c.op, b.inputValues()...)})
			if got := evaluate(f, in...)[0]; !sameNumber(got, c.value) {
				t.Errorf("the value is %v, want %v", got, c.value)
			}
			for _, reverse := range []bool{false, true} {
				row := matrix(f.jacobian(nil, reverse), 1, 2, false, in)[0]
				for k := range in {
					if !sameNumber(row[k]+0, c.by[k]+0) {
						t.Errorf("reverse %v: the derivatives are %v, want %v", reverse, row, c.by)
					}
				}
			}
			h := matrix(f.Hessian([]int{0}), 1, 1, true, append(in, 1))
			if got := h[0][0]; !sameNumber(got+0, c.byXX+0) {
				t.Errorf("the second derivative is %v, want %v", got, c.byXX)
			}
		})
	}
}

// Adjoints by Hessian(by) leave out entries that by does not list.
func TestDerivativesByAFew(t *testing.T) {
	b := NewBuilder("f", Argument{Name: "x", Size: 2}, Argument{Name: "p", Size: 1})
	f := b.Function([]Argument{{Name: "y", Size: 1}}, []Value{b.Apply(Mul, b.Apply(Mul, 0, 1), 2)})
	h := f.Hessian([]int{0, 2})
	if got := fmt.Sprint(h.Rows, h.Cols, evaluate(h.Function, 2, 3, 5, 1)); got != "[2] [0] [15 6 3]" {
		t.Errorf("rows, columns and values are %s", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("entries out of order were taken")
		}
	}()
	f.Jacobian([]int{1, 0})
}
