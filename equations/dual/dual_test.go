package dual

import (
	"math"
	"math/rand/v2"
	"testing"
)

// unary are the functions of one argument with their derivative and where to try them.
var unary = []struct {
	name   string
	real   func(float64) float64
	dual   func(complex128) complex128
	math   func(float64) float64
	slope  func(float64) float64
	lo, hi float64
}{
	{"Sin", Sin[float64], Sin[complex128], math.Sin, math.Cos, -9, 9},
	{"Cos", Cos[float64], Cos[complex128], math.Cos, func(x float64) float64 { return -math.Sin(x) }, -9, 9},
	{"Tan", Tan[float64], Tan[complex128], math.Tan, func(x float64) float64 { return 1 / (math.Cos(x) * math.Cos(x)) }, -1.5, 1.5},
	{"Asin", Asin[float64], Asin[complex128], math.Asin, func(x float64) float64 { return 1 / math.Sqrt(1-x*x) }, -0.9, 0.9},
	{"Acos", Acos[float64], Acos[complex128], math.Acos, func(x float64) float64 { return -1 / math.Sqrt(1-x*x) }, -0.9, 0.9},
	{"Atan", Atan[float64], Atan[complex128], math.Atan, func(x float64) float64 { return 1 / (1 + x*x) }, -9, 9},
	{"Sinh", Sinh[float64], Sinh[complex128], math.Sinh, math.Cosh, -5, 5},
	{"Cosh", Cosh[float64], Cosh[complex128], math.Cosh, math.Sinh, -5, 5},
	{"Tanh", Tanh[float64], Tanh[complex128], math.Tanh, func(x float64) float64 { return 1 / (math.Cosh(x) * math.Cosh(x)) }, -2, 2},
	{"Exp", Exp[float64], Exp[complex128], math.Exp, math.Exp, -9, 9},
	{"Log", Log[float64], Log[complex128], math.Log, func(x float64) float64 { return 1 / x }, 1e-3, 9},
	{"Sqrt", Sqrt[float64], Sqrt[complex128], math.Sqrt, func(x float64) float64 { return 0.5 / math.Sqrt(x) }, 1e-3, 9},
	{"Abs", Abs[float64], Abs[complex128], math.Abs, func(x float64) float64 { return math.Copysign(1, x) }, -9, 9},
}

// binary are the functions of two arguments.
var binary = []struct {
	name   string
	real   func(x, y float64) float64
	dual   func(x, y complex128) complex128
	math   func(x, y float64) float64
	slope  func(x, y float64) (dx, dy float64)
	lo, hi float64
}{
	{"Pow", Pow[float64], Pow[complex128], math.Pow, func(x, y float64) (dx, dy float64) {
		return y * math.Pow(x, y-1), math.Pow(x, y) * math.Log(x)
	}, 0.1, 4},
	{"Atan2", Atan2[float64], Atan2[complex128], math.Atan2, func(y, x float64) (dy, dx float64) {
		return x / (x*x + y*y), -y / (x*x + y*y)
	}, -4, 4},
	{"Hypot", Hypot[float64], Hypot[complex128], math.Hypot, func(x, y float64) (dx, dy float64) {
		return x / math.Hypot(x, y), y / math.Hypot(x, y)
	}, -4, 4},
	{"Div", Div[float64], Div[complex128], func(x, y float64) float64 { return x / y },
		func(x, y float64) (dx, dy float64) { return 1 / y, -x / (y * y) }, 0.1, 4},
	{"Max", Max[float64], Max[complex128], math.Max, func(x, y float64) (dx, dy float64) { return pickSlope(x > y) }, -4, 4},
	{"Min", Min[float64], Min[complex128], math.Min, func(x, y float64) (dx, dy float64) { return pickSlope(x < y) }, -4, 4},
	{"−", func(x, y float64) float64 { return x - y }, func(x, y complex128) complex128 { return x - y }, func(x, y float64) float64 { return x - y },
		func(x, y float64) (dx, dy float64) { return 1, -1 }, -4, 4},
	{"*", func(x, y float64) float64 { return x * y }, func(x, y complex128) complex128 { return x * y }, func(x, y float64) float64 { return x * y },
		func(x, y float64) (dx, dy float64) { return y, x }, -4, 4},
	{"/", func(x, y float64) float64 { return x / y }, func(x, y complex128) complex128 { return x / y }, func(x, y float64) float64 { return x / y },
		func(x, y float64) (dx, dy float64) { return 1 / y, -x / (y * y) }, 0.1, 4},
}

const tolerance = 1e-14 // relative to 1 + |derivative|

func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*(1+math.Abs(want))
}

func same(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

func TestValuesAreThoseOfMathAndDerivativesExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(lo, hi float64) float64 { return lo + (hi-lo)*rng.Float64() }
	for _, f := range unary {
		for range 2000 {
			x, d := draw(f.lo, f.hi), draw(-3, 3)
			y := f.dual(Seed(x, d))
			if !same(f.real(x), f.math(x)) || !same(real(y), f.math(x)) {
				t.Fatalf("%s(%v) is %v and, dual, %v, of math %v", f.name, x, f.real(x), y, f.math(x))
			}
			if want := d * f.slope(x); !near(Derivative(y), want, tolerance) {
				t.Fatalf("%s(%v) has the derivative %v, want %v", f.name, x, Derivative(y), want)
			}
		}
		for _, x := range []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 1e300} {
			if got, want := f.real(x), f.math(x); !same(got, want) || !same(real(f.dual(complex(x, 0))), want) {
				t.Errorf("%s(%v) is %v, of math %v", f.name, x, got, want)
			}
		}
	}
	for _, f := range binary {
		for range 2000 {
			x, y, d, e := draw(f.lo, f.hi), draw(f.lo, f.hi), draw(-3, 3), draw(-3, 3)
			z := f.dual(Seed(x, d), Seed(y, e))
			if !same(f.real(x, y), f.math(x, y)) || !same(real(z), f.math(x, y)) {
				t.Fatalf("%s of %v, %v is %v and, dual, %v, of math %v", f.name, x, y, f.real(x, y), z, f.math(x, y))
			}
			dx, dy := f.slope(x, y)
			if want := d*dx + e*dy; !near(Derivative(z), want, 2*tolerance*(math.Abs(d*dx)+math.Abs(e*dy)+1)) {
				t.Fatalf("%s of %v, %v has the derivative %v, want %v", f.name, x, y, Derivative(z), want)
			}
		}
	}
}

func TestSincos(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		x, d := 20*rng.Float64()-10, rng.NormFloat64()
		sin, cos := Sincos(x)
		dsin, dcos := Sincos(Seed(x, d))
		if s, c := math.Sincos(x); !same(sin, s) || !same(cos, c) || !same(real(dsin), s) || !same(real(dcos), c) {
			t.Fatalf("at %v: %v and %v, dual %v and %v, of math %v and %v", x, sin, cos, dsin, dcos, s, c)
		}
		if !near(Derivative(dsin), d*math.Cos(x), tolerance) || !near(Derivative(dcos), -d*math.Sin(x), tolerance) {
			t.Fatalf("at %v: derivatives %v and %v", x, Derivative(dsin), Derivative(dcos))
		}
	}
}

func TestWhereADerivativeIsChosen(t *testing.T) {
	for _, test := range []struct {
		name string
		got  complex128
		want float64
	}{
		{"Abs at 0", Abs(Seed(0, 1)), 0},
		{"Max of equals", Max(Seed(2, 3), Seed(2, 5)), 3},
		{"Min of equals", Min(Seed(2, 3), Seed(2, 5)), 3},
		{"a power of 0", Pow(Seed(0, 1), 2), 0},
		{"a square of a negative number", Pow(Seed(-3, 1), 2), -6},
		{"the root of 0 that does not vary", Sqrt(complex(0, 0)), 0},
	} {
		if got := Derivative(test.got); got != test.want {
			t.Errorf("%s: derivative %v, want %v", test.name, got, test.want)
		}
	}
	if !Less(1., 2) || Less(2., 2) || !Less(Seed(1, 9), Seed(2, -9)) || Less(Seed(2, -9), Seed(2, 9)) {
		t.Error("Less does not compare values")
	}
	if Value(Seed(3, 4)) != 3 || Value(3.) != 3 || Const[float64](3) != 3 || Const[complex128](3) != 3 {
		t.Error("Value and Const")
	}
}

// composed is a function of two numbers through most of the package.
func composed[T Scalar](x, y T) T {
	z := Exp(-x*x) / (1 + Sqrt(y)) * Sin(3*x*y)
	if Less(z, x) {
		z += Tanh(x-y) * Pow(y, Const[T](1.5))
	}
	return Max(z, 0.1*x) + Log(2+Cos(z)) - Atan2(x, y)
}

func TestComposedAgainstDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		x, y := 2*rng.Float64()-1, 0.2+rng.Float64()
		const h = 1e-5
		want := (composed(x+h, y) - composed(x-h, y)) / (2 * h)
		if got := Derivative(composed(Seed(x, 1), complex(y, 0))); !near(got, want, 1e-8) {
			t.Errorf("at %v, %v: derivative %v, differences %v", x, y, got, want)
		}
		if v := composed(complex(x, 0), complex(y, 0)); !near(real(v), composed(x, y), 1e-15) || imag(v) != 0 {
			t.Errorf("at %v, %v: %v, real %v", x, y, v, composed(x, y))
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	x, y := 0.3, 0.4
	sum := 0.0
	if n := testing.AllocsPerRun(100, func() {
		sum += composed(x, y) + Derivative(composed(Seed(x, 1), complex(y, 0)))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if math.IsNaN(sum) {
		t.Error(sum)
	}
}

func BenchmarkComposed(b *testing.B) {
	b.Run("float64", func(b *testing.B) {
		b.ReportAllocs()
		for x := 0.1; b.Loop(); x = 0.5 - x {
			composed(x, 0.4)
		}
	})
	b.Run("dual", func(b *testing.B) {
		b.ReportAllocs()
		for x := 0.1; b.Loop(); x = 0.5 - x {
			composed(Seed(x, 1), 0.4)
		}
	})
}

func TestDivIsTheOperator(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 10000 {
		x, y := Seed(rng.NormFloat64(), rng.NormFloat64()), Seed(rng.NormFloat64(), rng.NormFloat64())
		if got := Div(x, y); got != x/y {
			t.Fatalf("Div(%v, %v) = %v, the operator's is %v", x, y, got, x/y)
		}
	}
}
