package opf

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/gpc-engine/gpc/tensor"
)

// horizonProgram is a quadratic program over the steps of a horizon, n variables a step:
//
//	min  Σ_k (½ d_kᵀH_k d_k + g_kᵀd_k) + price·Σ_i e_i
//	s.t. lo ≤ d ≤ hi,   sign_i·(own_i·d_k + before_i·d_{k−1}) + e_i ≥ bound_i,   e_i ≥ 0
//
// A row's elastic e_i is the exact penalty: the row is kept where price is above its
// multiplier, and rows that contradict each other still have an answer.
//
// The method is Mehrotra's predictor–corrector (SIAM J. Optim. 2, 1992). Rows reach back by
// one step, so that what is factorised has a band of two steps.
type horizonProgram struct {
	n, steps int
	hessian  []float64 // n×n a step, positive definite
	gradient []float64
	lo, hi   []float64 // with lo < hi
	price    float64
	rows     []elasticRow
	x        []float64 // d, the answer

	band         []float64 // of the system, upper, band() a row
	right, full  []float64
	move         []float64 // Δd
	below, above []float64 // multipliers of lo and hi
	dBelow       []float64
	dAbove       []float64
	state        []rowState
}

// elasticRow is one of the rows, of step and the one before.
type elasticRow struct {
	step     int
	sign     float64
	current  []float64
	previous []float64 // nil: none
	bound    float64
}

// rowState are what the method moves of a row: its slack s and elastic e with s − e = what
// the row leaves of its bound, the multiplier z of s, price − z that of e.
type rowState struct {
	s, e, z    float64
	ds, de, dz float64
	weight     float64 // D = 1/(s/z + e/(price − z))
}

// Constants of the interior point.
const (
	programIterations = 60
	programGap        = 1e-11 // mean complementarity at the end, in units of the gradient
	programGradient   = 1e-8  // residual of stationarity, likewise
	programBoundary   = 0.995 // of the way to it at most
	programStart      = 1e-2  // pu, room that rows begin with
)

func newHorizonProgram(n, steps int) *horizonProgram {
	size := n * steps
	vector := func() []float64 { return make([]float64, size) }
	p := &horizonProgram{
		n: n, steps: steps, hessian: make([]float64, n*size), gradient: vector(), lo: vector(), hi: vector(), x: vector(),
		right: vector(), full: vector(), move: vector(), below: vector(), above: vector(), dBelow: vector(), dAbove: vector(),
	}
	p.band = make([]float64, size*p.width())
	return p
}

// width is that of the band's upper half, the diagonal included.
func (p *horizonProgram) width() int {
	if p.steps == 1 {
		return p.n
	}
	return 2 * p.n
}

// value is a row's value at d.
func (p *horizonProgram) value(r *elasticRow, d []float64) float64 {
	offset := r.step * p.n
	v := tensor.Dot(r.current, d[offset:offset+p.n])
	if r.previous != nil {
		v += tensor.Dot(r.previous, d[offset-p.n:offset])
	}
	return r.sign * v
}

// solve leaves the answer in x and reports whether it meets the tolerances.
func (p *horizonProgram) solve() bool {
	scale := 1.0
	for _, g := range p.gradient {
		scale = math.Max(scale, math.Abs(g))
	}
	p.begin(scale)
	for range programIterations {
		gap := p.complementarity(0, 0)
		p.stationarity()
		residual := 0.0
		for j, v := range p.full {
			residual = math.Max(residual, math.Abs(v-p.below[j]+p.above[j]))
		}
		if gap <= programGap*scale && residual <= programGradient*scale {
			return true
		}
		factor, ok := p.factorise()
		if !ok {
			return false
		}
		p.direction(factor, 0, false)
		primal := p.stepLength()
		centre := p.complementarity(primal, primal) / gap
		p.direction(factor, centre*centre*centre*gap, true)
		p.advance(programBoundary * p.stepLength())
	}
	return false
}

// begin starts inside all bounds: rows that are kept at their slack, others with the
// elastic that they lack.
func (p *horizonProgram) begin(scale float64) {
	clear(p.move)
	clear(p.dBelow)
	clear(p.dAbove)
	for j := range p.x {
		room := 0.1 * (p.hi[j] - p.lo[j])
		p.x[j] = math.Min(math.Max(0, p.lo[j]+room), p.hi[j]-room)
		p.below[j] = scale * math.Min(1, programStart/(p.x[j]-p.lo[j]))
		p.above[j] = scale * math.Min(1, programStart/(p.hi[j]-p.x[j]))
	}
	p.state = slices.Grow(p.state[:0], len(p.rows))[:len(p.rows)]
	for i := range p.rows {
		r, t := &p.rows[i], &p.state[i]
		slack := p.value(r, p.x) - r.bound
		*t = rowState{s: math.Max(slack, programStart)}
		t.e = math.Max(t.s-slack, programStart*programStart)
		t.s = slack + t.e
		t.z = math.Min(scale*programStart/t.s, p.price/2)
	}
}

// complementarity is its mean after parts of the present direction.
func (p *horizonProgram) complementarity(primal, dual float64) float64 {
	sum := 0.0
	for j, x := range p.x {
		x += primal * p.move[j]
		sum += (x-p.lo[j])*(p.below[j]+dual*p.dBelow[j]) + (p.hi[j]-x)*(p.above[j]+dual*p.dAbove[j])
	}
	for i := range p.state {
		t := &p.state[i]
		z := t.z + dual*t.dz
		sum += (t.s+primal*t.ds)*z + (t.e+primal*t.de)*(p.price-z)
	}
	return sum / float64(2*len(p.x)+2*len(p.state))
}

// stationarity writes H·d + g − Aᵀz.
func (p *horizonProgram) stationarity() {
	n := p.n
	for j := range p.x {
		k := j / n
		p.full[j] = p.gradient[j] + tensor.Dot(p.hessian[j*n:(j+1)*n], p.x[k*n:(k+1)*n])
	}
	for i := range p.rows {
		p.scatter(&p.rows[i], -p.state[i].z, p.full)
	}
}

// scatter adds v times a row's coefficients.
func (p *horizonProgram) scatter(r *elasticRow, v float64, dst []float64) {
	offset := r.step * p.n
	tensor.Axpy(r.sign*v, r.current, dst[offset:offset+p.n])
	if r.previous != nil {
		tensor.Axpy(r.sign*v, r.previous, dst[offset-p.n:offset])
	}
}

// factorise factorises H + AᵀDA + Σ.
func (p *horizonProgram) factorise() (blas64.TriangularBand, bool) {
	n, width := p.n, p.width()
	clear(p.band)
	for j, x := range p.x {
		row := p.hessian[j*n : (j+1)*n]
		copy(p.band[j*width:], row[j%n:])
		p.band[j*width] += p.below[j]/(x-p.lo[j]) + p.above[j]/(p.hi[j]-x)
	}
	for i := range p.rows {
		r, t := &p.rows[i], &p.state[i]
		t.weight = 1 / (t.s/t.z + t.e/(p.price-t.z))
		offset := r.step * n
		p.square(r.current, t.weight, offset)
		if r.previous == nil {
			continue
		}
		p.square(r.previous, t.weight, offset-n)
		for a, v := range r.previous {
			if v != 0 {
				tensor.Axpy(t.weight*v, r.current, p.band[(offset-n+a)*width+n-a:])
			}
		}
	}
	matrix := blas64.SymmetricBand{N: len(p.x), K: width - 1, Stride: width, Data: p.band, Uplo: blas.Upper}
	return lapack64.Pbtrf(matrix)
}

// square adds weight·v·vᵀ at the block that begins at a row.
func (p *horizonProgram) square(v []float64, weight float64, offset int) {
	width := p.width()
	for a, x := range v {
		if x != 0 {
			tensor.Axpy(weight*x, v[a:], p.band[(offset+a)*width:])
		}
	}
}

// direction finds Δ for a complementarity of centre, corrected by the products of the
// direction before where that was the predictor's.
func (p *horizonProgram) direction(factor blas64.TriangularBand, centre float64, corrected bool) {
	target := func(product float64) float64 {
		if corrected {
			return centre - product
		}
		return centre
	}
	for j, x := range p.x {
		low, high := target(p.move[j]*p.dBelow[j]), target(-p.move[j]*p.dAbove[j])
		p.right[j] = low/(x-p.lo[j]) - high/(p.hi[j]-x) - p.full[j]
		p.dBelow[j], p.dAbove[j] = low, high // until Δd is known
	}
	for i := range p.rows {
		r, t := &p.rows[i], &p.state[i]
		slack, elastic := target(t.ds*t.dz), target(-t.de*t.dz)
		t.ds, t.de = slack, elastic // likewise
		t.dz = slack/t.z - elastic/(p.price-t.z) + r.bound - p.value(r, p.x)
		p.scatter(r, t.weight*t.dz, p.right)
	}
	copy(p.move, p.right)
	lapack64.Pbtrs(factor, blas64.General{Rows: len(p.move), Cols: 1, Stride: 1, Data: p.move})
	for j, x := range p.x {
		d := p.move[j]
		low, high := x-p.lo[j], p.hi[j]-x
		p.dBelow[j] = (p.dBelow[j]-p.below[j]*d)/low - p.below[j]
		p.dAbove[j] = (p.dAbove[j]+p.above[j]*d)/high - p.above[j]
	}
	for i := range p.rows {
		r, t := &p.rows[i], &p.state[i]
		change := p.value(r, p.move)
		t.dz = t.weight * (t.dz - change)
		w := p.price - t.z
		t.de = (t.de+t.e*t.dz)/w - t.e
		t.ds = change + t.de + p.value(r, p.x) + t.e - t.s - r.bound
	}
}

// stepLength is the part of the direction that keeps everything positive, at most 1.
func (p *horizonProgram) stepLength() float64 {
	step := 1.0
	hold := func(v, dv float64) {
		if v+step*dv < 0 {
			step = -v / dv
		}
	}
	for j, x := range p.x {
		hold(x-p.lo[j], p.move[j])
		hold(p.hi[j]-x, -p.move[j])
		hold(p.below[j], p.dBelow[j])
		hold(p.above[j], p.dAbove[j])
	}
	for i := range p.state {
		t := &p.state[i]
		hold(t.s, t.ds)
		hold(t.e, t.de)
		hold(t.z, t.dz)
		hold(p.price-t.z, -t.dz)
	}
	return step
}

func (p *horizonProgram) advance(step float64) {
	for j := range p.x {
		p.x[j] += step * p.move[j]
		p.below[j] += step * p.dBelow[j]
		p.above[j] += step * p.dAbove[j]
	}
	for i := range p.state {
		t := &p.state[i]
		t.s += step * t.ds
		t.e += step * t.de
		t.z += step * t.dz
	}
}
