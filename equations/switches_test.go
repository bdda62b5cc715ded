package equations

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// heater keeps a room warm by a stove that is on or off and a fan of three speeds.
func heater() System {
	return System{
		Name: "heater", Description: "a room",
		State: []domain.Variable{{Name: "T", Unit: "°C", Lo: 10, Hi: 30}}, Action: []domain.Variable{{Name: "stove", Unit: "1"}, {Name: "vent", Unit: "1", Hi: 1}, {Name: "fan", Unit: "1"}},
		Objectives: []domain.Variable{{Name: "discomfort", Unit: "1"}, {Name: "energy", Unit: "1"}}, Margins: []domain.Variable{{Name: "warm", Unit: "K"}},
		Scenario: []domain.Variable{{Name: "T0", Unit: "°C", Lo: 15, Hi: 25}},
		Initial:  func(p, s, _ []float64) { s[0] = p[0] },
		Steps:    12, StepSeconds: 60,
		Switches: []Switch{
			{Action: "stove", Values: []float64{0, 1}, Least: []int{2, 3}, Most: 2, Window: 6, Cost: 0.5, Objective: "energy", Initial: math.NaN()},
			OneOf("fan", 0, 1, 3),
		},
		ODE:  &dual.Explicit{Real: warm[float64], Dual: warm[complex128], Span: 1, Substeps: 2},
		Real: heaterFunctions[float64](), Dual: heaterFunctions[complex128](),
	}
}

func warm[T dual.Scalar](s, c, u, ds []T) {
	ds[0] = dual.Const[T](4)*u[0]*(dual.Const[T](1)+dual.Const[T](0.2)*u[2]*u[2]) - dual.Const[T](0.1)*(s[0]-dual.Const[T](8)) - u[1]
}

func heaterFunctions[T dual.Scalar]() Functions[T] {
	return Functions[T]{
		Objectives: func(s, c, u, sNext, j []T) {
			e := sNext[0] - dual.Const[T](20)
			j[0], j[1] = e*e, u[0]+dual.Const[T](0.1)*u[2]
		},
		Margins: func(s, c, u, sNext, m []T) { m[0] = sNext[0] - dual.Const[T](12) },
	}
}

func TestSwitchesAreRemembered(t *testing.T) {
	p := require.Get(New(heater()))(t)
	spec := p.Spec()
	rng := rand.New(rand.NewPCG(91, 1))
	stove := &spec.Switches[0]
	for range 50 {
		s, c := []float64{20}, make([]float64, spec.ContextSize())
		p.initial([]float64{20}, s, c)
		next, cNext := make([]float64, 1), make([]float64, len(c))
		last, since, changes := 0.0, 100, []int{}
		for h := range 12 {
			u := []float64{rng.Float64(), rng.Float64(), 3 * rng.Float64()}
			if !p.Project(s, c, u) {
				t.Fatalf("no feasible action from %v", s)
			}
			if u[0] != 0 && u[0] != 1 || u[2] != 0 && u[2] != 1 && u[2] != 3 {
				t.Fatalf("the projected action is %v", u)
			}
			if u[0] != last {
				least := []int{2, 3}[int(last)]
				if since < least {
					t.Fatalf("the stove changes after %d periods, want at least %d", since, least)
				}
				changes = append(changes, h)
				if n := len(changes); n > 2 && h-changes[n-3] < 6 {
					t.Fatalf("changes at %v: three within six periods", changes)
				}
				since = 0
			}
			since++
			last = u[0]
			p.Step(s, c, u, next, cNext)
			s[0] = next[0]
			copy(c, cNext)
			if c[stove.Last] != last || c[stove.Ages] != math.Min(6, float64(since)) && since < 100 {
				t.Fatalf("the context says %v %v, want %v %v", c[stove.Last], c[stove.Ages], last, since)
			}
		}
	}
}

func TestSwitchMarginsSayWhatProjectionDoes(t *testing.T) {
	p := require.Get(New(heater()))(t)
	spec := p.Spec()
	c, m := make([]float64, spec.ContextSize()), make([]float64, len(spec.Margins))
	w := &spec.Switches[0]
	for _, last := range w.Values {
		for age := 1; age <= 6; age++ {
			for older := age; older <= 6; older++ {
				for _, v := range w.Values {
					c[w.Last], c[w.Ages], c[w.Ages+1] = last, float64(age), float64(older)
					p.Margins([]float64{20}, c, []float64{v, 0, 0}, m)
					may := v == last || age >= w.Least[int(last)] && older >= w.Window
					if keeps := domain.Smallest(m) >= 0; keeps != may || may != (v == last || w.MayChange(c)) {
						t.Errorf("from %v of ages %d and %d to %v: margins %v, allowed %t", last, age, older, v, m, may)
					}
				}
			}
		}
	}
	p.Margins([]float64{20}, c, []float64{0.5, 0, 0}, m)
	if domain.Smallest(m) >= 0 {
		t.Error("half a stove keeps its margins")
	}
}

func TestRelaxedIsTheSystemAtItsValues(t *testing.T) {
	p := require.Get(New(heater()))(t)
	r := require.Get(p.relaxed(12))(t)
	k := &shareSystem{switching: p.switching, shares: []int{0, 1, 2}, size: 4}
	if got := r.Spec().ActionSize(); got != 4 {
		t.Fatalf("%d shares, want 4", got)
	}
	s, c, shares := []float64{18}, make([]float64, p.spec.ContextSize()), make([]float64, 4)
	p.initial([]float64{18}, s, c)
	for _, stove := range []float64{0, 1} {
		for _, fan := range []float64{0, 1, 3} {
			u := []float64{stove, 0.3, fan}
			k.share(u, shares)
			next, relaxed, cNext := make([]float64, 1), make([]float64, 1), make([]float64, len(c))
			j, jr := make([]float64, 2), make([]float64, 2)
			p.Step(s, c, u, next, cNext)
			r.Step(s, c, shares, relaxed, cNext)
			p.switching.inner.Objectives(s, u, c[:1], j)
			r.Objectives(s, shares, c, jr)
			if math.Abs(next[0]-relaxed[0]) > 1e-12 || math.Abs(j[0]-jr[0]) > 1e-12 || math.Abs(j[1]-jr[1]) > 1e-12 {
				t.Errorf("at %v the system comes to %v and costs %v, its shares %v and %v", u, next, j, relaxed, jr)
			}
		}
	}
}

func TestWrongSwitchesAreRefused(t *testing.T) {
	for _, w := range []struct {
		change func(*System)
		want   string
	}{
		{func(y *System) { y.Switches[0].Action = "oven" }, `Action is "oven"`},
		{func(y *System) { y.Switches[0].Values = nil }, "Values has 0 entries"},
		{func(y *System) { y.Switches[0].Values = []float64{1, 0} }, "ascending"},
		{func(y *System) { y.Switches[0].Least = []int{1} }, "Least has 1 entries"},
		{func(y *System) { y.Switches[0].Least = []int{1, 13} }, "Least[1] is 13 periods"},
		{func(y *System) { y.Switches[0].Most = 0 }, "Most is 0 changes in a Window of 6"},
		{func(y *System) { y.Switches[0].Objective = "noise" }, `Objective is "noise"`},
		{func(y *System) { y.Switches[0].Initial = 0.5 }, "Initial is 0.5"},
		{func(y *System) { y.Switches[1].Action = "stove" }, "stove has a switch before"},
		{func(y *System) { y.Rates = []float64{1, 0, 0} }, "which has no rate"},
	} {
		y := heater()
		w.change(&y)
		_, err := New(y)
		if err == nil || !strings.Contains(err.Error(), w.want) {
			t.Errorf("error %v, want it to contain %q", err, w.want)
		}
	}
}
