package ocp

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// chainOfMasses is masses in a line on springs, one end fixed, the other driven in the plane,
// above a wall: 4 states a mass and 2.
type chainOfMasses int

func chainStep[T float64 | complex128](masses int, s, u, sn []T) {
	const dt, stiffness, mass, rest, drag, weight = 0.1, 0.3, 0.03, 0.033, 0.5, 0.2
	n := 2 * masses
	pos, vel := s[:n+2], s[n+2:] // masses and the driven end; velocities of the masses
	force := func(i, j int) (fx, fy T) {
		var xi, yi T
		if i >= 0 {
			xi, yi = pos[2*i], pos[2*i+1]
		}
		dx, dy := pos[2*j]-xi, pos[2*j+1]-yi
		// 1/|d| smoothed at no length.
		k := T(stiffness) - stiffness*rest*inverseRoot(dx*dx+dy*dy+1e-3)
		return k * dx, k * dy
	}
	for i := range masses {
		ax, ay := force(i-1, i)
		bx, by := force(i, i+1)
		vx := vel[2*i] + dt*((1/mass)*(bx-ax)-drag*vel[2*i])
		vy := vel[2*i+1] + dt*((1/mass)*(by-ay)-drag*vel[2*i+1]-weight)
		sn[n+2+2*i], sn[n+2+2*i+1] = vx, vy
		sn[2*i], sn[2*i+1] = pos[2*i]+dt*vx, pos[2*i+1]+dt*vy
	}
	sn[n], sn[n+1] = pos[n]+dt*u[0], pos[n+1]+dt*u[1]
}

func inverseRoot[T float64 | complex128](x T) T {
	switch v := any(x).(type) {
	case float64:
		return any(1 / math.Sqrt(v)).(T)
	case complex128:
		r := 1 / math.Sqrt(real(v))
		return any(complex(r, -0.5*r/real(v)*imag(v))).(T)
	}
	panic("unreachable")
}

func chainObjectives[T float64 | complex128](masses int, s, u, j []T) {
	n := 2 * masses
	j[0] = (s[n]-1)*(s[n]-1) + s[n+1]*s[n+1]
	for _, v := range s[n+2:] {
		j[0] += 0.1 * v * v
	}
	j[1] = 0.01 * (u[0]*u[0] + u[1]*u[1])
}

func (m chainOfMasses) Spec() *domain.Spec {
	return &domain.Spec{
		Name: "chain", Measured: variablesOf(4*int(m) + 2), Action: []domain.Variable{{Lo: -1, Hi: 1}, {Lo: -1, Hi: 1}},
		Objectives: variablesOf(2), Margins: variablesOf(int(m) + 1), Plan: 1, Steps: 30,
		Semantic: domain.Semantic{K: []float64{1, 1}, Epsilon: []float64{1, 1}, Rho: 1},
	}
}
func (chainOfMasses) Base(_, _, plan []float64)       { clear(plan) }
func (chainOfMasses) Fallback(_, _, u []float64)      { clear(u) }
func (chainOfMasses) Project(_, _, _ []float64) bool  { return true }
func (chainOfMasses) Indicators(_, _, _, d []float64) { clear(d) }
func (m chainOfMasses) Step(s, _, u, sn, _ []float64) { chainStep(int(m), s, u, sn) }
func (m chainOfMasses) Objectives(s, u, _, j []float64) {
	chainObjectives(int(m), s, u, j)
}
func (m chainOfMasses) Margins(s, _, u, margins []float64) {
	for i := range margins {
		margins[i] = s[2*i+1] + 0.08
	}
}
func (p chainOfMasses) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Derivatives: domain.Derivatives{Step: p.StepDual, Objectives: p.ObjectivesDual, Margins: p.MarginsDual}}
}

func (m chainOfMasses) StepDual(s, _, u, sn, _ []complex128) { chainStep(int(m), s, u, sn) }
func (m chainOfMasses) ObjectivesDual(s, u, _, j []complex128) {
	chainObjectives(int(m), s, u, j)
}
func (m chainOfMasses) MarginsDual(s, _, u, margins []complex128) {
	for i := range margins {
		margins[i] = s[2*i+1] + 0.08
	}
}
func (m chainOfMasses) Gradient(s, u, _, sigma, gs, gu []float64) {
	n := 2 * int(m)
	clear(gs)
	gs[n], gs[n+1] = 2*sigma[0]*(s[n]-1), 2*sigma[0]*s[n+1]
	for i, v := range s[n+2:] {
		gs[n+2+i] = 0.2 * sigma[0] * v
	}
	gu[0], gu[1] = 0.02*sigma[1]*u[0], 0.02*sigma[1]*u[1]
}

// start is the masses at rest between the ends.
func (m chainOfMasses) start() []float64 {
	s := make([]float64, 4*int(m)+2)
	for i := range int(m) + 1 {
		s[2*i], s[2*i+1] = 0.5*float64(i+1)/float64(m+1), 0.1
	}
	return s
}

func TestChainOfMasses(t *testing.T) {
	const masses = chainOfMasses(5) // 22 states
	state := masses.start()
	pref := domain.Preference{W: []float64{0.7, 0.3}}
	dual, err := New(masses, nil, func(p, s, c []float64) {}, Options{Tolerance: 1e-7})
	if err != nil {
		t.Fatal(err)
	}
	byDifferences, err := New(rowsOnly{masses}, nil, func(p, s, c []float64) {}, Options{Tolerance: 1e-7})
	if err != nil {
		t.Fatal(err)
	}
	a := minimise(t, dual, state, nil, 30, pref, "")
	b := minimise(t, byDifferences, state, nil, 30, pref, "")
	if !(math.Abs(a.Cost-b.Cost) < 1e-6*b.Cost) {
		t.Errorf("cost %v by dual numbers, %v by differences", a.Cost, b.Cost)
	}
	if a.Iterations > 60 {
		t.Errorf("%d iterations", a.Iterations)
	}
	tight := 0
	for _, m := range a.Margins {
		for _, v := range m {
			if v < -1e-6 {
				t.Errorf("a margin is %v", v)
			}
			if v < 1e-4 {
				tight++
			}
		}
	}
	if tight < 3 {
		t.Errorf("the wall binds %d times: the test is too easy", tight)
	}
}

// rowsOnly hides dual numbers.
type rowsOnly struct{ domain.Problem }

// With few masses the wall is met fast, and a step that repairs the dynamics by going far
// into it must not be taken.
func TestChainsOfAnyLength(t *testing.T) {
	for masses := chainOfMasses(1); masses <= 5; masses++ {
		solver, err := New(masses, nil, func(p, s, c []float64) {}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := minimise(t, solver, masses.start(), nil, 30, domain.Preference{W: []float64{0.7, 0.3}}, ""); got.Iterations > 40 {
			t.Errorf("%d masses: %d iterations", masses, got.Iterations)
		}
	}
}
