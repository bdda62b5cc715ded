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
	// Pattern, optional, is which second derivatives there are. Without it Add finds out what F is
	// curved in, by as many evaluations as there are inputs, and takes all pairs of them.
	Pattern *Pattern

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
	grow(&f.product, len(vary)*k)
	clear(f.product)
	f.prepare(x, vary, sizes)
	if f.Pattern == nil {
		f.look(x, vary, slopes)
	} else {
		f.curved = f.curved[:0]
		for i, a := range vary {
			if f.Pattern.curved[a] {
				f.curved = append(f.curved, i)
			}
		}
	}
	for p, i := range f.curved {
		x[vary[i]] = complex(f.to[i], 0)
		inverse := 1 / ((f.to[i] - f.from[i]) * Step)
		for q, l := range f.curved[:p+1] {
			if f.Pattern != nil && !f.Pattern.Has(vary[i], vary[l]) {
				continue
			}
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

// Exceeds reports whether F is curved at x in an input that no pair of the pattern has. The
// arguments are those of Add.
func (f *Curvature) Exceeds(pattern *Pattern, x []complex128, vary []int, slopes, sizes []float64) bool {
	f.prepare(x, vary, sizes)
	f.look(x, vary, slopes)
	for _, i := range f.curved {
		if !pattern.curved[vary[i]] {
			return true
		}
	}
	return false
}

// prepare chooses the steps of the differences.
func (f *Curvature) prepare(x []complex128, vary []int, sizes []float64) {
	grow(&f.from, len(vary))
	grow(&f.to, len(vary))
	for i, a := range vary {
		f.from[i] = real(x[a])
		f.to[i] = f.from[i] + differenceStep*math.Max(sizes[i], math.Abs(f.from[i]))
	}
}

// look lists the entries of vary that the function is curved in at x.
func (f *Curvature) look(x []complex128, vary []int, slopes []float64) {
	f.curved = f.curved[:0]
	// Where all inputs move, by parts of their steps that have no simple ratios, a derivative
	// that is the same to the bit belongs to an input without curvature.
	for i, a := range vary {
		_, part := math.Modf(float64(i) * math.Phi)
		x[a] = complex(f.from[i]+(0.5+0.5*part)*(f.to[i]-f.from[i]), 0)
	}
	for i, a := range vary {
		if f.slope(x, a) != slopes[i] {
			f.curved = append(f.curved, i)
		}
	}
	for i, a := range vary {
		x[a] = complex(f.from[i], 0)
	}
}

// grow makes *b n long; what it holds is lost.
func grow[T any](b *[]T, n int) {
	if cap(*b) < n {
		*b = make([]T, n)
	}
	*b = (*b)[:n]
}

// Pattern is by which pairs of inputs a function has second derivatives anywhere. One that
// misses a pair leaves these out.
type Pattern struct {
	inputs int
	pairs  []bool // [inputs][inputs]
	curved []bool // [inputs]: whether there is a pair with it
}

// NewPattern has no pairs.
func NewPattern(inputs int) *Pattern {
	return &Pattern{inputs: inputs, pairs: make([]bool, inputs*inputs), curved: make([]bool, inputs)}
}

// Has reports whether the pair is in the pattern.
func (p *Pattern) Has(a, b int) bool { return p.pairs[a*p.inputs+b] }

func (p *Pattern) add(a, b int) {
	p.pairs[a*p.inputs+b], p.pairs[b*p.inputs+a] = true, true
	p.curved[a], p.curved[b] = true, true
}

// Learn adds the pairs whose second derivative of the function is not zero to the bit when an input is moved
// from x by a part of its size.
func (f *Curvature) Learn(pattern *Pattern, x, sizes []float64) {
	at, base := make([]complex128, len(x)), make([]float64, len(x))
	for i, v := range x {
		at[i] = complex(v, 0)
	}
	for b := range at {
		base[b] = f.slope(at, b)
	}
	for a, v := range x {
		at[a] = complex(v+0.1*scattered(a)*sizes[a], 0)
		for b := range at[:a+1] {
			if f.slope(at, b) != base[b] {
				pattern.add(a, b)
			}
		}
		at[a] = complex(v, 0)
	}
}
