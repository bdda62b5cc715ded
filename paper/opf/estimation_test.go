package opf

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// uncertainEpisode is one of Case 4.
func uncertainEpisode(t *testing.T, c *domain.Case, index int, regime string) *episode {
	t.Helper()
	return require.Get(c.Plant.Episode(5, index, domain.EpisodeOptions{Regime: regime, Preference: domain.Preference{Adaptive: true}}))(t).(*episode)
}

// The gradient of Gauss and Newton's step is that of the squares, in every voltage, angle and factor.
func TestGradientOfTheSquares(t *testing.T) {
	c := ThirtyUncertain()
	e := uncertainEpisode(t, &c, 0, "")
	n := e.system.Network
	a := newAdmittances(n, 1, 0)
	z := a.measure(e.s, e.scene.Branch)
	nb := n.Buses()
	vm, va, factors := slices.Clone(e.s[:nb]), slices.Clone(e.s[nb:]), ones(n.Branches())
	for k := range factors {
		factors[k] += 0.01 * math.Sin(float64(k))
	}
	squares := func() (sum float64) {
		a.scale(factors, a.y)
		n.BranchFlows(a.y, vm, va, a.flows)
		for i, v := range vm {
			sum += (z[i] - v) * (z[i] - v) / (voltageDeviation * voltageDeviation) / 2
		}
		for k := range n.Branches() {
			for r, v := range [...]float64{a.flows.Pf[k], a.flows.Qf[k], a.flows.Pt[k], a.flows.Qt[k]} {
				d := (z[nb+4*k+r] - v) / flowDeviation
				sum += d * d / 2
			}
			d := (factors[k] - 1) / BranchSigma
			sum += d * d / 2
		}
		return sum
	}
	a.assemble(z, vm, va, factors)
	for at, values := range map[int][]float64{0: vm, nb: va, 2 * nb: factors} {
		for i, was := range values {
			if at == nb && i == n.Slack {
				continue
			}
			const h = 1e-6
			values[i] = was + h
			up := squares()
			values[i] = was - h
			down := squares()
			values[i] = was
			if want, got := -(up-down)/(2*h), a.g.AtVec(at+i); math.Abs(got-want) > 1e-4*(1+math.Abs(want))+1e-3 {
				t.Errorf("entry %d: %v, by differences %v", at+i, got, want)
			}
		}
	}
}

// Over some episodes the errors of the factors are as large as their information says, and smaller than before anything is measured.
func TestFactorsAreFoundFromFlows(t *testing.T) {
	c := ThirtyUncertain()
	const episodes, steps = 4, 120
	normalised, before, after := 0.0, 0.0, 0.0
	for index := range episodes {
		e := uncertainEpisode(t, &c, index, "envelope-estimated")
		u := make([]float64, e.system.spec.ActionSize())
		s, shown, again := make([]float64, len(e.s)), make([]float64, len(e.c)), make([]float64, len(e.c))
		for range steps {
			e.Observe(s, shown)
			if e.Observe(s, again); !slices.Equal(shown, again) {
				t.Fatal("observed twice, a step has two estimates")
			}
			e.system.Base(s, e.c, u)
			e.system.Project(s, e.c, u)
			require.Get(e.Apply(u))(t)
		}
		l, a := &e.system.layout, e.estimator
		for k, b := range e.scene.Branch {
			before += (b - 1) * (b - 1)
			after += (shown[l.factors+k] - b) * (shown[l.factors+k] - b)
			for j, c := range e.scene.Branch {
				normalised += (a.factors[k] - b) * a.information.At(k, j) * (a.factors[j] - c)
			}
		}
	}
	n := float64(episodes * len(c.Problem.(*System).Network.From))
	t.Logf("root mean square error of a factor: %.4f, before %.4f; normalised square %.2f of each", math.Sqrt(after/n), math.Sqrt(before/n), normalised/n)
	// χ² of 164 degrees: a standard deviation of 0.11 of each.
	if !(normalised/n > 0.7 && normalised/n < 1.3) {
		t.Errorf("the normalised square of an error is %.2f, want about 1", normalised/n)
	}
	if !(after < 0.9*before) {
		t.Errorf("the mean square error of a factor is %.2g, before anything is measured it is %.2g", after/n, before/n)
	}
}

// Who is given the estimates dispatches nearer to the optimum than who is given ones, and a case whose admittances are known has none.
func TestEstimatesAreWorthSomething(t *testing.T) {
	c, plain := ThirtyUncertain(), Thirty()
	if _, err := plain.Plant.Episode(5, 0, domain.EpisodeOptions{Regime: "envelope-estimated", Preference: domain.Preference{Adaptive: true}}); err == nil {
		t.Error("a case without branch factors estimates them")
	}
	violations := map[string]int{}
	for _, regime := range []string{"envelope", "envelope-estimated", "envelope-hidden"} {
		for index := range 2 {
			e := uncertainEpisode(t, &c, index, regime)
			k := require.Get(newExactController(e.system, nil, acopf.Tightening{}))(t)
			s, shown, u := make([]float64, len(e.s)), make([]float64, len(e.c)), make([]float64, e.system.spec.ActionSize())
			for range 60 {
				e.Observe(s, shown)
				require.Get(k.Decide(s, shown, domain.Preference{Adaptive: true}, u))(t)
				out := require.Get(e.Apply(u))(t)
				if !e.system.spec.Keeps(out.Margin) {
					violations[regime]++
				}
			}
		}
	}
	t.Logf("steps of 120 beyond a limit: %v", violations)
	if !(violations["envelope"] == 0) || !(violations["envelope-estimated"] < violations["envelope-hidden"]) {
		t.Errorf("steps of 120 beyond a limit: %v", violations)
	}
}
