package ocp

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

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
		if !p.warmStart(p, 0, slices.Concat(s, c), testdomain.PoleSteps, true) || p.keptStates != kick.kept || p.cur.rolled == kick.kept {
			t.Errorf("kicked by %v and %v: states kept %t, rolled out %t, want them kept %t", kick.speed, kick.turn, p.keptStates, p.cur.rolled, kick.kept)
		}
		r := p.iterate()
		want := minimise(t, solver, s, c, testdomain.PoleSteps, pref, "")
		if r.elasticKKT > 1e-7 || !(math.Abs(r.f-want.Cost) < 1e-6*want.Cost) {
			t.Errorf("kicked by %v and %v: cost %v, residual %.1e, anew %v", kick.speed, kick.turn, r.f, r.elasticKKT, want.Cost)
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
		if !(math.Abs(status.Violation-want) < 1e-7) || !status.Converged {
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
