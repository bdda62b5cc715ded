package ocp

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// testPrograms are ready for their derivatives at a point off the dynamics: every
// kind of objective and constraint.
func testPrograms(problem domain.Problem) map[string]*ipm {
	out := map[string]*ipm{}
	for name, configure := range map[string]func(*program){
		"fixed":     func(q *program) { q.setWeights(false, []float64{0.7, 0.3}) },
		"adaptive":  func(q *program) { q.setWeights(true, nil) },
		"chebyshev": func(q *program) { q.chebyshev([]float64{0.4, 0.6}, []float64{0.1, 0.2}, []float64{1, 0.5}) },
		"epsilon":   func(q *program) { q.epsilonConstraint([]float64{0.4, 0.6}, []float64{0.1, 0.2}, []float64{1, 0.5}) },
	} {
		p := newIPM(newProgram(problem, []float64{0.5, 1}))
		configure(p.q)
		p.setInitialState([]float64{0.5, 0.4}, []float64{0.6, 0.4, 0.1}, 6)
		rng := rand.New(rand.NewPCG(3, 1))
		for i := range p.cur.v {
			p.cur.v[i] = 1.6*rng.Float64() - 0.8
		}
		if !p.start(false, nil) {
			panic("the start is not finite")
		}
		for _, x := range variables(p.q, p.cur) {
			*x.at += 0.05 * x.unit * rng.NormFloat64()
		}
		for i := range p.z {
			p.z[i] = rng.Float64()
		}
		for i := range p.lambda {
			p.lambda[i] = rng.NormFloat64()
		}
		// The last stage's dynamics have no equation.
		clear(p.lambda[p.q.steps*p.q.nX:][:p.q.na])
		p.q.evaluate(p.cur, false)
		out[name] = p
	}
	return out
}

// variable is one that the program optimises, of stage t and column col.
type variable struct {
	at     *float64
	unit   float64
	t, col int
}

func variables(q *program, p *point) (out []variable) {
	for t := range q.steps + 1 {
		for j := range q.nu {
			if t < q.steps {
				out = append(out, variable{&p.v[t*q.nu+j], 1, t, j})
			}
		}
		if t > 0 && t < q.steps {
			for i, a := range q.active {
				out = append(out, variable{&p.x[t*q.nx+a], q.scale[a], t, q.nu + i})
			}
		}
		for k := range q.naug {
			if t > 0 || q.tau && k == q.naug-1 {
				out = append(out, variable{&p.y[t*q.naug+k], 1, t, q.nu + q.na + k})
			}
		}
	}
	return out
}

func minimise(t *testing.T, s *Solver, state, ctx []float64, steps int, pref domain.Preference, how domain.Scalarization) *Trajectory {
	t.Helper()
	best, err := s.Minimise(state, ctx, steps, pref, how, 1)
	if err != nil {
		t.Fatal(err)
	}
	return best
}

func TestSlacksKeepTheBarrierConditions(t *testing.T) {
	for _, mu := range []float64{0.1, 1e-4, 1e-9} {
		for _, rho := range []float64{1, 1e3, 1e6} {
			for _, g := range []float64{-1e3, -1, -1e-6, 0, 1e-12, 1e-3, 1, 1e4} {
				p := &ipm{mu: mu, rho: rho}
				var s, v [1]float64
				p.computeSlacks([]float64{g}, s[:], v[:])
				if !(s[0] > 0 && v[0] > 0) {
					t.Fatalf("μ %v, ρ %v, g %v: s %v, v %v", mu, rho, g, s[0], v[0])
				}
				if e := math.Abs(mu/s[0]+mu/v[0]-rho) / rho; !(e < 1e-9) {
					t.Errorf("μ %v, ρ %v, g %v: μ/s + μ/v misses ρ by %v", mu, rho, g, e)
				}
				if e := math.Abs(s[0] - v[0] - g); !(e <= 1e-9*math.Max(math.Max(s[0], v[0]), mu/rho)) {
					t.Errorf("μ %v, ρ %v, g %v: s − v misses g by %v", mu, rho, g, e)
				}
			}
		}
	}
}

func TestInfeasibleAndNotConverged(t *testing.T) {
	p := cart{force: 1, speed: 0.5, steps: 10}
	// One step changes the speed by at most 0.2: 1 − 0.2 > 0.5 cannot be kept.
	solver := newCart(p, Options{Starts: 2})
	if _, err := solver.Solve(0, []float64{0, 1}, domain.Preference{W: []float64{0.5, 0.5}}, domain.WeightedSum, 1); !errors.Is(err, domain.ErrInfeasible) {
		t.Errorf("an infeasible scenario gives %v", err)
	}
	if _, err := solver.Solve(0, []float64{0, 0.69}, domain.Preference{W: []float64{0.5, 0.5}}, domain.WeightedSum, 1); err != nil {
		t.Errorf("a barely feasible scenario gives %v", err)
	}
	// From far beyond the limit the violation, not the objective, decides.
	if _, err := solver.Solve(0, []float64{1000, 0.4}, domain.Preference{W: []float64{1, 0}}, domain.WeightedSum, 1); err != nil {
		t.Errorf("a distant start gives %v", err)
	}
	short := newTanks(Options{Iterations: 2})
	if _, err := short.Solve(0, []float64{0.5, 0.4, 0.6}, domain.Preference{Adaptive: true}, domain.WeightedSum, 1); !errors.Is(err, domain.ErrNotConverged) {
		t.Errorf("two iterations give %v", err)
	}
	adaptive := domain.Preference{Adaptive: true}
	for _, c := range []struct {
		want string
		pref domain.Preference
		how  domain.Scalarization
	}{
		{"sum to", domain.Preference{W: []float64{1, 1}}, domain.WeightedSum},
		{"needs fixed weights", adaptive, domain.Chebyshev},
		{"unknown scalarization", domain.Preference{W: []float64{1, 0}}, "x"},
	} {
		if _, err := solver.Solve(0, []float64{0, 0}, c.pref, c.how, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, want %q", err, c.want)
		}
	}
	for _, bad := range []Options{{Horizon: 1000000}, {Keep: 40}, {Starts: -1}, {Tolerance: 2}, {StateScale: []float64{1}}, {StateScale: []float64{1, 0}}, {PerturbScale: -1}, {Perturbed: -1}, {Follow: -1}} {
		if _, err := New(tanks{}, nil, func(p, s, c []float64) {}, bad); err == nil {
			t.Errorf("the options %+v were accepted", bad)
		}
	}
}

func TestScalarizations(t *testing.T) {
	solver := newTanks(Options{Tolerance: 1e-6})
	s0, c0 := []float64{0.2, 0.3}, []float64{0.7, 0.4, 0.1}
	task := task{solver: solver, state: s0, ctx: c0, steps: 20, ownStarts: 1}
	table, err := task.payoff()
	if err != nil {
		t.Fatal(err)
	}
	ideal, spread := table.ideal, table.spread
	for _, w := range [][]float64{{0.5, 0.5}, {0.8, 0.2}, {0.25, 0.75}} {
		pref := domain.Preference{W: w}
		got := minimise(t, solver, s0, c0, 20, pref, domain.Chebyshev)
		cost := got.Total()
		a, b := w[0]*(cost[0]-ideal[0])/spread[0], w[1]*(cost[1]-ideal[1])/spread[1]
		// On a connected front both weighted distances are equal at the optimum.
		if !(math.Abs(a-b) < 1e-4) {
			t.Errorf("w %v: weighted distances %v and %v differ", w, a, b)
		}
		// A weighted sum cannot be better in both objectives.
		sum := minimise(t, solver, s0, c0, 20, pref, domain.WeightedSum)
		if o := sum.Total(); o[0] < cost[0]-1e-6 && o[1] < cost[1]-1e-6 {
			t.Errorf("w %v: %v is dominated by %v", w, cost, o)
		}
		if w[0]*sum.Total()[0]+w[1]*sum.Total()[1] > w[0]*cost[0]+w[1]*cost[1]+1e-6 {
			t.Errorf("w %v: the weighted sum's own minimum %v is above that of %v", w, sum.Total(), cost)
		}
		got = minimise(t, solver, s0, c0, 20, pref, domain.EpsilonConstraint)
		bounded := 1
		if w[1] > w[0] {
			bounded = 0
		}
		limit := ideal[bounded] + (1-w[bounded])*spread[bounded]
		if v := got.Total()[bounded]; !(math.Abs(v-limit) < 1e-4*spread[bounded]) {
			t.Errorf("w %v: objective %d is %v, its bound %v", w, bounded, v, limit)
		}
	}
}

func TestMultiStartIsNeverWorse(t *testing.T) {
	one, four := newTanks(Options{}), newTanks(Options{Starts: 4})
	rng := rand.New(rand.NewPCG(2, 2))
	for range 5 {
		s0, c0 := []float64{0.1 + 0.8*rng.Float64(), 0.1 + 0.7*rng.Float64()}, []float64{0.2 + 0.6*rng.Float64(), 0.4, 0.1}
		a := minimise(t, one, s0, c0, 30, domain.Preference{Adaptive: true}, domain.WeightedSum)
		b := minimise(t, four, s0, c0, 30, domain.Preference{Adaptive: true}, domain.WeightedSum)
		if b.Cost > a.Cost {
			t.Errorf("four starts cost %v, one %v", b.Cost, a.Cost)
		}
	}
}

// Every scenario of the tanks' box must converge, in few iterations; the time
// of a solve is BenchmarkTanks.
func TestTanksConverge(t *testing.T) {
	solver := newTanks(Options{})
	rng := rand.New(rand.NewPCG(7, 7))
	scenarios := 40
	if testing.Short() {
		scenarios = 6
	}
	for i := range scenarios {
		p := []float64{0.1 + 0.8*rng.Float64(), 0.1 + 0.7*rng.Float64(), 0.2 + 0.65*rng.Float64()}
		pref := domain.Preference{Adaptive: true}
		if i%2 == 1 {
			w := rng.Float64()
			pref = domain.Preference{W: []float64{w, 1 - w}}
		}
		if _, err := solver.Solve(i, p, pref, domain.WeightedSum, 1); err != nil {
			t.Errorf("scenario %v, %+v: %v", p, pref, err)
		}
	}
	c := solver.Counts()
	if mean := float64(c.Iterations) / float64(c.Starts); mean > 25 {
		t.Errorf("a solve takes %.1f iterations", mean)
	}
}

func BenchmarkTanks(b *testing.B) {
	solver := newTanks(Options{})
	for i := range b.N {
		p := []float64{0.1 + 0.8*math.Mod(0.618*float64(i), 1), 0.1 + 0.7*math.Mod(0.414*float64(i), 1), 0.2 + 0.65*math.Mod(0.732*float64(i), 1)}
		if _, err := solver.Solve(0, p, domain.Preference{Adaptive: true}, domain.WeightedSum, 1); err != nil {
			b.Fatal(err)
		}
	}
}

// losing is a cart that is lost below some position.
type losing struct {
	cart
	below float64
}

func (p losing) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Failed: p.Failed}
}

func (p losing) Failed(s, _ []float64) bool { return s[0] < p.below }

// A way through a lost state is none, however cheap.
func TestNoOptimumLeadsThroughALostState(t *testing.T) {
	for below, want := range map[float64]error{0.5: domain.ErrInfeasible, -3: nil} {
		p := losing{cart{force: 5, speed: 10, steps: 12}, below}
		s, err := New(p, nil, func(_, s, _ []float64) { s[0] = 1 }, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Minimise([]float64{1, 0}, nil, 12, domain.Preference{Adaptive: true}, domain.WeightedSum, 1); !errors.Is(err, want) {
			t.Errorf("lost below %g: %v, want %v", below, err, want)
		}
	}
}
