// Package tanks is an example of a control problem outside the program: two
// coupled water tanks, two objectives, two hard limits. It uses public packages only, and states its
// objectives as a Gorgonia graph, from which their gradients come; ByHand is the
// same problem with its gradients written out.
//
// Two pumps fill the tanks, a pipe joins them, and a demand draws from the
// second. The levels shall follow a reference with little pumping, and neither
// tank may overflow. The reference may be above the rims, so the limits bind.
package tanks

import (
	"math"

	"gorgonia.org/gorgonia"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/gorgoniagrad"
	"github.com/gpc-engine/gpc/ocp"
)

// Constants of the plant.
const (
	steps   = 30
	dt      = 5.0  // s
	inflow  = 0.03 // m/s of level at full pump
	pipe    = 0.02 // 1/s, exchange between the tanks
	rim     = 1.0  // m, of both tanks
	smooth  = 0.01 // m, keeps the root of the outflow smooth at an empty tank
	urgency = 0.05 // m², squared level error of half urgency
	idle    = 0.2  // urgency of saving energy, at all times
)

// Indices of the context.
const (
	reference = iota // m
	demand           // m^½/s, drawn from tank 2 as demand·√level
	clock            // fraction of the episode
	contextSize
)

// Tanks is the problem. Objectives and Gradient are
// promoted from the compiled graph, the rest from the system.
type Tanks struct {
	system
	*gorgoniagrad.Graph
}

var _ domain.Problem = (*Tanks)(nil)

// Abilities implements domain.Able.
func (t *Tanks) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Derivatives: t.Graph.Derivatives(), Remaining: t.Remaining}
}

// system is the problem but for its objectives.
type system struct{ spec domain.Spec }

// axes are the scenario's parameters with their ranges.
var axes = []domain.Variable{
	{Name: "h1", Unit: "m", Lo: 0.1, Hi: 0.9},
	{Name: "h2", Unit: "m", Lo: 0.1, Hi: 0.9},
	{Name: "reference", Unit: "m", Lo: 0.3, Hi: 1.1},
	{Name: "demand", Unit: "m^0.5/s", Lo: 0.002, Hi: 0.015},
}

func initial(p, s, c []float64) {
	copy(s, p[:2])
	c[reference], c[demand], c[clock] = p[2], p[3], 0
}

// New builds the problem.
func New() (*Tanks, error) {
	t := &Tanks{system: system{newSpec("tanks")}}
	var err error
	t.Graph, err = gorgoniagrad.New(t.Spec(), objectives)
	return t, err
}

func newSpec(name string) domain.Spec {
	pump := func(name string) domain.Variable { return domain.Variable{Name: name, Unit: "of full", Lo: 0, Hi: 1} }
	return domain.Spec{
		Name:        name,
		Description: "two coupled water tanks: level tracking and energy, no overflow",
		Measured:    []domain.Variable{{Name: "h1", Unit: "m"}, {Name: "h2", Unit: "m"}},
		Context:     []domain.Variable{{Name: "reference", Unit: "m"}, {Name: "demand", Unit: "m^0.5/s"}, {Name: "clock", Unit: "1"}},
		Action:      []domain.Variable{pump("pump1"), pump("pump2")},
		Objectives:  []domain.Variable{{Name: "level error", Unit: "m²"}, {Name: "energy", Unit: "1"}},
		Margins:     []domain.Variable{{Name: "rim1", Unit: "m"}, {Name: "rim2", Unit: "m"}},
		Plan:        1, Steps: steps, StepSeconds: dt,
		Semantic:        domain.Semantic{K: []float64{4, 2}, Epsilon: []float64{1, 1}, Rho: 1},
		MarginTolerance: 1e-9,
		Navigation: domain.Navigation{
			LatentStep: 0.005, VMax: 1, Epsilon: 0.1, MetricLambda: 1e-3, TopK: 2, LieGain: 0.1, LieScale: 0.1,
			RetractionMix: 0.5, Smoothing: 0.3, PriorityFilter: 1, Neighbours: 12,
		},
		Training: domain.Training{
			Latent: 8, Hidden: 64, Scenarios: 400, Weights: 2, ManifoldEpochs: 120, RolloutEpochs: 10, Batch: 256,
			LearningRate: 2e-3, SpectralBound: 20, Codes: 4000, LocalNeighbours: 8,
		},
	}
}

// objectives is J₁ = (h₁' − r)² + (h₂' − r)² of the levels after the step, and
// J₂ = u₁² + u₂².
func objectives(v *gorgoniagrad.Variables) ([]*gorgonia.Node, error) {
	add := func(a, b *gorgonia.Node) *gorgonia.Node { return gorgonia.Must(gorgonia.Add(a, b)) }
	sub := func(a, b *gorgonia.Node) *gorgonia.Node { return gorgonia.Must(gorgonia.Sub(a, b)) }
	mul := func(a, b *gorgonia.Node) *gorgonia.Node { return gorgonia.Must(gorgonia.HadamardProd(a, b)) }
	square := func(a *gorgonia.Node) *gorgonia.Node { return gorgonia.Must(gorgonia.Square(a)) }
	exchange := mul(v.Constant(dt*pipe), sub(v.S(0), v.S(1)))
	drawn := mul(mul(v.Constant(dt), v.C(demand)), gorgonia.Must(gorgonia.Sqrt(add(v.S(1), v.Constant(smooth)))))
	h1 := sub(add(v.S(0), mul(v.Constant(dt*inflow), v.U(0))), exchange)
	h2 := sub(add(add(v.S(1), mul(v.Constant(dt*inflow), v.U(1))), exchange), drawn)
	level := add(square(sub(h1, v.C(reference))), square(sub(h2, v.C(reference))))
	return []*gorgonia.Node{level, add(square(v.U(0)), square(v.U(1)))}, nil
}

// Spec implements domain.Problem, as do the methods below.
func (t *system) Spec() *domain.Spec { return &t.spec }

// Base is zero: the decoder gives the pumps themselves.
func (t *system) Base(_, _, plan []float64) { clear(plan) }

// Indicators: level error against urgency; energy is always a little urgent.
func (t *system) Indicators(s, _, c, delta []float64) {
	e := s[1] - c[reference]
	delta[0], delta[1] = e*e/(e*e+urgency), idle
}

// Step is the known dynamics. A tank does not run below empty.
func (t *system) Step(s, c, u, sNext, cNext []float64) {
	exchange := dt * pipe * (s[0] - s[1])
	sNext[0] = math.Max(0, s[0]+dt*inflow*u[0]-exchange)
	sNext[1] = math.Max(0, s[1]+dt*inflow*u[1]+exchange-dt*c[demand]*math.Sqrt(s[1]+smooth))
	copy(cNext, c)
	cNext[clock] += 1.0 / steps
}

// Margins is the free height below each rim after the step.
func (t *system) Margins(s, c, u, m []float64) {
	var c2 [contextSize]float64
	t.Step(s, c, u, m, c2[:])
	for i, h := range m {
		m[i] = rim - h
	}
}

// Project clips to the box and turns each pump down until its tank stays below
// the rim; exact, since a level is linear in its own pump. It cannot fail from
// levels below the rims: without pumping, a level after the step is at most a
// mean of both levels before it.
func (t *system) Project(s, c, u []float64) bool {
	for i := range u {
		u[i] = math.Min(1, math.Max(0, u[i]))
	}
	var m [2]float64
	t.Margins(s, c, u, m[:])
	for i := range u {
		if m[i] < 0 {
			u[i] = math.Max(0, u[i]+m[i]/(dt*inflow))
		}
	}
	t.Margins(s, c, u, m[:])
	return t.spec.Keeps(math.Min(m[0], m[1]))
}

// Fallback stops both pumps.
func (t *system) Fallback(_, _, u []float64) { clear(u) }

// Remaining is domain.ProblemAbilities.Remaining.
func (t *system) Remaining(c []float64) int {
	return max(1, steps-int(math.Round(c[clock]*steps)))
}

// Case bundles the problem with the generic solver and the generic plant.
func Case() (domain.Case, error) {
	t, err := New()
	if err != nil {
		return domain.Case{}, err
	}
	return caseOf(t)
}

func caseOf(p domain.Problem) (domain.Case, error) {
	solver, err := ocp.New(p, axes, initial, ocp.Options{Perturbed: 10, StateScale: []float64{0.3, 0.3}, PerturbScale: 0.1})
	if err != nil {
		return domain.Case{}, err
	}
	plant := closedloop.Simulated(p, axes, initial)
	plant.Oracle = solver.Oracle
	return domain.Case{Problem: p, Solver: solver, Plant: plant}, nil
}
