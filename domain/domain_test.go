package domain_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// drawSimplex draws m weights that sum to 1, some of them 0.
func drawSimplex(t *rapid.T, m int) []float64 {
	w := rapid.SliceOfN(rapid.Float64Range(0, 1), m, m).Draw(t, "w")
	w[rapid.IntRange(0, m-1).Draw(t, "not 0")] += 0.1
	sum := 0.0
	for _, x := range w {
		sum += x
	}
	for i := range w {
		w[i] /= sum
	}
	return w
}

func TestPreferenceSlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(1, 6).Draw(t, "m")
		w := drawSimplex(t, m)
		slot := slices.Repeat([]float64{math.NaN()}, 1+m)
		domain.Preference{W: w}.Slot(slot, 0)
		if slot[0] != 1 || !slices.Equal(slot[1:], w) {
			t.Fatalf("fixed %v: slot %v", w, slot)
		}
		const floor = 0.01
		domain.Preference{W: w}.Slot(slot, floor)
		for i, v := range slot[1:] {
			if back := math.Pow(10, v-1) - floor; slot[0] != 1 || !(math.Abs(back-w[i]) < 1e-12) {
				t.Fatalf("fixed %v with a floor: slot %v", w, slot)
			}
		}
		for _, floor := range []float64{0, floor} {
			domain.Preference{Adaptive: true, W: w}.Slot(slot, floor)
			if slices.ContainsFunc(slot, func(v float64) bool { return v != 0 }) {
				t.Fatalf("adaptive: slot %v, want zeros", slot)
			}
		}
	})
}

func TestPreferenceValidate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(1, 6).Draw(t, "m")
		w := drawSimplex(t, m)
		if err := (domain.Preference{W: w}).Validate(m); err != nil {
			t.Fatal(err)
		}
		if (domain.Preference{W: w}).Validate(m+1) == nil {
			t.Fatalf("%d weights for %d objectives were accepted", m, m+1)
		}
		i := rapid.IntRange(0, m-1).Draw(t, "i")
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1e-9, w[i] + 1e-3} {
			spoiled := slices.Clone(w)
			spoiled[i] = bad
			if (domain.Preference{W: spoiled}).Validate(m) == nil {
				t.Fatalf("%v was accepted", spoiled)
			}
			if err := (domain.Preference{Adaptive: true, W: spoiled}).Validate(m); err != nil {
				t.Fatalf("W of an adaptive preference is not read: %v", err)
			}
		}
	})
	if err := (domain.Preference{W: []float64{0.5, math.NaN()}}).Validate(2); err == nil || !strings.Contains(err.Error(), "weight 2") {
		t.Errorf("want an error that names weight 2, got %v", err)
	}
}

// TestPriorityIsTheFormula: σ_i = (φ_i + ρ)/Σ_j(φ_j + ρ) where the exponentials of the
// formula as it is written are finite.
func TestPriorityIsTheFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, delta := drawSemantic(t, 20)
		got, want, sum := make([]float64, len(delta)), make([]float64, len(delta)), 0.0
		s.Priority(delta, got)
		for i, d := range delta {
			want[i] = math.Exp(s.K[i]*d/s.Epsilon[i]) - 1 + s.Rho
			sum += want[i]
		}
		for i := range want {
			if w := want[i] / sum; !(math.Abs(got[i]-w) <= 1e-12) {
				t.Fatalf("σ is %v, want entry %d to be %g", got, i, w)
			}
		}
	})
}

// TestPriorityIsOnTheSimplex for indicators of any size, and monotone in each.
func TestPriorityIsOnTheSimplex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, delta := drawSemantic(t, 1e6)
		sigma := make([]float64, len(delta))
		s.Priority(delta, sigma)
		sum := 0.0
		for _, v := range sigma {
			if !(v >= 0 && v <= 1) {
				t.Fatalf("δ %v: σ %v", delta, sigma)
			}
			sum += v
		}
		if !(math.Abs(sum-1) <= 1e-12) {
			t.Fatalf("δ %v: σ %v sums to %v", delta, sigma, sum)
		}
		i := rapid.IntRange(0, len(delta)-1).Draw(t, "i")
		delta[i] *= 2
		more := make([]float64, len(delta))
		if s.Priority(delta, more); !(more[i] >= sigma[i]*(1-1e-12)) {
			t.Fatalf("σ_%d fell from %g to %g as its indicator grew to %g", i, sigma[i], more[i], delta[i])
		}
	})
}

// drawSemantic draws constants and indicators with exponents from 0 to top.
func drawSemantic(t *rapid.T, top float64) (s domain.Semantic, delta []float64) {
	m := rapid.IntRange(1, 6).Draw(t, "m")
	s.Rho = rapid.Float64Range(1e-3, 10).Draw(t, "ρ")
	for range m {
		s.K = append(s.K, rapid.Float64Range(0.1, 10).Draw(t, "K"))
		s.Epsilon = append(s.Epsilon, rapid.Float64Range(0.1, 10).Draw(t, "ε"))
		i := len(delta)
		delta = append(delta, rapid.Float64Range(0, top).Draw(t, "exponent")*s.Epsilon[i]/s.K[i])
	}
	return s, delta
}

// TestPriorityOfAPreference: a fixed W whatever the state is, in the adaptive mode the potential of the indicators there.
func TestPriorityOfAPreference(t *testing.T) {
	p := testdomain.NewCart(20)
	m := p.Spec().ObjectiveSize()
	s, u, c, delta, want, got := []float64{0.7, -0.2}, []float64{0.4}, make([]float64, p.Spec().ContextSize()), make([]float64, m), make([]float64, m), make([]float64, m)
	p.Indicators(s, u, c, delta)
	p.Spec().Semantic.Priority(delta, want)
	w := slices.Repeat([]float64{1 / float64(m)}, m)
	if (domain.Preference{Adaptive: true, W: w}).Priority(p, s, u, c, delta, got); !slices.Equal(got, want) || slices.Equal(got, w) {
		t.Errorf("adaptive: σ %v, want %v", got, want)
	}
	if (domain.Preference{W: w}).Priority(p, s, u, c, delta, got); !slices.Equal(got, w) {
		t.Errorf("fixed: σ %v, want W %v", got, w)
	}
}

func TestPriorityAtItsEnds(t *testing.T) {
	s := domain.Semantic{K: []float64{4, 2, 1}, Epsilon: []float64{1, 1, 1}, Rho: 1}
	for _, test := range []struct{ delta, want []float64 }{
		{[]float64{0, 0, 0}, []float64{1. / 3, 1. / 3, 1. / 3}},
		{[]float64{1e6, 0, 0}, []float64{1, 0, 0}},
		{[]float64{1e6, 2e6, 0}, []float64{0.5, 0.5, 0}},
		{[]float64{1e300, 0, 1}, []float64{1, 0, 0}},
	} {
		sigma := make([]float64, 3)
		if s.Priority(test.delta, sigma); !slices.Equal(sigma, test.want) {
			t.Errorf("δ %v: σ %v, want %v", test.delta, sigma, test.want)
		}
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		for i := range 3 {
			delta, sigma := make([]float64, 3), make([]float64, 3)
			delta[i] = bad
			s.Priority(delta, sigma)
			for j, v := range sigma {
				if !math.IsNaN(v) {
					t.Errorf("δ %v: σ_%d is %v, want NaN in all", delta, j, v)
				}
			}
		}
	}
}

func TestSizesOfASpec(t *testing.T) {
	s := domain.Spec{
		Measured: make([]domain.Variable, 4), Context: make([]domain.Variable, 3), Action: make([]domain.Variable, 2),
		Objectives: make([]domain.Variable, 5), Plan: 7,
	}
	for name, got := range map[string][2]int{
		"plan": {s.PlanSize(), 14}, "preference": {s.PreferenceSize(), 6},
		"observation": {s.ObservationSize(), 4 + 3 + 6}, "oracle": {s.OracleSize(), 4 + 5 + 5},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, want %d", name, got[0], got[1])
		}
	}
}

// fallbacks are the bits in order, with the names that reports spell.
var fallbacks = []struct {
	bit  domain.Fallback
	name string
}{
	{domain.FallbackMidpoint, "midpoint"}, {domain.FallbackSecondSlope, "second-slope"}, {domain.FallbackNoStep, "no-step"},
	{domain.FallbackLie, "lie"}, {domain.FallbackObservation, "observation"}, {domain.FallbackAction, "action"},
	{domain.FallbackMargin, "margin"}, {domain.FallbackResidual, "residual"}, {domain.FallbackSolver, "solver"},
	{domain.FallbackConservative, "conservative"}, {domain.FallbackGuard, "guard"}, {domain.FallbackIncumbent, "incumbent"},
	{domain.FallbackRescue, "rescue"}, {domain.FallbackMap, "map"}, {domain.FallbackEscape, "escape"}, {domain.FallbackMethod, "method"},
	{domain.FallbackGap, "gap"}, {domain.FallbackWeights, "weights"},
}

func TestFallbackString(t *testing.T) {
	if s := domain.Fallback(0).String(); s != "none" {
		t.Errorf("no bit: %q", s)
	}
	rapid.Check(t, func(t *rapid.T) {
		var f domain.Fallback
		var names []string
		for _, b := range fallbacks {
			if rapid.Bool().Draw(t, b.name) {
				f |= b.bit
				names = append(names, b.name)
			}
		}
		if want := strings.Join(names, "+"); f != 0 && f.String() != want {
			t.Fatalf("%016b: %q, want %q", f, f.String(), want)
		}
		if want := slices.ContainsFunc(names, func(n string) bool { return n == "solver" || n == "conservative" || n == "incumbent" || n == "escape" }); f.Replaced() != want {
			t.Fatalf("%s: replaced %t", f, f.Replaced())
		}
		if !f.Known() || (f | 1<<18).Known() {
			t.Fatalf("%016b is known: %t; with a bit that nothing sets: %t", f, f.Known(), (f | 1<<18).Known())
		}
	})
}

// TestEverySourceAndGroupHasAName, and none has another's.
func TestEverySourceAndGroupHasAName(t *testing.T) {
	seen := map[string]bool{}
	for s := range domain.Sources {
		name := domain.Source(s).String()
		text, err := json.Marshal(domain.Source(s))
		if err != nil || string(text) != `"`+name+`"` {
			t.Errorf("source %d is %q in JSON and %q in text: %v", s, text, name, err)
		}
		if name == "" || seen[name] {
			t.Errorf("source %d is named %q", s, name)
		}
		seen[name] = true
	}
	if domain.SourceSearched.String() != "searched" || int(domain.SourceSearched)+1 != domain.Sources {
		t.Errorf("the last of %d sources is %q", domain.Sources, domain.SourceSearched)
	}
	for g, name := range map[domain.Group]string{
		domain.GroupExact: "exact", domain.GroupOwn: "own", domain.GroupAblation: "ablation", domain.GroupBaseline: "baseline",
	} {
		if g.String() != name {
			t.Errorf("group %d is named %q, want %q", g, g, name)
		}
	}
	if len(domain.Groups) != int(domain.GroupBaseline)+1 {
		t.Errorf("groups are %v", domain.Groups)
	}
}

func TestWhatIsNotKnownIsNaN(t *testing.T) {
	m := domain.Decided(true)
	if !math.IsNaN(m.Residual) || !math.IsNaN(m.Displacement) || m.Sigma != nil || m.Fallback != 0 || !m.Solved() || domain.Decided(false).Solved() {
		t.Errorf("the record of a decision without a map: %+v", m)
	}
	if d := (domain.Times{Localize: 1, Step: 20, Project: 300}).Total(); d != 321*time.Nanosecond {
		t.Errorf("the whole decision took %v", d)
	}
}

// own is a problem with a fingerprint of its own, plain one without.
type plain struct {
	domain.Problem
	spec domain.Spec
}

func (p plain) Spec() *domain.Spec { return &p.spec }

type own struct{ plain }

func (p own) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Fingerprint: p.Fingerprint}
}

func (own) Fingerprint() [32]byte { return [32]byte{7} }

// A fingerprint tells specs apart by all that a sample depends on, and by nothing else.
func TestFingerprint(t *testing.T) {
	spec := func() domain.Spec {
		return domain.Spec{
			Name: "cart", Measured: []domain.Variable{{Name: "q", Unit: "m"}}, Action: []domain.Variable{{Name: "u", Lo: -1, Hi: 1}},
			Objectives: []domain.Variable{{Name: "J"}}, Margins: []domain.Variable{{Name: "wall"}}, Plan: 1, Steps: 3, StepSeconds: 0.1,
			Semantic: domain.Semantic{K: []float64{1}, Epsilon: []float64{1}, Rho: 1}, MarginTolerance: 1e-6,
		}
	}
	of := func(change func(*domain.Spec)) [32]byte {
		s := spec()
		change(&s)
		return domain.FingerprintOf(plain{spec: s})
	}
	same := of(func(*domain.Spec) {})
	for what, change := range map[string]func(*domain.Spec){
		"description": func(s *domain.Spec) { s.Description = "a cart" },
		"navigation":  func(s *domain.Spec) { s.Navigation.LatentStep = 3 },
		"training":    func(s *domain.Spec) { s.Training.Hidden = 3 },
	} {
		if of(change) != same {
			t.Errorf("another %s is another problem", what)
		}
	}
	seen := map[[32]byte]string{same: "nothing", domain.FingerprintOf(own{}): "its own"}
	for what, change := range map[string]func(*domain.Spec){
		"name": func(s *domain.Spec) { s.Name = "cart2" }, "unit": func(s *domain.Spec) { s.Measured[0].Unit = "cm" },
		"box": func(s *domain.Spec) { s.Action[0].Hi = 1.0000000000000002 }, "kind": func(s *domain.Spec) { s.Margins[0].Kind = domain.Collision },
		"another list": func(s *domain.Spec) { s.Context, s.Margins = s.Margins, nil }, "plan": func(s *domain.Spec) { s.Plan = 2 }, "steps": func(s *domain.Spec) { s.Steps = 4 },
		"period": func(s *domain.Spec) { s.StepSeconds = 0.2 }, "gain": func(s *domain.Spec) { s.Semantic.K[0] = 2 }, "ε": func(s *domain.Spec) { s.Semantic.Epsilon[0] = 2 },
		"ρ": func(s *domain.Spec) { s.Semantic.Rho = 2 }, "tolerance": func(s *domain.Spec) { s.MarginTolerance = 1e-5 },
	} {
		sum := of(change)
		if before, twice := seen[sum]; twice {
			t.Errorf("another %s has the fingerprint of %s", what, before)
		}
		seen[sum] = what
	}
	s := spec()
	if s.Fingerprint([]byte("mass 2")) == s.Fingerprint([]byte("mass 3")) {
		t.Error("other constants are the same problem")
	}
}

// A regime that is none is answered by the one that was meant. What stands behind a colon is the
// case's own, and a case without regimes says so.
func TestARegimeThatIsNone(t *testing.T) {
	has := []string{"paper", "envelope"}
	for _, c := range []struct {
		has          []string
		regime, want string
	}{
		{has, "papr", `case "grid" has no regime "papr"; did you mean paper? (it has paper, envelope)`},
		{has, "papr:0.8:1", `case "grid" has no regime "papr:0.8:1"; did you mean paper? (it has paper, envelope)`},
		{has, "paper:1", `case "grid" has no regime "paper:1" (it has paper, envelope)`},
		{has, "storm", `case "grid" has no regime "storm" (it has paper, envelope)`},
		{[]string{""}, "paper", `case "grid" has no regimes: leave the regime "paper" out`},
	} {
		if got := (domain.RegimeError{Case: "grid", Regime: c.regime, Has: c.has}).Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestMiddleAndHalf: middle and half width of a box count its ends as −1 and 1; without a box they change nothing.
func TestMiddleAndHalf(t *testing.T) {
	for _, v := range []domain.Variable{{Lo: -3, Hi: 1}, {Lo: 2, Hi: 2.5}, {}} {
		lo, hi := v.Lo, v.Hi
		if !v.Bounded() {
			lo, hi = -1, 1
		}
		if v.Middle()-v.Half() != lo || v.Middle()+v.Half() != hi {
			t.Errorf("[%g, %g]: %g ± %g", v.Lo, v.Hi, v.Middle(), v.Half())
		}
	}
}

// TestDrawScenario: every parameter is drawn from its own range, from one number each.
func TestDrawScenario(t *testing.T) {
	parameters, p := []domain.Variable{{Lo: -3, Hi: -2}, {Lo: 4, Hi: 4}, {}, {Lo: 1, Hi: 9}}, make([]float64, 4)
	rng, want := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(1, 2))
	for range 20 {
		domain.DrawScenario(rng, parameters, p)
		for i, v := range parameters {
			if share := want.Float64(); p[i] != v.Lo+(v.Hi-v.Lo)*share || p[i] < v.Lo || p[i] > v.Hi {
				t.Fatalf("parameter %d is %g at %g of [%g, %g]", i, p[i], share, v.Lo, v.Hi)
			}
		}
	}
}

// TestLookAhead: a plan looks no further than the context says that the episode goes, nor than the spec.
func TestLookAhead(t *testing.T) {
	spec := &domain.Spec{Steps: 9, Horizon: 5}
	counted := domain.ProblemAbilities{Remaining: func(c []float64) int { return int(c[0]) }}
	for _, c := range []struct {
		abilities       domain.ProblemAbilities
		remaining, want int
	}{{counted, 2, 2}, {counted, 8, 5}, {domain.ProblemAbilities{}, 2, 5}} {
		if n := c.abilities.LookAhead(spec, []float64{float64(c.remaining)}); n != c.want {
			t.Errorf("%d decisions ahead with %d remaining, want %d", n, c.remaining, c.want)
		}
	}
}
