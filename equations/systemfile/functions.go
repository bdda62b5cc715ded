package systemfile

import (
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/equations/program"
)

// bind gives a system its functions.
func (f *File) bind(y *equations.System) {
	function := func(name string) *program.Function { return f.program.Function(name) }
	ns := len(y.State)
	solved := f.header.Integrator != nil
	timed := f.header.Horizon == 0
	y.Real = functionsOf(real, function, solved, timed, ns)
	y.Dual = functionsOf(widened, function, solved, timed, ns)
	if i := f.header.Integrator; i != nil {
		ode := widened(function("ode"))
		odeDual := func(s, c, u, ds []complex128) { ode(ds, s, c, u) }
		if i.Method == implicit {
			y.Stiff = &dual.Stiff{ODE: odeDual, Span: i.Span, Substeps: int(i.Substeps), Error: i.Error}
		} else {
			plain := real(function("ode"))
			y.ODE = &dual.Explicit{Real: func(s, c, u, ds []float64) { plain(ds, s, c, u) }, Dual: odeDual, Span: i.Span, Substeps: int(i.Substeps), Error: i.Error}
		}
	}
	initial := real(function("initial"))
	nc := f.header.entries("c")
	y.Initial = func(p, s, c []float64) {
		out := make([]float64, ns+nc)
		initial(out, p)
		copy(s, out[:ns])
		copy(c, out[ns:])
	}
	if g := function("urgency"); g != nil {
		urgency := real(g)
		y.Urgency = func(s, c, delta []float64) { urgency(delta, s, c) }
	}
	if g := function("failed"); g != nil {
		failed := real(g)
		y.Failed = func(s, c []float64) bool {
			var out [1]float64
			failed(out[:], s, c)
			return out[0] != 0
		}
	}
	if m := f.header.Measurement; m != nil {
		y.Measurement = m.domain(f.header.Context)
		if g := function(outputsFunction); g != nil {
			plain, dual := real(g), widened(g)
			y.Measurement.Real = func(s, c, u, out []float64) { plain(out, s, c, u) }
			y.Measurement.Dual = func(s, c, u, out []complex128) { dual(out, s, c, u) }
		}
	}
	if g := function("picture"); g != nil {
		y.Picture = f.picture(real(g))
	}
}

// evaluator writes the outputs of a function, one after the other, for its inputs.
type evaluator[T dual.Scalar] func(out []T, in ...[]T)

// functionsOf are the equations in one type of number. solved says that an integrator writes the state, timed that there is a clock.
func functionsOf[T dual.Scalar](compile func(*program.Function) evaluator[T], function func(string) *program.Function, solved, timed bool, ns int) equations.Functions[T] {
	var e equations.Functions[T]
	step := compile(function("step"))
	if solved {
		e.Step = func(s, c, u, sNext, cNext []T) {
			step(cNext, s, c, u, sNext)
			if timed {
				stay(c, cNext)
			}
		}
	} else {
		rows := pool[T](function("step").Results())
		e.Step = func(s, c, u, sNext, cNext []T) {
			out := rows.Get().(*[]T)
			step(*out, s, c, u)
			copy(sNext, (*out)[:ns])
			copy(cNext, (*out)[ns:])
			if timed {
				stay(c, cNext)
			}
			rows.Put(out)
		}
	}
	objectives := compile(function("objectives"))
	e.Objectives = func(s, c, u, sNext, j []T) { objectives(j, s, c, u, sNext) }
	if g := function("margins"); g != nil {
		margins := compile(g)
		e.Margins = func(s, c, u, sNext, m []T) { margins(m, s, c, u, sNext) }
	}
	if g := function("escape"); g != nil {
		escape := compile(g)
		e.Escape = func(s, c, u []T) { escape(u, s, c) }
	}
	return e
}

// stay undoes the step of the clock, which a program takes and equations.System takes itself.
func stay[T dual.Scalar](c, cNext []T) { cNext[len(c)-1] = c[len(c)-1] }

// pool lends rows of n numbers.
func pool[T any](n int) *sync.Pool {
	return &sync.Pool{New: func() any {
		row := make([]T, n)
		return &row
	}}
}

// real evaluates a function at float64.
func real(g *program.Function) evaluator[float64] {
	inputs := pool[float64](g.Entries())
	return func(out []float64, in ...[]float64) {
		row := inputs.Get().(*[]float64)
		offset := 0
		for _, v := range in {
			offset += copy((*row)[offset:], v)
		}
		g.Evaluate(*row, out)
		inputs.Put(row)
	}
}

// operation is one operation on earlier values.
type operation struct {
	op       program.Op
	arg      [3]program.Value
	constant float64
}

// widened evaluates a function at complex128, with the derivatives of package dual.
func widened(g *program.Function) evaluator[complex128] {
	n := g.Entries()
	code := make([]operation, g.Values()-n)
	for i := range code {
		op, operands, constant := g.Operation(program.Value(n + i))
		code[i].op, code[i].constant = op, constant
		copy(code[i].arg[:], operands)
	}
	works := pool[complex128](g.Values())
	return func(out []complex128, in ...[]complex128) {
		work := works.Get().(*[]complex128)
		w, offset := *work, 0
		for _, v := range in {
			offset += copy(w[offset:], v)
		}
		for i := range code {
			o := &code[i]
			if o.op == program.Const {
				w[n+i] = complex(o.constant, 0)
				continue
			}
			w[n+i] = compute(o.op, w[o.arg[0]], w[o.arg[1]], w[o.arg[2]])
		}
		for i := range out {
			out[i] = w[g.Result(i)]
		}
		works.Put(work)
	}
}

// unary and binary are the operations that are functions of package dual.
var (
	unary = [...]func(complex128) complex128{
		program.Abs: dual.Abs[complex128], program.Sqrt: dual.Sqrt[complex128], program.Sin: dual.Sin[complex128], program.Cos: dual.Cos[complex128],
		program.Tan: dual.Tan[complex128], program.Asin: dual.Asin[complex128], program.Acos: dual.Acos[complex128], program.Atan: dual.Atan[complex128],
		program.Sinh: dual.Sinh[complex128], program.Cosh: dual.Cosh[complex128], program.Tanh: dual.Tanh[complex128], program.Exp: dual.Exp[complex128],
		program.Log: dual.Log[complex128], program.Select: nil,
	}
	binary = [...]func(x, y complex128) complex128{
		program.Div: dual.Div[complex128], program.Pow: dual.Pow[complex128], program.Atan2: dual.Atan2[complex128], program.Hypot: dual.Hypot[complex128],
		program.Min: dual.Min[complex128], program.Max: dual.Max[complex128], program.Select: nil,
	}
)

// compute is an operation at dual numbers, whose value is that of Op.Compute.
func compute(op program.Op, x, y, z complex128) complex128 {
	switch op {
	case program.Add:
		return x + y
	case program.Sub:
		return x - y
	case program.Mul:
		return x * y
	case program.Neg:
		return -x
	case program.Select:
		if dual.Value(x) != 0 {
			return y
		}
		return z
	}
	if f := unary[op]; f != nil {
		return f(x)
	}
	if f := binary[op]; f != nil {
		return f(x, y)
	}
	// The others have the derivative 0: floor, detach, comparisons.
	return complex(op.Compute(dual.Value(x), dual.Value(y), dual.Value(z)), 0)
}

// picture turns a function's numbers into shapes.
func (f *File) picture(numbers evaluator[float64]) func(s, c []float64) []domain.Shape {
	n := f.header.entries("shapes")
	return func(s, c []float64) []domain.Shape {
		out := make([]float64, n)
		numbers(out, s, c)
		var shapes []domain.Shape
		next := func() float64 {
			v := out[0]
			out = out[1:]
			return v
		}
		for _, d := range f.header.Picture {
			shape := domain.Shape{Role: roleOf(d.Role), Of: d.Body}
			for range d.Points {
				shape.Path = append(shape.Path, [2]float64{next(), next()})
			}
			if d.Disc {
				shape.Radius = next()
			}
			if d.Heading {
				shape.Heading = next()
			}
			shapes = append(shapes, shape)
		}
		return shapes
	}
}

func roleOf(name string) domain.Role {
	for i, r := range roles {
		if r == name {
			return domain.Role(i)
		}
	}
	return domain.Body
}
