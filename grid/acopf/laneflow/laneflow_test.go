package laneflow

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// input of one power flow, and its solution by package powerflow.
type flow struct {
	in           powerflow.Input
	y            *network.Admittance
	p, q, vm, va []float64 // as Worker.Set takes them
	solution     *powerflow.Solution
	flows        *network.Flows
}

// drawn is a power flow of random loads, set-points and branch factors from a start near by.
func drawn(t testing.TB, n *network.Network, s *powerflow.Solver, rng *rand.Rand) *flow {
	near := func(v []float64, spread float64) []float64 {
		out := make([]float64, len(v))
		for i, x := range v {
			out[i] = x * (1 + spread*(2*rng.Float64()-1))
		}
		return out
	}
	f := &flow{
		in: powerflow.Input{Pd: near(n.Pd, 0.2), Qd: near(n.Qd, 0.2), Pg: near(n.Pg0, 0.2), Vg: near(n.Vg, 0.02)},
		y:  network.NewAdmittance(n.Branches()), solution: s.NewSolution(), flows: network.NewFlows(n.Branches()),
	}
	require.OK(t, n.ScaleBranches(near(slices.Repeat([]float64{1}, n.Branches()), 0.03), f.y))
	require.OK(t, s.SetAdmittance(f.y))
	f.vm, f.va = near(n.Vm0, 0.02), near(n.Va0, 0.1)
	copy(f.solution.Vm, f.vm)
	copy(f.solution.Va, f.va)
	for _, r := range n.References {
		f.va[r] = n.Va0[r]
	}
	f.p, f.q = make([]float64, n.Buses()), make([]float64, n.Buses())
	for b := range f.p {
		f.p[b], f.q[b] = -f.in.Pd[b], -f.in.Qd[b]
	}
	for g, b := range n.GenBus {
		f.p[b] += f.in.Pg[g]
		if n.Kind[b] == network.PQ {
			f.q[b] += n.Qg0[g]
		} else {
			f.vm[b] = f.in.Vg[g]
		}
	}
	require.OK(t, s.Solve(f.in, powerflow.Options{Start: powerflow.FromSolution}, f.solution))
	if !f.solution.Converged() {
		t.Fatal(s.Reason(f.solution))
	}
	s.BranchFlows(f.solution, f.flows)
	return f
}

// solved is what a worker answers in one lane.
type solved struct {
	ok                     bool
	vm, va, p, q, from, to []float64
}

func (w *Worker) answer(lane int) solved {
	buses, rated := w.solver.net.Buses(), len(w.solver.rated)
	v := func(n int) []float64 { return make([]float64, n) }
	a := solved{vm: v(buses), va: v(buses), p: v(buses), q: v(buses), from: v(rated), to: v(rated)}
	w.From(lane, a.from)
	w.To(lane, a.to)
	a.ok = w.Done(lane, a.vm, a.va, a.p, a.q)
	return a
}

func (w *Worker) give(lane int, f *flow) {
	w.SetAdmittance(lane, f.y)
	w.Set(lane, f.p, f.q, f.vm, f.va)
}

func rated(n *network.Network) (list []int) {
	for k := range n.From {
		list = append(list, k)
	}
	return list
}

// TestSolutions: voltages, injections, flows and units' outputs are those of package
// powerflow, on every instruction set, bitwise the same on all.
func TestSolutions(t *testing.T) {
	for _, name := range []string{"case30", "case39", "pglib_opf_case57_ieee", "case118"} {
		t.Run(name, func(t *testing.T) {
			n := networktest.Load(t, name)
			reference := require.Get(powerflow.New(n))(t)
			var first []solved
			for _, level := range isa.Available() {
				for _, width := range lanes.Widths(level) {
					s := require.Get(newSolver(n, rated(n), level, width))(t)
					w := s.NewWorker()
					rng := rand.New(rand.NewPCG(1, 2))
					var answers []solved
					for len(answers) < 16 {
						var given []*flow
						for lane := range width {
							f := drawn(t, n, reference, rng)
							given = append(given, f)
							w.give(lane, f)
						}
						w.Solve()
						w.Flows(true)
						for lane, f := range given {
							a := w.answer(lane)
							check(t, reference, f, &a)
							answers = append(answers, a)
						}
					}
					if first == nil {
						first = answers
					}
					for i, a := range answers {
						if fmt.Sprint(a) != fmt.Sprint(first[i]) {
							t.Fatalf("%v with %d lanes: answer %d has other bits than %v's", level, width, i, isa.Available()[0])
						}
					}
				}
			}
		})
	}
}

func check(t *testing.T, s *powerflow.Solver, f *flow, a *solved) {
	t.Helper()
	if !a.ok {
		t.Fatal("did not converge")
	}
	// Both are solved to 1e-9 pu of mismatch.
	const tolerance = 1e-7
	same := func(name string, got, want []float64) {
		t.Helper()
		for i := range want {
			if !(math.Abs(got[i]-want[i]) <= tolerance*(1+math.Abs(want[i]))) {
				t.Fatalf("%s[%d] is %v, powerflow's %v", name, i, got[i], want[i])
			}
		}
	}
	same("vm", a.vm, f.solution.Vm)
	same("va", a.va, f.solution.Va)
	pg, qg := make([]float64, len(f.solution.Pg)), make([]float64, len(f.solution.Qg))
	s.Share(f.in, a.p, a.q, pg, qg)
	same("pg", pg, f.solution.Pg)
	same("qg", qg, f.solution.Qg)
	for k := range f.flows.Pf {
		same("from", a.from[k:k+1], []float64{math.Hypot(f.flows.Pf[k], f.flows.Qf[k])})
		same("to", a.to[k:k+1], []float64{math.Hypot(f.flows.Pt[k], f.flows.Qt[k])})
	}
}

// TestLanesAreApart: a lane beyond what the network can carry is said not to converge, and the
// others have the bits that they have among any others.
func TestLanesAreApart(t *testing.T) {
	n := networktest.Load(t, "case30")
	reference := require.Get(powerflow.New(n))(t)
	for _, level := range isa.Available() {
		width := lanes.Widths(level)[0]
		w := require.Get(newSolver(n, rated(n), level, width))(t).NewWorker()
		rng := rand.New(rand.NewPCG(3, 4))
		f := drawn(t, n, reference, rng)
		var want string
		for trial := range 3 {
			for lane := range width {
				other := drawn(t, n, reference, rng)
				switch {
				case lane == 1:
					other = f
				case trial == 1:
					for b := range other.p {
						other.p[b] *= 20
					}
				case trial == 2 && lane == 2:
					other.p[3] = math.NaN()
				case trial == 2:
					continue // as it was left
				}
				w.give(lane, other)
			}
			w.Solve()
			w.Flows(true)
			got := w.answer(1)
			if !got.ok {
				t.Fatal("the lane did not converge")
			}
			if want == "" {
				want = fmt.Sprint(got)
			} else if fmt.Sprint(got) != want {
				t.Errorf("%v: other lanes change this one's bits", level)
			}
			for lane := range width {
				if a := w.answer(lane); lane != 1 && a.ok != (trial == 0) {
					t.Errorf("%v, trial %d: lane %d converged: %v", level, trial, lane, a.ok)
				}
			}
		}
	}
}

func BenchmarkFlow(b *testing.B) {
	for _, name := range []string{"case30", "case118"} {
		n := networktest.Load(b, name)
		reference := require.Get(powerflow.New(n))(b)
		rng := rand.New(rand.NewPCG(1, 2))
		f := drawn(b, n, reference, rng)
		for _, level := range isa.Available() {
			b.Run(fmt.Sprintf("%s/%v", name, level), func(b *testing.B) {
				width := lanes.Widths(level)[0]
				w := require.Get(newSolver(n, rated(n), level, width))(b).NewWorker()
				b.ReportAllocs()
				for b.Loop() {
					for lane := range width {
						w.Set(lane, f.p, f.q, f.vm, f.va)
					}
					w.Solve()
					w.Flows(true)
					for lane := range width {
						w.Done(lane, f.solution.Vm, f.solution.Va, f.flows.Pf[:n.Buses()], f.flows.Qf[:n.Buses()])
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*width), "ns/flow")
			})
		}
		b.Run(name+"/powerflow", func(b *testing.B) {
			solution := reference.NewSolution()
			for b.Loop() {
				copy(solution.Vm, f.vm)
				copy(solution.Va, f.va)
				if err := reference.Solve(f.in, powerflow.Options{Start: powerflow.FromSolution}, solution); err != nil || !solution.Converged() {
					b.Fatal(err, solution.Status)
				}
			}
		})
	}
}
