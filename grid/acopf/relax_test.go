package acopf

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
)

// radial is a load fed over one line.
type radial struct{ p, q, r, x float64 }

// atLoad is the larger voltage of the load when the feeding end has v, and the power into
// the line there, from |V|⁴ + |V|²(2(rp + xq) − v²) + |z|²|s|² = 0.
func (l radial) atLoad(v float64) (voltage, p, q float64) {
	s2, b := l.p*l.p+l.q*l.q, v*v-2*(l.r*l.p+l.x*l.q)
	w2 := (b + math.Sqrt(b*b-4*(l.r*l.r+l.x*l.x)*s2)) / 2
	return math.Sqrt(w2), l.p + l.r*s2/w2, l.q + l.x*s2/w2
}

// atFeed is the voltage that the feeding end needs for v at the load.
func (l radial) atFeed(v float64) float64 {
	return math.Hypot(v+(l.r*l.p+l.x*l.q)/v, (l.x*l.p-l.r*l.q)/v)
}

// network has the load at bus 2, with a unit at bus 1 whose voltage ends at 1.05.
func (l radial) network(t *testing.T, change func(c *matpower.Case)) *network.Network {
	t.Helper()
	c := &matpower.Case{
		Bus:    []matpower.Bus{bus(1, matpower.Reference, 0, 0), bus(2, matpower.PQ, 100*l.p, 100*l.q)},
		Gen:    []matpower.Gen{gen(1, 0, 300, 1)},
		Branch: []matpower.Branch{{From: 1, To: 2, R: l.r, X: l.x, InService: true}},
	}
	c.Bus[0].VMax, c.Bus[1].VMin = 1.05, 0.8
	change(c)
	return build(t, c)
}

// relax also wants that the solver itself finds no optimum.
func relax(t *testing.T, net *network.Network, pd, qd []float64) *Relaxation {
	t.Helper()
	if r := solveOne(t, newTestSolver(t, net, Options{}), Problem{Pd: pd, Qd: qd}); r.Status != Infeasible {
		t.Errorf("%s: %v, want infeasible", net.Name, r.Status)
	}
	x, err := Relax(context.Background(), net, pd, qd, Options{}, Penalties{})
	if err != nil {
		t.Fatal(err)
	}
	if x.Status != Optimal {
		t.Fatalf("%s: %v after %d iterations", net.Name, x.Status, x.Iterations)
	}
	return x
}

// only wants one amount among all, and nothing else.
func only(t *testing.T, x *Relaxation, of []float64, at int, amount float64) {
	t.Helper()
	for what, v := range map[string][]float64{"missing P": x.MissingP, "missing Q": x.MissingQ, "Vmin": x.VMin, "Vmax": x.VMax, "Pmin": x.PMin, "Pmax": x.PMax,
		"Qmin": x.QMin, "Qmax": x.QMax, "flow": x.Flow, "angmin": x.AngMin, "angmax": x.AngMax} {
		for i, got := range v {
			want := 0.0
			if &v[0] == &of[0] && i == at {
				want = amount
			}
			if !(math.Abs(got-want) <= 1e-6) {
				t.Errorf("%s[%d] gives %.9g, want %.9g", what, i, got, want)
			}
		}
	}
}

// The line's overload at the end that feeds it, least where its voltage is greatest.
func TestATightLineGives(t *testing.T) {
	l := radial{0.8, 0.3, 0.02, 0.1}
	x := relax(t, l.network(t, func(c *matpower.Case) { c.Branch[0].RateA = 60 }), nil, nil)
	_, p, q := l.atLoad(1.05)
	only(t, x, x.Flow, 0, math.Hypot(p, q)-0.6)
	if want := (math.Hypot(p, q) - 0.6 + math.Hypot(l.p, l.q) - 0.6) / 2; !(math.Abs(x.Cost-want) <= 1e-6) {
		t.Errorf("at a cost of %.9g, want %.9g", x.Cost, want)
	}
}

// What the unit generates beyond its limit is load and least loss less the limit.
func TestTooLittleGenerationGives(t *testing.T) {
	l := radial{0.8, 0.3, 0.02, 0.1}
	x := relax(t, l.network(t, func(c *matpower.Case) { c.Gen[0].PMax = 50 }), nil, nil)
	_, p, _ := l.atLoad(1.05)
	only(t, x, x.PMax, 0, p-0.5)
}

// Load that no unit may serve at any price below a balance's goes.
func TestLoadGoesWhereItIsTheCheapest(t *testing.T) {
	l := radial{0.8, 0.3, 0.02, 0.1}
	net := l.network(t, func(c *matpower.Case) { c.Gen[0].PMax = 50 })
	x, err := Relax(context.Background(), net, nil, nil, Options{}, Penalties{Balance: 1, Generation: 3})
	if err != nil || x.Status != Optimal {
		t.Fatal(x, err)
	}
	// The load that is left is served with 0.5 pu into the line.
	left := l
	for range 60 {
		_, p, _ := left.atLoad(1.05)
		left.p -= p - 0.5
	}
	if got, want := x.MissingP[1], l.p-left.p; !(math.Abs(got-want) <= 2e-3) || x.PMax[0] != 0 || x.MissingP[0] != 0 {
		t.Errorf("missing %v, beyond the limit %v; want about %.6f at bus 2", x.MissingP, x.PMax, want)
	}
}

// Limits of two buses that one line cannot keep apart: the feeding end gives way, where
// the drop is larger.
func TestContradictoryVoltagesGive(t *testing.T) {
	l := radial{0.1, 0.05, 0.0005, 0.001}
	x := relax(t, l.network(t, func(c *matpower.Case) {
		c.Bus[0].VMin, c.Bus[0].VMax = 1.05, 1.1
		c.Bus[1].VMin, c.Bus[1].VMax = 0.9, 0.95
	}), nil, nil)
	only(t, x, x.VMin, 0, 1.05-l.atFeed(0.95))
}

// Limits that give what is said let the solver itself find an optimum; at nine tenths of
// it there is none.
func TestRelaxedLimitsCanBeKept(t *testing.T) {
	for _, c := range []struct {
		name  string
		scale float64
	}{{"case30", 1.1}, {"case30", 1.4}, {"case30", 2}, {"case39", 1.2}, {"case9", 3}, {"features", 4}} {
		net := load(t, c.name)
		pd, qd := net.Loads(c.scale)
		x := relax(t, net, pd, qd)
		if !(x.Cost > 1e-4) {
			t.Errorf("%s ×%g: a cost of %g", c.name, c.scale, x.Cost)
		}
		for share, want := range map[float64]Status{1: Optimal, 0.9: Infeasible} {
			n := *net
			wider := func(v, by []float64, sign float64) []float64 {
				out := append([]float64(nil), v...)
				for i := range out {
					if by[i] > 0 {
						out[i] += sign * (share*by[i] + 1e-6)
					}
				}
				return out
			}
			n.VMin, n.VMax = wider(net.VMin, x.VMin, -1), wider(net.VMax, x.VMax, 1)
			n.PMin, n.PMax = wider(net.PMin, x.PMin, -1), wider(net.PMax, x.PMax, 1)
			n.QMin, n.QMax = wider(net.QMin, x.QMin, -1), wider(net.QMax, x.QMax, 1)
			n.Rate = wider(net.Rate, x.Flow, 1)
			n.AngMin, n.AngMax = wider(net.AngMin, x.AngMin, -1), wider(net.AngMax, x.AngMax, 1)
			p, q := append([]float64(nil), pd...), append([]float64(nil), qd...)
			for b := range p {
				p[b] -= share * x.MissingP[b]
				q[b] -= share * x.MissingQ[b]
			}
			if r := solveOne(t, newTestSolver(t, &n, Options{}), Problem{Pd: p, Qd: q}); r.Status != want {
				t.Errorf("%s ×%g with %g of the relaxation: %v, want %v", c.name, c.scale, share, r.Status, want)
			}
		}
	}
}

// The least relaxation of a network where one branch has other room costs no less by the
// branch's own rating: the price is of |S|, not of |S|².
func TestNoOtherOverloadIsCheaper(t *testing.T) {
	net := load(t, "case9")
	pd, qd := net.Loads(3)
	x := relax(t, net, pd, qd)
	for l, by := range x.Flow {
		if by == 0 {
			continue
		}
		for _, share := range []float64{0.9, 1.1} {
			n := *net
			n.Rate = append([]float64(nil), net.Rate...)
			n.Rate[l] += share * by
			other, err := Relax(context.Background(), &n, pd, qd, Options{}, Penalties{})
			if err != nil || other.Status != Optimal {
				t.Fatal(err, other)
			}
			f := network.NewFlows(net.Branches())
			net.BranchFlows(&net.Admittance, other.Vm, other.Va, f)
			cost := other.Cost
			for _, s := range []float64{math.Hypot(f.Pf[l], f.Qf[l]), math.Hypot(f.Pt[l], f.Qt[l])} {
				cost += (max(s-net.Rate[l], 0) - max(s-n.Rate[l], 0)) / 2
			}
			if !(cost >= x.Cost-1e-5) {
				t.Errorf("branch %d with %g more room: a cost of %.6f, the least is said to be %.6f", l, share*by, cost, x.Cost)
			}
		}
	}
}

// Where all limits can be kept nothing gives.
func TestFeasibleLimitsGiveNothing(t *testing.T) {
	for _, name := range []string{"case9", "case14", "case30", "case118", "features"} {
		net := load(t, name)
		x, err := Relax(context.Background(), net, nil, nil, Options{}, Penalties{})
		if err != nil || x.Status != Optimal || x.Cost != 0 {
			t.Errorf("%s: %+v, %v", name, x, err)
			continue
		}
		only(t, x, x.VMin, -1, 0)
	}
}

func TestRelaxBadInput(t *testing.T) {
	net := load(t, "case9")
	for want, f := range map[string]func() error{
		"not negative": func() error {
			_, err := Relax(context.Background(), net, nil, nil, Options{}, Penalties{Flow: -1})
			return err
		},
		"currents": func() error {
			_, err := Relax(context.Background(), net, nil, nil, Options{CurrentLimits: true}, Penalties{})
			return err
		},
		"Pd has 1 values": func() error {
			_, err := Relax(context.Background(), net, []float64{1}, nil, Options{}, Penalties{})
			return err
		},
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A round begins where the last one ended: where overloads are many it takes a few iterations, not
// those of a flat start, and the cost is that of a flat start in every round.
func TestRoundsOfARelaxationGoOn(t *testing.T) {
	for _, c := range []struct {
		name  string
		scale float64
		most  int     // half of what flat starts in every round take
		cost  float64 // which those have come to
	}{{"case39", 1.6, 56, 72.610502}, {"pglib_opf_case118_ieee", 1.3, 84, 0.079135}, {"pglib_opf_case300_ieee", 1.3, 90, 40.050328}} {
		net := load(t, c.name)
		pd, qd := net.Loads(c.scale)
		x, err := Relax(context.Background(), net, pd, qd, Options{}, Penalties{})
		if err != nil || x.Status != Optimal {
			t.Fatal(x, err)
		}
		if x.Rounds < 2 || x.Iterations > c.most || !(math.Abs(x.Cost-c.cost) <= 1e-5*c.cost) {
			t.Errorf("%s ×%g: %d iterations in %d rounds, at a cost of %.6f; want at most %d, and %.6f", c.name, c.scale, x.Iterations, x.Rounds, x.Cost, c.most, c.cost)
		}
	}
}
