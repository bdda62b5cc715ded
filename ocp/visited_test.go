package ocp_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/ocp"
)

const horizon = 10

var fixed = domain.Preference{W: []float64{0.7, 0.3}}

func start(p, s, c []float64) { s[0], s[1], c[0] = p[0], p[1], 0 }

func solver(t *testing.T, p domain.Problem) *ocp.Solver {
	t.Helper()
	axes := []domain.Variable{{Name: "q0", Lo: -1.5, Hi: 1.5}, {Name: "v0", Lo: -0.5, Hi: 0.5}}
	return require.Get(ocp.New(p, axes, start, ocp.Options{Tolerance: 1e-8, Perturbed: 2}))(t)
}

// driver is a policy that does what act says of its decisions from 0 on.
type driver struct {
	act func(t int) (float64, error)
	t   int
}

func (d *driver) Reset(ep domain.Episode) error {
	d.t = 0
	if ep != nil {
		return errors.New("there is no episode")
	}
	return nil
}

func (d *driver) Decide(_, _ []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	var err error
	u[0], err = d.act(d.t)
	d.t++
	return domain.Decided(true), err
}

// follows are the states of a scenario under a policy.
func follows(p domain.Problem, at []float64, act func(t int) (float64, error)) (states [][]float64) {
	s, c, next, nextC, u := make([]float64, 2), []float64{0}, make([]float64, 2), []float64{0}, []float64{0}
	start(at, s, c)
	for t := range horizon {
		states = append(states, append([]float64{}, s...))
		u[0], _ = act(t)
		p.Step(s, c, u, next, nextC)
		copy(s, next)
		copy(c, nextC)
	}
	return states
}

// Samples at visited states are the optimum of what remains from there, and of its next
// step, each a trajectory of its own that no other sample of the solver has.
func TestSamplesAtVisitedStatesAreOptimal(t *testing.T) {
	p := testdomain.NewCart(horizon)
	s, at := solver(t, p), []float64{1.2, 0.3}
	swing := func(t int) (float64, error) { return 0.5 * math.Cos(float64(t)), nil }
	got := require.Get(s.SolveVisited(4, at, fixed, domain.Lent(&driver{act: swing})))(t)
	again := require.Get(s.SolveVisited(4, at, fixed, domain.Lent(&driver{act: swing})))(t)
	if !reflect.DeepEqual(got, again) {
		t.Error("the same policy gives other samples the second time")
	}
	if want := 2*(horizon-1) - 1; len(got) != want {
		t.Fatalf("%d samples, want %d", len(got), want)
	}
	states := follows(p, at, swing)
	own := map[int64]bool{}
	for _, x := range require.Get(s.Solve(4, at, fixed, domain.WeightedSum, 1))(t) {
		own[x.Trajectory] = true
	}
	for i, x := range got {
		k, first := 1+i/2, i%2 == 0
		if own[x.Trajectory] || x.Trajectory != got[i-i%2].Trajectory || !x.Perturbed || x.Scenario != 4 || x.Step != k+i%2 {
			t.Errorf("sample %d: trajectory %d, step %d, scenario %d, perturbed %t", i, x.Trajectory, x.Step, x.Scenario, x.Perturbed)
		}
		if first && !reflect.DeepEqual(x.S, states[k]) {
			t.Errorf("sample %d is at %v, the policy came to %v", i, x.S, states[k])
		}
		best := require.Get(s.Minimise(x.S, x.C, horizon-x.Step, fixed, domain.WeightedSum, 1))(t)
		if math.Abs(best.U[0][0]-x.U[0]) > 1e-5 || x.KKT > 1e-8 {
			t.Errorf("sample %d: action %v with residual %.1e, the optimum's is %v", i, x.U, x.KKT, best.U[0])
		}
	}
}

// doomed is the cart whose state is lost beyond a position, or which full force there
// throws out.
type doomed struct {
	*testdomain.Cart
	loses bool
}

func (d doomed) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Failed: d.Failed}
}

func (d doomed) Failed(s, _ []float64) bool { return d.loses && s[0] > 1.3 }

func (d doomed) Step(s, c, u, sn, cn []float64) {
	if d.Cart.Step(s, c, u, sn, cn); !d.loses && s[0] > 1.3 && u[0] == 1 {
		sn[0] = math.Inf(1)
	}
}

func TestVisitedStatesEndWithTheLost(t *testing.T) {
	push := func(int) (float64, error) { return 1, nil }
	for _, loses := range []bool{true, false} {
		p := doomed{testdomain.NewCart(horizon), loses}
		got := require.Get(solver(t, p).SolveVisited(0, []float64{1.1, 0.1}, fixed, domain.Lent(&driver{act: push})))(t)
		if len(got) == 0 || len(got) > 2*(horizon-2) {
			t.Errorf("loses %t: %d samples", loses, len(got))
		}
		for _, x := range got {
			if loses && x.S[0] > 1.5 || !(math.Abs(x.S[0]) < 10) {
				t.Errorf("loses %t: a sample at %v", loses, x.S)
			}
		}
	}
	broken := errors.New("no map")
	s := solver(t, testdomain.NewCart(horizon))
	if _, err := s.SolveVisited(0, []float64{1, 0}, fixed, domain.Lent(&driver{act: func(t int) (float64, error) {
		if t == 3 {
			return 0, broken
		}
		return 0, nil
	}})); !errors.Is(err, broken) || !strings.Contains(err.Error(), "step 3") {
		t.Errorf("a policy that fails: %v", err)
	}
	if _, err := s.SolveVisited(0, []float64{1}, fixed, domain.Lent(&driver{act: push})); err == nil {
		t.Error("a scenario of one parameter was accepted")
	}
}
