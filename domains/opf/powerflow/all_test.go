package powerflow_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domains/opf/network"
	"github.com/gpc-engine/gpc/domains/opf/powerflow"
)

// TestManyAtOnceAreTheSameOnAnyThreads, bit by bit, and the same as one by one.
func TestManyAtOnceAreTheSameOnAnyThreads(t *testing.T) {
	n := load(t, "case39")
	s := solver(t, n)
	y := network.NewAdmittance(n.Branches())
	factors := make([]float64, n.Branches())
	for k := range factors {
		factors[k] = 1 + 0.01*float64(k%5)
	}
	if err := n.ScaleBranches(factors, y); err != nil {
		t.Fatal(err)
	}
	if err := s.SetAdmittance(y); err != nil {
		t.Fatal(err)
	}
	const count = 40
	in := make([]powerflow.Input, count)
	for k := range in {
		in[k].Pd = make([]float64, n.Buses())
		for b := range in[k].Pd {
			in[k].Pd[b] = n.Pd[b] * (0.8 + 0.01*float64(k))
		}
	}
	solve := func(threads int) []*powerflow.Solution {
		out := make([]*powerflow.Solution, count)
		for k := range out {
			out[k] = s.NewSolution()
		}
		if err := s.SolveAll(context.Background(), in, powerflow.Options{EnforceQ: true}, out, threads); err != nil {
			t.Fatal(err)
		}
		return out
	}
	one, three := solve(1), solve(3)
	for k := range one {
		if !one[k].Converged() || !slices.Equal(one[k].Vm, three[k].Vm) || !slices.Equal(one[k].Va, three[k].Va) || !slices.Equal(one[k].Qg, three[k].Qg) {
			t.Errorf("input %d: %v and %v", k, one[k].Status, three[k].Status)
		}
		if m := balance(n, y, in[k], three[k]); !(m <= 2e-9) {
			t.Errorf("input %d: %g pu is left over", k, m)
		}
	}
}

// TestManyAtOnceRefuse what one refuses, naming the input.
func TestManyAtOnceRefuse(t *testing.T) {
	n := load(t, "case9")
	s := solver(t, n)
	out := []*powerflow.Solution{s.NewSolution(), s.NewSolution()}
	in := []powerflow.Input{{}, {Pd: []float64{1}}}
	ctx := context.Background()
	if err := s.SolveAll(ctx, in, powerflow.Options{}, out, 2); err == nil || !strings.Contains(err.Error(), "input 1") {
		t.Errorf("error %v", err)
	}
	if s.SolveAll(ctx, in[:1], powerflow.Options{}, out, 1) == nil || s.SolveAll(ctx, in, powerflow.Options{}, out, 0) == nil ||
		s.SolveAll(ctx, in[:1], powerflow.Options{Start: powerflow.Warm}, out[:1], 1) == nil {
		t.Error("a wrong shape, no thread or a warm start was taken")
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.SolveAll(over, in[:1], powerflow.Options{}, out[:1], 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
