package acopf

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

func TestWarmDev(t *testing.T) {
	if os.Getenv("DEV") == "" {
		t.Skip()
	}
	net := load(t, "case30")
	s := newTestSolver(t, net, Options{Threads: 1})
	ideal, nadir, _ := s.PayoffTable(context.Background(), Problem{})
	ramp := scaled(net.PMax, 0.05)
	var chains []Chain
	for c := range 30 {
		p := trajectory(s, uint64(c), 60, 0.75, 0.04)
		if c%2 == 1 {
			for i := range p {
				p[i].Objective = Objective{Weights: [3]float64{1, 1, 1}}
			}
		}
		chains = append(chains, Chain{Problems: p, Results: make([]Result, 60), Ramp: ramp})
	}
	s.SolveChains(context.Background(), chains)
	it, mx, n, bad := 0, 0, 0, 0
	for _, c := range chains {
		for k, r := range c.Results[1:] {
			_ = k
			it += r.Iterations
			mx = max(mx, r.Iterations)
			n++
			if r.Status != Optimal {
				bad++
			}
		}
	}
	fmt.Printf("trajectory %.2f max %d bad %d | ", float64(it)/float64(n), mx, bad)
	var sweeps []Chain
	rng := rand.New(rand.NewPCG(1, 1))
	for range 60 {
		base := scenario(rng, net, 0.6+0.4*rng.Float64())
		base.BranchFactors = nil
		var ps []Problem
		for _, w := range Preferences() {
			q := base
			q.Objective = Objective{Weights: w, Ideal: ideal, Nadir: nadir}
			ps = append(ps, q)
		}
		sweeps = append(sweeps, Chain{Problems: ps, Results: make([]Result, len(ps)), Sweep: true})
	}
	s.SolveChains(context.Background(), sweeps)
	it, mx, n, bad = 0, 0, 0, 0
	for _, c := range sweeps {
		for _, r := range c.Results[1:] {
			it += r.Iterations
			mx = max(mx, r.Iterations)
			n++
			if r.Status != Optimal {
				bad++
			}
		}
	}
	fmt.Printf("sweep %.2f max %d bad %d\n", float64(it)/float64(n), mx, bad)
}
