package acopf

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

func TestFalseDev(t *testing.T) {
	if os.Getenv("DEV") == "" {
		t.Skip()
	}
	for _, name := range []string{"case30", "case39"} {
		net := load(t, name)
		s := newTestSolver(t, net, Options{Threads: 1})
		rng := rand.New(rand.NewPCG(3, 9))
		const n = 1500
		ps, rs := make([]Problem, n), make([]Result, n)
		for i := range ps {
			ps[i] = scenario(rng, net, 0.85+0.3*rng.Float64())
		}
		s.Solve(context.Background(), ps, rs)
		st := map[Status]int{}
		var starts []*Result
		for i := range rs {
			st[rs[i].Status]++
			if rs[i].Status == Optimal && len(starts) < 5 {
				starts = append(starts, &rs[i])
			}
		}
		found := map[Status]int{}
		other := 0
		for i := range rs {
			if rs[i].Status == Optimal {
				continue
			}
			for _, b := range starts {
				q := ps[i]
				q.Start = b
				r := make([]Result, 1)
				s.Solve(context.Background(), []Problem{q}, r)
				if r[0].Status == Optimal {
					found[rs[i].Status]++
					break
				}
			}
		}
		worse := 0
		for i := range rs {
			if rs[i].Status != Optimal {
				continue
			}
			q := ps[i]
			q.Start = starts[i%5]
			r := make([]Result, 1)
			s.Solve(context.Background(), []Problem{q}, r)
			if r[0].Status != Optimal {
				worse++
			} else if d := r[0].Objective - rs[i].Objective; d > 1e-6*rs[i].Objective || d < -1e-6*rs[i].Objective {
				other++
			}
		}
		fmt.Println(name, st, "found by other starts", found, "warm failed", worse, "other optimum", other)
	}
}
