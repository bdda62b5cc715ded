package gallery

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/quadrotor"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/images"
	"github.com/gpc-engine/gpc/kernels/ptx/device"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/ocp"
)

func TestZZPlans(t *testing.T) {
	for _, y := range []equations.System{quadrotor.System()} {
		c := require.Get(y.Case())(t)
		solver := c.Solver.(*ocp.Solver)
		tolerance, iterations := solver.Bounds()
		steps, n := 20, 12
		if os.Getenv("ZZN") != "" { steps, n = 6, 2 }
		if os.Getenv("ZZN") == "50" { steps, n = 50, 4 }
		text := require.Get(export.PlansOf(c.Problem, steps, tolerance, iterations))(t)
		var d driver.Driver
		if os.Getenv("ZZN") == "50" {
			o, err := device.ParseOptions("count")
			require.OK(t, err)
			dd := device.New(o)
			d = dd
			defer func() {
				for _, c := range dd.Counts() {
					t.Log(c.Kernel, c.Warps, c.Lanes, c.Branches, c.Divergent, c.Spaces)
				}
			}()
		} else if shim.OnPTX() || shim.OnGPU() {
			d = shim.Device(t)
		} else {
			sources := require.Get(require.Get(images.Find("."))(t).Sources("kernels"))(t)
			path := filepath.Join(t.TempDir(), text.Name+".cu")
			require.OK(t, os.WriteFile(path, []byte(text.Text), 0o600))
			d = shim.OpenFiles(t, append(sources, path)...)
		}
		b := require.Get(kernels.New(require.Get(driver.Open(d, 0))(t), kernels.Options{}))(t)
		plans := require.Get(b.NewPlans(c.Problem, steps, tolerance, iterations))(t)
		axes := solver.Parameters()
		rng := rand.New(rand.NewPCG(1, 2))
		spec := c.Problem.Spec()
		var jobs []*domain.PlanJob
		var all []*ocp.Trajectory
		for i := range n {
			p := make([]float64, len(axes))
			for k, a := range axes {
				p[k] = a.Lo + (a.Hi-a.Lo)*rng.Float64()
			}
			s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
			solver.Abilities().Start(p, s, cx)
			u := make([]float64, spec.ActionSize())
			c.Problem.Fallback(s, cx, u)
			j := &domain.PlanJob{S: s, C: cx, Steps: steps, Preference: domain.Preference{Adaptive: i%2 == 0}, Held: true, Barrier: 0.3}
			if i%2 == 1 {
				j.Preference.W = make([]float64, len(spec.Objectives))
				for k := range j.Preference.W {
					j.Preference.W[k] = 1 / float64(len(spec.Objectives))
				}
			}
			for range steps {
				for k, a := range spec.Action {
					j.Start = append(j.Start, max(-0.9, min(0.9, (u[k]-(a.Lo+a.Hi)/2)/((a.Hi-a.Lo)/2))))
				}
			}
			best, err := solver.Minimise(s, cx, steps, j.Preference, "", 1)
			if err != nil {
				t.Log(err)
				continue
			}
			jobs, all = append(jobs, j), append(all, best)
		}
		require.OK(t, plans.Solve(t.Context(), jobs))
		for i, j := range jobs {
			worst := 0.0
			for k, v := range j.Solution.Actions {
				a := spec.Action[k%len(u0(spec))]
				worst = math.Max(worst, math.Abs(v-(all[i].U[k/len(spec.Action)][k%len(spec.Action)]-(a.Lo+a.Hi)/2)/((a.Hi-a.Lo)/2)))
			}
			t.Log(j.Solution.Solved, j.Solution.Iterations, all[i].Iterations, j.Solution.Cost, all[i].Cost, j.Solution.KKT, worst)
		}
	}
}

func u0(s *domain.Spec) []domain.Variable { return s.Action }
