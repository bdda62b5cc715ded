package gallery

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/models"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/images"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/model"
)

// onDevice are the systems whose functions are compiled for the device: an explicit step, an implicit one, and plants that run on,
// unless there is time for all.
func onDevice() []equations.System {
	if !testing.Short() {
		return append(Systems(), RunningOn()...)
	}
	return []equations.System{Systems()[0], Systems()[2], RunningOn()[0]}
}

// deviceOf opens the CUDA backend with the device functions of problems: the host shim with what is written of them built in, or,
// where tests run on PTX or a GPU, a device that they are compiled for.
func deviceOf(t *testing.T, problems ...domain.Problem) *kernels.Backend {
	t.Helper()
	var d driver.Driver
	if shim.OnGPU() || shim.OnPTX() {
		d = shim.Device(t)
	} else {
		sources := require.Get(require.Get(images.Find("."))(t).Sources("kernels"))(t)
		for _, p := range problems {
			code := require.Get(export.DeviceOf(p))(t)
			path := filepath.Join(t.TempDir(), code.Name+".cu")
			require.OK(t, os.WriteFile(path, []byte(code.Text), 0o600))
			sources = append(sources, path)
		}
		d = shim.OpenFiles(t, sources...)
	}
	b := require.Get(kernels.New(require.Get(driver.Open(d, 0))(t), kernels.Options{}))(t)
	b.Notify(func(text string) { t.Error(text) })
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
// where an action moves by less than 1e-9 of half its box, which rounding may find one round earlier, or nearer to its limits than the last digits of the state tell: off is the largest distance in
// that unit. What follows from the device's own action is held to it as closely as all else.
func projectedOnDevice(t *testing.T, b *kernels.Backend, p domain.Problem, at backend.DeviceRows) (moved int, off float64, errs []error) {
	t.Helper()
	got, spec := require.Get(b.DeviceStep(p, at, true))(t), p.Spec()
	for i := range at.S {
		have, u := backendtest.StepRow(got, spec, i), make([]float64, spec.ActionSize())
		for k, v := range at.U[i] {
			u[k] = float64(float32(v))
		}
		wanted := slices.Clone(u)
		keeps, moves, bound := p.Project(at.S[i], at.C[i], u), false, 2e-9
		if !keeps {
			bound = 1e-6 // the least violation: of a program whose rows differ by 1e4 in size, so that its Gram matrix loses half of the digits
		}
		for k, a := range spec.Action {
			half := (a.Hi - a.Lo) / 2
			if d := math.Abs(have[0][k]-u[k]) / half; !(d <= bound) && !(d <= bound+4*backendtest.Conditioned(p, at.S[i], at.C[i], wanted, true)[0]/half) {
				errs = append(errs, fmt.Errorf("%s, row %d: a projected action is %g half boxes off, and keeps the limits: %v", spec.Name, i, d, keeps))
			} else {
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
			if err := backendtest.NearOrLost(have[k], want, 1e-9); err != nil {
				errs = append(errs, fmt.Errorf("%s, row %d, result %d of the device's own action: %w", spec.Name, i, k, err))
			}
		}
	}
	return moved, off, errs
}

// TestSystemsAreSearchedOnTheDevice holds decisions of the gallery's maps whose candidates the device scores to those of the CPU, of the
// search and of refinement, and finds that closed loops are the device's.
func TestSystemsAreSearchedOnTheDevice(t *testing.T) {
	cpu := require.Get(cpufallback.New(cpufallback.Options{Threads: 1}))(t)
	defer cpu.Close()
	c := require.Get(Systems()[0].Case())(t)
	device := deviceOf(t, c.Problem)
	m := gallerysMap(t, c.Problem.Spec().Name)
	at := rowsOf(t, c, 1)
	obs := batchnav.Observation{S: at.S[0], C: at.C[0], Preference: domain.Preference{Adaptive: true}}
	var searched [2]*batchnav.Decision
	var refined [2]*batchnav.Refinement
	for i, b := range []backend.Backend{cpu, device} {
		n := require.Get(batchnav.NewNavigator(b, m, c.Problem, batchnav.Options{Search: batchnav.SearchOptions{Candidates: 40, LookAhead: 6}}))(t)
		searched[i] = require.Get(n.Decide(obs.S, obs.C, obs.Preference))(t)
		r := require.Get(batchnav.NewRefiner(b, m, c.Problem, batchnav.Options{}, 40))(t)
		refined[i] = require.Get(r.Refine(t.Context(), obs, batchnav.RefineOptions{Candidates: 40, FlowSteps: 1, Seed: 3, LookAhead: 6}))(t)
	}
	if searched[0].Fallback != searched[1].Fallback {
		t.Errorf("searched: fallback %v, on the CPU %v", searched[1].Fallback, searched[0].Fallback)
	}
	if err := backendtest.Near(searched[1].U, searched[0].U, 1e-4); err != nil {
		t.Errorf("searched: action: %v", err)
	}
	if got, want := refined[1], refined[0]; math.Abs(got.Cost-want.Cost) > 1e-4*(1+want.Cost) || got.Feasible != want.Feasible {
		t.Errorf("refined: cost %v, feasible %v; on the CPU %v, %v", got.Cost, got.Feasible, want.Cost, want.Feasible)
	}
	loops := require.Get(batchnav.NewBatch(device, m, c.Problem, batchnav.Options{}, 4))(t)
	if !loops.OnDevice() {
		t.Error("closed loops of a system are not on the device")
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
