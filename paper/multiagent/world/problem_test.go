package world

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// start is the episode of a scene.
func start(y *System, scene Scene) *Episode { return (&Plant{System: y}).Start(scene) }

// drawn is the prediction problem of a test scene some random steps in.
func drawn(t testing.TB, y *System, rng *rand.Rand) *Prediction {
	t.Helper()
	s, err := y.Draw(Validation, rng.Uint64(), 0)
	if err != nil {
		t.Fatal(err)
	}
	h := s.Prediction(&y.Params)
	for range rng.IntN(30) {
		h.Apply(randomPlan(rng, h, 1))
	}
	return h
}

// randomPlan is a plan within limits and slew bounds.
func randomPlan(rng *rand.Rand, h *Prediction, steps int) []float64 {
	plan := make([]float64, steps*MaxRobots*ActionSize)
	for i := range h.Robots {
		before := h.Previous[i][:]
		for k := range steps {
			u := h.Action(plan, k, i)
			u[0], u[1] = before[0]+rng.NormFloat64(), before[1]+rng.NormFloat64()
			h.Params.Limits.Nearest(u, before)
			before = u
		}
	}
	return plan
}

// The reverse mode through the dynamics is the derivative of the weighted cost
// in every entry of the plan and of the initial state.
func TestHorizonGradientIsTheDerivative(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	kinks, checked := 0, 0
	for _, y := range []*System{system(t, false), system(t, true), double(t)} {
		for trial := range 12 {
			h := drawn(t, y, rng)
			if trial%2 == 0 { // obstacles inside margins, so that every term acts
				for j := range h.Obstacles {
					h.Obstacles[j].C = [2]float64{h.State[0][0] + 1.5*rng.NormFloat64(), h.State[0][1] + 1.5*rng.NormFloat64()}
				}
			}
			plan := randomPlan(rng, h, Horizon)
			weights := y.Params.Weights([]float64{0.2, 0.5, 0.3})
			cost := func() float64 {
				var J [Terms]float64
				var m [MarginKinds]float64
				h.evaluate(plan, Horizon, &J, &m)
				sum := 0.0
				for i, w := range weights {
					sum += w * J[i]
				}
				return sum
			}
			g := make([]float64, len(plan))
			gs := make([][StateSize]float64, h.Robots)
			h.gradient(h.simulate(plan, Horizon), plan, Horizon, &weights, g, gs)
			size := 1.0
			for _, v := range g {
				size = math.Max(size, math.Abs(v))
			}
			check := func(what string, x *float64, got float64) {
				const step = 1e-6
				at := *x
				here := cost()
				*x = at + step
				up := cost()
				*x = at - step
				down := cost()
				*x = at
				tolerance := 2e-6*size + 1e-9*here
				right, left := (up-here)/step, (here-down)/step
				// Where the speed is exactly at its limit the cost has a kink, and any
				// slope between the two sides is one.
				if math.Abs(right-left) > 1e-5*size {
					kinks++
					if got < min(left, right)-1e-3*size || got > max(left, right)+1e-3*size {
						t.Errorf("trial %d: ∂/∂%s is %v at a kink with slopes %v and %v", trial, what, got, left, right)
					}
				} else if want := (right + left) / 2; math.Abs(got-want) > tolerance {
					t.Errorf("trial %d: ∂/∂%s is %v, central difference %v", trial, what, got, want)
				}
				checked++
			}
			for k := range plan {
				if k%(MaxRobots*ActionSize) < h.Robots*ActionSize {
					check("plan", &plan[k], g[k])
				}
			}
			for i := range h.Robots {
				for k := range StateSize {
					check("state", &h.State[i][k], gs[i][k])
				}
			}
		}
	}
	if kinks > checked/20 {
		t.Errorf("%d of %d derivatives lie at kinks", kinks, checked)
	}
}

// The horizon cost is the sum of the stage costs along the plan and the terminal
// term: what an episode is scored with is what is predicted.
func TestStagesSumToTheHorizonCost(t *testing.T) {
	y := system(t, true)
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		s, err := y.Draw(Training, rng.Uint64(), 1)
		if err != nil {
			t.Fatal(err)
		}
		h := s.Prediction(&y.Params)
		plan := randomPlan(rng, h, Horizon)
		w := []float64{1.0 / 3, 1.0 / 3, 1.0 / 3}
		var J [Terms]float64
		var m [MarginKinds]float64
		h.evaluate(plan, Horizon, &J, &m)
		weights := y.Params.Weights(w)
		want := 0.0
		for i, v := range weights {
			if i != TerminalTerm {
				want += v * J[i]
			}
		}
		e := start(y, s)
		sum, low := 0.0, math.Inf(1)
		for k := range Horizon {
			out, err := e.Apply(plan[k*MaxRobots*ActionSize:][:MaxRobots*ActionSize])
			if err != nil {
				t.Fatal(err)
			}
			sum += out.Cost
			low = math.Min(low, out.Margin)
		}
		if math.Abs(sum-want) > 1e-9*want || math.Abs(low-min(m[0], m[1], m[2])) > 1e-12 {
			t.Fatalf("stages sum to %v with margin %v, the horizon has %v with %v", sum, low, want, m)
		}
	})
}

// Obstacles stay inside the inset workspace and keep their speed.
func TestObstaclesAreMirrored(t *testing.T) {
	p := Default(true)
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.Float64Range(0.4, 0.9).Draw(t, "r")
		c := rapid.Float64Range(-10+r, 10-r)
		v := rapid.Float64Range(-0.8, 0.8)
		o := Obstacle{C: [2]float64{c.Draw(t, "x"), c.Draw(t, "y")}, V: [2]float64{v.Draw(t, "vx"), v.Draw(t, "vy")}, R: r}
		speed := math.Hypot(o.V[0], o.V[1])
		for range 600 {
			p.advance(&o)
			if math.Abs(o.C[0]) > 10-r || math.Abs(o.C[1]) > 10-r || math.Hypot(o.V[0], o.V[1]) != speed {
				t.Fatalf("obstacle %+v, speed %v before", o, speed)
			}
		}
	})
}

// An obstacle that an edge of the workspace mirrors moves away from that edge, by what was left of its
// period's way, and keeps its motion along it.
func TestAMirroredObstacleTurns(t *testing.T) {
	p := Default(true)
	const r = 0.5
	for k := range 2 {
		for side, at := range [2]float64{p.Workspace[2*k] + r, p.Workspace[2*k+1] - r} {
			outwards := float64(2*side - 1)
			before := p.Dt * 0.1 // to the edge, of a way of p.Dt·0.4
			var o Obstacle
			o.R, o.C[k], o.V[k], o.V[1-k] = r, at-outwards*before, outwards*0.4, 0.3
			p.advance(&o)
			if want := at - outwards*p.Dt*0.3; math.Abs(o.C[k]-want) > 1e-12 || o.V[k] != -outwards*0.4 || o.V[1-k] != 0.3 {
				t.Errorf("axis %d, side %d: at %v with velocity %v, want %g on the axis, turned", k, side, o.C, o.V, want)
			}
		}
	}
}

// An action outside its limits is refused with the robot's number, never clipped.
func TestPlantRefusesActionsOutsideLimits(t *testing.T) {
	y := system(t, true)
	for _, c := range []struct {
		name, want string
		at         int
		value      float64
	}{
		{"slew of a", "robot 1", 2, 1.01}, {"slew of ω", "robot 0", 1, -1.01}, {"NaN", "robot 2", 4, math.NaN()},
	} {
		s, err := y.Draw(Test, 7, 0)
		if err != nil {
			t.Fatal(err)
		}
		u := make([]float64, MaxRobots*ActionSize)
		u[c.at] = c.value
		if _, err := start(y, s).Apply(u); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that names %s", c.name, err, c.want)
		}
	}
	s, err := y.Draw(Test, 7, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := start(y, s).Apply(make([]float64, MaxRobots*ActionSize+1)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("has %d components, want %d", 2*MaxRobots+1, 2*MaxRobots)) {
		t.Errorf("one component more: %v", err)
	}
	s.Robots = s.Robots[:3]
	for at := 3 * ActionSize; at < MaxRobots*ActionSize; at++ {
		u := make([]float64, MaxRobots*ActionSize)
		u[at] = 0.1
		if _, err := start(y, s).Apply(u); err == nil {
			t.Errorf("entry %d of an action, of a robot that is not there, is accepted", at)
		}
	}
}

// Limits with which no robot could stand still, or none could brake, are no limits.
func TestLimitsAllowStandingAndBraking(t *testing.T) {
	for name, spoil := range map[string]func(l *Limits){
		"no braking":        func(l *Limits) { l.AMin = 0 },
		"no acceleration":   func(l *Limits) { l.AMax = 0 },
		"no standing still": func(l *Limits) { l.VMin = 0.1 },
		"no way forward":    func(l *Limits) { l.VMin, l.VMax = -1, 0 },
	} {
		p := Default(true)
		spoil(&p.Limits)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "standing still and braking") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every robot brakes to a stand in one period, as far as its own limits around its own action before allow.
func TestFallbackBrakesWithinEachRobotsLimits(t *testing.T) {
	y := system(t, true)
	rng := rand.New(rand.NewPCG(9001, 5))
	for range 20 {
		h := drawn(t, y, rng)
		for i := range h.Robots {
			h.Previous[i] = [2]float64{rng.NormFloat64(), rng.NormFloat64()}
		}
		spec := y.Spec()
		s, c, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
		h.Encode(s, c)
		y.Fallback(s, c, u)
		for i := range h.Robots {
			want := []float64{-h.State[i][3] / y.Params.Dt, 0}
			y.Params.Limits.Nearest(want, h.Previous[i][:])
			if got := u[2*i : 2*i+2]; !slices.Equal(got, want) {
				t.Errorf("robot %d of %d at %g m/s after %v: %v, want %v", i, h.Robots, h.State[i][3], h.Previous[i], got, want)
			}
		}
	}
}

// A projected or admitted action is within each robot's limits about its own action before, and as near as these allow: what is within
// stays as it is. Robots that are not there have none. The projection says whether the next positions keep every margin.
func TestActionsAreMovedIntoEachRobotsLimits(t *testing.T) {
	y := system(t, true)
	rng, spec := rand.New(rand.NewPCG(9001, 6)), y.Spec()
	kept := map[bool]int{}
	for range 40 {
		h := drawn(t, y, rng)
		s, c, margins := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, len(spec.Margins))
		h.Encode(s, c)
		for name, move := range map[string]func(s, c, u []float64) bool{"project": y.Project, "admit": func(s, c, u []float64) bool {
			y.Admit(s, c, u)
			return false
		}} {
			u := make([]float64, spec.ActionSize())
			for i := range u {
				u[i] = 4 * rng.NormFloat64()
			}
			want := slices.Clone(u)
			clear(want[ActionSize*h.Robots:])
			for i := range h.Robots {
				y.Params.Limits.Nearest(want[ActionSize*i:][:ActionSize], h.Previous[i][:])
				if excess := y.Params.Limits.Excess(want[ActionSize*i:][:ActionSize], h.Previous[i][:]); excess > 1e-12 {
					t.Fatalf("robot %d leaves its limits by %g", i, excess)
				}
			}
			safe := move(s, c, u)
			if !slices.EqualFunc(u, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-6 }) {
				t.Fatalf("%s, %d robots: %v, want %v", name, h.Robots, u, want)
			}
			if name == "project" {
				y.Margins(s, c, u, margins)
				if least := domain.Smallest(margins); math.Abs(least) > 1e-5 && safe != (least >= 0) {
					t.Errorf("the next positions have a margin of %g, and keep every one: %v", least, safe)
				}
				kept[safe]++
			}
			if move(s, c, u); !slices.EqualFunc(u, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-6 }) {
				t.Errorf("%s once more: %v, want %v", name, u, want)
			}
		}
	}
	if kept[true] == 0 {
		t.Errorf("%d actions keep every margin", kept[true])
	}
}

// An indicator is 0 where nothing is to be done and 1 where its objective is all there is: half at two metres
// from the goal, 1 at a margin of zero, the share of the limits that the action takes.
func TestIndicatorsSayWhatMatters(t *testing.T) {
	y := system(t, false)
	l := &y.Params.Limits
	for _, c := range []struct {
		scene Scene
		u     [2]float64
		want  [3]float64
	}{
		{Scene{Robots: []Robot{{R: 0.3, Goal: [2]float64{2, 0}}}}, [2]float64{}, [3]float64{0.5, 0, 0}},
		{Scene{Robots: []Robot{{R: 0.3, Goal: [2]float64{0, 0}}}}, [2]float64{math.Max(l.AMax, -l.AMin), 0}, [3]float64{0, 0, 0.5}},
		{Scene{Robots: []Robot{{R: 0.3, Goal: [2]float64{0, 0}}, {R: 0.3, P: [2]float64{0.6, 0}}}}, [2]float64{0, l.OmegaMax}, [3]float64{0, 1, 0.25}},
	} {
		h := c.scene.Prediction(&y.Params)
		spec := y.Spec()
		s, ctx, u, delta := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize()), make([]float64, 3)
		h.Encode(s, ctx)
		copy(u, c.u[:])
		y.Indicators(s, u, ctx, delta)
		for k, want := range c.want {
			if math.Abs(delta[k]-want) > 1e-2 {
				t.Errorf("%+v with %v: indicators %v, want %v", c.scene, c.u, delta, c.want)
				break
			}
		}
	}
}

// An episode that is not safe says why: who hit what and when, or who is not home.
func TestUnsafeEpisodesSayWhy(t *testing.T) {
	y := system(t, true)
	s := Scene{
		Robots:    []Robot{{R: 0.3, Goal: [2]float64{5, 0}}, {P: [2]float64{0, 5}, R: 0.3, Goal: [2]float64{0, 5}}},
		Obstacles: []Obstacle{{C: [2]float64{2, 0}, V: [2]float64{-1, 0}, R: 0.5}},
	}
	e := start(y, s)
	u := make([]float64, MaxRobots*ActionSize)
	if _, err := e.Apply(u); err != nil {
		t.Fatal(err)
	}
	if got, want := e.Cause(), "robot 0 came no closer to its goal than 5.00 m"; got != want {
		t.Errorf("cause %q, want %q", got, want)
	}
	for range 9 {
		if _, err := e.Apply(u); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := e.Cause(), "robot 0 violates its margin to an obstacle by 0.180 m at step 5"; got != want {
		t.Errorf("cause %q, want %q", got, want)
	}
}

// Order of robots (but the ego) and of obstacles does not change the cost.
func TestRobotsAndObstaclesAreSets(t *testing.T) {
	y := system(t, true)
	rng := rand.New(rand.NewPCG(9, 9))
	for range 20 {
		h := drawn(t, y, rng)
		plan := randomPlan(rng, h, Horizon)
		var J, K [Terms]float64
		var m, l [MarginKinds]float64
		h.evaluate(plan, Horizon, &J, &m)
		rng.Shuffle(len(h.Obstacles), func(i, j int) { h.Obstacles[i], h.Obstacles[j] = h.Obstacles[j], h.Obstacles[i] })
		h.State[1], h.State[2] = h.State[2], h.State[1]
		h.Goal[1], h.Goal[2] = h.Goal[2], h.Goal[1]
		h.Radius[1], h.Radius[2] = h.Radius[2], h.Radius[1]
		h.Previous[1], h.Previous[2] = h.Previous[2], h.Previous[1]
		for k := range Horizon {
			a, b := h.Action(plan, k, 1), h.Action(plan, k, 2)
			a[0], a[1], b[0], b[1] = b[0], b[1], a[0], a[1]
		}
		h.evaluate(plan, Horizon, &K, &l)
		for i := range J {
			if math.Abs(J[i]-K[i]) > 1e-9*(1+J[i]) {
				t.Fatalf("objectives %v and %v", J, K)
			}
		}
		if d := max(math.Abs(m[0]-l[0]), math.Abs(m[1]-l[1]), math.Abs(m[2]-l[2])); !(d < 1e-12) {
			t.Fatalf("margins %v and %v", m, l)
		}
	}
}

// driver accelerates one robot to a speed that its goal is reached with, straight on; a
// lazy one stays where it is.
type driver struct {
	lazy   bool
	err    error
	before float64
}

func (d *driver) Reset(domain.Episode) error { return nil }
func (d *driver) Decide(s, c []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	clear(u)
	if d.lazy || d.err != nil {
		return domain.Decided(true), d.err
	}
	want := (math.Max(0, math.Min(1, 5-s[0])) - s[3]) / 0.2
	d.before += math.Max(-1, math.Min(1, math.Max(-2, math.Min(2, want))-d.before))
	u[0] = d.before
	return domain.Decided(true), nil
}

// What a reference paid is a yardstick where it arrived and kept every margin, and
// nowhere else: an unsafe one is cheap.
func TestAnUnsafeReferenceIsNoYardstick(t *testing.T) {
	y := system(t, true)
	broken := errors.New("no decision")
	for _, c := range []struct {
		name      string
		obstacles []Obstacle
		driver    driver
		safe      bool
	}{
		{"free", []Obstacle{{C: [2]float64{2.5, 3}, R: 0.5}}, driver{}, true},
		{"through an obstacle", []Obstacle{{C: [2]float64{2.5, 0.4}, R: 0.5}}, driver{}, false},
		{"not at the goal", nil, driver{lazy: true}, false},
		{"without a decision", nil, driver{err: broken}, false},
	} {
		reference := func(*System) (domain.Controller, error) { return &c.driver, nil }
		e := (&Plant{System: y, Reference: reference}).Start(Scene{Robots: []Robot{{R: 0.3, Goal: [2]float64{5, 0}}}, Obstacles: c.obstacles})
		cost, plan, err := e.Oracle()
		if !errors.Is(err, c.driver.err) {
			t.Fatalf("%s: %v", c.name, err)
		}
		if c.safe != !math.IsNaN(cost) || c.safe != (len(plan) == y.Params.Steps) {
			t.Errorf("%s: the oracle's cost is %v with %d actions", c.name, cost, len(plan))
		}
	}
}

// The safety objective of a step is a mean over the pairs that could touch: where all are equally far apart it is
// one pair's, however many there are.
func TestSafetyIsAMeanOverPairs(t *testing.T) {
	y := system(t, false)
	corners := [][2]float64{{0, 0}, {3, 0}, {1.5, 1.5 * math.Sqrt(3)}}
	for _, robots := range []int{1, 2, 3} {
		for obstacles := range min(2, 4-robots) { // two are no pair
			if robots+obstacles < 2 {
				continue
			}
			var s Scene
			for i := range robots {
				s.Robots = append(s.Robots, Robot{P: corners[i], Goal: corners[i], R: 0.5})
			}
			for j := range obstacles {
				s.Obstacles = append(s.Obstacles, Obstacle{C: corners[robots+j], R: 0.5})
			}
			h := s.Prediction(&y.Params)
			var J [Terms]float64
			var margins [MarginKinds]float64
			h.evaluate(make([]float64, y.Spec().ActionSize()), 1, &J, &margins)
			if want := math.Exp(-slices.Min(margins[:])); math.Abs(J[SafetyTerm]-want) > 1e-9 {
				t.Errorf("%d robots, %d obstacles, margins %v: %g, of one pair it is %g", robots, len(s.Obstacles), margins, J[SafetyTerm], want)
			}
		}
	}
}

// The fallback is an action, whatever is observed.
func TestAFallbackIsAnAction(t *testing.T) {
	y := system(t, true)
	e := start(y, require.Get(y.Draw(Test, 5, 0))(t))
	s, c, u := make([]float64, y.spec.MeasuredSize()), make([]float64, y.spec.ContextSize()), make([]float64, y.spec.ActionSize())
	for k := range len(s) + len(c) {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			e.Observe(s, c)
			if k < len(s) {
				s[k] = v
			} else {
				c[k-len(s)] = v
			}
			y.Fallback(s, c, u)
			for i := 0; i < len(u); i += 2 {
				if l := y.Params.Limits; !(u[i] >= l.AMin && u[i] <= l.AMax && math.Abs(u[i+1]) <= l.OmegaMax) {
					t.Fatalf("entry %d is %v: action %v of robot %d", k, v, u[i:i+2], i/2)
				}
			}
		}
	}
}

// Rays have an end, and so has the work of a decision by them.
func TestRaysAreBounded(t *testing.T) {
	for _, s := range []Sensing{
		{Rays: 32, Range: 1e300, LeastRadius: 0.4}, {Rays: 32, Range: 101, LeastRadius: 0.4}, {Rays: 32, Range: 5, LeastRadius: 1e9}, {Rays: 32, Range: 5, LeastRadius: 0.1},
		{Rays: 32, Range: -1, LeastRadius: 0.4}, {Rays: 32, Range: math.NaN(), LeastRadius: 0.4}, {Rays: 32, Range: 5, LeastRadius: math.NaN()}, {Rays: 32, Range: math.Inf(1), LeastRadius: 0.4},
		{Rays: 1 << 30, Range: 5, LeastRadius: 0.4}, {Rays: -8, Range: 5, LeastRadius: 0.4}, {Range: 5}, {LeastRadius: 0.4},
	} {
		p := Default(false)
		if p.Sensing = s; p.Validate() == nil || !strings.Contains(p.Validate().Error(), "parameter sensing") {
			t.Errorf("%+v: %v", s, p.Validate())
		}
	}
}
