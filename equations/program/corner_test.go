package program

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Of functions of x, y in [−1, 1] and a price p in [0.1, 0.5], corners are found where a slope jumps and not elsewhere.
// Rounded functions are near the exact ones, and their slopes between those of both sides.
func TestCorners(t *testing.T) {
	type write func(b *Builder, x, y, p Value) Value
	squared := func(b *Builder, v Value) Value { return b.Apply(Mul, v, v) }
	length := func(b *Builder, x, y Value) Value {
		return b.Apply(Sqrt, b.Apply(Add, squared(b, x), squared(b, y)))
	}
	positive := func(b *Builder, x Value) Value { return b.Apply(Less, b.Const(0), x) }
	for _, c := range []struct {
		name string
		want bool
		f    write
	}{
		{"an absolute value", true, func(b *Builder, x, y, _ Value) Value { return b.Apply(Abs, b.Apply(Sub, x, y)) }},
		{"a small part of a large function", true, func(b *Builder, x, y, _ Value) Value {
			return b.Apply(Add, b.Apply(Mul, b.Const(1e4), y), b.Apply(Abs, x))
		}},
		{"a maximum", true, func(b *Builder, x, y, _ Value) Value { return b.Apply(Max, x, y) }},
		{"a dead band", true, func(b *Builder, x, _, _ Value) Value {
			return b.Apply(Max, b.Const(0), b.Apply(Sub, b.Apply(Abs, x), b.Const(0.2)))
		}},
		{"corners one behind another", true, func(b *Builder, x, y, _ Value) Value {
			return b.Apply(Max, b.Apply(Abs, x), b.Apply(Abs, y))
		}},
		{"branches that meet", true, func(b *Builder, x, y, _ Value) Value {
			return b.Apply(Select, positive(b, x), b.Apply(Mul, b.Const(3), x), b.Apply(Mul, y, x))
		}},
		{"a price that jumps where nothing is bought", true, func(b *Builder, x, _, p Value) Value {
			return b.Apply(Mul, x, b.Apply(Select, positive(b, x), p, b.Const(0.05)))
		}},
		{"a slope by two conditions", true, func(b *Builder, x, y, _ Value) Value {
			both := b.Apply(Select, positive(b, x), b.Apply(Less, b.Const(-9), y), b.Const(0))
			return b.Apply(Mul, x, b.Apply(Select, both, b.Const(3), b.Const(1)))
		}},
		{"a slope by the contrary of a condition", true, func(b *Builder, x, _, _ Value) Value {
			return b.Apply(Mul, x, b.Apply(Select, b.Apply(Select, positive(b, x), b.Const(0), b.Const(1)), b.Const(3), b.Const(1)))
		}},
		{"a branch that is not finite beyond", true, func(b *Builder, x, _, _ Value) Value {
			return b.Apply(Select, positive(b, x), b.Apply(Mul, x, b.Apply(Sqrt, b.Apply(Add, x, b.Const(1e-3)))), b.Apply(Neg, x))
		}},
		{"a corner far away", true, func(b *Builder, x, _, _ Value) Value { return b.Apply(Max, x, b.Const(-3)) }},
		{"a length", true, func(b *Builder, x, y, _ Value) Value { return length(b, x, y) }},
		{"a length by hypot", true, func(b *Builder, x, y, _ Value) Value { return b.Apply(Hypot, x, y) }},

		{"no corner", false, func(b *Builder, x, y, _ Value) Value { return b.Apply(Sin, b.Apply(Mul, x, y)) }},
		{"the square of a maximum", false, func(b *Builder, x, _, _ Value) Value { return squared(b, b.Apply(Max, b.Const(0), x)) }},
		{"the square of a length", false, func(b *Builder, x, y, _ Value) Value { return squared(b, length(b, x, y)) }},
		{"a length that is never 0", false, func(b *Builder, x, y, _ Value) Value { return length(b, b.Apply(Add, x, b.Const(30)), y) }},
		{"a jump", false, func(b *Builder, x, y, _ Value) Value { return b.Apply(Select, positive(b, x), b.Const(1), y) }},
		{"a corner of what stays", false, func(b *Builder, x, _, p Value) Value {
			return b.Apply(Add, squared(b, x), b.Apply(Abs, b.Apply(Sub, p, b.Const(0.3))))
		}},
		{"a corner that few lines reach", true, func(b *Builder, x, _, _ Value) Value { return b.Apply(Max, x, b.Const(4.95)) }},
		{"a corner of what is detached", false, func(b *Builder, x, y, _ Value) Value {
			return b.Apply(Add, y, b.Apply(Detach, b.Apply(Abs, x)))
		}},
		{"a corner out of reach", false, func(b *Builder, x, _, _ Value) Value { return b.Apply(Max, x, b.Const(-7)) }},
	} {
		for _, unit := range []float64{1, 1e-3, 1e6} { // of the result
			b := NewBuilder("f", Argument{Name: "u", Size: 2}, Argument{Name: "c", Size: 1})
			v := b.inputValues()
			f := b.Function([]Argument{{Name: "j", Size: 1}}, []Value{b.Apply(Mul, b.Const(unit), c.f(b, v[0], v[1], v[2]))})
			draw := func(rng *rand.Rand, distant bool) []float64 {
				x := 2*rng.Float64() - 1
				if distant {
					x *= 5
				}
				return []float64{x, 2*rng.Float64() - 1, 0.1 + 0.4*rng.Float64()}
			}
			corners := f.Corners(draw, []bool{true, true, false}, false)
			if (corners != nil) != c.want {
				t.Errorf("%s in units of %g: found %v, want %v", c.name, unit, corners != nil, c.want)
			}
			if corners == nil {
				continue
			}
			for _, factor := range []float64{1, 100} {
				g := corners.Round()
				slopes := g.Jacobian([]int{0, 1})
				rng := rand.New(rand.NewPCG(1, 2))
				for range 2000 {
					at := draw(rng, false)
					for i, scale := 0, math.Pow(10, -5*rng.Float64()); i < 2; i++ { // near corners too
						at[i] *= scale
					}
					var exact, rounded [1]float64
					f.Evaluate(at, exact[:])
					g.Evaluate(append(at, factor), rounded[:])
					if math.Abs(exact[0]-rounded[0]) > 2e-4*factor*unit {
						t.Fatalf("%s in units of %g: at %v the rounded function is %g, the exact one %g", c.name, unit, at, rounded[0], exact[0])
					}
					out := make([]float64, 1+len(slopes.Rows))
					slopes.Evaluate(append(at, factor), out)
					for _, slope := range out[1:] {
						if !(math.Abs(slope) < 1.1e4*unit) || c.name != "a small part of a large function" && !(math.Abs(slope) < 4.5*unit) {
							t.Fatalf("%s in units of %g: at %v a slope is %g", c.name, unit, at, slope)
						}
					}
				}
			}
		}
	}
}

// A rounded floor in a logarithm stays near the floor, however large what is floored usually is, also where it is a branch.
func TestRoundedFloors(t *testing.T) {
	for name, floored := range map[string]func(b *Builder, x, floor Value) Value{
		"max":   func(b *Builder, x, floor Value) Value { return b.Apply(Max, x, floor) },
		"where": func(b *Builder, x, floor Value) Value { return b.Apply(Select, b.Apply(Less, floor, x), x, floor) },
	} {
		b := NewBuilder("f", Argument{Name: "u", Size: 1})
		f := b.Function([]Argument{{Name: "j", Size: 1}}, []Value{b.Apply(Log, floored(b, b.inputValues()[0], b.Const(1e-3)))})
		corners := f.Corners(func(rng *rand.Rand, _ bool) []float64 { return []float64{400 * rng.NormFloat64()} }, []bool{true}, false)
		if corners == nil {
			t.Fatalf("%s: no corner", name)
		}
		rounded, out := corners.Round(), make([]float64, 1)
		for _, x := range []float64{-1, 0, 1e-4, 1e-3, 2e-3} {
			if rounded.Evaluate([]float64{x, 1}, out); math.Abs(out[0]-math.Log(max(x, 1e-3))) > 0.01 {
				t.Errorf("%s: log of %g above the floor is %g, want %g", name, x, out[0], math.Log(max(x, 1e-3)))
			}
		}
	}
}

// Near a pole sizes have no bound, and beyond it a branch may not be a number. The width is that of the usual sizes.
func TestRoundedBesideAPole(t *testing.T) {
	b := NewBuilder("f", Argument{Name: "u", Size: 1})
	x := b.In(0)[0]
	for name, y := range map[string]Value{
		"pole":        b.Apply(Div, b.Const(0.3), b.Apply(Mul, x, b.Apply(Mul, x, x))),
		"not finite":  b.Apply(Add, x, b.Apply(Mul, b.Const(0), b.Apply(Log, b.Apply(Add, x, b.Const(0.9))))),
		"no outliers": x,
	} {
		f := b.Function([]Argument{{Name: "j", Size: 1}}, []Value{b.Apply(Min, b.Apply(Max, y, b.Const(0)), b.Const(1))})
		c := f.Corners(func(rng *rand.Rand, _ bool) []float64 { return []float64{2*rng.Float64() - 1} }, []bool{true}, false)
		if c == nil {
			t.Errorf("%s: no corner", name)
			continue
		}
		at := []float64{0.8, 1}
		var exact, rounded [1]float64
		f.Evaluate(at[:1], exact[:])
		if c.Round().Evaluate(at, rounded[:]); !(math.Abs(rounded[0]-exact[0]) < 1e-4) {
			t.Errorf("%s: %v, rounded %v", name, exact[0], rounded[0])
		}
	}
}

// TestTipsOfLimits: the tip of a length is a corner of a limit that keeps it below something, not of one that keeps it above.
func TestTipsOfLimits(t *testing.T) {
	for _, v := range []struct {
		above, limits, want bool
	}{{false, true, true}, {true, true, false}, {false, false, true}, {true, false, true}} {
		b := NewBuilder("f", Argument{Name: "u", Size: 2})
		x := b.inputValues()
		m := b.Apply(Sub, b.Apply(Hypot, x[0], x[1]), b.Const(1))
		if !v.above {
			m = b.Apply(Neg, m)
		}
		f := b.Function([]Argument{{Name: "m", Size: 1}}, []Value{m})
		draw := func(rng *rand.Rand, _ bool) []float64 { return []float64{2*rng.Float64() - 1, 2*rng.Float64() - 1} }
		if got := f.Corners(draw, []bool{true, true}, v.limits) != nil; got != v.want {
			t.Errorf("%+v: found %v", v, got)
		}
	}
}
