package programs

import "math"

// Widest is the largest angle that Sin, Cos and Tan take.
const Widest = 1 << 30

// toInteger is what a number is added to so that its integer part stands in the last bits of the sum.
const toInteger = 3 << 51

func (c *Code) bits(v uint64) Value { return c.Const(math.Float64frombits(v)) }

// horner is coefficients[0] + x·(coefficients[1] + …).
func (c *Code) horner(x Value, coefficients ...float64) Value {
	v := c.Const(coefficients[len(coefficients)-1])
	for i := len(coefficients) - 2; i >= 0; i-- {
		v = c.apply(fma, v, x, c.Const(coefficients[i]))
	}
	return v
}

// withSign is v ≥ 0 with the sign of x.
func (c *Code) withSign(v, x Value) Value {
	return c.apply(or, v, c.apply(and, x, c.Const(math.Copysign(0, -1))))
}

// isNumber is 0 where x is NaN.
func (c *Code) isNumber(x Value) Value { return c.apply(equal, x, x) }

// sincos reduces by multiples of π/2 in three parts (Cody and Waite), the products being exact in fused operations; the polynomials
// are those of FDLIBM's k_sin.c and k_cos.c.
func (c *Code) sincos(x Value) (sin, cos Value) {
	shift := c.Const(toInteger)
	quadrants := c.apply(fma, x, c.Const(2/math.Pi), shift) // the quadrant in its last bits
	k := c.apply(sub, quadrants, shift)
	r := x
	for _, part := range [3]uint64{0x3ff921fb54442d18, 0x3c91a62633145c07, 0xb91f1976b7ed8fbc} {
		r = c.apply(fnma, k, c.bits(part), r)
	}
	z := c.apply(mul, r, r)
	s := c.horner(z, -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04, 2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10)
	s = c.apply(fma, c.apply(mul, z, r), s, r)
	w := c.horner(z, 4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05, -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11)
	// 1 − z/2 + z² w, with what rounding takes from 1 − z/2.
	half := c.apply(mul, c.Const(0.5), z)
	top := c.apply(sub, c.Const(1), half)
	residual := c.apply(sub, c.apply(sub, c.Const(1), top), half)
	w = c.apply(add, top, c.apply(fma, c.apply(mul, z, z), w, residual))
	odd := c.apply(and, quadrants, c.bits(1))
	pick := func(evenValue, odd, quadrant Value, isOdd Value) Value {
		v := c.apply(choose, isOdd, odd, evenValue)
		return c.apply(choose, c.apply(and, quadrant, c.bits(2)), c.apply(neg, v), v)
	}
	bounded := c.apply(atMost, c.apply(abs, x), c.Const(Widest))
	nan := c.Const(math.NaN())
	sin = c.apply(choose, bounded, pick(s, w, quadrants, odd), nan)
	cos = c.apply(choose, bounded, pick(w, s, c.apply(add, quadrants, c.Const(1)), odd), nan)
	return sin, cos
}

// ln 2 in two parts, the first with zeros at its end.
const (
	ln2High = 6.93147180369123816490e-01
	ln2Low  = 1.90821492927058770002e-10
)

// expm1Parts are e^x = scale·(1 + p) with p = e^r − 1, |r| ≤ ln 2/2, and scale a power of two in two factors. x is between −1500 and 1500, or NaN.
func (c *Code) expm1Parts(x Value) (p, scale, scale2 Value) {
	shift := c.Const(toInteger)
	k := c.apply(sub, c.apply(fma, x, c.Const(math.Log2E), shift), shift)
	r := c.apply(fnma, k, c.Const(ln2High), x)
	r = c.apply(fnma, k, c.Const(ln2Low), r)
	q := c.horner(r, 1./2, 1./6, 1./24, 1./120, 1./720, 1./5040, 1./40320, 1./362880, 1./3628800, 1./39916800, 1./479001600, 1./6227020800)
	p = c.apply(fma, c.apply(mul, r, r), q, r)
	first := c.apply(floor, c.apply(mul, k, c.Const(0.5)))
	powerOf2 := func(k Value) Value { return c.apply(shiftUp, c.apply(add, k, c.Const(1<<52+1023))) }
	return p, powerOf2(first), powerOf2(c.apply(sub, k, first))
}

func (c *Code) clamped(x Value, lo, hi float64) Value {
	return c.apply(minimum, c.apply(maximum, x, c.Const(lo)), c.Const(hi))
}

func (c *Code) exp(x Value) Value {
	x = c.clamped(x, -746, 710)
	p, scale, scale2 := c.expm1Parts(x)
	v := c.apply(mul, c.apply(mul, c.apply(add, c.Const(1), p), scale), scale2)
	return c.apply(choose, c.isNumber(x), v, c.Const(math.NaN()))
}

// expm1 of 0 ≤ x ≤ 700, or NaN.
func (c *Code) expm1(x Value) Value {
	p, scale, scale2 := c.expm1Parts(x)
	power := c.apply(mul, scale, scale2)
	v := c.apply(fma, power, p, c.apply(sub, power, c.Const(1)))
	return c.apply(choose, c.isNumber(x), v, c.Const(math.NaN()))
}

// log is FDLIBM's e_log.c.
func (c *Code) log(x Value) Value {
	tiny := c.apply(less, x, c.Const(0x1p-1022))
	normal := c.apply(choose, tiny, c.apply(mul, x, c.Const(1<<54)), x)
	k := c.apply(sub, c.apply(or, c.apply(shiftDown, normal), c.Const(1<<52)), c.apply(choose, tiny, c.Const(1<<52+1023+54), c.Const(1<<52+1023)))
	m := c.apply(or, c.apply(and, normal, c.bits(1<<52-1)), c.Const(1))
	large := c.apply(less, c.Const(math.Sqrt2), m)
	m = c.apply(choose, large, c.apply(mul, m, c.Const(0.5)), m)
	k = c.apply(add, k, large)
	f := c.apply(sub, m, c.Const(1))
	s := c.apply(div, f, c.apply(add, c.Const(2), f))
	z := c.apply(mul, s, s)
	r := c.apply(mul, z, c.horner(z, 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01))
	half := c.apply(mul, c.Const(0.5), c.apply(mul, f, f))
	low := c.apply(fma, k, c.Const(ln2Low), c.apply(mul, s, c.apply(add, half, r)))
	v := c.apply(fma, k, c.Const(ln2High), c.apply(sub, f, c.apply(sub, half, low)))
	zero := c.Const(0)
	v = c.apply(choose, c.apply(less, zero, x), v, c.apply(choose, c.apply(equal, x, zero), c.Const(math.Inf(-1)), c.Const(math.NaN())))
	return c.apply(choose, c.apply(equal, x, c.Const(math.Inf(1))), x, v)
}

func (c *Code) tanh(x Value) Value {
	e := c.expm1(c.apply(minimum, c.apply(mul, c.Const(2), c.apply(abs, x)), c.Const(50)))
	return c.withSign(c.apply(div, e, c.apply(add, e, c.Const(2))), x)
}

// halfway is |x|, e^(|x|/2) and whether |x| is so large that e^−|x| does not matter.
func (c *Code) halfway(x Value) (size, half, large Value) {
	size = c.apply(abs, x)
	return size, c.exp(c.apply(mul, c.Const(0.5), size)), c.apply(less, c.Const(40), size)
}

func (c *Code) sinh(x Value) Value {
	size, half, large := c.halfway(x)
	e := c.expm1(c.apply(minimum, size, c.Const(50)))
	small := c.apply(mul, c.Const(0.5), c.apply(add, e, c.apply(div, e, c.apply(add, e, c.Const(1)))))
	return c.withSign(c.apply(choose, large, c.apply(mul, c.apply(mul, c.Const(0.5), half), half), small), x)
}

func (c *Code) cosh(x Value) Value {
	size, half, large := c.halfway(x)
	e := c.exp(c.apply(minimum, size, c.Const(50)))
	small := c.apply(mul, c.Const(0.5), c.apply(add, e, c.apply(div, c.Const(1), e)))
	return c.apply(choose, large, c.apply(mul, c.apply(mul, c.Const(0.5), half), half), small)
}

// atan reduces and approximates as Cephes' atan.c.
func (c *Code) atan(x Value) Value {
	return c.withSign(c.atanOf(c.apply(abs, x)), x)
}

// atanOf is the angle of x ≥ 0.
func (c *Code) atanOf(x Value) Value {
	one, zero := c.Const(1), c.Const(0)
	steep, middle := c.apply(less, c.Const(1+math.Sqrt2), x), c.apply(less, c.Const(0.66), x)
	choice := func(ifSteep, ifMiddle, otherwise Value) Value {
		return c.apply(choose, steep, ifSteep, c.apply(choose, middle, ifMiddle, otherwise))
	}
	t := c.apply(div, choice(c.Const(-1), c.apply(sub, x, one), x), choice(x, c.apply(add, x, one), one))
	z := c.apply(mul, t, t)
	p := c.horner(z, -6.485021904942025371773e+01, -1.228866684490136173410e+02, -7.500855792314704667340e+01, -1.615753718733365076637e+01, -8.750608600031904122785e-01)
	q := c.horner(z, 1.945506571482613964425e+02, 4.853903996359136964868e+02, 4.328810604912902668951e+02, 1.650270098316988542046e+02, 2.485846490142306297962e+01, 1)
	v := c.apply(fma, t, c.apply(div, c.apply(mul, z, p), q), t)
	const more = 6.123233995736765886130e-17 // of π/2
	v = c.apply(add, v, choice(c.Const(more), c.Const(more/2), zero))
	return c.apply(add, v, choice(c.Const(math.Pi/2), c.Const(math.Pi/4), zero))
}

// asin is the angle of x and √((1 − x)(1 + x)).
func (c *Code) asin(x Value) Value {
	one, size := c.Const(1), c.apply(abs, x)
	root := c.apply(sqrt, c.apply(mul, c.apply(sub, one, size), c.apply(add, one, size)))
	return c.withSign(c.atanOf(c.apply(div, size, root)), x)
}

func (c *Code) acos(x Value) Value {
	one := c.Const(1)
	half := c.atanOf(c.apply(sqrt, c.apply(div, c.apply(sub, one, x), c.apply(add, one, x))))
	return c.apply(mul, c.Const(2), half)
}

func (c *Code) atan2(y, x Value) Value {
	ay, ax := c.apply(abs, y), c.apply(abs, x)
	// 1 of equal ones, infinite ones too; 0 beside 0.
	q := c.apply(choose, c.apply(equal, ay, ax), c.Const(1), c.apply(div, ay, ax))
	q = c.apply(choose, c.apply(equal, ay, c.Const(0)), c.apply(choose, c.isNumber(x), c.Const(0), x), q)
	v := c.atanOf(q)
	negative := c.apply(less, c.apply(or, c.apply(and, x, c.Const(math.Copysign(0, -1))), c.Const(1)), c.Const(0))
	back := c.apply(add, c.apply(sub, c.Const(math.Pi), v), c.Const(1.2246467991473515e-16))
	return c.withSign(c.apply(choose, negative, back, v), y)
}

func (c *Code) hypot(x, y Value) Value {
	x, y = c.apply(abs, x), c.apply(abs, y)
	large, small := c.apply(maximum, x, y), c.apply(minimum, x, y)
	q := c.apply(div, small, large)
	v := c.apply(mul, large, c.apply(sqrt, c.apply(fma, q, q, c.Const(1))))
	fixed := c.apply(maximum, c.apply(equal, large, c.Const(0)), c.apply(equal, large, c.Const(math.Inf(1))))
	return c.apply(choose, fixed, large, v)
}

// powerOf is pow with a constant exponent: products where it is a small integer, a root where it is half of one.
func (c *Code) powerOf(x, y Value, exponent float64) Value {
	n := math.Abs(exponent)
	whole := math.Floor(n)
	if whole > 16 || n != whole && n != whole+0.5 {
		return c.pow(x, y)
	}
	v := c.Const(1)
	if n != whole {
		// A root of −0 is −0, its power 0; of −∞ it is ∞.
		v = c.apply(choose, c.apply(equal, x, c.Const(math.Inf(-1))), c.Const(math.Inf(1)), c.apply(sqrt, c.apply(add, x, c.Const(0))))
	}
	for square := x; whole > 0; whole = math.Floor(whole / 2) {
		if math.Mod(whole, 2) == 1 {
			v = c.apply(mul, v, square)
		}
		square = c.apply(mul, square, square)
	}
	if exponent < 0 {
		v = c.apply(div, c.Const(1), v)
	}
	return v
}

// pow is e^(y ln|x|), the logarithm with a correction, and signs and edges as package math has them.
func (c *Code) pow(x, y Value) Value {
	size, zero, one := c.apply(abs, x), c.Const(0), c.Const(1)
	inf, nan := c.Const(math.Inf(1)), c.Const(math.NaN())
	finite := func(v, otherwise Value) Value { return c.apply(choose, c.isNumber(c.apply(sub, v, v)), v, otherwise) }
	high := c.log(size)
	low := finite(c.apply(fma, size, c.exp(c.apply(neg, high)), c.Const(-1)), zero)
	p := c.apply(mul, y, high)
	rest := finite(c.apply(fma, y, low, c.apply(fma, y, high, c.apply(neg, p))), zero)
	e := c.exp(p)
	v := finite(c.apply(fma, e, rest, e), e)
	half := c.apply(mul, y, c.Const(0.5))
	integer := c.apply(equal, c.apply(floor, y), y)
	odd := c.apply(mul, integer, c.apply(equal, c.apply(equal, c.apply(floor, half), half), zero))
	// Zero and infinity to a power are one of them.
	v = c.apply(choose, c.apply(equal, size, zero), c.apply(choose, c.apply(less, y, zero), inf, zero), v)
	negative := c.apply(less, c.apply(or, c.apply(and, x, c.Const(math.Copysign(0, -1))), one), zero)
	isNegative := c.apply(less, x, zero)
	edge := c.apply(maximum, c.apply(equal, size, zero), c.apply(equal, size, inf))
	v = c.apply(choose, c.apply(mul, negative, odd), c.apply(neg, v), c.apply(choose, c.apply(mul, isNegative, c.apply(equal, c.apply(maximum, integer, edge), zero)), nan, v))
	v = c.apply(choose, c.isNumber(size), v, nan)
	v = c.apply(choose, c.isNumber(y), v, nan)
	isOne := c.apply(maximum, c.apply(equal, y, zero), c.apply(equal, x, one))
	// −1 to an infinite power is 1; p is 0·∞ there.
	isOne = c.apply(maximum, isOne, c.apply(mul, c.apply(equal, size, one), c.apply(equal, c.apply(abs, y), inf)))
	return c.apply(choose, isOne, one, v)
}
