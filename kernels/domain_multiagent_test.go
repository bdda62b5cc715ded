package kernels

import (
	"context"
	"fmt"
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
	"github.com/gpc-engine/gpc/internal/testing/planscore"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper/multiagent"
	"github.com/gpc-engine/gpc/tensor"
)

// viewCases are the cases of robots among moving discs, by their maps' names.
var viewCases = map[string]domain.Case{"multiagent-static": multiagent.Static(), "multiagent-moving": multiagent.Moving()}

// robotViews draws views of one robot of Case 2: none to ten discs on straight paths, in
// every other row one of them just ahead, the way home bent or straight, actions within
// and beyond every limit. A step of the problem itself then makes of each a view of that
// moment.
func robotViews(t testing.TB, c domain.Case, rows int) deviceProblem {
	t.Helper()
	p := c.Learned
	spec := p.Spec()
	at := map[string]int{}
	for i, v := range spec.Measured {
		at[v.Name] = i
	}
	for i, v := range spec.Context {
		at[v.Name] = i
	}
	rng := rand.New(rand.NewPCG(21, 22))
	within := func(lo, hi float64) float64 { return lo + (hi-lo)*rng.Float64() }
	d := deviceProblem{problem: p}
	for row := range rows {
		s, ctx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
		// Places are compressed to less than 5 m.
		put := func(x, y float64, name string, n ...any) {
			f := 1 / (1 + math.Hypot(x, y)/5)
			ctx[at[fmt.Sprintf(name, append([]any{"x"}, n...)...)]], ctx[at[fmt.Sprintf(name, append([]any{"y"}, n...)...)]] = f*x, f*y
		}
		distance, bearing, bend := within(0.05, 15), within(-math.Pi, math.Pi), within(-0.8, 0.8)
		s[at["v"]], s[at["root_distance"]] = within(-0.5, 1.2), math.Sqrt(distance)
		s[at["goal_sin"]], s[at["goal_cos"]] = math.Sincos(bearing)
		ctx[at["a_prev"]], ctx[at["omega_prev"]], ctx[at["r"]] = within(-2, 2), within(-2, 2), within(0.25, 0.35)
		ctx[at["share"]], ctx[at["crowd"]] = 1, 1/float64(3+row%4)
		if row%3 == 0 {
			ctx[at["share"]] = math.Sqrt(0.65 / float64(2+row%4))
		}
		for w, metres := range []float64{1.2, 2.8, 5, 8.5} {
			sin, cos := math.Sincos(bearing + bend*float64(row%2)*(1-metres/9))
			metres = min(metres, distance)
			put(metres*cos, metres*sin, "way%[2]d_%[1]s", w)
		}
		bodies := rng.IntN(11)
		for b := range bodies {
			radius, x, y := within(0.7, 1.4), within(-6, 6), within(-6, 6)
			vx, vy := within(-0.8, 0.8), within(-0.8, 0.8)
			if b == 0 && row%2 == 1 {
				sin, cos := math.Sincos(within(-1, 1))
				away := radius + within(-0.1, 0.6)
				x, y, vx, vy = away*cos, away*sin, 0.2*vx, 0.2*vy
			}
			ctx[at[fmt.Sprintf("body%d_r", b)]] = radius
			for _, k := range []int{0, 8, 16, 26, 40} {
				put(x+0.2*float64(k)*vx, y+0.2*float64(k)*vy, "body%[2]d_%[1]s%[3]d", b, k)
			}
		}
		u := []float64{3 * rng.NormFloat64(), 3 * rng.NormFloat64()}
		p.Project(s, ctx, u)
		next, then := make([]float64, len(s)), make([]float64, len(ctx))
		p.Step(s, ctx, u, next, then)
		d.s, d.c = append(d.s, next), append(d.c, then)
		d.u = append(d.u, []float64{2 * rng.NormFloat64(), 2 * rng.NormFloat64()})
		d.w = append(d.w, []float64{rng.Float64(), rng.Float64(), rng.Float64()})
	}
	return d
}

// TestViewOnDevice holds the device functions of Case 2's view to its own methods, and
// whole plans rolled out action by action, without what E_x alone reads.
func TestViewOnDevice(t *testing.T) {
	b := onAny(t)
	const rows = 120
	for _, c := range viewCases {
		d := robotViews(t, c, rows)
		checkGradient(t, b, d)
		d.u[5][1], d.s[7][0] = math.NaN(), math.NaN()
		if moved := checkRollout(t, b, d, true, rows); moved < rows/2 {
			t.Errorf("only %d of %d actions were projected; the rows are badly chosen", moved, rows)
		}
		checkRollout(t, b, d, false, 33)
		plans := tensor.New(rows, d.problem.Spec().PlanSize())
		rng := rand.New(rand.NewPCG(23, 24))
		for i := range plans.Data {
			plans.Data[i] = float32(rng.NormFloat64())
		}
		plans.Row(5)[7] = float32(math.NaN())
		if violate, keep := checkPlans(t, b, d, plans, 40, true); violate < rows/6 || keep < rows/6 {
			t.Errorf("%d of %d plans violate a margin and %d keep them, want more of both", violate, rows, keep)
		}
		checkPlans(t, b, d, plans, 7, false)
	}
}

// checkPlans compares roll-outs of plans on the device, under the adaptive priority,
// with those by the problem's own methods, and counts who violates a margin and who
// keeps all.
func checkPlans(t *testing.T, b *Backend, d deviceProblem, plans tensor.Matrix, steps int, project bool) (violate, keep int) {
	t.Helper()
	spec, rows := d.problem.Spec(), len(d.s)
	np, m := spec.PlanSize(), spec.ObjectiveSize()
	best, cost, margin := make([]float64, rows*np), make([]float64, rows), make([]float64, rows)
	err := b.withFunctions(d.problem, func(s *scratch, code *problemCode) {
		job := rolloutJob{
			s: place(s, slices.Concat(d.s...)), c: place(s, slices.Concat(d.c...)), cost: place(s, cost), margin: place(s, margin),
			plan: place(s, plans.Data), best: place(s, best), rows: int32(rows),
		}
		if project {
			job.project = 1
		}
		p := preferenceJob{weights: place(s, make([]float64, m)), semantic: place(s, semanticOf(spec)), adaptive: 1}
		for h := range steps {
			job.h = int32(h)
			code.rollout(s.queue, &job, &p)
		}
		fetch(s, best, job.best)
		fetch(s, cost, job.cost)
		fetch(s, margin, job.margin)
	})
	require.OK(t, err)
	for i := range rows {
		plan, wantCost, wantMargin := planscore.Plan(d.problem, d.s[i], d.c[i], domain.Preference{Adaptive: true}, wide32(plans.Row(i)), steps, project)
		if math.IsInf(wantMargin, -1) {
			if margin[i] != wantMargin {
				t.Errorf("%s, plan %d: margin %v of a plan that is lost", spec.Name, i, margin[i])
			}
			continue
		}
		if wantMargin < 0 {
			violate++
		} else {
			keep++
		}
		if err := backendtest.Near(best[i*np:(i+1)*np], plan, 1e-9); err != nil {
			t.Errorf("%s, plan %d: %v", spec.Name, i, err)
		}
		if err := backendtest.Near([]float64{cost[i], margin[i]}, []float64{wantCost, wantMargin}, 1e-8); err != nil {
			t.Errorf("%s, plan %d, cost and margin: %v", spec.Name, i, err)
		}
	}
	return violate, keep
}

// TestViewStepOnDevice compares the captured step of the bundled maps, gradients and
// the way home on the device, with the reference and with the split step.
func TestViewStepOnDevice(t *testing.T) {
	for name, c := range viewCases {
		cfg, in := stepFor(t, bundledModel(t, name, 20), robotViews(t, c, 40), backend.StepParams{Dt: 0.02, VMax: 1, Epsilon: 0.1, MetricLambda: 1e-3, TopK: 4, LieGain: 0.1, LieScale: 0.1})
		compareSteps(t, cfg, in)
	}
}

// TestViewLoopsOnDevice compares decisions of loops whose latents stay on the device
// with the same loops on the reference: each robot goes as its plan says.
func TestViewLoopsOnDevice(t *testing.T) {
	c := viewCases["multiagent-moving"]
	m := bundledModel(t, "multiagent-moving", 100)
	const loops, steps = 3, 3
	var decisions [2][]batchnav.Decision
	for k, b := range []backend.Backend{onAny(t), ref.New()} {
		d := robotViews(t, c, loops)
		batch := require.Get(batchnav.NewBatch(b, m, c.Learned, batchnav.Options{Latents: true}, loops))(t)
		if batch.OnDevice() != (k == 0) {
			t.Errorf("backend %d: latents on the device: %v", k, batch.OnDevice())
		}
		for range steps {
			obs, out := make([]batchnav.Observation, loops), make([]batchnav.Decision, loops)
			for i := range obs {
				obs[i] = batchnav.Observation{S: d.s[i], C: d.c[i], Preference: domain.Preference{Adaptive: true}}
			}
			obs[1].Preference = domain.Preference{W: []float64{0.2, 0.3, 0.5}}
			require.OK(t, batch.Decide(obs, out))
			for i, one := range out {
				one.U, one.Decoded, one.Latent = slices.Clone(one.U), slices.Clone(one.Decoded), slices.Clone(one.Latent)
				one.Sigma, one.Margins = slices.Clone(one.Sigma), slices.Clone(one.Margins)
				decisions[k] = append(decisions[k], one)
				s, ctx := make([]float64, len(d.s[i])), make([]float64, len(d.c[i]))
				c.Learned.Step(d.s[i], d.c[i], one.U, s, ctx)
				d.s[i], d.c[i] = s, ctx
			}
		}
	}
	sameDecisions(t, decisions[0], decisions[1])
}

// TestViewRefinementOnDevice compares whole refinements of the bundled maps, one graph
// on the device, with those of the CPU in single operations.
func TestViewRefinementOnDevice(t *testing.T) {
	cpu := require.Get(cpufallback.New(cpufallback.Options{}))(t)
	defer cpu.Close()
	device := onAny(t)
	const candidates = 24
	adaptive, fixed := domain.Preference{Adaptive: true}, domain.Preference{W: []float64{0.2, 0.3, 0.5}}
	for name, c := range viewCases {
		m := bundledModel(t, name, 300)
		var refiners [2]*batchnav.Refiner
		for i, b := range []backend.Backend{device, cpu} {
			refiners[i] = require.Get(batchnav.NewRefiner(b, m, c.Learned, batchnav.Options{}, candidates))(t)
		}
		d := robotViews(t, c, 4)
		compareRefinements(t, refiners[0], refiners[1], []refineCase{
			{d.s[0], d.c[0], adaptive, batchnav.RefineOptions{Candidates: candidates, FlowSteps: 1, Seed: 3, LookAhead: 40}},
			{d.s[1], d.c[1], fixed, batchnav.RefineOptions{Candidates: candidates, FlowSteps: 2, Seed: 4, LookAhead: 12}},
			{d.s[2], d.c[2], adaptive, batchnav.RefineOptions{Candidates: candidates, FlowSteps: 1, Seed: 5, LookAhead: 3, NoProjection: true}},
			{d.s[3], d.c[3], fixed, batchnav.RefineOptions{Candidates: 4, Seed: 6, LookAhead: 40}},
		})
		whole := require.Get(refiners[0].Refine(context.Background(), batchnav.Observation{S: d.s[0], C: d.c[0], Preference: adaptive}, batchnav.RefineOptions{Candidates: candidates}))(t)
		if whole.Latency.Total == 0 || whole.Latency.Evaluate != 0 {
			t.Errorf("latency %+v: want the total only, as the backend itself refines", whole.Latency)
		}
	}
}

// TestPlannerOnDevice drives the first decisions of a scene of Case 2 with map and scores
// on the device and with both on the CPU: they are the same up to rounding, and the
// robots go the same ways.
func TestPlannerOnDevice(t *testing.T) {
	cpu := require.Get(cpufallback.New(cpufallback.Options{}))(t)
	defer cpu.Close()
	device := onAny(t)
	const decisions, candidates = 6, 96
	for name, c := range viewCases {
		m, spec := bundledModel(t, name, 300), c.Problem.Spec()
		var states [2][]float64
		for i, b := range []backend.Backend{device, cpu} {
			p := require.Get(batchnav.NewProposer(b, m, c.Learned, batchnav.Options{}, candidates))(t)
			means := domain.Means{Proposer: p, Candidates: candidates}
			if i == 0 {
				means.Accelerator = device
			}
			at := slices.IndexFunc(c.Methods, func(m domain.Method) bool { return m.Name == "planner" })
			controller := require.Get(c.Methods[at].New(means))(t)
			episode, err := c.Plant.Episode(7, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}})
			require.OK(t, err)
			require.OK(t, controller.Reset(episode))
			s, ctx, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
			for range decisions {
				episode.Observe(s, ctx)
				d, err := controller.Decide(s, ctx, domain.Preference{Adaptive: true}, u)
				require.OK(t, err)
				if _, err := episode.Apply(u); err != nil {
					t.Fatal(err)
				}
				if math.IsNaN(d.Residual) {
					t.Errorf("%s: the map was not asked", name)
				}
			}
			states[i] = s
			episode.State(s)
		}
		if err := backendtest.Near(states[0], states[1], 1e-4); err != nil {
			t.Errorf("%s: after %d decisions: %v", name, decisions, err)
		}
	}
}

// BenchmarkRefineCase2 is a whole refinement of one robot's view on a GPU, 4096
// candidates that all flow as latents, copies included, on the bundled map, look-ahead
// the whole plan.
func BenchmarkRefineCase2(b *testing.B) {
	c := viewCases["multiagent-moving"]
	candidates := 4096
	d := robotViews(b, c, 2)
	o := batchnav.Observation{S: d.s[1], C: d.c[1], Preference: domain.Preference{W: []float64{0.4, 0.4, 0.2}}}
	for _, way := range []struct {
		name    string
		options Options
		project bool
	}{{"float32", Options{}, false}, {"tf32", Options{TF32: true}, false}, {"float32-projected", Options{}, true}} {
		for _, flow := range []int{0, 1, 3} {
			b.Run(fmt.Sprintf("%s-flow-%d", way.name, flow), func(b *testing.B) {
				device := onDevice(b, way.options)
				if device.device.Emulated() { // on which a rehearsal asks whether it runs
					candidates = 6
				}
				r := require.Get(batchnav.NewRefiner(device, bundledModel(b, "multiagent-moving", 2000), c.Learned, batchnav.Options{}, candidates))(b)
				opt := batchnav.RefineOptions{Candidates: candidates, FlowSteps: flow, Seed: 1, NoProjection: !way.project}
				for b.Loop() {
					if _, err := r.Refine(context.Background(), o, opt); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
