package opf

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/acopf/laneflow"
	"github.com/gpc-engine/gpc/grid/secure"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// secureAt is opf-secure at a level of its loads within the ramp of a secure dispatch at another: state and
// context before the dispatch, and the exact secure optimum.
func secureAt(t testing.TB, y *System, before, level float64) (s, c []float64, best *secure.Result) {
	t.Helper()
	at := func(level float64, previous []float64, start *secure.Result) *secure.Result {
		pd, qd := y.Network.Loads(level)
		r := require.Get(y.security.solve(context.Background(), y.problem(pd, qd, nil, previous, totalWeights, acopf.Tightening{}, nil), start))(t)
		if r.Status != secure.Secure {
			t.Fatalf("level %v: %s", level, r.Reason)
		}
		return r
	}
	first := at(before, nil, nil)
	best = at(level, first.Pg, first)
	w := newWorkspace(y)
	s, c = make([]float64, 2*y.layout.buses), make([]float64, y.layout.context)
	copy(s, first.Vm)
	copy(s[y.layout.buses:], first.Va)
	pd, qd := y.Network.Loads(level)
	y.Context(c, pd, qd, first.Pg, nil)
	u, result := make([]float64, 2*y.layout.gens), optimum(first)
	y.setPoints(&result, u)
	if !w.dispatch(s, c, u) {
		t.Fatal("no power flow before the dispatch")
	}
	w.state(s)
	return s, c, best
}

// after is where a power flow after an outage has ended at the dispatch of a workspace.
func (w *workspace) after(i int) *laneflow.Contingency {
	o := w.outages
	w.solvedGroup(o.seat[i] / o.lanes()).Read(o.seat[i] % o.lanes())
	return o.all[i]
}

// The margins after outages, of branches and of units, are those that package secure finds in power flows of
// its own, at the optimum and at set-points away from it.
func TestMarginsAfterOutagesAreThoseOfTheCheck(t *testing.T) {
	c := require.Get(SecureFromFile("opf-secure:case39.m,outages=all"))(t)
	y := c.Problem.(*System)
	plain := newTestSystem(t, "case39", Options{})
	results := make([]acopf.Result, 1)
	pd, qd := y.Network.Loads(0.8)
	require.OK(t, plain.solve(context.Background(), []acopf.Problem{plain.problem(pd, qd, nil, nil, totalWeights, acopf.Tightening{}, nil)}, results))
	s, ctx, u := make([]float64, 2*y.layout.buses), make([]float64, y.layout.context), make([]float64, 2*y.layout.gens)
	copy(s, results[0].Vm)
	copy(s[y.layout.buses:], results[0].Va)
	y.Context(ctx, pd, qd, results[0].Pg, nil)
	rng := rand.New(rand.NewPCG(3, 4))
	checker := require.Get(y.security.checker())(t)
	held, references := 0, 0
	for range 4 {
		y.setPoints(&results[0], u)
		for i := range u {
			u[i] += 0.01 * rng.NormFloat64()
		}
		y.Admit(s, ctx, u)
		w := newWorkspace(y)
		if !w.dispatch(s, ctx, u) {
			t.Fatal("no power flow")
		}
		w.checkOutages(nil, math.Inf(1))
		checks := require.Get(checker.Check(context.Background(), pd, qd, w.solution.Pg, w.solution.Vm, w.solution.Va))(t)
		for i, check := range checks {
			o, margin := w.after(i), w.margin[y.layout.marginAfter+i]
			if check.Solved != o.Solved {
				t.Errorf("after %v: solved %v, the check says %v %s", check.Outage, o.Solved, check.Solved, check.Reason)
			} else if check.Solved && math.Abs(check.Margin-margin) > 1e-5 {
				t.Errorf("after %v: margin %v, the check says %v", check.Outage, margin, check.Margin)
			}
			for b, side := range o.AtLimit {
				if side != 0 {
					held++
				}
				if side != 0 && b == y.Network.Slack {
					references++
				}
			}
		}
	}
	if held == 0 || references == 0 {
		t.Errorf("%d buses at a limit, %d times the reference: the comparison has none", held, references)
	}
}

// Rows of limits after an outage are the derivatives of what they limit, what units share after the outage and
// what the reference's unit gives before it included.
func TestRowsAfterOutagesAreDerivatives(t *testing.T) {
	file := filepath.Join(t.TempDir(), "outages")
	require.OK(t, os.WriteFile(file, []byte("branch 1\nbranch 23\nbranch 35\nunit 2\nunit 6\nunit 10\n"), 0o600))
	c := require.Get(SecureFromFile("opf-secure:case39.m,outages=" + file))(t)
	y := c.Problem.(*System)
	s, ctx, u := dispatchNear(t, y, 0.93)
	w := newWorkspace(y)
	rows := 0
	for i := range y.security.Outages {
		if !w.dispatch(s, ctx, u) {
			t.Fatal("no power flow")
		}
		w.checkOutages(nil, math.Inf(1))
		p := w.projection
		p.watch = make([]bool, len(y.security.Outages))
		p.watch[i] = true
		w.linear.LineariseAt(w.solver)
		p.program.metric = y.metric()
		p.program.reset()
		w.addOutages()
		limits := append([]limit(nil), p.nearby...)
		if len(p.program.bound) != len(limits) {
			t.Fatalf("%d rows for %d limits", len(p.program.bound), len(limits))
		}
		value := func() (out []float64, sides string) {
			if !w.dispatch(s, ctx, u) {
				t.Fatal("no power flow")
			}
			w.checkOutages(p.watch, math.Inf(1))
			o := w.after(i)
			for _, l := range limits {
				rated := slices.Index(y.layout.rated, l.index)
				switch l.kind {
				case magnitude:
					out = append(out, o.Vm[l.index])
				case flowFrom:
					out = append(out, o.From[rated])
				default:
					out = append(out, o.To[rated])
				}
			}
			return out, fmt.Sprint(o.AtLimit, o.Participating)
		}
		for j, at := range p.control {
			const step = 2e-3
			keep := u[at]
			u[at] = keep + step
			up, above := value()
			u[at] = keep - step
			down, below := value()
			u[at] = keep
			if above != below {
				continue // a corner lies between
			}
			for k, l := range limits {
				rows++
				want := l.sign * (up[k] - down[k]) / (2 * step)
				if got := p.program.row(k)[j]; math.Abs(got-want) > 4e-3*(1+math.Abs(want)) {
					t.Errorf("after %v, limit %v at %d by control %d: %v, differences say %v", y.security.Outages[i], l.kind, l.index, at, got, want)
				}
			}
		}
	}
	if rows < 50 {
		t.Errorf("%d derivatives compared, want more", rows)
	}
}

// dispatchNear is a plain optimum at a load level, and its state and context.
func dispatchNear(t *testing.T, y *System, level float64) (s, c, u []float64) {
	t.Helper()
	plain := newTestSystem(t, "case39", Options{})
	results := make([]acopf.Result, 1)
	pd, qd := y.Network.Loads(level)
	require.OK(t, plain.solve(context.Background(), []acopf.Problem{plain.problem(pd, qd, nil, nil, totalWeights, acopf.Tightening{}, nil)}, results))
	s, c, u = make([]float64, 2*y.layout.buses), make([]float64, y.layout.context), make([]float64, 2*y.layout.gens)
	copy(s, results[0].Vm)
	copy(s[y.layout.buses:], results[0].Va)
	y.Context(c, pd, qd, results[0].Pg, nil)
	y.setPoints(&results[0], u)
	return s, c, u
}

// Neither a check of the case nor a projection solves exactly: what that takes is found by Prepare, once. A projection that
// was not prepared looks at every outage in every round, and keeps the limits all the same.
func TestAProjectionSolvesNothing(t *testing.T) {
	def := Secure()
	y := def.Problem.(*System)
	answers, asked := y.answers, 0
	y.answers = func() []domain.Sample { asked++; return answers() }
	require.OK(t, def.Validate())
	s, c, _ := secureAt(t, y, 0.885, 0.89)
	require.Get(y.security.flows())(t)
	checker, tight := y.security.checker, y.security.tight
	y.security.checker = func() (*secure.Solver, error) { t.Error("a projection asks for the limits' solver"); return checker() }
	y.security.tight = func() (*secure.Solver, error) { asked++; return tight() }
	_, _, u := dispatchNear(t, y, 0.89)
	unprepared := slices.Clone(u)
	if !y.Project(s, c, unprepared) || asked != 0 {
		t.Errorf("the projection asked for %d exact dispatches", asked)
	}
	y.security.checker = checker
	domain.Prepare(y)
	domain.Prepare(y)
	if found := asked; found == 0 || !slices.Contains(y.likely(), true) || !slices.Contains(y.likely(), false) || !y.Project(s, c, u) || asked != found {
		t.Errorf("prepared by %d exact dispatches, then %d: likely outages are %v", found, asked, y.likely())
	}
}

// The plain optimum breaks limits after outages; its projection breaks none, by power flows of package secure,
// and costs less above the exact secure optimum than a thousandth.
func TestProjectionSurvivesOutages(t *testing.T) {
	y := Secure().Problem.(*System)
	s, c, best := secureAt(t, y, 0.885, 0.89)
	_, _, u := dispatchNear(t, y, 0.89)
	y.clip(c, u)
	w := newWorkspace(y)
	if !w.dispatch(s, c, u) || w.smallest() > -10*MarginTolerance {
		t.Fatalf("the plain optimum's least margin is %v: nothing to project", w.smallest())
	}
	if !y.Project(s, c, u) {
		t.Fatal("the projection does not keep every limit")
	}
	J, m := make([]float64, objectives), make([]float64, y.layout.margins)
	y.Score(s, c, u, J, m)
	if !w.dispatch(s, c, u) {
		t.Fatal("no power flow")
	}
	margins := make([]float64, len(y.security.Outages))
	require.OK(t, y.security.judge(w, margins))
	for i, v := range margins {
		if v < -MarginTolerance {
			t.Errorf("after %v a limit breaks by %v", y.security.Outages[i], -v)
		}
	}
	if cost, least := stageCost(J, nil), stageCost(best.J[:], nil); cost < least*(1-1e-5) || cost > least*1.001 {
		t.Errorf("the projection costs %v, the secure optimum %v", cost, least)
	}
}

// A step towards the least cost begins at the last dispatch and ends, from loads that moved a little, nearer to the
// exact secure optimum than the last dispatch projected; no outage breaks a limit there.
func TestStepTowardsTheLeastCost(t *testing.T) {
	y := Secure().Problem.(*System)
	s, c, best := secureAt(t, y, 0.885, 0.89)
	least := stageCost(best.J[:], nil)
	hold, step := &holdController{system: y}, newStepController(y)
	above := map[domain.Controller]float64{}
	for _, k := range []domain.Controller{hold, step} {
		u, J, m := make([]float64, 2*y.layout.gens), make([]float64, objectives), make([]float64, y.layout.margins)
		if d, err := k.Decide(s, c, adaptive.Preference, u); err != nil || !d.Solved() {
			t.Fatalf("%T does not keep every limit", k)
		}
		y.Score(s, c, u, J, m)
		above[k] = stageCost(J, nil)/least - 1
		w := newWorkspace(y)
		if !w.dispatch(s, c, u) {
			t.Fatal("no power flow")
		}
		margins := make([]float64, len(y.security.Outages))
		require.OK(t, y.security.judge(w, margins))
		if low := slices.Min(margins); low < -MarginTolerance {
			t.Errorf("%T: a limit breaks by %v after an outage", k, -low)
		}
	}
	if above[step] > above[hold]/2 || above[step] > 2e-4 || above[step] < -1e-5 {
		t.Errorf("above the optimum by %v, the last dispatch by %v", above[step], above[hold])
	}
}

// Where steps and projection end beyond a limit, the decision is the exact secure optimum.
func TestStepThatEndsBeyondALimitIsSolvedExactly(t *testing.T) {
	y := Secure().Problem.(*System)
	s, c, best := secureAt(t, y, 0.965, 0.97)
	rng := rand.New(rand.NewPCG(3, 5))
	spec, failed := y.Spec(), 0
	for range 10 {
		k, w := newStepController(y), newWorkspace(y)
		u := make([]float64, 2*y.layout.gens)
		for i, a := range spec.Action {
			u[i] = a.Lo + (a.Hi-a.Lo)*rng.Float64()
		}
		k.last = slices.Clone(u)
		y.clip(c, u)
		if y.projectSecure(w, s, c, u, &descent{box: 1, weights: [objectives]float64{1, 1, 1}}) {
			continue
		}
		failed++
		if d := require.Get(k.Decide(s, c, adaptive.Preference, u))(t); !d.Solved() {
			t.Fatal("no dispatch")
		}
		J, m := make([]float64, objectives), make([]float64, y.layout.margins)
		y.Score(s, c, u, J, m)
		if above := stageCost(J, nil)/stageCost(best.J[:], nil) - 1; !y.spec.Keeps(slices.Min(m)) || math.Abs(above) > 1e-5 {
			t.Errorf("a margin of %v, %v above the optimum", slices.Min(m), above)
		}
	}
	if failed == 0 {
		t.Error("every projection kept the limits")
	}
}

// Trajectories of a large network walk: each step begins at loads near the last step's and at a disturbed dispatch,
// and its target keeps every limit.
func TestTrajectoriesOfALargeSecureDispatchWalk(t *testing.T) {
	if testing.Short() {
		t.Skip("solves a network of 118 buses from nothing")
	}
	c := require.Get(SecureFromFile("opf-secure:pglib_opf_case118_ieee.m"))(t)
	v := c.Solver.(*Solver)
	y := v.system
	p := make([]float64, len(v.Parameters()))
	for i := range p {
		p[i] = 1
	}
	p[0] = 0.88
	prefs := []domain.Preference{adaptive.Preference, {W: []float64{0.2, 0.2, 0.6}}}
	all, errs := v.SolveAll(3, p, prefs, domain.WeightedSum, []uint64{3, 3})
	for i, most := range []int{walkSteps, walkFixed} {
		samples := all[i]
		if errs[i] != nil || len(samples) < 2 || len(samples) > most {
			t.Fatalf("%d samples of at most %d: %v", len(samples), most, errs[i])
		}
		for k, sample := range samples {
			if low := slices.Min(sample.Margins); !y.spec.Keeps(low) || sample.Step != k {
				t.Errorf("sample %d, step %d: a margin of %v", k, sample.Step, low)
			}
			if k == 0 {
				continue
			}
			last, moved := samples[k-1], 0.0
			for j := range y.layout.previous {
				moved = max(moved, math.Abs(sample.C[j]-last.C[j])/(math.Abs(last.C[j])+1e-9))
			}
			if moved == 0 || moved > 0.05 {
				t.Errorf("sample %d: a load moves by %v", k, moved)
			}
			if slices.Equal(sample.C[y.layout.previous:][:y.layout.gens], last.U[:y.layout.gens]) {
				t.Errorf("sample %d begins at the last dispatch as it was", k)
			}
		}
	}
}

// What an outage file or a case's name says wrong is named.
func TestSecureCasesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for name, want := range map[string]string{
		"opf-secure:case39.m,emergency=0.5":                                      "emergency=1 to 100",
		"opf-secure:case39.m,band=2":                                             "band=0 to 1 pu",
		"opf-secure:case39.m,outage=all":                                         "want outages=",
		"opf-secure:nothing.m":                                                   "nothing.m",
		"opf-secure:case39.m,outages=" + filepath.Join(dir, "absent"):            "want branches, units, all or a file",
		"opf-secure:case39.m,outages=" + file("empty", "# none\n"):               "no outage is listed",
		"opf-secure:case39.m,outages=" + file("far", "branch 1\nbranch 999\n"):   "line 2: no branch in service is row 999",
		"opf-secure:case39.m,outages=" + file("other", "bus 3\n"):                "want branch ROW or unit ROW",
		"opf-secure:case39.m,outages=" + file("island", "branch 20 # to unit\n"): "cuts off a part of the network",
	} {
		if _, err := SecureFromFile(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	c := require.Get(SecureFromFile("opf-secure:case39.m,emergency=1.2,outages=" + file("two", "branch 35\nunit 2\n")))(t)
	if y := c.Problem.(*System); len(y.security.Outages) != 2 || y.security.Emergency != 1.2 {
		t.Errorf("%+v", y.security.Security)
	}
	if _, err := NewSystem("x", "", Secure().Problem.(*System).Network, Options{Uncertain: true, Security: &Security{}}); err == nil {
		t.Error("uncertain branches and outages at once are taken")
	}
}

// Along a trajectory, power flows after outages that begin where the last decision's ended come to the same margins as
// those that begin at the voltages before the outage, in fewer Newton steps.
func TestFlowsAfterOutagesFollow(t *testing.T) {
	y := Secure().Problem.(*System)
	follows, afresh := newWorkspace(y), newWorkspace(y)
	follows.outagesHere().follow(true)
	episode := require.Get(Secure().Plant.Episode(5, 0, adaptive))(t)
	s, c, u := make([]float64, 2*y.layout.buses), make([]float64, y.layout.context), make([]float64, 2*y.layout.gens)
	k := &secureController{system: y}
	require.OK(t, k.Reset(episode))
	for step := range 8 {
		episode.Observe(s, c)
		require.Get(k.Decide(s, c, adaptive.Preference, u))(t)
		for _, w := range []*workspace{follows, afresh} {
			if !w.dispatch(s, c, u) {
				t.Fatal("no power flow")
			}
			w.checkOutages(nil, math.Inf(1))
		}
		for i, m := range follows.margin {
			if math.Abs(m-afresh.margin[i]) > MarginTolerance/2 {
				t.Errorf("step %d: %s is %g, afresh %g", step, y.spec.Margins[i].Name, m, afresh.margin[i])
			}
		}
		require.Get(episode.Apply(u))(t)
	}
	if a, b := follows.outages.flows.Steps, afresh.outages.flows.Steps; 4*a > 3*b {
		t.Errorf("%d Newton steps, afresh %d", a, b)
	}
}

// Margins that a decision by linear steps has not solved to the end are those of outages with the room that it watches
// for; the others are exact. Outages that are watched share groups.
func TestAmpleMarginsAreAmple(t *testing.T) {
	y := Secure().Problem.(*System)
	episode := require.Get(Secure().Plant.Episode(6, 0, adaptive))(t)
	s, c, u := make([]float64, 2*y.layout.buses), make([]float64, y.layout.context), make([]float64, 2*y.layout.gens)
	k, w := newStepController(y), newWorkspace(y)
	require.OK(t, k.Reset(episode))
	rough := 0
	for step := range 12 {
		episode.Observe(s, c)
		require.Get(k.Decide(s, c, adaptive.Preference, u))(t)
		if !w.dispatch(s, c, u) {
			t.Fatal("no power flow")
		}
		w.checkOutages(nil, math.Inf(1))
		o := k.work.outages
		for i, want := range w.margin[y.layout.marginAfter:] {
			switch m := k.work.margin[y.layout.marginAfter+i]; {
			case o.knowledge[i] == unknown:
				t.Errorf("step %d: outage %d is not checked", step, i)
			case m > y.security.reach && want < y.security.reach, m < y.security.reach && math.Abs(m-want) > MarginTolerance/2:
				t.Errorf("step %d, outage %d: a margin of %g, to the end %g", step, i, m, want)
			case m != want:
				rough++
			}
			if o.outage[o.seat[i]] != i {
				t.Fatalf("outage %d is not where its seat is", i)
			}
		}
		require.Get(episode.Apply(u))(t)
	}
	if rough == 0 {
		t.Error("every margin was solved to the end")
	}
	watch := make([]bool, len(y.security.Outages))
	for _, i := range []int{0, 9, 20, 33} {
		watch[i] = true
	}
	k.work.outages.gather(watch)
	for i, is := range watch {
		if lanes := k.work.outages.lanes(); is && k.work.outages.seat[i] >= (4+lanes-1)/lanes*lanes {
			t.Errorf("watched outage %d is not in the first groups", i)
		}
	}
}

// A branch of a small rating does not make every outage one that is near a limit.
func TestReachOfSmallRatings(t *testing.T) {
	n := *Secure().Problem.(*System).Network
	if got := reachOf(&n, 1.3); got != watchReach {
		t.Errorf("reach %g, want %g where all ratings are large", got, watchReach)
	}
	n.Rate = slices.Clone(n.Rate)
	n.Rate[4], n.Rate[5] = 0.02, math.Inf(1)
	for emergency, want := range map[float64]float64{1.3: 0.3 * 0.02, 1: leastWatchReach} {
		if got := reachOf(&n, emergency); math.Abs(got-want) > 1e-12 {
			t.Errorf("emergency ratings × %g: reach %g, want %g", emergency, got, want)
		}
	}
}

// An outage that is watched stays so where a step has left it room: the next step may take that up.
func TestOutagesStayWatched(t *testing.T) {
	y := Secure().Problem.(*System)
	s, c, u := dispatchNear(t, y, 0.8)
	w := newWorkspace(y)
	if !w.dispatch(s, c, u) || !w.linear.LineariseAt(w.solver) {
		t.Fatal("no power flow")
	}
	p := w.projection
	p.watch = make([]bool, len(y.security.Outages))
	free := 0
	w.checkOutages(nil, math.Inf(1))
	for i := range p.watch {
		p.watch[i] = true
		if w.margin[y.layout.marginAfter+i] > watchReach {
			free++
		}
	}
	p.program.metric = y.metric()
	p.program.reset()
	w.addOutages()
	if free == 0 || slices.Contains(p.watch, false) {
		t.Errorf("of %d outages with room some are not watched", free)
	}
}

// A projection whose dispatch was scored before it, with all outages, comes to what it comes to in a new workspace.
func TestProjectionOfAScoredDispatch(t *testing.T) {
	y := Secure().Problem.(*System)
	s, c, _ := secureAt(t, y, 0.885, 0.89)
	_, _, u := dispatchNear(t, y, 0.89)
	y.clip(c, u)
	fresh, scored := slices.Clone(u), slices.Clone(u)
	if !y.projectSecure(newWorkspace(y), s, c, fresh, nil) {
		t.Fatal("the projection does not keep every limit")
	}
	w := newWorkspace(y)
	if !w.dispatch(s, c, u) {
		t.Fatal("no power flow")
	}
	w.smallest()
	w.solvedGroup(0)
	if !y.projectSecure(w, s, c, scored, nil) {
		t.Fatal("the projection of a scored dispatch does not keep every limit")
	}
	for i, v := range fresh {
		if math.Abs(v-scored[i]) > 1e-7 {
			t.Errorf("set-point %d is %g, in a new workspace %g", i, scored[i], v)
		}
	}
}

// In a metric where some variables count more, W is smaller by that in them, once for each of two.
func TestHeavierMetric(t *testing.T) {
	y := newTestSystem(t, "case30", Options{})
	m, from := y.metric(), y.layout.gens-1
	n := len(m.diagonal)
	got, want := m.heavier(from, 100).dense(), m.dense()
	if m.rank == 0 || from == 0 || n <= from {
		t.Fatalf("a metric of rank %d, of %d variables", m.rank, n)
	}
	for i := range n {
		for j := range n {
			by := 1.0
			for _, k := range []int{i, j} {
				if k >= from {
					by /= 10
				}
			}
			if d := math.Abs(got[i*n+j] - by*want[i*n+j]); d > 1e-12*math.Abs(want[i*n+i]) {
				t.Errorf("%d, %d: %g, want %g", i, j, got[i*n+j], by*want[i*n+j])
			}
		}
	}
}

// The box of a descent doubles where its steps gain what the linear model says and the box held them back, is halved
// where they do not, and stays where they are free.
func TestBoxOfADescent(t *testing.T) {
	for _, of := range []struct {
		promised, gained, box, want float64
		bounded                     bool
	}{
		{10, 9, 2, 4, true}, {10, 9, 2, 2, false}, {10, 4, 2, 2, true}, {10, 1, 2, 1, true}, {10, -3, 4, 2, false},
		{10, 1, 1, 1, true}, {10, 10, widestBox, widestBox, true}, {-10, -10, 1, 2, true}, {0, -0.005, 2, 2, false},
	} {
		d := descent{box: of.box, value: 1000, promised: of.promised, bounded: of.bounded}
		if d.end(d.value-of.gained, nil); d.box != of.want {
			t.Errorf("promised %v, gained %v, bounded %v: from %v to %v, want %v", of.promised, of.gained, of.bounded, of.box, d.box, of.want)
		}
	}
}

// Where outages have no power flow at loads a little higher, those of a decision by linear steps are solved to their end.
func TestLadenNetworksAreSolvedToTheEnd(t *testing.T) {
	y := Secure().Problem.(*System)
	if y.nearLoadability() {
		t.Error("laden with room for a seventh more load")
	}
	s, c, u := dispatchNear(t, y, 0.8)
	for _, laden := range []bool{false, true} {
		y.nearLoadability = func() bool { return laden }
		w := newWorkspace(y)
		if !y.projectSecure(w, s, c, slices.Clone(u), &descent{box: 1, weights: [objectives]float64{1, 1, 1}}) {
			t.Fatal("no secure dispatch")
		}
		if ample := slices.Contains(w.outages.knowledge, ample); ample == laden || slices.Contains(w.outages.knowledge, unknown) {
			t.Errorf("laden %t: margins are known as %v", laden, w.outages.knowledge)
		}
	}
	y.answers = func() []domain.Sample {
		s, c, u := dispatchNear(t, y, 1.14)
		return []domain.Sample{{S: s, C: c, U: u}}
	}
	if !y.isLaden() {
		t.Error("not laden near all that the units can give")
	}
}
