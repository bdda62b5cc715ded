package dense

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/simd/isa"
)

// with runs f with the kernels of every instruction set that there are.
func with(t *testing.T, f func(t *testing.T)) {
	for _, l := range isa.Available() {
		t.Run(l.String(), func(t *testing.T) {
			set(t, l)
			f(t)
		})
	}
}

func normal(rng *rand.Rand, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = rng.NormFloat64()
	}
	return out
}

// A sum is that of products one after the other, each rounded once, to the bit; nothing beside it is written.
func TestSumsOfProducts(t *testing.T) {
	with(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		for range 3000 {
			n, k, m, more := rng.IntN(11), rng.IntN(9), rng.IntN(20), rng.IntN(3)
			transposed, lower, apart := rng.IntN(2) == 0, rng.IntN(2) == 0, rng.IntN(2) == 0
			if lower {
				m = n
			}
			p, wide, high := New(n, k, m), k, n
			if transposed {
				p, wide, high = NewTransposed(n, k, m), n, k
			}
			aRow, bRow := wide, m
			if rng.IntN(2) == 0 {
				aRow, bRow = wide+rng.IntN(3), m+rng.IntN(3)
				p = p.Left(aRow).Right(bRow)
			}
			into := m
			if rng.IntN(2) == 0 {
				into += rng.IntN(3)
				p = p.Into(into)
			}
			c, a, b := normal(rng, n*into+8), normal(rng, high*aRow), normal(rng, k*bRow)
			if lower {
				p = p.Lower()
			}
			d, row := c, into
			p = p.Within(row)
			if apart {
				row = m + more
				d, p = normal(rng, n*row), p.Within(row)
			}
			want := slices.Clone(c)
			for i := range n {
				for j := range m {
					want[i*into+j] = d[i*row+j]
					for l := range k {
						v := a
						if transposed {
							v = v[l*aRow+i:]
						} else {
							v = v[i*aRow+l:]
						}
						want[i*into+j] = math.FMA(v[0], b[l*bRow+j], want[i*into+j])
					}
				}
			}
			was := slices.Clone(c)
			p.Sum(c, d, a, b)
			for at, v := range c {
				above := lower && at < n*into && at%into > at/into
				if v != want[at] && !(above && v == was[at]) {
					t.Fatalf("%d×%d×%d, transposed: %v, lower: %v: entry %d is %v, want %v", n, k, m, transposed, lower, at, v, want[at])
				}
			}
		}
	})
}

// A product that is larger than its slices is a mistake of the caller, and not of the memory behind them.
func TestShortSlicesAreRefused(t *testing.T) {
	with(t, func(t *testing.T) {
		for _, short := range [][3]int{{5, 4, 6}, {6, 3, 6}, {6, 4, 5}} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("slices of %v entries are taken for 2×3 += 2×2 · 2×3", short)
					}
				}()
				p := New(2, 2, 3)
				p.Add(make([]float64, short[0]), make([]float64, short[1]), make([]float64, short[2]))
			}()
		}
	})
}
