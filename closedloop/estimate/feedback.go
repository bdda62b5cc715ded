package estimate

import (
	"math"

	"github.com/gpc-engine/gpc/internal/simd/dense"
)

// feedback is the linear regulator along the stages of a plan. A state counts in units of its scale and an action in
// halves of its box.
type feedback struct {
	n, ns, nu int
	scale     []float64 // 1/scale² of the states, and 1/half² of the actions
	half      []float64
	value     []float64 // cost-to-go, [ns][ns]
	product   []float64 // with the derivatives by (u, s), [ns][nu+ns]
	joint     []float64 // what is left from a stage on, a quadratic function of (u, s), lower triangle, [nu+ns][nu+ns]
	y, minus  []float64 // both's entries of s and u by the factor of those of u, [ns][nu], and −yᵀ
	zeros     []float64

	onward, back, less dense.Product
}

func newFeedback(n int, scale, half []float64, width int) *feedback {
	ns, nu := len(scale), len(half)
	q := nu + ns
	f := &feedback{
		n: n, ns: ns, nu: nu,
		value: make([]float64, ns*ns), product: make([]float64, ns*q), joint: make([]float64, q*q), y: make([]float64, ns*nu), minus: make([]float64, nu*ns), zeros: make([]float64, q*q),
		onward: dense.New(ns, ns, q).Right(width), back: dense.NewTransposed(q, ns, q).Left(width).Lower(), less: dense.New(ns, nu, ns).Within(q).Lower(),
	}
	for _, v := range scale {
		f.scale = append(f.scale, 1/(v*v))
	}
	for _, v := range half {
		f.half = append(f.half, 1/(v*v))
	}
	return f
}

// solve writes the gains of stages.
func (f *feedback) solve(list []stage) {
	clear(f.value)
	f.rest()
	for t := len(list) - 1; t >= 0; t-- {
		f.onward.Sum(f.product, f.zeros, f.value, list[t].d)
		f.back.Sum(f.joint, f.zeros, list[t].d, f.product)
		f.gains(list[t].k)
		f.less.Sum(f.value, f.joint[f.nu*(f.nu+f.ns+1):], f.y, f.minus)
		mirror(f.value, f.ns)
		f.rest()
	}
}

// rest adds what a state costs.
func (f *feedback) rest() {
	for i, v := range f.scale {
		f.value[i*f.ns+i] += v
	}
}

// gains writes those of a stage, [nu][n]: by the factor L Lᵀ of both's block of u, u = −L⁻ᵀ yᵀ s.
func (f *feedback) gains(k []float64) {
	nu, q, l := f.nu, f.nu+f.ns, f.joint
	for j := range nu {
		l[j*q+j] += f.half[j]
		for i := range j {
			l[j*q+j] -= l[j*q+i] * l[j*q+i]
		}
		l[j*q+j] = math.Sqrt(l[j*q+j])
		for i := j + 1; i < q; i++ {
			row, pivot := l[i*q:i*q+j+1], l[j*q:j*q+j+1]
			for c := range j {
				row[j] -= row[c] * pivot[c]
			}
			row[j] /= pivot[j]
		}
	}
	for i := range f.ns {
		y, minus := f.y[i*nu:(i+1)*nu], f.minus[i:]
		copy(y, l[(nu+i)*q:])
		for j := nu - 1; j >= 0; j-- {
			minus[j*f.ns] = -y[j]
			sum := -y[j]
			for c := j + 1; c < nu; c++ {
				sum -= l[c*q+j] * k[c*f.n+i]
			}
			k[j*f.n+i] = sum / l[j*q+j]
		}
	}
}

// mirror writes the upper triangle of a symmetric matrix from its lower one.
func mirror(x []float64, n int) {
	for i := 1; i < n; i++ {
		for j, v := range x[i*n : i*n+i] {
			x[j*n+i] = v
		}
	}
}
