// Package normal draws standard normal numbers by their place: a seed and four words say which number comes, so that
// any of many is drawn alone, in any order, on a CPU or a GPU, and is the same to the bit.
//
// Uniform bits are those of Philox 4×32 with ten rounds (Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy
// as 1, 2, 3", SC 2011). A normal number is the quantile function at them, by cubics over an eighth of an octave each: two
// tables' worth of products and sums that no compiler fuses. kernels/include/normal.cuh is the same in CUDA.
package normal

import (
	"math"
	"math/bits"
	"sync"
)

// Place names a run of numbers under a seed.
type Place struct{ Number, Decision, Stream uint32 }

// Fill writes the first numbers of a place.
func Fill(to []float64, seed uint64, at Place) {
	table := quantiles()
	for e := 0; e < len(to); e += 4 {
		for i, x := range philox(seed, [4]uint32{uint32(e / 4), at.Number, at.Decision, at.Stream}) {
			if e+i < len(to) {
				to[e+i] = table.at(x)
			}
		}
	}
}

// The multipliers and the key's increments of Philox 4×32.
const (
	multiplier0, multiplier1 = 0xD2511F53, 0xCD9E8D57
	weyl0, weyl1             = 0x9E3779B9, 0xBB67AE85
	rounds                   = 10
)

func philox(seed uint64, c [4]uint32) [4]uint32 {
	k0, k1 := uint32(seed), uint32(seed>>32)
	for range rounds {
		high0, low0 := bits.Mul32(multiplier0, c[0])
		high1, low1 := bits.Mul32(multiplier1, c[2])
		c = [4]uint32{high1 ^ c[1] ^ k0, low1, high0 ^ c[3] ^ k1, low0}
		k0, k1 = k0+weyl0, k1+weyl1
	}
	return c
}

// A table has the cubics of 32 octaves in eighths.
const (
	eighths = 8
	pieces  = 32 * eighths
	order   = 4
)

type table [pieces * order]float64

// Table is the table that devices read.
func Table() []float64 { return quantiles()[:] }

// at is the quantile at 32 bits: the sign, and 31 bits of the probability p = (2·bits + 1)/2³³ beyond the number.
func (t *table) at(x uint32) float64 {
	v := x<<1 | 1
	octave := 31 - bits.LeadingZeros32(v)
	v <<= 31 - octave
	c := t[(octave*eighths+int(v>>28&(eighths-1)))*order:][:order]
	f := float64(v&0x0fffffff) * 0x1p-28
	// Each product is rounded before it is added, here and on a device.
	z := float64(c[3]*f) + c[2]
	z = float64(z*f) + c[1]
	z = float64(z*f) + c[0]
	if x>>31 == 1 {
		return -z
	}
	return z
}

// quantiles makes the table: through the quantile function at Chebyshev's points of each piece.
var quantiles = sync.OnceValue(func() *table {
	var t table
	for i := range pieces {
		low := math.Ldexp(1+float64(i%eighths)/eighths, i/eighths-33)
		width := math.Ldexp(1.0/eighths, i/eighths-33)
		var x, d [order]float64
		for j := range order {
			x[j] = 0.5 - 0.5*math.Cos((float64(j)+0.5)*math.Pi/order)
			d[j] = math.Sqrt2 * math.Erfinv(1-2*(low+width*x[j]))
		}
		for k := 1; k < order; k++ { // divided differences
			for j := order - 1; j >= k; j-- {
				d[j] = (d[j] - d[j-1]) / (x[j] - x[j-k])
			}
		}
		c := t[i*order:][:order]
		for k := order - 1; k >= 0; k-- { // Newton's form multiplied out
			for j := order - 1; j > 0; j-- {
				c[j] = c[j-1] - x[k]*c[j]
			}
			c[0] = d[k] - x[k]*c[0]
		}
	}
	return &t
})
