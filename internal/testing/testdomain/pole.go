package testdomain

import (
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/domain"
)

// Pole is an inverted pendulum on a cart with a speed limit: balance and the cart's
// distance from a reference as objectives, each of the state that an action leads to.
// It is unstable in open loop. Its functions are written once, for float64 and for dual
// numbers.
type Pole struct{}

const (
	// PoleForce is the bound of the action, N.
	PoleForce = 10.0
	// PoleSteps are the decisions of an episode.
	PoleSteps = 40

	poleSpeed                                       = 2.0
	poleDt, cartMass, poleMass, poleLength, gravity = 0.05, 1.0, 0.1, 0.5, 9.81
)

func sincos[T float64 | complex128](x T) (sin, cos T) {
	switch v := any(x).(type) {
	case float64:
		s, c := math.Sincos(v)
		return any(s).(T), any(c).(T)
	case complex128:
		s, c := math.Sincos(real(v))
		return any(complex(s, imag(v)*c)).(T), any(complex(c, -imag(v)*s)).(T)
	}
	panic("unreachable")
}

// poleNext is the state after one step of semi-implicit Euler.
func poleNext[T float64 | complex128](s []T, f T) (n [4]T) {
	sn, cs := sincos(s[2])
	tmp := (f + poleMass*poleLength*s[3]*s[3]*sn) * (1 / (cartMass + poleMass))
	ta := (gravity*sn - cs*tmp) / (poleLength * (4.0/3 - poleMass*cs*cs*(1/(cartMass+poleMass))))
	n[1] = s[1] + poleDt*(tmp-poleMass*poleLength*ta*cs*(1/(cartMass+poleMass)))
	n[3] = s[3] + poleDt*ta
	n[0], n[2] = s[0]+poleDt*n[1], s[2]+poleDt*n[3]
	return n
}

func poleStep[T float64 | complex128](s, c, u, sn, cn []T) {
	n := poleNext(s, u[0])
	copy(sn, n[:])
	cn[0], cn[1] = c[0], c[1]+1.0/PoleSteps
}

func poleObjectives[T float64 | complex128](s, u, c, j []T) {
	n := poleNext(s, u[0])
	j[0] = n[2]*n[2] + 0.1*n[3]*n[3] + 1e-3*u[0]*u[0]
	j[1] = (n[0]-c[0])*(n[0]-c[0]) + 0.1*n[1]*n[1]
}

func poleMargins[T float64 | complex128](s, c, u, m []T) {
	n := poleNext(s, u[0])
	m[0], m[1] = n[1]+poleSpeed, poleSpeed-n[1]
}

func (Pole) Spec() *domain.Spec { return &poleSpec }

var poleSpec = domain.Spec{
	Name:       "cartpole",
	Measured:   []domain.Variable{{Name: "x"}, {Name: "v"}, {Name: "theta"}, {Name: "omega"}},
	Context:    []domain.Variable{{Name: "ref"}, {Name: "clock"}},
	Action:     []domain.Variable{{Name: "force", Lo: -PoleForce, Hi: PoleForce}},
	Objectives: []domain.Variable{{Name: "balance"}, {Name: "position"}},
	Margins:    []domain.Variable{{Name: "speed-"}, {Name: "speed+"}},
	Plan:       1, Steps: PoleSteps,
	Semantic: domain.Semantic{K: []float64{4, 2}, Epsilon: []float64{1, 1}, Rho: 1},
}

func (Pole) Base(_, _, plan []float64)              { clear(plan) }
func (Pole) Fallback(_, _, u []float64)             { clear(u) }
func (Pole) Project(_, _, _ []float64) bool         { return true }
func (Pole) Step(s, c, u, sn, cn []float64)         { poleStep(s, c, u, sn, cn) }
func (Pole) Objectives(s, u, c, j []float64)        { poleObjectives(s, u, c, j) }
func (Pole) Margins(s, c, u, m []float64)           { poleMargins(s, c, u, m) }
func (Pole) StepDual(s, c, u, sn, cn []complex128)  { poleStep(s, c, u, sn, cn) }
func (Pole) ObjectivesDual(s, u, c, j []complex128) { poleObjectives(s, u, c, j) }
func (Pole) MarginsDual(s, c, u, m []complex128)    { poleMargins(s, c, u, m) }

// Abilities implements domain.Able.
func (p Pole) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Derivatives: domain.Derivatives{Step: p.StepDual, Objectives: p.ObjectivesDual, Margins: p.MarginsDual}}
}

func (p Pole) Gradient(s, u, c, sigma, gs, gu []float64) {
	var zs [4]complex128
	var zu [1]complex128
	var zc [2]complex128
	var j [2]complex128
	for i, v := range s {
		zs[i] = complex(v, 0)
	}
	zc[0], zu[0] = complex(c[0], 0), complex(u[0], 0)
	for i := range 5 {
		at := &zu[0]
		if i < 4 {
			at = &zs[i]
		}
		*at += complex(0, domain.DualStep)
		p.ObjectivesDual(zs[:], zu[:], zc[:], j[:])
		*at = complex(real(*at), 0)
		v := (sigma[0]*imag(j[0]) + sigma[1]*imag(j[1])) / domain.DualStep
		if i < 4 {
			gs[i] = v
		} else {
			gu[0] = v
		}
	}
}
func (Pole) Indicators(s, u, c, d []float64) {
	a := s[2]*s[2] + 0.1*s[3]*s[3]
	d[0], d[1] = a/(a+0.05), 0.2
}

// PoleAxes are the scenario's ranges: the state at first, and the reference.
var PoleAxes = []domain.Variable{
	{Name: "x", Lo: -1, Hi: 1}, {Name: "v", Lo: -0.5, Hi: 0.5}, {Name: "theta", Lo: -0.3, Hi: 0.3},
	{Name: "omega", Lo: -0.5, Hi: 0.5}, {Name: "ref", Lo: -1, Hi: 1},
}

// PoleStart draws the state and context of a scenario.
func PoleStart(rng *rand.Rand) (s, c []float64) {
	for _, a := range PoleAxes {
		s = append(s, a.Draw(rng))
	}
	return s[:4:4], []float64{s[4], 0}
}
