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

// quantities of a power flow whose gradient in the voltages is known: a mixture of
// P and Q of both ends of every branch and of every bus, and every magnitude.
type quantity struct {
	name  string
	value func(s *powerflow.Solver, sol *powerflow.Solution, flows *network.Flows) float64
	add   func(s *powerflow.Solver, angle, magnitude []float64)
}

func quantities(n *network.Network, rng *rand.Rand) []quantity {
	var q []quantity
	for range 12 {
		k, a, b := rng.IntN(n.Branches()), rng.NormFloat64(), rng.NormFloat64()
		q = append(q, quantity{"flow at the from end",
			func(_ *powerflow.Solver, _ *powerflow.Solution, f *network.Flows) float64 {
				return a*f.Pf[k] + b*f.Qf[k]
			},
			func(s *powerflow.Solver, angle, magnitude []float64) {
				s.AddFlowGradient(k, true, a, b, angle, magnitude)
			},
		}, quantity{"flow at the to end",
			func(_ *powerflow.Solver, _ *powerflow.Solution, f *network.Flows) float64 {
				return a*f.Pt[k] + b*f.Qt[k]
			},
			func(s *powerflow.Solver, angle, magnitude []float64) {
				s.AddFlowGradient(k, false, a, b, angle, magnitude)
			},
		})
	}
	for i := range n.Buses() {
		a, b := rng.NormFloat64(), rng.NormFloat64()
		q = append(q, quantity{"injection",
			func(s *powerflow.Solver, _ *powerflow.Solution, _ *network.Flows) float64 {
				p, r := s.Injection(i)
				return a*p + b*r
			},
			func(s *powerflow.Solver, angle, magnitude []float64) {
				s.AddInjectionGradient(i, a, b, angle, magnitude)
			},
		}, quantity{"magnitude",
			func(_ *powerflow.Solver, sol *powerflow.Solution, _ *network.Flows) float64 {
				return sol.Vm[i]
			},
			func(_ *powerflow.Solver, _, magnitude []float64) { magnitude[i]++ },
		})
	}
	return q
}

// entangled is a case with a phase shifter, a parallel branch the other way round and, as
// case39, two references.
func entangled(t testing.TB, name string) *network.Network {
	c := networktest.Case(t, name)
	c.Branch[2].ShiftDeg = 8
	twin := c.Branch[1]
	twin.From, twin.To, twin.X = twin.To, twin.From, 2*twin.X
	c.Branch = append(c.Branch, twin)
	if name == "case39" {
		c.Bus[29].Type = 3
	}
	return networktest.Of(t, c)
}

// TestSensitivities: the derivative of flows, injections and magnitudes in every
// injection and every set-point, against differences of whole power flows, on
// networks with taps, shunts, a phase shifter, parallel and turned branches and two
// references.
func TestSensitivities(t *testing.T) {
	for _, name := range []string{"case9", "case14", "case30", "case39"} {
		n := entangled(t, name)
		s, probe := solver(t, n), solver(t, n)
		in := powerflow.Input{Pd: append([]float64(nil), n.Pd...), Qd: append([]float64(nil), n.Qd...), Vg: append([]float64(nil), n.Vg...)}
		sol := solved(t, s, in, powerflow.Options{Tolerance: 1e-12})
		if !s.Linearise() {
			t.Fatal(name, "singular")
		}
		all := quantities(n, rand.New(rand.NewPCG(5, 6)))
		gradients := make([][2][]float64, len(all))
		for k, q := range all {
			g := [2][]float64{make([]float64, n.Buses()), make([]float64, n.Buses())}
			q.add(s, g[0], g[1])
			s.Sensitivity(g[0], g[1])
			gradients[k] = g
		}
		compareSideBySide(t, n, s, all, gradients)
		flows := network.NewFlows(n.Branches())
		at := func() []float64 {
			if err := probe.Solve(in, powerflow.Options{Tolerance: 1e-12}, sol); err != nil || !sol.Converged() {
				t.Fatal(name, err, probe.Reason(sol))
			}
			probe.BranchFlows(sol, flows)
			v := make([]float64, len(all))
			for k, q := range all {
				v[k] = q.value(probe, sol, flows)
			}
			return v
		}
		compare := func(what string, bus, part int, sign float64, vary ...*float64) {
			const h = 1e-5
			old := *vary[0]
			for _, v := range vary {
				*v = old + h
			}
			up := at()
			for _, v := range vary {
				*v = old - h
			}
			down := at()
			for _, v := range vary {
				*v = old
			}
			for k, q := range all {
				want := sign * (up[k] - down[k]) / (2 * h)
				got := gradients[k][part][bus]
				if !(math.Abs(got-want) <= 1e-5*(1+math.Abs(want))) {
					t.Errorf("%s: %s by the %s of bus %d is %g, differences give %g", name, q.name, what, n.BusID[bus], got, want)
				}
			}
		}
		sets := make([][]*float64, n.Buses())
		for g, b := range n.GenBus {
			sets[b] = append(sets[b], &in.Vg[g])
		}
		for b, kind := range n.Kind {
			if kind != network.Slack {
				compare("active load", b, 0, -1, &in.Pd[b])
			}
			if kind == network.PQ {
				compare("reactive load", b, 1, -1, &in.Qd[b])
			} else {
				compare("set-point", b, 1, 1, sets[b]...)
			}
		}
	}
}

// compareSideBySide holds the sensitivities of four and fewer quantities at once to those of
// each alone, bit for bit, and a linearisation at another solver's voltages to its own.
func compareSideBySide(t *testing.T, n *network.Network, s *powerflow.Solver, all []quantity, want [][2][]float64) {
	model := s.Clone()
	if !model.LineariseAt(s) {
		t.Fatal(n.Name, "singular")
	}
	for from := 0; from < len(all); {
		count := min(1+from%powerflow.RightHandSides, len(all)-from)
		angle, magnitude := make([][]float64, count), make([][]float64, count)
		for k := range count {
			angle[k], magnitude[k] = make([]float64, n.Buses()), make([]float64, n.Buses())
			all[from+k].add(model, angle[k], magnitude[k])
		}
		model.Sensitivities(angle, magnitude)
		for k := range count {
			for _, b := range n.GenBus {
				if angle[k][b] != want[from+k][0][b] || magnitude[k][b] != want[from+k][1][b] {
					t.Errorf("%s: %s at bus %d is %g, %g among %d, %g, %g alone", n.Name, all[from+k].name, n.BusID[b], angle[k][b], magnitude[k][b], count, want[from+k][0][b], want[from+k][1][b])
				}
			}
		}
		from += count
	}
}

// TestAGivenStart: from voltages the caller knows, the solution is the same and
// near it a solve takes one iteration or none; a start that is none is refused.
func TestAGivenStart(t *testing.T) {
	n := networktest.Load(t, "case30")
	s := solver(t, n)
	want, got := s.NewSolution(), s.NewSolution()
	if err := s.Solve(powerflow.Input{}, powerflow.Options{}, want); err != nil || !want.Converged() {
		t.Fatal(err, s.Reason(want))
	}
	for _, off := range []float64{0, 1e-6, 0.02} {
		for b := range got.Vm {
			got.Vm[b], got.Va[b] = want.Vm[b]+off, want.Va[b]-off
		}
		if err := s.Solve(powerflow.Input{}, powerflow.Options{Start: powerflow.FromSolution}, got); err != nil || !got.Converged() {
			t.Fatal(err, s.Reason(got))
		}
		if off == 0 && got.Iterations != 0 || off == 1e-6 && got.Iterations > 2 {
			t.Errorf("%d iterations from %g away", got.Iterations, off)
		}
		for b := range got.Vm {
			if !(math.Abs(got.Vm[b]-want.Vm[b]) < 1e-8) || !(math.Abs(got.Va[b]-want.Va[b]) < 1e-8) {
				t.Errorf("from %g away, bus %d is at %g∠%g instead of %g∠%g", off, b, got.Vm[b], got.Va[b], want.Vm[b], want.Va[b])
			}
		}
	}
	for name, spoil := range map[string]func(){
		"a magnitude of NaN": func() { got.Vm[3] = math.NaN() },
		"a magnitude of 0":   func() { got.Vm[3] = 0 },
		"an infinite angle":  func() { got.Va[3] = math.Inf(1) },
		"too few buses":      func() { got.Vm = got.Vm[:3] },
	} {
		got = s.NewSolution()
		copy(got.Vm, want.Vm)
		spoil()
		if err := s.Solve(powerflow.Input{}, powerflow.Options{Start: powerflow.FromSolution}, got); err == nil {
			t.Errorf("%s was taken as a start", name)
		}
	}
}

// TestFactorsAreKept: from a start within 1e-4 pu of balance one factorisation
// serves the whole solve, whose solution is as exact as another.
func TestFactorsAreKept(t *testing.T) {
	n := networktest.Load(t, "case118")
	s := solver(t, n)
	sol := solved(t, s, powerflow.Input{}, powerflow.Options{})
	in := powerflow.Input{Pd: append([]float64(nil), n.Pd...)}
	for b := range in.Pd {
		in.Pd[b] *= 1 + 1e-5
	}
	if err := s.Solve(in, powerflow.Options{Start: powerflow.Warm, Tolerance: 1e-12}, sol); err != nil || !sol.Converged() {
		t.Fatal(err, s.Reason(sol))
	}
	if sol.Factorisations != 1 || sol.Iterations < 2 {
		t.Errorf("%d factorisations for %d iterations", sol.Factorisations, sol.Iterations)
	}
	if m := balance(n, &n.Admittance, in, sol); !(m <= 1e-11) {
		t.Errorf("%g pu is left over", m)
	}
}

// Response is Sensitivity's transpose: a quantity changes as much along the voltages that
// follow from changed inputs as its sensitivities say; and the changes of flows and
// injections along voltages are their gradients' products with them.
func TestResponseIsTheTransposeOfSensitivity(t *testing.T) {
	n := entangled(t, "case39")
	s := solver(t, n)
	solved(t, s, powerflow.Input{}, powerflow.Options{})
	if !s.Linearise() {
		t.Fatal("singular")
	}
	rng := rand.New(rand.NewPCG(8, 9))
	draw := func() []float64 {
		v := make([]float64, n.Buses())
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	product := func(a, b []float64) (sum float64) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	for _, q := range quantities(n, rng) {
		power, other := draw(), draw()
		angle, magnitude := slices.Clone(power), slices.Clone(other)
		s.Response(angle, magnitude)
		byAngle, byMagnitude := make([]float64, n.Buses()), make([]float64, n.Buses())
		q.add(s, byAngle, byMagnitude)
		along := product(byAngle, angle) + product(byMagnitude, magnitude)
		s.Sensitivity(byAngle, byMagnitude)
		if want := product(byAngle, power) + product(byMagnitude, other); !(math.Abs(along-want) < 1e-9*(1+math.Abs(want))) {
			t.Fatalf("%s: %v along the response, %v by its sensitivities", q.name, along, want)
		}
	}
	angle, magnitude := draw(), draw()
	for k := range n.Branches() {
		byAngle, byMagnitude := make([]float64, n.Buses()), make([]float64, n.Buses())
		from := k%2 == 0
		s.AddFlowGradient(k, from, 0.3, -0.8, byAngle, byMagnitude)
		if got, want := s.FlowChange(k, from, 0.3, -0.8, angle, magnitude), product(byAngle, angle)+product(byMagnitude, magnitude); !(math.Abs(got-want) < 1e-11*(1+math.Abs(want))) {
			t.Fatalf("branch %d: %v, its gradient says %v", k, got, want)
		}
	}
	for i := range n.Buses() {
		byAngle, byMagnitude := make([]float64, n.Buses()), make([]float64, n.Buses())
		s.AddInjectionGradient(i, 0.3, -0.8, byAngle, byMagnitude)
		if got, want := s.InjectionChange(i, 0.3, -0.8, angle, magnitude), product(byAngle, angle)+product(byMagnitude, magnitude); !(math.Abs(got-want) < 1e-11*(1+math.Abs(want))) {
			t.Fatalf("bus %d: %v, its gradient says %v", i, got, want)
		}
	}
}
