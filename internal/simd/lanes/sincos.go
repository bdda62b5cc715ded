package lanes

import "math"

// piRest is π minus its nearest float64.
const piRest = 1.2246467991473532e-16

// taylor is the coefficient ±1/n! of sine and cosine.
func taylor(n int) float64 {
	factorial := 1.0
	for k := 2; k <= n; k++ {
		factorial *= float64(k)
	}
	return float64(1-2*(n/2%2)) / factorial
}

// SincosConstants are what Sincos reads up to a power.
func SincosConstants(highest int) []float64 {
	all := []float64{0.5, 1, 4, 1 / math.Pi, math.Pi, piRest}
	for n := range highest + 1 {
		all = append(all, taylor(n))
	}
	return all
}

// Sincos returns sine and cosine of x, reduced by the nearest multiple of π, by their series up to the powers odd and even. constant
// has the cell of a constant.
func (b *Builder) Sincos(x Col, odd, even int, constant func(float64) Col) (sin, cos Col) {
	half := constant(0.5)
	k := b.Floor(b.FMA(x, constant(1/math.Pi), half))
	r := b.FNMA(k, constant(piRest), b.FNMA(k, constant(math.Pi), x))
	h := b.Mul(k, half)
	rest := b.Sub(h, b.Floor(h)) // ½ where k is odd
	sign := b.FNMA(rest, constant(4), constant(1))
	sin, cos = b.ReducedSincos(r, odd, even, constant)
	return b.Mul(sin, sign), b.Mul(cos, sign)
}

// ReducedSincos is Sincos of x in [−π/2, π/2]. Without the terms beyond 21 and 20 it is off by less than 2e-17.
func (b *Builder) ReducedSincos(x Col, odd, even int, constant func(float64) Col) (sin, cos Col) {
	x2 := b.Mul(x, x)
	series := func(n int) Col {
		v := constant(taylor(n))
		for n -= 2; n >= 0; n -= 2 {
			v = b.FMA(v, x2, constant(taylor(n)))
		}
		return v
	}
	return b.Mul(series(odd), x), series(even)
}
