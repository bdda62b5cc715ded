package acopf

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// load is a network that is shipped with the project, or "features", which has
// everything that a case file may have.
func load(tb testing.TB, name string) *network.Network {
	tb.Helper()
	if name != "features" {
		return networktest.Load(tb, name)
	}
	f, err := os.Open("testdata/features.m")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	c, err := matpower.Read(name, f)
	if err != nil {
		tb.Fatal(err)
	}
	return networktest.Of(tb, c)
}

// kernels lists every way to run programs that this CPU and build have.
func kernels() (out []kernel) {
	for _, level := range isa.Available() {
		for _, n := range lanes.Widths(level) {
			out = append(out, kernel{level, n})
		}
	}
	return out
}

// scenario is a random problem: loads about a level, branch factors, weights.
func scenario(rng *rand.Rand, net *network.Network, level float64) Problem {
	var pr Problem
	for b := range net.Buses() {
		pr.Pd = append(pr.Pd, net.Pd[b]*level*(1+0.05*rng.NormFloat64()))
		pr.Qd = append(pr.Qd, net.Qd[b]*level*(1+0.05*rng.NormFloat64()))
	}
	for range net.Branches() {
		pr.BranchFactors = append(pr.BranchFactors, 0.9+0.2*rng.Float64())
	}
	return pr
}

func newTestSolver(tb testing.TB, net *network.Network, opt Options) *Solver {
	tb.Helper()
	s, err := New(net, opt)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}
