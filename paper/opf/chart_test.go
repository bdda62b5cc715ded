package opf

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// The operating point is the power flow that Margins are of: their room is what it leaves, and
// every bus balances.
func TestAnOperatingPointIsWhatMarginsAreOf(t *testing.T) {
	c := ThirtyUncertain()
	y := c.Problem.(*System)
	ep := require.Get(c.Plant.Episode(991, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	s, x, u := make([]float64, y.spec.MeasuredSize()), make([]float64, y.spec.ContextSize()), make([]float64, y.spec.ActionSize())
	ep.Observe(s, x)
	y.Fallback(s, x, u)
	p, ok := y.Operate(s, x, u)
	if !ok {
		t.Fatal("the fallback has no power flow")
	}
	chart, l, m := y.Chart(), &y.layout, make([]float64, y.layout.margins)
	y.Margins(s, x, u, m)
	same := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%s leaves %v, the margin is %v", what, got, want)
		}
	}
	for g, b := range chart.Units {
		same("P", math.Min(p.Pg[g]-b.PMin, b.PMax-p.Pg[g]), m[g])
		same("Q", math.Min(p.Qg[g]-b.QMin, b.QMax-p.Qg[g]), m[l.marginQ+g])
	}
	for i, b := range chart.Buses {
		same("V", math.Min(p.V[i]-b.VMin, b.VMax-p.V[i]), m[l.marginV+i])
	}
	for r, k := range l.rated {
		same("S", chart.Branches[k].Rate-p.S[k], m[l.marginS+r])
	}
	// What units give and loads take at the leaves of the network flows in their one branch.
	degree := make([]int, len(chart.Buses))
	for _, b := range chart.Branches {
		degree[b.From]++
		degree[b.To]++
	}
	leaves := 0
	for k, b := range chart.Branches {
		if degree[b.To] != 1 {
			continue
		}
		leaves++
		net := -p.Pd[b.To]
		for g, unit := range chart.Units {
			if unit.Bus == b.To {
				net += p.Pg[g]
			}
		}
		if lost := p.P[k] + net; !(lost > -1e-6 && lost < 0.05) {
			t.Errorf("branch %d takes %v pu to a bus that gives %v", k, p.P[k], net)
		}
	}
	if leaves == 0 {
		t.Error("the network has no leaf to check")
	}
	u[0] = math.NaN()
	u[l.gens] = math.NaN()
	if _, ok := y.Operate(s, x, u); ok {
		t.Error("set-points that are no numbers have a power flow")
	}
}
