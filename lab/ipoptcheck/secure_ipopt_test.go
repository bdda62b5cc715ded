//go:build ipopt

package ipoptcheck

import (
	"context"
	"math"
	"testing"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/secure"
)

// With the outages that a secure dispatch was found with, IPOPT's optimum of another formulation,
// complementarities as products, costs the same to 1e-6. On 118 buses it ends at another local optimum,
// which is no better.
func TestSameSecureOptimumAsIPOPT(t *testing.T) {
	for _, c := range []struct {
		name  string
		scale float64
		units bool
		local bool // IPOPT may end higher
	}{{"case_ieee30", 0.9, true, false}, {"case39", 0.9, false, false}, {"pglib_opf_case57_ieee", 0.6, false, false}, {"pglib_opf_case118_ieee", 0.9, false, true}} {
		if c.local && testing.Short() {
			continue // IPOPT takes minutes
		}
		n := networktest.Load(t, c.name)
		opt := secure.DefaultOptions()
		opt.Outages = secure.Branches(n)
		if c.units {
			opt.Outages = append(opt.Outages, secure.Units(n)...)
		}
		ours := solveSecure(t, n, &opt, c.scale)
		pd, qd := n.Loads(c.scale)
		s, err := secure.New(n, opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, start := range []*secure.Result{ours, nil} {
			if c.local && start == nil {
				continue
			}
			program, err := newSecure(n, pd, qd, ours.Remembered, opt.Emergency, opt.Band, s.Shares(), start)
			if err != nil {
				t.Fatal(err)
			}
			theirs := program.Solve()
			program.Close()
			gap := (ours.Objective - theirs.Objective) / theirs.Objective
			t.Logf("%s, %d outages remembered, from our dispatch %v: ours %.6f after %d iterations, IPOPT's %.6f (status %d after %d), relative difference %.1e",
				c.name, len(ours.Remembered), start != nil, ours.Objective, ours.Iterations, theirs.Objective, theirs.Status, theirs.Iterations, gap)
			if c.local {
				gap = max(gap, 0)
			}
			if !(theirs.Optimal && math.Abs(gap) <= 1e-6) {
				t.Errorf("%s: ours %.9g, IPOPT's %.9g with status %d", c.name, ours.Objective, theirs.Objective, theirs.Status)
			}
		}
	}
}

// solveSecure finds a secure dispatch, without the outages that none survives.
func solveSecure(t *testing.T, n *network.Network, opt *secure.Options, scale float64) *secure.Result {
	t.Helper()
	for range 10 {
		s, err := secure.New(n, *opt)
		if err != nil {
			t.Fatal(err)
		}
		var pr secure.Problem
		pr.Pd, pr.Qd = n.Loads(scale)
		r, err := s.Solve(context.Background(), pr)
		if err != nil {
			t.Fatal(err)
		}
		if r.Status == secure.Secure {
			return r
		}
		t.Logf("%s: %s", n.Name, r.Reason)
		hopeless := map[secure.Outage]bool{}
		for _, g := range r.Relaxations {
			hopeless[g.Outage] = true
		}
		for _, c := range r.After {
			if !c.Solved {
				hopeless[c.Outage] = true
			}
		}
		var left []secure.Outage
		for _, o := range opt.Outages {
			if !hopeless[o] {
				left = append(left, o)
			}
		}
		opt.Outages = left
	}
	t.Fatalf("%s: no list of outages that a dispatch survives", n.Name)
	return nil
}
