package integrator

import (
	"context"
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// BenchmarkScenario is one scenario of the dataset: its optimum, 20 tails and
// four perturbed, re-solved tails.
func BenchmarkScenario(b *testing.B) {
	for _, y := range systems(b) {
		b.Run(y.spec.Name, func(b *testing.B) {
			v := NewSolver(y, 200)
			if err := v.Prepare(context.Background(), 1, nil); err != nil {
				b.Fatal(err)
			}
			all := scenarios(100)
			rows := 0
			b.ResetTimer()
			for i := range b.N {
				s, err := v.Solve(i, all[i%100], domain.Preference{Adaptive: true}, domain.WeightedSum, 1)
				if err != nil {
					b.Fatal(err)
				}
				rows += len(s)
			}
			b.ReportMetric(float64(rows)/float64(b.N), "samples/op")
		})
	}
}

// BenchmarkProject is the projection of a decoded action, a third of the draws
// next to the ellipse.
func BenchmarkProject(b *testing.B) {
	y := systems(b)[0]
	s := []float64{-1.18, -0.5, 0.9, 0.1}
	c := []float64{0.9, 0.2, 0.3, 0.1, 0.5}
	u := make([]float64, 2)
	for i := range b.N {
		s[0] = -1.3 + 0.06*float64(i%3)
		u[0], u[1] = 1.6, 0.1
		y.Project(s, c, u)
	}
}

// BenchmarkOracleAgreement compares two libraries of 1000 on 200 test scenes;
// run with -benchtime 1x.
func BenchmarkOracleAgreement(b *testing.B) {
	for _, y := range systems(b) {
		for name, adaptive := range map[string]bool{"adaptive": true, "fixed": false} {
			b.Run(y.spec.Name+"/"+name, func(b *testing.B) {
				for range b.N {
					a := oracleAgreement(y, adaptive, 200, 1000)
					b.ReportMetric(float64(a.differ), "differ/200")
					b.ReportMetric(float64(a.unsolved), "unsolved/200")
					b.ReportMetric(100*a.worst, "worst_%")
				}
			})
		}
	}
}

// BenchmarkClosedLoop runs every method of the case over 50 test scenes (the
// grid method over 10) and reports failures, regret and time; run with
// -benchtime 1x.
func BenchmarkClosedLoop(b *testing.B) {
	pref := domain.Preference{Adaptive: true}
	for _, y := range systems(b) {
		plant := &Plant{system: y, oracle: newOracleOf(y, 1000, 7)}
		if _, err := plant.oracle.library(b.Context(), true); err != nil {
			b.Fatal(err)
		}
		for _, m := range methods(y) {
			b.Run(y.spec.Name+"/"+m.Name, func(b *testing.B) {
				ctl, err := m.New(domain.Means{})
				if err != nil {
					b.Fatal(err)
				}
				const episodes = 50
				for range b.N {
					failed, unsafe, n := 0, 0, 0
					sum, least := 0.0, math.Inf(1)
					for i := range episodes {
						ep, err := plant.Episode(1, i, domain.EpisodeOptions{Preference: pref})
						if err != nil {
							b.Fatal(err)
						}
						r := runEpisode(b, ep, ctl, pref)
						if !r.safe {
							unsafe++
						}
						if r.failed {
							failed++
							continue
						}
						n++
						sum += r.regret()
						least = min(least, r.regret())
					}
					b.ReportMetric(float64(failed)/float64(episodes), "failed")
					b.ReportMetric(float64(unsafe)/float64(episodes), "unsafe")
					b.ReportMetric(100*sum/float64(n), "regret_%")
					b.ReportMetric(100*least, "least_regret_%")
				}
			})
		}
	}
}
