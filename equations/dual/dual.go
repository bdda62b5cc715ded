// Package dual lets you write equations once, and both compute and differentiate them. A dual number is a complex128
// whose imaginary part is a first derivative times Step. Step² vanishes next to any real part, so the ordinary
// operators of complex numbers differentiate forward, exact to rounding.
//
// The central type is Scalar. A generic function may use the operators + − * /, untyped constants and the functions
// of this package. It computes values at float64, bitwise as package math does, and derivatives at complex128.
//
//	func accelerate[T dual.Scalar](s, c, u, ds []T) {
//		ds[0], ds[1] = s[1], 9.81*dual.Sin(s[0])+u[0]
//	}
//
// Compare numbers by Less; any other branch on a number needs Value. Non-zero numbers must be of moderate size,
// between 1e-25 and 1e25. Nothing here allocates. A division of complex numbers takes several times as long as a
// product: write 0.5*x for x/2, and Div(x, y) for x/y where time counts.
package dual

import "math"

// Scalar is the number type of equations.
type Scalar interface{ float64 | complex128 }

// Step is the imaginary part of a derivative of 1.
const Step = 1e-30

// Seed is the number v with the derivative d.
func Seed(v, d float64) complex128 { return complex(v, d*Step) }

// Derivative is the derivative that x carries.
func Derivative(x complex128) float64 { return imag(x) / Step }

// Const is a constant. An untyped constant needs no Const.
func Const[T Scalar](v float64) T {
	switch any(T(0)).(type) {
	case complex128:
		return any(complex(v, 0)).(T)
	default:
		return any(v).(T)
	}
}

// Value is x without its derivative.
func Value[T Scalar](x T) float64 {
	switch x := any(x).(type) {
	case complex128:
		return real(x)
	default:
		return x.(float64)
	}
}

// Less reports x < y of the values.
func Less[T Scalar](x, y T) bool { return Value(x) < Value(y) }

// lift is f(x) with the derivative slope(x, f(x)).
func lift[T Scalar](x T, f func(x float64) float64, slope func(x, y float64) float64) T {
	switch x := any(x).(type) {
	case complex128:
		y := f(real(x))
		if imag(x) == 0 {
			return any(complex(y, 0)).(T)
		}
		return any(complex(y, slope(real(x), y)*imag(x))).(T)
	default:
		return any(f(x.(float64))).(T)
	}
}

// lift2 is f(x, y) with the derivatives slope(x, y, f(x, y)). A constant argument adds nothing, even where the
// derivative by it is not finite.
func lift2[T Scalar](x, y T, f func(x, y float64) float64, slope func(x, y, z float64) (dx, dy float64)) T {
	switch x := any(x).(type) {
	case complex128:
		y := any(y).(complex128)
		z, d := f(real(x), real(y)), 0.0
		dx, dy := slope(real(x), real(y), z)
		if imag(x) != 0 {
			d = dx * imag(x)
		}
		if imag(y) != 0 {
			d += dy * imag(y)
		}
		return any(complex(z, d)).(T)
	default:
		return any(f(x.(float64), any(y).(float64))).(T)
	}
}

// Div is x/y, to the bit of the operator's value. It skips the special cases of complex division: infinities and
// large imaginary parts.
func Div[T Scalar](x, y T) T {
	switch x := any(x).(type) {
	case complex128:
		y := any(y).(complex128)
		r := real(y)
		return any(complex(real(x)/r, (imag(x)-real(x)*(imag(y)/r))/r)).(T)
	default:
		return any(x.(float64) / any(y).(float64)).(T)
	}
}

// Sin, and the functions below, are those of package math.
func Sin[T Scalar](x T) T {
	return lift(x, math.Sin, func(x, _ float64) float64 { return math.Cos(x) })
}

func Cos[T Scalar](x T) T {
	return lift(x, math.Cos, func(x, _ float64) float64 { return -math.Sin(x) })
}

// Sincos is Sin and Cos at little more than the cost of one.
func Sincos[T Scalar](x T) (sin, cos T) {
	switch x := any(x).(type) {
	case complex128:
		s, c := math.Sincos(real(x))
		return any(complex(s, c*imag(x))).(T), any(complex(c, -s*imag(x))).(T)
	default:
		s, c := math.Sincos(x.(float64))
		return any(s).(T), any(c).(T)
	}
}

func Tan[T Scalar](x T) T {
	return lift(x, math.Tan, func(_, y float64) float64 { return 1 + y*y })
}

func Asin[T Scalar](x T) T {
	return lift(x, math.Asin, func(x, _ float64) float64 { return 1 / math.Sqrt((1-x)*(1+x)) })
}

func Acos[T Scalar](x T) T {
	return lift(x, math.Acos, func(x, _ float64) float64 { return -1 / math.Sqrt((1-x)*(1+x)) })
}

func Atan[T Scalar](x T) T {
	return lift(x, math.Atan, func(x, _ float64) float64 { return 1 / (1 + x*x) })
}

func Sinh[T Scalar](x T) T {
	return lift(x, math.Sinh, func(x, _ float64) float64 { return math.Cosh(x) })
}

func Cosh[T Scalar](x T) T {
	return lift(x, math.Cosh, func(x, _ float64) float64 { return math.Sinh(x) })
}

func Tanh[T Scalar](x T) T {
	return lift(x, math.Tanh, func(_, y float64) float64 { return (1 - y) * (1 + y) })
}

func Exp[T Scalar](x T) T {
	return lift(x, math.Exp, func(_, y float64) float64 { return y })
}

func Log[T Scalar](x T) T {
	return lift(x, math.Log, func(x, _ float64) float64 { return 1 / x })
}

func Sqrt[T Scalar](x T) T {
	return lift(x, math.Sqrt, func(_, y float64) float64 { return 0.5 / y })
}

// Abs has the derivative 0 at 0.
func Abs[T Scalar](x T) T {
	return lift(x, math.Abs, func(x, y float64) float64 {
		if y == 0 {
			return 0
		}
		return x / y
	})
}

func Pow[T Scalar](x, y T) T {
	return lift2(x, y, math.Pow, func(x, y, z float64) (dx, dy float64) { return y * math.Pow(x, y-1), z * math.Log(x) })
}

func Atan2[T Scalar](y, x T) T {
	return lift2(y, x, math.Atan2, func(y, x, _ float64) (dy, dx float64) {
		r := x*x + y*y
		return x / r, -y / r
	})
}

func Hypot[T Scalar](x, y T) T {
	return lift2(x, y, math.Hypot, func(x, y, z float64) (dx, dy float64) { return x / z, y / z })
}

// Max has the derivative of the larger argument, of x where they are equal.
func Max[T Scalar](x, y T) T {
	return lift2(x, y, math.Max, func(x, y, _ float64) (dx, dy float64) { return pickSlope(x >= y) })
}

// Min has the derivative of the smaller argument, of x where they are equal.
func Min[T Scalar](x, y T) T {
	return lift2(x, y, math.Min, func(x, y, _ float64) (dx, dy float64) { return pickSlope(x <= y) })
}

// Along interpolates linearly between equally spaced knots: share 0 is the first, 1 and above the last. Use it for a
// signal that is known ahead, such as weather, a price or a reference. The knots stand in the context; share may be
// the clock. Its derivative has a step at each knot.
func Along[T Scalar](knots []T, share T) T {
	value := knots[0]
	for i := range len(knots) - 1 {
		passed := Max(0, Min(1, Const[T](float64(len(knots)-1))*share-Const[T](float64(i))))
		value += (knots[i+1] - knots[i]) * passed
	}
	return value
}

func pickSlope(first bool) (dx, dy float64) {
	if first {
		return 1, 0
	}
	return 0, 1
}
