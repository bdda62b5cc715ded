package acopf

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

func TestTrace4Dev(t *testing.T) {
	name := os.Getenv("DEV4")
	if name == "" {
		t.Skip()
	}
	skip := 0
	fmt.Sscan(os.Getenv("SKIP"), &skip)
	net := load(t, name)
	s, err := New(net, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	const n = 400
	problems, results := make([]Problem, n), make([]Result, n)
	for k := range problems {
		problems[k].Pd, problems[k].Qd = make([]float64, s.plan.nb), make([]float64, s.plan.nb)
		level := 0.5 + 0.9*rng.Float64()
		for i := range s.plan.nb {
			problems[k].Pd[i] = net.Pd[i] * level * (1 + 0.1*rng.NormFloat64())
			problems[k].Qd[i] = net.Qd[i] * level * (1 + 0.1*rng.NormFloat64())
		}
		problems[k].BranchFactors = make([]float64, s.plan.nl)
		for i := range s.plan.nl {
			problems[k].BranchFactors[i] = 1 + 0.05*rng.NormFloat64()
		}
	}
	s.Solve(context.Background(), problems, results)
	for i := range results {
		if results[i].Status == IterationLimit {
			if skip > 0 {
				skip--
				continue
			}
			trace = func(w *worker, l int, aP, aD float64) {
				p, m := w.plan, w.m
				fmt.Printf("%3d m%d f %.6f g %.2e W %.2e r %.2e grad %.2e comp %.2e mu %.2e sh %.1e aP %.3f aD %.3f res %.1e/%.1e L %.1e Z %.1e\n", w.lane[l].iteration, w.lane[l].mode, w.objective(l), m.Get(p.maxG[0], l), w.mismatch(l),
					m.Get(p.sumR[0], l), m.Get(p.maxGrad[0], l), m.Get(p.comp[0], l), m.Get(p.mu[0], l), w.lane[l].shift, aP, aD, m.Get(p.maxRes[0], l), m.Get(p.maxRhs[0], l), m.Get(p.maxL[0], l), m.Get(p.maxZ[0], l))
			}
			s.Solve(context.Background(), problems[i:i+1], results[:1])
			trace = nil
			return
		}
	}
}
