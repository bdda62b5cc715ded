package acopf

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// MATPOWER 8's objectives (MIPS, flat start), $/h.
var matpowerObjective = []struct {
	name  string
	scale float64
	cost  float64
}{
	{"case9", 1, 5296.6865}, {"case14", 1, 8081.525}, {"case30", 1, 576.8923}, {"case_ieee30", 1, 8906.1441},
	{"case39", 1, 41864.1776}, {"case118", 1, 129660.6964},
	{"case30", 0.6, 299.7197}, {"case30", 0.7, 364.6157}, {"case30", 0.8, 432.0277},
}

// The published optima of PGLib-OPF v23.07, $/h to five digits, whose lines are rated.
func TestPublishedOptimaOfRatedNetworks(t *testing.T) {
	for name, cost := range map[string]float64{"pglib_opf_case57_ieee": 37589, "pglib_opf_case118_ieee": 97214, "pglib_opf_case300_ieee": 565220} {
		net := load(t, name)
		r := solveOne(t, newTestSolver(t, net, Options{}), Problem{})
		if r.Status != Optimal || math.Abs(r.Objective-cost) > 0.5 {
			t.Errorf("%s: %v at %.3f $/h, published are %v", name, r.Status, r.Objective, cost)
		}
		checkOptimum(t, net, Problem{}, r)
	}
}

func TestMatpowersOptimaFromAFlatStart(t *testing.T) {
	for _, c := range matpowerObjective {
		net := load(t, c.name)
		pr := Problem{Pd: scaled(net.Pd, c.scale), Qd: scaled(net.Qd, c.scale)}
		r := solveOne(t, newTestSolver(t, net, Options{}), pr)
		if r.Status != Optimal {
			t.Errorf("%s ×%g: %v", c.name, c.scale, r.Status)
			continue
		}
		// MIPS stops at a mismatch near 1e-6 pu, which is worth that much of the cost.
		tolerance := 1e-6
		if c.scale != 1 {
			tolerance = 2e-6
		}
		if rel := math.Abs(r.Objective-c.cost) / c.cost; !(rel <= tolerance) {
			t.Errorf("%s ×%g: %.6f $/h, MATPOWER has %.4f: relative difference %.1e", c.name, c.scale, r.Objective, c.cost, rel)
		}
		checkOptimum(t, net, pr, r)
	}
}

func scaled(v []float64, k float64) []float64 {
	return floats.ScaleTo(make([]float64, len(v)), k, v)
}

func solveOne(tb testing.TB, s *Solver, pr Problem) *Result {
	tb.Helper()
	results := make([]Result, 1)
	if err := s.Solve(context.Background(), []Problem{pr}, results); err != nil {
		tb.Fatal(err)
	}
	return &results[0]
}

// checker computes the parts of an optimal power flow from package network, in
// scalar float64 and by other code than the solver's.
type checker struct {
	net    *network.Network
	y      *network.Admittance
	pr     Problem
	pd, qd []float64
}

func newChecker(tb reporter, net *network.Network, pr Problem) *checker {
	tb.Helper()
	c := &checker{net: net, y: &net.Admittance, pr: pr, pd: net.Pd, qd: net.Qd}
	if pr.BranchFactors != nil {
		c.y = network.NewAdmittance(net.Branches())
		if err := net.ScaleBranches(pr.BranchFactors, c.y); err != nil {
			tb.Fatal(err)
		}
	}
	if pr.Pd != nil {
		c.pd = pr.Pd
	}
	if pr.Qd != nil {
		c.qd = pr.Qd
	}
	return c
}

// reporter is a test or a property's run.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// point is an iterate in the clear.
type point struct{ va, vm, pg, qg []float64 }

// balance is what generation lacks at every bus.
func (c *checker) balance(x point) (p, q []float64) {
	p, q = make([]float64, c.net.Buses()), make([]float64, c.net.Buses())
	c.net.Injections(c.y, x.vm, x.va, p, q)
	for b := range p {
		p[b] += c.pd[b]
		q[b] += c.qd[b]
	}
	for g, b := range c.net.GenBus {
		p[b] -= x.pg[g]
		q[b] -= x.qg[g]
	}
	return p, q
}

// objectives are J₁, J₂, J₃.
func (c *checker) objectives(x point) (j [3]float64) {
	f := network.NewFlows(c.net.Branches())
	c.net.BranchFlows(c.y, x.vm, x.va, f)
	for l, rate := range c.net.Rate {
		if !math.IsInf(rate, 1) {
			j[0] += math.Pow(max(0, math.Hypot(f.Pf[l], f.Qf[l])/rate-0.85), 4)
		}
	}
	for _, v := range x.vm {
		j[1] += math.Pow(max(0, math.Abs(v-1)-0.05), 2)
	}
	for g := range x.pg {
		value, _, _ := c.net.Cost[g].At(x.pg[g])
		j[2] += value
		if c.net.ReactiveCost != nil {
			value, _, _ = c.net.ReactiveCost[g].At(x.qg[g])
			j[2] += value
		}
	}
	return j
}

// limits are every h of h ≤ 0 in the order of Result.Multipliers, without the
// segments of piecewise linear costs.
func (c *checker) limits(x point) []float64 {
	n, t := c.net, c.pr.Tightening
	generator := make([]bool, n.Buses())
	for _, b := range n.GenBus {
		generator[b] = true
	}
	var h []float64
	eta := func(b int) float64 {
		if generator[b] {
			return t.VGen
		}
		return t.VLoad
	}
	for b, v := range x.vm {
		h = append(h, n.VMin[b]+eta(b)-v)
	}
	for b, v := range x.vm {
		h = append(h, v-n.VMax[b]+eta(b))
	}
	box := func(side int) {
		for g := range x.pg {
			lo, hi := n.PMin[g]+t.P, n.PMax[g]-t.P
			if c.pr.Previous != nil {
				lo, hi = max(lo, c.pr.Previous[g]-c.pr.Ramp[g]), min(hi, c.pr.Previous[g]+c.pr.Ramp[g])
			}
			h = append(h, []float64{lo - x.pg[g], x.pg[g] - hi}[side])
		}
		for g := range x.qg {
			if limit := []float64{n.QMin[g], n.QMax[g]}[side]; !math.IsInf(limit, 0) {
				h = append(h, []float64{limit + t.Q - x.qg[g], x.qg[g] - limit + t.Q}[side])
			}
		}
	}
	box(0)
	box(1)
	f := network.NewFlows(n.Branches())
	n.BranchFlows(c.y, x.vm, x.va, f)
	for _, end := range [][2][]float64{{f.Pf, f.Qf}, {f.Pt, f.Qt}} {
		for l, rate := range n.Rate {
			if !math.IsInf(rate, 1) {
				h = append(h, end[0][l]*end[0][l]+end[1][l]*end[1][l]-(rate-t.S)*(rate-t.S))
			}
		}
	}
	for l, lo := range n.AngMin {
		if !math.IsInf(lo, -1) {
			h = append(h, lo+t.Angle-x.va[n.From[l]]+x.va[n.To[l]])
		}
	}
	for l, hi := range n.AngMax {
		if !math.IsInf(hi, 1) {
			h = append(h, x.va[n.From[l]]-x.va[n.To[l]]-hi+t.Angle)
		}
	}
	return h
}

// checkOptimum verifies a result's KKT conditions independently of the solver:
// balance and limits to 1e-8, multipliers not negative, complementary, and the
// Lagrangian stationary by central differences.
func checkOptimum(tb reporter, net *network.Network, pr Problem, r *Result) {
	tb.Helper()
	c := newChecker(tb, net, pr)
	x := point{r.Va, r.Vm, r.Pg, r.Qg}
	p, q := c.balance(x)
	for b := range p {
		if !(math.Abs(p[b]) <= 1e-8 && math.Abs(q[b]) <= 1e-8) {
			tb.Errorf("%s: mismatch %g, %g pu at bus %d", net.Name, p[b], q[b], net.BusID[b])
		}
	}
	j := c.objectives(x)
	for m := range j {
		if !(math.Abs(j[m]-r.J[m]) <= 1e-8*(1+math.Abs(j[m]))) {
			tb.Errorf("%s: J[%d] is %.12g, the result says %.12g", net.Name, m, j[m], r.J[m])
		}
	}
	h := c.limits(x)
	gap, largest := 0.0, 0.0
	for i := range h {
		z := r.Multipliers[i]
		if !(h[i] <= 1e-8) {
			tb.Errorf("%s: limit %d is passed by %g", net.Name, i, h[i])
		}
		if !(z >= 0) {
			tb.Errorf("%s: multiplier %d is %g", net.Name, i, z)
		}
		gap -= z * h[i]
		largest = max(largest, z)
	}
	if f := math.Abs(r.Objective); !(gap <= 2e-6*(1+f)) {
		tb.Errorf("%s: Σ z·(−h) = %g beside an objective of %g", net.Name, gap, f)
	}
	for _, l := range append(append([]float64(nil), r.LambdaP...), r.LambdaQ...) {
		largest = max(largest, math.Abs(l))
	}
	lagrangian := func() float64 {
		j := c.objectives(x)
		j[1] = 0 // its gradient has corners, where differences fail
		v := pr.Objective.Value(j)
		p, q := c.balance(x)
		for b := range p {
			v += r.LambdaP[b]*p[b] + r.LambdaQ[b]*q[b]
		}
		for i, h := range c.limits(x) {
			v += r.Multipliers[i] * h
		}
		return v
	}
	linear := func(costs []network.Cost, g int) bool { return costs != nil && costs[g].PiecewiseLinear() }
	coef, _ := pr.Objective.coefficients()
	check := func(what string, i int, at *float64) {
		const step = 5e-7
		keep := *at
		*at = keep + step
		up := lagrangian()
		*at = keep - step
		down := lagrangian()
		*at = keep
		d := (up - down) / (2 * step)
		if off := keep - 1; what == "V" && math.Abs(off) > VoltageDeadband {
			d += coef[1] * 2 * (off - math.Copysign(VoltageDeadband, off))
		}
		if !(math.Abs(d) <= 2e-5*(1+largest)) {
			tb.Errorf("%s: ∂L/∂%s[%d] = %g beside multipliers up to %g", net.Name, what, i, d, largest)
		}
	}
	reference := map[int]bool{}
	for _, b := range net.References {
		reference[b] = true
	}
	for i := range x.vm {
		check("V", i, &x.vm[i])
		if !reference[i] {
			check("θ", i, &x.va[i])
		}
	}
	for g := range x.pg {
		// The slope of a piecewise linear cost at a corner is any between its neighbours'.
		if !linear(net.Cost, g) {
			check("P", g, &x.pg[g])
		}
		if !linear(net.ReactiveCost, g) {
			check("Q", g, &x.qg[g])
		}
	}
}

// Any random problem that is called optimal satisfies the KKT conditions, under
// every feature at once.
func TestOptimalMeansKKT(t *testing.T) {
	require.Seeded(t)
	solvers := map[string]*Solver{}
	for _, name := range []string{"case9", "case14", "case30", "features"} {
		solvers[name] = newTestSolver(t, load(t, name), Options{})
	}
	optimal := 0
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom([]string{"case9", "case14", "case30", "features"}).Draw(rt, "case")
		s := solvers[name]
		net := s.net
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 5))
		pr := scenario(rng, net, 0.6+0.5*rng.Float64())
		if rapid.Bool().Draw(rt, "weighted") {
			pr.Objective = Objective{Weights: [3]float64{rng.Float64(), rng.Float64(), 0.01 + rng.Float64()}, Ideal: [3]float64{0, 0, 300}, Nadir: [3]float64{2e-3, 1e-3, 600}}
		}
		if rapid.Bool().Draw(rt, "tight") {
			pr.Tightening = Tightening{VLoad: 0.003, VGen: 0.001, P: 0.002, Q: 0.005, S: 0.005, Angle: 0.001}
		}
		r := solveOne(t, s, pr)
		if r.Status == Optimal && rapid.Bool().Draw(rt, "ramp") {
			pr.Previous, pr.Ramp = r.Pg, make([]float64, net.Gens())
			for g := range pr.Ramp {
				pr.Ramp[g] = 0.05 * net.PMax[g]
			}
			pr.Pd, pr.Qd = scaled(pr.Pd, 1.02), scaled(pr.Qd, 1.02)
			start := *r
			pr.Start = &start
			r = solveOne(t, s, pr)
		}
		if r.Status != Optimal {
			return
		}
		optimal++
		if r.KKT.Max() > 1e-6 {
			rt.Errorf("KKT residual %g", r.KKT.Max())
		}
		checkOptimum(rt, net, pr, r)
	})
	if optimal < 10 {
		t.Errorf("only %d problems had an optimum", optimal)
	}
}

// At the optimum a piecewise linear cost is the function's value, not above it.
func TestPiecewiseLinearCostsAreTheirFunctions(t *testing.T) {
	net := load(t, "features")
	pr := Problem{}
	r := solveOne(t, newTestSolver(t, net, Options{}), pr)
	if r.Status != Optimal {
		t.Fatal(r.Status)
	}
	checkOptimum(t, net, pr, r)
	if want := newChecker(t, net, pr).objectives(point{r.Va, r.Vm, r.Pg, r.Qg})[2]; !(math.Abs(r.Objective-want) <= 1e-6*want) {
		t.Errorf("objective %.9g, the costs at the dispatch sum to %.9g", r.Objective, want)
	}
}

// The multiplier of a bus's balance is the objective's derivative by its load.
func TestPricesAreDerivativesByLoad(t *testing.T) {
	net := load(t, "case30")
	s := newTestSolver(t, net, Options{})
	base := solveOne(t, s, Problem{})
	const bus, step = 7, 1e-4
	at := func(d float64) float64 {
		pd := append([]float64(nil), net.Pd...)
		pd[bus] += d
		return solveOne(t, s, Problem{Pd: pd}).Objective
	}
	if got, want := base.LambdaP[bus], (at(step)-at(-step))/(2*step); !(math.Abs(got-want) <= 1e-3*want) {
		t.Errorf("price %g $/h per pu, differences give %g", got, want)
	}
}

// A network of one bus has no branch, and is dispatched by merit order: both units at one marginal cost.
func TestOneBusIsDispatchedByMeritOrder(t *testing.T) {
	c := require.Get(matpower.Read("one", strings.NewReader(`function mpc = one
mpc.version = '2'; mpc.baseMVA = 100;
mpc.bus = [1 3 90 30 0 0 1 1 0 345 1 1.1 0.9];
mpc.gen = [1 0 0 300 -300 1 100 1 200 0; 1 0 0 300 -300 1 100 1 200 0];
mpc.branch = [];
mpc.gencost = [2 0 0 3 0.02 10 0; 2 0 0 3 0.04 11 0];
`)))(t)
	net := require.Get(network.New(c))(t)
	r := solveOne(t, newTestSolver(t, net, Options{}), Problem{})
	// 10 + 0.04 p = 11 + 0.08 (90 − p)
	if p := 8.2 / 0.12; r.Status != Optimal || math.Abs(r.Pg[0]*100-p) > 1e-3 || math.Abs(r.LambdaP[0]/100-(10+0.04*p)) > 1e-4 {
		t.Errorf("%v: %v MW at %v $/MWh, want %v at %v", r.Status, r.Pg[0]*100, r.LambdaP[0]/100, p, 10+0.04*p)
	}
	checkOptimum(t, net, Problem{}, r)
}
