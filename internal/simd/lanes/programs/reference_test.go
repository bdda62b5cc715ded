package programs

import (
	"math"
	"math/big"

	"github.com/gpc-engine/gpc/equations/program"
)

// digits of the reference, in bits: angles lose thirty of them, and cancellations more.
const digits = 300

func bigOf(v float64) *big.Float { return new(big.Float).SetPrec(digits).SetFloat64(v) }

func bigAdd(x, y *big.Float) *big.Float { return new(big.Float).SetPrec(digits).Add(x, y) }
func bigSub(x, y *big.Float) *big.Float { return new(big.Float).SetPrec(digits).Sub(x, y) }
func bigMul(x, y *big.Float) *big.Float { return new(big.Float).SetPrec(digits).Mul(x, y) }
func bigDiv(x, y *big.Float) *big.Float { return new(big.Float).SetPrec(digits).Quo(x, y) }
func bigSqrt(x *big.Float) *big.Float   { return new(big.Float).SetPrec(digits).Sqrt(x) }

// series sums term(0) + term(1) + …, each from the one before, until they no longer matter.
func series(first *big.Float, next func(k int, term *big.Float) *big.Float) *big.Float {
	sum, term := new(big.Float).SetPrec(digits).Set(first), first
	for k := 1; term.Sign() != 0 && term.MantExp(nil) > sum.MantExp(nil)-digits-10; k++ {
		term = next(k, term)
		sum = bigAdd(sum, term)
	}
	return sum
}

// bigAtan is the angle of x, halved twice as far as its series converges fast.
func bigAtan(x *big.Float) *big.Float {
	const halvings = 6
	for range halvings {
		x = bigDiv(x, bigAdd(bigOf(1), bigSqrt(bigAdd(bigOf(1), bigMul(x, x)))))
	}
	square := bigMul(x, x)
	power := x
	sum := series(x, func(k int, _ *big.Float) *big.Float {
		power = bigMul(power, square)
		power.Neg(power)
		return bigDiv(power, bigOf(float64(2*k+1)))
	})
	return bigMul(sum, bigOf(1<<halvings))
}

var bigPi = bigMul(bigOf(4), bigAtan(bigOf(1)))

func bigSin(x *big.Float) *big.Float {
	turns, _ := bigDiv(x, bigMul(bigOf(2), bigPi)).Int(nil)
	x = bigSub(x, bigMul(bigMul(bigOf(2), bigPi), new(big.Float).SetPrec(digits).SetInt(turns)))
	square := bigMul(x, x)
	return series(x, func(k int, term *big.Float) *big.Float {
		return new(big.Float).Neg(bigDiv(bigMul(term, square), bigOf(float64(2*k*(2*k+1)))))
	})
}

func bigCos(x *big.Float) *big.Float { return bigSin(bigAdd(x, bigDiv(bigPi, bigOf(2)))) }

// bigExp squares e^(x/2^n).
func bigExp(x *big.Float) *big.Float {
	const squarings = 20
	small := bigDiv(x, bigOf(1<<squarings))
	v := series(bigOf(1), func(k int, term *big.Float) *big.Float { return bigDiv(bigMul(term, small), bigOf(float64(k))) })
	for range squarings {
		v = bigMul(v, v)
	}
	return v
}

// bigLog is Newton's method on the exponential.
func bigLog(x *big.Float) *big.Float {
	v := bigOf(float64(x.MantExp(nil)) * math.Ln2)
	for range 10 {
		v = bigAdd(v, bigSub(bigDiv(x, bigExp(v)), bigOf(1)))
	}
	return v
}

// reference is an elementary function where it is defined and finite.
func reference(o program.Op, a, b float64) *big.Float {
	x, y, one := bigOf(a), bigOf(b), bigOf(1)
	root := func(x *big.Float) *big.Float { return bigSqrt(bigMul(bigSub(one, x), bigAdd(one, x))) }
	e := func() *big.Float { return bigExp(x) }
	switch o {
	case program.Sin:
		return bigSin(x)
	case program.Cos:
		return bigCos(x)
	case program.Tan:
		return bigDiv(bigSin(x), bigCos(x))
	case program.Asin:
		return bigAtan(bigDiv(x, root(x)))
	case program.Acos:
		return bigMul(bigOf(2), bigAtan(bigSqrt(bigDiv(bigSub(one, x), bigAdd(one, x)))))
	case program.Atan:
		return bigAtan(x)
	case program.Atan2: // of (a, b)
		v := bigAtan(bigDiv(x, y))
		if b < 0 {
			v = bigAdd(v, new(big.Float).Mul(bigPi, bigOf(math.Copysign(1, a))))
		}
		return v
	case program.Exp:
		return e()
	case program.Log:
		return bigLog(x)
	case program.Sinh:
		return bigDiv(bigSub(e(), bigDiv(one, e())), bigOf(2))
	case program.Cosh:
		return bigDiv(bigAdd(e(), bigDiv(one, e())), bigOf(2))
	case program.Tanh:
		square := bigMul(e(), e())
		return bigDiv(bigSub(square, one), bigAdd(square, one))
	case program.Pow:
		v := bigExp(bigMul(y, bigLog(bigOf(math.Abs(a)))))
		if a < 0 && math.Mod(b, 2) != 0 {
			v.Neg(v)
		}
		return v
	case program.Hypot:
		return bigSqrt(bigAdd(bigMul(x, x), bigMul(y, y)))
	}
	return nil
}
