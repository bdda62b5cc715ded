package secure

import (
	"context"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/grid/acopf"
)

// Where set-points fill more than one tile and one pass, a direction in lanes solves the matrix of all states, and the
// Schur complements are those that pivots chosen by size leave.
func TestTilesOfSetPoints(t *testing.T) {
	p := bordered(t, "case118", false)
	if nodes := (len(p.sys.after.setPoints) + 3) / 4; nodes <= tileNodes {
		t.Fatalf("%d nodes of set-points, want more than a tile's %d", nodes, tileNodes)
	}
	if !p.factorise() || p.pivoted {
		t.Fatalf("lanes do not give the inertia")
	}
	p.factorWith(0, 0)
	p.direction(1, false)
	if worst, size := p.residual(); p.pivoted || !(worst <= laneTolerance*size) {
		t.Errorf("pivots chosen: %v, the direction is off by %g of %g", p.pivoted, worst, size)
	}
	var inLanes [][]float64
	for at := range p.states[1:] {
		inLanes = append(inLanes, p.borderInLanes(at))
	}
	p.pivoted = true
	p.factorWith(0, 0)
	for at, st := range p.states[1:] {
		n := len(st.setPoints)
		scale := 0.0
		for _, x := range st.schur {
			scale = max(scale, x, -x)
		}
		for j := range n {
			for i := j; i < n; i++ {
				if off := inLanes[at][j*n+i] - st.schur[j*n+i]; !(max(off, -off) <= 1e-8*scale) {
					t.Fatalf("outage %v: entry (%d, %d) of the border differs by %g, the largest is %g", st.outage, i, j, off, scale)
				}
			}
		}
	}
}

// The Schur complement of states side by side is the sum of theirs. A few states have a lane each of their own.
func TestComplementsAddUp(t *testing.T) {
	p := bordered(t, "case118", false)
	p.group()
	g := p.groups[0]
	if len(p.states) <= maxScalarStates+1 || len(g.states) <= maxScalarStates {
		t.Fatalf("%d states after outages, %d side by side, want more than %d", len(p.states)-1, len(g.states), maxScalarStates)
	}
	for _, st := range p.states[1:] {
		for v, dual := range st.dual {
			if !dual && !st.omit[v] {
				st.values[st.diagonal[v]] += 1e-2
			}
		}
	}
	g.factor()
	g.complements()
	n := len(g.f.borderVariables)
	sum, scale := make([]float64, n*n), 0.0
	for at := range g.states {
		for k, v := range p.borderInLanes(at) {
			sum[k] += v
			scale = max(scale, v, -v)
		}
	}
	for j := range n {
		for i := j; i < n; i++ {
			if off := g.schur[g.f.column(j)+i-j] - sum[j*n+i]; !(max(off, -off) <= 1e-12*scale) {
				t.Fatalf("entry (%d, %d) of the border is off by %g, the largest is %g", i, j, off, scale)
			}
		}
	}
	p.states = p.states[:maxScalarStates+1]
	p.group()
	for _, g := range p.groups {
		if len(p.groups) != maxScalarStates || len(g.states) != 1 || g.f.compiled.Width() != 1 {
			t.Errorf("%d groups for %d states, one with %d states in %d lanes", len(p.groups), maxScalarStates, len(g.states), g.f.compiled.Width())
		}
	}
}

// After smooth corners, which remember every outage that breaks a limit at their dispatch, states after outages stand at
// their power flows: on the sides of these the balances hold.
func TestSidesAfterSmoothCorners(t *testing.T) {
	s, n := branchesOf39(t)
	ctx := context.Background()
	pd, qd := n.Loads(0.9)
	plain := make([]acopf.Result, 1)
	if err := s.plain.Solve(ctx, []acopf.Problem{{Pd: pd, Qd: qd}}, plain); err != nil {
		t.Fatal(err)
	}
	p, r := &interior{sys: s.sys, threads: 1}, &Result{}
	defer p.release()
	p.states = []*state{s.baseState(Problem{}, pd, qd, &plain[0])}
	if !s.addViolated(ctx, p, r) {
		t.Fatal("the plain optimum survives every outage")
	}
	s.solveSmoothed(ctx, p, r)
	if len(p.smoothedStates) != len(p.states) {
		t.Fatalf("%d of %d states have an optimum of narrow corners", len(p.smoothedStates), len(p.states))
	}
	off := func() (worst float64) {
		for _, t := range p.states[1:] {
			t.setSwitching(t.modes())
		}
		p.evaluate()
		return p.norms().mismatch
	}
	smooth := p.clone()
	left := off()
	p.restore(smooth)
	s.moveToPowerFlows(p, r)
	if settled := off(); !(settled < 1e-7 && settled < left/100) {
		t.Errorf("balances are off by %g pu on the sides of power flows, by %g on those of smooth corners", settled, left)
	}
	for _, c := range r.After {
		if c.Severity() > 0 && !slices.Contains(r.Remembered, c.Outage) {
			t.Errorf("%s breaks a limit and is not remembered", c.name(n))
		}
	}
}
