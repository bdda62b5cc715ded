package closedloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// The mean of ratios of an evaluation's episodes and the ratio of their sums are two
// figures, over the safe episodes alone; costs of one episode by another show it.
func TestGapIsTheRatioOfSums(t *testing.T) {
	c := cartCase(t)
	o := options("")
	o.Preference = domain.Preference{W: []float64{0.5, 0.5}}
	r := evaluate(t, c, gained(0.6), o)
	var cost, oracle, ratios float64
	n := 0.0
	for i := range r.Outcomes.Episode {
		if !r.Outcomes.Safe[i] {
			continue
		}
		cost, oracle, ratios, n = cost+r.Outcomes.Cost[i], oracle+r.Outcomes.Oracle[i], ratios+r.Outcomes.Cost[i]/r.Outcomes.Oracle[i], n+1
	}
	gap, regret := 100*(cost/oracle-1), 100*(ratios/n-1)
	if math.Abs(gap-regret) < 1e-3*math.Abs(regret) {
		t.Fatalf("the episodes do not tell the two apart: %g and %g", gap, regret)
	}
	if math.Abs(float64(r.GapPct)-gap) > 1e-9 || math.Abs(float64(r.RegretPct)-regret) > 1e-9 || float64(r.RegretN) != n {
		t.Errorf("gap %v, regret %v over %d; want %g, %g over %g", r.GapPct, r.RegretPct, r.RegretN, gap, regret, n)
	}
}

// Records say what their episodes cost, so that fewer of one can be compared with the same
// of another; a method beside itself costs nothing more, whatever its mean over all is.
func TestLessIsOnTheSameEpisodes(t *testing.T) {
	c := cartCase(t)
	o := options("")
	all := evaluate(t, c, gained(1), o)
	o.Episodes = 3
	few, weak := evaluate(t, c, gained(1), o), evaluate(t, c, gained(0.8), o)
	if d := require.Get(few.Less(all))(t); d.N != 3 || d.Mean != 0 || d.Max != 0 {
		t.Errorf("a method beside itself: %+v", d)
	}
	mean := 0.0
	for i := range 3 {
		mean += 100 * (weak.Outcomes.Cost[i]/all.Outcomes.Cost[i] - 1) / 3
	}
	if d := require.Get(weak.Less(all))(t); d.N != 3 || math.Abs(float64(d.Mean)-mean) > 1e-9 || mean == 0 {
		t.Errorf("a weaker method costs %+v more, want %g", d, mean)
	}
	// As written and read again, and where an episode is not safe.
	var read closedloop.Result
	require.OK(t, json.Unmarshal(require.Get(json.Marshal(weak))(t), &read))
	read.Outcomes.Safe[1] = false
	if d := require.Get(read.Less(all))(t); d.N != 2 {
		t.Errorf("an unsafe episode counts: %+v", d)
	}
	old := *few
	old.ProblemSHA256 = "" // of a program that did not say it
	if d := require.Get(old.Less(all))(t); d.N != 3 {
		t.Errorf("a record that names no problem is not compared: %+v", d)
	}
	// A method that beat the reference of the other record has a better one.
	var beaten closedloop.Result
	require.OK(t, json.Unmarshal(require.Get(json.Marshal(few))(t), &beaten))
	beaten.Outcomes.Oracle[1] *= 1.2
	if d := require.Get(few.Less(&beaten))(t); d.N != 3 {
		t.Errorf("beside a weaker reference: %+v", d)
	}
	none := *few
	none.Outcomes = nil
	if d := require.Get(none.Less(all))(t); d.N != 0 {
		t.Errorf("a record without episodes is compared: %+v", d)
	}
	for want, change := range map[string]func(r *closedloop.Result){
		"problem_sha256 " + strings.Repeat("0", 64): func(r *closedloop.Result) { r.ProblemSHA256 = strings.Repeat("0", 64) },
		"seed 8":   func(r *closedloop.Result) { r.Seed = 8 },
		"noise":    func(r *closedloop.Result) { r.Noise = 0.1 },
		"shift":    func(r *closedloop.Result) { r.Shift = map[string]float64{"drag": 2} },
		"scene":    func(r *closedloop.Result) { r.Outcomes.Oracle[2] *= 1.01 },
		"verdicts": func(r *closedloop.Result) { r.Outcomes.Safe = r.Outcomes.Safe[:1] },
	} {
		var other closedloop.Result
		require.OK(t, json.Unmarshal(require.Get(json.Marshal(few))(t), &other))
		change(&other)
		if _, err := other.Less(all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// The load of a run that was interrupted is said to be that of its last part.
func TestLoadOfAContinuedRun(t *testing.T) {
	c, o := cartCase(t), options(t.TempDir())
	whole := evaluate(t, c, direct(c), o)
	if whole.Load == nil {
		t.Skip("this system does not say how busy it is")
	}
	o.TracePath = filepath.Join(t.TempDir(), "cut.jsonl")
	ctx, cancel := context.WithCancel(t.Context())
	o.Visit = func(*closedloop.EpisodeRecord) { cancel() }
	if _, err := closedloop.Evaluate(ctx, c, direct(c), o); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	o.Visit, o.Resume = nil, true
	if r := evaluate(t, c, direct(c), o); whole.Load.Partial || r.Load == nil || !r.Load.Partial || len(r.Outcomes.Episode) != o.Episodes {
		t.Errorf("the whole run's load is %v, the continued one's %v", whole.Load, r.Load)
	}
}
