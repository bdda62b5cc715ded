package closedloop

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// An optimum is free below a billionth of the dearest, and where it is compared alone.
func TestAFreeOptimumIsABillionthOfTheDearest(t *testing.T) {
	s := Steering{}
	for _, compared := range []int{1, 1, 1, 0} {
		s.Front = append(s.Front, FrontPoint{W: []float64{1, 0}, RegretPct: 5, Compared: compared})
	}
	s.free([]float64{4, nearlyFree * 4, nearlyFree * 3.99, 0})
	for i, want := range []bool{false, false, true, false} {
		if p := s.Front[i]; p.Free != want || math.IsNaN(float64(p.RegretPct)) != want {
			t.Errorf("optimum %d: %+v", i, p)
		}
	}
	if nearlyFree != 1e-9 {
		t.Errorf("a share of %g", nearlyFree)
	}
}

// The ratio of two fronts is in the box of the exact one: of the same fronts 1, of a point in its middle by hand.
func TestTheRatioOfFrontsIsInTheExactBox(t *testing.T) {
	exact := [][]Number{{1, 5}, {2, 3}, {5, 1}}
	if r := HypervolumeRatio(exact, exact); r != 1 {
		t.Errorf("the same front has the ratio %g", r)
	}
	// In the box [0, 1]²: (0, 1), (1/4, 1/2), (1, 0) below 1.1, and (1/2, 1/2).
	whole := 1.1*0.1 + 0.85*0.5 + 0.1*0.5
	if r := HypervolumeRatio([][]Number{{3, 3}}, exact); math.Abs(r-0.36/whole) > 1e-12 {
		t.Errorf("a point has the ratio %g, want %g", r, 0.36/whole)
	}
	if got := ranges([][]Number{{3, 1}, {2, 5}, {4, 0}}); !slices.Equal(got, [][2]Number{{2, 4}, {0, 5}}) || ranges(nil) != nil {
		t.Errorf("ranges %v", got)
	}
}

// An area is the share of points at random that some point dominates, and a point at or beyond the reference adds nothing.
func TestHypervolume2IsTheShareDominated(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		points := make([][2]float64, 1+rng.IntN(5))
		for i := range points {
			points[i] = [2]float64{float64(rng.IntN(12)), float64(rng.IntN(12))}
		}
		cells := 0
		for x := range 10 {
			for y := range 8 {
				count(&cells, slices.ContainsFunc(points, func(p [2]float64) bool { return p[0] <= float64(x) && p[1] <= float64(y) }))
			}
		}
		before := slices.Clone(points)
		if got := hypervolume2(points, [2]float64{10, 8}); got != float64(cells) || !slices.Equal(points, before) {
			t.Errorf("%v have %g, want %d", points, got, cells)
		}
	}
}

// A decision without all its objectives ends an episode of a series, and what is no number is left out of the point.
func TestASeriesEndsWhereObjectivesLack(t *testing.T) {
	a := newSeries(&domain.Spec{Objectives: make([]domain.Variable, 2)}, 4)
	both := func(v float64) Line { return Line{J: Vector{v, 10 * v}, Sigma: Vector{0.5, 0.5}} }
	a.add(&EpisodeRecord{Lines: []Line{both(1), both(2), {J: Vector{1}, Sigma: Vector{0.5, 0.5}}, both(4)}})
	a.add(&EpisodeRecord{Episode: 199, Lines: []Line{both(3), {J: Vector{1, 1}, Sigma: Vector{1}}, both(5)}})
	a.add(&EpisodeRecord{Episode: 1, Lines: []Line{both(math.Inf(1))}})
	a.add(&EpisodeRecord{Episode: 2})
	a.add(&EpisodeRecord{Episode: 200, Lines: []Line{both(7)}})
	s := a.result()
	if s.Interval != 1 || s.Episodes != 3 || !slices.Equal(s.J[0].Mean, Vector{2, 2}) || !slices.Equal(s.J[1].P90, Vector{30, 20}) || !slices.Equal(s.Total.Mean, Vector{22, 22}) || !slices.Equal(s.Weighted.P10, Vector{5.5, 11}) {
		t.Errorf("%+v", s)
	}
	a = newSeries(&domain.Spec{Objectives: make([]domain.Variable, 1)}, 1)
	a.add(&EpisodeRecord{Lines: []Line{{J: Vector{math.NaN()}, Sigma: Vector{1}}}})
	if b := a.result(); !math.IsNaN(b.J[0].Mean[0]) || !math.IsNaN(b.J[0].P10[0]) || !math.IsNaN(b.Total.P90[0]) || b.Sigma[0].Mean[0] != 1 {
		t.Errorf("no number: %+v", b)
	}
	for steps, want := range map[int]int{0: 1, 1: 1, 50: 1, 51: 2, 100: 2, 101: 3} {
		if got := newSeries(&domain.Spec{}, steps).interval; got != want {
			t.Errorf("%d decisions: points of %d, want %d", steps, got, want)
		}
	}
}

// Candidates through a lost state cost no finite number, and what comes behind a plan is that of the state it ends in.
func TestCandidatesAnswerForWhereTheyEnd(t *testing.T) {
	var ends [][3]float64
	p := able{abilities: domain.ProblemAbilities{
		Failed: func(s, c []float64) bool { return s[0] > 1.5 && c[0] == 0.5 },
		TerminalCost: func(s, c []float64, pref domain.Preference) float64 {
			ends = append(ends, [3]float64{s[0], c[0], pref.W[0]})
			return 100 * s[0]
		},
		Remaining: func(c []float64) int { return 2 },
	}}
	controller, err := newPathIntegral(p, pathOptions{candidates: 8, noise: 0.5, correlation: 0.5, temperature: 0.1, penalty: 1})
	if err != nil {
		t.Fatal(err)
	}
	k := controller.(*pathIntegral)
	if err := k.Reset(nil); err != nil {
		t.Fatal(err)
	}
	k.sample(2)
	k.rollOut([]float64{1}, []float64{0.5}, domain.Preference{W: []float64{2}}, 2, 0, 8)
	lost := 0
	for i := range 8 {
		u := []float64{k.plans[i], k.plans[8+i]}
		first, second := 1+u[0], 1+u[0]+u[1]
		failed := first > 1.5 || second > 1.5
		count(&lost, failed)
		if want := 2*(u[0]*u[0]+u[1]*u[1]) + 100*second; math.Abs(k.costs[i]-want) > 1e-9 || math.IsInf(k.violations[i], 1) != failed || ends[i] != [3]float64{second, 0.5, 2} {
			t.Errorf("candidate %d costs %g and %g, want %g, lost %v", i, k.costs[i], k.violations[i], want, failed)
		}
	}
	if lost == 0 || lost == 8 {
		t.Fatalf("%d of 8 candidates pass through a lost state", lost)
	}
	u := make([]float64, 1)
	d, err := k.Decide([]float64{1}, []float64{0.5}, domain.Preference{W: []float64{2}}, u)
	if err != nil || len(d.Ahead) != 2 {
		t.Errorf("%d actions ahead of 2, %v", len(d.Ahead), err)
	}
	k.Abilities().Executed(nil) // it keeps nothing of what was executed
	fresh := k.plan[0]
	k.t = 0
	if k.Abilities().Missed(nil, nil, nil); k.t != 0 || k.plan[0] != fresh {
		t.Error("a plan that there is not yet moves on")
	}
}

// A remark of steady states says of how many episodes there is none, and what of the context changes along a plan.
func TestMissingSteadyStatesAreSaid(t *testing.T) {
	for name, c := range map[string]struct {
		drift float64
		none  func(s float64) bool
		want  string
	}{
		"everywhere":          {0, func(float64) bool { return true }, "in 3 of 4 episodes, so that"},
		"somewhere":           {0, func(s float64) bool { return s > 1.5 }, "in 2 of 4 episodes, so that"},
		"of a moving context": {1, func(s float64) bool { return s > 1.5 }, "in 2 of 4 episodes (c of the context changes at their end), so that"},
		"nowhere":             {1, func(float64) bool { return false }, ""},
	} {
		p := moving{drift: c.drift}
		none := c.none
		p.abilities.PlanTerminalCost = func(s, cx []float64, steps int, pref domain.Preference) (*domain.Quadratic, bool) {
			if steps != 3 || pref.W[0] != 1 || cx[0] != 0.5 {
				t.Errorf("asked for %d steps from %v under %v", steps, cx, pref)
			}
			if none(s[0]) {
				return nil, false
			}
			return &domain.Quadratic{At: []float64{1, 0}}, true
		}
		plant := Simulated(p, []domain.Variable{{Name: "p"}}, func(p, s, c []float64) { s[0], c[0] = p[0], 0.5 })
		plant.Starts = [][]float64{{1}, {2}, {3}}
		text := SteadyStateRemark(&domain.Case{Problem: p, Plant: plant}, 1, 4, fixed.Preference)
		if (text == "") != (c.want == "") || !strings.Contains(text, c.want) || text != "" && !strings.HasPrefix(text, "no steady state is found") {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
	if text := SteadyStateRemark(&domain.Case{Problem: moving{}, Plant: struct{ domain.Plant }{}}, 1, 1, fixed.Preference); text != "" {
		t.Errorf("another plant: %q", text)
	}
}

// moving is able that runs on, with a context that changes.
type moving struct {
	able
	drift float64
}

func (p moving) Spec() *domain.Spec {
	spec := *p.bar.Spec()
	spec.Horizon, spec.Plan = 3, 1
	return &spec
}
func (moving) Base(_, _, plan []float64) { clear(plan) }
func (p moving) Step(s, c, u, sNext, cNext []float64) {
	sNext[0], cNext[0] = s[0]+u[0], c[0]+p.drift
}

// How far a receding horizon looks: what the context says, the rest of the episode, or the horizon of a plant that runs on.
func TestDecisionsLeft(t *testing.T) {
	remaining := func(c []float64) int { return int(10 * c[0]) }
	for _, c := range []struct {
		r    receding
		want int
	}{
		{receding{problem: bar{}}, 20}, {receding{problem: bar{}, t: 19}, 1}, {receding{problem: bar{}, t: 25}, 1}, {receding{problem: moving{}, t: 25}, 3}, {receding{problem: bar{}, t: 3, remaining: remaining}, 7},
	} {
		if got := c.r.decisionsLeft([]float64{0.7}); got != c.want {
			t.Errorf("after %d decisions %d are left, want %d", c.r.t, got, c.want)
		}
	}
}

// A wave is within its bounds, and about zero where there are none; two actions have waves of their own.
func TestWavesAreWithinBounds(t *testing.T) {
	actions := []domain.Variable{{Lo: 2, Hi: 6}, {}}
	least, most, sum := []float64{math.Inf(1), math.Inf(1)}, []float64{math.Inf(-1), math.Inf(-1)}, []float64{0, 0}
	for seed := range uint64(300) {
		plan := make([]float64, 40)
		wave(rand.New(rand.NewPCG(seed, 1)), actions, plan)
		for i, v := range plan {
			least[i%2], most[i%2] = min(least[i%2], v), max(most[i%2], v)
			sum[i%2] += v / 6000
		}
		for i := 2; i < len(plan); i++ {
			if math.Abs(plan[i]-plan[i-2]) > 2*0.7 {
				t.Fatalf("a wave jumps from %g to %g", plan[i-2], plan[i])
			}
		}
	}
	for j, want := range [][3]float64{{2.2, 5.8, 4}, {-1, 1, 0}} { // nine tenths of a box
		if math.Abs(least[j]-want[0]) > 1e-12 || math.Abs(most[j]-want[1]) > 1e-12 || math.Abs(sum[j]-want[2]) > 0.1 {
			t.Errorf("action %d from %g to %g about %g, want %v", j, least[j], most[j], sum[j], want)
		}
	}
}

// scripted is a solver whose costs follow a script, of plans that it does not change.
type scripted struct {
	domain.Receding
	costs  []float64 // of the solves in turn
	solved []bool
	begun  [][]float64
	asked  int
}

func (s *scripted) NewHorizon(int) domain.Horizon { return scriptedHorizon{nil, s} }

type scriptedHorizon struct {
	domain.Horizon
	s *scripted
}

func (h scriptedHorizon) Begin(plan []float64) { h.s.begun = append(h.s.begun, slices.Clone(plan)) }
func (h scriptedHorizon) Linearise() bool      { return false }
func (h scriptedHorizon) Solve(_, _ []float64, _ domain.Preference, plan []float64) (float64, bool, error) {
	i := min(h.s.asked, len(h.s.costs)-1)
	h.s.asked++
	return h.s.costs[i], h.s.solved == nil || h.s.solved[i], nil
}

// One of the first decisions is explored: a plan that costs a ten-thousandth less begins the next solve. Two in a row that come to the plan
// that there is end that, and so does what was not solved not.
func TestDecisionsAreExplored(t *testing.T) {
	for name, c := range map[string]struct {
		cost, found float64
		solved      bool // the exploration
		own         bool // the plan itself
		t, agreed   int
		period      float64
		explored    bool
		improved    bool
		agreedNow   int
	}{
		"the same": {100, 100, true, true, 1, 0, 1, true, false, 1}, "nearly the same": {100, 99.991, true, true, 1, 1, 1, true, false, 2}, "less": {100, 99.98, true, true, 1, 1, 1, true, true, 0},
		"more": {100, 101, true, true, 1, 1, 1, true, false, 0}, "not solved": {100, 50, false, true, 1, 1, 1, true, false, 0}, "of a plan below zero": {-100, -101, true, true, 1, 0, 1, true, true, 0},
		"the last": {100, 100, true, true, 16, 0, 1, true, false, 1}, "behind the last": {100, 50, true, true, 17, 0, 1, false, false, 0}, "agreed": {100, 50, true, true, 1, 2, 1, false, false, 2},
		"of no plan": {100, 50, true, false, 1, 0, 1, false, false, 0}, "in no time": {100, 50, true, true, 1, 0, 1e-5, false, false, 0}, "in just the time": {100, 50, true, true, 1, 0, 4 * 5e-7 * 20 * 27, true, true, 0},
	} {
		p := respecified{able{}, bar{}.Spec()}
		spec := *p.spec
		spec.StepSeconds = c.period
		p.spec = &spec
		solver := &scripted{costs: []float64{c.found}, solved: []bool{c.solved}}
		a := &ahead{receding: recedingOf(p, solver, 20, false), explorer: solver.NewHorizon(0), s: []float64{0}, c: []float64{0}, u: []float64{0}}
		a.t, a.agreed, a.cost, a.planned = c.t, c.agreed, c.cost, domain.Decided(c.own)
		a.planned.Ahead = make([]float64, 20)
		improved := a.explore()
		begun := 0
		if c.explored {
			begun = 1
		}
		if c.improved {
			begun = 2
		}
		if improved != c.improved || solver.asked != min(begun, 1) || len(solver.begun) != begun || a.agreed != c.agreedNow {
			t.Errorf("%s: improved %v by %d solves, begun %d times, %d agree", name, improved, solver.asked, len(solver.begun), a.agreed)
		}
		if begun > 0 && slices.Max(solver.begun[0]) == slices.Min(solver.begun[0]) {
			t.Errorf("%s: the exploration begins at the plan itself", name)
		}
	}
}

// The first plan of several starts is that of the least cost that was solved; without one it is the solver's own start.
func TestTheBestStartIsTaken(t *testing.T) {
	for name, c := range map[string]struct {
		costs  []float64
		solved []bool
		starts int
		begins int
		best   bool
	}{
		"the second": {[]float64{3, 1, 2, 9}, []bool{true, true, true, true}, 3, 4, true}, "unsolved": {[]float64{3, 1, 2, 9}, []bool{false, false, false, true}, 3, 4, false}, "one start": {[]float64{3}, nil, 1, 0, false}, "none": {[]float64{3}, nil, 0, 0, false},
	} {
		solver := &scripted{costs: c.costs, solved: c.solved}
		r := recedingOf(able{}, solver, 20, false)
		r.starts = c.starts
		if err := r.Reset(nil); err != nil {
			t.Fatal(err)
		}
		u := make([]float64, 1)
		d, err := r.Decide([]float64{1}, []float64{0}, fixed.Preference, u)
		if err != nil || len(solver.begun) != 1+c.begins || solver.asked != 1+max(0, c.begins-1) || len(d.Ahead) != 20 {
			t.Errorf("%s: %d begun, %d asked, %v", name, len(solver.begun), solver.asked, err)
		}
		if last := solver.begun[len(solver.begun)-1]; c.begins > 0 && (last != nil) != c.best {
			t.Errorf("%s: the last solve begins at %v", name, last)
		}
		if c.best && !slices.Equal(solver.begun[3], solver.begun[4]) == slices.Equal(solver.begun[2], solver.begun[4]) {
			t.Errorf("%s: begins at %v of %v", name, solver.begun[4], solver.begun)
		}
	}
}
