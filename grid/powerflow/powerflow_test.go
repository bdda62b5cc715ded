package powerflow_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/powerflow"
)

func solver(t testing.TB, n *network.Network) *powerflow.Solver {
	t.Helper()
	s, err := powerflow.New(n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// solved is a power flow that converges.
func solved(t testing.TB, s *powerflow.Solver, in powerflow.Input, opt powerflow.Options) *powerflow.Solution {
	t.Helper()
	sol := s.NewSolution()
	if err := s.Solve(in, opt, sol); err != nil || !sol.Converged() {
		t.Fatal(err, s.Reason(sol))
	}
	return sol
}

// balance is the largest imbalance of a solution at any bus, by the sums over
// branches rather than the solver's own: every bus, references included.
func balance(n *network.Network, y *network.Admittance, in powerflow.Input, sol *powerflow.Solution) float64 {
	p, q := make([]float64, n.Buses()), make([]float64, n.Buses())
	n.Injections(y, sol.Vm, sol.Va, p, q)
	pd, qd := n.Pd, n.Qd
	if in.Pd != nil {
		pd = in.Pd
	}
	if in.Qd != nil {
		qd = in.Qd
	}
	for b := range p {
		p[b] += pd[b]
		q[b] += qd[b]
	}
	for g, b := range n.GenBus {
		p[b] -= sol.Pg[g]
		q[b] -= sol.Qg[g]
	}
	worst := 0.0
	for b := range p {
		worst = max(worst, math.Abs(p[b]), math.Abs(q[b]))
		if math.IsNaN(p[b] + q[b]) {
			return math.Inf(1)
		}
	}
	return worst
}

// operated are the embedded cases whose file has a power flow: the generation in
// PGLib's is the middle of every unit's limits, which case300 does not carry.
func operated() []string {
	return slices.DeleteFunc(cases.Names(), func(name string) bool { return name == "pglib_opf_case300_ieee" })
}

// TestEveryBusBalances: from both starts, all such cases, to 1e-9 pu by
// sums the solver does not use, with set-points held.
func TestEveryBusBalances(t *testing.T) {
	for _, name := range operated() {
		n := networktest.Load(t, name)
		s := solver(t, n)
		sol := s.NewSolution()
		for _, start := range []powerflow.Start{powerflow.FromFile, powerflow.Flat, powerflow.Warm} {
			if err := s.Solve(powerflow.Input{}, powerflow.Options{Start: start}, sol); err != nil {
				t.Fatal(err)
			}
			if !sol.Converged() {
				t.Errorf("%s: %s", name, s.Reason(sol))
				continue
			}
			if m := balance(n, &n.Admittance, powerflow.Input{}, sol); !(m <= 2e-9) {
				t.Errorf("%s, start %d: %g pu is left over", name, start, m)
			}
			for g, b := range n.GenBus {
				if n.Kind[b] != network.PQ && sol.Vm[b] != n.Vg[g] {
					t.Errorf("%s: bus %d is at %g pu, set to %g", name, n.BusID[b], sol.Vm[b], n.Vg[g])
				}
			}
			if sol.Va[n.Slack] != n.Va0[n.Slack] {
				t.Errorf("%s: the reference's angle moved", name)
			}
			if start == powerflow.Warm && sol.Iterations != 0 {
				t.Errorf("%s: %d iterations from its own solution", name, sol.Iterations)
			}
		}
	}
}

// TestPublishedVoltages: the IEEE 14-bus case is published with its solved
// voltages, by another program: they agree to two thousandths and 0.05°.
func TestPublishedVoltages(t *testing.T) {
	n := networktest.Load(t, "case14")
	s := solver(t, n)
	sol := solved(t, s, powerflow.Input{}, powerflow.Options{Start: powerflow.Flat})
	for b := range sol.Vm {
		if dv := math.Abs(sol.Vm[b] - n.Vm0[b]); dv > 2e-3 {
			t.Errorf("bus %d: %g pu, published %g", n.BusID[b], sol.Vm[b], n.Vm0[b])
		}
		if da := math.Abs(sol.Va[b]-n.Va0[b]) * 180 / math.Pi; da > 0.05 {
			t.Errorf("bus %d: %g°, published %g°", n.BusID[b], sol.Va[b]*180/math.Pi, n.Va0[b]*180/math.Pi)
		}
	}
}

// TestAnyLoadAndDispatchBalances: random loads, dispatches, set-points and
// branch factors of case30 and case118, warm from one to the next.
func TestAnyLoadAndDispatchBalances(t *testing.T) {
	for _, name := range []string{"case30", "case118"} {
		n := networktest.Load(t, name)
		s := solver(t, n)
		sol := s.NewSolution()
		rng := rand.New(rand.NewPCG(7, 7))
		y := network.NewAdmittance(n.Branches())
		factors := make([]float64, n.Branches())
		in := powerflow.Input{Pd: make([]float64, n.Buses()), Qd: make([]float64, n.Buses()), Pg: make([]float64, n.Gens()), Vg: make([]float64, n.Gens())}
		solved := 0
		for range 200 {
			for k := range factors {
				factors[k] = math.Exp(0.05 * rng.NormFloat64())
			}
			if err := n.ScaleBranches(factors, y); err != nil {
				t.Fatal(err)
			}
			if err := s.SetAdmittance(y); err != nil {
				t.Fatal(err)
			}
			level := 0.6 + 0.4*rng.Float64()
			for b := range in.Pd {
				in.Pd[b], in.Qd[b] = n.Pd[b]*level, n.Qd[b]*level*(0.9+0.2*rng.Float64())
			}
			for g := range in.Pg {
				in.Pg[g] = n.Pg0[g] * level * (0.8 + 0.4*rng.Float64())
				in.Vg[g] = 0.98 + 0.06*rng.Float64()
			}
			for g, b := range n.GenBus { // one set-point a bus
				for o, ob := range n.GenBus[:g] {
					if ob == b {
						in.Vg[g] = in.Vg[o]
					}
				}
			}
			if err := s.Solve(in, powerflow.Options{Start: powerflow.Warm}, sol); err != nil {
				t.Fatal(err)
			}
			if !sol.Converged() {
				continue
			}
			solved++
			if m := balance(n, y, in, sol); !(m <= 2e-9) {
				t.Fatalf("%s: %g pu is left over", name, m)
			}
		}
		if solved < 195 {
			t.Errorf("%s: %d of 200 solved", name, solved)
		}
	}
}

// TestDivergenceHasAReason: three times the load is more than case30 carries.
func TestDivergenceHasAReason(t *testing.T) {
	n := networktest.Load(t, "case30")
	s := solver(t, n)
	sol := s.NewSolution()
	var in powerflow.Input
	in.Pd, in.Qd = n.Loads(5)
	if err := s.Solve(in, powerflow.Options{}, sol); err != nil {
		t.Fatal(err)
	}
	if sol.Converged() {
		t.Fatal("five times the load was solved")
	}
	if r := s.Reason(sol); !strings.Contains(r, "bus") {
		t.Errorf("reason %q", r)
	}
	// A solve after a failed one starts from the file, not from where it was lost.
	if err := s.Solve(powerflow.Input{}, powerflow.Options{Start: powerflow.Warm}, sol); err != nil || !sol.Converged() {
		t.Errorf("after a divergence: %v, %s", err, s.Reason(sol))
	}
}

// TestBadInputIsRefused: shapes, numbers and options.
func TestBadInputIsRefused(t *testing.T) {
	n := networktest.Load(t, "case9")
	s := solver(t, n)
	sol := s.NewSolution()
	nan := make([]float64, n.Buses())
	nan[4] = math.NaN()
	for name, try := range map[string]func() error{
		"short load":  func() error { return s.Solve(powerflow.Input{Pd: make([]float64, 3)}, powerflow.Options{}, sol) },
		"load of NaN": func() error { return s.Solve(powerflow.Input{Qd: nan}, powerflow.Options{}, sol) },
		"set-point 0": func() error { return s.Solve(powerflow.Input{Vg: make([]float64, 3)}, powerflow.Options{}, sol) },
		"tolerance":   func() error { return s.Solve(powerflow.Input{}, powerflow.Options{Tolerance: -1}, sol) },
		"start":       func() error { return s.Solve(powerflow.Input{}, powerflow.Options{Start: 7}, sol) },
		"admittances": func() error { return s.SetAdmittance(network.NewAdmittance(2)) },
		"iterations":  func() error { return s.Solve(powerflow.Input{}, powerflow.Options{MaxIterations: -1}, sol) },
		"infinite Pg": func() error {
			return s.Solve(powerflow.Input{Pg: []float64{0, math.Inf(1), 0}}, powerflow.Options{}, sol)
		},
		"long Vg":      func() error { return s.Solve(powerflow.Input{Vg: make([]float64, 4)}, powerflow.Options{}, sol) },
		"short Pg":     func() error { return s.Solve(powerflow.Input{Pg: make([]float64, 2)}, powerflow.Options{}, sol) },
		"short Qd":     func() error { return s.Solve(powerflow.Input{Qd: make([]float64, 2)}, powerflow.Options{}, sol) },
		"infinite tol": func() error { return s.Solve(powerflow.Input{}, powerflow.Options{Tolerance: math.Inf(1)}, sol) },
	} {
		if err := try(); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// TestNothingIsAllocated after the solver is made.
func TestNothingIsAllocated(t *testing.T) {
	n := networktest.Load(t, "case30")
	s := solver(t, n)
	sol := s.NewSolution()
	flows := network.NewFlows(n.Branches())
	opt := powerflow.Options{Start: powerflow.Flat, EnforceQ: true}
	if got := testing.AllocsPerRun(20, func() {
		_ = s.Solve(powerflow.Input{}, opt, sol)
		s.BranchFlows(sol, flows)
		_ = s.SetAdmittance(&n.Admittance)
	}); got != 0 {
		t.Errorf("%g allocations a solve", got)
	}
}

func BenchmarkSolve(b *testing.B) {
	for _, name := range []string{"case30", "case39", "case118"} {
		n := networktest.Load(b, name)
		for _, start := range []struct {
			name string
			kind powerflow.Start
		}{{"flat", powerflow.Flat}, {"warm", powerflow.Warm}} {
			b.Run(name+"/"+start.name, func(b *testing.B) {
				s := solver(b, n)
				sol := s.NewSolution()
				// The load moves by half a percent from one solve to the next.
				loads := make([]powerflow.Input, 16)
				for k := range loads {
					loads[k].Pd, loads[k].Qd = n.Loads(0.9 + 0.005*math.Abs(float64(k-8)))
				}
				b.ReportAllocs()
				iterations := 0
				for k := 0; b.Loop(); k++ {
					if err := s.Solve(loads[k%16], powerflow.Options{Start: start.kind}, sol); err != nil || !sol.Converged() {
						b.Fatal(err, s.Reason(sol))
					}
					iterations += sol.Iterations
				}
				b.ReportMetric(float64(iterations)/float64(b.N), "iterations/op")
			})
		}
	}
}

// A load of 0.9 pu behind x = 0.5 pu has two solutions, V² = (1 ± √0.19)/2. The lower one is above 0.5 pu, and has the other
// sign of the Jacobian's determinant.
func TestTheLowSolutionHasARemark(t *testing.T) {
	const text = `function mpc = two
mpc.version = '2';
mpc.baseMVA = 100;
mpc.bus = [ 1 3 0 0 0 0 1 1 0 110 1 1.1 0.9; 2 1 90 0 0 0 1 %VM% -%VA% 110 1 1.1 0.4 ];
mpc.gen = [ 1 0 0 900 -900 1 100 1 900 0 ];
mpc.branch = [ 1 2 0 0.5 0 0 0 0 0 0 1 -360 360 ];
`
	for _, c := range []struct {
		vm, va string
		want   float64
		remark bool
	}{{"0.85", "30", math.Sqrt((1 + math.Sqrt(0.19)) / 2), false}, {"0.55", "58", math.Sqrt((1 - math.Sqrt(0.19)) / 2), true}} {
		file, err := matpower.Read("two", strings.NewReader(strings.NewReplacer("%VM%", c.vm, "%VA%", c.va).Replace(text)))
		if err != nil {
			t.Fatal(err)
		}
		s := solver(t, networktest.Of(t, file))
		sol := solved(t, s, powerflow.Input{}, powerflow.Options{})
		if math.Abs(sol.Vm[1]-c.want) > 1e-8 || (s.Remark(sol) != "") != c.remark {
			t.Errorf("%g pu, want %g; remark %q", sol.Vm[1], c.want, s.Remark(sol))
		}
	}
}

// TestBranchesWithoutImpedance: two buses that a branch of none, or of next to none, joins have one voltage, that of the
// network in which they are one bus, wherever they start. The branch carries what its bus lacks.
func TestBranchesWithoutImpedance(t *testing.T) {
	joined := networktest.Case(t, "case14")
	want := solveCase(t, joined)
	for _, x := range []float64{0, 1e-8, 1e-10} {
		c := networktest.Case(t, "case14")
		// Bus 4's load and its branches to 7 and 9 move to a bus of its own.
		own := c.Bus[3]
		own.ID, own.Vm, own.Va = 99, own.Vm-0.03, own.Va+2
		c.Bus[3].Pd, c.Bus[3].Qd = 0, 0
		c.Bus = append(c.Bus, own)
		for i := range c.Branch {
			if b := &c.Branch[i]; b.From == 4 && b.To > 5 {
				b.From = 99
			}
		}
		c.Branch = append(c.Branch, matpower.Branch{From: 4, To: 99, X: x, InService: true})
		n := networktest.Of(t, c)
		if (len(n.Notes()) == 1) != (x < 1e-8) {
			t.Errorf("x = %g: notes %q", x, n.Notes())
		}
		sol := solveCase(t, c)
		for b := range joined.Bus {
			if d := math.Abs(sol.Vm[b] - want.Vm[b]); d > 2e-8 {
				t.Errorf("x = %g, bus %d: off by %g pu", x, joined.Bus[b].ID, d)
			}
		}
		f := network.NewFlows(n.Branches())
		n.BranchFlows(&n.Admittance, sol.Vm, sol.Va, f)
		p, q, tie := n.Pd[14], n.Qd[14], len(f.Pt)-1
		for k, from := range n.From {
			if from == 14 {
				p, q = p+f.Pf[k], q+f.Qf[k]
			}
		}
		if math.Hypot(f.Pt[tie]+p, f.Qt[tie]+q) > 2e-7 {
			t.Errorf("x = %g: %g%+gi flow in, %g%+gi are taken", x, -f.Pt[tie], -f.Qt[tie], p, q)
		}
	}
}

func solveCase(t *testing.T, c *matpower.Case) *powerflow.Solution {
	t.Helper()
	s, err := powerflow.New(networktest.Of(t, c))
	if err != nil {
		t.Fatal(err)
	}
	sol := s.NewSolution()
	if err := s.Solve(powerflow.Input{}, powerflow.Options{}, sol); err != nil || !sol.Converged() {
		t.Fatalf("%v, %s", err, s.Reason(sol))
	}
	return sol
}

// TestLimitsThatAreNotAskedFor: contradictory limits and voltages of 0 stop no power flow; enforced ones are named.
func TestLimitsThatAreNotAskedFor(t *testing.T) {
	want := solveCase(t, networktest.Case(t, "case9"))
	c := networktest.Case(t, "case9")
	c.Gen[1].QMin, c.Gen[1].QMax = 10, -10
	c.Gen[2].PMin, c.Gen[2].PMax = 50, 40
	for i := range c.Bus {
		c.Bus[i].Vm = 0
	}
	if got := solveCase(t, c); math.Abs(got.Vm[4]-want.Vm[4]) > 1e-9 || math.Abs(got.Qg[1]-want.Qg[1]) > 1e-8 {
		t.Errorf("%g pu and %g pu of reactive power, want %g and %g", got.Vm[4], got.Qg[1], want.Vm[4], want.Qg[1])
	}
	n := networktest.Of(t, c)
	s, err := powerflow.New(n)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Solve(powerflow.Input{}, powerflow.Options{EnforceQ: true}, s.NewSolution()); err == nil || !strings.Contains(err.Error(), "generator 2 at bus 2: Qmin = 10 and Qmax = -10 leave no value") {
		t.Errorf("enforced: %v", err)
	}
	if err := n.RequireCosts(); err == nil || !strings.Contains(err.Error(), "leave no value") {
		t.Errorf("an optimum: %v", err)
	}
}

// TestDCLinesInAPowerFlow carry what the file says, hold the voltages of their ends, and lose what they lose.
func TestDCLinesInAPowerFlow(t *testing.T) {
	c := networktest.Case(t, "case9")
	c.DCLine = []matpower.DCLine{{From: 5, To: 7, InService: true, Pf: 30, Vf: 0.99, Vt: 1.01, PMax: 50, QMinF: -99, QMaxF: 99, QMinT: -99, QMaxT: 99, Loss0: 1, Loss1: 0.02}}
	var text strings.Builder
	c.Gen = append(c.Gen, matpower.Gen{DCLine: 1, Bus: 5, InService: true, Pg: -30, Vg: 0.99, Cost: matpower.Cost{Model: matpower.Polynomial}},
		matpower.Gen{DCLine: 1, Bus: 7, InService: true, Pg: 28.4, Vg: 1.01, Cost: matpower.Cost{Model: matpower.Polynomial}})
	if err := matpower.Write(&text, "dc", "", c); err != nil {
		t.Fatal(err)
	}
	read, err := matpower.Read("dc.m", strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	sol := solveCase(t, read)
	// The same with loads, and units that hold the voltages.
	other := networktest.Case(t, "case9")
	other.Bus[4].Pd, other.Bus[6].Pd = other.Bus[4].Pd+30, other.Bus[6].Pd-28.4
	for bus, v := range map[int]float64{5: 0.99, 7: 1.01} {
		other.Bus[bus-1].Type = matpower.PV
		other.Gen = append(other.Gen, matpower.Gen{Bus: bus, Vg: v, InService: true, QMin: -99, QMax: 99, Cost: matpower.Cost{Model: matpower.Polynomial}})
	}
	want := solveCase(t, other)
	for b := range sol.Vm {
		if math.Abs(sol.Vm[b]-want.Vm[b]) > 1e-9 || math.Abs(sol.Va[b]-want.Va[b]) > 1e-9 {
			t.Errorf("bus %d: %g pu at %g, want %g at %g", c.Bus[b].ID, sol.Vm[b], sol.Va[b], want.Vm[b], want.Va[b])
		}
	}
	if sol.Vm[4] != 0.99 || sol.Vm[6] != 1.01 || sol.Pg[3] != -0.3 || math.Abs(sol.Pg[4]-0.284) > 1e-15 {
		t.Errorf("ends at %g and %g pu with %g and %g pu", sol.Vm[4], sol.Vm[6], sol.Pg[3], sol.Pg[4])
	}
	// An end with a set-point of 0 holds no voltage, and none takes part in the balance.
	for i := range read.DCLine {
		read.DCLine[i].Vf, read.Gen[3].Vg, read.Gen[3].Qg = 0, 0, -7
	}
	other = networktest.Case(t, "case9")
	other.Bus[4].Pd, other.Bus[4].Qd = other.Bus[4].Pd+30, other.Bus[4].Qd+7
	other.Bus[6].Pd, other.Bus[6].Type = other.Bus[6].Pd-28.4, matpower.PV
	other.Gen = append(other.Gen, matpower.Gen{Bus: 7, Vg: 1.01, InService: true, QMin: -99, QMax: 99, Cost: matpower.Cost{Model: matpower.Polynomial}})
	var sols [2]*powerflow.Solution
	for i, k := range []*matpower.Case{read, other} {
		s, err := powerflow.New(networktest.Of(t, k))
		if err != nil {
			t.Fatal(err)
		}
		shares := [][]float64{{1, 2, 2, 9, 9}, {1, 2, 2, 0}}[i]
		sols[i] = s.NewSolution()
		if err := s.Solve(powerflow.Input{}, powerflow.Options{Slack: &powerflow.Slack{Shares: shares}}, sols[i]); err != nil || !sols[i].Converged() {
			t.Fatalf("%v, %s", err, s.Reason(sols[i]))
		}
	}
	for b, v := range sols[1].Vm {
		if math.Abs(sols[0].Vm[b]-v) > 1e-9 || math.Abs(sols[0].Va[b]-sols[1].Va[b]) > 1e-8 {
			t.Errorf("bus %d: %g pu at %g, want %g at %g", c.Bus[b].ID, sols[0].Vm[b], sols[0].Va[b], v, sols[1].Va[b])
		}
	}
	if p := sols[0].Pg; p[3] != -0.3 || p[4] != sol.Pg[4] || math.Abs((p[1]-1.63)/(p[2]-0.85)-1) > 1e-6 {
		t.Errorf("units at %v", p)
	}
}

// TestIslandsAtTheirOwnAngles: a flat start begins each island at its own reference.
func TestIslandsAtTheirOwnAngles(t *testing.T) {
	c := networktest.Case(t, "case9")
	other := networktest.Case(t, "case9")
	for i := range other.Bus {
		other.Bus[i].ID += 100
		other.Bus[i].Va += 170
	}
	for i := range other.Gen {
		other.Gen[i].Bus += 100
	}
	for i := range other.Branch {
		other.Branch[i].From += 100
		other.Branch[i].To += 100
	}
	c.Bus, c.Gen, c.Branch = append(c.Bus, other.Bus...), append(c.Gen, other.Gen...), append(c.Branch, other.Branch...)
	s, err := powerflow.New(networktest.Of(t, c))
	if err != nil {
		t.Fatal(err)
	}
	sol := s.NewSolution()
	if err := s.Solve(powerflow.Input{}, powerflow.Options{Start: powerflow.Flat}, sol); err != nil || !sol.Converged() {
		t.Fatalf("%v, %s", err, s.Reason(sol))
	}
	for b := range 9 {
		if math.Abs(sol.Vm[b]-sol.Vm[b+9]) > 1e-9 || math.Abs(sol.Va[b+9]-sol.Va[b]-170*math.Pi/180) > 1e-9 || sol.Vm[b] < 0.9 {
			t.Errorf("bus %d: %g pu at %g, and %g pu at %g", b+1, sol.Vm[b], sol.Va[b], sol.Vm[b+9], sol.Va[b+9])
		}
	}
}
