package powerflow

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// without is a case less one branch or unit, what hangs on a bridge alone being isolated.
func without(t *testing.T, name string, change func(c *matpower.Case), islanded []int) *network.Network {
	t.Helper()
	c := networktest.Case(t, name)
	change(c)
	for _, id := range islanded {
		for i := range c.Bus {
			if c.Bus[i].ID == id {
				c.Bus[i].Type = matpower.Isolated
			}
		}
	}
	return networktest.Of(t, c)
}

// atLimits puts a reactive limit of each unit where its power flow has it, as an optimal one does of many.
func atLimits(t *testing.T, c *matpower.Case) {
	t.Helper()
	n := networktest.Of(t, c)
	s := require.Get(New(n))(t)
	base := s.NewSolution()
	require.OK(t, s.Solve(Input{}, Options{}, base))
	for g, row := range n.GenRow {
		q := base.Qg[g] * n.BaseMVA
		if unit := &c.Gen[row]; g%2 == 0 {
			unit.QMax, unit.QMin = q, min(unit.QMin, q-10)
		} else {
			unit.QMin, unit.QMax = q, max(unit.QMax, q+10)
		}
	}
}

// Every outage equals the power flow of a case without that branch or unit, with and without
// reactive limits, and where the units are at theirs; most of the branches' need no factors of their own.
func TestOutagesEqualWholePowerFlows(t *testing.T) {
	for _, name := range []string{"case9", "case14", "case30", "case39", "case118"} {
		for _, limits := range []string{"none", "enforced", "reached"} {
			enforce, limit := limits != "none", func(*matpower.Case) {}
			if limits == "reached" {
				limit = func(c *matpower.Case) { atLimits(t, c) }
			}
			n := without(t, name, limit, nil)
			s, err := New(n)
			if err != nil {
				t.Fatal(err)
			}
			opt := Options{EnforceQ: enforce, MaxIterations: 60}
			base := s.NewSolution()
			if err := s.Solve(Input{}, opt, base); err != nil || !base.Converged() {
				t.Fatalf("%s: %v, %v", name, base.Status, err)
			}
			o, err := s.NewOutages(Input{}, opt, base)
			if err != nil {
				t.Fatal(err)
			}
			out := s.NewSolution()
			compensated, solved, islands := 0, 0, 0
			switches, units, steps := 0, 0, 0
			compare := func(what string, at int, got Outage, whole *network.Network) {
				t.Helper()
				w, err := New(whole)
				if err != nil {
					t.Fatal(err)
				}
				want := w.NewSolution()
				from := opt
				if err := w.Solve(Input{}, from, want); err != nil {
					t.Fatal(err)
				}
				if want.Converged() != got.Solution.Converged() {
					t.Errorf("%s, limits %s, %s %d: %v, the whole power flow %v", name, limits, what, at, got.Solution.Status, want.Status)
					return
				}
				if !want.Converged() {
					return
				}
				solved++
				number := map[int]int{}
				for b, id := range n.BusID {
					number[id] = b
				}
				for b, id := range whole.BusID {
					k := number[id]
					if d := math.Abs(want.Vm[b]-got.Solution.Vm[k]) + math.Abs(want.Va[b]-got.Solution.Va[k]); !(d <= 1e-6) {
						t.Errorf("%s, limits %s, %s %d, bus %d: %.9g pu at %.9g, whole %.9g at %.9g", name, limits, what, at, id, got.Solution.Vm[k], got.Solution.Va[k], want.Vm[b], want.Va[b])
						return
					}
				}
				number = map[int]int{}
				for g, row := range n.GenRow {
					number[row] = g
				}
				for g, row := range whole.GenRow {
					k := number[row]
					if d := math.Abs(want.Pg[g]-got.Solution.Pg[k]) + math.Abs(want.Qg[g]-got.Solution.Qg[k]); !(d <= 1e-5) {
						t.Errorf("%s, limits %s, %s %d, unit %d: P %.9g, Q %.9g, whole %.9g, %.9g", name, limits, what, at, row, got.Solution.Pg[k], got.Solution.Qg[k], want.Pg[g], want.Qg[g])
						return
					}
				}
			}
			for k, row := range n.BranchRow {
				got, err := o.Branch(k, out)
				if err != nil {
					t.Fatal(err)
				}
				if got.Compensated {
					compensated++
					switches += out.Switches
					steps += out.Iterations
				}
				var islanded []int
				for _, b := range got.Islanded {
					islanded = append(islanded, n.BusID[b])
				}
				if len(islanded) > 0 {
					islands++
				}
				compare("branch", k, got, without(t, name, func(c *matpower.Case) { limit(c); c.Branch[row].InService = false }, islanded))
			}
			for g, row := range n.GenRow {
				got, err := o.Unit(g, out)
				if err != nil {
					t.Fatal(err)
				}
				if got.Balance {
					if got.Solution.Converged() {
						t.Errorf("%s, unit %d: converged without anything that takes up the balance", name, g)
					}
					continue
				}
				if got.Compensated {
					units++
				}
				compare("unit", g, got, without(t, name, func(c *matpower.Case) { limit(c); c.Gen[row].InService = false }, nil))
			}
			t.Logf("%s, limits %s: %d solved, %d of %d branches compensated, %d islands, %d switches in %d steps, %d of %d units compensated", name, limits, solved, compensated, n.Branches(), islands, switches, steps, units, n.Gens())
			if compensated*2 < n.Branches()-islands || 2*units < n.Gens() || limits == "reached" && 2*switches < compensated {
				t.Errorf("%s, limits %s: %d of %d branches compensated, with %d switches", name, limits, compensated, n.Branches(), switches)
			}
			if steps > 11*compensated { // buses switch before a power flow is solved to its end
				t.Errorf("%s, limits %s: %d steps of %d branches", name, limits, steps, compensated)
			}
			// The solver is as it was.
			again := s.NewSolution()
			if err := s.Solve(Input{}, opt, again); err != nil || again.Mismatch != base.Mismatch || again.Vm[1] != base.Vm[1] {
				t.Errorf("%s: the base solution has changed: %v", name, err)
			}
		}
	}
}

// dispatch shares some of the load among units by their P_max, since a file of PGLib has no dispatch.
func dispatch(c *matpower.Case) {
	load, power := 0.0, 0.0
	for k := range c.Bus {
		c.Bus[k].Pd, c.Bus[k].Qd = 0.5*c.Bus[k].Pd, 0.3*c.Bus[k].Qd
		load += c.Bus[k].Pd
	}
	for _, g := range c.Gen {
		power += g.PMax
	}
	for k := range c.Gen {
		c.Gen[k].Pg = c.Gen[k].PMax * load / power
	}
}

// shift gives some branches a phase shift.
func shift(c *matpower.Case) {
	for k := range c.Branch {
		c.Branch[k].ShiftDeg += float64(k%5-2) / 2
	}
}

// Outages side by side are those that are solved one by one, in as many steps, also where buses switch at reactive limits or return
// from them; most need nothing else.
func TestOutagesSideBySide(t *testing.T) {
	for _, name := range []string{"case9", "case14", "case30", "case39", "case118", "pglib_opf_case118_ieee", "pglib_opf_case300_ieee"} {
		for _, limits := range []string{"none", "enforced", "reached", "enforced, shifted"} {
			enforce := limits != "none"
			n := without(t, name, func(c *matpower.Case) {
				if strings.HasPrefix(name, "pglib") {
					dispatch(c)
				}
				if limits == "reached" {
					atLimits(t, c)
				} else if enforce && limits != "enforced" {
					shift(c)
				}
			}, nil)
			s, opt := require.Get(New(n))(t), Options{EnforceQ: enforce, MaxIterations: 60, Start: Flat}
			base := s.NewSolution()
			if require.OK(t, s.Solve(Input{}, opt, base)); !base.Converged() {
				t.Fatal(name, base.Status)
			}
			single, batched := require.Get(s.Clone().NewOutages(Input{}, opt, base))(t), require.Get(s.Clone().NewOutages(Input{}, opt, base))(t)
			var branches, units []int
			for k := range n.Branches() {
				branches = append(branches, k)
			}
			for k := range n.Gens() {
				units = append(units, k)
			}
			batched.Ahead(branches, units)
			want, got := s.NewSolution(), s.NewSolution()
			lone, inLanes, switches := 0, 0, 0
			for k := range n.Branches() + n.Gens() {
				solve, what, number := (*Outages).Branch, "branch", k
				if k >= n.Branches() {
					solve, what, number = (*Outages).Unit, "unit", k-n.Branches()
				}
				a, b := require.Get(solve(single, number, want))(t), require.Get(solve(batched, number, got))(t)
				if a.Compensated {
					lone++
				}
				if y := batched.batch; y != nil && b.Compensated {
					if lane := slices.Index(y.elements, number); lane >= 0 && y.outages[lane].solved {
						inLanes++
						switches += got.Switches
					}
				}
				if a.Compensated != b.Compensated || want.Status != got.Status || want.Iterations != got.Iterations || want.Switches != got.Switches || !slices.Equal(a.Islanded, b.Islanded) || !slices.Equal(want.AtLimit, got.AtLimit) {
					t.Errorf("%s, limits %s, %s %d: %v, %v in %d steps with %d switches; one by one %v, %v in %d with %d", name, limits, what, number, b.Compensated, got.Status, got.Iterations, got.Switches, a.Compensated, want.Status, want.Iterations, want.Switches)
				}
				if !want.Converged() {
					continue
				}
				for i, list := range [][]float64{want.Vm, want.Va, want.Pg, want.Qg} {
					for j, v := range [][]float64{got.Vm, got.Va, got.Pg, got.Qg}[i] {
						if d := math.Abs(v - list[j]); !(d <= []float64{1e-9, 1e-9, 1e-7, 1e-7}[i]) {
							t.Fatalf("%s, limits %s, %s %d: number %d of list %d is off by %g", name, limits, what, number, j, i, d)
						}
					}
				}
				for j, kind := range n.Kind {
					if kind == network.PV && got.AtLimit[j] == 0 && !slices.Contains(b.Islanded, j) && (k < n.Branches() || n.GenBus[number] != j) && max(math.Abs(got.Vm[j]-s.vset[j]), math.Abs(want.Vm[j]-s.vset[j])) > 1e-13 {
						t.Errorf("%s, limits %s, %s %d: bus %d is %g pu from its set-point, one by one %g", name, limits, what, number, j, got.Vm[j]-s.vset[j], want.Vm[j]-s.vset[j])
					}
				}
				for j, v := range b.V {
					if slices.Contains(b.Islanded, j) && (v != [2]float64{} || got.Vm[j] != 0) {
						t.Fatalf("%s, limits %s, %s %d: bus %d, which is dark, has %g pu", name, limits, what, number, j, got.Vm[j])
					}
					if d := math.Hypot(v[0]-got.Vm[j]*math.Cos(got.Va[j]), v[1]-got.Vm[j]*math.Sin(got.Va[j])); !(d <= 1e-13) {
						t.Fatalf("%s, limits %s, %s %d: the rectangular voltage of bus %d is off by %g", name, limits, what, number, j, d)
					}
				}
			}
			for k := range n.Branches() { // what a batch leaves changes no other outage
				if pair := []int{k, (k + 3) % n.Branches()}; !single.Bridge(k) && !single.Bridge(pair[1]) {
					a, b := require.Get(single.Without(pair, nil, nil, want))(t), require.Get(batched.Without(pair, nil, nil, got))(t)
					if a.Compensated != b.Compensated || !slices.Equal(want.Vm, got.Vm) || !slices.Equal(want.Qg, got.Qg) {
						t.Fatalf("%s, limits %s: branches %v differ after a batch", name, limits, pair)
					}
				}
			}
			if t.Logf("%s, limits %s: %d of %d side by side, with %d switches", name, limits, inLanes, lone, switches); vectors && (inLanes < lone*8/10 || limits == "reached" && switches == 0) {
				t.Errorf("%s, limits %s: %d of %d side by side, with %d switches", name, limits, inLanes, lone, switches)
			}
		}
	}
}

// Every pair of a small network, and pairs of a larger one, end where the whole power flow without both ends; what one unit or
// branch takes from the other is counted once.
func TestPairsEqualWholePowerFlows(t *testing.T) {
	for name, stride := range map[string]int{"case14": 1, "case30": 1, "case118": 61} {
		for _, enforce := range []bool{false, true} {
			c := networktest.Case(t, name)
			n := networktest.Of(t, c)
			s, opt := require.Get(New(n))(t), Options{EnforceQ: enforce, MaxIterations: 60}
			base := s.NewSolution()
			require.OK(t, s.Solve(Input{}, opt, base))
			o, out, pairs := require.Get(s.NewOutages(Input{}, opt, base))(t), s.NewSolution(), 0
			compensated, solved := 0, 0
			nl := n.Branches()
			for i := range nl + n.Gens() {
				for j := range i {
					if pairs++; pairs%stride != 0 || i >= nl && n.GenBus[i-nl] == n.Slack || j >= nl && n.GenBus[j-nl] == n.Slack {
						continue
					}
					var branches, units []int
					whole := *c
					whole.Branch, whole.Gen = slices.Clone(c.Branch), slices.Clone(c.Gen)
					for _, k := range []int{i, j} {
						if k < nl {
							branches = append(branches, k)
							whole.Branch[n.BranchRow[k]].InService = false
						} else {
							units = append(units, k-nl)
							whole.Gen[n.GenRow[k-nl]].InService = false
						}
					}
					if slices.Max(n.Islands(branches...)) != slices.Min(n.Islands(branches...)) {
						continue
					}
					got := require.Get(o.Without(branches, units, nil, out))(t)
					w := require.Get(New(networktest.Of(t, &whole)))(t)
					want := w.NewSolution()
					require.OK(t, w.Solve(Input{}, opt, want))
					if solved++; got.Compensated {
						compensated++
					}
					if got.Solution.Converged() != want.Converged() {
						t.Errorf("%s, limits %v, branches %v, units %v: %v, whole %v", name, enforce, branches, units, out.Status, want.Status)
					}
					for b := range want.Vm {
						if d := max(math.Abs(want.Vm[b]-out.Vm[b]), math.Abs(want.Va[b]-out.Va[b])); want.Converged() && !(d <= 1e-8) {
							t.Errorf("%s, limits %v, branches %v, units %v: bus %d is off by %g", name, enforce, branches, units, n.BusID[b], d)
							break
						}
					}
				}
			}
			if t.Logf("%s, limits %v: %d of %d by the base's factors", name, enforce, compensated, solved); compensated < solved*8/10 {
				t.Errorf("%s, limits %v: %d of %d by the base's factors", name, enforce, compensated, solved)
			}
			if again := s.NewSolution(); s.Solve(Input{}, opt, again) != nil || again.Mismatch != base.Mismatch {
				t.Errorf("%s: the solver has changed", name)
			}
		}
	}
}

// A base that was solved with other options, or for another input, is solved again: the outages are those of a base of their
// own options. One without a solution is refused.
func TestABaseOfOtherOptionsIsSolvedAgain(t *testing.T) {
	s := require.Get(New(networktest.Load(t, "case118")))(t)
	solve := func(in Input, opt Options) *Solution {
		t.Helper()
		sol := s.NewSolution()
		if require.OK(t, s.Solve(in, opt, sol)); !sol.Converged() {
			t.Fatal(sol.Status)
		}
		return sol
	}
	held, free := Options{EnforceQ: true, MaxIterations: 60}, Options{}
	loads := slices.Clone(s.net.Pd)
	for b := range loads {
		loads[b] *= 1.02
	}
	for name, c := range map[string]struct {
		in, otherIn Input
		opt, other  Options
	}{
		"limits held":     {opt: held, other: free},
		"limits not held": {opt: free, other: held},
		"other loads":     {in: Input{Pd: loads}, opt: free, other: free},
		"loose tolerance": {opt: free, other: Options{Tolerance: 0.5}},
	} {
		own, other := solve(c.in, c.opt), solve(c.otherIn, c.other)
		if d := own.distance(other); !(d > sameBase) {
			t.Fatalf("%s: the bases lie %g apart: nothing is tested", name, d)
		}
		of := require.Get(s.Clone().NewOutages(c.in, c.opt, own))(t)
		if of.Base() != own {
			t.Errorf("%s: a base of the same options is not kept", name)
		}
		again := require.Get(s.Clone().NewOutages(c.in, c.opt, other))(t)
		if d := again.Base().distance(own); !(d <= sameBase) {
			t.Errorf("%s: the base lies %g from that of the options", name, d)
		}
		want, got := s.NewSolution(), s.NewSolution()
		for _, k := range []int{0, 7, 40, 120} {
			require.Get(of.Branch(k, want))(t)
			require.Get(again.Branch(k, got))(t)
			if d := got.distance(want); want.Converged() && !(d <= sameBase) {
				t.Errorf("%s: the outage of branch %d lies %g from that of a base of its options", name, k, d)
			}
		}
	}
	heavy := slices.Clone(s.net.Pd)
	for b := range heavy {
		heavy[b] *= 20
	}
	if _, err := s.NewOutages(Input{Pd: heavy}, free, solve(Input{}, free)); err == nil || !strings.Contains(err.Error(), "without any outage, has no solution") {
		t.Errorf("a base without a solution: %v", err)
	}
}

// A solver without a branch and a unit solves what an outage of both is; with them back it solves what it did before, to the bit.
func TestTakeOut(t *testing.T) {
	n := networktest.Load(t, "case39")
	s := require.Get(New(n))(t)
	before, during, after := s.NewSolution(), s.NewSolution(), s.NewSolution()
	opt := Options{EnforceQ: true}
	require.OK(t, s.Solve(Input{}, opt, before))
	o := require.Get(require.Get(New(n))(t).NewOutages(Input{}, opt, before))(t)
	for unit, b := range n.GenBus {
		branch := 3 + 2*unit
		if o.Bridge(branch) || n.Kind[b] == network.Slack {
			continue
		}
		restore := s.TakeOut([]int{branch}, []int{unit})
		require.OK(t, s.Solve(Input{}, opt, during))
		restore()
		outage := require.Get(o.Without([]int{branch}, []int{unit}, nil, s.NewSolution()))(t)
		if during.Converged() != outage.Solution.Converged() {
			t.Errorf("branch %d, unit %d: %v, the outage %v", branch, unit, during.Status, outage.Solution.Status)
		}
		for b, v := range during.Vm {
			if during.Converged() && math.Abs(v-outage.Solution.Vm[b]) > 1e-7 {
				t.Errorf("branch %d, unit %d, bus %d: %.9g pu, the outage %.9g", branch, unit, n.BusID[b], v, outage.Solution.Vm[b])
			}
		}
		require.OK(t, s.Solve(Input{}, opt, after))
		if !slices.Equal(after.Vm, before.Vm) || !slices.Equal(after.Qg, before.Qg) {
			t.Errorf("branch %d, unit %d are not back", branch, unit)
		}
	}
}
