package program

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

var edges = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 2, -2, math.Inf(1), math.Inf(-1), math.NaN(), 5e-324, -5e-324, math.MaxFloat64, 1e-300, math.Pi}

// What a builder merges, folds and simplifies has the bits of what was asked for, at the edges of float64 too.
func TestSimplificationKeepsEveryBit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 4))
		b := NewBuilder("f", Argument{Name: "x", Size: 3})
		x := make([]float64, 3)
		for i := range x {
			if x[i] = rng.NormFloat64(); rng.IntN(2) == 0 {
				x[i] = edges[rng.IntN(len(edges))]
			}
		}
		pool, plain := b.In(0), append([]float64{}, x...)
		for _, v := range edges {
			pool, plain = append(pool, b.Const(v)), append(plain, v)
		}
		for range 40 {
			o := Op(2 + rng.IntN(int(opCount)-2))
			var args []Value
			var at [3]float64
			for k := range o.Arity() {
				i := rng.IntN(len(pool))
				args, at[k] = append(args, pool[i]), plain[i]
			}
			pool, plain = append(pool, b.Apply(o, args...)), append(plain, compute(o, at[0], at[1], at[2]))
		}
		f := b.Function([]Argument{{Name: "y", Size: len(pool)}}, pool)
		for i, got := range evaluate(f, x...) {
			if !sameNumber(got, plain[i]) {
				rt.Fatalf("result %d at %v is %v, want %v", i, x, got, plain[i])
			}
		}
	})
}

// Equal operations are one, constants are computed, and what no result needs is gone.
func TestBuilderMergesAndLeavesOut(t *testing.T) {
	b := NewBuilder("f", Argument{Name: "x", Size: 2})
	x, y := b.In(0)[0], b.In(0)[1]
	sum := b.Apply(Add, x, y)
	if other := b.Apply(Add, y, x); other != sum {
		t.Error("x + y and y + x are two values")
	}
	b.Apply(Exp, sum) // not needed
	two := b.Apply(Add, b.Const(1), b.Const(1))
	if b.Const(2) != two {
		t.Error("1 + 1 is not the constant 2")
	}
	f := b.Function([]Argument{{Name: "z", Size: 1}}, []Value{b.Apply(Mul, two, b.Apply(Neg, b.Apply(Neg, sum)))})
	if n := f.Operations(); n != 2 {
		t.Errorf("%d operations, want the sum and the product", n)
	}
	if b.Const(0) == b.Const(math.Copysign(0, -1)) {
		t.Error("0 and −0 are one constant")
	}
}

// Inline is a call.
func TestInline(t *testing.T) {
	square := one(func(b *Builder, x Value) Value { return b.Apply(Mul, x, x) })
	b := NewBuilder("f", Argument{Name: "x", Size: 2})
	v := b.Inline(square, []Value{b.Apply(Sub, 0, 1)})
	f := b.Function([]Argument{{Name: "y", Size: 1}}, v)
	if got := evaluate(f, 5, 2)[0]; got != 9 {
		t.Errorf("(5 − 2)² is %v", got)
	}
}

// Evaluate allocates nothing once it has a workspace.
func TestEvaluateAllocatesNothing(t *testing.T) {
	f := random(1)
	in, out := make([]float64, f.Entries()), make([]float64, f.Results())
	if n := testing.AllocsPerRun(100, func() { f.Evaluate(in, out) }); n > 0.5 {
		t.Errorf("%v allocations a call", n)
	}
}
