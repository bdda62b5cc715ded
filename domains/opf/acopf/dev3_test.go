package acopf

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

func TestRandomDev(t *testing.T) {
	if os.Getenv("DEV3") == "" {
		t.Skip()
	}
	for _, name := range []string{"case9", "case14", "case30", "case_ieee30", "case39", "case118"} {
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
		t0 := time.Now()
		s.Solve(context.Background(), problems, results)
		el := time.Since(t0)
		st := map[Status]int{}
		it := map[Status]int{}
		mx := 0
		for _, r := range results {
			st[r.Status]++
			it[r.Status] += r.Iterations
			if r.Status == Optimal {
				mx = max(mx, r.Iterations)
			}
		}
		fmt.Println(name, st, it, "max optimal it", mx, el/n, "shifts", s.stats.shifts.Load(), "corr", s.stats.corrections.Load())
	}
}
