package ocp

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

func TestSamplesAreStepsOfOneTrajectory(t *testing.T) {
	solver := newTanks(Options{Perturbed: 3, Tolerance: 1e-7})
	pref := domain.Preference{Adaptive: true}
	p := []float64{0.5, 0.3, 0.7}
	samples, err := solver.Solve(4, p, pref, domain.WeightedSum, 11)
	if err != nil {
		t.Fatal(err)
	}
	again, err := solver.Solve(4, p, pref, domain.WeightedSum, 11)
	if err != nil || !reflect.DeepEqual(samples, again) {
		t.Errorf("the same call gives other samples, %v", err)
	}
	if n := 29 + 3 - int(solver.Counts().PerturbedDropped)/2; len(samples) != n {
		t.Fatalf("%d samples, want %d", len(samples), n)
	}
	problem := tanks{}
	spec := problem.Spec()
	for i, s := range samples {
		if s.KKT > 1e-7 || s.Scenario != 4 || len(s.U) != 4 || !s.Preference.Adaptive {
			t.Errorf("sample %d is %+v", i, s)
		}
		delta, sigma, j := make([]float64, 2), make([]float64, 2), make([]float64, 2)
		problem.Indicators(s.S, s.U[:2], s.C, delta)
		spec.Semantic.Priority(delta, sigma)
		problem.Objectives(s.S, s.U[:2], s.C, j)
		if !reflect.DeepEqual(sigma, s.Sigma) || !reflect.DeepEqual(j, s.J) {
			t.Errorf("sample %d has σ %v, J %v, want %v, %v", i, s.Sigma, s.J, sigma, j)
		}
		base := make([]float64, 4)
		problem.Base(s.S, s.C, base)
		for k := range base {
			if s.Target[k] != s.U[k]-base[k] {
				t.Errorf("sample %d has target %v for the plan %v from %v", i, s.Target, s.U, base)
			}
		}
		if s.Perturbed != (i >= 29) || s.Perturbed != (s.Trajectory > 0) {
			t.Errorf("sample %d is number %d of trajectory %d, perturbed %v", i, s.Step, s.Trajectory, s.Perturbed)
		}
		if s.Perturbed || i == 0 {
			continue
		}
		before := samples[i-1]
		sn, cn := make([]float64, 2), make([]float64, 3)
		problem.Step(before.S, before.C, before.U[:2], sn, cn)
		if s.Step != i || !reflect.DeepEqual(sn, s.S) || !reflect.DeepEqual(cn, s.C) || before.U[2] != s.U[0] {
			t.Errorf("sample %d does not follow sample %d", i, i-1)
		}
	}
}

// What follows a perturbed state's first step are samples too; those of one step are among them.
func TestPerturbedSolutionsAreFollowed(t *testing.T) {
	const follow = 4
	pref, p := domain.Preference{Adaptive: true}, []float64{0.5, 0.3, 0.7}
	solve := func(follow int) []domain.Sample {
		samples, err := newTanks(Options{Perturbed: 3, Tolerance: 1e-7, Follow: follow}).Solve(4, p, pref, domain.WeightedSum, 11)
		if err != nil {
			t.Fatal(err)
		}
		return samples
	}
	var firsts, before []domain.Sample
	rows := 0
	for _, s := range solve(follow) {
		if len(before) > 0 && s.Perturbed && before[0].Trajectory == s.Trajectory {
			rows++
			sn, cn := make([]float64, 2), make([]float64, 3)
			tanks{}.Step(before[0].S, before[0].C, before[0].U[:2], sn, cn)
			if s.Step != before[0].Step+1 || !reflect.DeepEqual(sn, s.S) || !reflect.DeepEqual(cn, s.C) || before[0].U[2] != s.U[0] {
				t.Errorf("step %d of trajectory %d does not follow the one before", s.Step, s.Trajectory)
			}
		} else {
			firsts = append(firsts, s)
		}
		before = nil
		if s.Perturbed {
			before = []domain.Sample{s}
		}
	}
	if want := solve(0); !reflect.DeepEqual(firsts, want) || rows < follow-1 {
		t.Errorf("%d samples that follow none and %d that follow one, want the %d of a solver that follows none, and more", len(firsts), rows, len(want))
	}
}

// Contexts near by differ in what no action moves and the horizon leaves as it is, within the scenario's ranges.
func TestContextsNearBy(t *testing.T) {
	pref, rng := domain.Preference{Adaptive: true}, rand.New(rand.NewPCG(5, 5))
	for name, c := range map[string]struct {
		solver *Solver
		about  []float64
		moves  []bool
	}{
		"a clock":           {newPole(testdomain.Pole{}, Options{PerturbScale: 0.2}), []float64{0.3, 0, 0.1, 0, 0.9}, []bool{true, false}},
		"the action before": {newTanks(Options{PerturbScale: 0.2}), []float64{0.5, 0.3, 0.7}, []bool{true, false, false}},
		"running on":        {newTanks(Options{PerturbScale: 0.2, TerminalCost: true}), []float64{0.5, 0.3, 0.7}, []bool{false, false, false}},
	} {
		spec := c.solver.problem.Spec()
		s, ctx := make([]float64, len(spec.Measured)), make([]float64, len(spec.Context))
		c.solver.initial(c.about, s, ctx)
		from := c.solver.taskFrom(s, ctx, 10, 1)
		from.keepWorkspace = true
		best, err := from.minimise(pref, domain.WeightedSum)
		if err != nil {
			t.Fatal(name, err)
		}
		axis := c.solver.axes[len(c.solver.axes)-1] // the reference
		for range 20 {
			near := c.solver.perturbContext(best, 4, from.workspace.q, c.about, rng)
			for i, v := range near {
				if (v != best.C[4][i]) != c.moves[i] && v != axis.Lo && v != axis.Hi {
					t.Errorf("%s: entry %d is %v, of %v", name, i, v, best.C[4][i])
				}
			}
			if v := near[0]; !(v >= axis.Lo && v <= axis.Hi) {
				t.Errorf("%s: the reference is %v, outside %+v", name, v, axis)
			}
		}
		c.solver.work.workspaces.Put(from.workspace)
	}
}

// TestSolvesBesideATrajectory: what goes on from a trajectory's solve ends at the optimum that a start of its own leads to, in fewer
// iterations.
func TestSolvesBesideATrajectory(t *testing.T) {
	pref, p := domain.Preference{Adaptive: true}, []float64{0.5, 0.3, 0.7}
	whole := newTanks(Options{Tolerance: 1e-8})
	if _, err := whole.Solve(4, p, pref, domain.WeightedSum, 11); err != nil {
		t.Fatal(err)
	}
	solver, apart := newTanks(Options{Perturbed: 6, Tolerance: 1e-8}), newTanks(Options{Tolerance: 1e-8})
	samples, err := solver.Solve(4, p, pref, domain.WeightedSum, 11)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, s := range samples {
		if !s.Perturbed {
			continue
		}
		compared++
		best := minimise(t, apart, s.S, s.C, 30-s.Step, pref, domain.WeightedSum)
		for j, u := range best.U[0] {
			if d := math.Abs(u - s.U[j]); !(d < 1e-5) || s.KKT > 1e-8 {
				t.Errorf("step %d: pump %d is %v with residual %.1e, from a start of its own %v", s.Step, j, s.U[j], s.KKT, u)
			}
		}
	}
	if beside, alone := solver.Counts().Iterations-whole.Counts().Iterations, apart.Counts().Iterations; compared < 4 || 3*beside > 2*alone {
		t.Errorf("%d solves take %d iterations beside the trajectory and %d alone", compared, beside, alone)
	}
}

// TestSolveBesideNothing: where the other solve's end is no start, the starts of the task are.
func TestSolveBesideNothing(t *testing.T) {
	solver, pref := newTanks(Options{Tolerance: 1e-8}), domain.Preference{Adaptive: true}
	s, c := []float64{0.2, 0.3}, []float64{0.7, 0.4, 0.1}
	first := solver.taskFrom(s, c, 30, 1)
	first.keepWorkspace = true
	want, err := first.minimise(pref, domain.WeightedSum)
	if err != nil {
		t.Fatal(err)
	}
	for i := range first.workspace.cur.v {
		first.workspace.cur.v[i] = math.NaN()
	}
	again := solver.taskFrom(s, c, 30, 1)
	again.neighbour = first.workspace
	got, err := again.minimise(pref, domain.WeightedSum)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, from what is not finite the solution is %+v, want %+v", err, got, want)
	}
}

// A tail of an optimal trajectory is optimal for the remaining horizon
// (Bellman), so solving again from its middle changes nothing.
func TestTailsAreOptimal(t *testing.T) {
	solver := newTanks(Options{Tolerance: 1e-8})
	pref := domain.Preference{Adaptive: true}
	whole := minimise(t, solver, []float64{0.2, 0.3}, []float64{0.7, 0.4, 0.1}, 30, pref, domain.WeightedSum)
	tail := minimise(t, solver, whole.S[12], whole.C[12], 18, pref, domain.WeightedSum)
	for i, u := range tail.U {
		for j := range u {
			if d := math.Abs(u[j] - whole.U[12+i][j]); !(d < 1e-4) {
				t.Errorf("step %d: pump %d is %v, the whole trajectory has %v", 12+i, j, u[j], whole.U[12+i][j])
			}
		}
	}
}

func TestGeneratesADataset(t *testing.T) {
	var hashes []string
	for _, threads := range []int{1, 3} {
		dir := t.TempDir()
		counters, err := dataset.Generate(context.Background(), domain.Case{Problem: tanks{}, Solver: newTanks(Options{Perturbed: 1})}, dataset.Options{
			Scenarios: 6, Adaptive: true, Weights: dataset.Weights{Count: 1}, Seed: 3, OutDir: dir, Threads: threads, Chunk: 4,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if counters.Retained != 6 || counters.Samples < 6*2*29 {
			t.Errorf("counters are %+v", counters)
		}
		d, err := dataset.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Check(tanks{}), d.Verify()); err != nil {
			t.Error(err)
		}
		hashes = append(hashes, d.Hash())
	}
	if hashes[0] != hashes[1] {
		t.Error("one and three threads make different datasets")
	}
}

// TestSamplesKeepRoom: where room is asked for, what is solved for samples keeps it, the margins of
// samples are the problem's own, optima of Minimise keep the limits alone, and a start that is nearer
// to a limit than the room leaves it and is no failure.
func TestSamplesKeepRoom(t *testing.T) {
	pref, p := domain.Preference{Adaptive: true}, []float64{0.5, 0.3, 0.7}
	least := func(margins [][]float64) float64 {
		least := math.Inf(1)
		for _, row := range margins {
			for _, m := range row {
				least = math.Min(least, m)
			}
		}
		return least
	}
	n := len(tanks{}.Spec().Margins)
	solve := func(room []float64) (sampled, minimised float64) {
		solver := newTanks(Options{Tolerance: 1e-7, Room: room})
		samples, err := solver.Solve(4, p, pref, domain.WeightedSum, 11)
		if err != nil {
			t.Fatal(err)
		}
		var rows [][]float64
		own := make([]float64, n)
		for _, s := range samples {
			rows = append(rows, s.Margins)
			tanks{}.Margins(s.S, s.C, s.U[:2], own)
			for i, m := range own {
				if math.Abs(m-s.Margins[i]) > 1e-12 {
					t.Fatalf("a sample has the margin %v, the problem %v", s.Margins[i], m)
				}
			}
		}
		best := minimise(t, solver, samples[0].S, samples[0].C, 30, pref, domain.WeightedSum)
		return least(rows), least(best.Margins)
	}
	without, tight := solve(nil)
	room := 2 * (without + 0.01)
	with, same := solve(slices.Repeat([]float64{room}, n))
	if !(without < room/2) || !(with >= room-1e-6) || same != tight {
		t.Errorf("samples keep %v without room and %v with %v, Minimise %v and %v", without, with, room, tight, same)
	}
	// At the start a level is nearer to its limit than the room.
	solver := newTanks(Options{Tolerance: 1e-7, Room: slices.Repeat([]float64{0.3}, n)})
	samples, err := solver.Solve(4, p, pref, domain.WeightedSum, 11)
	if err != nil {
		t.Fatal(err)
	}
	if first, last := slices.Min(samples[0].Margins), slices.Min(samples[len(samples)-1].Margins); !(first < 0.29) || !(last > first) || first < 0 {
		t.Errorf("from a margin of %v the samples come to %v, want nearer to 0.3", first, last)
	}
	if _, err := New(tanks{}, nil, func(_, _, _ []float64) {}, Options{Room: make([]float64, n+1)}); err == nil {
		t.Error("room for margins that are not there is taken")
	}
	if _, err := New(tanks{}, nil, func(_, _, _ []float64) {}, Options{Room: slices.Repeat([]float64{-1}, n)}); err == nil {
		t.Error("room below zero is taken")
	}
}
