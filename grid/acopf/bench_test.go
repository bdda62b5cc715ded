package acopf

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
)

func BenchmarkSingle(b *testing.B) {
	for _, name := range []string{"case30", "case39", "case118"} {
		net := load(b, name)
		for _, k := range kernels() {
			b.Run(fmt.Sprintf("%s/%v×%d", name, k.level, k.lanes), func(b *testing.B) {
				s, err := newSolver(net, Options{Threads: 1}, []kernel{k})
				if err != nil {
					b.Fatal(err)
				}
				problems, results := make([]Problem, 1), make([]Result, 1)
				b.ReportAllocs()
				for b.Loop() {
					if err := s.Solve(context.Background(), problems, results); err != nil || results[0].Status != Optimal {
						b.Fatal(err, results[0].Status)
					}
				}
			})
		}
	}
}

func BenchmarkPrograms(b *testing.B) {
	s, err := New(load(b, "case30"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	w := s.teams[0].workers.New().(*worker)
	w.run(&queue{ctx: context.Background(), problems: make([]Problem, 8), results: make([]Result, 8)})
	for i := range programCount {
		b.Run(fmt.Sprint(i), func(b *testing.B) {
			for b.Loop() {
				w.m.Run(i)
			}
			p := s.plan.programs[i]
			b.ReportMetric(float64(p.Operations()), "ops")
			b.ReportMetric(float64(p.Flops()*s.Lanes()*b.N)/float64(b.Elapsed().Nanoseconds()), "Gflop/s")
		})
	}
}

func BenchmarkBatch(b *testing.B) {
	net := load(b, "case30")
	for _, k := range kernels() {
		b.Run(fmt.Sprintf("%v×%d", k.level, k.lanes), func(b *testing.B) {
			s, err := newSolver(net, Options{Threads: 1}, []kernel{k})
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(3, 4))
			const n = 256
			problems, results := make([]Problem, n), make([]Result, n)
			for k := range problems {
				problems[k].Pd, problems[k].Qd = make([]float64, s.plan.nb), make([]float64, s.plan.nb)
				level := 0.6 + 0.38*rng.Float64()
				for i := range s.plan.nb {
					problems[k].Pd[i] = net.Pd[i] * level * (1 + 0.05*rng.NormFloat64())
					problems[k].Qd[i] = net.Qd[i] * level * (1 + 0.05*rng.NormFloat64())
				}
			}
			for b.Loop() {
				if err := s.Solve(context.Background(), problems, results); err != nil {
					b.Fatal(err)
				}
			}
			var iterations, bad int
			for i := range results {
				iterations += results[i].Iterations
				if results[i].Status != Optimal {
					bad++
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/solve")
			b.ReportMetric(float64(iterations)/n, "iterations")
			b.ReportMetric(float64(bad), "notoptimal")
		})
	}
}
