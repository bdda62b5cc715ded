// Package heating is a domain in a module of its own, with its functions in CUDA too:
// a heated room, two objectives, one hard limit.
//
// A heater warms the air, the air warms the wall, and both lose heat to a cold outside.
// The air shall follow a set point with little energy, and never get warmer than a
// limit, which the set point may lie above.
package heating

import (
	"embed"
	"io/fs"
	"math"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/ocp"
)

//go:embed images/manifest.json images/*.zst
var embedded embed.FS

// Constants of the room, for one step of ten minutes.
const (
	steps   = 24
	wall    = 0.15 // of the difference to the wall that the air gives away
	outside = 0.05 // of the difference to the outside
	store   = 0.03 // of the difference to the air that the wall takes up
	heat    = 3.0  // K that a full heater brings
	limit   = 25.0 // °C of the air
	urgency = 4.0  // K², squared error of half urgency
	idle    = 0.2  // urgency of saving energy, at all times
)

// Indices of the context.
const (
	setPoint = iota // °C
	weather         // °C outside
	clock           // fraction of the episode
	contextSize
)

// Room is the problem.
type Room struct{ spec domain.Spec }

var _ domain.Problem = (*Room)(nil)

// Abilities implements domain.Able.
func (r *Room) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Device: r.Device, Remaining: r.Remaining}
}

// New builds the problem.
func New() *Room {
	return &Room{domain.Spec{
		Name:        "heating",
		Description: "a heated room: comfort and energy, never too warm",
		Measured:    []domain.Variable{{Name: "air", Unit: "°C"}, {Name: "wall", Unit: "°C"}},
		Context:     []domain.Variable{{Name: "set point", Unit: "°C"}, {Name: "outside", Unit: "°C"}, {Name: "clock", Unit: "1"}},
		Action:      []domain.Variable{{Name: "heater", Unit: "of full", Lo: 0, Hi: 1}},
		Objectives:  []domain.Variable{{Name: "discomfort", Unit: "K²"}, {Name: "energy", Unit: "1"}},
		Margins:     []domain.Variable{{Name: "warmth", Unit: "K"}},
		Plan:        1, Steps: steps, StepSeconds: 600,
		Semantic:        domain.Semantic{K: []float64{4, 2}, Epsilon: []float64{1, 1}, Rho: 1},
		MarginTolerance: 1e-9,
		Navigation: domain.Navigation{
			LatentStep: 0.005, VMax: 1, Epsilon: 0.1, MetricLambda: 1e-3, TopK: 2, LieGain: 0.1, LieScale: 0.1,
			RetractionMix: 0.5, Smoothing: 0.3, PriorityFilter: 1, Neighbours: 10,
		},
		Training: domain.Training{
			Latent: 6, Hidden: 32, Scenarios: 200, Weights: 2, ManifoldEpochs: 100, RolloutEpochs: 10, Batch: 256,
			LearningRate: 2e-3, SpectralBound: 20, Codes: 2000, LocalNeighbours: 8,
		},
	}}
}

// Device names the kernels of heating.cu and packs the constants in the order that its
// enumeration reads them.
func (r *Room) Device() domain.DeviceCode {
	images, err := fs.Sub(embedded, "images")
	if err != nil {
		panic("heating: " + err.Error())
	}
	return domain.DeviceCode{Name: "heating", Images: images, Constants: []float64{wall, outside, store, heat, limit, urgency, idle, steps}}
}

// Spec implements domain.Problem, as do the methods below.
func (r *Room) Spec() *domain.Spec { return &r.spec }

// Base is zero: the decoder gives the heater itself.
func (r *Room) Base(_, _, plan []float64) { clear(plan) }

// Indicators: discomfort against urgency; energy is always a little urgent.
func (r *Room) Indicators(s, _, c, delta []float64) {
	e := s[0] - c[setPoint]
	delta[0], delta[1] = e*e/(e*e+urgency), idle
}

// air is the air's temperature after a step without heat.
func air(s, c []float64) float64 { return s[0] + wall*(s[1]-s[0]) + outside*(c[weather]-s[0]) }

// Step is the known dynamics.
func (r *Room) Step(s, c, u, sNext, cNext []float64) {
	a, w := air(s, c)+heat*u[0], s[1]+store*(s[0]-s[1])
	sNext[0], sNext[1] = a, w
	copy(cNext, c)
	cNext[clock] += 1.0 / steps
}

// Objectives are the squared error of the air after the step and the squared heat.
func (r *Room) Objectives(s, u, c, J []float64) {
	e := air(s, c) + heat*u[0] - c[setPoint]
	J[0], J[1] = e*e, u[0]*u[0]
}

// Gradient is that of σᵀJ.
func (r *Room) Gradient(s, u, c, sigma, gs, gu []float64) {
	e := 2 * sigma[0] * (air(s, c) + heat*u[0] - c[setPoint])
	gs[0], gs[1] = e*(1-wall-outside), e*wall
	gu[0] = e*heat + 2*sigma[1]*u[0]
}

// Margins is how far the air stays below the limit after the step.
func (r *Room) Margins(s, c, u, m []float64) { m[0] = limit - air(s, c) - heat*u[0] }

// Project clips to the box and turns the heater down to what the limit leaves. It
// cannot fail where air, wall and outside are below the limit: the air after a step
// without heat is a mean of them.
func (r *Room) Project(s, c, u []float64) bool {
	u[0] = math.Max(0, math.Min(math.Min(1, math.Max(0, u[0])), (limit-air(s, c))/heat))
	var m [1]float64
	r.Margins(s, c, u, m[:])
	return r.spec.Keeps(m[0])
}

// Fallback turns the heater off.
func (r *Room) Fallback(_, _, u []float64) { clear(u) }

// Remaining is domain.ProblemAbilities.Remaining.
func (r *Room) Remaining(c []float64) int { return max(1, steps-int(math.Round(c[clock]*steps))) }

// axes are the scenario's parameters with their ranges.
var axes = []domain.Variable{
	{Name: "air", Unit: "°C", Lo: 12, Hi: 22},
	{Name: "wall", Unit: "°C", Lo: 12, Hi: 20},
	{Name: "set point", Unit: "°C", Lo: 18, Hi: 27},
	{Name: "outside", Unit: "°C", Lo: -10, Hi: 10},
}

func initial(p, s, c []float64) {
	copy(s, p[:2])
	c[setPoint], c[weather], c[clock] = p[2], p[3], 0
}

// Case bundles the problem with the generic solver and the generic plant.
func Case() (domain.Case, error) {
	room := New()
	solver, err := ocp.New(room, axes, initial, ocp.Options{Perturbed: 10, StateScale: []float64{3, 3}, PerturbScale: 0.1})
	if err != nil {
		return domain.Case{}, err
	}
	plant := closedloop.Simulated(room, axes, initial)
	plant.Oracle = solver.Oracle
	return domain.Case{Problem: room, Solver: solver, Plant: plant}, nil
}
