package closedloop

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// tallied sums up episodes of a problem with the margins of walls.
func tallyOf(episodes ...*EpisodeRecord) *Result {
	a := newTally(walls, 0)
	for i, e := range episodes {
		e.Episode = i
		a.add(e)
	}
	return a.result(&Header{Guard: &domain.Guard{}})
}

// Every count of a result is of the decisions and the episodes that it names.
func TestATallyCountsWhatItNames(t *testing.T) {
	yes, no := true, false
	r := tallyOf(
		&EpisodeRecord{
			End: End{Safe: true, Completed: true, CollisionFree: true, Cost: 12, OracleCost: 10, Excluded: 2, GoalReached: &yes, AtEnd: &no, Margins: Vector{1, 2, 3}, BestKnown: true, NoWay: true},
			Lines: []Line{
				{Margin: 1, Latency: 10, Displacement: 2, Times: Vector{1, 2, 3}, Gap: 0.25, Residual: 1},
				{Margin: 3, Latency: 20, Displacement: Number(math.NaN()), Fallback: uint32(domain.FallbackMethod), Prepare: 5},
			},
		},
		&EpisodeRecord{
			End: End{Completed: true, Cost: 30, OracleCost: 20, Failed: true, Cause: "wind", GoalReached: &no, AtEnd: &yes, Margins: Vector{3, -4, 5}, NoWay: true},
			Lines: []Line{
				{Margin: -4, Latency: 40, Late: true, Displacement: 4, Times: Vector{3, 4, 5}, Fallback: uint32(domain.FallbackMargin)},
				{Margin: -0.25, Latency: 0, Late: true, Displacement: 0, Fallback: uint32(domain.FallbackConservative)},
			},
		},
		&EpisodeRecord{End: End{Failure: "reset: no", Cause: "unread", OracleCost: Number(math.NaN()), OracleFailure: "no solution"}},
	)
	half := Number(0.5)
	for name, v := range map[string][2]any{
		"episodes": {r.Episodes, 3}, "decisions": {r.Decisions, 4}, "safe": {r.Safe, Number(1.0 / 3)}, "feasible": {r.Feasible, Number(0.75)}, "violations": {r.Violations, 1},
		"collision free": {r.CollisionFree, Number(1.0 / 3)}, "flagged": {r.Flagged, 3}, "fallback": {r.Fallback, 2}, "late": {r.Late, 2}, "failures": {r.Failures, 1}, "failed": {r.Failed, 1},
		"excluded": {r.Excluded, 2}, "best known": {r.BestKnown, 1}, "no way": {r.NoWay, 2}, "safe no way": {r.SafeNoWay, 1}, "oracle failures": {r.OracleFailures, 1},
		"reached": {*r.GoalReached, half}, "at end": {*r.AtEnd, half}, "regret": {r.RegretPct, Number(20)}, "of episodes": {r.RegretN, 1}, "least regret": {r.RegretMin, Number(20)},
		"gap": {math.Round(float64(r.GapPct)*1e9) / 1e9, 20.0}, "cost": {r.CostMean, Number(14)}, "margin mean": {r.MarginMean, Number(-1.5)}, "least margin": {r.MarginMin, Number(-4)},
		"margins": {fmt.Sprint(r.MarginsMean), "map[heat:-1 left:2 right:4]"}, "displacement": {r.Displacement, Number(2)}, "localize": {r.Shares.Localize, Number(2)}, "step": {r.Shares.Step, Number(3)},
		"project": {r.Shares.Project, Number(4)}, "latency": {r.Latency.P99, Number(40)}, "latency mean": {math.Round(float64(r.Latency.Mean) * 3), 70.0}, "prepare": {r.Prepare.P50, Number(5)},
		"bounds": {r.Gap.N, 1}, "largest bound": {r.Gap.Max, Number(25)}, "interval": {r.CI95.Safe, ClopperPearson(1, 3)}, "failed interval": {r.CI95.Failed, ClopperPearson(1, 3)},
		"collision interval": {*r.CI95.CollisionFree, ClopperPearson(1, 3)}, "unsafe": {fmt.Sprint(r.Unsafe), "[{1 wind} {2 reset: no}]"}, "tolerance": {r.Tolerance, 0.25}, "rescues": {r.Guard.RescueRate, Number(0)},
	} {
		if !reflect.DeepEqual(v[0], v[1]) {
			t.Errorf("%s is %v, want %v", name, v[0], v[1])
		}
	}
	if sem := 2.5 * 1; math.Abs(float64(r.MarginSEM)-sem) > 1e-12 {
		t.Errorf("the error of the margins' mean is %v, want %v", r.MarginSEM, sem)
	}
	none := tallyOf()
	if none.GoalReached != nil || none.AtEnd != nil || none.Prepare != nil || none.Starts != nil || none.MarginsMean != nil || none.Gap != nil || none.Series != nil || none.AboveOracle != nil ||
		!math.IsInf(float64(none.MarginMin), 1) || !math.IsNaN(float64(none.RegretMin)) || none.RegretN != 0 {
		t.Errorf("of no episodes: %+v", none)
	}
	r.Untimed()
	if !math.IsNaN(float64(r.Latency.P50)) || r.Prepare != nil || !math.IsNaN(float64(r.Shares.Localize)+float64(r.Shares.Step)+float64(r.Shares.Project)) {
		t.Errorf("without times: %+v, %+v, %+v", r.Latency, r.Prepare, r.Shares)
	}
	if g := tallyOf(&EpisodeRecord{}); g.GoalReached != nil || len(g.Unsafe) != 0 || g.RegretN != 0 {
		t.Errorf("an episode without a verdict: %+v", g)
	}
}

// A regret is of safe episodes with a finite optimum above zero.
func TestRegretNeedsAnOptimum(t *testing.T) {
	for _, c := range []struct {
		safe         bool
		cost, oracle float64
		ok           bool
	}{{true, 15, 10, true}, {false, 15, 10, false}, {true, 15, 0, false}, {true, 15, -1, false}, {true, 15, math.Inf(1), false}, {true, 15, math.NaN(), false}} {
		e := EpisodeRecord{End: End{Safe: c.safe, Cost: Number(c.cost), OracleCost: Number(c.oracle)}}
		if pct, ok := e.Regret(); ok != c.ok || ok && pct != 50 {
			t.Errorf("%+v: %v, %v", c, pct, ok)
		}
	}
}

// Episodes without a reference are counted by their reason, the first of each with its start. An optimum of nothing is none.
func TestNoReferenceHasItsReason(t *testing.T) {
	at := func(x float64, end End) *EpisodeRecord {
		return &EpisodeRecord{Lines: []Line{{X: Vector{x}, Margin: 1}}, End: end}
	}
	r := tallyOf(at(1, End{OracleCost: 5}), at(2, End{OracleCost: 0}), at(3, End{OracleCost: -2}), &EpisodeRecord{End: End{OracleCost: 0}}, at(4, End{OracleCost: Number(math.NaN())}))
	if len(r.NoReference) != 1 || r.NoReference[0].Episodes != 3 || r.NoReference[0].Episode != 1 || r.NoReference[0].Start[0] != 2 || r.NoReference[0].Cause != "it costs 0" || r.OracleFailures != 0 {
		t.Errorf("%+v", r.NoReference)
	}
	if text := r.NoReference[0].Text(5); !strings.HasPrefix(text, "no reference in 3 of 5 episodes: the optimum does not cost more than nothing") || !strings.Contains(text, "first in episode 1 from the state [2]: it costs 0") {
		t.Error(text)
	}
	if r := tallyOf(&EpisodeRecord{End: End{OracleCost: 0}}); len(r.NoReference) != 1 || r.NoReference[0].Start != nil {
		t.Errorf("without a decision: %+v", r.NoReference)
	}
}

// Of several starts those count that converge, the best within 0.01 % of the least, and the worst above it is the gap.
func TestStartsOfAnOracleAreCounted(t *testing.T) {
	nan := math.NaN()
	r := tallyOf(&EpisodeRecord{End: End{Starts: Vector{100, 100.00999, nan, 100.02, 150}}}, &EpisodeRecord{End: End{Starts: Vector{nan, nan}}}, &EpisodeRecord{End: End{Starts: Vector{-4, -2}}}, &EpisodeRecord{})
	if s := r.Starts; s.Solves != 9 || s.Converged != Number(6.0/9) || s.Best != 0.5 || s.GapPct.N != 2 || s.GapPct.Mean != 50 || s.GapPct.Max != 50 {
		t.Errorf("%+v", r.Starts)
	}
}

// The rules of switches that are kept are no margins of a result; where they are broken they are.
func TestLeastMarginsAreWithoutTheRulesOfSwitches(t *testing.T) {
	spec := &domain.Spec{Steps: 2, Margins: []domain.Variable{{Name: "heat"}, {Name: "switch"}}, Switches: []domain.Switch{{Values: []float64{0, 1}, Least: []int{1, 1}}}}
	for rule, want := range map[float64]Number{0: 3, -1: -1} {
		a := newTally(spec, 0)
		a.add(&EpisodeRecord{Lines: []Line{{Margin: Number(min(rule, 3))}}, End: End{Margins: Vector{3, rule}}})
		if r := a.result(&Header{}); r.MarginMin != want || r.Guard != nil {
			t.Errorf("a rule at %g: the least margin is %v, want %v", rule, r.MarginMin, want)
		}
	}
}

// A decision is counted by each thing that the guard did in it; a rescue's time is the longest.
func TestGuardsAreCountedByTheirBits(t *testing.T) {
	var g GuardCounts
	for i, bits := range []domain.Fallback{0, domain.FallbackGuard, domain.FallbackGuard | domain.FallbackIncumbent, domain.FallbackRescue, domain.FallbackRescue | domain.FallbackSolver, domain.FallbackSolver, domain.FallbackRescue} {
		g.add(&Line{Fallback: uint32(bits), Latency: Number([]float64{9, 9, 9, 3, 5, 9, 4}[i])})
	}
	if g != (GuardCounts{Failing: 2, Incumbent: 1, Rescues: 3, Solved: 1, RescueWorst: 5}) {
		t.Errorf("%+v", g)
	}
}

// What a result says of all costs above the optima needs every episode complete, and an optimum above zero.
func TestAboveTheOracleIsOfAllEpisodes(t *testing.T) {
	outcomes := func() *Outcomes {
		return &Outcomes{Episode: []int{0, 1, 2, 3, 4}, Safe: []bool{true, false, true, true, true}, Cost: Vector{12, 33, 7, math.Inf(1), 5}, Oracle: Vector{10, 30, 0, 5, math.NaN()}}
	}
	r := Result{Outcomes: outcomes(), Episodes: 5, Decisions: 20}
	a := r.Above() // steps of 4 decisions, differences 2 and 3
	if a == nil || a.N != 2 || math.Abs(float64(a.Pct)-12.5) > 1e-12 || a.Step != 0.625 || math.Abs(float64(a.StepSEM)-0.125) > 1e-12 {
		t.Fatalf("%+v", a)
	}
	if _, sem := RatioAndError([]float64{12, 33}, []float64{10, 30}); math.Abs(float64(a.PctSEM)-100*sem) > 1e-12 {
		t.Errorf("error %v, want %v", a.PctSEM, 100*sem)
	}
	for name, change := range map[string]func(r *Result){
		"no outcomes": func(r *Result) { r.Outcomes = nil }, "a failure": func(r *Result) { r.Failures = 1 }, "no episodes": func(r *Result) { r.Episodes = 0 },
		"no optimum": func(r *Result) { clear(r.Outcomes.Oracle) }, "a list too short": func(r *Result) { r.Outcomes.Safe = r.Outcomes.Safe[1:] },
	} {
		other := r
		other.Outcomes = outcomes()
		if change(&other); other.Above() != nil {
			t.Errorf("%s: %+v", name, other.Above())
		}
	}
}

// Limits are counted by kind; an episode without a decision broke none, and one that does not say which it broke leaves nothing to say.
func TestLimitsOfEpisodes(t *testing.T) {
	add := func(episodes ...*EpisodeRecord) []LimitStatistics {
		l := newLimits(walls)
		for i, e := range episodes {
			e.Episode = i + 4
			l.add(e)
		}
		return l.statistics(4, 8)
	}
	of := func(violations []int, margins ...float64) *EpisodeRecord {
		return &EpisodeRecord{Lines: make([]Line, 2), End: End{Violations: violations, Margins: margins}}
	}
	got := add(of([]int{2, 0}, 5, 7, -1), &EpisodeRecord{}, of([]int{0, 1}, 3, -2, 4), of([]int{1, 0}, -3, 6, -2))
	want := []LimitStatistics{
		{"wall", "", 3, 0.375, 2, 0.5, Number(-1.0 / 3), 0, -3, "left", 7}, {"heat", "", 1, 0.125, 1, 0.25, Number(11.0 / 3), 0, -2, "heat", 6},
	}
	for k := range got {
		lows := [][]float64{{-1, 3, -3}, {7, -2, 6}}[k]
		if mean, sem := meanAndError(lows); float64(got[k].Mean) != mean || float64(got[k].SEM) != sem {
			t.Errorf("%v ± %v, want %v ± %v", got[k].Mean, got[k].SEM, mean, sem)
		}
		got[k].SEM, got[k].Mean, want[k].Mean = 0, 0, 0
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	for _, e := range []*EpisodeRecord{of([]int{1}, 1, 2, 3), of([]int{1, 1}, 1, 2)} {
		if got := add(of([]int{0, 0}, 1, 1, 1), e); got != nil {
			t.Errorf("an episode that does not say: %+v", got)
		}
	}
	if l := newLimits(&domain.Spec{}); l.statistics(1, 1) != nil {
		t.Error("limits of a problem without")
	}
}
