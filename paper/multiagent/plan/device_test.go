package plan

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout/rollouttest"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// A planner with an accelerator scores there, and decides what it decides on the CPU:
// as safe, and as cheap up to the tolerance of scores.
func TestPlansOnADevice(t *testing.T) {
	for name, moving := range map[string]bool{"static": false, "moving": true} {
		library := shim.NewMetered(shim.Device(t))
		device := on(t, library)
		y := system(t, moving)
		s, c := example(t, name)
		o := Default(moving)
		o.Candidates = 768
		var p [2]*Planner
		for k, means := range []domain.Means{{}, {Accelerator: device}} {
			var err error
			if p[k], err = New(y, o, means); err != nil {
				t.Fatal(err)
			}
		}
		u, v := make([]float64, world.MaxRobots*world.ActionSize), make([]float64, world.MaxRobots*world.ActionSize)
		for step := range 3 {
			want, err := p[0].Decide(s, c, adaptive, u)
			if err != nil {
				t.Fatal(err)
			}
			before := library.Calls("cuGraphLaunch")
			got, err := p[1].Decide(s, c, adaptive, v)
			if err != nil {
				t.Fatal(err)
			}
			launches := library.Calls("cuGraphLaunch") - before
			a, b := p[0].chose(), p[1].chose()
			if got.Solved() != want.Solved() || b.Feasible != a.Feasible || b.Candidates != a.Candidates ||
				!(math.Abs(b.Cost-a.Cost) <= rollouttest.Tolerances()[0].Value*math.Max(1, a.Cost)) {
				t.Errorf("%s, step %d: %v, %v on the device, %v, %v on the CPU", name, step, got.Solved(), b.Cost, want.Solved(), a.Cost)
			}
			// Of each robot's search the first candidates are one launch, all the others
			// that do not depend on scores one, and so is the whole descent.
			calls, rounds := 0, 1
			if step == 0 {
				rounds = 2
			}
			for round := range rounds {
				for i := range p[1].scene.Robots {
					n := p[1].split(i, round, rounds)
					calls += 2 + n.perturbed/rollout.Lanes + min(n.descent, 1)
				}
			}
			if launches != calls {
				t.Errorf("%s, step %d: %d launches, want %d", name, step, launches, calls)
			}
			y.Step(s, c, u, s, c)
		}
	}
}

// A fault of the device is the planner's error, and says so.
func TestFaultWhilePlanning(t *testing.T) {
	library := shim.Open(t)
	s, c := example(t, "moving")
	p, err := New(system(t, true), Default(true), domain.Means{Accelerator: on(t, library)})
	if err != nil {
		t.Fatal(err)
	}
	library.Fail("cuGraphLaunch", 1, 719)
	if _, err := p.Decide(s, c, adaptive, make([]float64, world.MaxRobots*world.ActionSize)); !driver.IsFault(err) {
		t.Errorf("a fault of the device is %v", err)
	}
}

// on is the CUDA backend on a driver.
func on(t *testing.T, d driver.Driver) *kernels.Backend {
	t.Helper()
	context, err := driver.Open(d, 0)
	if err != nil {
		t.Fatal(err)
	}
	device, err := kernels.New(context, kernels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { device.Close() })
	return device
}

// The navigator's loops stay on a device, and decide there what they decide on the CPU.
func TestNavigatorOnADevice(t *testing.T) {
	device := on(t, shim.Device(t))
	cpu, err := cpufallback.New(cpufallback.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer cpu.Close()
	y := system(t, true)
	v := view.New(y)
	m := untrained(t, v, 32, 64)
	s, c := example(t, "moving")
	var u [2][world.MaxRobots * world.ActionSize]float64
	for k, b := range []backend.Backend{cpu, device} {
		n := navigator(t, y, func() (domain.Controller, error) {
			loop, err := batchnav.NewNavigator(b, m, v, batchnav.Options{})
			if err != nil {
				return nil, err
			}
			return loop.Controller(), nil
		})
		if _, err := n.Decide(s, c, adaptive, u[k][:]); err != nil {
			t.Fatal(err)
		}
	}
	for e := range u[0] {
		if !(math.Abs(u[0][e]-u[1][e]) <= 1e-3) {
			t.Errorf("entry %d is %v on the CPU, %v on the device", e, u[0][e], u[1][e])
		}
	}
}
