package ocp

import (
	"math"
	"math/cmplx"

	"github.com/gpc-engine/gpc/domain"
)

// cart is a linear-quadratic problem: position and speed, one bounded force,
// deviation and effort as objectives, a speed limit as margin. There is no
// context.
type cart struct {
	force, speed float64 // bounds
	steps        int
}

const cartDt = 0.2

func (p cart) Spec() *domain.Spec {
	return &domain.Spec{
		Name:       "cart",
		Measured:   []domain.Variable{{Name: "x"}, {Name: "v"}},
		Action:     []domain.Variable{{Name: "f", Lo: -p.force, Hi: p.force}},
		Objectives: []domain.Variable{{Name: "deviation"}, {Name: "effort"}},
		Margins:    []domain.Variable{{Name: "speed"}},
		Plan:       1, Steps: p.steps,
		Semantic: domain.Semantic{K: []float64{4, 2}, Epsilon: []float64{1, 1}, Rho: 1},
	}
}
func (cart) Base(s, c, plan []float64) { clear(plan) }
func (cart) Objectives(s, u, c, J []float64) {
	J[0] = s[0]*s[0] + 0.5*s[1]*s[1]
	J[1] = u[0] * u[0]
}
func (cart) Gradient(s, u, c, sigma, gs, gu []float64) {
	gs[0], gs[1] = 2*sigma[0]*s[0], sigma[0]*s[1]
	gu[0] = 2 * sigma[1] * u[0]
}
func (cart) Indicators(s, u, c, delta []float64) {
	delta[0] = s[0] * s[0] / (s[0]*s[0] + 1)
	delta[1] = u[0] * u[0] / (u[0]*u[0] + 1)
}
func (cart) Step(s, c, u, sn, cn []float64) {
	sn[0], sn[1] = s[0]+cartDt*s[1], s[1]+cartDt*u[0]
}
func (p cart) Margins(s, c, u, m []float64) {
	v := s[1] + cartDt*u[0]
	m[0] = p.speed - v // of the next state, one-sided
}
func (cart) Project(s, c, u []float64) bool { return true }
func (cart) Fallback(s, c, u []float64)     { clear(u) }

// tanks is nonlinear, with context: two coupled tanks, two pumps, the reference
// level and the previous action known, tracking against changes of the pumps,
// and an overflow and a slew margin.
type tanks struct{}

func (tanks) Spec() *domain.Spec {
	return &domain.Spec{
		Name:       "tanks",
		Measured:   []domain.Variable{{Name: "h1", Unit: "m"}, {Name: "h2", Unit: "m"}},
		Context:    []domain.Variable{{Name: "reference", Unit: "m"}, {Name: "pump1"}, {Name: "pump2"}},
		Action:     []domain.Variable{{Name: "pump1", Lo: 0, Hi: 1}, {Name: "pump2", Lo: 0, Hi: 1}},
		Objectives: []domain.Variable{{Name: "tracking"}, {Name: "pumping"}},
		Margins:    []domain.Variable{{Name: "overflow1"}, {Name: "overflow2"}, {Name: "slew1up"}, {Name: "slew1down"}},
		Plan:       2, Steps: 29,
		Semantic: domain.Semantic{K: []float64{2, 2}, Epsilon: []float64{1, 1}, Rho: 1},
	}
}
func (tanks) Base(s, c, plan []float64) {
	for i := range plan {
		plan[i] = c[1+i%2]
	}
}
func (tanks) Objectives(s, u, c, J []float64) {
	e := s[1] - c[0]
	J[0] = e * e
	d1, d2 := u[0]-c[1], u[1]-c[2]
	J[1] = 0.05*(u[0]*u[0]+u[1]*u[1]) + d1*d1 + d2*d2
}
func (tanks) Gradient(s, u, c, sigma, gs, gu []float64) {
	gs[0], gs[1] = 0, 2*sigma[0]*(s[1]-c[0])
	gu[0] = sigma[1] * (0.1*u[0] + 2*(u[0]-c[1]))
	gu[1] = sigma[1] * (0.1*u[1] + 2*(u[1]-c[2]))
}
func (tanks) Indicators(s, u, c, delta []float64) {
	e := s[1] - c[0]
	delta[0] = e * e / (e*e + 0.04)
	delta[1] = 1 / (1 + math.Exp(-8*(s[0]-0.9)))
}
func (tanks) flow(h float64) float64 { return math.Sqrt(math.Sqrt(h*h + 1e-4)) }
func (p tanks) Step(s, c, u, sn, cn []float64) {
	const dt = 0.5
	f1, f2 := 0.3*p.flow(s[0]), 0.35*p.flow(s[1])
	sn[0] = s[0] + dt*(0.5*u[0]-f1)
	sn[1] = s[1] + dt*(0.2*u[1]+f1-f2)
	cn[0], cn[1], cn[2] = c[0], u[0], u[1]
}
func (p tanks) Margins(s, c, u, m []float64) {
	var sn [2]float64
	var cn [3]float64
	p.Step(s, c, u, sn[:], cn[:])
	m[0], m[1] = 1-sn[0], 0.9-sn[1]
	m[2], m[3] = 0.2-(u[0]-c[1]), 0.2+(u[0]-c[1])
}
func (tanks) Project(s, c, u []float64) bool { return true }
func (tanks) Fallback(s, c, u []float64)     { copy(u, c[1:]) }

// dualTanks is tanks with its functions at dual numbers.
type dualTanks struct{ tanks }

func (p dualTanks) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Derivatives: domain.Derivatives{Step: p.StepDual, Objectives: p.ObjectivesDual, Margins: p.MarginsDual}}
}

func (dualTanks) StepDual(s, c, u, sn, cn []complex128) {
	const dt = 0.5
	flow := func(h complex128) complex128 { return cmplx.Sqrt(cmplx.Sqrt(h*h + 1e-4)) }
	f1, f2 := 0.3*flow(s[0]), 0.35*flow(s[1])
	sn[0] = s[0] + dt*(0.5*u[0]-f1)
	sn[1] = s[1] + dt*(0.2*u[1]+f1-f2)
	cn[0], cn[1], cn[2] = c[0], u[0], u[1]
}
func (dualTanks) ObjectivesDual(s, u, c, j []complex128) {
	e := s[1] - c[0]
	j[0] = e * e
	d1, d2 := u[0]-c[1], u[1]-c[2]
	j[1] = 0.05*(u[0]*u[0]+u[1]*u[1]) + d1*d1 + d2*d2
}
func (p dualTanks) MarginsDual(s, c, u, m []complex128) {
	var sn [2]complex128
	var cn [3]complex128
	p.StepDual(s, c, u, sn[:], cn[:])
	m[0], m[1] = 1-sn[0], 0.9-sn[1]
	m[2], m[3] = 0.2-(u[0]-c[1]), 0.2+(u[0]-c[1])
}

func newTanks(opt Options) *Solver {
	axes := []domain.Variable{{Name: "h1", Lo: 0.1, Hi: 0.9}, {Name: "h2", Lo: 0.1, Hi: 0.8}, {Name: "reference", Lo: 0.2, Hi: 0.85}}
	s, err := New(tanks{}, axes, func(p, s, c []float64) {
		s[0], s[1] = p[0], p[1]
		c[0], c[1], c[2] = p[2], 0.4, 0.1
	}, opt)
	if err != nil {
		panic(err)
	}
	return s
}

func newCart(p cart, opt Options) *Solver {
	axes := []domain.Variable{{Name: "x", Lo: -2, Hi: 2}, {Name: "v", Lo: -1, Hi: 1}}
	s, err := New(p, axes, func(q, s, c []float64) { copy(s, q) }, opt)
	if err != nil {
		panic(err)
	}
	return s
}
