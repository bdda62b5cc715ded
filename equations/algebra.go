package equations

import (
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/equations/program"
)

// algebra are the operations that the functions of switches and soft limits are made of, on numbers or in a program.
type algebra[T any] interface {
	Const(v float64) T
	Add(x, y T) T
	Sub(x, y T) T
	Mul(x, y T) T
	Div(x, y T) T
	Min(x, y T) T
	Max(x, y T) T
	Abs(x T) T
	SmoothAbs(x T) T // |x| in an expression that is smooth where x is 0
	Sqrt(x T) T
}

type numbers[T dual.Scalar] struct{}

func (numbers[T]) Const(v float64) T { return dual.Const[T](v) }
func (numbers[T]) Add(x, y T) T      { return x + y }
func (numbers[T]) Sub(x, y T) T      { return x - y }
func (numbers[T]) Mul(x, y T) T      { return x * y }
func (numbers[T]) Div(x, y T) T      { return x / y }
func (numbers[T]) Min(x, y T) T      { return dual.Min(x, y) }
func (numbers[T]) Max(x, y T) T      { return dual.Max(x, y) }
func (numbers[T]) Abs(x T) T         { return dual.Abs(x) }
func (numbers[T]) SmoothAbs(x T) T   { return dual.Abs(x) }
func (numbers[T]) Sqrt(x T) T        { return dual.Sqrt(x) }

// instructions write the operations into a program.
type instructions struct{ *program.Builder }

func (w instructions) Add(x, y program.Value) program.Value { return w.Apply(program.Add, x, y) }
func (w instructions) Sub(x, y program.Value) program.Value { return w.Apply(program.Sub, x, y) }
func (w instructions) Mul(x, y program.Value) program.Value { return w.Apply(program.Mul, x, y) }
func (w instructions) Div(x, y program.Value) program.Value { return w.Apply(program.Div, x, y) }
func (w instructions) Min(x, y program.Value) program.Value { return w.Apply(program.Min, x, y) }
func (w instructions) Max(x, y program.Value) program.Value { return w.Apply(program.Max, x, y) }
func (w instructions) Abs(x program.Value) program.Value    { return w.Apply(program.Abs, x) }
func (w instructions) Sqrt(x program.Value) program.Value   { return w.Apply(program.Sqrt, x) }

// SmoothAbs selects by what is no comparison itself, where program.Corners looks for none.
func (w instructions) SmoothAbs(x program.Value) program.Value {
	nonnegative := w.Apply(program.Equal, w.Apply(program.Less, x, w.Const(0)), w.Const(0))
	return w.Apply(program.Select, nonnegative, x, w.Apply(program.Neg, x))
}
