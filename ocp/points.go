package ocp

import (
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

// points collects the points of objectives or gradients. A domain.Derivatives.Block evaluates them in one call;
// without it they are evaluated point by point.
type points struct {
	problem        domain.Problem
	ns, nu, nc, no int
	block          func(domain.Block) // nil: point by point
	b              domain.Block
}

// maxPoints bounds the memory of one block; further stages start another.
const maxPoints = 4096

func newPoints(p domain.Problem) points {
	spec := p.Spec()
	return points{problem: p, ns: len(spec.Measured), nu: len(spec.Action), nc: len(spec.Context), no: len(spec.Objectives), block: domain.AbilitiesOfProblem(p).Derivatives.Block}
}

func (p *points) reset() {
	p.b.Rows = 0
	p.b.S, p.b.U, p.b.C = p.b.S[:0], p.b.U[:0], p.b.C[:0]
	p.b.Sigma = p.b.Sigma[:0]
}

// add appends a point.
func (p *points) add(s, c, u []float64) {
	p.b.Rows++
	p.b.S, p.b.C, p.b.U = append(p.b.S, s...), append(p.b.C, c...), append(p.b.U, u...)
}

// addWeighted appends a point of gradients with its weights of the objectives.
func (p *points) addWeighted(s, c, u, sigma []float64) {
	p.add(s, c, u)
	p.b.Sigma = append(p.b.Sigma, sigma...)
}

// objectives evaluates J at every point, [rows][no].
func (p *points) objectives() []float64 {
	ns, nu, nc := p.ns, p.nu, p.nc
	no := p.no
	p.b.J = slices.Grow(p.b.J[:0], p.b.Rows*no)[:p.b.Rows*no]
	if p.block != nil {
		if p.b.Rows > 0 {
			p.block(domain.Block{Rows: p.b.Rows, S: p.b.S, U: p.b.U, C: p.b.C, J: p.b.J})
		}
		return p.b.J
	}
	for r := range p.b.Rows {
		p.problem.Objectives(p.b.S[r*ns:(r+1)*ns], p.b.U[r*nu:(r+1)*nu], p.b.C[r*nc:(r+1)*nc], p.b.J[r*no:(r+1)*no])
	}
	return p.b.J
}

// gradients evaluates ∂(σᵀJ)/∂s and ∂(σᵀJ)/∂u at every point, [rows][ns] and
// [rows][nu].
func (p *points) gradients() (gs, gu []float64) {
	ns, nu, nc := p.ns, p.nu, p.nc
	no := p.no
	p.b.GS, p.b.GU = slices.Grow(p.b.GS[:0], p.b.Rows*ns)[:p.b.Rows*ns], slices.Grow(p.b.GU[:0], p.b.Rows*nu)[:p.b.Rows*nu]
	if p.block != nil {
		b := p.b
		b.J = nil
		p.block(b)
		return p.b.GS, p.b.GU
	}
	for r := range p.b.Rows {
		p.problem.Gradient(p.b.S[r*ns:(r+1)*ns], p.b.U[r*nu:(r+1)*nu], p.b.C[r*nc:(r+1)*nc], p.b.Sigma[r*no:(r+1)*no], p.b.GS[r*ns:(r+1)*ns], p.b.GU[r*nu:(r+1)*nu])
	}
	return p.b.GS, p.b.GU
}
