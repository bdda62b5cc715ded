package closedloop

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/domain"
)

// judged is an episode that says what it is told to.
type judged struct {
	domain.Episode
	abilities domain.EpisodeAbilities
	out       domain.Outcome
	err       error
}

func (e *judged) Abilities() *domain.EpisodeAbilities     { return &e.abilities }
func (e *judged) Apply([]float64) (domain.Outcome, error) { return e.out, e.err }

// walls has margins of two kinds, one of them against collision, and keeps them to 0.25.
var walls = &domain.Spec{
	Name: "walls", Measured: []domain.Variable{{Name: "q"}}, Objectives: []domain.Variable{{Name: "j"}, {Name: "k"}}, MarginTolerance: 0.25,
	Margins: []domain.Variable{{Name: "left", Limit: "wall", Kind: domain.Collision}, {Name: "heat"}, {Name: "right", Limit: "wall", Kind: domain.Collision}},
}

func outcome3(cost float64, named ...float64) domain.Outcome {
	return domain.Outcome{S: []float64{1}, J: []float64{1, 2}, Sigma: []float64{0.5, 0.5}, Cost: cost, Margin: slices.Min(named), Named: named}
}

// An episode's sums are those of its decisions: costs, the least of each margin, decisions that break a kind of limit, once each, and the
// first cause of what is not safe.
func TestAScoreIsOfAllDecisions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	keeps := func(m float64) bool { return m >= -0.25 }
	for range 200 {
		var sum score
		cost, lowest, violations, failed, cause := 0.0, []float64{math.Inf(1), math.Inf(1), math.Inf(1)}, []int{0, 0}, false, ""
		for k := range 1 + rng.IntN(4) {
			out := outcome3(rng.Float64(), float64(rng.IntN(8))/4-0.5, float64(rng.IntN(8))/4-0.5, float64(rng.IntN(8))/4-0.5)
			out.Failed = rng.IntN(6) == 0
			sum.add(walls, &out)
			cost += out.Cost
			for i, m := range out.Named {
				lowest[i] = min(lowest[i], m)
			}
			if !keeps(out.Named[0]) || !keeps(out.Named[2]) {
				violations[0]++
			}
			if !keeps(out.Named[1]) {
				violations[1]++
			}
			failed = failed || out.Failed
			if index := slices.Index(out.Named, out.Margin); cause == "" && !keeps(out.Margin) {
				cause = fmt.Sprintf("decision %d: margin %s is -0.5", k, walls.Margins[index].Name)
			} else if cause == "" && out.Failed {
				cause = fmt.Sprintf("decision %d: the state is lost", k)
			}
		}
		kept := violations[0]+violations[1] == 0
		if sum.cost != cost || !slices.Equal(sum.lowest, lowest) || !slices.Equal(sum.violations, violations) || sum.failed != failed || sum.cause != cause ||
			sum.feasible != kept || sum.collisionFree != (violations[0] == 0) || sum.safe() != (kept && !failed) || sum.diverged != "" {
			t.Fatalf("%+v, want a cost of %g, least margins %v, violations %v, failed %v, %q", sum, cost, lowest, violations, failed, cause)
		}
	}
	if new(score).safe() {
		t.Error("an episode without a decision is safe")
	}
	var unnamed, lost score
	out := outcome3(1, 1, 1, 1)
	out.Margin = -3
	unnamed.add(walls, &out)
	unnamed.add(walls, &out)
	if unnamed.cause != "decision 0: a margin is -3" || unnamed.safe() || !unnamed.collisionFree {
		t.Errorf("a margin without a name: %+v", unnamed)
	}
	for k, cost := range []float64{1, math.Inf(1), math.NaN()} {
		out := outcome3(cost, 1, 1, 1)
		out.Failed = k > 0
		lost.add(walls, &out)
	}
	if want := "decision 1: the cost is +Inf: the episode diverged"; lost.diverged != want || lost.cause != want {
		t.Errorf("%q for %q, want %q", lost.cause, lost.diverged, want)
	}
}

// What a plant says has the sizes of its case. Infinite margins become the largest numbers, and what is no number is lost.
func TestOutcomesOfAPlantAreChecked(t *testing.T) {
	broken := errors.New("no power")
	for want, change := range map[string]func(e *judged){
		"":              func(*judged) {},
		"no power":      func(e *judged) { e.err = broken },
		"Outcome.S ":    func(e *judged) { e.out.S = nil },
		"Outcome.J ":    func(e *judged) { e.out.J = []float64{1} },
		"Outcome.Sigma": func(e *judged) { e.out.Sigma = []float64{1, 2, 3} },
		"Outcome.Named": func(e *judged) { e.out.Named = e.out.Named[:2] },
	} {
		e := &judged{out: outcome3(1, 1, 2, 3)}
		change(e)
		if _, err := apply(walls, e, nil); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	inf, most := math.Inf(1), math.MaxFloat64
	e := &judged{out: outcome3(1, inf, -inf, 3)}
	e.out.Soft = []float64{inf, -inf, 1}
	out, err := apply(walls, e, nil)
	if err != nil || out.Failed || !slices.Equal(out.Named, []float64{most, -most, 3}) || !slices.Equal(out.Soft, []float64{most, -most, 1}) || out.Margin != -most {
		t.Errorf("%+v, %v", out, err)
	}
	free := *walls
	free.Margins = nil
	e = &judged{out: domain.Outcome{S: []float64{1}, J: []float64{1, 2}, Sigma: []float64{1, 2}, Margin: inf}}
	if out, err := apply(&free, e, nil); err != nil || out.Margin != inf || out.Failed {
		t.Errorf("without limits: %+v, %v", out, err)
	}
	for _, failed := range []domain.Outcome{outcome3(math.NaN(), 1, 2, 3), outcome3(-inf, 1, 2, 3), {S: []float64{math.NaN()}, J: []float64{1, 2}, Sigma: []float64{1, 2}, Named: []float64{1, 2, 3}}} {
		if out, err := apply(walls, &judged{out: failed}, nil); err != nil || !out.Failed {
			t.Errorf("%+v, %v", out, err)
		}
	}
}

// An episode is safe where every step was taken, every limit kept, no state lost, and its goal reached. The plant's own cause comes before
// that of the margins, and is asked of episodes alone that are complete and not safe.
func TestTheEndOfAnEpisodeIsWhatItSays(t *testing.T) {
	yes, no := func() bool { return true }, func() bool { return false }
	kept := score{feasible: true, collisionFree: true, cost: 3, lowest: Vector{1}, violations: []int{0}, excess: Vector{2}, exceeding: []int{1}}
	broke := score{cause: "decision 1: broke", cost: 3}
	wind := func() string { return "wind" }
	silent := func() string { return "" }
	for name, c := range map[string]struct {
		abilities       domain.EpisodeAbilities
		sum             score
		completed, safe bool
		cause, reached  string
	}{
		"kept":               {domain.EpisodeAbilities{Cause: wind}, kept, true, true, "", "- -"},
		"not completed":      {domain.EpisodeAbilities{Cause: wind}, kept, false, false, "", "- -"},
		"broke":              {domain.EpisodeAbilities{}, broke, true, false, "decision 1: broke", "- -"},
		"broke, stopped":     {domain.EpisodeAbilities{Cause: wind}, broke, false, false, "", "- -"},
		"explained":          {domain.EpisodeAbilities{Cause: wind}, broke, true, false, "wind", "- -"},
		"nothing to explain": {domain.EpisodeAbilities{Cause: silent}, broke, true, false, "decision 1: broke", "- -"},
		"reached and left":   {domain.EpisodeAbilities{Succeeded: yes, Arrived: no}, kept, true, true, "", "true false"},
		"not reached":        {domain.EpisodeAbilities{Succeeded: no, Arrived: no, Cause: wind}, kept, true, false, "wind", "false false"},
		"arrived":            {domain.EpisodeAbilities{Succeeded: yes, Arrived: yes}, kept, false, false, "", "true true"},
	} {
		c.abilities.Excluded = func() int { return 7 }
		end := endOf(&judged{abilities: c.abilities}, &c.sum, c.completed)
		reached := "- -"
		if end.GoalReached != nil {
			reached = fmt.Sprint(*end.GoalReached, *end.AtEnd)
		}
		if end.Safe != c.safe || end.Completed != c.completed || end.Cause != c.cause || reached != c.reached || end.Excluded != 7 || end.Cost != 3 || end.Failed ||
			end.CollisionFree != c.sum.collisionFree || len(end.Excess) != len(c.sum.excess) || len(end.Margins) != len(c.sum.lowest) {
			t.Errorf("%s: %+v", name, end)
		}
	}
	kept.failed = true
	if end := endOf(&judged{}, &kept, true); end.Safe || !end.Failed || end.Excluded != 0 {
		t.Errorf("a lost state: %+v", end)
	}
}

// The bias of each value is of the stated size with a sign of its own, by seed and episode alone; without a size there is none.
func TestBiasesHaveOneSize(t *testing.T) {
	if b := biases(0, 1, 2, 3); b != nil {
		t.Errorf("without a size: %v", b)
	}
	up, all := 0, map[string]bool{}
	for episode := range 50 {
		b := biases(0.5, 9, episode, 20)
		for _, v := range b {
			if math.Abs(v) != 0.5 {
				t.Fatalf("a bias of %v", v)
			}
			count(&up, v > 0)
		}
		all[fmt.Sprint(b)] = true
		if !slices.Equal(b, biases(0.5, 9, episode, 20)) || slices.Equal(b, biases(0.5, 8, episode, 20)) {
			t.Errorf("episode %d is not of its seed", episode)
		}
	}
	if up < 420 || up > 580 || len(all) != 50 {
		t.Errorf("%d of 1000 are positive, in %d different episodes of 50", up, len(all))
	}
}

// A line of a trace is a copy of a decision, in µs, with the method's own priority and times where it has them.
func TestALineIsACopyOfADecision(t *testing.T) {
	out := domain.Outcome{S: []float64{4, 5, 6}, Sigma: []float64{0.3, 0.7}, J: []float64{1, 2}, Margin: -1, Failed: true}
	d := domain.Decision{Sigma: []float64{0.6, 0.4}, Residual: 0.1, Displacement: 0.2, Gap: 0.3, Fallback: 5, Times: domain.Times{Localize: time.Millisecond, Step: 2 * time.Microsecond, Project: 500 * time.Nanosecond}}
	s, c, u := []float64{1, 2}, []float64{3}, []float64{7}
	e := EpisodeRecord{Episode: 3, Lines: make([]Line, 4)}
	e.add(s, c, u, &out, d, 2*time.Second)
	l := e.Lines[4]
	s[0], c[0], u[0], out.S[0], out.J[0], out.Sigma[0], d.Sigma[0] = 9, 9, 9, 9, 9, 9, 9
	want := Line{Episode: 3, T: 4, X: Vector{1, 2}, C: Vector{3}, U: Vector{7}, S: Vector{4, 5}, Sigma: Vector{0.3, 0.7}, J: Vector{1, 2}, Margin: -1, Residual: 0.1, Latency: 2e6,
		Fallback: 5, Failed: true, Displacement: 0.2, Priority: Vector{0.6, 0.4}, Times: Vector{1000, 2, 0.5}, Gap: 0.3}
	if fmt.Sprintf("%#v", l) != fmt.Sprintf("%#v", want) {
		t.Errorf("%+v\nwant %+v", l, want)
	}
	e.add(s, c, u, &out, domain.Decided(true), 0)
	if l := e.Lines[5]; l.Priority != nil || l.Times != nil || l.Latency != 0 {
		t.Errorf("without a priority: %+v", l)
	}
}
