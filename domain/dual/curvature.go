package dual

import (
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

// differenceStep of exact derivatives, relative to the size of the input: the square root
// of the roundoff.
const differenceStep = 1e-7

// Curvature takes second derivatives of a function of several numbers: differences of its
// exact first ones. The work grows with the number of inputs that it is curved in, not with
// that of all inputs. It is a workspace for one caller at a time.
type Curvature struct {
	// F is the function's derivative times Step where the inputs are dual numbers: the
	// imaginary part of its value. It leaves x as it is.
	F func(x []complex128) float64

	from, to []float64
	curved   []int
	product  []float64
}

// Slopes writes into slopes, [len(vary)], the derivatives times Step by the entries vary of x,
// which are real numbers.
func (f *Curvature) Slopes(x []complex128, vary []int, slopes []float64) {
	for i, a := range vary {
		slopes[i] = f.slope(x, a)
	}
}

func (f *Curvature) slope(x []complex128, a int) float64 {
	at := x[a]
	x[a] = complex(real(at), Step)
	v := f.F(x)
	x[a] = at
	return v
}

// Add adds to h, [k][k], the lower triangle of DᵀHD: H are the second derivatives by the
// entries vary of x, of the sizes [len(vary)], and D, [len(vary)][k], are k directions. slopes
// are those of Slopes, to the bit. x is as before in the end.
func (f *Curvature) Add(x []complex128, vary []int, slopes, sizes, directions []float64, k int, h []float64) {
	n := len(vary)
	grow(&f.from, n)
	grow(&f.to, n)
	grow(&f.product, n*k)
	for i, a := range vary {
		f.from[i] = real(x[a])
		f.to[i] = f.from[i] + differenceStep*math.Max(sizes[i], math.Abs(f.from[i]))
	}
	// Where all inputs move, by parts of their steps that have no simple ratios, a derivative
	// that is the same to the bit belongs to an input without curvature.
	for i, a := range vary {
		_, part := math.Modf(float64(i) * math.Phi)
		x[a] = complex(f.from[i]+(0.5+0.5*part)*(f.to[i]-f.from[i]), 0)
	}
	f.curved = f.curved[:0]
	for i, a := range vary {
		if f.slope(x, a) != slopes[i] {
			f.curved = append(f.curved, i)
		}
	}
	for i, a := range vary {
		x[a] = complex(f.from[i], 0)
	}
	clear(f.product)
	for p, i := range f.curved {
		x[vary[i]] = complex(f.to[i], 0)
		inverse := 1 / ((f.to[i] - f.from[i]) * Step)
		for q, l := range f.curved[:p+1] {
			second := (f.slope(x, vary[l]) - slopes[l]) * inverse
			tensor.Axpy(second, directions[l*k:(l+1)*k], f.product[p*k:])
			if q != p {
				tensor.Axpy(second, directions[i*k:(i+1)*k], f.product[q*k:])
			}
		}
		x[vary[i]] = complex(f.from[i], 0)
	}
	for p, i := range f.curved {
		for r, d := range directions[i*k : (i+1)*k] {
			if d != 0 {
				tensor.Axpy(d, f.product[p*k:p*k+r+1], h[r*k:])
			}
		}
	}
}

// grow makes *b n long; what it holds is lost.
func grow[T any](b *[]T, n int) {
	if cap(*b) < n {
		*b = make([]T, n)
	}
	*b = (*b)[:n]
}
