package tanks

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// ByHand is the same problem under the name "tanks-by-hand", its objectives and
// their gradients written out instead of taken from the graph. It is here to
// compare the two: what the graph saves to write, and what it costs.
type ByHand struct{ system }

var _ domain.Problem = (*ByHand)(nil)

// Abilities implements domain.Able.
func (b *ByHand) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Remaining: b.Remaining}
}

// NewByHand builds the problem.
func NewByHand() *ByHand { return &ByHand{system{newSpec("tanks-by-hand")}} }

// CaseByHand is Case for ByHand.
func CaseByHand() (domain.Case, error) { return caseOf(NewByHand()) }

// errors returns h₁' − r and h₂' − r of the levels after the step.
func (b *ByHand) errors(s, u, c []float64) (e1, e2 float64) {
	exchange := dt * pipe * (s[0] - s[1])
	e1 = s[0] + dt*inflow*u[0] - exchange - c[reference]
	e2 = s[1] + dt*inflow*u[1] + exchange - dt*c[demand]*math.Sqrt(s[1]+smooth) - c[reference]
	return e1, e2
}

// Objectives implements domain.Problem.
func (b *ByHand) Objectives(s, u, c, J []float64) {
	e1, e2 := b.errors(s, u, c)
	J[0], J[1] = e1*e1+e2*e2, u[0]*u[0]+u[1]*u[1]
}

// Gradient implements domain.Problem.
func (b *ByHand) Gradient(s, u, c, sigma, gs, gu []float64) {
	e1, e2 := b.errors(s, u, c)
	e1, e2 = 2*sigma[0]*e1, 2*sigma[0]*e2
	gs[0] = e1*(1-dt*pipe) + e2*dt*pipe
	gs[1] = e1*dt*pipe + e2*(1-dt*pipe-dt*c[demand]/(2*math.Sqrt(s[1]+smooth)))
	gu[0] = e1*dt*inflow + 2*sigma[1]*u[0]
	gu[1] = e2*dt*inflow + 2*sigma[1]*u[1]
}
