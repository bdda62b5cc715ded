package shooting

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// functions is a problem made of three functions; the gradient is differences.
type functions struct {
	spec       domain.Spec
	step       func(s, c, u, sn, cn []float64)
	objectives func(s, u, c, j []float64)
	margins    func(s, c, u, m []float64)
}

func variablesOf(n int) []domain.Variable { return make([]domain.Variable, n) }

func newFunctions(ns, nc, nm int, actions []domain.Variable, step func(s, c, u, sn, cn []float64), objectives func(s, u, c, j []float64), margins func(s, c, u, m []float64)) *functions {
	return &functions{
		spec: domain.Spec{
			Name: "functions", Measured: variablesOf(ns), Context: variablesOf(nc), Action: actions, Objectives: variablesOf(1), Margins: variablesOf(nm),
			Plan: 1, Steps: 10, Semantic: domain.Semantic{K: []float64{1}, Epsilon: []float64{1}, Rho: 1},
		},
		step: step, objectives: objectives, margins: margins,
	}
}

func (f *functions) Spec() *domain.Spec              { return &f.spec }
func (f *functions) Base(_, _, plan []float64)       { clear(plan) }
func (f *functions) Fallback(_, _, u []float64)      { clear(u) }
func (f *functions) Project(_, _, _ []float64) bool  { return true }
func (f *functions) Indicators(_, _, _, d []float64) { clear(d) }
func (f *functions) Step(s, c, u, sn, cn []float64)  { f.step(s, c, u, sn, cn) }
func (f *functions) Objectives(s, u, c, j []float64) { f.objectives(s, u, c, j) }
func (f *functions) Margins(s, c, u, m []float64) {
	if f.margins != nil {
		f.margins(s, c, u, m)
	}
}
func (f *functions) Gradient(s, u, c, sigma, gs, gu []float64) {
	side := func(v []float64, i int, h float64) float64 {
		var j [1]float64
		at := v[i]
		v[i] = at + h
		f.objectives(s, u, c, j[:])
		v[i] = at
		return j[0]
	}
	s, u = append([]float64{}, s...), append([]float64{}, u...)
	for i := range s {
		gs[i] = sigma[0] * (side(s, i, 1e-6) - side(s, i, -1e-6)) / 2e-6
	}
	for i := range u {
		gu[i] = sigma[0] * (side(u, i, 1e-6) - side(u, i, -1e-6)) / 2e-6
	}
}

func (f *functions) solver(t *testing.T, opt Options) *Solver {
	t.Helper()
	s, err := New(f, nil, func(p, s, c []float64) {}, opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var only = domain.Preference{W: []float64{1}}

// integrate is a chain of two integrators with a force.
func integrate(s, c, u, sn, cn []float64) { sn[0], sn[1] = s[0]+0.1*s[1], s[1]+0.1*u[0] }

func regulate(s, u, c, j []float64) { j[0] = s[0]*s[0] + 0.1*s[1]*s[1] + 0.01*u[0]*u[0] }

func TestUnboundedActions(t *testing.T) {
	problem := newFunctions(2, 0, 0, variablesOf(1), integrate, regulate, nil)
	got := minimise(t, problem.solver(t, Options{Tolerance: 1e-8}), []float64{1, 0}, nil, 30, only, "")
	// The same by the finite-horizon Riccati equation of the plain regulator.
	p := [3]float64{} // of (x, x), (x, v), (v, v)
	var gains [][2]float64
	for range 30 {
		// V(x + 0.1v, v + 0.1u) + stage
		huu := 0.01 + 0.01*p[2]
		hux := 0.1 * p[1]
		huv := 0.01*p[1] + 0.1*p[2]
		hxx := 1 + p[0]
		hxv := 0.1*p[0] + p[1]
		hvv := 0.1 + 0.01*p[0] + 0.2*p[1] + p[2]
		gains = append(gains, [2]float64{hux / huu, huv / huu})
		p = [3]float64{hxx - hux*hux/huu, hxv - hux*huv/huu, hvv - huv*huv/huu}
	}
	x, v := 1.0, 0.0
	for i, u := range got.U {
		k := gains[29-i]
		want := -k[0]*x - k[1]*v
		if !(math.Abs(u[0]-want) < 1e-5) {
			t.Errorf("u%d is %v, the regulator's %v", i, u[0], want)
		}
		x, v = x+0.1*v, v+0.1*want
	}
}

func TestAnActionWithoutEffectStaysFinite(t *testing.T) {
	// The second action is unbounded and appears nowhere: the Hessian is singular.
	problem := newFunctions(2, 0, 0, variablesOf(2), integrate, regulate, nil)
	got := minimise(t, problem.solver(t, Options{}), []float64{1, 0}, nil, 10, only, "")
	for i, u := range got.U {
		if !(math.Abs(u[1]) < 1) {
			t.Errorf("step %d: an action without effect is %v", i, u[1])
		}
	}
}

func TestHorizonOfOneStep(t *testing.T) {
	box := []domain.Variable{{Lo: -1, Hi: 1}}
	problem := newFunctions(2, 0, 1, box, integrate,
		func(s, u, c, j []float64) { j[0] = (u[0] - 0.8) * (u[0] - 0.8) },
		func(s, c, u, m []float64) { m[0] = 0.5 - s[1] - 0.1*u[0] })
	for _, v := range []struct{ speed, want float64 }{{0, 0.8}, {0.45, 0.5}} {
		got := minimise(t, problem.solver(t, Options{Tolerance: 1e-8}), []float64{0, v.speed}, nil, 1, only, "")
		if !(math.Abs(got.U[0][0]-v.want) < 1e-5) || len(got.S) != 2 {
			t.Errorf("from speed %v the action is %v, want %v", v.speed, got.U[0][0], v.want)
		}
	}
}

func TestRankDeficientMargins(t *testing.T) {
	box := []domain.Variable{{Lo: -5, Hi: 5}}
	// One limit three times over, one of them the sum of two, and one that no
	// variable moves.
	problem := newFunctions(2, 0, 4, box, integrate, regulate, func(s, c, u, m []float64) {
		m[0] = 0.3 + s[1] + 0.1*u[0]
		m[1], m[2], m[3] = m[0], 2*m[0], 1
	})
	once := newFunctions(2, 0, 1, box, integrate, regulate, func(s, c, u, m []float64) { m[0] = 0.3 + s[1] + 0.1*u[0] })
	a := minimise(t, problem.solver(t, Options{Tolerance: 1e-7}), []float64{1, 0}, nil, 30, only, "")
	b := minimise(t, once.solver(t, Options{Tolerance: 1e-7}), []float64{1, 0}, nil, 30, only, "")
	tight := 0
	for i := range a.U {
		if b.Margins[i][0] < 1e-4 {
			tight++
		}
		if !(math.Abs(a.U[i][0]-b.U[i][0]) < 1e-3) {
			t.Errorf("u%d is %v, with the limit stated once %v", i, a.U[i][0], b.U[i][0])
		}
	}
	if tight < 3 {
		t.Errorf("the limit binds in %d steps: the test is too easy", tight)
	}
}

func TestDynamicsThatLeaveTheirDomain(t *testing.T) {
	// The root of a negative level is not a number, and the first steps go there.
	problem := newFunctions(1, 0, 0, []domain.Variable{{Lo: -1, Hi: 1}},
		func(s, c, u, sn, cn []float64) { sn[0] = s[0] + 0.8*u[0] - 0.1*math.Sqrt(s[0]) },
		func(s, u, c, j []float64) { j[0] = (s[0]-0.05)*(s[0]-0.05) + 1e-3*math.Sqrt(s[0])*u[0]*u[0] }, nil)
	solver := problem.solver(t, Options{})
	got := minimise(t, solver, []float64{1}, nil, 8, only, "")
	for i, s := range got.S[:8] {
		if !(s[0] >= 0) {
			t.Errorf("the level before step %d is %v", i, s[0])
		}
	}
	// No start has finite values: neither solve claims anything.
	if _, err := solver.Minimise([]float64{-1}, nil, 8, only, "", 1); !errors.Is(err, domain.ErrNotConverged) {
		t.Errorf("a state outside the domain gives %v", err)
	}
	controller, err := solver.Receding(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := controller.Solve([]float64{-1}, nil, 8, only); !errors.Is(err, domain.ErrNotConverged) {
		t.Errorf("a decision outside the domain gives %v", err)
	}
	if status, err := controller.Solve([]float64{1}, nil, 8, only); err != nil || !status.Converged {
		t.Errorf("the decision after it: %+v, %v", status, err)
	}
}

// At the start no action moves the reserve, so that nothing says it is a variable.
func TestAComponentThatMovesLate(t *testing.T) {
	positive := func(x float64) float64 { return math.Pow(math.Max(0, x), 2) }
	problem := newFunctions(1, 1, 0, []domain.Variable{{Lo: -1, Hi: 1}},
		func(s, c, u, sn, cn []float64) {
			sn[0] = s[0] + 0.5*u[0]
			cn[0] = c[0] + positive(u[0]-0.2)
		},
		func(s, u, c, j []float64) {
			j[0] = (s[0]-2)*(s[0]-2) + 0.1*u[0]*u[0] + 0.7*c[0]*c[0]
		}, nil)
	got := minimise(t, problem.solver(t, Options{Tolerance: 1e-7}), []float64{0}, []float64{0}, 8, only, "")
	// The optimum of the same costs by coordinate descent on the roll-out.
	cost := func(u []float64) float64 {
		s, c, sum := 0.0, 0.0, 0.0
		for _, v := range u {
			sum += (s-2)*(s-2) + 0.1*v*v + 0.7*c*c
			s, c = s+0.5*v, c+positive(v-0.2)
		}
		return sum
	}
	u := make([]float64, 8)
	for step := 0.5; step > 1e-7; step *= 0.9 {
		for i := range u {
			for _, d := range []float64{step, -step} {
				at, now := u[i], cost(u)
				u[i] = math.Max(-1, math.Min(1, at+d))
				if cost(u) >= now {
					u[i] = at
				}
			}
		}
	}
	if want := cost(u); !(math.Abs(got.Cost-want) < 1e-4*want) {
		t.Errorf("cost %v, descent finds %v", got.Cost, want)
	}
}

// chain is masses in a line on springs, one end fixed, the other driven in the plane,
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

func TestDualNumbersAndDifferencesHaveOneOptimum(t *testing.T) {
	a, b := newPole(testdomain.Pole{}, Options{Tolerance: 1e-7}), newPole(poleByDifferences{testdomain.Pole{}}, Options{Tolerance: 1e-7})
	rng := rand.New(rand.NewPCG(991, 2))
	for i := range 6 {
		s, c := testdomain.PoleStart(rng)
		pref := domain.Preference{Adaptive: i%2 == 0}
		if !pref.Adaptive {
			pref.W = []float64{0.3, 0.7}
		}
		x, y := minimise(t, a, s, c, testdomain.PoleSteps, pref, ""), minimise(t, b, s, c, testdomain.PoleSteps, pref, "")
		if !(math.Abs(x.Cost-y.Cost) < 1e-7*y.Cost) {
			t.Errorf("start %d: cost %v by dual numbers, %v by differences", i, x.Cost, y.Cost)
		}
	}
}

// The work of an iteration is proportional to the horizon.
func TestWorkGrowsWithTheHorizon(t *testing.T) {
	work := func(steps int) (flops, evaluations float64) {
		q := newProgram(testdomain.Pole{}, []float64{1, 1, 0.3, 1})
		p := newIPM(q)
		q.weigh(false, []float64{0.5, 0.5})
		p.opt = ipmOptions{tolerance: 1e-5, iterations: 3, mu: firstBarrier}
		p.place([]float64{0.1, 0, 0.05, 0}, []float64{0, 0}, steps)
		clear(p.cur.v)
		if !p.begin(false, nil) {
			t.Fatal("the start is not finite")
		}
		p.rho = firstPenalty
		q.differentiate(p.cur)
		p.objectiveScale, p.mu = p.scale(), 1
		p.slacks(p.cur.g, p.at.s, p.at.v)
		for i := range p.z {
			p.z[i] = p.mu / p.at.s[i]
		}
		for i := range p.zl {
			p.zl[i], p.zu[i] = 1, 1
		}
		p.adjoint(p.objectiveScale)
		f, e := p.r.flops, q.evaluations
		q.hessian(p.cur, 0, p.objectiveScale, p.z, p.lambda)
		q.differentiate(p.cur)
		p.assemble()
		if !p.r.factor(p.h, q.next, 1e6, 0) {
			t.Fatal("not definite")
		}
		copy(p.defect, p.cur.defect)
		p.solve()
		return float64(p.r.flops - f), float64(q.evaluations - e)
	}
	f1, e1 := work(20)
	f2, e2 := work(40)
	f4, e4 := work(80)
	for _, r := range []float64{(f4 - f2) / (f2 - f1), (e4 - e2) / (e2 - e1)} {
		if math.Abs(r-2) > 0.05 {
			t.Errorf("twice as many further stages are %v times the work, want 2", r)
		}
	}
}

func TestALongHorizonConverges(t *testing.T) {
	problem := newFunctions(2, 0, 1, []domain.Variable{{Lo: -5, Hi: 5}}, integrate, regulate, func(s, c, u, m []float64) { m[0] = 0.3 + s[1] + 0.1*u[0] })
	solver := problem.solver(t, Options{Tolerance: 1e-7})
	short := minimise(t, solver, []float64{3, 0}, nil, 200, only, "")
	long := minimise(t, solver, []float64{3, 0}, nil, 3000, only, "")
	// At rest at the end nothing is left to pay.
	if !(math.Abs(long.Cost-short.Cost) < 1e-5*short.Cost) || long.Iterations > 2*short.Iterations {
		t.Errorf("3000 steps cost %v in %d iterations, 200 steps %v in %d", long.Cost, long.Iterations, short.Cost, short.Iterations)
	}
}

func TestWarmDecisionsTakeFewIterations(t *testing.T) {
	for name, problem := range map[string]domain.Problem{"dual": testdomain.Pole{}, "differences": poleByDifferences{testdomain.Pole{}}} {
		controller, err := newPole(problem, Options{}).Receding(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(991, 3))
		cold, warm, decisions := 0, 0, 0
		for range 4 {
			drivePole(controller, rng, 0, func(decision int, status Status, _ time.Duration) {
				if !status.Converged || status.Warm != (decision > 0) {
					t.Errorf("%s: decision %d is %+v", name, decision, status)
				}
				if decision == 0 {
					cold += status.Iterations
					return
				}
				warm += status.Iterations
				decisions++
			})
		}
		if mean := float64(warm) / float64(decisions); mean > 3 || cold < 4*8 {
			t.Errorf("%s: a warm decision takes %.1f iterations, the four cold ones %d", name, mean, cold)
		}
	}
}

// A plan whose roll-out from another state strays begins the next decision with its own states, another is rolled out. Both end at
// the optimum that Minimise finds.
func TestPlansThatStrayKeepTheirStates(t *testing.T) {
	solver := newPole(testdomain.Pole{}, Options{Tolerance: 1e-7})
	controller, err := solver.Receding(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	pref := domain.Preference{W: []float64{0.5, 0.5}}
	for _, kick := range []struct {
		speed, turn float64
		kept        bool
	}{{0.001, 0.001, false}, {0.3, -0.3, true}} {
		s, c := []float64{-1, 0, 0, 0}, []float64{1, 0}
		controller.Reset()
		if _, err := controller.Solve(s, c, testdomain.PoleSteps, pref); err != nil {
			t.Fatal(err)
		}
		for range 12 {
			sn, cn := make([]float64, 4), make([]float64, 2)
			testdomain.Pole{}.Step(s, c, controller.Action(0), sn, cn)
			s, c = sn, cn
			if _, err := controller.Solve(s, c, testdomain.PoleSteps, pref); err != nil {
				t.Fatal(err)
			}
		}
		s[1] += kick.speed
		s[3] += kick.turn
		p := controller.p
		if !p.resume(p, 0, slices.Concat(s, c), testdomain.PoleSteps, true) || p.kept != kick.kept || p.cur.rolled == kick.kept {
			t.Errorf("kicked by %v and %v: states kept %t, rolled out %t, want them kept %t", kick.speed, kick.turn, p.kept, p.cur.rolled, kick.kept)
		}
		r := p.iterate()
		want := minimise(t, solver, s, c, testdomain.PoleSteps, pref, "")
		if r.elastic > 1e-7 || !(math.Abs(r.f-want.Cost) < 1e-6*want.Cost) {
			t.Errorf("kicked by %v and %v: cost %v, residual %.1e, anew %v", kick.speed, kick.turn, r.f, r.elastic, want.Cost)
		}
	}
}

// A tail of an optimum is the optimum of the tail (Bellman): with the horizon's end
// fixed nothing is left to do, and the plan is the one Minimise finds.
func TestWarmDecisionsOfAShrinkingHorizon(t *testing.T) {
	solver := newPole(testdomain.Pole{}, Options{Tolerance: 1e-6})
	controller, err := solver.Receding(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(991, 4))
	s, c := testdomain.PoleStart(rng)
	pref := domain.Preference{W: []float64{0.4, 0.6}}
	for n := testdomain.PoleSteps; n > 0; n-- {
		status, err := controller.Solve(s, c, n, pref)
		if err != nil || !status.Converged || n < testdomain.PoleSteps && status.Iterations > 2 {
			t.Fatalf("%d steps to go: %+v, %v", n, status, err)
		}
		if n%13 == 1 {
			want := minimise(t, solver, s, c, n, pref, "")
			if !(math.Abs(status.Cost-want.Cost) < 1e-5*(1e-3+want.Cost)) {
				t.Errorf("%d steps to go: cost %v, anew %v", n, status.Cost, want.Cost)
			}
		}
		var sn [4]float64
		var cn [2]float64
		testdomain.Pole{}.Step(s, c, controller.Action(0), sn[:], cn[:])
		copy(s, sn[:])
		copy(c, cn[:])
	}
}

func TestDecisionsAreThoseOfMinimise(t *testing.T) {
	solver := newPole(testdomain.Pole{}, Options{Tolerance: 1e-7})
	controller, err := solver.Receding(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(991, 5))
	s, c := testdomain.PoleStart(rng)
	for decision := range 12 {
		// The preference and the horizon change on the way, and the state jumps.
		pref := domain.Preference{W: []float64{0.3, 0.7}}
		if decision > 5 {
			pref = domain.Preference{Adaptive: true}
		}
		n := testdomain.PoleSteps
		if decision > 8 {
			n = testdomain.PoleSteps + 5
		}
		if decision == 4 {
			s[0] += 0.3
			s[3] -= 0.4
		}
		status, err := controller.Solve(s, c, n, pref)
		if err != nil || !status.Converged {
			t.Fatalf("decision %d: %+v, %v", decision, status, err)
		}
		want := minimise(t, solver, s, c, n, pref, "")
		if !(math.Abs(status.Cost-want.Cost) < 1e-5*want.Cost) {
			t.Errorf("decision %d: cost %v, anew %v", decision, status.Cost, want.Cost)
		}
		for step := range n {
			x, _ := controller.State(step)
			var sn [4]float64
			var cn [2]float64
			_, ctx := controller.State(step)
			testdomain.Pole{}.Step(x, ctx, controller.Action(step), sn[:], cn[:])
			if next, _ := controller.State(step + 1); !reflect.DeepEqual(sn[:], next) {
				t.Fatalf("decision %d: the plan's state %d does not follow", decision, step+1)
			}
		}
		var sn [4]float64
		var cn [2]float64
		testdomain.Pole{}.Step(s, c, controller.Action(0), sn[:], cn[:])
		copy(s, sn[:])
		copy(c, cn[:])
	}
}

func TestWarmDecisionsAllocateNothing(t *testing.T) {
	for name, problem := range map[string]domain.Problem{"dual": testdomain.Pole{}, "differences": tanks{}} {
		t.Run(name, func(t *testing.T) {
			solver := newTanks(Options{})
			state, ctx := []float64{0.3, 0.4}, []float64{0.6, 0.4, 0.1}
			if name == "dual" {
				solver = newPole(problem, Options{})
				state, ctx = []float64{0.3, 0, 0.1, 0}, []float64{-0.5, 0}
			}
			controller, err := solver.Receding(0, 0)
			if err != nil {
				t.Fatal(err)
			}
			pref := domain.Preference{W: []float64{0.5, 0.5}}
			decide := func() {
				if _, err := controller.Solve(state, ctx, 25, pref); err != nil {
					t.Fatal(err)
				}
				state[0] += 0.01
			}
			decide()
			state[0] -= 0.2
			decide()
			if n := testing.AllocsPerRun(20, decide); n != 0 {
				t.Errorf("%v allocations a decision", n)
			}
		})
	}
}

func TestInfeasibleDecisionsSayHowFar(t *testing.T) {
	controller, err := newCart(cart{force: 1, speed: 0.5, steps: 10}, Options{}).Receding(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	// One step takes 0.2 off the speed: 0.3 too much after the first, 0.1 after the
	// second, none after.
	s := []float64{0, 1}
	for decision, want := range []float64{0.3, 0.1, 0} {
		status, err := controller.Solve(s, nil, 10, domain.Preference{W: []float64{0.5, 0.5}})
		if err != nil {
			t.Fatal(err)
		}
		if !(math.Abs(status.Violation-want) < 1e-4) || !status.Converged {
			t.Errorf("decision %d: %+v, want a violation of %v", decision, status, want)
		}
		if u := controller.Action(0)[0]; want > 0 && !(u < -0.99) {
			t.Errorf("decision %d brakes by %v", decision, u)
		}
		s[0], s[1] = s[0]+cartDt*s[1], s[1]+cartDt*controller.Action(0)[0]
	}
}

func TestLimitsOfADecision(t *testing.T) {
	solver := newPole(testdomain.Pole{}, Options{})
	state, ctx, pref := []float64{0.9, 0.2, -0.1, -0.4}, []float64{-0.4, 0}, domain.Preference{W: []float64{0.5, 0.5}}
	for _, limits := range []struct {
		iterations int
		within     time.Duration
	}{{2, 0}, {0, time.Nanosecond}} {
		controller, err := solver.Receding(limits.iterations, limits.within)
		if err != nil {
			t.Fatal(err)
		}
		status, err := controller.Solve(state, ctx, testdomain.PoleSteps, pref)
		if err != nil || status.Converged || status.Iterations > 2 {
			t.Errorf("limits %+v: %+v, %v", limits, status, err)
		}
		for step := range testdomain.PoleSteps {
			if u := controller.Action(step)[0]; !(math.Abs(u) <= testdomain.PoleForce) {
				t.Errorf("limits %+v: action %d is %v", limits, step, u)
			}
		}
	}
	// Limits are a decision's: several of them in a closed loop get there.
	controller, err := solver.Receding(3, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, c := []float64{0.3, 0, 0.1, 0}, []float64{-0.5, 0}
	var status Status
	for range 20 {
		if status, err = controller.Solve(s, c, testdomain.PoleSteps, pref); err != nil {
			t.Fatal(err)
		}
		var sn [4]float64
		var cn [2]float64
		testdomain.Pole{}.Step(s, c, controller.Action(0), sn[:], cn[:])
		copy(s, sn[:])
		copy(c, cn[:])
	}
	if !status.Converged {
		t.Errorf("after 20 decisions of 3 iterations: %+v", status)
	}
	for _, bad := range [][2]int{{-1, 0}, {0, -1}} {
		if _, err := solver.Receding(bad[0], time.Duration(bad[1])); err == nil {
			t.Errorf("limits %+v were accepted", bad)
		}
	}
	for _, bad := range []struct {
		s, c []float64
		n    int
		w    []float64
	}{{state[:3], ctx, 5, pref.W}, {state, nil, 5, pref.W}, {state, ctx, 0, pref.W}, {state, ctx, maxVariables + 1, pref.W}, {state, ctx, 5, []float64{1}}} {
		if _, err := controller.Solve(bad.s, bad.c, bad.n, domain.Preference{W: bad.w}); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}
