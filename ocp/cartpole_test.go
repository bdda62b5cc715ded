package ocp

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// poleByDifferences hides the dual numbers.
type poleByDifferences struct{ domain.Problem }

func newPole(problem domain.Problem, opt Options) *Solver {
	opt.StateScale = []float64{1, 1, 0.3, 1}
	s, err := New(problem, testdomain.PoleAxes, func(p, s, c []float64) {
		copy(s, p[:4])
		c[0], c[1] = p[4], 0
	}, opt)
	if err != nil {
		panic(err)
	}
	return s
}

func BenchmarkCartpoleCold(b *testing.B) {
	solver := newPole(testdomain.Pole{}, Options{})
	rng := rand.New(rand.NewPCG(991, 1))
	n := 0
	for b.Loop() {
		s, c := testdomain.PoleStart(rng)
		w := rng.Float64()
		if _, err := solver.Minimise(s, c, testdomain.PoleSteps, domain.Preference{W: []float64{w, 1 - w}}, domain.WeightedSum, 1); err != nil {
			b.Error(err)
		}
		n++
	}
	k := solver.Counts()
	b.ReportMetric(float64(k.Iterations)/float64(k.Starts), "iterations")
}

// BenchmarkReceding is a decision of 40 steps along closed loops with noise on both
// speeds, warm: the first of every episode is not counted.
func BenchmarkReceding(b *testing.B) {
	for _, c := range []struct {
		name    string
		problem domain.Problem
	}{{"dual", testdomain.Pole{}}, {"differences", poleByDifferences{testdomain.Pole{}}}} {
		b.Run(c.name, func(b *testing.B) {
			var times []time.Duration
			var iterations []int
			controller, err := newPole(c.problem, Options{}).Receding(0, 0)
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(991, 1))
			for b.Loop() {
				drivePole(controller, rng, 0.02, func(decision int, _ Status, took time.Duration) {
					if decision > 0 {
						times, iterations = append(times, took), append(iterations, controller.status.Iterations)
					}
				})
			}
			slices.Sort(times)
			slices.Sort(iterations)
			at := func(q float64) int { return int(q * float64(len(times)-1)) }
			b.ReportMetric(float64(times[at(0.5)].Nanoseconds())/1e3, "p50-µs")
			b.ReportMetric(float64(times[at(0.99)].Nanoseconds())/1e3, "p99-µs")
			b.ReportMetric(float64(iterations[at(0.5)]), "p50-iterations")
			b.ReportMetric(float64(iterations[at(0.99)]), "p99-iterations")
		})
	}
}

// drivePole is an episode of 40 decisions from a random start under a random
// preference.
func drivePole(controller *Receding, rng *rand.Rand, noise float64, see func(decision int, status Status, took time.Duration)) {
	s, c := testdomain.PoleStart(rng)
	w := rng.Float64()
	pref := domain.Preference{W: []float64{w, 1 - w}}
	controller.Reset()
	for decision := range testdomain.PoleSteps {
		began := time.Now()
		status, err := controller.Solve(s, c, testdomain.PoleSteps, pref)
		took := time.Since(began)
		if err != nil {
			panic(err)
		}
		see(decision, status, took)
		var sn [4]float64
		var cn [2]float64
		testdomain.Pole{}.Step(s, c, controller.Action(0), sn[:], cn[:])
		sn[1] += noise * rng.NormFloat64()
		sn[3] += noise * rng.NormFloat64()
		copy(s, sn[:])
		copy(c, cn[:])
	}
}
