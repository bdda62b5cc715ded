package gallery

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/examples/gallery/models"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// cartpoleFronts are those of the bundled map, and an observation.
func cartpoleFronts(t *testing.T) (*batchnav.Fronts, batchnav.Observation) {
	catalogue := gpc.Catalogue{Cases: require.Get(Cases())(t), Models: models.Bundled}
	c := require.Get(catalogue.Find("cartpole"))(t)
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	t.Cleanup(func() { e.Close() })
	f := require.Get(c.Fronts(e, require.Get(c.Setup("direct", ""))(t)))(t)
	obs := require.Get(c.Observe(1, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	return f, obs
}

// No roll-out goes beyond the end of the episode, where a case has no limits.
func TestAFrontEndsWithTheEpisode(t *testing.T) {
	f, obs := cartpoleFronts(t)
	for requested, want := range map[int]int{5: 5, 40: 40, 1000: 40} {
		if front := require.Get(f.Front(t.Context(), obs, batchnav.FrontOptions{Points: 8, LookAhead: requested}))(t); front.LookAhead != want || front.Knee < 0 {
			t.Errorf("of %d decisions: %d, knee %d", requested, front.LookAhead, front.Knee)
		}
	}
}

// A front says where a state is far beyond what the map was trained on, though the roll-outs may keep every limit there.
func TestAFrontSaysThatItIsOffTheMap(t *testing.T) {
	f, obs := cartpoleFronts(t)
	for _, off := range []bool{false, true} {
		if off {
			obs.S[0] += 10
		}
		front := require.Get(f.Front(t.Context(), obs, batchnav.FrontOptions{Points: 8}))(t)
		if front.OffMap != off || front.Knee < 0 {
			t.Errorf("the cart at %v m: off the map %v, knee %d", obs.S[0], front.OffMap, front.Knee)
		}
	}
}

// Where no weights are given, the points of a front lie closer together than those of an even lattice of as many.
func TestAFrontIsDenserWhereItBends(t *testing.T) {
	const points = 120
	catalogue := gpc.Catalogue{Cases: require.Get(Cases())(t), Models: models.Bundled}
	c := require.Get(catalogue.Find("cartpole"))(t)
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	f := require.Get(c.Fronts(e, require.Get(c.Setup("direct", ""))(t)))(t)
	for episode := range 4 {
		obs := require.Get(c.Observe(9001, episode, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
		widest := func(opt batchnav.FrontOptions) (widest float64) {
			front := require.Get(f.Front(t.Context(), obs, opt))(t)
			if len(front.Points) != points {
				t.Errorf("%d points, want %d", len(front.Points), points)
			}
			kept := slices.DeleteFunc(front.Points, func(p batchnav.FrontPoint) bool { return p.Dominated || !p.Feasible })
			slices.SortFunc(kept, func(a, b batchnav.FrontPoint) int { return cmp.Compare(a.W[0], b.W[0]) })
			for i, p := range kept[1:] {
				for j, v := range p.J {
					widest = max(widest, math.Abs(v-kept[i].J[j])/(front.Nadir[j]-front.Ideal[j]))
				}
			}
			return widest
		}
		even, own := widest(batchnav.FrontOptions{Weights: dataset.Lattice(2, points)}), widest(batchnav.FrontOptions{Points: points})
		if !(own < 0.6*even) {
			t.Errorf("episode %d: the widest gap is %.3f of the front, of an even lattice %.3f", episode, own, even)
		}
	}
}

// A loop with a bound of one objective keeps it to the end of the episode, and the other costs about what the best fixed weighting that
// keeps it does. A loop with an objective that counts first has about its least.
func TestLoopsReachGoals(t *testing.T) {
	catalogue := gpc.Catalogue{Cases: require.Get(Cases())(t), Models: models.Bundled}
	c := require.Get(catalogue.Find("cartpole"))(t)
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	setup := require.Get(c.Setup("direct", ""))(t)
	f := require.Get(c.Fronts(e, setup))(t)
	k := require.Get(require.Get(c.Resolve(setup))(t).Controller(e))(t)
	drive := func(obs batchnav.Observation, pref domain.Preference) [2]float64 { return sumsOf(t, c, k, obs, pref) }
	for episode := range 3 {
		obs := require.Get(c.Observe(9001, episode, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
		front := require.Get(f.Front(t.Context(), obs, batchnav.FrontOptions{Points: 200}))(t)
		for j := range 2 {
			most := []float64{math.Inf(1), math.Inf(1)}
			most[j] = 0.7*front.Ideal[j] + 0.3*front.Nadir[j]
			best := front.Points[front.Best(most)].J
			sums := drive(obs, domain.Preference{Goal: &domain.Goals{Bounds: []domain.Bound{{Objective: j, Most: most[j]}}}})
			if !(sums[j] <= most[j]*(1+1e-3)) || !(sums[1-j] <= best[1-j]*1.02) {
				t.Errorf("episode %d: sums of %v with objective %d at most %v, the front's point has %v", episode, sums, j, most[j], best)
			}
			sums = drive(obs, domain.Preference{Goal: &domain.Goals{First: []int{j}}})
			if !(sums[j] <= front.Ideal[j]+0.03*(front.Nadir[j]-front.Ideal[j])) {
				t.Errorf("episode %d: sums of %v where objective %d counts first, whose least is %v", episode, sums, j, front.Ideal[j])
			}
		}
	}
}

// sumsOf are the objectives of an episode that a controller drives without noise.
func sumsOf(t *testing.T, c *gpc.Case, k domain.Controller, obs batchnav.Observation, pref domain.Preference) (sums [2]float64) {
	t.Helper()
	require.OK(t, k.Reset(nil))
	p, spec := c.Definition().Problem, c.Spec()
	s, cx := slices.Clone(obs.S), slices.Clone(obs.C)
	nextS, nextC, u, J := make([]float64, len(s)), make([]float64, len(cx)), make([]float64, spec.ActionSize()), make([]float64, 2)
	for range spec.Steps {
		require.Get(k.Decide(s, cx, pref, u))(t)
		p.Objectives(s, u, cx, J)
		sums[0], sums[1] = sums[0]+J[0], sums[1]+J[1]
		p.Step(s, cx, u, nextS, nextC)
		s, nextS, cx, nextC = nextS, s, nextC, cx
	}
	return sums
}

// A loop that polishes keeps a bound, and what comes first within two hundredths of the front of its least, as the exact front has them, and the
// other objective then costs at most 1 % more than there.
func TestLoopsThatPolishReachGoals(t *testing.T) {
	catalogue := gpc.Catalogue{Cases: require.Get(Cases())(t), Models: models.Bundled}
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	type start struct {
		seed    uint64
		episode int
	}
	for name, starts := range map[string][]start{"cartpole": {{9001, 0}, {9001, 1}}, "cstr": {{9001, 0}, {9001, 1}, {2029, 61}, {2029, 62}}} { // in the last two the front is steep
		c := require.Get(catalogue.Find(name))(t)
		k := require.Get(require.Get(c.Resolve(require.Get(c.Setup("polish", ""))(t)))(t).Controller(e))(t)
		for _, of := range starts {
			obs := require.Get(c.Observe(of.seed, of.episode, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
			exact := func(weights [][]float64) (points []batchnav.FrontPoint) {
				front := require.Get(c.ExactFront(t.Context(), obs, batchnav.FrontOptions{Weights: weights}, nil))(t)
				return slices.DeleteFunc(front.Points, func(p batchnav.FrontPoint) bool { return p.Dominated || !p.Feasible })
			}
			lattice := exact(dataset.Proper(2, 60))
			for j := range 2 {
				along := func(a, b batchnav.FrontPoint) int { return cmp.Compare(a.J[j], b.J[j]) }
				least, most := slices.MinFunc(lattice, along).J, slices.MaxFunc(lattice, along).J
				reach := []float64{math.Abs(most[0] - least[0]), math.Abs(most[1] - least[1])}
				var corner [][]float64
				for ratio := 50.0; ratio < 1e3*reach[1-j]/reach[j]; ratio *= 1.25 {
					w := []float64{1 / (1 + ratio), 1 / (1 + ratio)}
					w[j] *= ratio
					corner = append(corner, w)
				}
				all := append(exact(corner), lattice...)
				slices.SortFunc(all, along)
				bound := least[j] + 0.3*reach[j]
				for _, goal := range []domain.Goals{{Bounds: []domain.Bound{{Objective: j, Most: bound}}}, {First: []int{j, 1 - j}}} {
					sums, most, sum := sumsOf(t, c, k, obs, domain.Preference{Goal: &goal}), bound+1e-3*reach[j], bound
					if len(goal.First) > 0 {
						most, sum = all[0].J[j]+0.02*reach[j], sums[j]
					}
					i := max(1, slices.IndexFunc(all, func(p batchnav.FrontPoint) bool { return p.J[j] > sum }))
					a, b := all[i-1].J, all[i].J
					optimum := a[1-j] + (sum-a[j])/(b[j]-a[j])*(b[1-j]-a[1-j])
					if !(sums[j] <= most) || !(sums[1-j] <= 1.01*optimum) {
						t.Errorf("%s, start %v, %+v: sums of %v, at most %v, the other's optimum %v", name, of, goal, sums, most, optimum)
					}
				}
			}
		}
	}
}

// Where a goal would not be kept as it says, it is refused by name. A goal that weights came after begins anew.
func TestGoalsAreRefusedOrBegin(t *testing.T) {
	catalogue := gpc.Catalogue{Cases: require.Get(Cases())(t), Models: models.Bundled}
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	c := require.Get(catalogue.Find("cartpole"))(t)
	bound := &domain.Goals{Bounds: []domain.Bound{{Objective: 0, Most: 0.5}}}
	drive := func(c *gpc.Case, method string) *gpc.Drive {
		return require.Get(c.Drive(e, require.Get(c.Setup(method, ""))(t), 1))(t)
	}
	for _, of := range []struct {
		c            *gpc.Case
		method, says string
	}{
		{c, "refine-64", "direct, navigator and polish"}, {c, "nmpc", "direct, navigator and polish"}, {c, "polish-ahead", "direct, navigator and polish"},
		{require.Get(c.Delayed(1))(t), "direct", "delay"},
	} {
		if err := drive(of.c, of.method).SetGoal(bound); err == nil || !strings.Contains(err.Error(), of.says) {
			t.Errorf("%s: %v", of.method, err)
		}
	}
	d, obs := drive(c, "direct"), require.Get(c.Observe(9001, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	sigma := func(rows batchnav.Rows) []float64 {
		out := make([]float64, 2)
		require.OK(t, d.Decide(rows, gpc.Driven{Sigma: out}))
		return out
	}
	require.OK(t, d.SetGoal(bound))
	adaptive := batchnav.Rows{S: obs.S, C: obs.C}
	first := sigma(adaptive)
	second := sigma(adaptive)
	sigma(batchnav.Rows{S: obs.S, C: obs.C, W: []float64{0.5, 0.5}})
	if again := sigma(adaptive); slices.Equal(first, second) || !slices.Equal(first, again) {
		t.Errorf("weights %v, behind a decision %v, begun anew %v", first, second, again)
	}
}

// Under each weighting the exact front costs no more than the map's, keeps every limit, and is what the exact solver finds alone.
func TestTheExactFrontIsBelow(t *testing.T) {
	catalogue := gpc.Catalogue{Cases: require.Get(Cases())(t), Models: models.Bundled}
	c := require.Get(catalogue.Find("cartpole"))(t)
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	obs := require.Get(c.Observe(9001, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	exact := require.Get(c.ExactFront(t.Context(), obs, batchnav.FrontOptions{Points: 20}, nil))(t)
	opt := batchnav.FrontOptions{LookAhead: exact.LookAhead, Plans: true}
	for _, p := range exact.Points {
		opt.Weights = append(opt.Weights, p.W)
	}
	own := require.Get(require.Get(c.Fronts(e, require.Get(c.Setup("direct", ""))(t)))(t).Front(t.Context(), obs, opt))(t)
	if _, err := c.ExactFront(t.Context(), obs, batchnav.FrontOptions{Points: 19}, own); err == nil || !strings.Contains(err.Error(), "want 19 of 40") {
		t.Errorf("a known front of other weightings: %v", err)
	}
	opt.Plans = false
	known := require.Get(c.ExactFront(t.Context(), obs, opt, own))(t)
	horizon := c.Definition().Solver.(domain.Receding).NewHorizon(0)
	plan := make([]float64, exact.LookAhead*c.Spec().ActionSize())
	cost := func(w, j []float64) float64 { return w[0]*j[0] + w[1]*j[1] }
	var fronts [2][][]closedloop.Number
	for i, p := range exact.Points {
		horizon.Begin(nil)
		alone, solved, err := horizon.Solve(obs.S, obs.C, domain.Preference{W: p.W}, plan)
		require.OK(t, err)
		best, direct := cost(p.W, p.J), cost(p.W, own.Points[i].J)
		if better := cost(p.W, known.Points[i].J); !(better <= best*(1+1e-6)) {
			t.Errorf("weights %v: %v from the map's plan too, %v without", p.W, better, best)
		}
		if !p.Feasible || !(best < direct*(1+1e-9)) || solved && !(best < alone*(1+1e-6)) || p.W[0] < 0.01 {
			t.Errorf("weights %v: %v with margin %v, alone %v, the map %v", p.W, best, p.Margin, alone, direct)
		}
		for k, j := range [][]float64{own.Points[i].J, p.J} {
			fronts[k] = append(fronts[k], []closedloop.Number{closedloop.Number(j[0]), closedloop.Number(j[1])})
		}
	}
	if ratio := closedloop.HypervolumeRatio(fronts[0], fronts[1]); len(exact.Points) != 20 || !(ratio > 0.98 && ratio < 1.005) {
		t.Errorf("%d points, the map has %v of their hypervolume", len(exact.Points), ratio)
	}
}

// A polished point costs no more under its weights than the map's and breaks no limit that this keeps. The front is as good as the exact one
// where the map's is not, on any number of threads.
func TestAPolishedFrontIsBetter(t *testing.T) {
	catalogue := gpc.Catalogue{Cases: require.Get(Cases())(t), Models: models.Bundled}
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	c := require.Get(catalogue.Find("cstr"))(t)
	f := require.Get(c.Fronts(e, require.Get(c.Setup("direct", ""))(t)))(t)
	obs := require.Get(c.Observe(4711, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	front := func(polish, threads int) *batchnav.Front {
		return require.Get(f.Front(t.Context(), obs, batchnav.FrontOptions{Weights: dataset.Proper(2, 12), Polish: polish, Threads: threads}))(t)
	}
	plain, polished := front(0, 1), front(5, 1)
	for i, p := range polished.Points {
		own := plain.Points[i]
		if own.Feasible && (!p.Feasible || !(p.W[0]*p.J[0]+p.W[1]*p.J[1] <= p.W[0]*own.J[0]+p.W[1]*own.J[1])) {
			t.Errorf("weights %v: %v feasible %v, the map %v", p.W, p.J, p.Feasible, own.J)
		}
	}
	for i, p := range front(5, 2).Points {
		if !slices.Equal(p.J, polished.Points[i].J) {
			t.Errorf("weights %v: %v on two threads, %v on one", p.W, p.J, polished.Points[i].J)
		}
	}
	exact := require.Get(c.ExactFront(t.Context(), obs, batchnav.FrontOptions{Weights: dataset.Proper(2, 12)}, nil))(t)
	if without, with := gpc.HypervolumeRatio(plain, exact), gpc.HypervolumeRatio(polished, exact); !(without < 0.9 && with > 0.98) {
		t.Errorf("%v of the exact front's hypervolume without polish, %v with", without, with)
	}
}

// Unless something else is asked for, a map that was compiled for a method that polishes has a polished front, of any number of points, and another
// map's stays as it is.
func TestAFrontIsPolishedWhereItsMapIs(t *testing.T) {
	catalogue := gpc.Catalogue{Cases: require.Get(Cases())(t), Models: models.Bundled}
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	for _, name := range []string{"cstr", "cartpole"} {
		c := require.Get(catalogue.Find(name))(t)
		f := require.Get(c.Fronts(e, require.Get(c.Setup("direct", ""))(t)))(t)
		obs := require.Get(c.Observe(4711, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
		front := require.Get(f.Front(t.Context(), obs, batchnav.FrontOptions{Points: 300, Polish: -1}))(t)
		if name == "cartpole" {
			plain := require.Get(f.Front(t.Context(), obs, batchnav.FrontOptions{Points: 300}))(t)
			same := slices.EqualFunc(front.Points, plain.Points, func(a, b batchnav.FrontPoint) bool { return slices.Equal(a.U, b.U) && slices.Equal(a.J, b.J) })
			if front.Polished != 0 || !same {
				t.Errorf("%s: %d points are polished", name, front.Polished)
			}
			continue
		}
		exact := require.Get(c.ExactFront(t.Context(), obs, batchnav.FrontOptions{}, nil))(t)
		standing := 0
		for _, p := range front.Points {
			if p.Feasible && !p.Dominated {
				standing++
			}
		}
		if ratio := gpc.HypervolumeRatio(front, exact); front.Polished < 270 || standing < 270 || !(ratio > 0.995) {
			t.Errorf("%s: %d of %d points are polished, %d stand, with %v of the exact front's hypervolume", name, front.Polished, len(front.Points), standing, ratio)
		}
	}
}

// Where a pole can only just be caught the map loses it under many weightings, and says so. Polished, every point keeps it. An exact point that lets it
// fall is none that keeps the limits.
func TestAPoleThatCanOnlyJustBeCaught(t *testing.T) {
	catalogue := gpc.Catalogue{Cases: require.Get(Cases())(t), Models: models.Bundled}
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	c := require.Get(catalogue.Find("cartpole-track"))(t)
	f := require.Get(c.Fronts(e, require.Get(c.Setup("direct", ""))(t)))(t)
	obs := require.Get(c.Observe(2029, 58, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	feasible := func(front *batchnav.Front) (n int) {
		for _, p := range front.Points {
			if p.Feasible {
				n++
			}
		}
		return n
	}
	opt := batchnav.FrontOptions{Weights: dataset.Proper(2, 10)}
	exact := require.Get(c.ExactFront(t.Context(), obs, opt, nil))(t)
	plain := require.Get(f.Front(t.Context(), obs, opt))(t)
	opt.Polish = -1
	polished := require.Get(f.Front(t.Context(), obs, opt))(t)
	if feasible(plain) > 6 || feasible(polished) != 10 || exact.Points[0].J[0] > 100 == exact.Points[0].Feasible {
		t.Errorf("%d and polished %d of 10 keep the limits, the first exact one has %+v", feasible(plain), feasible(polished), exact.Points[0])
	}
}

// Within a bound of the energy a long polish of a day's heating ends at the optimum, which the weighting has whose energy the bound is.
func TestALongPolishEndsWithinItsBound(t *testing.T) {
	catalogue := gpc.Catalogue{Cases: require.Get(Cases())(t), Models: models.Bundled}
	c := require.Get(catalogue.Find("hvac"))(t)
	obs := require.Get(c.Observe(2029, 21, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	optimum := func(w float64) batchnav.FrontPoint {
		return require.Get(c.ExactFront(t.Context(), obs, batchnav.FrontOptions{Weights: [][]float64{{w, 1 - w}}}, nil))(t).Points[0]
	}
	horizon, plan := c.Definition().Solver.(domain.Receding).NewHorizon(0), make([]float64, c.Spec().Steps)
	_, solved, err := horizon.Solve(obs.S, obs.C, domain.Preference{W: []float64{0.01, 0.99}}, plan)
	if err != nil || !solved {
		t.Fatal(solved, err)
	}
	best, p := optimum(0.002).J, c.Definition().Problem
	bounds := []domain.Bound{{Objective: 1, Most: best[1], Unit: 3}}
	domain.AbilitiesOfProblem(p).Polish(obs.S, obs.C, domain.Preference{W: []float64{0.9999, 0.0001}}, bounds, plan, 300)
	s, cx, sums, J := slices.Clone(obs.S), slices.Clone(obs.C), [2]float64{}, make([]float64, 2)
	nextS, nextC := slices.Clone(s), slices.Clone(cx)
	for h := range plan {
		p.Objectives(s, plan[h:h+1], cx, J)
		sums[0], sums[1] = sums[0]+J[0], sums[1]+J[1]
		p.Step(s, cx, plan[h:h+1], nextS, nextC)
		s, nextS, cx, nextC = nextS, s, nextC, cx
	}
	if !(sums[0] <= best[0]*1.0005) || !(sums[1] <= best[1]*(1+1e-6)) {
		t.Errorf("sums of %v, the optimum has %v", sums, best)
	}
}
