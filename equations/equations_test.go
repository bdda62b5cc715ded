package equations

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/domaintest"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A puck on a plane, pushed by two forces, with a drifting target among the context. It
// shall stay off a post, and each of its speeds below 1.
func step[T dual.Scalar](s, c, u, sNext, cNext []T) {
	const dt = 0.1
	for i := range 2 {
		sNext[2+i] = s[2+i] + dt*u[i]
		sNext[i] = s[i] + dt*sNext[2+i]
	}
	cNext[0] = c[0] + dt*dual.Sin(c[1])
}

func objectives[T dual.Scalar](_, c, u, sNext, j []T) {
	x, y := sNext[0]-c[0], sNext[1]
	j[0], j[1] = x*x+y*y, u[0]*u[0]+u[1]*u[1]
}

func margins[T dual.Scalar](_, _, _, sNext, m []T) {
	m[0] = dual.Hypot(sNext[0]-3, sNext[1]) - 0.5
	m[1], m[2], m[3], m[4] = 1-sNext[2], 1+sNext[2], 1-sNext[3], 1+sNext[3]
}

func of[T dual.Scalar]() Functions[T] {
	return Functions[T]{Step: step[T], Objectives: objectives[T], Margins: margins[T]}
}

func puck() System {
	v := func(name string, lo, hi float64) domain.Variable { return domain.Variable{Name: name, Lo: lo, Hi: hi} }
	return System{
		Name: "puck", State: []domain.Variable{v("x", -2, 2), v("y", 0, 0), v("vx", 0, 0), v("vy", 0, 0)},
		Context: []domain.Variable{v("target", 0, 0), v("drift", 0, 0)}, Action: []domain.Variable{v("fx", -1, 1), v("fy", -2, 2)},
		Objectives: []domain.Variable{v("distance", 0, 0), v("effort", 0, 0)},
		Margins:    []domain.Variable{v("post", 0, 0), v("east", 0, 0), v("west", 0, 0), v("north", 0, 0), v("south", 0, 0)},
		Scenario:   []domain.Variable{v("x", -2, 2), v("y", -1, 1), v("target", -1, 1), v("drift", -0.2, 0.2)},
		Initial:    func(p, s, c []float64) { s[0], s[1], s[2], s[3], c[0], c[1] = p[0], p[1], 0, 0, p[2], p[3] },
		Steps:      10, StepSeconds: 0.1, Real: of[float64](), Dual: of[complex128](),
	}
}

func TestContract(t *testing.T) { domaintest.Run(t, require.Get(puck().Case())(t)) }

func TestDefaults(t *testing.T) {
	p := require.Get(New(puck()))(t)
	spec := p.Spec()
	if n := len(spec.Context); n != 3 || spec.Context[2].Name != "clock" {
		t.Errorf("the context is %v", spec.Context)
	}
	if got := p.system.StateScale; !slices.Equal(got, []float64{2, 1, 1, 1}) {
		t.Errorf("state scales %v", got)
	}
	s, c, sNext, cNext := []float64{1, 0, 0, 0}, []float64{0, math.Pi / 2, 0}, make([]float64, 4), make([]float64, 3)
	for left := 10; left > 0; left-- {
		if got := p.Remaining(c); got != left {
			t.Errorf("at clock %v %d steps remain, want %d", c[2], got, left)
		}
		p.Step(s, c, []float64{1, 0}, sNext, cNext)
		copy(s, sNext)
		copy(c, cNext)
	}
	if math.Abs(c[0]-1) > 1e-12 || math.Abs(s[2]-1) > 1e-12 || c[1] != math.Pi/2 {
		t.Errorf("after ten steps s %v, c %v", s, c)
	}
	if latent, of := spec.Training.Latent, spec.Navigation.Neighbours; of <= latent {
		t.Errorf("%d neighbours do not span a latent of %d", of, latent)
	}
	delta := make([]float64, 2)
	p.Indicators([]float64{1, 0, 0, 0}, nil, []float64{0, 0, 0}, delta)
	if want := 1 / (1 + p.system.ObjectiveScale[0]); math.Abs(delta[0]-want) > 1e-12 || delta[1] != 0 {
		t.Errorf("urgency %v, want %v and 0", delta, want)
	}
	lifted := puck()
	lifted.Action[0], lifted.Action[1] = domain.Variable{Name: "fx", Lo: 3, Hi: 18}, domain.Variable{Name: "fy", Lo: 0, Hi: 2}
	if rest := require.Get(New(lifted))(t).system.Rest; !slices.Equal(rest, []float64{10.5, 0}) {
		t.Errorf("the rest is %v, want the middle of a box without zero, else zero", rest)
	}
	own := puck()
	own.Rest, own.Training.Hidden, own.Semantic.K = []float64{3, -1}, 96, []float64{7, 1}
	own.Failed = func(s, _ []float64) bool { return s[0] > 1 }
	own.Urgency = func(s, _, delta []float64) { delta[0], delta[1] = 0.5, 0.25 }
	p = require.Get(New(own))(t)
	u := make([]float64, 2)
	p.Fallback(s, c, u)
	p.Indicators(s, u, c, delta)
	if spec = p.Spec(); !slices.Equal(u, []float64{1, -1}) || spec.Training.Hidden != 96 || spec.Semantic.K[0] != 7 || spec.Training.Latent == 0 || !slices.Equal(delta, []float64{0.5, 0.25}) {
		t.Errorf("rest %v, training %+v, semantic %+v, urgency %v", u, spec.Training, spec.Semantic, delta)
	}
	if p.Failed([]float64{1, 0, 0, 0}, c) || !p.Failed([]float64{2, 0, 0, 0}, c) {
		t.Error("Failed is not the system's")
	}
}

// TestEditsAreFingerprinted: a system whose functions were edited is another problem, the same
// system is the same.
func TestEditsAreFingerprinted(t *testing.T) {
	fingerprint := func(change func(y *System)) [32]byte {
		y := puck()
		change(&y)
		return domain.FingerprintOf(require.Get(New(y))(t))
	}
	was := fingerprint(func(*System) {})
	if again := fingerprint(func(*System) {}); again != was {
		t.Error("the same system has two fingerprints")
	}
	for name, change := range map[string]func(y *System){
		"its motion": func(y *System) {
			r, d := y.Real.Step, y.Dual.Step
			y.Real.Step = func(s, c, u, n, a []float64) { r(s, c, u, n, a); n[2] *= 1.00001 }
			y.Dual.Step = func(s, c, u, n, a []complex128) { d(s, c, u, n, a); n[2] *= 1.00001 }
		},
		"an objective": func(y *System) {
			r, d := y.Real.Objectives, y.Dual.Objectives
			y.Real.Objectives = func(s, c, u, n, j []float64) { r(s, c, u, n, j); j[0] *= 1.00001 }
			y.Dual.Objectives = func(s, c, u, n, j []complex128) { d(s, c, u, n, j); j[0] *= 1.00001 }
		},
		"a margin": func(y *System) {
			r, d := y.Real.Margins, y.Dual.Margins
			y.Real.Margins = func(s, c, u, n, m []float64) { r(s, c, u, n, m); m[0] -= 0.001 }
			y.Dual.Margins = func(s, c, u, n, m []complex128) { d(s, c, u, n, m); m[0] -= 0.001 }
		},
		"what is lost": func(y *System) { y.Failed = func(s, _ []float64) bool { return s[0] > 0 } },
		"what is urgent": func(y *System) {
			y.Urgency = func(s, _, delta []float64) { delta[0], delta[1] = 0.5, math.Abs(s[0])/(1+math.Abs(s[0])) }
		},
		"the rest": func(y *System) { y.Rest = []float64{0.25, 0} },
		"the starts": func(y *System) {
			y.Scenario = slices.Clone(y.Scenario)
			y.Scenario[0].Hi += 0.01
		},
	} {
		if fingerprint(change) == was {
			t.Errorf("with another %s it is the same problem", name)
		}
	}
}

// Constants that its functions are made of tell systems of one name apart.
func TestConstantsAreFingerprinted(t *testing.T) {
	of := func(constants any) [32]byte {
		y := puck()
		y.Constants = constants
		return domain.FingerprintOf(require.Get(New(y))(t))
	}
	type params struct{ Mass float64 }
	two, again := of(params{2}), of(params{2})
	if two == of(params{3}) || of(nil) == two || again != two {
		t.Error("fingerprints do not tell a mass of 2 from one of 3")
	}
	y := puck()
	y.Constants = params{math.NaN()}
	if _, err := New(y); err == nil || !strings.Contains(err.Error(), "Constants") {
		t.Errorf("a mass that is no number: %v", err)
	}
}

// TestDualFunctions are the real ones with derivatives, and Score is both of them.
func TestDualFunctions(t *testing.T) {
	p := require.Get(New(puck()))(t)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		x, d := make([]float64, 9), make([]float64, 9)
		z := make([]complex128, 9)
		for i := range x {
			x[i], d[i] = rng.NormFloat64(), rng.NormFloat64()
			z[i] = dual.Seed(x[i], d[i])
		}
		values := func(x []float64) []float64 {
			out := make([]float64, 14)
			s, c, u := split(p, x)
			p.Step(s, c, u, out[:4], out[4:7])
			p.Objectives(s, u, c, out[7:9])
			p.Margins(s, c, u, out[9:])
			return out
		}
		got := make([]complex128, 14)
		s, c, u := split(p, z)
		p.StepDual(s, c, u, got[:4], got[4:7])
		p.ObjectivesDual(s, u, c, got[7:9])
		p.MarginsDual(s, c, u, got[9:])
		want, plus, minus := values(x), values(perturbed(x, d, 1e-5)), values(perturbed(x, d, -1e-5))
		for i, v := range want {
			slope := (plus[i] - minus[i]) / 2e-5
			if math.Abs(real(got[i])-v) > 1e-14*(1+math.Abs(v)) || math.Abs(dual.Derivative(got[i])-slope) > 1e-7*(1+math.Abs(slope)) {
				t.Fatalf("output %d is %v with the derivative %v, want %v and %v", i, real(got[i]), dual.Derivative(got[i]), v, slope)
			}
		}
		j, m := make([]float64, 2), make([]float64, 5)
		rs, rc, ru := split(p, x)
		p.Score(rs, rc, ru, j, m)
		if !slices.Equal(slices.Concat(j, m), want[7:]) {
			t.Errorf("Score writes %v and %v, Objectives and Margins %v", j, m, want[7:])
		}
	}
}

// TestProjectIsNearest: no action of a fine grid keeps the margins and is nearer, and where
// the projection finds none, none of the grid keeps them.
func TestProjectIsNearest(t *testing.T) {
	p := require.Get(New(puck()))(t)
	rng := rand.New(rand.NewPCG(2, 2))
	const side = 81
	found, moved, none := 0, 0, 0
	for range 400 {
		angle, far := 2*math.Pi*rng.Float64(), 0.45+0.3*rng.Float64()
		s := []float64{3 + far*math.Cos(angle), far * math.Sin(angle), 2.2*rng.Float64() - 1.1, 2.2*rng.Float64() - 1.1}
		c, wanted, m := make([]float64, 3), []float64{2*rng.Float64() - 1, 6*rng.Float64() - 3}, make([]float64, 5)
		u := slices.Clone(wanted)
		kept := p.Project(s, c, u)
		distance := func(u []float64) float64 { return math.Hypot(u[0]-wanted[0], (u[1]-wanted[1])/2) }
		best := math.Inf(1)
		for i := range side * side {
			v := []float64{2*float64(i%side)/(side-1) - 1, 4*float64(i/side)/(side-1) - 2}
			if p.Margins(s, c, v, m); slices.Min(m) >= 0 {
				best = math.Min(best, distance(v))
			}
		}
		if !kept {
			if none++; !math.IsInf(best, 1) {
				t.Errorf("from %v no action is found for %v, and there is one", s, wanted)
			}
			continue
		}
		found++
		if u[0] != wanted[0] || u[1] != wanted[1] {
			moved++
		}
		if p.Margins(s, c, u, m); slices.Min(m) < -1e-9 || math.Abs(u[0]) > 1 || math.Abs(u[1]) > 2 {
			t.Errorf("from %v the action %v has the margins %v", s, u, m)
		}
		// The set is the outside of a disc within the box: locally nearest may be the
		// wrong side of it, by no more than the disc is wide.
		if distance(u) > best+1e-9 && far > 0.55 {
			t.Errorf("from %v the action %v for %v is %v off, the nearest %v", s, u, wanted, distance(u), best)
		}
	}
	if found < 200 || moved < 100 || none < 20 {
		t.Errorf("%d found, %d of them moved, %d without any: the states try too little", found, moved, none)
	}
}

// TestProjectWithoutAnAction comes close to the least violation.
func TestProjectWithoutAnAction(t *testing.T) {
	p := require.Get(New(puck()))(t)
	s, c, u, m := []float64{0, 0, 1.3, 0}, make([]float64, 3), []float64{0.7, 0.3}, make([]float64, 5)
	if p.Project(s, c, u) {
		t.Fatal("a speed of 1.3 cannot be brought below 1 in one step")
	}
	p.Margins(s, c, u, m)
	if math.Abs(u[0]+1) > 1e-6 || math.Abs(u[1]-0.3) > 1e-2 {
		t.Errorf("the action is %v with the margins %v, want full braking and the rest as it was", u, m)
	}
}

func TestNothingAllocates(t *testing.T) {
	p := require.Get(New(puck()))(t)
	s, c, u := []float64{2, 0, 0.95, 0.95}, make([]float64, 3), make([]float64, 2)
	sigma, gs, gu, j, m := []float64{0.4, 0.6}, make([]float64, 4), make([]float64, 2), make([]float64, 2), make([]float64, 5)
	for name, f := range map[string]func(){
		"Project":    func() { u[0], u[1] = 1, 2; p.Project(s, c, u) },
		"Gradient":   func() { p.Gradient(s, u, c, sigma, gs, gu) },
		"Score":      func() { p.Score(s, c, u, j, m) },
		"Indicators": func() { p.Indicators(s, u, c, j) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// TestWhatIsWrongIsNamed breaks one field at a time.
func TestWhatIsWrongIsNamed(t *testing.T) {
	for _, test := range []struct {
		names string
		spoil func(y *System)
	}{
		{"System.Name", func(y *System) { y.Name = "" }},
		{"State is empty", func(y *System) { y.State = nil }},
		{"Action is empty", func(y *System) { y.Action = nil }},
		{"Objectives is empty", func(y *System) { y.Objectives = nil }},
		{"Scenario is empty", func(y *System) { y.Scenario = nil }},
		{`State[1].Name is empty`, func(y *System) { y.State[1].Name = "" }},
		{`State[0] and State[1] are both named "x"`, func(y *System) { y.State[1].Name = "x" }},
		{"Action[0] (fx) ranges from 2 to 1", func(y *System) { y.Action[0].Lo = 2 }},
		{"Scenario[1] (y) has no range", func(y *System) { y.Scenario[1] = domain.Variable{Name: "y"} }},
		{`Context[0] is named "clock"`, func(y *System) { y.Context[0].Name = "clock" }},
		{"Initial is nil", func(y *System) { y.Initial = nil }},
		{"Real.Step is nil", func(y *System) { y.Real.Step = nil }},
		{"Dual.Objectives is nil", func(y *System) { y.Dual.Objectives = nil }},
		{"Real.Margins is nil", func(y *System) { y.Real.Margins = nil }},
		{"list Margins is empty", func(y *System) { y.Margins = nil }},
		{"Steps is 0", func(y *System) { y.Steps = 0 }},
		{"StepSeconds is NaN", func(y *System) { y.StepSeconds = math.NaN() }},
		{"Rest has 1 entries, want one for each of the 2 entries of Action", func(y *System) { y.Rest = []float64{1} }},
		{"StateScale[3] is 0", func(y *System) { y.StateScale = []float64{1, 1, 1, 0} }},
		{"ObjectiveScale has 3", func(y *System) { y.ObjectiveScale = []float64{1, 1, 1} }},
		{"Semantic has 1 K", func(y *System) { y.Semantic.K = []float64{1} }},
		{"Measurement.Unknown[0] (target) begins at a Mean of 8 with a Deviation of 1, but starts have it from -", func(y *System) {
			y.Measurement = &domain.Measurement{
				Outputs: y.State[:], Deviation: []float64{1, 1, 1, 1}, Unknown: []domain.Unknown{{Context: 0, Mean: 8, Deviation: 1}},
			}
		}},
		{"Initial, given 4 Scenario values", func(y *System) { y.Initial = func(p, s, c []float64) { s[4] = p[0] } }},
		{"the function Initial leaves s[3] (vy) unset", func(y *System) { y.Initial = func(p, s, c []float64) { copy(s, p[:3]) } }},
		{"Step, given 4 of State, 3 of Context with the clock, 2 of Action and 4 to write: runtime error: index out of range [4]", func(y *System) {
			y.Real.Step = func(s, c, u, sNext, cNext []float64) { step(s, c, u, sNext, cNext); sNext[4] = 0 }
		}},
		{"Step does not write sNext[0] of 4", func(y *System) { y.Real.Step = func(s, c, u, sNext, cNext []float64) { sNext[1] = 0 } }},
		{"Objectives does not write j[1] of 2", func(y *System) { y.Real.Objectives = func(s, c, u, sNext, j []float64) { j[0] = 0 } }},
		{"Objectives writes NaN into j[1]", func(y *System) {
			y.Real.Objectives = func(s, c, u, sNext, j []float64) { j[0], j[1] = 0, math.Log(-1) }
		}},
		{"Margins writes", func(y *System) { y.Dual.Margins = func(s, c, u, sNext, m []complex128) { clear(m) } }},
		{"are Real and Dual the same function?", func(y *System) { y.Dual.Objectives = func(s, c, u, sNext, j []complex128) { clear(j) } }},
		{"Objectives: the derivative of j[0]", func(y *System) {
			y.Dual.Objectives = func(s, c, u, sNext, j []complex128) {
				objectives(s, c, u, sNext, j)
				j[0] = dual.Const[complex128](dual.Value(j[0]))
			}
		}},
		{"a function of Dual: runtime error: index out of range [2]", func(y *System) {
			y.Dual.Objectives = func(s, c, u, sNext, j []complex128) { objectives(s, c, u, sNext, j); j[2] = 0 }
		}},
	} {
		y := puck()
		test.spoil(&y)
		_, err := y.Case()
		if err == nil || !strings.Contains(err.Error(), test.names) {
			t.Errorf("want an error that says %q, got %v", test.names, err)
		}
		if y.Name != "" && err != nil && !strings.Contains(err.Error(), `"puck"`) {
			t.Errorf("the error does not name the system: %v", err)
		}
	}
}

// TestAKinkIsNoError: a function that is not smooth at a few of the points is accepted.
func TestAKinkIsNoError(t *testing.T) {
	y := puck()
	y.Initial = func(p, s, c []float64) { clear(s); clear(c); s[0] = math.Round(p[0]) }
	y.Real.Objectives = func(s, c, u, sNext, j []float64) { j[0], j[1] = dual.Abs(s[0]), u[0]*u[0] }
	y.Dual.Objectives = func(s, c, u, sNext, j []complex128) { j[0], j[1] = dual.Abs(s[0]), u[0]*u[0] }
	if _, err := New(y); err != nil {
		t.Error(err)
	}
}

// TestRescue is the optimum's first action, projected.
func TestRescue(t *testing.T) {
	c := require.Get(puck().Case())(t)
	s, ctx, u := []float64{2, 0.1, 0, 0}, []float64{0, 0, 0}, make([]float64, 2)
	if !c.Rescue(s, ctx, domain.Preference{W: []float64{1, 0}}, u) || !(u[0] < -0.9) {
		t.Errorf("the rescue is %v, want a push towards the target", u)
	}
	s[2] = 3
	if c.Rescue(s, ctx, domain.Preference{W: []float64{1, 0}}, u) {
		t.Error("a rescue where no action keeps the limits")
	}
}

// A signal with equally spaced knots over the episode has a corner at the clock of every start; a derivative that is lost
// is still found.
func TestKnotsAtTheStartAreNoLostDerivative(t *testing.T) {
	y := puck()
	known := func(f func(c complex128) complex128) System {
		y := y
		y.Context, y.Real.Step, y.Dual.Step = slices.Clone(y.Context), step[float64], step[complex128]
		y.Real.Objectives = func(_, c, u, n, j []float64) {
			j[0], j[1] = real(f(complex(c[2], 0)))*(5+u[0]), n[0]*n[0]
		}
		y.Dual.Objectives = func(_, c, u, n, j []complex128) { j[0], j[1] = f(c[2])*(5+u[0]), n[0]*n[0] }
		return y
	}
	prices := []complex128{20, 300, 100, 250, 30, 80, 290}
	if _, err := New(known(func(clock complex128) complex128 { return dual.Along(prices, clock) })); err != nil {
		t.Error(err)
	}
	if _, err := New(known(func(clock complex128) complex128 { return dual.Along(prices, complex(real(clock), 0)) })); err == nil || !strings.Contains(err.Error(), "the derivative of j[0]") {
		t.Errorf("a derivative by the clock that is lost: %v", err)
	}
}
