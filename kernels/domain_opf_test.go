package kernels

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper/opf"
	"github.com/gpc-engine/gpc/tensor"
)

// dispatchRows draws dispatches of a network: the state under new loads with the old
// set-points, and set-points around the merit order. Row 3 has loads that no power
// flow carries, row 5 an action and row 7 a state that is not a number, row 9 an
// action far out of every limit; of the others each can be projected onto its limits.
func dispatchRows(t testing.TB, c domain.Case, rows int) deviceProblem {
	t.Helper()
	d, _ := drawRows(c, rows)
	return d
}

// drawRows draws them, and apart those met on the way that no projection brings within
// their limits. There limits push against each other with 10⁷ times what is left of
// them, and nothing but that they are lost is the same to the last digits.
func drawRows(c domain.Case, rows int) (d, lost deviceProblem) {
	y := c.Problem.(*opf.System)
	n, spec := y.Network, y.Spec()
	rng := rand.New(rand.NewPCG(11, 12))
	within := func(lo, hi float64) float64 { return lo + (hi-lo)*rng.Float64() }
	var nominal []float64
	for _, load := range [][]float64{n.Pd, n.Qd} {
		for _, v := range load {
			if v != 0 {
				nominal = append(nominal, v)
			}
		}
	}
	d, lost = deviceProblem{problem: y}, deviceProblem{problem: y}
	for len(d.s) < rows {
		level := within(0.65, 1)
		s, ctx, u, next := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize()), make([]float64, spec.MeasuredSize())
		for k := range n.Buses() {
			s[k] = 1
		}
		for k, v := range nominal {
			ctx[k] = v * level * within(0.93, 1.07)
		}
		copy(ctx[len(nominal):], n.Pg0)
		for k := len(nominal) + n.Gens(); k < len(ctx); k++ {
			ctx[k] = within(1-opf.BranchRange, 1+opf.BranchRange)
		}
		y.Base(s, ctx, u)
		for g := range n.Gens() {
			u[n.Gens()+g] = within(0.99, 1.05)
		}
		y.Step(s, ctx, u, next, ctx)
		for k := range nominal {
			ctx[k] *= within(0.96, 1.04)
		}
		y.Step(next, slices.Clone(ctx), u, s, ctx)
		y.Base(s, ctx, u)
		for g := range n.Gens() {
			u[g] += 0.03 * rng.NormFloat64()
			u[n.Gens()+g] = within(0.97, 1.07)
		}
		w := []float64{rng.Float64(), rng.Float64(), rng.Float64()}
		switch i := len(d.s); i {
		case 3:
			for k := range nominal {
				ctx[k] *= 20
			}
		case 5:
			u[1] = math.NaN()
		case 7:
			s[2] = math.NaN()
		case 9:
			for k := range u {
				u[k] = 40 * rng.NormFloat64()
			}
		default:
			if !y.Project(s, ctx, slices.Clone(u)) {
				lost.s, lost.c, lost.u, lost.w = append(lost.s, s), append(lost.c, ctx), append(lost.u, u), append(lost.w, w)
				continue
			}
		}
		d.s, d.c, d.u, d.w = append(d.s, s), append(d.c, ctx), append(d.u, u), append(d.w, w)
	}
	return d, lost
}

// dispatchOf is the dispatch of a network inside.
func dispatchOf(t testing.TB, name string) domain.Case {
	t.Helper()
	return require.Get(opf.FromFile("opf:" + name + ".m"))(t)
}

// TestDispatchOnDevice holds the device functions of the dispatch problem to its own
// methods, in batches that fill blocks and that do not.
func TestDispatchOnDevice(t *testing.T) {
	b := onAny(t)
	networks := []struct {
		c          domain.Case
		rows, free int
	}{
		{opf.Thirty(), 200, 33}, {opf.ThirtyUncertain(), 60, 12}, {dispatchOf(t, "case39"), 24, 10}, {dispatchOf(t, "case118"), 24, 10},
		{dispatchOf(t, "pglib_opf_case57_ieee"), 24, 10}, {dispatchOf(t, "pglib_opf_case118_ieee"), 16, 10}, {dispatchOf(t, "pglib_opf_case300_ieee"), 12, 10},
	}
	if brief() {
		networks = networks[:3]
		networks[0].rows, networks[0].free = 60, 10
	}
	for _, network := range networks {
		d, lost := drawRows(network.c, network.rows)
		spec := d.problem.Spec()
		checkGradient(t, b, d)
		moved := checkRollout(t, b, d, true, network.rows)
		if moved < network.rows/4 {
			t.Errorf("%s: only %d of %d actions were projected; the rows are badly chosen", spec.Name, moved, network.rows)
		}
		checkRollout(t, b, d, false, network.free)
		if len(lost.s) > 0 {
			steps := rollOut(t, b, lost, true)
			for i := range lost.s {
				row := backendtest.StepRow(steps, spec, i)
				if margin := row[3][1]; !(margin < -opf.MarginTolerance) || !tensor.Finite(row[0]) {
					t.Errorf("%s: of a dispatch that cannot be projected the margin is %v with %v", spec.Name, margin, row[0])
				}
			}
			t.Logf("%s: %d dispatches are lost", spec.Name, len(lost.s))
		}
		if m := margins(d, 3); m[0] != -1 || m[len(m)-1] != -1 {
			t.Errorf("%s: row 3 has a power flow, with the margins %v; it should have none", spec.Name, m)
		}
	}
}

func margins(d deviceProblem, row int) []float64 {
	m := make([]float64, len(d.problem.Spec().Margins))
	d.problem.Margins(d.s[row], d.c[row], d.u[row], m)
	return m
}

// TestRowsOfABatchAreAlone gives rows in batches of other sizes, and to lanes in
// another order: the bits are the same.
func TestRowsOfABatchAreAlone(t *testing.T) {
	library, b := metered(t, Options{})
	d := dispatchRows(t, opf.ThirtyUncertain(), 33)
	spec := d.problem.Spec()
	all := rollOut(t, b, d, true)
	for _, rows := range []int{1, 2, 31, 33} {
		shim.SetOrder(library, uint64(rows))
		part := rollOut(t, b, d.first(rows), true)
		for i := range rows {
			have, want := backendtest.StepRow(part, spec, i), backendtest.StepRow(all, spec, i)
			for k := range have {
				if err := backendtest.NearOrLost(have[k], want[k], 0); err != nil {
					t.Fatalf("row %d of %d: %v", i, rows, err)
				}
			}
		}
	}
}

// TestDispatchStepOnDevice compares the captured step of the bundled map, its
// gradients on the device, with the reference and with the split step.
func TestDispatchStepOnDevice(t *testing.T) {
	c := opf.Thirty()
	d := dispatchRows(t, c, 24)
	for i := range d.s { // rows that are numbers
		d.s[i], d.c[i] = d.s[i/8*8], d.c[i/8*8]
	}
	cfg, in := stepFor(t, bundledModel(t, "opf30", 20), d, backend.StepParams{Dt: 0.05, VMax: 1, Epsilon: 0.1, MetricLambda: 1e-3, TopK: 4, LieGain: 0.1, LieScale: 0.1})
	compareSteps(t, cfg, in)
}

// TestLargeDispatchStepOnDevice is a step of 236 states, 243 numbers of context and
// 108 set-points, by small random networks.
func TestLargeDispatchStepOnDevice(t *testing.T) {
	c := dispatchOf(t, "case118")
	spec := c.Problem.Spec()
	d := dispatchRows(t, c, 3)
	for len(d.s) < 20 {
		i := len(d.s)
		d.s, d.c, d.u, d.w = append(d.s, d.s[i%3]), append(d.c, d.c[i%3]), append(d.u, d.u[i%3]), append(d.w, d.w[i%3])
	}
	rng := rand.New(rand.NewPCG(3, 3))
	m := &model.Model{Codes: tensor.New(10, 6), NormS: testdomain.Scaled(spec.MeasuredSize(), 0.1), NormU: testdomain.Scaled(spec.ActionSize(), 0.1)}
	for k := range m.NormS.Mean[:spec.MeasuredSize()/2] {
		m.NormS.Mean[k] = 1
	}
	var err error
	m.DecoderS = require.Get(model.NewMLP(rng, 6, 24, 24, spec.MeasuredSize()))(t)
	if m.DecoderU, err = model.NewMLP(rng, 6, 24, 24, spec.ActionSize()); err != nil {
		t.Fatal(err)
	}
	for i := range m.Codes.Data {
		m.Codes.Data[i] = float32(rng.NormFloat64())
	}
	cfg, in := stepFor(t, m, d, backend.StepParams{Dt: 0.05, VMax: 1, Epsilon: 0.1, MetricLambda: 1e-3, TopK: 3, LieGain: 0.1, LieScale: 0.1})
	compareSteps(t, cfg, in)
}

// dispatchStates are the first states and contexts of a trajectory, dispatched by the
// fallback.
func dispatchStates(t testing.TB, c domain.Case, count int) (d deviceProblem) {
	t.Helper()
	spec := c.Problem.Spec()
	episode := require.Get(c.Plant.Episode(991, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	for range count {
		s, ctx, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
		episode.Observe(s, ctx)
		d.s, d.c = append(d.s, s), append(d.c, ctx)
		c.Problem.Fallback(s, ctx, u)
		if _, err := episode.Apply(u); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// TestDispatchLoopsOnDevice compares decisions of loops whose latents stay on the
// device, σ filtered there, with the same loops on the reference.
func TestDispatchLoopsOnDevice(t *testing.T) {
	c := opf.Thirty()
	d := dispatchStates(t, c, 8)
	m := bundledModel(t, "opf30", 100)
	const loops, steps = 3, 3
	var decisions [2][]batchnav.Decision
	for k, b := range []backend.Backend{onAny(t), ref.New()} {
		batch := require.Get(batchnav.NewBatch(b, m, c.Problem, batchnav.Options{Latents: true}, loops))(t)
		if batch.OnDevice() != (k == 0) {
			t.Errorf("backend %d: latents on the device: %v", k, batch.OnDevice())
		}
		for step := range steps {
			obs, out := make([]batchnav.Observation, loops), make([]batchnav.Decision, loops)
			for i := range obs {
				obs[i] = batchnav.Observation{S: d.s[step+2*i], C: d.c[step+2*i], Preference: domain.Preference{Adaptive: true}}
			}
			obs[1].Preference = domain.Preference{W: []float64{0.2, 0.3, 0.5}}
			require.OK(t, batch.Decide(obs, out))
			for _, one := range out {
				one.U, one.Decoded, one.Latent = slices.Clone(one.U), slices.Clone(one.Decoded), slices.Clone(one.Latent)
				one.Sigma, one.Margins = slices.Clone(one.Sigma), slices.Clone(one.Margins)
				decisions[k] = append(decisions[k], one)
			}
		}
	}
	sameDecisions(t, decisions[0], decisions[1])
}

// TestDispatchRefinementOnDevice compares whole refinements of the bundled map, one
// graph on the device, with those of the CPU in single operations.
func TestDispatchRefinementOnDevice(t *testing.T) {
	c := opf.Thirty()
	m := bundledModel(t, "opf30", 300)
	device := onAny(t)
	cpu := require.Get(cpufallback.New(cpufallback.Options{}))(t)
	defer cpu.Close()
	const candidates = 24
	var refiners [2]*batchnav.Refiner
	for i, b := range []backend.Backend{device, cpu} {
		refiners[i] = require.Get(batchnav.NewRefiner(b, m, c.Problem, batchnav.Options{}, candidates))(t)
	}
	d := dispatchStates(t, c, 5)
	for k := range 40 { // loads that no power flow carries
		d.c[3][k] *= 20
	}
	cases := []refineCase{
		{d.s[0], d.c[0], domain.Preference{Adaptive: true}, batchnav.RefineOptions{Candidates: candidates, FlowSteps: 1, Seed: 3}},
		{d.s[1], d.c[1], domain.Preference{W: []float64{0.2, 0.3, 0.5}}, batchnav.RefineOptions{Candidates: candidates, FlowSteps: 1, Seed: 4}},
		{d.s[2], d.c[2], domain.Preference{Adaptive: true}, batchnav.RefineOptions{Candidates: candidates, Seed: 5, LookAhead: 3}},
		{d.s[4], d.c[4], domain.Preference{Adaptive: true}, batchnav.RefineOptions{Candidates: candidates, FlowSteps: 1, Seed: 6, NoProjection: true}},
		{d.s[3], d.c[3], domain.Preference{Adaptive: true}, batchnav.RefineOptions{Candidates: 4, Seed: 7}}, // no power flow
	}
	compareRefinements(t, refiners[0], refiners[1], cases)
	whole := require.Get(refiners[0].Refine(context.Background(), batchnav.Observation{S: d.s[0], C: d.c[0], Preference: cases[0].pref}, cases[0].opt))(t)
	if !whole.Feasible || whole.Latency.Total == 0 || whole.Latency.Evaluate != 0 {
		t.Errorf("feasible %v, latency %+v: want a feasible dispatch by the backend itself, which tells the total only", whole.Feasible, whole.Latency)
	}
}
