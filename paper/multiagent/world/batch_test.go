package world

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
)

// The batched roll-out of joint plans agrees with the prediction in float64, in
// cost, smallest margin and gradient, on scenes of both cases.
func TestBatchedHorizonAgreesWithFloat64(t *testing.T) {
	for _, level := range isa.Available() {
		t.Run(level.String(), func(t *testing.T) {
			e := rollout.On(level)
			rng := rand.New(rand.NewPCG(3, 4))
			for trial := range 20 {
				y := system(t, trial%2 == 0)
				if trial%4 == 0 {
					y = double(t)
				}
				h := drawn(t, y, rng)
				w := []float64{0.3, 0.5, 0.2}
				problem := h.Joint(w)
				plans := make([]float32, MaxRobots*rollout.PlanSize(Horizon))
				lanes := make([][]float64, rollout.Lanes)
				for l := range lanes {
					lanes[l] = randomPlan(rng, h, Horizon)
					for k := range Horizon {
						for i := range h.Robots {
							for f, v := range h.Action(lanes[l], k, i) {
								at := i*rollout.PlanSize(Horizon) + (k*2+f)*rollout.Lanes + l
								plans[at] = float32(v)
								h.Action(lanes[l], k, i)[f] = float64(plans[at])
							}
						}
					}
				}
				var got rollout.Result
				out := make([]float32, len(plans))
				e.Evaluate(problem, plans, rollout.NewWorkspace(MaxRobots, Horizon), &got, out)
				weights := y.Params.Weights(w)
				for l, plan := range lanes {
					var J [Terms]float64
					var margins [MarginKinds]float64
					path := h.evaluate(plan, Horizon, &J, &margins)
					cost := 0.0
					for i, w := range weights {
						cost += w * J[i]
					}
					if math.Abs(float64(got.Cost[l])-cost) > 1e-4*cost {
						t.Fatalf("trial %d, lane %d: cost %v, in float64 %v", trial, l, got.Cost[l], cost)
					}
					low := min(margins[0], margins[1], margins[2], rollout.Reach)
					if math.Abs(float64(got.Low[l])-low) > 1e-4 {
						t.Fatalf("trial %d, lane %d: margin %v, in float64 %v", trial, l, got.Low[l], low)
					}
					g := make([]float64, len(plan))
					gs := make([][StateSize]float64, h.Robots)
					h.gradient(path, plan, Horizon, &weights, g, gs)
					size := 1.0
					for _, v := range g {
						size = math.Max(size, math.Abs(v))
					}
					for k := range Horizon {
						for i := range h.Robots {
							for f, v := range h.Action(g, k, i) {
								if d := math.Abs(float64(out[i*rollout.PlanSize(Horizon)+(k*2+f)*rollout.Lanes+l]) - v); d > 1e-3*size {
									t.Fatalf("trial %d, lane %d: derivative of robot %d, step %d is off by %v of %v", trial, l, i, k, d, size)
								}
							}
						}
					}
				}
			}
		})
	}
}

// BenchmarkRollout is the exact roll-out, cost and margins of one joint candidate
// of a test scene with six robots and fifteen obstacles, H 8, beside the same in
// scalar float64.
func BenchmarkRollout(b *testing.B) {
	y := system(b, true)
	rng := rand.New(rand.NewPCG(3, 4))
	h := drawn(b, y, rng)
	for h.Robots != MaxRobots || len(h.Obstacles) != MaxObstacles {
		h = drawn(b, y, rng)
	}
	plan := randomPlan(rng, h, Horizon)
	plans := make([]float32, MaxRobots*rollout.PlanSize(Horizon))
	for i := range h.Robots {
		for k := range Horizon {
			for f, v := range h.Action(plan, k, i) {
				for l := range rollout.Lanes {
					plans[i*rollout.PlanSize(Horizon)+(k*2+f)*rollout.Lanes+l] = float32(v + 0.1*float64(l))
				}
			}
		}
	}
	for _, level := range isa.Available() {
		b.Run(fmt.Sprint(level), func(b *testing.B) {
			e, work, problem := rollout.On(level), rollout.NewWorkspace(MaxRobots, Horizon), h.Joint(Thirds)
			var result rollout.Result
			for b.Loop() {
				e.Evaluate(problem, plans, work, &result, nil)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rollout.Lanes, "ns/candidate")
		})
	}
	b.Run("float64", func(b *testing.B) {
		var J [Terms]float64
		var m [MarginKinds]float64
		for b.Loop() {
			h.evaluate(plan, Horizon, &J, &m)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/candidate")
	})
}
