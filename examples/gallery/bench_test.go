package gallery

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/equations"
	"github.com/gpc-engine/gpc/examples/gallery/cstr"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/offline/shooting"
)

// loop is ten decisions with the whole horizon ahead, as bench/peers/mpc has them, the first of
// them cold: random fixed weights, noise of 0.01 of each typical size on the state.
func loop(tb testing.TB, y *equations.System, c *domain.Case, controller *shooting.Receding, rng *rand.Rand, see func(decision int, status shooting.Status, took time.Duration)) {
	spec := c.Problem.Spec()
	at, s, ctx := make([]float64, len(y.Scenario)), make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	for i, v := range y.Scenario {
		at[i] = v.Lo + (v.Hi-v.Lo)*rng.Float64()
	}
	y.Initial(at, s, ctx)
	w := 0.1 + 0.8*rng.Float64()
	controller.Reset()
	for decision := range 10 {
		began := time.Now()
		status := must.Get(controller.Solve(s, ctx, y.Steps, domain.Preference{W: []float64{w, 1 - w}}))(tb)
		see(decision, status, time.Since(began))
		sn, cn := make([]float64, len(s)), make([]float64, len(ctx))
		c.Problem.Step(s, ctx, controller.Action(0), sn, cn)
		for i, v := range spec.Measured {
			scale := 1.0
			if v.Bounded() {
				scale = (v.Hi - v.Lo) / 2
			}
			sn[i] += 0.01 * scale * rng.NormFloat64()
		}
		s, ctx = sn, cn
	}
}

// BenchmarkReceding is a loop of ten decisions.
func BenchmarkReceding(b *testing.B) {
	for _, y := range Systems() {
		b.Run(y.Name, func(b *testing.B) {
			c := must.Get(y.Case())(b)
			controller := must.Get(c.Solver.(*shooting.Solver).Receding(shooting.RecedingOptions{}))(b)
			rng := rand.New(rand.NewPCG(991, 1))
			var cold, warm []time.Duration
			iterations, unsolved := 0, 0
			for b.Loop() {
				loop(b, &y, &c, controller, rng, func(decision int, status shooting.Status, took time.Duration) {
					if !status.Converged {
						unsolved++
					}
					if decision == 0 {
						cold = append(cold, took)
					} else {
						warm, iterations = append(warm, took), iterations+status.Iterations
					}
				})
			}
			slices.Sort(cold)
			slices.Sort(warm)
			b.ReportMetric(float64(cold[len(cold)/2].Nanoseconds())/1e3, "cold-p50-µs")
			b.ReportMetric(float64(warm[len(warm)/2].Nanoseconds())/1e3, "warm-p50-µs")
			b.ReportMetric(float64(warm[len(warm)*99/100].Nanoseconds())/1e3, "warm-p99-µs")
			b.ReportMetric(float64(iterations)/float64(len(warm)), "warm-iterations")
			b.ReportMetric(float64(unsolved), "unsolved")
		})
	}
}

// BenchmarkLibrary is what the reference of an episode costs less where its solver has a
// library of 24 (-benchtime 1x): in the mean and in how many of 24 starts, and what both take.
func BenchmarkLibrary(b *testing.B) {
	for _, y := range Systems() {
		b.Run(y.Name, func(b *testing.B) {
			y.Solver.Library = 24
			with := must.Get(y.Case())(b)
			y.Solver.Library = 0
			without := must.Get(y.Case())(b)
			began := time.Now()
			must.OK(b, with.Solver.Prepare(context.Background(), 0, nil))
			b.ReportMetric(time.Since(began).Seconds(), "library-s")
			b.ReportMetric(0, "ns/op")
			var took [2]time.Duration
			less, better, solved := 0.0, 0, 0
			for i := range 24 {
				var costs [2]float64
				for k, c := range []domain.Case{without, with} {
					ep, began := must.Get(c.Plant.Episode(991, i, adaptive))(b), time.Now()
					cost, _, err := ep.Oracle()
					if took[k] += time.Since(began); err != nil {
						cost = math.NaN()
					}
					costs[k] = cost
				}
				if gain := 1 - costs[1]/costs[0]; gain == gain {
					if solved++; gain > 1e-4 {
						better++
					}
					less += gain
				}
			}
			b.ReportMetric(100*less/float64(solved), "less-%")
			b.ReportMetric(float64(better), "better")
			b.ReportMetric(float64(solved), "solved")
			b.ReportMetric(took[0].Seconds()/24, "start-alone-s")
			b.ReportMetric(took[1].Seconds()/24, "start-with-s")
		})
	}
}

// TestWarmReactor: where noise takes the reactor beyond its temperature limit a warm start is
// still one. With room for the price of that violation from the start 72 decisions took 456
// iterations.
func TestWarmReactor(t *testing.T) {
	y := cstr.System()
	c := must.Get(y.Case())(t)
	controller := must.Get(c.Solver.(*shooting.Solver).Receding(shooting.RecedingOptions{}))(t)
	rng := rand.New(rand.NewPCG(991, 1))
	iterations := 0
	for range 8 {
		loop(t, &y, &c, controller, rng, func(decision int, status shooting.Status, _ time.Duration) {
			if decision > 0 {
				iterations += status.Iterations
			}
			if !status.Converged {
				t.Errorf("decision %d: KKT residual %.1e", decision, status.KKT)
			}
		})
	}
	if iterations > 320 {
		t.Errorf("%d iterations", iterations)
	}
}
