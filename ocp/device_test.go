package ocp_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/cstr"
	"github.com/gpc-engine/gpc/examples/gallery/quadrotor"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/ocp"
)

// endless is a nonlinear reactor that runs on, with a cost beyond its horizon.
func endless() equations.System {
	y := cstr.System()
	y.Horizon, y.Steps = 15, 100
	return y
}

// flight is the quadrotor's problem, and gallerySolver the solver of one, with few perturbed states and a tight tolerance.
var flight = sync.OnceValues(func() (*equations.Problem, error) { return equations.New(quadrotor.System()) })

func gallerySolver(t *testing.T, p *equations.Problem, y equations.System, starts int) *ocp.Solver {
	t.Helper()
	opt := ocp.Options{Perturbed: 3, PerturbScale: 0.1, Tolerance: 1e-9, Starts: starts, StateScale: y.StateScale, Follow: 3}
	if opt.TerminalCost = y.Horizon > 0; opt.TerminalCost {
		opt.Horizon, opt.Keep = 2*y.Horizon, y.Horizon
	}
	return require.Get(ocp.New(p, y.Scenario, func(p, s, c []float64) { clear(c); y.Initial(p, s, c) }, opt))(t)
}

func solved(t *testing.T, s domain.Solver, pref domain.Preference) []domain.Sample {
	t.Helper()
	p := make([]float64, len(s.Parameters()))
	for j, v := range s.Parameters() {
		p[j] = v.Lo + (v.Hi-v.Lo)*(0.3+0.1*float64(j%5))
	}
	return require.Get(s.Solve(0, p, pref, domain.WeightedSum, 7))(t)
}

// apart is the largest difference of the plans of samples; +Inf where there are others.
func apart(a, b []domain.Sample) (worst float64) {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	for i := range a {
		for j, u := range a[i].U {
			worst = max(worst, math.Abs(u-b[i].U[j]))
		}
	}
	return worst
}

// Plans of a device that meet the conditions of a solve are the samples, almost without iterations of the CPU: of a nonconvex
// system with limits, of an adaptive priority, of a plant that runs on, and under several starts.
func TestSamplesOfADevice(t *testing.T) {
	adaptive, fixed := domain.Preference{Adaptive: true}, domain.Preference{W: []float64{0.6, 0.4}}
	flies, reacts := require.Get(flight())(t), require.Get(equations.New(endless()))(t)
	for name, c := range map[string]struct {
		plain *ocp.Solver
		pref  domain.Preference
	}{
		"limits": {gallerySolver(t, flies, quadrotor.System(), 1), fixed}, "adaptive": {gallerySolver(t, flies, quadrotor.System(), 1), adaptive},
		"runs on": {gallerySolver(t, reacts, endless(), 1), adaptive}, "starts": {gallerySolver(t, flies, quadrotor.System(), 3), fixed},
	} {
		want := solved(t, c.plain, c.pref)
		twin, device := ocp.NewTwin(c.plain)
		got := solved(t, device, c.pref)
		worst := apart(got, want)
		counts, alone := device.Counts(), c.plain.Counts()
		t.Logf("%s: %d jobs in %d batches, %d iterations by the CPU, %d without a device, %.1e apart", name, twin.Jobs.Load(), twin.Batches.Load(), counts.Iterations, alone.Iterations, worst)
		if !(worst <= 1e-7) {
			t.Errorf("%s: the samples differ from those of the CPU by %.1e", name, worst)
		}
		if counts.Iterations*20 > alone.Iterations {
			t.Errorf("%s: %d iterations by the CPU, %d without a device", name, counts.Iterations, alone.Iterations)
		}
	}
}

// What a device gets wrong the CPU solves, as it would without one. From another plan it may come to the optimum itself.
func TestADeviceThatErrs(t *testing.T) {
	pref := domain.Preference{Adaptive: true}
	plain := gallerySolver(t, require.Get(flight())(t), quadrotor.System(), 1)
	want := solved(t, plain, pref)
	for name, spoil := range map[string]func(*domain.PlanSolution){
		"unsolved": func(s *domain.PlanSolution) { s.Solved = false },
		"NaN":      func(s *domain.PlanSolution) { s.Actions[3] = math.NaN() },
		"nothing":  func(s *domain.PlanSolution) { *s = domain.PlanSolution{Solved: true} },
		"outside":  func(s *domain.PlanSolution) { s.Actions[3] = 2 },
		"another plan": func(s *domain.PlanSolution) {
			clear(s.Gains)
			for i := range s.Actions {
				s.Actions[i] = 0.9 * math.Sin(float64(i))
			}
		},
		"multipliers": func(s *domain.PlanSolution) { clear(s.Lower); clear(s.Upper); clear(s.Limits); s.Barrier = math.NaN() },
		"an error":    nil,
	} {
		twin, device := ocp.NewTwin(plain)
		if twin.Err = fmt.Errorf("out of memory: %w", errors.ErrUnsupported); spoil != nil {
			twin.Err, twin.Spoil = nil, func(job *domain.PlanJob) { spoil(&job.Solution) }
		}
		if got := solved(t, device, pref); !(apart(got, want) <= 1e-7) || name != "another plan" && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: samples differ from those of the CPU, by %.1e", name, apart(got, want))
		}
		if n := twin.Batches.Load(); spoil == nil && n != 1 {
			t.Errorf("%d batches of a device that failed, want 1", n)
		}
	}
}

// A fault of a device that nothing goes on for ends the solve.
func TestAFaultOfADeviceEndsTheSolve(t *testing.T) {
	twin, device := ocp.NewTwin(gallerySolver(t, require.Get(flight())(t), quadrotor.System(), 1))
	twin.Err = errors.New("the device is lost")
	if _, err := device.Solve(0, make([]float64, len(device.Parameters())), fixed, domain.WeightedSum, 1); !errors.Is(err, twin.Err) {
		t.Errorf("got %v, want %v", err, twin.Err)
	}
}

// A solve by a device ends with its context, and the solver solves on.
func TestASolveByADeviceEnds(t *testing.T) {
	twin, device := ocp.NewTwin(gallerySolver(t, require.Get(flight())(t), quadrotor.System(), 1))
	ctx, cancel := context.WithCancel(t.Context())
	twin.Spoil = func(*domain.PlanJob) { cancel() }
	p := make([]float64, len(device.Parameters()))
	if _, err := device.Until(ctx).Solve(0, p, fixed, domain.WeightedSum, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
	twin.Spoil = nil
	solved(t, device, fixed)
}
