package opf

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
)

func newTestSystem(t testing.TB, name string, opt Options) *System {
	t.Helper()
	y, err := NewSystem(name, name, networktest.Load(t, name), opt)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// randomPoint is a state near flat, loads about the file's at a level, and a
// dispatch that covers them.
func randomPoint(rng *rand.Rand, y *System, level float64) (s, c, u []float64) {
	n, l := y.Network, &y.layout
	s, c, u = make([]float64, 2*l.buses), make([]float64, l.context), make([]float64, 2*l.gens)
	pd, qd := make([]float64, l.buses), make([]float64, l.buses)
	for i := range pd {
		pd[i], qd[i] = n.Pd[i]*level*(1+0.1*rng.NormFloat64()), n.Qd[i]*level*(1+0.1*rng.NormFloat64())
		s[i], s[l.buses+i] = 1+0.01*rng.NormFloat64(), 0.02*rng.NormFloat64()
	}
	factors := branchDraw(rng, l.branches)
	previous := make([]float64, l.gens)
	for g := range previous {
		previous[g] = n.PMin[g] + rng.Float64()*(n.PMax[g]-n.PMin[g])
	}
	y.Context(c, pd, qd, previous, factors)
	y.Base(s, c, u)
	for g := range l.gens {
		u[g] += 0.02 * rng.NormFloat64()
		u[l.gens+g] = 1.02 + 0.02*rng.NormFloat64()
	}
	return s, c, u
}

// Dispatching is the power flow of the case with the loads, branch factors and
// set-points at hand: buses balance by sums that no solver makes, every unit's bus
// has its V_G, and units give what they were told, the reference what is left.
func TestADispatchIsAPowerFlow(t *testing.T) {
	for _, name := range []string{"case9", "case14", "case30", "case39", "case118"} {
		n := networktest.Load(t, name)
		n.Kind[n.GenBus[len(n.GenBus)-1]] = network.PQ // a unit holds the voltage also here
		y, err := NewSystem(name, name, n, Options{Uncertain: true})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		w := newWorkspace(y)
		for range 5 {
			s, c, u := randomPoint(rng, y, 0.8)
			copy(c[y.layout.factors:], branchDraw(rng, y.layout.branches))
			if !w.dispatch(s, c, u) {
				t.Fatalf("%s: no solution", name)
			}
			admittance := network.NewAdmittance(n.Branches())
			if err := n.ScaleBranches(y.branchFactors(c), admittance); err != nil {
				t.Fatal(err)
			}
			p, q := make([]float64, n.Buses()), make([]float64, n.Buses())
			n.Injections(admittance, w.solution.Vm, w.solution.Va, p, q)
			for i := range p {
				p[i], q[i] = p[i]+w.pd[i], q[i]+w.qd[i]
			}
			for g, b := range n.GenBus {
				p[b], q[b] = p[b]-w.solution.Pg[g], q[b]-w.solution.Qg[g]
				if !(math.Abs(w.solution.Vm[b]-u[n.Gens()+y.model.unit[b]]) < 1e-12) {
					t.Fatalf("%s: bus %d is at %v, the set-point is %v", name, n.BusID[b], w.solution.Vm[b], u[n.Gens()+y.model.unit[b]])
				}
				if g != y.model.slackGen && w.solution.Pg[g] != u[g] {
					t.Fatalf("%s: unit %d gives %v instead of %v", name, g, w.solution.Pg[g], u[g])
				}
			}
			for i := range p {
				if !(math.Abs(p[i]) < 2e-9) || !(math.Abs(q[i]) < 2e-9) {
					t.Fatalf("%s: bus %d is out of balance by %v, %v", name, n.BusID[i], p[i], q[i])
				}
			}
			if w.solution.Va[n.Slack] != 0 {
				t.Fatalf("%s: the reference stands at %v rad", name, w.solution.Va[n.Slack])
			}
		}
		s, c, u := randomPoint(rng, y, 0.8)
		c[0] = math.NaN()
		if w.dispatch(s, c, u) || w.smallest() != -1 {
			t.Errorf("%s: a load of NaN has a power flow with a margin of %v", name, w.smallest())
		}
	}
}

// Every row of the projection's program is a derivative of the margin it stands
// for.
func TestLimitRowsAreDerivatives(t *testing.T) {
	for _, name := range []string{"case30", "case118"} {
		y := newTestSystem(t, name, Options{Uncertain: true})
		rng := rand.New(rand.NewPCG(3, 4))
		w := newWorkspace(y)
		compared := 0
		for range 3 {
			s, c, u := randomPoint(rng, y, 0.95)
			if !w.dispatch(s, c, u) {
				t.Fatal("no solution")
			}
			gap := func(u []float64) []float64 { // bound of every row at u
				other := newWorkspace(y)
				if !other.dispatch(s, c, u) {
					t.Fatal("no solution beside")
				}
				other.allRows(c)
				return append([]float64(nil), other.projection.program.bound...)
			}
			p := w.projection
			w.allRows(c)
			for j, at := range p.control {
				const h = 1e-5
				up, down := append([]float64(nil), u...), append([]float64(nil), u...)
				up[at] += h
				down[at] -= h
				a, b := gap(up), gap(down)
				if len(a) != len(p.program.bound) || len(b) != len(a) {
					continue // a limit came within reach
				}
				for k := range a {
					want := -(a[k] - b[k]) / (2 * h)
					if got := p.program.row(k)[j]; math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
						t.Fatalf("%s: row %d by control %d is %v, difference %v", name, k, at, got, want)
					}
					compared++
				}
			}
		}
		if compared == 0 {
			t.Fatal("nothing was compared")
		}
	}
}

// allRows makes a row of every limit within reach.
func (w *workspace) allRows(c []float64) {
	p := w.projection
	w.linear.LineariseAt(w.solver)
	p.program.metric = w.system.metric()
	p.program.reset()
	w.limitsWithin(c)
	p.candidates = p.candidates[:0]
	for k := range p.limits {
		p.candidates = append(p.candidates, k)
	}
	w.addChosen()
}

func BenchmarkDispatch(b *testing.B) {
	y := newTestSystem(b, "case30", Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	w := newWorkspace(y)
	s, c, u := randomPoint(rng, y, 0.8)
	b.ReportAllocs()
	for b.Loop() {
		w.cached = false
		if !w.dispatch(s, c, u) {
			b.Fatal("no solution")
		}
	}
}

// BenchmarkProject projects the merit order along a trajectory of the envelope,
// the steps with a correction apart from those without.
func BenchmarkProject(b *testing.B) {
	c := Thirty()
	y := c.Problem.(*System)
	ep, err := c.Plant.Episode(991, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}})
	if err != nil {
		b.Fatal(err)
	}
	type point struct{ s, c, u []float64 }
	var points [2][]point
	w := newWorkspace(y)
	for !ep.Done() {
		at := point{make([]float64, 2*y.layout.buses), make([]float64, y.layout.context), make([]float64, 2*y.layout.gens)}
		ep.Observe(at.s, at.c)
		y.Base(at.s, at.c, at.u)
		u := slices.Clone(at.u)
		y.clip(at.c, u)
		kind := 0
		if w.dispatch(at.s, at.c, u); w.smallest() < 0 {
			kind = 1
		}
		points[kind] = append(points[kind], at)
		y.Project(at.s, at.c, u)
		if _, err := ep.Apply(u); err != nil {
			b.Fatal(err)
		}
	}
	for kind, name := range []string{"inside", "corrected"} {
		b.Run(name, func(b *testing.B) {
			u, k := make([]float64, 2*y.layout.gens), 0
			b.ReportAllocs()
			for b.Loop() {
				at := points[kind][k%len(points[kind])]
				copy(u, at.u)
				y.Project(at.s, at.c, u)
				k++
			}
			b.ReportMetric(float64(len(points[kind])), "points")
		})
	}
}

// Without a power flow the score is that of the state and the set-points themselves,
// whatever was asked before.
func TestScoreWithoutPowerFlow(t *testing.T) {
	y := newTestSystem(t, "case30", Options{})
	rng := rand.New(rand.NewPCG(21, 22))
	for range 3 {
		s, c, u := randomPoint(rng, y, 0.8)
		J, m, want := make([]float64, objectives), make([]float64, y.layout.margins), make([]float64, objectives)
		y.Score(s, c, u, J, m)
		for k := range y.layout.previous {
			c[k] *= 20
		}
		y.Score(s, c, u, J, m)
		y.Objectives(s, u, c, want)
		if !slices.Equal(J, want) {
			t.Errorf("the score is %v, want %v", J, want)
		}
		for k, v := range m {
			if v != -1 {
				t.Fatalf("margin %d is %v without a power flow, want −1", k, v)
			}
		}
	}
}

// A line is as near to its limit as the more loaded of its two ends, whichever that is.
func TestLineMarginsAreOfTheMoreLoadedEnd(t *testing.T) {
	for _, name := range []string{"case30", "case39"} {
		y := newTestSystem(t, name, Options{})
		n, l := y.Network, &y.layout
		rng := rand.New(rand.NewPCG(5, 6))
		w, flows, admittance := newWorkspace(y), network.NewFlows(n.Branches()), network.NewAdmittance(n.Branches())
		from, to := 0, 0
		for range 3 {
			s, c, u := randomPoint(rng, y, 0.8)
			if !w.dispatch(s, c, u) {
				t.Fatalf("%s: no solution", name)
			}
			if err := n.ScaleBranches(y.branchFactors(c), admittance); err != nil {
				t.Fatal(err)
			}
			n.BranchFlows(admittance, w.solution.Vm, w.solution.Va, flows)
			for r, k := range l.rated {
				sf, st := math.Hypot(flows.Pf[k], flows.Qf[k]), math.Hypot(flows.Pt[k], flows.Qt[k])
				want := n.Rate[k] - sf
				if from++; st > sf {
					want = n.Rate[k] - st
					from, to = from-1, to+1
				}
				if got := w.margin[l.marginS+r]; math.Abs(got-want) > 1e-9 {
					t.Errorf("%s, branch %d: margin %v, %v and %v at its ends leave %v", name, k, got, sf, st, want)
				}
			}
		}
		if from == 0 || to == 0 {
			t.Errorf("%s: %d lines are more loaded where they begin, %d where they end: want some of both", name, from, to)
		}
	}
}
