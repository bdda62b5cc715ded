package opf

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A corrected margin has its room inside of a limit, a lower one as an upper one.
func TestRoomIsInsideOfEitherLimit(t *testing.T) {
	const edge, guard = 0.7, 0.25
	for _, sign := range []float64{1, -1} {
		l := limit{sign: sign, edge: edge, guard: guard}
		for inside, want := range map[float64]float64{guard: 0, 0: guard, 1: guard - 1, -1: guard + 1} {
			if got := l.lacks(edge + sign*inside); math.Abs(got-want) > 1e-12 {
				t.Errorf("sign %g: %g inside of the limit %g lacks %g, want %g", sign, inside, edge, got, want)
			}
		}
	}
}

// A round from the last dispatch breaks no limit that was kept: what its change of the set-points may reach is in
// its program.
func TestARoundBreaksNoLimitThatWasKept(t *testing.T) {
	const name, lastDispatch, tolerance = "pglib_opf_case300_ieee", 1, 1e-3 // pu, for what the linearisation leaves out
	c := require.Get(FromText(name, name, require.Get(cases.Text(name))(t), Options{}))(t)
	y := c.Problem.(*System)
	w, rounds := newWorkspace(y), 0
	for i, at := range require.Get(y.Decisions(t.Context(), "envelope:0.92:1", 9003, 3, 1))(t) {
		u := slices.Clone(at.From[lastDispatch])
		y.clip(at.C, u)
		w.projection.linearised = false
		if !w.dispatch(at.S, at.C, u) {
			t.Fatalf("decision %d: no power flow", i)
		}
		if w.smallest() >= -w.projection.tolerance {
			continue
		}
		before := slices.Clone(w.margin)
		if broken := w.correct(at.C, u, false); broken > contradiction {
			t.Fatalf("decision %d: limits contradict each other by %g pu", i, broken)
		}
		y.clip(at.C, u)
		if !w.dispatch(at.S, at.C, u) {
			t.Fatalf("decision %d: no power flow after a round", i)
		}
		w.smallest()
		rounds++
		for k, m := range w.margin {
			if before[k] >= 0 && m < -tolerance {
				t.Errorf("decision %d: margin %s falls from %g to %g", i, y.spec.Margins[k].Name, before[k], m)
			}
		}
	}
	if rounds == 0 {
		t.Error("no dispatch had a limit to correct")
	}
}
