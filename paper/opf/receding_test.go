package opf

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Every derivative of a linearised dispatch, of its value and of all that a limit bounds, is
// the central difference; on the network of a file, and with other branch factors. The
// second derivative, where neither J₁ nor J₂ is at work, is that of the gradient.
func TestLinearisedDispatch(t *testing.T) {
	for _, name := range []string{"case30", "case9", "case39"} {
		rng := rand.New(rand.NewPCG(17, 4))
		y := newTestSystem(t, name, Options{Uncertain: name == "case30"})
		d := newLinearDispatch(y)
		k := len(d.control)
		for trial := range 3 {
			s, c, u := randomPoint(rng, y, 0.7+0.1*float64(trial))
			d.begin(c, [objectives]float64{300, 300, 1}) // J₁ and J₂ are seen beside the cost
			at, near := d.newStep(), d.newStep()
			start := func(p *plannedStep) {
				copy(p.u, u)
				copy(p.vm, s[:y.layout.buses])
			}
			start(at)
			d.bend(s, at.u)
			if !d.linearise(at) {
				t.Fatalf("%s: no power flow", name)
			}
			const step = 3e-4 // a power flow is known to 1e-9 pu; of fourth order
			differences := func(f [4]float64) float64 { return (8*(f[0]-f[1]) - (f[2] - f[3])) / (12 * step) }
			for j, control := range d.control {
				var value [4]float64
				quantity := make([][4]float64, len(d.limits))
				for side, h := range [4]float64{step, -step, 2 * step, -2 * step} {
					start(near)
					copy(near.vm, at.vm)
					copy(near.va, at.va)
					near.u[control] += h
					for g, b := range y.Network.GenBus { // the first unit's V_G is its bus's
						near.u[y.layout.gens+g] = near.u[y.layout.gens+y.model.unit[b]]
					}
					if !d.evaluate(near) {
						t.Fatalf("%s: no power flow beside", name)
					}
					value[side] = near.value
					for i, q := range near.quantity {
						quantity[i][side] = q
					}
				}
				want := differences(value)
				if math.Abs(at.gradient[j]-want) > 1e-4*math.Max(1, math.Abs(want)) { // J₂ bends where its deadband ends
					t.Errorf("%s: the value's derivative in control %d is %v, differences say %v", name, j, at.gradient[j], want)
				}
				for i := range d.limits {
					want, tolerance := differences(quantity[i]), 1e-5
					if what := d.limits[i].kind; what == flowFrom || what == flowTo {
						tolerance = 2e-4 // a branch with next to no flow bends sharply
					}
					if math.Abs(at.slope[i*k+j]-want) > tolerance*math.Max(1, math.Abs(want)) {
						t.Errorf("%s: the derivative of quantity %d (%d at %d) in control %d is %v, differences say %v", name, i, d.limits[i].kind, d.limits[i].index, j, at.slope[i*k+j], want)
					}
				}
			}
		}
	}
}

// drive runs a method through so many steps of an episode and returns their cost and the
// oracle's; a dispatch of `mpc` that breaks a limit, or is not its own, ends the test.
func drive(t *testing.T, c domain.Case, method string, opt domain.EpisodeOptions, seed uint64, index, steps int) (cost, oracle float64) {
	t.Helper()
	ep := require.Get(c.Plant.Episode(seed, index, opt))(t)
	m, ok := c.Method(method)
	if !ok {
		t.Fatalf("no method %s", method)
	}
	controller := require.Get(m.New(domain.Means{}))(t)
	require.OK(t, controller.Reset(ep))
	spec := c.Problem.Spec()
	s, cx, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	_, plan, err := ep.Oracle()
	require.OK(t, err)
	best := require.Get(c.Plant.Episode(seed, index, opt))(t)
	unsolved := 0
	for step := range steps {
		ep.Observe(s, cx)
		solved := require.Get(controller.Decide(s, cx, opt.Preference, u))(t).Solved()
		out := require.Get(ep.Apply(u))(t)
		if !solved {
			unsolved++
		}
		if method == "mpc" && !spec.Keeps(out.Margin) {
			t.Fatalf("%s: step %d has the margin %v, solved %v", opt.Regime, step, out.Margin, solved)
		}
		cost += out.Cost
		oracle += require.Get(best.Apply(plan[step]))(t).Cost
	}
	if method == "mpc" && unsolved > steps/100 {
		t.Errorf("%s: %d of %d dispatches end at the limit of linearisations", opt.Regime, unsolved, steps)
	}
	return cost, oracle
}

// `mpc` keeps every limit and ramp where both bind, also of a network whose admittances
// differ from the file's as long as it is told, and its gap over two episodes is a tenth of
// that of `hold` at most. A dispatch in a hundred at most ends at the limit of
// linearisations.
func TestRecedingDispatchKeepsLimits(t *testing.T) {
	steps := Steps
	if testing.Short() {
		steps = 40
	}
	for _, c := range []domain.Case{Thirty(), ThirtyUncertain()} {
		for _, regime := range []string{RegimeEnvelope, RegimeSwing} {
			opt := domain.EpisodeOptions{Regime: regime, Preference: domain.Preference{Adaptive: true}}
			gap := map[string]float64{}
			for _, method := range []string{"mpc", "hold"} {
				cost, oracle := 0.0, 0.0
				for index := range 2 {
					own, best := drive(t, c, method, opt, 992, index, steps)
					cost, oracle = cost+own, oracle+best
				}
				gap[method] = 100 * (cost - oracle) / oracle
			}
			t.Logf("%s, %s: gap of mpc %.5f %%, of hold %.4f %%", c.Problem.Spec().Name, regime, gap["mpc"], gap["hold"])
			if !(gap["mpc"] < gap["hold"]/10) || gap["mpc"] > 0.02 {
				t.Errorf("%s, %s: gap of mpc %v %%, of hold %v %%", c.Problem.Spec().Name, regime, gap["mpc"], gap["hold"])
			}
		}
	}
}

// What `mpc` decides follows the admittances that it is told: with others it is another
// dispatch, and the exact one of that network.
func TestRecedingDispatchReadsTheAdmittances(t *testing.T) {
	c := ThirtyUncertain()
	y := c.Problem.(*System)
	ep := require.Get(c.Plant.Episode(992, 0, domain.EpisodeOptions{Regime: RegimeEnvelope, Preference: domain.Preference{Adaptive: true}}))(t)
	spec := c.Problem.Spec()
	s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	ep.Observe(s, cx)
	pref := domain.Preference{Adaptive: true}
	decide := func(method string, factors []float64) []float64 {
		u := make([]float64, spec.ActionSize())
		told := slices.Clone(cx)
		copy(told[y.layout.factors:], factors)
		m, _ := c.Method(method)
		controller := require.Get(m.New(domain.Means{}))(t)
		require.OK(t, controller.Reset(nil))
		require.Get(controller.Decide(s, told, pref, u))(t)
		return u
	}
	apart := func(a, b []float64) (most float64) {
		for i := range a {
			most = math.Max(most, math.Abs(a[i]-b[i]))
		}
		return most
	}
	measured := cx[y.layout.factors:]
	told, withheld := decide("mpc", measured), decide("mpc", ones(y.layout.branches))
	if d := apart(told, withheld); d < 1e-5 {
		t.Errorf("the measured admittances change the dispatch by %v pu", d)
	}
	J := func(u []float64) float64 {
		j, m := make([]float64, objectives), make([]float64, y.layout.margins)
		y.Score(s, cx, u, j, m)
		return j[0] + j[1] + j[2]
	}
	if own, exact := J(told), J(decide("mo-opf", measured)); own > exact*(1+1e-6) {
		t.Errorf("mpc's dispatch costs %v, the exact one %v", own, exact)
	}
}

// `runopf` dispatches for the least cost alone: it costs no more than the dispatch of least
// J_total, and that has no larger J_total.
func TestRunopfMinimisesCostAlone(t *testing.T) {
	c := Thirty()
	y := c.Problem.(*System)
	spec := c.Problem.Spec()
	opt := domain.EpisodeOptions{Regime: "envelope:0.97:0.99", Preference: domain.Preference{Adaptive: true}}
	ep := require.Get(c.Plant.Episode(992, 0, opt))(t)
	s, cx, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	apart := 0.0
	for range 20 {
		ep.Observe(s, cx)
		var J [2][]float64
		for i, method := range []string{"runopf", "mo-opf"} {
			m, _ := c.Method(method)
			controller := require.Get(m.New(domain.Means{}))(t)
			require.OK(t, controller.Reset(nil))
			if !require.Get(controller.Decide(s, cx, opt.Preference, u))(t).Solved() {
				t.Fatalf("%s has no dispatch", method)
			}
			J[i] = make([]float64, objectives)
			margins := make([]float64, y.layout.margins)
			y.Score(s, cx, u, J[i], margins)
			if low := slices.Min(margins); !y.spec.Keeps(low) {
				t.Fatalf("%s breaks a limit by %v", method, -low)
			}
		}
		total := func(j []float64) float64 { return j[thermal] + j[voltage] + j[economic] }
		if J[0][economic] > J[1][economic]*(1+1e-7) || total(J[0]) < total(J[1])*(1-1e-7) {
			t.Errorf("runopf costs %v of J_total %v, mo-opf %v of %v", J[0][economic], total(J[0]), J[1][economic], total(J[1]))
		}
		apart = math.Max(apart, total(J[0])-total(J[1]))
		require.Get(ep.Apply(u))(t)
	}
	if apart < 1e-6 {
		t.Errorf("the two differ by %v of J_total at most: the loads ask for nothing but cost", apart)
	}
}

// `mo-opf-tightened` keeps the distance from the network's limits that a map's samples keep
// where there is such a dispatch; where there is none it is the optimum without it.
func TestTightenedDispatchStaysInside(t *testing.T) {
	c := Thirty()
	y := c.Problem.(*System)
	spec := c.Problem.Spec()
	pref := domain.Preference{Adaptive: true}
	s, cx, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	J, margins := make([]float64, objectives), make([]float64, y.layout.margins)
	ep := require.Get(c.Plant.Episode(992, 0, domain.EpisodeOptions{Regime: "envelope:0.995:0.995", Preference: pref}))(t)
	ep.Observe(s, cx)
	// nearest is by how much the most loaded branch stays below its limit.
	nearest := func(controller domain.Controller) float64 {
		require.OK(t, controller.Reset(nil))
		if !require.Get(controller.Decide(s, cx, pref, u))(t).Solved() {
			t.Fatal("no dispatch")
		}
		y.Score(s, cx, u, J, margins)
		low := math.Inf(1)
		for i, v := range spec.Margins {
			if strings.HasPrefix(v.Name, "S") {
				low = math.Min(low, margins[i])
			}
		}
		return low
	}
	of := func(method string) domain.Controller {
		m, _ := c.Method(method)
		return require.Get(m.New(domain.Means{}))(t)
	}
	plain, inside := nearest(of("mo-opf")), nearest(of("mo-opf-tightened"))
	const rounding = 1e-5 // of the solver's limits
	if inside < DatasetTightening.S-rounding || plain > DatasetTightening.S/2 {
		t.Errorf("branches are %v pu below their limits, without tightening %v; want at least %v", inside, plain, DatasetTightening.S)
	}
	impossible := require.Get(newExactController(y, nil, acopf.Tightening{S: 1}))(t)
	if got := nearest(impossible); got != plain {
		t.Errorf("where nothing stays inside, branches are %v pu below their limits, without tightening %v", got, plain)
	}
}
