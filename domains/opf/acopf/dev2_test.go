package acopf

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

func TestTraceDev(t *testing.T) {
	if os.Getenv("DEV2") == "" {
		t.Skip()
	}
	var w0, w1, w2 float64
	fmt.Sscan(os.Getenv("DEV2"), &w0, &w1, &w2)
	net := load(t, "case30")
	s, err := New(net, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		pd, qd := make([]float64, s.plan.nb), make([]float64, s.plan.nb)
		level := 0.6 + 0.8*rng.Float64()
		for i := range s.plan.nb {
			pd[i] = net.Pd[i] * level * (1 + 0.05*rng.NormFloat64())
			qd[i] = net.Qd[i] * level * (1 + 0.05*rng.NormFloat64())
		}
		ps := []Problem{{Pd: pd, Qd: qd, Objective: Objective{Weights: [3]float64{w0, w1, w2}, Nadir: [3]float64{2e-3, 1e-3, 600}, Ideal: [3]float64{0, 0, 300}}}}
		r := make([]Result, 1)
		s.Solve(context.Background(), ps, r)
		if r[0].Status == IterationLimit || r[0].Status == Numerical {
			trace = func(w *worker, l int, aP, aD float64) {
				p, m := w.plan, w.m
				fmt.Printf("%3d mode %d f %.6f g %.2e r %.2e grad %.2e comp %.2e mu %.2e shift %.1e aP %.3f aD %.3f res %.1e/%.1e L %.1e Z %.1e\n", w.lane[l].iteration, w.lane[l].mode, w.objective(l), m.Get(p.maxG[0], l),
					m.Get(p.sumR[0], l), m.Get(p.maxGrad[0], l), m.Get(p.comp[0], l), m.Get(p.mu[0], l), w.lane[l].shift, aP, aD, m.Get(p.maxRes[0], l), m.Get(p.maxRhs[0], l), m.Get(p.maxL[0], l), m.Get(p.maxZ[0], l))
			}
			s.Solve(context.Background(), ps, r)
			trace = nil
			return
		}
	}
}
