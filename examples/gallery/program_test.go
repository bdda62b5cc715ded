package gallery

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/equations/program"
)

// function is one of a system's, on all its inputs at once, in both types of number; nil where the system has it in one alone.
type function struct {
	name string
	real func(in, out []float64)
	dual func(in, out []complex128)
}

// functionsOf are those of the present equations, as their programs take their inputs.
func functionsOf(y equations.System) []function {
	ns, nc, nu := len(y.State), len(y.Context)+1, len(y.Action)
	var list []function
	add := func(name string, real func(in, out []float64), dual func(in, out []complex128)) {
		list = append(list, function{name, real, dual})
	}
	switch {
	case y.ODE != nil:
		add("ode", three(y.ODE.Real, ns, nc), three(y.ODE.Dual, ns, nc))
	case y.Stiff != nil:
		add("ode", nil, three(y.Stiff.ODE, ns, nc))
	}
	if y.Real.Step != nil {
		solved := y.ODE != nil || y.Stiff != nil
		add("step", stepped(y.Real.Step, ns, nc, nu, solved), stepped(y.Dual.Step, ns, nc, nu, solved))
	}
	add("objectives", four(y.Real.Objectives, ns, nc, nu), four(y.Dual.Objectives, ns, nc, nu))
	if y.Real.Margins != nil {
		add("margins", four(y.Real.Margins, ns, nc, nu), four(y.Dual.Margins, ns, nc, nu))
	}
	if y.Real.Escape != nil {
		add("escape", two(y.Real.Escape, ns), two(y.Dual.Escape, ns))
	}
	return list
}

func two[T dual.Scalar](f func(s, c, out []T), ns int) func(in, out []T) {
	return func(in, out []T) { f(in[:ns], in[ns:], out) }
}

func three[T dual.Scalar](f func(s, c, u, out []T), ns, nc int) func(in, out []T) {
	return func(in, out []T) { f(in[:ns], in[ns:ns+nc], in[ns+nc:], out) }
}

func four[T dual.Scalar](f func(s, c, u, n, out []T), ns, nc, nu int) func(in, out []T) {
	return func(in, out []T) { f(in[:ns], in[ns:ns+nc], in[ns+nc:ns+nc+nu], in[ns+nc+nu:], out) }
}

// stepped writes sNext and cNext, or cNext alone where an integrator writes the other; the clock is the package's.
func stepped[T dual.Scalar](f func(s, c, u, sNext, cNext []T), ns, nc, nu int, solved bool) func(in, out []T) {
	return func(in, out []T) {
		next, after := out[:len(out)-nc], out[len(out)-nc:]
		if solved {
			next = slices.Clone(in[ns+nc+nu:])
		}
		copy(after, in[ns:ns+nc])
		f(in[:ns], in[ns:ns+nc], in[ns+nc:ns+nc+nu], next, after)
	}
}

// Every function of every system is its program: values to the bit, where Go does not fuse, and derivatives as dual numbers have them.
func TestProgramsAreTheFunctions(t *testing.T) {
	for _, y := range Systems() {
		t.Run(y.Name, func(t *testing.T) {
			p, err := y.Program()
			if err != nil {
				t.Fatal(err)
			}
			functions := functionsOf(y)
			if len(functions) < 3 {
				t.Fatalf("the test knows %d functions", len(functions))
			}
			rng := rand.New(rand.NewPCG(4, 5))
			for _, f := range functions {
				g := p.Function(f.name)
				if g == nil {
					t.Fatalf("the program has no function %s", f.name)
				}
				holdFunction(t, y, f, g, rng)
			}
		})
	}
}

func holdFunction(t *testing.T, y equations.System, f function, g *program.Function, rng *rand.Rand) {
	t.Helper()
	// The clock's advance is the program's, and not the function's.
	clock := -1
	if f.name == "step" {
		clock = g.Results() - 1
	}
	jacobian := g.Jacobian(nil)
	for range 100 {
		in := inputs(y, g, rng)
		want, got := make([]float64, g.Results()), make([]float64, g.Results())
		g.Evaluate(in, got)
		if f.real != nil {
			f.real(in, want)
		} else {
			wide, out := widened(in, nil), make([]complex128, g.Results())
			f.dual(wide, out)
			for i, v := range out {
				want[i] = real(v)
			}
		}
		for i, v := range want {
			same := math.Float64bits(v) == math.Float64bits(got[i])
			if runtime.GOARCH != "amd64" { // products and sums may be fused there
				same = math.Abs(v-got[i]) <= 1e-12*(1+math.Abs(v))
			}
			if i != clock && !same {
				t.Fatalf("%s[%d] is %v, by the program %v, at %v", f.name, i, v, got[i], in)
			}
		}
		values := make([]float64, jacobian.Results())
		jacobian.Evaluate(in, values)
		direction := make([]float64, len(in))
		for i := range direction {
			direction[i] = rng.NormFloat64()
		}
		out := make([]complex128, g.Results())
		f.dual(widened(in, direction), out)
		along, size := make([]float64, g.Results()), make([]float64, g.Results())
		for k, v := range values[g.Results():] {
			product := v * direction[jacobian.Cols[k]]
			along[jacobian.Rows[k]] += product
			size[jacobian.Rows[k]] += math.Abs(product)
		}
		for i, v := range out {
			if d := dual.Derivative(v); i != clock && !(math.Abs(d-along[i]) <= 1e-12*(1e-3+size[i])) {
				t.Fatalf("the derivative of %s[%d] is %v, by the program %v, at %v", f.name, i, d, along[i], in)
			}
		}
	}
}

func widened(in, direction []float64) []complex128 {
	out := make([]complex128, len(in))
	for i, v := range in {
		out[i] = complex(v, 0)
		if direction != nil {
			out[i] = dual.Seed(v, direction[i])
		}
	}
	return out
}

// inputs are a random start and action, scattered, and a state near it.
func inputs(y equations.System, g *program.Function, rng *rand.Rand) []float64 {
	at := make([]float64, len(y.Scenario))
	for i, v := range y.Scenario {
		at[i] = v.Lo + (v.Hi-v.Lo)*rng.Float64()
	}
	s, c := make([]float64, len(y.State)), make([]float64, len(y.Context)+1)
	y.Initial(at, s, c)
	c[len(c)-1] = rng.Float64()
	near := func() []float64 {
		x := slices.Clone(s)
		for i := range x {
			x[i] += 0.1 * rng.NormFloat64()
		}
		return x
	}
	var in []float64
	for _, a := range g.Inputs() {
		switch a.Name {
		case "c":
			in = append(in, c...)
		case "u":
			for _, v := range y.Action {
				in = append(in, v.Lo+(v.Hi-v.Lo)*rng.Float64())
			}
		default:
			in = append(in, near()...)
		}
	}
	return in
}
