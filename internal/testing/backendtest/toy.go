package backendtest

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// Toy is a smooth control problem of any size with three objectives:
//
//	J_1 = Σ_i (s_i − c_i)²/2n_s,  J_2 = Σ_j u_j²/2n_u,  J_3 = Σ_i sin(s_i) u_i/n_s
//
// (indices of c and u taken modulo their sizes), Base = c/10, s' = 0.9 s +
// 0.1 u, the box |u_j| ≤ 0.8 on every action component but the last of three or
// more, and the hard margin 2 − |s_0| − |u_0|. It has Derivatives.Rows.
type Toy struct{ spec domain.Spec }

// NewToy makes a problem of the given sizes, all at least 1.
func NewToy(measured, context, action, plan int) *Toy {
	variables := func(name string, n int) []domain.Variable {
		v := make([]domain.Variable, n)
		for i := range v {
			v[i] = domain.Variable{Name: fmt.Sprint(name, i), Unit: "1"}
		}
		return v
	}
	spec := domain.Spec{
		Name: "toy", Description: "smooth problem of the conformance suite",
		Measured: variables("s", measured), Context: variables("c", context), Action: variables("u", action),
		Objectives: variables("J", 3), Margins: variables("m", 1), Plan: plan, Steps: 5, StepSeconds: 1,
		Semantic: domain.Semantic{K: []float64{1, 1, 1}, Epsilon: []float64{1, 1, 1}, Rho: 1},
	}
	for j := range spec.Action {
		if action < 3 || j < action-1 {
			spec.Action[j].Lo, spec.Action[j].Hi = -0.8, 0.8
		}
	}
	return &Toy{spec}
}

// Abilities implements domain.Able.
func (p *Toy) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Derivatives: domain.Derivatives{Rows: p.GradientBatch}}
}

// Spec implements domain.Problem.
func (p *Toy) Spec() *domain.Spec { return &p.spec }

// Base implements domain.Problem.
func (p *Toy) Base(s, c, plan []float64) {
	for j := range plan {
		plan[j] = 0.1 * c[j%len(c)]
	}
}

// Objectives implements domain.Problem.
func (p *Toy) Objectives(s, u, c, J []float64) {
	clear(J)
	for i, v := range s {
		d := v - c[i%len(c)]
		J[0] += d * d / 2 / float64(len(s))
		J[2] += math.Sin(v) * u[i%len(u)] / float64(len(s))
	}
	for _, v := range u {
		J[1] += v * v / 2 / float64(len(u))
	}
}

// Gradient implements domain.Problem.
func (p *Toy) Gradient(s, u, c, sigma, gs, gu []float64) {
	for j, v := range u {
		gu[j] = sigma[1] * v / float64(len(u))
	}
	for i, v := range s {
		gs[i] = (sigma[0]*(v-c[i%len(c)]) + sigma[2]*math.Cos(v)*u[i%len(u)]) / float64(len(s))
		gu[i%len(u)] += sigma[2] * math.Sin(v) / float64(len(s))
	}
}

// GradientBatch is domain.Derivatives.Rows row by row.
func (p *Toy) GradientBatch(b domain.Batch) {
	sizes := &p.spec
	ns, nu, nc, m := sizes.MeasuredSize(), sizes.ActionSize(), sizes.ContextSize(), sizes.ObjectiveSize()
	gs, gu, J := make([]float64, ns), make([]float64, nu), make([]float64, m)
	for r := range b.Rows {
		s, u := row64(b.S[r*b.SStride:][:ns]), row64(b.U[r*b.UStride:][:nu])
		c, sigma := row64(b.C[r*b.CStride:][:nc]), row64(b.Sigma[r*b.SigmaStride:][:m])
		p.Gradient(s, u, c, sigma, gs, gu)
		tensor.Narrow(b.GS[r*b.GSStride:][:ns], gs)
		tensor.Narrow(b.GU[r*b.GUStride:][:nu], gu)
		if b.J != nil {
			p.Objectives(s, u, c, J)
			tensor.Narrow(b.J[r*b.JStride:][:m], J)
		}
	}
}

// Indicators implements domain.Problem.
func (p *Toy) Indicators(s, u, c, delta []float64) {
	for i := range delta {
		v := s[i%len(s)]
		delta[i] = v * v / (1 + v*v)
	}
}

// Step implements domain.Problem.
func (p *Toy) Step(s, c, u, sNext, cNext []float64) {
	for i, v := range s {
		sNext[i] = 0.9*v + 0.1*u[i%len(u)]
	}
	copy(cNext, c)
}

// Margins implements domain.Problem.
func (p *Toy) Margins(s, c, u, m []float64) { m[0] = 2 - math.Abs(s[0]) - math.Abs(u[0]) }

// Project implements domain.Problem.
func (p *Toy) Project(s, c, u []float64) bool {
	for j, a := range p.spec.Action {
		if a.Bounded() {
			u[j] = min(max(u[j], a.Lo), a.Hi)
		}
	}
	room := 2 - math.Abs(s[0])
	if room < 0 {
		return false
	}
	u[0] = min(max(u[0], -room), room)
	return true
}

// Fallback implements domain.Problem.
func (p *Toy) Fallback(s, c, u []float64) { clear(u) }
