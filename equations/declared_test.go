package equations

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/domaintest"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// softPuck may exceed its speed to the east at a price, and changes its first force slowly.
func softPuck() System {
	y := puck()
	y.Margins[1].Lo, y.Margins[1].Hi = 0, 1
	y.Soft = []Soft{{Margin: "east", Linear: 0.02, Quadratic: 0.03, Priority: 1}}
	y.Rates = []float64{0.3, 0}
	return y
}

// byHand is softPuck as one writes it without declarations: its last force stands before the clock.
func byHand() System {
	y := puck()
	y.Context = append(y.Context, domain.Variable{Name: "last fx", Lo: -1, Hi: 1, Size: 0.3})
	v := func(name string, size float64) domain.Variable { return domain.Variable{Name: name, Size: size} }
	y.Margins = []domain.Variable{v("post", 1), v("west", 1), v("north", 1), v("south", 1), v("rising", 0.3), v("falling", 0.3)}
	y.Real, y.Dual = handwritten[float64](), handwritten[complex128]()
	return y
}

func handwritten[T dual.Scalar]() Functions[T] {
	number := dual.Const[T]
	return Functions[T]{
		Step: func(s, c, u, sNext, cNext []T) {
			step(s, c, u, sNext, cNext)
			cNext[2] = u[0]
		},
		Objectives: func(s, c, u, sNext, j []T) {
			objectives(s, c, u, sNext, j)
			excess := smoothExcess(number(1)-sNext[2], 0.01, 1e-4)
			for i := range j {
				j[i] += number(2)*excess + number(3)*excess*excess
			}
		},
		Margins: func(s, c, u, sNext, m []T) {
			var all [5]T
			margins(s, c, u, sNext, all[:])
			m[0], m[1], m[2], m[3] = all[0], all[2], all[3], all[4]
			m[4], m[5] = number(0.3)-(u[0]-c[2]), number(0.3)+(u[0]-c[2])
		},
	}
}

// smoothExcess is the excess at a margin m whose bend has that width and ends at that reach: the integral of its slope.
func smoothExcess[T dual.Scalar](m T, reach, width float64) T {
	number := dual.Const[T]
	if size := math.Abs(dual.Value(m)); size >= reach {
		return dual.Max(0, -m)
	}
	root := func(x T) T { return dual.Sqrt(x*x + number(width*width)) }
	end := math.Hypot(reach, width)
	mass := 2*reach/(width*width*end) - 2*reach/(end*end*end)
	left := number(reach) - m
	return (left*number(reach/(width*width*end)) - (number(end)-root(m))/number(width*width) - left*left/number(2*end*end*end)) / number(mass)
}

func close8(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) <= 1e-8*(1+math.Abs(y)) })
}

func TestDeclarationsAreWhatOneWritesByHand(t *testing.T) {
	declared, hand := require.Get(softPuck().Case())(t), require.Get(byHand().Case())(t)
	p, q := declared.Problem, hand.Problem
	if names := domain.Names(p.Spec().Context); !slices.Equal(names, []string{"target", "drift", "clock", "last fx"}) {
		t.Fatalf("the context is %q", names)
	}
	swap := func(c []float64) []float64 { return []float64{c[0], c[1], c[3], c[2]} }
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		s, c, u := make([]float64, 4), make([]float64, 4), []float64{2*rng.Float64() - 1, 4*rng.Float64() - 2}
		for i := range s {
			s[i], c[i] = 3*rng.NormFloat64(), rng.Float64()
		}
		var got, want [2][]float64
		for k, problem := range []domain.Problem{p, q} {
			at := c
			if k == 1 {
				at = swap(c)
			}
			next, after, j, m := make([]float64, 4), make([]float64, 4), make([]float64, 2), make([]float64, 6)
			gs, gu, delta := make([]float64, 4), make([]float64, 2), make([]float64, 2)
			problem.Step(s, at, u, next, after)
			problem.Objectives(s, u, at, j)
			problem.Margins(s, at, u, m)
			problem.Gradient(s, u, at, []float64{0.4, 0.6}, gs, gu)
			problem.Indicators(s, u, at, delta)
			projected := slices.Clone(u)
			problem.Project(s, at, projected)
			if k == 1 {
				after = swap(after)
			}
			into := &got
			if k == 1 {
				into = &want
			}
			into[0], into[1] = slices.Concat(next, after, j, m, gs, gu), projected
		}
		if !close8(got[0], want[0]) || !close8(got[1], want[1]) {
			t.Fatalf("at %v %v %v\n%v\nwant\n%v", s, c, u, got, want)
		}
	}
	for i := range 10 {
		weights := domain.EpisodeOptions{Preference: domain.Preference{W: []float64{0.95, 0.05}}}
		ep := require.Get(declared.Plant.Episode(5, i, weights))(t)
		cost, plan, err := ep.Oracle()
		require.OK(t, err)
		want, other, err := require.Get(hand.Plant.Episode(5, i, weights))(t).Oracle()
		require.OK(t, err)
		if !close8([]float64{cost}, []float64{want}) || !close8(slices.Concat(plan...), slices.Concat(other...)) {
			t.Errorf("episode %d: the optimum costs %v, by hand %v", i, cost, want)
		}
		before := 0.0
		for _, u := range plan {
			out := require.Get(ep.Apply(u))(t)
			if math.Abs(u[0]-before) > 0.3+1e-6 || out.Margin < -1e-6 {
				t.Errorf("episode %d: the force changes from %v to %v, and a margin is %v", i, before, u[0], out.Margin)
			}
			if got := 1 - out.S[2]; math.Abs(out.Soft[0]-got) > 1e-9 {
				t.Errorf("the soft limit's margin is %v, want %v", out.Soft[0], got)
			}
			before = u[0]
		}
	}
}

func TestDeclaredSystemsKeepTheContract(t *testing.T) {
	domaintest.Run(t, require.Get(softPuck().Case())(t))
}

// eastward pushes as hard as it may, whatever is observed.
type eastward struct{ p domain.Problem }

func (eastward) Reset(domain.Episode) error { return nil }

func (e eastward) Decide(s, c []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	u[0], u[1] = 1, 0
	e.p.Project(s, c, u)
	return domain.Decided(true), nil
}

// What exceeds a soft limit is counted apart, and no episode is unsafe by it.
func TestSoftLimitsAreCountedApart(t *testing.T) {
	y := softPuck()
	y.Initial = func(p, s, c []float64) { clear(s); s[0], s[1], s[2], c[0] = -2, 5, 0.9, p[2] }
	c := require.Get(y.Case())(t)
	factory := func() (domain.Controller, error) { return eastward{c.Problem}, nil }
	r := require.Get(closedloop.Evaluate(t.Context(), &c, factory, closedloop.Options{Method: "east", Episodes: 3, ShardCount: 1, Preference: domain.Preference{W: []float64{0.5, 0.5}}}))(t)
	if r.Safe != 1 || len(r.Soft) != 1 {
		t.Fatalf("safe %v, soft limits %v", r.Safe, r.Soft)
	}
	// The force rises by 0.3 a step to 1, so that the speed passes 1 with the third of ten.
	soft, largest := r.Soft[0], 0.9+0.1*(0.3+0.6+0.9+7*1)-1
	if soft.Limit != "east" || math.Abs(float64(soft.Largest)-largest) > 1e-9 || soft.Decisions != 3*8 || soft.Episodes != 3 || math.Abs(float64(soft.Share)-0.8) > 1e-12 {
		t.Errorf("the soft limit: %+v, want a largest excess of %v in eight of ten decisions", soft, largest)
	}
	if shifted := require.Get(c.Shifted(map[string]float64{"fx": 0.5}))(t); len(shifted.Problem.Spec().Context) != 4 {
		t.Errorf("a plant with another gain has the context %v", domain.Names(shifted.Problem.Spec().Context))
	}
}

// A rate is of what is asked for, whatever share of it acts.
func TestRatesAreOfWhatIsAskedFor(t *testing.T) {
	y := require.Get(softPuck().UncertainGains(0.2))(t)
	p := require.Get(y.Case())(t).Problem
	if names := domain.Names(p.Spec().Context); !slices.Equal(names, []string{"target", "drift", "gain of fx", "gain of fy", "clock", "last fx"}) {
		t.Fatalf("the context is %q", names)
	}
	next, after, m := make([]float64, 4), make([]float64, 6), make([]float64, 6)
	s, c, u := make([]float64, 4), []float64{0, 0, 0.8, 1, 0, 0.5}, []float64{0.7, 0}
	p.Step(s, c, u, next, after)
	p.Margins(s, c, u, m)
	if math.Abs(next[2]-0.1*0.8*0.7) > 1e-12 || after[5] != 0.7 || math.Abs(m[4]-0.1) > 1e-12 || math.Abs(m[5]-0.5) > 1e-12 {
		t.Errorf("a speed of %v, last force %v and %v left of the rates, want 0.056, 0.7, 0.1 and 0.5", next[2], after[5], m[4:])
	}
	whole := require.Get(softPuck().Case())(t)
	slower := require.Get(whole.Shifted(map[string]float64{"fx": 0.5}))(t).Problem
	slower.Step(s, []float64{0, 0, 0, 0.5}, u, next, after[:4])
	if math.Abs(next[2]-0.035) > 1e-12 || after[3] != 0.7 {
		t.Errorf("with a gain of a half a speed of %v and a last force of %v, want 0.035 and 0.7", next[2], after[3])
	}
}

func TestDeclarationsThatCannotBe(t *testing.T) {
	for _, test := range []struct {
		change func(y *System)
		says   string
	}{
		{func(y *System) { y.Soft[0].Margin = "up" }, `Soft[0].Margin is "up", which is none of Margins`},
		{func(y *System) { y.Soft = append(y.Soft, y.Soft[0]) }, `Soft[1].Margin "east" appears twice`},
		{func(y *System) { y.Soft[0].Linear, y.Soft[0].Quadratic = 0, 0 }, "not both 0"},
		{func(y *System) { y.Soft[0].Linear = math.NaN() }, "prices NaN"},
		{func(y *System) { y.Soft[0].Priority = 5 }, "priority 5, want 0 to 4"},
		{func(y *System) { y.Rates = []float64{1} }, "Rates has 1 entries, want one for each of the 2"},
		{func(y *System) { y.Rates[0] = -1 }, "Rates[0] (fx) is -1"},
		{func(y *System) { y.Blocks = []int{1, 0} }, "Blocks[1] is 0, want a number of periods of at least 1"},
		{func(y *System) { y.Blocks = []int{} }, "Blocks is empty"},
	} {
		y := softPuck()
		test.change(&y)
		if _, err := y.Case(); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v, want %q", err, test.says)
		}
	}
	all := map[[32]byte]bool{}
	for _, y := range []System{puck(), softPuck(), slowPuck(), {}} {
		if y.Name == "" {
			y = softPuck()
			y.Soft[0].Linear *= 2
		}
		all[require.Get(New(y))(t).Fingerprint()] = true
	}
	if len(all) != 4 {
		t.Errorf("%d problems of four declarations", len(all))
	}
	if y := softPuck(); require.Get(New(y))(t).System().Rates == nil {
		t.Error("the system of a problem has lost its rates")
	}
}
