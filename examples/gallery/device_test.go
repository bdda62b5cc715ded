package gallery

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/cartpole"
	"github.com/gpc-engine/gpc/examples/gallery/chain"
	"github.com/gpc-engine/gpc/examples/gallery/hvac"
	"github.com/gpc-engine/gpc/examples/gallery/models"
	"github.com/gpc-engine/gpc/examples/gallery/quadrotor"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/images"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// onDevice are the systems whose functions are compiled for the device: an explicit step, an implicit one, plants that run on or foresee, and one with
// declarations, unless there is time for all.
func onDevice() []equations.System {
	if !testing.Short() {
		return slices.Concat(Systems(), RunningOn(), Foreseeing(), []equations.System{declared()})
	}
	return []equations.System{Systems()[0], Systems()[2], RunningOn()[0], declared()}
}

// declared has soft limits and bounds on how fast the action changes, which become part of its functions.
func declared() equations.System {
	y := cartpole.System()
	y.Name, y.Rates = "cartpole-declared", []float64{4}
	y.Soft = []equations.Soft{{Margin: y.Margins[0].Name, Linear: 2, Quadratic: 1}}
	return y
}

// deviceOf opens the CUDA backend with the device functions of problems.
func deviceOf(t *testing.T, problems ...domain.Problem) *kernels.Backend {
	t.Helper()
	var texts []*export.Device
	for _, p := range problems {
		texts = append(texts, require.Get(export.DeviceOf(p))(t))
	}
	b := backendWith(t, texts...)
	b.Notify(func(text string) {
		if !strings.HasPrefix(text, "NVRTC ") { // compiles them, once
			t.Error(text)
		}
	})
	return b
}

// backendWith opens the CUDA backend with texts: the host shim with them built in, or, where tests run on PTX or a GPU, a device that
// they are compiled for.
func backendWith(t *testing.T, texts ...*export.Device) *kernels.Backend {
	t.Helper()
	var d driver.Driver
	if shim.OnGPU() || shim.OnPTX() {
		d = shim.Device(t)
	} else {
		sources := require.Get(require.Get(images.Find("."))(t).Sources("kernels"))(t)
		written := map[string]bool{}
		for _, text := range texts {
			if written[text.Name] {
				continue
			}
			written[text.Name] = true
			path := filepath.Join(t.TempDir(), text.Name+".cu")
			require.OK(t, os.WriteFile(path, []byte(text.Text), 0o600))
			sources = append(sources, path)
		}
		d = shim.OpenFiles(t, sources...)
	}
	b := require.Get(kernels.New(require.Get(driver.Open(d, 0))(t), kernels.Options{}))(t)
	t.Cleanup(func() { require.OK(t, b.Close()) })
	return b
}

// rowsOf are states along episodes with actions within and beyond the box.
func rowsOf(t *testing.T, c domain.Case, n int) (at backend.DeviceRows) {
	t.Helper()
	spec, rng := c.Problem.Spec(), rand.New(rand.NewPCG(11, 12))
	for index := 0; len(at.S) < n; index++ {
		episode := require.Get(c.Plant.Episode(31, index, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
		for step := 0; step < 6 && !episode.Done() && len(at.S) < n; step++ {
			s, cx, u, w := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize()), make([]float64, spec.ObjectiveSize())
			episode.Observe(s, cx)
			for i, a := range spec.Action {
				u[i] = rng.NormFloat64()
				if a.Bounded() {
					u[i] = (a.Lo+a.Hi)/2 + (a.Hi-a.Lo)*(rng.Float64()-0.5)*(1+float64(step%2))
				}
			}
			for i := range w {
				w[i] = rng.Float64()
			}
			at.S, at.C, at.U, at.Sigma = append(at.S, s), append(at.C, cx), append(at.U, u), append(at.Sigma, w)
			require.Get(episode.Apply(slices.Clone(u)))(t)
		}
	}
	return at
}

// TestEquationsOnTheDevice holds what is written of a system's equations for a GPU to the problem's own methods: objectives and their
// gradients, steps, margins and projections.
func TestEquationsOnTheDevice(t *testing.T) {
	var cases []domain.Case
	var problems []domain.Problem
	for _, y := range onDevice() {
		c := require.Get(y.Case())(t)
		cases, problems = append(cases, c), append(problems, c.Problem)
	}
	b, all := deviceOf(t, problems...), 0
	for _, c := range cases {
		at := rowsOf(t, c, 40)
		errs := backendtest.DeviceGradient(b, c.Problem, at)
		_, worst, wrong := backendtest.DeviceStep(b, c.Problem, at, false)
		moved, off, wrongly := projectedOnDevice(t, b, c.Problem, at)
		errs = append(append(errs, wrong...), wrongly...)
		for _, err := range errs[:min(len(errs), 4)] {
			t.Error(err)
		}
		t.Logf("%s: largest deviations %.1e; %d of %d actions projected, to within %.1e of half a box", c.Problem.Spec().Name, worst, moved, len(at.S), off)
		all += moved
	}
	if all == 0 {
		t.Error("no limit moved an action")
	}
}

// projectedOnDevice counts the actions that a projected step of the device moves, and holds them to the problem's own. A projection ends
// on the device where an action within its limits would move by less than 1e-6 of half its box: off is the largest distance in
// that unit. Where no action keeps the limits it is as near, or breaks them no more. What follows from the device's own action is held to it as closely as all else.
func projectedOnDevice(t *testing.T, b *kernels.Backend, p domain.Problem, at backend.DeviceRows) (moved int, off float64, errs []error) {
	t.Helper()
	got, spec := require.Get(b.DeviceStep(p, at, true))(t), p.Spec()
	for i := range at.S {
		have, u := backendtest.StepRow(got, spec, i), make([]float64, spec.ActionSize())
		for k, v := range at.U[i] {
			u[k] = float64(float32(v))
		}
		wanted := slices.Clone(u)
		keeps, moves, bound := p.Project(at.S[i], at.C[i], u), false, 1e-6
		breaksLess := !keeps && smallestMargin(p, at, i, have[0]) >= smallestMargin(p, at, i, u)-1e-6
		for k, a := range spec.Action {
			half := (a.Hi - a.Lo) / 2
			if d := math.Abs(have[0][k]-u[k]) / half; breaksLess {
				continue // one of several with the least violation
			} else if !(d <= bound) && !(d <= bound+4*backendtest.Conditioned(p, at.S[i], at.C[i], wanted, true)[0]/half) {
				errs = append(errs, fmt.Errorf("%s, row %d: a projected action is %g half boxes off, and keeps the limits: %v", spec.Name, i, d, keeps))
			} else if keeps {
				off = max(off, d)
			}
			moves = moves || math.Abs(u[k]-min(a.Hi, max(a.Lo, wanted[k]))) > 1e-6*half // by a limit, beyond the box
		}
		if moves {
			moved++
		}
		s, c, m := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, len(spec.Margins))
		p.Step(at.S[i], at.C[i], have[0], s, c)
		p.Margins(at.S[i], at.C[i], have[0], m)
		for k, want := range map[int][]float64{1: s, 2: c, 4: m} {
			err := backendtest.NearOrLost(have[k], want, 1e-9)
			if err != nil {
				err = backendtest.NearOrLost(have[k], want, 1e-9+4*backendtest.Conditioned(p, at.S[i], at.C[i], have[0], false)[k])
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s, row %d, result %d of the device's own action: %w", spec.Name, i, k, err))
			}
		}
	}
	return moved, off, errs
}

// smallestMargin is that of an action in a row's state.
func smallestMargin(p domain.Problem, at backend.DeviceRows, i int, u []float64) float64 {
	m := make([]float64, len(p.Spec().Margins))
	p.Margins(at.S[i], at.C[i], u, m)
	return domain.Smallest(m)
}

// asked counts what roll-outs on the host ask of a problem: Score, and states that are lost.
type asked struct {
	*equations.Problem
	scored, lost *atomic.Int64
}

func (p asked) Abilities() *domain.ProblemAbilities {
	may := p.Problem.Abilities()
	score, failed := may.Score, may.Failed
	may.ManyValues = nil
	may.Score = func(s, c, u, J, m []float64) { p.scored.Add(1); score(s, c, u, J, m) }
	may.Failed = func(s, c []float64) bool {
		lost := failed(s, c)
		if lost {
			p.lost.Add(1)
		}
		return lost
	}
	return may
}

// TestSearchesOfSystemsAreTheDevices drives systems by a search and refines, with the same seed on the CPU and on the device: the decisions are the
// same, also where roll-outs lose the state or something comes behind them, and no step of a roll-out is the host's. Closed loops are the device's too.
func TestSearchesOfSystemsAreTheDevices(t *testing.T) {
	type driven struct {
		y        equations.System
		from     []float64 // a state to begin at; nil: an episode's
		look     int
		tries    int
		loses    bool // that some roll-outs lose the state
		untaught bool // by no bundled map
	}
	all := []driven{
		{y: cartpole.System(), look: 8, tries: 3},
		{y: cartpole.System(), from: []float64{0, 0, 1.2, 2}, look: 8, tries: 2, loses: true},
		{y: RunningOn()[0], look: 6, tries: 3, untaught: true},
	}
	if !testing.Short() {
		all = append(all, driven{y: quadrotor.System(), look: 8, tries: 2}, driven{y: chain.System(3), look: 6, tries: 2}, driven{y: hvac.System(), look: 12, tries: 2}, driven{y: RunningOn()[1], look: 4, tries: 2, untaught: true})
	}
	var cases []domain.Case
	var problems []domain.Problem
	for _, of := range all {
		c := require.Get(of.y.Case())(t)
		cases, problems = append(cases, c), append(problems, c.Problem)
	}
	cpu := require.Get(cpufallback.New(cpufallback.Options{Threads: 1}))(t)
	defer cpu.Close()
	device, adaptive := deviceOf(t, problems...), domain.Preference{Adaptive: true}
	for i, of := range all {
		c := cases[i]
		spec := c.Problem.Spec()
		t.Run(fmt.Sprint(spec.Name, of.from), func(t *testing.T) {
			var m *model.Model
			if of.untaught {
				m = testdomain.Untrained(rand.New(rand.NewPCG(5, 6)), spec, 6, 20, 24)
			} else {
				m = gallerysMap(t, spec.Name)
			}
			var by [2]*batchnav.Navigator
			var counts [2]asked
			for k, b := range []backend.Backend{cpu, device} {
				counts[k] = asked{c.Problem.(*equations.Problem), new(atomic.Int64), new(atomic.Int64)}
				by[k] = require.Get(batchnav.NewNavigator(b, m, counts[k], batchnav.Options{
					NoGuard: true, Search: batchnav.SearchOptions{Candidates: 64, LookAhead: of.look, Seed: 3},
				}))(t)
			}
			episode := require.Get(c.Plant.Episode(31, 1, domain.EpisodeOptions{Preference: adaptive}))(t)
			s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
			for try := range of.tries {
				if episode.Observe(s, cx); of.from != nil {
					copy(s, of.from)
				}
				want, got := require.Get(by[0].Decide(s, cx, adaptive))(t), require.Get(by[1].Decide(s, cx, adaptive))(t)
				if err := backendtest.Near(got.U, want.U, 1e-4); err != nil || got.Fallback != want.Fallback {
					t.Errorf("decision %d: fallback %v, on the CPU %v: %v", try, got.Fallback, want.Fallback, err)
				}
				require.Get(episode.Apply(slices.Clone(want.U)))(t)
			}
			episode.Observe(s, cx)
			var refined [2]*batchnav.Refinement
			for k, b := range []backend.Backend{cpu, device} {
				r := require.Get(batchnav.NewRefiner(b, m, counts[k], batchnav.Options{}, 40))(t)
				refined[k] = require.Get(r.Refine(t.Context(), batchnav.Observation{S: s, C: cx, Preference: adaptive}, batchnav.RefineOptions{Candidates: 40, FlowSteps: 1, Seed: 3, LookAhead: of.look}))(t)
			}
			if got, want := refined[1], refined[0]; math.Abs(got.Cost-want.Cost) > 1e-4*(1+math.Abs(want.Cost)) || got.Feasible != want.Feasible {
				t.Errorf("refined: cost %v, feasible %v; on the CPU %v, %v", got.Cost, got.Feasible, want.Cost, want.Feasible)
			}
			if !require.Get(batchnav.NewBatch(device, m, counts[1], batchnav.Options{}, 4))(t).OnDevice() {
				t.Error("closed loops are not on the device")
			}
			if counts[0].scored.Load() == 0 || counts[1].scored.Load() != 0 {
				t.Errorf("the host scored %d steps of the CPU's roll-outs and %d of the device's, want all and none", counts[0].scored.Load(), counts[1].scored.Load())
			}
			if lost := counts[0].lost.Load(); (lost > 0) != of.loses {
				t.Errorf("%d states were lost, want some: %v", lost, of.loses)
			}
		})
	}
}

// TestRoundsOfSystemsAreTheReferences holds costs, margins and the steps before a lost state, of roll-outs that meet one sooner, later or not at
// all, and of some with a horizon behind them, to the reference.
func TestRoundsOfSystemsAreTheReferences(t *testing.T) {
	const rows, steps = 24, 12
	ending := require.Get(cartpole.System().Case())(t).Problem
	lasting := require.Get(RunningOn()[0].Case())(t).Problem
	device := deviceOf(t, ending, lasting)
	for _, p := range []domain.Problem{ending, lasting} {
		spec, rng := p.Spec(), rand.New(rand.NewPCG(5, 6))
		m := testdomain.Untrained(rng, spec, 6, 20, 24)
		cfg := backend.RolloutsConfig{Steps: steps, MapConfig: backend.MapConfig{
			EncoderX: m.EncoderX, NormX: m.NormX, InverseRange: []float64{1, 1},
			Step: backend.StepperConfig{DecoderS: m.DecoderS, DecoderU: m.DecoderU, NormS: m.NormS, NormU: m.NormU, Problem: p, MaxBatch: rows, Params: backend.StepParams{Dt: 0.05, VMax: 1, Epsilon: 0.1, MetricLambda: 1e-3, TopK: 1, LieGain: 0.1, LieScale: 0.1}},
		}}
		rounds, twin := require.Get(device.NewRollouts(cfg))(t), backendtest.NewRollouts(cfg)
		counts := map[int]int{}
		for _, angle := range []float64{0.2, 0.9, 1.2} {
			in := backend.RolloutsInput{S: []float64{0.1, 0, angle, 0.5}, C: []float64{0.5, 0}[:spec.ContextSize()], Preference: domain.Preference{Adaptive: true}, Offsets: tensor.New(rows, steps*cfg.Width()), Steps: steps}
			for i := range in.Offsets.Data {
				in.Offsets.Data[i] = float32(3 * rng.NormFloat64())
			}
			known := false
			if in.TerminalCost, known = domain.AbilitiesOfProblem(p).PlanTerminalCost(in.S, in.C, steps, in.Preference); !known || (in.TerminalCost == nil) != (p == ending) {
				t.Fatalf("%s: behind plans comes %v, known: %v", spec.Name, in.TerminalCost, known)
			}
			input, slot := slices.Concat(in.S, in.C), make([]float64, spec.PreferenceSize())
			in.Preference.Slot(slot, 0)
			in.Z = make([]float32, cfg.Width())
			tensor.Narrow(in.Z, ref.Widen(m.EncoderX).Forward(ref.WidenNormalizer(m.NormX).Apply(append(input, slot...))))
			out := backend.RolloutsOutput{Cost: make([]float64, rows), Margin: make([]float64, rows), First: tensor.New(rows, spec.ActionSize()), Kept: make([]int, rows)}
			require.OK(t, rounds.Score(in, out))
			for i := range rows {
				o := make([]float64, in.Offsets.Cols)
				tensor.Widen(o, in.Offsets.Row(i))
				_, cost, margin, kept := twin.Score(in.S, in.C, in.Preference, o, steps, true)
				counts[kept]++
				if out.Kept[i] != kept {
					t.Errorf("%s, angle %v, candidate %d keeps %d steps, want %d", spec.Name, angle, i, out.Kept[i], kept)
				}
				if kept < steps {
					cost = out.Cost[i]
				}
				if err := backendtest.NearOrLost([]float64{out.Cost[i], out.Margin[i]}, []float64{cost, margin}, 1e-4); err != nil {
					t.Errorf("%s, angle %v, candidate %d: %v", spec.Name, angle, i, err)
				}
			}
		}
		if len(counts) < 3 || counts[steps] == 0 {
			t.Errorf("%s: so many candidates keep so many steps: %v", spec.Name, counts)
		}
	}
}

// gallerysMap is a bundled map.
func gallerysMap(t *testing.T, name string) *model.Model {
	t.Helper()
	f, err := models.Bundled.Open(name + ".safetensors")
	if err != nil {
		t.Skip("this build carries no maps")
	}
	defer f.Close()
	return require.Get(model.Read(f))(t)
}

// TestDeviceCodeOfEquations refuses what has none, and names equations by what they are.
func TestDeviceCodeOfEquations(t *testing.T) {
	c := require.Get(Systems()[0].Case())(t)
	again := require.Get(Systems()[0].Case())(t)
	one, two := require.Get(export.DeviceOf(c.Problem))(t), require.Get(export.DeviceOf(again.Problem))(t)
	if *one != *two || !strings.Contains(one.Text, "GPC_KERNEL(gpc_domain_rollout_"+one.Name+")") {
		t.Errorf("the same equations have the functions %s and %s", one.Name, two.Name)
	}
	y := Systems()[0]
	y.Source = nil
	if _, err := export.DeviceOf(require.Get(y.Case())(t).Problem); err == nil || !strings.Contains(err.Error(), "Source is nil") {
		t.Errorf("a system without a Source: %v", err)
	}
	tight := require.Get(c.Tightened(domain.NewBackoff(c.Problem.Spec())))(t)
	if _, err := export.DeviceOf(tight.Problem); err == nil || !strings.Contains(err.Error(), "keeps off") {
		t.Errorf("a problem that keeps off its limits: %v", err)
	}
}
