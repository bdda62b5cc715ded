package report

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// ran is a record of episodes that cost so much, with an optimum of 1 each.
func ran(costs ...float64) *closedloop.Result {
	r := &closedloop.Result{Case: "cart", Method: "direct", Seed: 7, Outcomes: &closedloop.Outcomes{}}
	r.ProblemSHA256 = "p"
	for i, cost := range costs {
		o := r.Outcomes
		o.Episode, o.Safe, o.Cost, o.Oracle = append(o.Episode, i), append(o.Safe, true), append(o.Cost, cost), append(o.Oracle, 1)
	}
	return r
}

// Fewer episodes of one record are compared with the same of another; a method beside itself costs nothing more,
// whatever its mean over all is.
func TestLessIsOnTheSameEpisodes(t *testing.T) {
	all := ran(1, 2, 4, 9)
	few, weak := ran(1, 2, 4), ran(2, 3, 4)
	if d := require.Get(less(few, all))(t); d.N != 3 || d.Mean != 0 || d.Max != 0 {
		t.Errorf("a method beside itself: %+v", d)
	}
	if d := require.Get(less(weak, all))(t); d.N != 3 || d.Mean != 50 {
		t.Errorf("a weaker method costs %+v more, want 50", d)
	}
	weak.Outcomes.Safe[1] = false
	if d := require.Get(less(weak, all))(t); d.N != 2 || d.Mean != 50 {
		t.Errorf("an unsafe episode counts: %+v", d)
	}
	old := *few
	old.ProblemSHA256 = "" // of a program that did not say it
	if d := require.Get(less(&old, all))(t); d.N != 3 {
		t.Errorf("a record that names no problem is not compared: %+v", d)
	}
	// A method that beat the reference of the other record has a better one.
	beaten := ran(1, 2, 4)
	beaten.Outcomes.Oracle[0] = 1.2
	if d := require.Get(less(few, beaten))(t); d.N != 3 {
		t.Errorf("beside a weaker reference: %+v", d)
	}
	none := *few
	none.Outcomes = nil
	if d := require.Get(less(&none, all))(t); d.N != 0 {
		t.Errorf("a record without episodes is compared: %+v", d)
	}
	for want, change := range map[string]func(r *closedloop.Result){
		"problem_sha256 q": func(r *closedloop.Result) { r.ProblemSHA256 = "q" },
		"seed 8":           func(r *closedloop.Result) { r.Seed = 8 },
		"noise":            func(r *closedloop.Result) { r.Noise = 0.1 },
		"shift":            func(r *closedloop.Result) { r.Shift = map[string]float64{"drag": 2} },
		"scene":            func(r *closedloop.Result) { r.Outcomes.Oracle[2] = 1.01 },
		"verdicts":         func(r *closedloop.Result) { r.Outcomes.Safe = r.Outcomes.Safe[:1] },
	} {
		other := ran(1, 2, 4)
		change(other)
		if _, err := less(other, all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Every quantity of a series has one number a point.
func TestSeriesOfTwoLengths(t *testing.T) {
	band := closedloop.Band{Mean: closedloop.Vector{1, 2}, P10: closedloop.Vector{1, 2}, P90: closedloop.Vector{1, 2}}
	s := closedloop.Series{Interval: 1, Total: band, Weighted: band, J: []closedloop.Band{band}, Sigma: []closedloop.Band{band}}
	require.OK(t, checkSeries(&s))
	s.Total.P10 = s.Total.P10[1:]
	if checkSeries(&s) == nil {
		t.Error("lists of two lengths are accepted")
	}
}
