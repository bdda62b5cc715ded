package gpc_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// keptOff is the sled whose states are measured with noise, keeping level standard deviations off its limit.
func keptOff(t *testing.T, noise, level float64) *gpc.Case {
	t.Helper()
	c, _ := sledCase(t, 0)
	return require.Get(require.Get(c.Measured(domain.Whole(c.Spec(), noise)))(t).Robust(level))(t)
}

// fast is a start that pulls the sled to its speed limit.
var fast, quick = []float64{-1, 0.5}, domain.Preference{W: []float64{0.999, 0.001}}

// slowest is the least margin of the samples of a start, behind its first decision, and whether they say that there is no room.
func slowest(t *testing.T, s domain.Solver) (least float64, noRoom bool) {
	t.Helper()
	least = math.Inf(1)
	for _, x := range require.Get(s.Solve(0, fast, quick, domain.WeightedSum, 3))(t) {
		if noRoom = x.NoRoom; x.Step > 0 && !x.Perturbed {
			least = math.Min(least, x.Margins[0])
		}
	}
	return least, noRoom
}

// Samples of a case that keeps off its limits keep off them by the deviations of the closed loop, more where there is more
// noise, and by nothing where there is none. Where no plan keeps off so much they keep off less and say so.
func TestSamplesKeepOffTheLimits(t *testing.T) {
	at := func(noise, level float64) (float64, bool) {
		c := keptOff(t, noise, level)
		return slowest(t, require.Get(estimate.NewSamples(c.Definition(), c.Estimator))(t))
	}
	c, _ := sledCase(t, 0)
	plain, _ := slowest(t, c.Definition().Solver)
	none, _ := at(1e-9, 3)
	some, short := at(0.01, 3)
	more, _ := at(0.02, 3)
	if !(math.Abs(plain) < 1e-3) || math.Abs(none-plain) > 1e-4 {
		t.Errorf("the least margin is %v, without noise %v: want the limit for both", plain, none)
	}
	if short || !(some > 0.01) || !(more > 1.5*some) || !(more < 3*some) {
		t.Errorf("the least margin is %v at a noise of 0.01 and %v at 0.02, no room %t", some, more, short)
	}
	if half, noRoom := at(0.02, 100); !noRoom || !(half > some) {
		t.Errorf("kept off by 100 deviations: least margin %v, no room %t, want it to say that there is none for so much", half, noRoom)
	}
}

// A dataset of such a case has these samples, whatever the threads, counts those without room, and is none that is
// continued at another level; its visited states are solved so too.
func TestADatasetKeepsOffTheLimits(t *testing.T) {
	dir := t.TempDir()
	made := func(name string, noise, level float64, threads int) (*dataset.Counters, error) {
		c := keptOff(t, noise, level)
		opt := c.DatasetDefaults()
		opt.OutDir, opt.Scenarios, opt.Seed, opt.Threads, opt.Weights.Count = filepath.Join(dir, name), 3, 4, threads, 1
		return c.Dataset(t.Context(), "", engine.Options{}, opt, nil)
	}
	three := require.Get(made("three", 0.01, 3, 2))(t)
	require.Get(made("alone", 0.01, 3, 1))(t)
	a, b := require.Get(dataset.Open(filepath.Join(dir, "three")))(t), require.Get(dataset.Open(filepath.Join(dir, "alone")))(t)
	if a.Hash() != b.Hash() || a.Header.Provenance.KeptOff != 3 || three.NoRoom != 0 {
		t.Errorf("two threads %s, one %s; kept off %v, %d solves without room", a.Hash(), b.Hash(), a.Header.Provenance.KeptOff, three.NoRoom)
	}
	if many := require.Get(made("many", 0.05, 100, 1))(t); many.NoRoom == 0 || many.NoRoom > many.Solves {
		t.Errorf("%d of %d solves have no room for 100 deviations", many.NoRoom, many.Solves)
	}
	if _, err := made("three", 0.01, 4, 1); err == nil {
		t.Error("a dataset is continued at another level")
	}
	plain := require.Get(made("plain", 0.01, 0, 1))(t)
	if p := require.Get(dataset.Open(filepath.Join(dir, "plain")))(t); p.Header.Provenance.KeptOff != 0 || plain.NoRoom != 0 || p.Hash() == a.Hash() {
		t.Errorf("a case that keeps nothing off: %+v", p.Header.Provenance)
	}
}
