package batchnav

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/tensor"
)

func TestChoice(t *testing.T) {
	nan, inf, spec := math.NaN(), math.Inf(1), &domain.Spec{MarginTolerance: 0.1}
	for name, c := range map[string]struct {
		cost, margin []float64
		index        int
		feasible     bool
		count        int
	}{
		"least cost":                {[]float64{3, 1, 2}, []float64{0, 0, 0}, 1, true, 3},
		"tie":                       {[]float64{3, 1, 1}, []float64{0, 0, 9}, 1, true, 3},
		"cheaper but infeasible":    {[]float64{3, 1, 2}, []float64{0, -1, 0}, 2, true, 2},
		"within the tolerance":      {[]float64{3, 1, 2}, []float64{0, -0.05, 0}, 1, true, 3},
		"no cost":                   {[]float64{nan, 5, inf}, []float64{0, 0, 0}, 1, true, 2},
		"no margin":                 {[]float64{1, 2, 3}, []float64{nan, nan, 0}, 2, true, 1},
		"none feasible":             {[]float64{1, 2, 3}, []float64{-3, -1, -1}, 1, false, 0},
		"none feasible, one lost":   {[]float64{1, 2, 3}, []float64{nan, -inf, -2}, 2, false, 0},
		"none feasible, the first":  {[]float64{3, 2, 1}, []float64{-1, -3, -2}, 0, false, 0},
		"nothing is known of any":   {[]float64{1, 2, 3}, []float64{nan, nan, nan}, 0, false, 0},
		"wide margin without costs": {[]float64{nan, nan, nan}, []float64{1, 3, 2}, 1, false, 0},
	} {
		b := domain.PlanBatch{Plans: tensor.New(3, 1), Projected: []float64{10, 11, 12}, Cost: c.cost, Margin: c.margin}
		got := choose(&b, []domain.Source{domain.SourceLocalized, domain.SourcePrevious, domain.SourcePrevious}, spec)
		if got.Index != c.index || got.Feasible != c.feasible || got.FeasibleCount != c.count || got.U[0] != b.Projected[c.index] {
			t.Errorf("%s: candidate %d, feasible %v of %d, plan %v, want %d, %v of %d", name, got.Index, got.Feasible, got.FeasibleCount, got.U, c.index, c.feasible, c.count)
		}
	}
	b := domain.PlanBatch{Plans: tensor.New(4, 1), Projected: make([]float64, 4), Cost: []float64{3, 4, 8, 1}, Margin: []float64{0, 0, 0, -1}}
	got := choose(&b, []domain.Source{domain.SourceNoise, domain.SourceNoise, domain.SourcePrevious, domain.SourceNoise}, spec)
	want := [domain.Sources]SourceStatistics{domain.SourceNoise: {Candidates: 3, Feasible: 2, BestCost: 3, MeanCost: 3.5}, domain.SourcePrevious: {Candidates: 1, Feasible: 1, BestCost: 8, MeanCost: 8}}
	if got.Sources != want || got.LocalizedCost != 4 || got.Source != domain.SourceNoise {
		t.Errorf("sources %+v, the localized code costs %v, the winner is from %v, want %+v, 4 and noise", got.Sources, got.LocalizedCost, got.Source, want)
	}
}

// The nearest point is the one that exceeds its bounds the least, as a share of the front, of those that are feasible and not dominated. It
// is the same in any unit. What comes first outweighs the rest, whatever else it costs; an objective that all points have alike counts for
// nothing, and one without a bound neither.
func TestTheNearestPointExceedsItsBoundsTheLeast(t *testing.T) {
	inf := math.Inf(1)
	for _, unit := range []float64{1, 1e3, 1e-3} {
		f := Front{Ideal: []float64{0, 0, 5 * unit}, Nadir: []float64{10 * unit, 4 * unit, 5 * unit}}
		for _, j := range [][2]float64{{0, 4}, {3, 2}, {6, 1}, {10, 0}} {
			f.Points = append(f.Points, FrontPoint{J: []float64{j[0] * unit, j[1] * unit, 5 * unit}, Feasible: true})
		}
		f.Points = append(f.Points, FrontPoint{J: []float64{0, 0, 0}}, FrontPoint{J: []float64{0, 0, 0}, Feasible: true, Dominated: true})
		for _, c := range []struct {
			bounds []float64
			first  []int
			want   int
		}{
			{[]float64{0, inf, 0}, nil, 0}, {[]float64{inf, 0, 0}, nil, 3}, {[]float64{inf, inf, inf}, nil, 0},
			{[]float64{2, 1, 9}, nil, 1},         // over by 0.75, 0.1 + 0.25, 0.4 and 0.8
			{[]float64{4, 0.5, 0}, nil, 2},       // 0.875, 0.375, 0.2 + 0.125 and 0.6
			{[]float64{2, 1, 9}, []int{0, 1}, 0}, // the first as far as it goes
			{[]float64{2, 1, 9}, []int{1, 0}, 2}, // the second, then the first
			{[]float64{6, 0, 0}, []int{1, 0, 2}, 3},
		} {
			bounds := []float64{c.bounds[0] * unit, c.bounds[1] * unit, c.bounds[2] * unit}
			if got := f.nearest(bounds, c.first...); got != c.want {
				t.Errorf("bounds %v, first %v: point %d, want %d", bounds, c.first, got, c.want)
			}
		}
		f.Points = f.Points[4:]
		if got := f.nearest([]float64{1, 1, 1}); got != -1 {
			t.Errorf("of no point: %d", got)
		}
	}
}

// The preferences of a sweep are on the simplex and distinct: evenly spaced of two objectives; of more the corners, the centre, and then
// draws that the seed alone says, of the same mean in each entry.
func TestSweptPreferencesCoverTheSimplex(t *testing.T) {
	for m := 1; m <= 4; m++ {
		const n = 2000
		d, other := newDraws(), newDraws()
		mean, w, again := make([]float64, m), make([]float64, m), make([]float64, m)
		for i := range n {
			d.preference(5, i, n, w)
			sum, least := 0.0, math.Inf(1)
			for j, v := range w {
				sum, least, mean[j] = sum+v, min(least, v), mean[j]+v/n
			}
			if math.Abs(sum-1) > 1e-12 || least < 0 {
				t.Fatalf("%d objectives, preference %d: %v", m, i, w)
			}
			if other.preference(5, i, n, again); !slices.Equal(w, again) {
				t.Fatalf("preference %d is %v, and by itself %v", i, w, again)
			}
			if other.preference(6, i, n, again); slices.Equal(w, again) != (m <= 2 || i <= m) {
				t.Fatalf("preference %d of %d objectives is %v, of another seed %v", i, m, w, again)
			}
			switch {
			case m == 2 && math.Abs(w[0]-float64(i)/(n-1)) > 1e-12, m > 2 && i < m && w[i] != 1, m > 2 && i == m && math.Abs(w[0]-1/float64(m)) > 1e-12, m > 2 && i > m && slices.Max(w) > 1-1e-6:
				t.Fatalf("%d objectives, preference %d of %d: %v", m, i, n, w)
			}
			other.preference(7, i, n, again) // what came before does not matter
		}
		for j, v := range mean {
			if math.Abs(v-1/float64(m)) > 0.02 {
				t.Errorf("%d objectives: the mean weight %d is %g", m, j, v)
			}
		}
	}
	d, w := newDraws(), make([]float64, 2)
	if d.preference(1, 0, 1, w); w[0] != 0.5 || w[1] != 0.5 {
		t.Errorf("the only preference is %v", w)
	}
}

// stubHorizon solves by a rule: from nothing a plan of its own, from a plan that plan a tenth nearer to the weighted one.
type stubHorizon struct {
	domain.Horizon
	start   []float64
	starts  [][]float64
	refuses func(w, start []float64) bool
}

func (h *stubHorizon) NewHorizon(int) domain.Horizon             { return h }
func (h *stubHorizon) Tightened(slack []float64) domain.Receding { return h }
func (h *stubHorizon) Begin(plan []float64)                      { h.start = slices.Clone(plan) }

func (h *stubHorizon) Solve(s, c []float64, pref domain.Preference, plan []float64) (float64, bool, error) {
	h.starts = append(h.starts, h.start)
	best := -0.5 * pref.W[0]
	for i := range plan {
		if plan[i] = 0.2; h.start != nil {
			plan[i] = h.start[i] + 0.1*(best-h.start[i])
		}
	}
	cost := 0.0
	for _, u := range plan {
		cost += (u - best) * (u - best)
	}
	return cost, !h.refuses(pref.W, h.start), nil
}

// An exact front simulates the cheapest plan that was found for each weighting, there and back, each solve from its neighbour's plan and
// once from the initial front's; where that is not solved it begins from nothing, and what is never solved is left out.
func TestAnExactFrontSimulatesTheCheapestPlans(t *testing.T) {
	cart := testdomain.NewCart(cartSteps)
	obs := Observation{S: []float64{-0.6, 0.3}, C: []float64{0}}
	weights := [][]float64{{0.9, 0.1}, {0.6, 0.4}, {0.3, 0.7}, {0.1, 0.9}}
	h := &stubHorizon{refuses: func(w, start []float64) bool { return w[0] == 0.3 || w[0] == 0.6 && start != nil }}
	initial := &Front{LookAhead: 5, Points: make([]FrontPoint, 4)}
	initial.Points[3] = FrontPoint{Feasible: true, plan: []float64{-0.05, -0.05, -0.05, -0.05, -0.05}} // its optimum
	f, err := ExactFront(t.Context(), cart, h, obs, FrontOptions{Weights: weights, LookAhead: 5}, initial)
	if err != nil || len(f.Points) != 3 || f.LookAhead != 5 {
		t.Fatalf("%v, %+v", err, f)
	}
	for i, want := range []struct{ w, u float64 }{{0.9, 0.2 - 0.1*0.65 + 0}, {0.6, 0.2}, {0.1, -0.05}} {
		p := f.Points[i]
		s, c, next, J, sum, margin, m := slices.Clone(obs.S), []float64{0}, make([]float64, 2), make([]float64, 2), make([]float64, 2), math.Inf(1), make([]float64, 2)
		for range 5 {
			cart.Objectives(s, p.U, c, J)
			cart.Margins(s, c, p.U, m)
			margin = min(margin, m[0], m[1])
			sum[0], sum[1] = sum[0]+J[0], sum[1]+J[1]
			cart.Step(s, c, p.U, next, make([]float64, 1))
			copy(s, next)
		}
		if p.W[0] != want.w || math.Abs(p.U[0]-want.u) > 1e-12 || math.Abs(p.J[0]-sum[0])+math.Abs(p.J[1]-sum[1]) > 1e-12 || math.Abs(p.Margin-margin) > 1e-12 || !p.Feasible {
			t.Errorf("point %d: %+v, want the action %g, %v and a margin of %g", i, p, want.u, sum, margin)
		}
	}
	if h.starts[0] != nil {
		t.Errorf("the first solve begins at %v", h.starts[0])
	}
	for says, c := range map[string]struct {
		opt     FrontOptions
		initial *Front
		obs     Observation
	}{
		"the initial one has 4 points": {FrontOptions{Weights: weights[:2], LookAhead: 5}, initial, obs}, "of 5 decisions, want 4 of 6": {FrontOptions{Weights: weights, LookAhead: 6}, initial, obs},
		"at most": {FrontOptions{Weights: slices.Repeat(weights[:1], MostPoints+1), LookAhead: 5}, nil, obs}, "point 1": {FrontOptions{Weights: [][]float64{{1, 0}, {1, 1}}, LookAhead: 5}, nil, obs},
	} {
		if _, err := ExactFront(t.Context(), cart, h, c.obs, c.opt, c.initial); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// A loop with a goal keeps what it bounds where it can, at less of the other objective than without the bound; what comes first is at
// its least.
func TestALoopReachesItsGoal(t *testing.T) {
	p := finite{testdomain.NewCart(cartSteps)}
	drive := func(pref domain.Preference) (sum [2]float64) {
		n, err := NewNavigator(ref.New(), testdomain.Map(testdomain.NewCart(cartSteps), 5, false), p, Options{Direct: true, NoiseFree: true})
		if err != nil {
			t.Fatal(err)
		}
		s, c, next, nextC, J := []float64{-0.5, 0.1}, []float64{0}, make([]float64, 2), make([]float64, 1), make([]float64, 2)
		for range cartSteps {
			d, err := n.Decide(s, c, pref)
			if err != nil {
				t.Fatal(err)
			}
			p.Objectives(s, d.U, c, J)
			sum[0], sum[1] = sum[0]+J[0], sum[1]+J[1]
			p.Step(s, c, d.U, next, nextC)
			s, next, c, nextC = next, s, nextC, c
		}
		return sum
	}
	one, other := drive(simplex(1)), drive(simplex(0))
	for j := range 2 {
		lo, hi := min(one[j], other[j]), max(one[j], other[j])
		if hi-lo < 1e-3 {
			t.Fatalf("objective %d does not trade: %v and %v", j, one, other)
		}
		bound := lo + 0.4*(hi-lo)
		got := drive(domain.Preference{Goal: &domain.Goals{Bounds: []domain.Bound{{Objective: j, Most: bound}}}})
		dear := max(one[1-j], other[1-j]) // where the bounded one is least
		if got[j] > bound || !(got[1-j] < dear) {
			t.Errorf("objective %d sums to %g under a bound of %g, from %g to %g, the other to %g, at most %g", j, got[j], bound, lo, hi, got[1-j], dear)
		}
		first := drive(domain.Preference{Goal: &domain.Goals{First: []int{j, 1 - j}}})
		if first[j] > lo+0.05*(hi-lo) {
			t.Errorf("objective %d comes first and sums to %g, from %g to %g", j, first[j], lo, hi)
		}
	}
}

// Weights next to a goal decide alone, and what they spend is the goal's.
func TestAGoalGoesOnNextToWeights(t *testing.T) {
	p := finite{testdomain.NewCart(cartSteps)}
	n, err := NewNavigator(ref.New(), testdomain.Map(testdomain.NewCart(cartSteps), 5, false), p, Options{Direct: true, NoiseFree: true})
	if err != nil {
		t.Fatal(err)
	}
	goal, s, c, spent := &domain.Goals{Bounds: []domain.Bound{{Objective: 1, Most: 3}}}, []float64{-0.5, 0.1}, []float64{0}, 0.0
	for k, pref := range []domain.Preference{{Goal: goal}, {W: []float64{0, 1}, Goal: goal}, {Adaptive: true, Goal: goal}, {Goal: goal}} {
		d, err := n.Decide(s, c, pref)
		if err != nil {
			t.Fatal(err)
		}
		if left := n.batch.loops[0].pursuit.most[1]; math.Abs(left-(3-spent)) > 1e-12 {
			t.Errorf("decision %d: %g of 3 are left, %g are spent", k, left, spent)
		}
		if k == 1 && !slices.Equal(n.batch.loops[0].sigma, pref.W) {
			t.Errorf("decided by %v, want %v", n.batch.loops[0].sigma, pref.W)
		}
		J := make([]float64, 2)
		p.Objectives(s, d.U, c, J)
		spent += J[1]
		next, nextC := make([]float64, 2), make([]float64, 1)
		p.Step(s, c, d.U, next, nextC)
		s, c = next, nextC
	}
}

// A bound stays one where nobody has measured the state that an action was decided in.
func TestABoundOutlivesASensorsFault(t *testing.T) {
	n, err := NewNavigator(ref.New(), testdomain.Map(testdomain.NewCart(cartSteps), 5, false), finite{testdomain.NewCart(cartSteps)}, Options{Direct: true, NoiseFree: true})
	if err != nil {
		t.Fatal(err)
	}
	goal := domain.Preference{Goal: &domain.Goals{Bounds: []domain.Bound{{Objective: 1, Most: 3}}}}
	for _, s := range [][]float64{{math.NaN(), 0.1}, {-0.5, 0.1}, {-0.5, math.Inf(1)}, {-0.5, 0.1}} {
		if _, err := n.Decide(s, []float64{0}, goal); err != nil {
			t.Fatal(err)
		}
		if left := n.batch.loops[0].pursuit.most[1]; !(left <= 3) || math.IsInf(left, 0) {
			t.Errorf("%v: %g of 3 are left", s, left)
		}
	}
}
