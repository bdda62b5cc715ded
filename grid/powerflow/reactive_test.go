package powerflow_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/powerflow"
)

// TestReactiveLimitsHold: with EnforceQ every bus but the reference satisfies
// the complementarity that defines the problem: within its limits at its
// set-point, or at the upper limit with a voltage no higher, or at the lower one
// with a voltage no lower. Over random levels, so that many buses switch.
func TestReactiveLimitsHold(t *testing.T) {
	const tol = 1e-6
	for _, name := range operated() {
		n := networktest.Load(t, name)
		s := solver(t, n)
		sol := s.NewSolution()
		lo, hi, set := make([]float64, n.Buses()), make([]float64, n.Buses()), make([]float64, n.Buses())
		for g, b := range n.GenBus {
			lo[b] += n.QMin[g]
			hi[b] += n.QMax[g]
			set[b] = n.Vg[g]
		}
		rng := rand.New(rand.NewPCG(11, 3))
		held, solved := 0, 0
		for range 50 {
			in := powerflow.Input{Pd: make([]float64, n.Buses()), Qd: make([]float64, n.Buses())}
			level, reactive := 0.7+0.4*rng.Float64(), 0.2+1.5*rng.Float64()
			for b := range in.Pd {
				in.Pd[b], in.Qd[b] = level*n.Pd[b], level*reactive*n.Qd[b]
			}
			if err := s.Solve(in, powerflow.Options{EnforceQ: true, MaxIterations: 100}, sol); err != nil {
				t.Fatal(err)
			}
			if !sol.Converged() {
				continue
			}
			solved++
			if m := balance(n, &n.Admittance, in, sol); !(m <= 2e-9) {
				t.Errorf("%s: %g pu is left over", name, m)
			}
			q := make([]float64, n.Buses())
			for g, b := range n.GenBus {
				q[b] += sol.Qg[g]
			}
			for b, kind := range n.Kind {
				if kind != network.PV {
					continue
				}
				ok := false
				switch sol.AtLimit[b] {
				case 0:
					ok = q[b] >= lo[b]-tol && q[b] <= hi[b]+tol && math.Abs(sol.Vm[b]-set[b]) < tol
				case 1:
					held++
					ok = math.Abs(q[b]-hi[b]) < tol && sol.Vm[b] <= set[b]+tol
				case -1:
					held++
					ok = math.Abs(q[b]-lo[b]) < tol && sol.Vm[b] >= set[b]-tol
				}
				if !ok {
					t.Errorf("%s level %.2f×%.2f, bus %d, held %d: Q %g in [%g, %g], V %g, set-point %g",
						name, level, reactive, n.BusID[b], sol.AtLimit[b], q[b], lo[b], hi[b], sol.Vm[b], set[b])
				}
			}
		}
		if solved < 40 {
			t.Errorf("%s: %d of 50 solved", name, solved)
		}
		t.Logf("%s: %d solved, %d times a bus at its limit", name, solved, held)
	}
}

// TestGeneratorsShareReactivePower: two generators at one bus in proportion to
// their ranges, and the reference's first one takes the active rest.
func TestGeneratorsShareReactivePower(t *testing.T) {
	c := networktest.Case(t, "case9")
	twin := c.Gen[1]
	twin.QMin, twin.QMax, twin.Pg = -30, 60, 10
	c.Gen = append(c.Gen, twin)
	n := networktest.Of(t, c)
	s := solver(t, n)
	sol := solved(t, s, powerflow.Input{}, powerflow.Options{})
	if m := balance(n, &n.Admittance, powerflow.Input{}, sol); !(m <= 2e-9) {
		t.Errorf("%g pu is left over", m)
	}
	share := func(g int) float64 { return (sol.Qg[g] - n.QMin[g]) / (n.QMax[g] - n.QMin[g]) }
	if math.Abs(share(1)-share(3)) > 1e-12 {
		t.Errorf("the generators of bus 2 stand at %g and %g of their ranges", share(1), share(3))
	}
	if sol.Pg[1] != n.Pg0[1] || sol.Pg[3] != 0.1 {
		t.Errorf("active power moved: %v", sol.Pg)
	}
}

// TestTheReferencesFirstUnitTakesTheRest: the units of a reference bus give together what the bus injects
// and its load takes. All but the first keep their set-points.
func TestTheReferencesFirstUnitTakesTheRest(t *testing.T) {
	c := networktest.Case(t, "case9")
	for _, mw := range []float64{25, 40} {
		twin := c.Gen[0]
		twin.Pg = mw
		c.Gen = append(c.Gen, twin)
	}
	n := networktest.Of(t, c)
	pd := slices.Clone(n.Pd)
	pd[n.Slack] = 0.3
	in := powerflow.Input{Pd: pd}
	sol := solved(t, solver(t, n), in, powerflow.Options{})
	if m := balance(n, &n.Admittance, in, sol); !(m <= 2e-9) {
		t.Errorf("%g pu is left over", m)
	}
	if sol.Pg[3] != 0.25 || sol.Pg[4] != 0.4 {
		t.Errorf("the reference's other units moved: %v", sol.Pg)
	}
}

// TestSharesKeepLimits: generators at one bus of which some have a fixed or an unlimited reactive
// power keep their limits where the sums of these admit the bus's. A sum beyond leaves all beyond by
// the same.
func TestSharesKeepLimits(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		limits [][2]float64 // pu
		total  float64
		want   []float64
	}{
		{[][2]float64{{0.3, 0.3}, {-0.1, -0.1}}, 0.2, []float64{0.3, -0.1}},
		{[][2]float64{{0.3, 0.3}, {-0.1, -0.1}}, 0.4, []float64{0.4, 0}},
		{[][2]float64{{0.3, 0.3}, {-0.1, -0.1}, {0.05, 0.05}}, -0.05, []float64{0.2, -0.2, -0.05}},
		{[][2]float64{{0.9, 0.9}, {-inf, inf}}, 0.5, []float64{0.9, -0.4}},
		{[][2]float64{{-inf, inf}, {-inf, inf}}, 0.5, []float64{0.25, 0.25}},
		{[][2]float64{{-0.1, 0.1}, {-inf, inf}, {-inf, 0.2}}, 0.9, []float64{0.1, 0.6, 0.2}},
		{[][2]float64{{0, 0.1}, {0.4, inf}, {0.05, 0.05}}, 0.5, []float64{0.05, 0.4, 0.05}},
		{[][2]float64{{0, 0.1}, {0.4, inf}}, 0.2, []float64{-0.1, 0.3}},
		{[][2]float64{{0.2, 0.2}, {-0.3, 0.1}}, 0, []float64{0.2, -0.2}},
		{[][2]float64{{-inf, 0.1}, {-0.6, -0.2}, {0, inf}}, 0.1, []float64{0.1, -0.2, 0.2}},
	} {
		c9 := networktest.Case(t, "case9")
		for _, l := range c.limits {
			unit := c9.Gen[1]
			unit.QMin, unit.QMax = l[0]*c9.BaseMVA, l[1]*c9.BaseMVA
			c9.Gen = append(c9.Gen, unit)
		}
		c9.Gen = slices.Delete(c9.Gen, 1, 2)
		n := networktest.Of(t, c9)
		p, q, pg, qg := make([]float64, n.Buses()), make([]float64, n.Buses()), make([]float64, n.Gens()), make([]float64, n.Gens())
		first := n.Gens() - len(c.limits)
		bus := n.GenBus[first]
		q[bus] = c.total - n.Qd[bus]
		solver(t, n).Share(powerflow.Input{}, p, q, pg, qg)
		for i, want := range c.want {
			if !(math.Abs(qg[first+i]-want) <= 1e-12) {
				t.Errorf("limits %v, sum %g: shares %v, want %v", c.limits, c.total, qg[first:], c.want)
				break
			}
		}
	}
}

// TestRandomSharesKeepLimits: the same for limits drawn at random, some fixed and some infinite.
func TestRandomSharesKeepLimits(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 17))
	for range 200 {
		c := networktest.Case(t, "case9")
		lo, hi, units := 0.0, 0.0, 2+rng.IntN(4)
		for range units {
			unit := c.Gen[1]
			a, b := 2*rng.Float64()-1, 2*rng.Float64()-1
			unit.QMin, unit.QMax = min(a, b)*c.BaseMVA, max(a, b)*c.BaseMVA
			switch rng.IntN(6) {
			case 0, 1, 2:
				unit.QMax = unit.QMin
			case 3:
				unit.QMin = math.Inf(-1)
			case 4:
				unit.QMax = math.Inf(1)
			}
			c.Gen = append(c.Gen, unit)
			lo, hi = lo+unit.QMin/c.BaseMVA, hi+unit.QMax/c.BaseMVA
		}
		c.Gen = slices.Delete(c.Gen, 1, 2)
		n := networktest.Of(t, c)
		p, q, pg, qg := make([]float64, n.Buses()), make([]float64, n.Buses()), make([]float64, n.Gens()), make([]float64, n.Gens())
		first := n.Gens() - units
		bus := n.GenBus[first]
		total := max(lo, -10) + rng.Float64()*(min(hi, 10)-max(lo, -10))
		q[bus] = total - n.Qd[bus]
		solver(t, n).Share(powerflow.Input{}, p, q, pg, qg)
		sum := 0.0
		for g := first; g < n.Gens(); g++ {
			sum += qg[g]
			if !(qg[g] >= n.QMin[g]-1e-12 && qg[g] <= n.QMax[g]+1e-12) {
				t.Errorf("%g in [%g, %g], of a sum of %g", qg[g], n.QMin[g], n.QMax[g], total)
			}
		}
		if !(math.Abs(sum-total) <= 1e-12) {
			t.Errorf("shares add up to %g, the bus's sum is %g", sum, total)
		}
	}
}

// A solve that begins at a solution with the buses that it holds has nothing to switch and ends there; one
// that begins with buses held for no reason releases them.
func TestHeldBusesAreAStart(t *testing.T) {
	n := networktest.Load(t, "case118")
	s := solver(t, n)
	sol, again := s.NewSolution(), s.NewSolution()
	in := powerflow.Input{Qd: make([]float64, n.Buses())}
	for b, q := range n.Qd {
		in.Qd[b] = 1.5 * q
	}
	if err := s.Solve(in, powerflow.Options{EnforceQ: true, MaxIterations: 100}, sol); err != nil || !sol.Converged() || sol.Switches == 0 {
		t.Fatal(err, sol.Status, sol.Switches)
	}
	opt := powerflow.Options{Start: powerflow.FromSolution, EnforceQ: true, KeepLimits: true, MaxIterations: 100}
	for _, wrong := range []bool{false, true} {
		copy(again.Vm, sol.Vm)
		copy(again.Va, sol.Va)
		copy(again.AtLimit, sol.AtLimit)
		if wrong {
			for b, h := range sol.AtLimit {
				if h == 0 && n.Kind[b] == network.PV {
					again.AtLimit[b] = 1
					break
				}
			}
		}
		if err := s.Solve(in, opt, again); err != nil || !again.Converged() || (again.Switches > 0) != wrong {
			t.Fatalf("%v, %v, %d switches", err, again.Status, again.Switches)
		}
		for b := range sol.Vm {
			if math.Abs(again.Vm[b]-sol.Vm[b]) > 1e-6 || again.AtLimit[b] != sol.AtLimit[b] {
				t.Fatalf("bus %d: %g pu held %d, before %g held %d", n.BusID[b], again.Vm[b], again.AtLimit[b], sol.Vm[b], sol.AtLimit[b])
			}
		}
	}
}

// A solve that begins with the factors of the one before comes to the same solution, with none of its own where
// little has moved, and with new ones where buses have changed their kind or admittances are set.
func TestFactorsOfTheSolveBefore(t *testing.T) {
	n := networktest.Load(t, "case118")
	s := solver(t, n)
	sol, again, alone := s.NewSolution(), s.NewSolution(), s.NewSolution()
	in := powerflow.Input{Pg: append([]float64(nil), n.Pg0...)}
	opt := powerflow.Options{EnforceQ: true, MaxIterations: 100}
	if err := s.Solve(in, opt, sol); err != nil || !sol.Converged() {
		t.Fatal(err, sol.Status)
	}
	near := powerflow.Options{EnforceQ: true, MaxIterations: 100, Start: powerflow.FromSolution, KeepLimits: true}
	in.Pg[5] += 1e-5
	if err := s.Solve(in, near, sol); err != nil || sol.Factorisations != 1 {
		t.Fatal(err, sol.Factorisations)
	}
	in.Pg[5] += 1e-5
	fresh := near
	near.Factors = true
	for _, c := range []struct {
		name   string
		before func()
		opt    powerflow.Options
		want   bool // factors of its own
	}{
		{"near", func() {}, near, false},
		{"asked for new ones", func() {}, fresh, true},
		{"other admittances", func() {
			if err := s.SetAdmittance(&n.Admittance); err != nil {
				t.Fatal(err)
			}
		}, near, true},
		{"another kind", func() {
			other := in
			other.Qd = make([]float64, n.Buses())
			for b, q := range n.Qd {
				other.Qd[b] = 1.5 * q
			}
			if err := s.Solve(other, opt, s.NewSolution()); err != nil {
				t.Fatal(err)
			}
		}, near, true},
	} {
		for _, to := range []*powerflow.Solution{again, alone} {
			copy(to.Vm, sol.Vm)
			copy(to.Va, sol.Va)
			copy(to.AtLimit, sol.AtLimit)
		}
		c.before()
		if err := s.Solve(in, c.opt, again); err != nil || !again.Converged() || (again.Factorisations > 0) != c.want {
			t.Errorf("%s: %v, %v, %d factorisations", c.name, err, again.Status, again.Factorisations)
		}
		if err := solver(t, n).Solve(in, fresh, alone); err != nil {
			t.Fatal(err)
		}
		for b, v := range alone.Vm {
			if math.Abs(again.Vm[b]-v) > 1e-8 || math.Abs(again.Va[b]-alone.Va[b]) > 1e-8 {
				t.Errorf("%s: bus %d at %g pu, %g rad; alone %g, %g", c.name, n.BusID[b], again.Vm[b], again.Va[b], v, alone.Va[b])
			}
		}
	}
}
