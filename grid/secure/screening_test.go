package secure

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
)

// around are dispatches near one, within limits.
func around(n *network.Network, pg, vm []float64, count int) (list []Candidate) {
	r := rand.New(rand.NewPCG(39, 4))
	for range count {
		c := Candidate{make([]float64, n.Gens()), make([]float64, n.Buses())}
		for g := range c.Pg {
			c.Pg[g] = min(max(pg[g]+0.1*r.NormFloat64()*(n.PMax[g]-n.PMin[g]), n.PMin[g]), n.PMax[g])
		}
		for b := range c.Vm {
			c.Vm[b] = min(max(vm[b]+0.01*r.NormFloat64(), n.VMin[b]), n.VMax[b])
		}
		list = append(list, c)
	}
	return list
}

// The margins that a screening finds are those of full power flows after every outage, one by one: without
// a guard exactly, and with the default one where the audit misses nothing. It solves fewer.
func TestScreeningFindsTheWorstOutage(t *testing.T) {
	for _, name := range []string{"case9", "case_ieee30", "case39"} {
		n := networktest.Load(t, name)
		opt := DefaultOptions()
		s, r := solve(t, n, opt, 0.7, nil)
		if r.Pg == nil {
			t.Fatal(r.Reason)
		}
		list := append([]Candidate{{r.Pg, r.Vm}}, around(n, r.Pg, r.Vm, 11)...)
		var pr Problem
		pr.Pd, pr.Qd = n.Loads(0.7)
		all, err := s.Screen(context.Background(), pr, list, ScreenOptions{Guard: math.Inf(1)})
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range list {
			f := newOutageFlows(s.sys, pr.Pd, pr.Qd)
			base, pg, err := f.base(c)
			if err != nil || !base.Solved {
				t.Fatal(name, err, base.Reason)
			}
			least := math.Inf(1)
			for _, o := range s.outages {
				check, err := f.after(o, pg, c.Vm, base.va, nil)
				if err != nil {
					t.Fatal(err)
				}
				room := f.room(check)
				least = min(least, room)
				if severity := check.Severity(); severity > 0 && check.Solved && math.Abs(room+severity) > 1e-12 {
					t.Errorf("%s: room %g, severity %g", name, room, severity)
				}
			}
			if all.Margins[i].Least != least || all.Margins[i].Flows != len(s.outages) {
				t.Errorf("%s, candidate %d: %+v, one by one %g", name, i, all.Margins[i], least)
			}
		}
		fast, err := s.Screen(context.Background(), pr, list, ScreenOptions{Audit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if fast.Audited != fast.Skipped || fast.Flows != all.Flows {
			t.Errorf("%s: %+v", name, fast)
		}
		missed := 0
		some, err := s.Screen(context.Background(), pr, list, ScreenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			if fast.Margins[i].Least != all.Margins[i].Least {
				t.Errorf("%s, candidate %d: audited %g, all %g", name, i, fast.Margins[i].Least, all.Margins[i].Least)
			}
			if some.Margins[i].Least != all.Margins[i].Least {
				missed++
			}
		}
		if (missed > 0) != (fast.Missed > 0) || some.Flows+some.Skipped != all.Flows || some.Flows >= all.Flows {
			t.Errorf("%s: %d margins missed, the audit counts %d; %d flows and %d skipped of %d", name, missed, fast.Missed, some.Flows, some.Skipped, all.Flows)
		}
		t.Logf("%s: %d of %d flows, %d of %d margins missed", name, some.Flows, all.Flows, missed, len(list))
	}
}

// Candidates of the wrong shape and numbers that are none are refused.
func TestScreeningRefusals(t *testing.T) {
	n := networktest.Load(t, "case9")
	s, err := New(n, DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	good := func() Candidate { return Candidate{make([]float64, n.Gens()), append([]float64{}, n.Vm0...)} }
	short, dead, none := good(), good(), good()
	short.Pg = short.Pg[1:]
	dead.Vm[n.GenBus[0]] = 0
	none.Pg[0] = math.NaN()
	for want, c := range map[string]Candidate{"want those of 3 units": short, "want a positive one": dead, "want a finite number": none} {
		if _, err := s.Screen(context.Background(), Problem{}, []Candidate{c}, ScreenOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	if _, err := s.Screen(context.Background(), Problem{}, nil, ScreenOptions{Guard: -1}); err == nil {
		t.Error("a negative guard is taken")
	}
}

// Both ends of a branch count: which of them a file calls the from end changes no margin and no worst outage.
func TestRoomIsThatOfTheMoreLoadedEnd(t *testing.T) {
	c := networktest.Case(t, "case9") // whose branches have no taps
	for i := range c.Branch {
		c.Branch[i].RateA /= 2 // so that ratings are nearer than voltages
	}
	var margins [2][]Margin
	for side := range margins {
		if side == 1 {
			for i := range c.Branch {
				b := &c.Branch[i]
				b.From, b.To = b.To, b.From
			}
		}
		n := networktest.Of(t, c)
		s, err := New(n, DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		list := around(n, n.Pg0, n.Vm0, 8)
		found, err := s.Screen(context.Background(), Problem{}, list, ScreenOptions{Guard: math.Inf(1)})
		if err != nil {
			t.Fatal(err)
		}
		margins[side] = found.Margins
	}
	for i, m := range margins[0] {
		turned := margins[1][i]
		if m.Outage != turned.Outage || !(math.Abs(m.Least-turned.Least) < 1e-7) || !(m.Least < 0) {
			t.Errorf("candidate %d: %+v, with every branch turned round %+v", i, m, turned)
		}
	}
}

// Distribution factors predict what an outage does to the active power of branches that are left.
func TestDistributionFactorsPredictFlows(t *testing.T) {
	for _, name := range []string{"case9", "case39"} {
		n := networktest.Load(t, name)
		s, r := solve(t, n, DefaultOptions(), 0.7, nil)
		if r.Pg == nil {
			t.Fatal(r.Reason)
		}
		pd, qd := n.Loads(0.7)
		f, c := newOutageFlows(s.sys, pd, qd), Candidate{r.Pg, r.Vm}
		factors, err := s.distribution(f, c)
		if err != nil || factors == nil {
			t.Fatal(name, err)
		}
		base, pg, err := f.base(c)
		if err != nil {
			t.Fatal(err)
		}
		active := func(k int, c *Check) float64 {
			return flows(&n.Admittance, k, c.va[n.From[k]]-c.va[n.To[k]], c.vm[n.From[k]], c.vm[n.To[k]]).p[0]
		}
		const share = 0.25 // of what the outage takes away, by which a linear prediction may be off
		for i, o := range s.outages {
			after, err := f.after(o, pg, c.Vm, base.va, nil)
			if err != nil || !after.Solved {
				t.Fatal(name, o, err, after.Reason)
			}
			var lost float64
			if o.Branch >= 0 {
				lost = active(o.Branch, base)
			} else {
				lost = pg[o.Unit]
			}
			for row, k := range s.sys.rated {
				predicted := active(k, base) + factors.flow[i][row]*lost
				if got := active(k, after); k != o.Branch && math.Abs(lost) > 0.1 && !(math.Abs(predicted-got) <= share*math.Abs(lost)) {
					t.Errorf("%s, %s: branch %d has %g pu, predicted %g, of %g that is lost", name, o.name(n), n.BranchRow[k]+1, got, predicted, lost)
				}
			}
		}
	}
}
