package batchnav

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// The weights of a target are each objective's share of the front, of sum 1: a bounded one counts boundedWeight as much and has its bound in a
// tenth of its reach, unless all are bounded and none is named; one that is not named counts otherWeight.
func TestATargetWeighsSharesOfTheFront(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		most   []float64
		named  []int
		shares []float64 // of each objective in units of its reach
		bounds []int
	}{
		{[]float64{inf, inf, inf}, nil, []float64{1, 1, 1}, nil},
		{[]float64{5, inf, inf}, nil, []float64{boundedWeight, 1, 1}, []int{0}},
		{[]float64{5, 6, 7}, nil, []float64{1, 1, 1}, []int{0, 1, 2}},
		{[]float64{inf, inf, inf}, []int{1}, []float64{otherWeight, 1, otherWeight}, nil},
		{[]float64{inf, 6, inf}, []int{2}, []float64{otherWeight, boundedWeight, 1}, []int{1}},
		{[]float64{5, 6, 7}, []int{0}, []float64{boundedWeight, boundedWeight, boundedWeight}, []int{0, 1, 2}},
	} {
		p := pursuit{most: c.most, reach: []float64{2, 4, 8}}
		got, sum := p.target(c.named...), 0.0
		want := make([]float64, 3)
		for j, share := range c.shares {
			want[j] = share / p.reach[j]
			sum += want[j]
		}
		floats.Scale(1/sum, want)
		var bounds []domain.Bound
		for _, j := range c.bounds {
			bounds = append(bounds, domain.Bound{Objective: j, Most: c.most[j], Unit: 0.1 * p.reach[j]})
		}
		if !floats.EqualApprox(got.weights, want, 1e-15) || !slices.Equal(got.bounds, bounds) {
			t.Errorf("%+v: %+v, want %v and %v", c, got, want, bounds)
		}
		J := []float64{6, 5, 9} // the first exceeds its bound by 1, the third by 2
		cost, beyond := floats.Dot(want, J), 0.0
		for _, b := range bounds {
			beyond += want[b.Objective] * map[int]float64{0: 1, 2: 2}[b.Objective]
		}
		for _, factor := range []float64{0, 1, excessive} {
			if got := got.cost(J, factor); math.Abs(got-cost-factor*beyond/boundedWeight) > 1e-9*(1+got) {
				t.Errorf("%+v: a cost of %g, want %g and %g times %g", c, got, cost, factor/boundedWeight, beyond)
			}
		}
	}
}

// aimed is the cart with two objectives that every action trades, and a polish that goes to the action at which weights and bounds are best.
type aimed struct {
	finite
	polish func(pref domain.Preference, bounds []domain.Bound, plan []float64)
}

func (p aimed) Objectives(s, u, c, J []float64) { J[0], J[1] = (u[0]+0.5)*(u[0]+0.5), u[0]*u[0] }

func (p aimed) Abilities() *domain.ProblemAbilities {
	may := p.finite.Abilities()
	may.Polish = func(_, _ []float64, pref domain.Preference, bounds []domain.Bound, plan []float64, _ int) bool {
		p.polish(pref, bounds, plan)
		return true
	}
	return may
}

// hold makes a plan of one action.
func hold(plan []float64, u float64) { copy(plan, slices.Repeat([]float64{u}, len(plan))) }

// at is the simulated point of a plan of one action.
func (p aimed) at(obs Observation, u float64) FrontPoint {
	return simulated(p, obs, []float64{0.5, 0.5}, slices.Repeat([]float64{u}, cartSteps), false)
}

func aiming(t *testing.T, p aimed) *Batch {
	return require.Get(NewBatch(ref.New(), testdomain.Map(p.Cart, 5, false), p, Options{Search: SearchOptions{Candidates: 1, Polish: 1}, NoiseFree: true}, 1))(t)
}

// A plan for a target is the best of what is nearest to the bounds and of what a polish makes of it, and of the cheapest beyond them, with bounds in
// their unit and a tenth of that. It is a further point of the front.
func TestAPlanIsPolishedForATarget(t *testing.T) {
	obs := Observation{S: []float64{-0.3, 0}, C: []float64{0}}
	for name, c := range map[string]struct {
		bounded bool
		ends    [4]float64 // what the polish ends at, of each start by each unit
		want    float64
	}{
		"the first": {true, [4]float64{-0.4, -0.3, -0.3, -0.3}, -0.4}, "a finer unit": {true, [4]float64{0, -0.4, -0.39, -0.3}, -0.4},
		"another start": {true, [4]float64{0, 0, -0.4, -0.4}, -0.4}, "another start in a finer unit": {true, [4]float64{0, 0, 0, -0.4}, -0.4},
		"the start": {true, [4]float64{0.5, 0.5, 0.5, 0.5}, -0.2}, "without bounds": {false, [4]float64{-0.45, -0.5, 0, 0}, -0.5},
	} {
		var starts, units []float64
		p := aimed{finite{testdomain.NewCart(cartSteps)}, func(pref domain.Preference, bounds []domain.Bound, plan []float64) {
			if c.bounded && bounds == nil { // under weights alone nothing is found
				hold(plan, 0.9)
				return
			}
			if bounds != nil {
				units = append(units, bounds[0].Unit)
			}
			starts = append(starts, plan[0])
			hold(plan, c.ends[len(starts)-1])
		}}
		a := aiming(t, p)
		goal := pursuit{most: []float64{math.Inf(1), math.Inf(1)}, reach: []float64{1, 1}}
		if c.bounded {
			goal.most[1] = 12 * 0.4001 * 0.4001
		}
		f := &Front{Points: []FrontPoint{p.at(obs, 0.1), p.at(obs, -0.2), p.at(obs, -0.45), {J: []float64{0, 0}}}}
		n := len(f.Points)
		got := a.polishedFor(goal.target(0), obs, f)
		if math.Abs(got.U[0]-c.want) > 1e-12 || len(f.Points) != n+1 || f.Points[n].U[0] != got.U[0] {
			t.Errorf("%s: the plan acts %g, want %g; starts %v, units %v", name, got.U[0], c.want, starts, units)
		}
		if want := []float64{-0.2, -0.2, -0.45, -0.45}; c.bounded && (len(starts) != 4 || !floats.EqualApprox(starts, want, 1e-9) && !floats.EqualApprox(starts, []float64{-0.2, -0.2, -0.2, -0.2}, 1e-9) || !floats.EqualApprox(units, []float64{0.1, 0.01, 0.1, 0.01}, 1e-12)) {
			t.Errorf("%s: from %v in the units %v", name, starts, units)
		}
		if !c.bounded && (len(starts) != 2 || starts[0] != -0.45) {
			t.Errorf("%s: from %v", name, starts)
		}
	}
}

// Where two starts end at different optima, the weight of what is bounded is bisected until the bounds are just kept: the cheapest plan within them.
func TestTheWeightOfABoundIsBisected(t *testing.T) {
	obs := Observation{S: []float64{-0.3, 0}, C: []float64{0}}
	solves, sums := 0, 0.0
	p := aimed{finite{testdomain.NewCart(cartSteps)}, func(pref domain.Preference, bounds []domain.Bound, plan []float64) {
		if bounds != nil {
			hold(plan, 0.3) // a polish with bounds ends anywhere
			return
		}
		solves++
		sums += pref.W[0] + pref.W[1]
		hold(plan, -0.5*pref.W[0]/(pref.W[0]+pref.W[1]))
	}}
	a := aiming(t, p)
	for _, most := range []float64{0.3, 0.1, 0.45, 0.02} { // of |u|
		goal := pursuit{most: []float64{math.Inf(1), cartSteps * most * most}, reach: []float64{1, 1}}
		f := &Front{Points: []FrontPoint{p.at(obs, 0), p.at(obs, -0.5)}}
		solves, sums = 0, 0
		got := a.polishedFor(goal.target(0), obs, f)
		if u := -got.U[0]; !(u <= most) || u < most-0.01 || got.J[1] > goal.most[1] || solves != weightSteps || math.Abs(sums-weightSteps) > 1e-9 {
			t.Errorf("within %g: %g after %d polishes with weights of %g in all", most, u, solves, sums)
		}
	}
	best := p.at(obs, -0.1) // what is cheaper stays
	goal := pursuit{most: []float64{math.Inf(1), cartSteps * 0.04 * 0.04}, reach: []float64{1, 1}}
	if got := a.weighted(goal.target(0), obs, best); got.U[0] != -0.1 {
		t.Errorf("a dearer plan replaces the best: %g", got.U[0])
	}
}

// A loop that polishes keeps its bound and spends nearly all of it; what comes first is at its least, and with both the second is least within it.
func TestALoopThatPolishesReachesItsGoal(t *testing.T) {
	p := aimed{finite{testdomain.NewCart(cartSteps)}, func(pref domain.Preference, bounds []domain.Bound, plan []float64) {
		u := -0.5 * pref.W[0] / (pref.W[0] + pref.W[1])
		for _, b := range bounds {
			if most := math.Sqrt(max(0, b.Most) / float64(len(plan))); b.Objective == 1 {
				u = max(u, -most)
			} else {
				u = min(u, most-0.5)
			}
		}
		hold(plan, u)
	}}
	least := cartSteps * 0.25 // of an objective where the other is 0
	for name, c := range map[string]struct {
		goal domain.Goals
		want [2]float64
	}{
		"first the first":    {domain.Goals{First: []int{0}}, [2]float64{closeToLeast * least, 0.81 * least}}, // 0.9² of the action
		"first the second":   {domain.Goals{First: []int{1}}, [2]float64{0.81 * least, closeToLeast * least}},
		"both in order":      {domain.Goals{First: []int{1, 0}}, [2]float64{0.81 * least, closeToLeast * least}},
		"a bound":            {domain.Goals{Bounds: []domain.Bound{{Objective: 1, Most: 0.36 * least}}}, [2]float64{0.16 * least, 0.36 * least}},
		"another bound":      {domain.Goals{Bounds: []domain.Bound{{Objective: 0, Most: 0.04 * least}}}, [2]float64{0.04 * least, 0.64 * least}},
		"a bound, the first": {domain.Goals{Bounds: []domain.Bound{{Objective: 1, Most: 0.25 * least}}, First: []int{0}}, [2]float64{0.25 * least, 0.25 * least}},
	} {
		n := require.Get(NewNavigator(ref.New(), testdomain.Map(p.Cart, 5, false), p, Options{Search: SearchOptions{Candidates: 1, Polish: 1}, NoiseFree: true}))(t)
		s, cx, next, nextC, J, sum := []float64{-0.3, 0}, []float64{0}, make([]float64, 2), make([]float64, 1), make([]float64, 2), [2]float64{}
		for range cartSteps {
			d := require.Get(n.Decide(s, cx, domain.Preference{Goal: &c.goal}))(t)
			p.Objectives(s, d.U, cx, J)
			sum[0], sum[1] = sum[0]+J[0], sum[1]+J[1]
			p.Step(s, cx, d.U, next, nextC)
			s, next, cx, nextC = next, s, nextC, cx
		}
		for _, b := range c.goal.Bounds {
			if sum[b.Objective] > b.Most*(1+1e-6) {
				t.Errorf("%s: %v, beyond the bound", name, sum)
			}
		}
		if math.Abs(sum[0]-c.want[0]) > 0.02*least || math.Abs(sum[1]-c.want[1]) > 0.02*least {
			t.Errorf("%s: %v, want %v", name, sum, c.want)
		}
	}
}

// A goal that is none is refused, and one that ends leaves nothing behind.
func TestAGoalEnds(t *testing.T) {
	p := aimed{finite{testdomain.NewCart(cartSteps)}, func(_ domain.Preference, _ []domain.Bound, plan []float64) { hold(plan, 0) }}
	n := require.Get(NewNavigator(ref.New(), testdomain.Map(p.Cart, 5, false), p, Options{Search: SearchOptions{Candidates: 1, Polish: 1}, NoiseFree: true}))(t)
	s, c := []float64{-0.3, 0}, []float64{0}
	if _, err := n.Decide(s, c, domain.Preference{Goal: &domain.Goals{First: []int{2}}}); err == nil {
		t.Error("a goal of an objective that is none is reached")
	}
	l := &n.batch.loops[0]
	// Weights next to a goal, and an observation that is no number, ask for no front.
	for _, x := range []struct {
		s, c []float64
		pref domain.Preference
	}{{s, c, domain.Preference{W: []float64{0.5, 0.5}}}, {[]float64{math.NaN(), 0}, c, domain.Preference{}}, {s, []float64{math.NaN()}, domain.Preference{}}} {
		x.pref.Goal = &domain.Goals{First: []int{0}}
		require.Get(n.Decide(x.s, x.c, x.pref))(t)
		if n.batch.fronts != nil || !slices.Equal(l.pursuit.weights, []float64{0.5, 0.5}) {
			t.Errorf("at %v, %v under %+v: a front, %v", x.s, x.c, x.pref, l.pursuit.weights)
		}
	}
	require.Get(n.Decide(s, c, domain.Preference{Goal: &domain.Goals{First: []int{0}}}))(t)
	if l.pursuit.goal == nil || l.memory.target == nil {
		t.Error("a goal has no target")
	}
	require.Get(n.Decide(s, c, simplex(0.5)))(t)
	if l.pursuit.goal != nil || l.memory.target != nil {
		t.Errorf("behind a goal: %+v, %+v", l.pursuit.goal, l.memory.target)
	}
}

// alike is aimed whose second objective is the same whatever it does.
type alike struct{ aimed }

func (p alike) Objectives(s, u, c, J []float64) { J[0], J[1] = (u[0]+0.5)*(u[0]+0.5), 3 }

// What each objective reaches is its range along the front, and a billionth of its size where it has none.
func TestWhatAnObjectiveReaches(t *testing.T) {
	p := alike{aimed{finite{testdomain.NewCart(cartSteps)}, nil}}
	n := require.Get(NewNavigator(ref.New(), testdomain.Map(p.Cart, 5, false), p, Options{Direct: true, NoiseFree: true}))(t)
	require.Get(n.Decide([]float64{-0.3, 0}, []float64{0}, domain.Preference{Goal: &domain.Goals{First: []int{0}}}))(t)
	if r, want := n.batch.loops[0].pursuit.reach, 1e-9*(1+3*cartSteps); len(r) != 2 || !(r[0] > 0) || math.Abs(r[1]-want) > 1e-15 {
		t.Errorf("reach %v, want %g of the second", r, want)
	}
}

// A goal's weights are those of the front's best point within its bounds, or of the nearest to them where none keeps them.
func TestAGoalsWeightsAreThoseOfAPoint(t *testing.T) {
	p := finite{testdomain.NewCart(cartSteps)}
	m := testdomain.Map(p.Cart, 5, false)
	s, c := []float64{-0.5, 0.1}, []float64{0}
	fronts := require.Get(NewFronts(ref.New(), m, p, Options{}))(t)
	whole := require.Get(fronts.Front(t.Context(), Observation{S: s, C: c}, FrontOptions{Points: goalPoints}))(t)
	for j := range 2 {
		for _, share := range []float64{-1, 0.3, 0.7} { // of the range between ideal and nadir
			most := []float64{math.Inf(1), math.Inf(1)}
			most[j] = whole.Ideal[j] + share*(whole.Nadir[j]-whole.Ideal[j])
			if share < 0 {
				most[j] = 0 // which no plan sums to
			}
			f := require.Get(fronts.Front(t.Context(), Observation{S: s, C: c}, FrontOptions{Points: goalPoints, Most: most}))(t)
			k := f.Best(most)
			if (k < 0) != (share < 0) {
				t.Fatalf("a bound of %g of objective %d: point %d", most[j], j, k)
			}
			if k < 0 {
				k = f.nearest(most)
			}
			n := require.Get(NewNavigator(ref.New(), m, p, Options{Direct: true, NoiseFree: true}))(t)
			require.Get(n.Decide(s, c, domain.Preference{Goal: &domain.Goals{Bounds: []domain.Bound{{Objective: j, Most: most[j]}}}}))(t)
			if got := n.batch.loops[0].pursuit.weights; !slices.Equal(got, f.Points[k].W) {
				t.Errorf("a bound of %g of objective %d: weights %v, want %v", most[j], j, got, f.Points[k].W)
			}
		}
	}
}

// A navigator's context ends what finds the weights of a goal, too.
func TestAGoalEndsWithTheContext(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end()
	p := testdomain.NewCart(8)
	n := require.Get(NewNavigator(ref.New(), testdomain.Map(p, 9, false), p, Options{Direct: true, Context: ctx}))(t)
	if _, err := n.Decide([]float64{-0.3, 0}, []float64{0}, domain.Preference{Goal: &domain.Goals{First: []int{0}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context's end: %v", err)
	}
}
