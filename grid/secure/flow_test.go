package secure

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

func removeAt[T any](list []T, index int) []T {
	return slices.Delete(slices.Clone(list), index, index+1)
}

// The power flow after an outage is that of a network without the branch or unit, in which the others have their shares.
func TestAnOutageIsANetworkWithoutIt(t *testing.T) {
	for _, name := range []string{"case39", "case118"} {
		n := networktest.Load(t, name)
		s := require.Get(New(n, DefaultOptions()))(t)
		f := newOutageFlows(s.sys, n.Pd, n.Qd)
		base, pg, err := powerFlowBefore(f, n.Pg0, n.Vm0)
		require.OK(t, err)
		units, solved := 0, 0
		for _, o := range s.outages {
			c := require.Get(f.solveOutage(o, pg, base.vm, base.va, nil))(t)
			if !c.Solved {
				continue
			}
			solved++
			whole := *n
			whole.DCLines = nil
			power := slices.Clone(pg)
			for g, share := range s.sys.share {
				if share > 0 {
					power[g], _, _ = clip(pg[g]+share*c.Delta, n.PMin[g], n.PMax[g], 0)
				}
			}
			vg := make([]float64, n.Gens())
			for g, b := range n.GenBus {
				vg[g] = base.vm[b]
			}
			if o.Unit >= 0 {
				units++
				whole.GenBus, whole.GenRow = removeAt(n.GenBus, o.Unit), removeAt(n.GenRow, o.Unit)
				whole.QMin, whole.QMax = removeAt(n.QMin, o.Unit), removeAt(n.QMax, o.Unit)
				whole.Pg0, whole.Qg0, whole.Vg = removeAt(n.Pg0, o.Unit), removeAt(n.Qg0, o.Unit), removeAt(n.Vg, o.Unit)
				power, vg = removeAt(power, o.Unit), removeAt(vg, o.Unit)
			}
			y := network.NewAdmittance(n.Branches())
			for i, v := range y.Parts() {
				copy(v, n.Admittance.Parts()[i])
			}
			if o.Branch >= 0 {
				y.Open(o.Branch)
			}
			p := require.Get(powerflow.New(whole.WithReference(c.reference)))(t)
			require.OK(t, p.SetAdmittance(y))
			sol := p.NewSolution()
			copy(sol.Vm, c.vm)
			copy(sol.Va, c.va)
			copy(sol.AtLimit, c.atLimit)
			opt := powerflow.Options{Start: powerflow.FromSolution, EnforceQ: true, KeepLimits: true, Tolerance: 1e-10}
			require.OK(t, p.Solve(powerflow.Input{Pd: n.Pd, Qd: n.Qd, Pg: power, Vg: vg}, opt, sol))
			if !sol.Converged() || sol.Iterations > 1 {
				t.Errorf("%s, %s: %s", name, o.name(n), p.Reason(sol))
			}
			for b, v := range c.vm {
				if math.Abs(v-sol.Vm[b]) > 1e-9 || math.Abs(c.va[b]-sol.Va[b]) > 1e-9 {
					t.Errorf("%s, %s, bus %d: %.12g pu at %.12g, of the network without it %.12g at %.12g", name, o.name(n), n.BusID[b], v, c.va[b], sol.Vm[b], sol.Va[b])
					break
				}
			}
		}
		if units == 0 || solved < len(s.outages)/2 {
			t.Errorf("%s: %d outages solved, %d of units", name, solved, units)
		}
	}
}

// Units share what is missing until no balance shows what is left: spread over many units, a correction can be below what a power
// flow sees at each of them. On 500 buses such corrections were made until none was left, and the outage had no power flow.
func TestSharingEndsWhereNoBalanceShowsIt(t *testing.T) {
	for _, c := range []struct {
		name             string
		off, slope       float64
		correction, step int
		want             bool
	}{
		{"nothing is off", 1e-10, 1, 0, 15, true},
		{"as much is off as a flow sees", 1.3e-9, 1, 3, 1, false},
		{"no balance shows the correction", -1.3e-9, 1, 4, 0, true},
		{"there was no correction yet", 1.3e-9, 1, 0, 0, false},
		{"more is off than a limit may be broken by", 1e-5, 1, 4, 0, false},
		{"no unit has anything left", 1e-7, 0, 2, 1, true},
		{"more is missing than any unit has left", 1e-5, 0, 2, 1, false},
	} {
		if got := shareConverged(c.off, c.slope, c.correction, c.step); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// An optimum may lie where the network after an outage can carry no more: what is off has a double root there, of which the
// secants grow without end. On 300 buses they were not followed, and the outage had no power flow.
func TestSharingEndsWhereANetworkCanCarryNoMore(t *testing.T) {
	const most, first = 0.5523, 1 / 0.74
	var path secants
	delta := 0.42
	for k := range shareIterations {
		off := 1.2 * (most - delta) * (most - delta)
		if shareConverged(off, 1/first, k, 1) {
			if math.Abs(delta-most) > 1e-4 {
				t.Errorf("units share %v, want %v", delta, most)
			}
			return
		}
		by := first
		if secant, known := path.next(delta, off, first); known {
			by = secant
		}
		delta += off * by
	}
	t.Errorf("after %d corrections units share %v, want %v", shareIterations, delta, most)
}
