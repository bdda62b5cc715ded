package opf

import "github.com/gpc-engine/gpc/tensor"

// leastCost is a leastChange that minimises slope·x + xᵀW⁻¹x/2. The program below it has the variables
// x + W·slope.
type leastCost struct {
	*leastChange
	gradient []float64 // W·slope
	nearby   bool      // what is held is near what the answer holds: the dual active set goes on from there
}

// begin takes the slope. The bounds of x are set, and there are no rows yet.
func (p *leastCost) begin(slope []float64) {
	m := p.metric
	p.gradient = resized(p.gradient, len(p.x))
	modal := make([]float64, m.rank)
	for j, g := range slope {
		tensor.Axpy(g, m.mode(j), modal)
	}
	for j, g := range slope {
		p.gradient[j] = m.diagonal[j]*g + tensor.Dot(m.mode(j), modal)
		p.lo[j] += p.gradient[j]
		p.hi[j] += p.gradient[j]
	}
}

// solve leaves the answer in x. Rows from a number on are new: their bounds are still those of x.
func (p *leastCost) solve(start int, tolerance float64) {
	for k := start; k < len(p.bound); k++ {
		p.bound[k] += tensor.Dot(p.row(k), p.gradient)
	}
	if p.nearby {
		p.solveDual(tolerance)
	} else {
		p.leastChange.solve(tolerance)
	}
	tensor.Axpy(-1, p.gradient, p.x)
}

// boundOf is the bound of a row by x, after solve.
func (p *leastCost) boundOf(k int) float64 { return p.bound[k] - tensor.Dot(p.row(k), p.gradient) }

// box are the bounds of a variable of x, after begin.
func (p *leastCost) box(j int) (lo, hi float64) {
	return p.lo[j] - p.gradient[j], p.hi[j] - p.gradient[j]
}
