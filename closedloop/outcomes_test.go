package closedloop_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
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

// Outcomes have one of each for every episode.
func TestOutcomesHaveOneOfEach(t *testing.T) {
	for lengths, want := range map[[4]int]bool{{2, 2, 2, 2}: true, {}: true, {2, 1, 2, 2}: false, {2, 2, 3, 2}: false, {2, 2, 2, 0}: false, {1, 2, 2, 2}: false} {
		o := closedloop.Outcomes{Episode: make([]int, lengths[0]), Safe: make([]bool, lengths[1]), Cost: make([]float64, lengths[2]), Oracle: make([]float64, lengths[3])}
		if err := o.Validate(); (err == nil) != want {
			t.Errorf("lengths %v: %v", lengths, err)
		}
	}
}
