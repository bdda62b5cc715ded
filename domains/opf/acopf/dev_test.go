package acopf

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

func TestSweepDev(t *testing.T) {
	if os.Getenv("DEV") == "" {
		t.Skip()
	}
	net := load(t, "case30")
	s, err := New(net, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	nl := 40
	warm := os.Getenv("WARM") != ""
	var ws [][3]float64
	for i := 0; i <= 5; i++ {
		for j := 0; i+j <= 5; j++ {
			ws = append(ws, [3]float64{float64(i) / 5, float64(j) / 5, float64(5-i-j) / 5})
		}
	}
	for i := range 29 {
		a := math.Pow(10, -4+4*float64(i)/29)
		f := float64(i%5) / 4
		ws = append(ws, [3]float64{a * f, a * (1 - f), 1 - a})
	}
	type key struct{ st Status }
	stats := map[Status]int{}
	perW := make([]map[Status]int, len(ws))
	itW := make([]int, len(ws))
	for i := range perW {
		perW[i] = map[Status]int{}
	}
	var chains []Chain
	for range nl {
		pd, qd := make([]float64, s.plan.nb), make([]float64, s.plan.nb)
		level := 0.6 + 0.8*rng.Float64()
		for i := range s.plan.nb {
			pd[i] = net.Pd[i] * level * (1 + 0.05*rng.NormFloat64())
			qd[i] = net.Qd[i] * level * (1 + 0.05*rng.NormFloat64())
		}
		var ps []Problem
		for _, w := range ws {
			ps = append(ps, Problem{Pd: pd, Qd: qd, Objective: Objective{Weights: w, Nadir: [3]float64{2e-3, 1e-3, 600}, Ideal: [3]float64{0, 0, 300}}})
		}
		if warm {
			chains = append(chains, Chain{Problems: ps, Results: make([]Result, len(ps)), Sweep: true})
		} else {
			for i := range ps {
				chains = append(chains, Chain{Problems: ps[i : i+1], Results: make([]Result, 1)})
			}
		}
	}
	t0 := time.Now()
	if err := s.SolveChains(context.Background(), chains); err != nil {
		t.Fatal(err)
	}
	el := time.Since(t0)
	n, its, k := 0, 0, 0
	for _, c := range chains {
		for _, r := range c.Results {
			stats[r.Status]++
			perW[k%len(ws)][r.Status]++
			if r.Status == Optimal {
				itW[k%len(ws)] += r.Iterations
			}
			k++
			its += r.Iterations
			n++
		}
	}
	for i, w := range ws {
		fmt.Printf("%.4f %.4f %.4f  %v  its %.1f\n", w[0], w[1], w[2], perW[i], float64(itW[i])/float64(max(1, perW[i][Optimal])))
	}
	fmt.Println(stats, "n", n, "its/solve", float64(its)/float64(n), "µs/solve", float64(el.Microseconds())/float64(n), "shifts", s.stats.shifts.Load(), "corr", s.stats.corrections.Load())
}
