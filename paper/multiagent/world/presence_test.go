package world

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// at is a robot that stands, and its goal.
func at(x, y, gx, gy float64) Robot {
	return Robot{P: [2]float64{x, y}, Goal: [2]float64{gx, gy}, R: 0.3}
}

// A robot may enter from its time on and is gone from its other one on, or from its arrival; who has not entered, and who came how close,
// is the cause.
func TestRobotsComeAndGo(t *testing.T) {
	y := system(t, true)
	scene := Scene{Robots: []Robot{at(0, 0, 5, 0), at(0, 3, 5, 3), at(0, 6, 5, 6), at(-5, -5, -5, -5.2)}}
	scene.Robots[1].Enters, scene.Robots[2].Leaves, scene.Robots[3].LeavesAtGoal = 0.4, 0.6, true
	e := start(y, scene)
	act := func(robot int) error {
		u := make([]float64, y.spec.ActionSize())
		u[2*robot+1] = 0.1 // it turns where it stands
		_, err := e.Apply(u)
		return err
	}
	refused := func(robot int) {
		t.Helper()
		if err := act(robot); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("action of robot %d", robot)) || !strings.Contains(err.Error(), "not there") {
			t.Errorf("step %d: robot %d acts: %v", e.t, robot, err)
		}
	}
	radii := func(want ...float64) {
		t.Helper()
		if !slices.Equal(e.world.Radius, want) {
			t.Errorf("step %d: radii %v, want %v", e.t, e.world.Radius, want)
		}
	}
	radii(0.3, 0, 0.3, 0) // the last began at its goal
	refused(1)
	refused(3)
	refused(4) // there is none
	require.OK(t, act(2))
	refused(1)
	require.OK(t, act(2))
	radii(0.3, 0.3, 0.3, 0) // at 0.4 s
	if !e.world.Absent[1] || e.world.Absent[2] {
		t.Errorf("absent: %v", e.world.Absent)
	}
	if got, want := e.Cause(), "robot 0 came no closer to its goal than 5.00 m; robot 1 has not entered; robot 2 came no closer to its goal than 5.00 m"; got != want {
		t.Errorf("cause %q, want %q", got, want)
	}
	require.OK(t, act(1))
	radii(0.3, 0.3, 0, 0) // at 0.6 s
	refused(2)
	if e.world.Absent[1] || !e.world.Absent[2] || e.Succeeded() {
		t.Errorf("absent: %v", e.world.Absent)
	}
	if cost, plan, err := e.Oracle(); !math.IsNaN(cost) || plan != nil || err != nil {
		t.Errorf("without a reference: %v, %v", cost, err)
	}
	e.plant.Reference = func(*System) (domain.Controller, error) { return &driver{}, nil }
	for i := range scene.Robots {
		one := scene
		one.Robots = []Robot{at(0, 0, 0.1, 0)}
		one.Robots[0].Enters, one.Robots[0].Leaves, one.Robots[0].LeavesAtGoal = scene.Robots[i].Enters, scene.Robots[i].Leaves, scene.Robots[i].LeavesAtGoal
		if cost, _, err := e.plant.Start(one).Oracle(); err != nil || i > 0 != math.IsNaN(cost) {
			t.Errorf("robot %d: the reference of one that comes or goes costs %v", i, cost)
		}
	}
}

// A robot has arrived within the goal radius, and has succeeded once it has been there. Its least distance to the goal is that of all
// steps, the first included.
func TestArrivalIsNow(t *testing.T) {
	y := system(t, true)
	y.Params.Steps = 9
	e := start(y, Scene{Robots: []Robot{at(0.35, 0, 0, 0), at(0, 3, 0, 3.2)}})
	if n, m := e.Sizes(); n != 8 || m != 4 {
		t.Errorf("%d and %d components are of two robots", n, m)
	}
	if !e.Arrived() || !e.Succeeded() || e.Steps() != 9 || e.Params() != &y.Params {
		t.Error("a robot at the edge of its goal has not arrived")
	}
	u := make([]float64, y.spec.ActionSize())
	s := make([]float64, y.spec.MeasuredSize())
	for k := range 9 {
		if e.Done() {
			t.Fatalf("it ends after %d steps", k)
		}
		u[0] = min(1, float64(k+1))
		out := require.Get(e.Apply(u))(t)
		if e.State(s); !slices.Equal(s, out.S) {
			t.Errorf("step %d: states %v and %v", k, s, out.S)
		}
	}
	if e.Arrived() || !e.Succeeded() || !e.Done() {
		t.Error("a robot that has left its goal is there")
	}
	if _, err := e.Apply(u); err == nil || !strings.Contains(err.Error(), "over after 9 steps") {
		t.Errorf("a tenth step: %v", err)
	}
	e = start(y, Scene{Robots: []Robot{at(0.36, 0, 0, 0)}})
	if e.Arrived() || e.Succeeded() {
		t.Error("a robot before its goal has arrived")
	}
	require.Get(e.Apply(u))(t)
	if got, want := e.Cause(), "robot 0 came no closer to its goal than 0.36 m"; got != want || e.closest[0] != 0.36 {
		t.Errorf("one that drives away from its goal: %q, %v m, want %q", got, e.closest[0], want)
	}
}

// What is measured is the state and a normal deviation for each entry of a robot that is there; scene and seed draw it.
func TestMeasurementsAreNoisy(t *testing.T) {
	y := system(t, true)
	plant := &Plant{System: y}
	opt := adaptiveOnly
	opt.Noise = 0.1
	exact, c := make([]float64, y.spec.MeasuredSize()), make([]float64, y.spec.ContextSize())
	observe := func(seed uint64, index int) []float64 {
		e := require.Get(plant.Episode(seed, index, opt))(t)
		s := make([]float64, len(exact))
		e.Observe(s, c)
		e.State(exact)
		return s
	}
	s := observe(3, 0)
	if !slices.Equal(s, observe(3, 0)) || opt.Noise > 0 && observe(4, 0)[0]-exact[0] == s[0]-exact[0] {
		t.Error("noise is not of its seed")
	}
	n, sum := 0.0, 0.0
	for index := range 100 {
		s := observe(5, index)
		robots := require.Get(plant.Episode(5, index, opt))(t).(*Episode).world.Robots
		for k, v := range s {
			if k >= 4*robots {
				if v != 0 {
					t.Fatalf("entry %d, of no robot, is %v", k, v)
				}
				continue
			}
			n, sum = n+1, sum+(v-exact[k])*(v-exact[k])
		}
	}
	if deviation := math.Sqrt(sum / n); math.Abs(deviation-0.1) > 0.01 {
		t.Errorf("a deviation of %v, want 0.1", deviation)
	}
	for _, wrong := range []domain.EpisodeOptions{{Noise: -1}, {Noise: math.NaN()}} {
		if _, err := plant.Episode(3, 0, wrong); err == nil {
			t.Errorf("noise of %v is taken", wrong.Noise)
		}
	}
}

// A trace with other constants is replayed with them, by a system of its own; one that cannot be is refused with what is wrong.
func TestATraceHasItsConstants(t *testing.T) {
	plant := &Plant{System: system(t, true)}
	scene := `{"agents": [{"p": [0, 0], "theta": 0, "v": 0, "r": 0.3, "goal": [5, 0]}], "obstacles": []}`
	e := require.Get(plant.Replay([]byte(`{"steps": 7}`), []byte(scene)))(t)
	if e.Steps() != 7 || plant.System.Params.Steps != 600 {
		t.Errorf("%d steps, of the plant %d", e.Steps(), plant.System.Params.Steps)
	}
	if e := require.Get(plant.Replay([]byte(`{}`), []byte(scene)))(t); e.(*Episode).plant.System != plant.System {
		t.Error("the same constants make another system")
	}
	for _, c := range []struct{ params, scene, says string }{{`{`, scene, "trace params"}, {`{"dt": -1}`, scene, "trace params: parameter dt"}, {`{}`, `{}`, "trace scene"}} {
		if _, err := plant.Replay([]byte(c.params), []byte(c.scene)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := plant.Stage(1, 0, []byte(scene), domain.EpisodeOptions{Regime: "storm"}); !errors.As(err, new(domain.RegimeError)) {
		t.Errorf("a regime: %v", err)
	}
	fixed := domain.EpisodeOptions{Preference: domain.Preference{W: []float64{0.25, 0.25, 0.5}}}
	staged := require.Get(plant.Stage(1, 0, []byte(scene), fixed))(t).(*Episode)
	if !slices.Equal(staged.w, fixed.Preference.W) || !slices.Equal(require.Get(plant.Episode(3, 0, fixed))(t).(*Episode).w, fixed.Preference.W) {
		t.Errorf("it is scored by %v", staged.w)
	}
	text := require.Get(json.Marshal(plant.Draft(staged)))(t)
	if again := require.Get(plant.Stage(1, 0, text, fixed))(t); !reflect.DeepEqual(again.Scene(), staged.Scene()) {
		t.Errorf("a draft of %+v is staged as %+v", staged.Scene(), again.Scene())
	}
}

// Robots that meet are named, with the margin that they violate, and what comes after is no other cause. A step's cost is that of its
// preference.
func TestTheFirstCollisionIsTheCause(t *testing.T) {
	y := system(t, true)
	scene := Scene{W: []float64{0.2, 0.5, 0.3}, Robots: []Robot{at(5, 5, 0, 0), at(0, 0, 5, 0), at(0.85, 0, -5, 0)}, Obstacles: []Obstacle{{C: [2]float64{5, 7}, V: [2]float64{0, -0.8}, R: 0.5}}}
	scene.Robots[1].V = 1
	e := start(y, scene)
	u := make([]float64, y.spec.ActionSize())
	for range 12 {
		out := require.Get(e.Apply(u))(t)
		if want := 0.2*out.J[0] + 0.5*out.J[1] + 0.3*out.J[2]; math.Abs(out.Cost-want) > 1e-12 || len(out.J) != 3 || len(out.Named) != 3 || !slices.Equal(out.Sigma, scene.W) || out.Margin != slices.Min(out.Named) {
			t.Fatalf("%+v, want the cost %v", out, want)
		}
	}
	if got, want := e.Cause(), "robot 2 violates its margin to robot 1 by 0.130 m at step 0"; got != want {
		t.Errorf("cause %q, want %q", got, want)
	}
	// Who enters meets what is there at once.
	inside := Scene{Robots: []Robot{at(-5, -5, 0, 0), at(0, 0, 5, 0)}, Obstacles: []Obstacle{{C: [2]float64{-0.75, 0}, V: [2]float64{-1, 0}, R: 0.5}}}
	inside.Robots[1].Enters, inside.Robots[1].V = 0.2, 0
	e = start(y, inside)
	require.Get(e.Apply(u))(t)
	e.world.Obstacles[0].C[0] = -0.9 // 0.08 m too near, and away within the step
	u[2] = 1
	if out := require.Get(e.Apply(u))(t); math.Abs(out.Named[agentMargin]+0.08) > 1e-12 || out.Margin != out.Named[agentMargin] {
		t.Errorf("margins %v", out.Named)
	}
	if got, want := e.Cause(), "robot 1 violates its margin to an obstacle by 0.080 m at step 1"; got != want {
		t.Errorf("cause %q, want %q", got, want)
	}
}

// wild decides what the plant refuses.
type wild struct{ driver }

func (*wild) Decide(_, _ []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	u[0] = 9
	return domain.Decided(true), nil
}

// The oracle's cost is that of its actions in the episode, by the episode's preference.
func TestTheOraclesCostIsThatOfItsPlan(t *testing.T) {
	y := system(t, true)
	plant := &Plant{System: y, Reference: func(*System) (domain.Controller, error) { return &driver{}, nil }}
	scene := Scene{W: []float64{0.2, 0.5, 0.3}, Robots: []Robot{at(0, 0, 5, 0)}}
	cost, plan, err := plant.Start(scene).Oracle()
	require.OK(t, err)
	e, sum := plant.Start(scene), 0.0
	for _, u := range plan {
		sum += require.Get(e.Apply(u))(t).Cost
	}
	if !(cost > 0) || math.Abs(cost-sum) > 1e-9*sum || !e.Done() {
		t.Errorf("it costs %v, its plan %v", cost, sum)
	}
	for name, c := range map[string]struct {
		method domain.Controller
		err    error
	}{"no reference": {nil, errors.New("none")}, "refused": {&wild{}, nil}} {
		plant.Reference = func(*System) (domain.Controller, error) { return c.method, c.err }
		if cost, plan, err := plant.Start(scene).Oracle(); err == nil || c.err != nil && err != c.err || !math.IsNaN(cost) || plan != nil {
			t.Errorf("%s: %v, %v", name, cost, err)
		}
	}
}

// The derivatives of a stage are those of its objectives in state and action, of whatever weights, with robots that touch, overlap, or
// enter by the action.
func TestStageGradientIsTheDerivative(t *testing.T) {
	rng := rand.New(rand.NewPCG(9001, 15))
	for trial := range 12 {
		y := system(t, true)
		if trial%3 == 0 {
			y = double(t)
		}
		h := drawn(t, y, rng)
		h.State[1][0], h.State[1][1] = h.State[0][0]+0.4, h.State[0][1]+0.3
		h.Obstacles[0].R, h.Obstacles[0].C = 4.5, [2]float64{h.State[0][0] + 0.6, h.State[0][1] - 0.7} // a margin below −3
		for i := range h.Robots {                                                                      // not at limits of speed, where costs have kinks
			for k := range StateSize {
				h.State[i][k] += 0.1 * rng.NormFloat64()
			}
			h.State[i][3] = 0.5 * rng.Float64()
			if y.Params.Double() {
				h.State[i][2] = 0.5 * rng.Float64()
			}
		}
		h.Absent[2] = trial%2 == 0
		s, c, u := make([]float64, y.spec.MeasuredSize()), make([]float64, y.spec.ContextSize()), make([]float64, y.spec.ActionSize())
		h.Encode(s, c)
		for k := range 2 * h.Robots {
			u[k] = 0.3 * rng.NormFloat64()
		}
		sigma := []float64{0.3, 0.9, 0.4}
		gs, gu, J := make([]float64, len(s)), make([]float64, len(u)), make([]float64, 3)
		y.Gradient(s, u, c, sigma, gs, gu)
		cost := func() float64 {
			y.Objectives(s, u, c, J)
			return sigma[0]*J[0] + sigma[1]*J[1] + sigma[2]*J[2]
		}
		for _, of := range []struct{ x, g []float64 }{{s, gs}, {u, gu}} {
			for k := range of.x {
				const step = 1e-5
				value := of.x[k]
				of.x[k] = value + step
				up := cost()
				of.x[k] = value - step
				down := cost()
				of.x[k] = value
				if want := (up - down) / (2 * step); math.Abs(of.g[k]-want) > 1e-5*(1+math.Abs(want))+1e-8*up {
					t.Fatalf("trial %d: entry %d of %d has the derivative %v, central difference %v", trial, k, len(of.x), of.g[k], want)
				}
			}
		}
	}
	// Robots on each other have no direction to part in.
	y := system(t, true)
	scene := Scene{Robots: []Robot{at(1, 2, 1, 2), at(1, 2, 1, 2)}}
	s, c, u := make([]float64, y.spec.MeasuredSize()), make([]float64, y.spec.ContextSize()), make([]float64, y.spec.ActionSize())
	scene.Prediction(&y.Params).Encode(s, c)
	gs, gu := make([]float64, len(s)), make([]float64, len(u))
	y.Gradient(s, u, c, Thirds, gs, gu)
	if v := slices.Concat(gs, gu); slices.ContainsFunc(v, func(v float64) bool { return v != 0 }) {
		t.Errorf("derivatives %v", v)
	}
}

// The safety and violation terms of a pair by its margin: the exponential between −3 and 3 m, and the square of what is below zero.
func TestTermsOfAMargin(t *testing.T) {
	y := system(t, false)
	y.Params.Workspace = [4]float64{-50, 50, -50, 50}
	for _, margin := range []float64{-4, -3.5, -1, -0.25, 0, 0.25, 2, 3.5, 8} {
		s := Scene{Robots: []Robot{at(0, 0, 0, 0)}, Obstacles: []Obstacle{{C: [2]float64{margin + 5.48, 0}, R: 5}}}
		var J [Terms]float64
		var margins [MarginKinds]float64
		h := s.Prediction(&y.Params)
		h.evaluate(make([]float64, 2*y.Spec().ActionSize()), 2, &J, &margins)
		if want := 2 * math.Exp(-max(-3, min(3, margin))); math.Abs(J[SafetyTerm]-want) > 1e-9*want {
			t.Errorf("margin %v: safety %v, want %v", margin, J[SafetyTerm], want)
		}
		if want := 2 * min(margin, 0) * min(margin, 0); math.Abs(J[ViolationTerm]-want) > 1e-9 {
			t.Errorf("margin %v: violation %v, want %v", margin, J[ViolationTerm], want)
		}
		if math.Abs(margins[egoMargin]-margin) > 1e-12 || margins[agentMargin] != 1000 || margins[pairMargins] != 1000 || math.Abs(h.Margin()-margin) > 1e-12 {
			t.Errorf("margin %v: %v, now %v", margin, margins, h.Margin())
		}
	}
}

// The score of a plan is the sum of its steps' costs in an episode, and the smallest of their margins; it leaves the problem as it was.
func TestAPlansScoreIsThatOfItsEpisode(t *testing.T) {
	rng := rand.New(rand.NewPCG(9001, 16))
	for _, y := range []*System{system(t, true), double(t)} {
		for range 10 {
			scene := require.Get(y.Draw(Validation, rng.Uint64(), 0))(t)
			scene.W = []float64{0.2, 0.5, 0.3}
			h := scene.Prediction(&y.Params)
			plan := randomPlan(rng, h, 12)
			cost, margin := h.Score(plan, 12, scene.W)
			if !reflect.DeepEqual(h, scene.Prediction(&y.Params)) {
				t.Fatal("the problem is another one")
			}
			e, sum, low := start(y, scene), 0.0, math.Inf(1)
			for k := range 12 {
				out := require.Get(e.Apply(plan[k*12:][:12]))(t)
				sum, low = sum+out.Cost, min(low, out.Margin)
			}
			if math.Abs(cost-sum) > 1e-9*sum || math.Abs(margin-low) > 1e-12 {
				t.Fatalf("score %v, margin %v, of the episode %v, %v", cost, margin, sum, low)
			}
		}
	}
}

// In a crowd what robots share is divided as among a few.
func TestACrowdSharesAsAFew(t *testing.T) {
	p := Default(true)
	for robots, share := range map[int]float64{2: 1, 6: 5, 12: 11, 13: 11, 50: 11} {
		h := Prediction{Params: &p, Robots: robots}
		if h.GoalWeight(0) != 1 || math.Abs(h.GoalWeight(1)-0.65/share) > 1e-15 || h.Crowd() != (robots > 12) || h.Company() != min(robots, 12) {
			t.Errorf("%d robots: weight %v, a crowd: %v, company %d", robots, h.GoalWeight(1), h.Crowd(), h.Company())
		}
	}
	h := Prediction{Robots: 3, Absent: []bool{false, true, false}, Obstacles: make([]Obstacle, 4)}
	for i := range h.Present {
		if i > 0 {
			t.Error("it goes on")
		}
		break
	}
	if n := h.count(); n != 2*4+1 {
		t.Errorf("%d margins", n)
	}
}

// A problem is read from its vectors as it was written, and a robot that is not there is behind all that are.
func TestVectorsHoldAProblem(t *testing.T) {
	y := system(t, true)
	rng := rand.New(rand.NewPCG(9001, 17))
	s, c := make([]float64, y.spec.MeasuredSize()), make([]float64, y.spec.ContextSize())
	for trial := range 20 {
		h := drawn(t, y, rng)
		for i := range h.Robots {
			h.Previous[i], h.Absent[i] = [2]float64{rng.NormFloat64(), rng.NormFloat64()}, rng.IntN(3) == 0
		}
		h.Absent[0] = trial%2 == 0
		if h.Robots > 2 && trial%3 == 0 { // one that has left
			h.Absent[1], h.Radius[1] = true, 0
		}
		h.Encode(s, c)
		if got := y.Decode(s, c); !reflect.DeepEqual(got, h) {
			t.Fatalf("%+v is read as %+v", h, got)
		}
		for i := range h.Robots {
			if radius := c[6*4+i]; radius != map[bool]float64{false: h.Radius[i], true: -h.Radius[i]}[h.Absent[i]] {
				t.Errorf("robot %d, outside: %v: radius %v", i, h.Absent[i], radius)
			}
		}
	}
	for name, decide := range map[string]func(u []float64){"fallback": func(u []float64) { y.Fallback(s, c, u) }, "admit": func(u []float64) { y.Admit(s, c, u) }} {
		h := drawn(t, y, rng)
		for i := range 3 {
			h.Previous[i] = [2]float64{1.75, -1.75}
		}
		h.Absent[1], h.Absent[2], h.Radius[2], h.State[0][3] = true, true, 0, 0
		h.Encode(s, c)
		u := make([]float64, y.spec.ActionSize())
		u[4] = 1
		decide(u)
		if !slices.Equal(u[:6], []float64{0.75, -0.75, 0, 0, 0, 0}) {
			t.Errorf("%s: %v of robots that are there, wait and have left", name, u[:6])
		}
		for k := 2; k < 4 && name == "admit"; k++ { // who acts enters, within limits
			clear(u)
			u[k] = 0.5
			if decide(u); !slices.Equal(u[2:4], []float64{0.75, -0.75}) {
				t.Errorf("one that waits acts by %v", u[2:4])
			}
		}
	}
}

// Indicators by hand: squares of both coordinates of the ego's way, the exponential of the smallest margin now, and the mean square of
// actions in shares of their largest.
func TestIndicatorsByHand(t *testing.T) {
	y := system(t, false)
	y.Params.Limits.AMin = -4
	check := func(h *Prediction, u []float64, want ...float64) {
		t.Helper()
		s, c, delta := make([]float64, y.spec.MeasuredSize()), make([]float64, y.spec.ContextSize()), []float64{9, 9, 9}
		action := make([]float64, y.spec.ActionSize())
		copy(action, u)
		h.Encode(s, c)
		y.Indicators(s, action, c, delta)
		for k := range delta {
			if math.Abs(delta[k]-want[k]) > 1e-12 {
				t.Errorf("indicators %v, want %v", delta, want)
				return
			}
		}
	}
	near := Scene{Robots: []Robot{at(1, 2, 3, 5), at(1, 3.78, 0, 0)}}
	h := near.Prediction(&y.Params)
	check(h, []float64{2, 1, -1, 2}, 13./17, math.Exp(-2), (0.25+0.25+0.0625+1)/4)
	check(h, []float64{8, 1, -1, 2}, 13./17, math.Exp(-2), 1)
	h.State[1][1] = 2
	check(h, nil, 13./17, 1, 0)
	check(&Prediction{Params: &y.Params}, nil, 0, 0, 0)
}

// An action keeps every margin where the smallest is zero, and not below.
func TestProjectionSaysWhetherMarginsAreKept(t *testing.T) {
	y := system(t, true)
	y.Params.DSafe = 0.125
	for distance, want := range map[float64]bool{0.625: true, 0.6249: false} {
		scene := Scene{Robots: []Robot{{R: 0.25}, {R: 0.25, P: [2]float64{distance, 0}}}}
		s, c, u := make([]float64, y.spec.MeasuredSize()), make([]float64, y.spec.ContextSize()), make([]float64, y.spec.ActionSize())
		scene.Prediction(&y.Params).Encode(s, c)
		if got := y.Project(s, c, u); got != want {
			t.Errorf("robots %v m apart: %v", distance, got)
		}
	}
}

// A scene may have what is just at its bounds, and nothing beyond.
func TestScenesMayReachTheirBounds(t *testing.T) {
	y := system(t, true)
	p := &y.Params
	p.Dt, p.DSafe, p.Sensing.LeastRadius = 0.25, 0.125, 0.5
	full := func() Scene {
		robots := []Robot{{P: [2]float64{-10, 10}, Goal: [2]float64{10, -10}, R: 0.25, V: 1.2, Last: [2]float64{2, -2}, Leaves: 1}, {P: [2]float64{-9.375, 10}, Goal: [2]float64{-10, 10}, R: 0.25, V: -0.5, Last: [2]float64{-2, 2}}}
		return Scene{Robots: robots, Obstacles: []Obstacle{{C: [2]float64{9.5, -9.5}, V: [2]float64{76, -76}, R: 0.5}, {C: [2]float64{-9.375, 9.125}, R: 0.5}}}
	}
	scene := full()
	require.OK(t, scene.Validate(p))
	for says, changes := range map[string][]func(s *Scene){
		"agent 0: start":                      {func(s *Scene) { s.Robots[0].P[0] = -10.01 }, func(s *Scene) { s.Robots[0].P[1] = 10.01 }, func(s *Scene) { s.Robots[0].Goal[0] = 10.01 }, func(s *Scene) { s.Robots[0].Goal[1] = -10.01 }},
		"agent 1: start":                      {func(s *Scene) { s.Robots[1].Goal[0] = -10.01 }, func(s *Scene) { s.Robots[1].Goal[1] = 10.01 }},
		"agent 0: radius is 0":                {func(s *Scene) { s.Robots[0].R = 0 }},
		"agent 0: radius is -1":               {func(s *Scene) { s.Robots[0].R = -1 }},
		"agent 0: speed":                      {func(s *Scene) { s.Robots[0].V = 1.2001 }},
		"agent 1: speed":                      {func(s *Scene) { s.Robots[1].V = -0.5001 }},
		"agent 0: u_prev":                     {func(s *Scene) { s.Robots[0].Last[0] = 2.01 }, func(s *Scene) { s.Robots[0].Last[1] = -2.01 }},
		"agent 1: u_prev":                     {func(s *Scene) { s.Robots[1].Last[0] = -2.01 }, func(s *Scene) { s.Robots[1].Last[1] = 2.01 }},
		"agent 0: it enters at":               {func(s *Scene) { s.Robots[0].Enters = -1 }, func(s *Scene) { s.Robots[0].Leaves = -1 }, func(s *Scene) { s.Robots[0].Enters = 1 }},
		"obstacle 0: centre":                  {func(s *Scene) { s.Obstacles[0].C[0] = 9.51 }, func(s *Scene) { s.Obstacles[0].C[0] = -9.51 }, func(s *Scene) { s.Obstacles[0].C[1] = -9.51 }, func(s *Scene) { s.Obstacles[0].C[1] = 9.51 }},
		"obstacle 0: velocity":                {func(s *Scene) { s.Obstacles[0].V[0] = 76.01 }, func(s *Scene) { s.Obstacles[0].V[1] = -76.01 }},
		"obstacle 0: radius is 0,":            {func(s *Scene) { s.Obstacles[0].R = 0 }},
		"radius is 0.49, sensing.least":       {func(s *Scene) { s.Obstacles[0].R = 0.49 }},
		"agents 0 and 1 overlap":              {func(s *Scene) { s.Robots[1].P[0] = -9.3751 }},
		"agent 1 and obstacle 1 overlap":      {func(s *Scene) { s.Obstacles[1].C[1] = 9.1251 }},
		"scene has 7 agents":                  {func(s *Scene) { s.Robots = make([]Robot, 7) }},
		"scene has 16 obstacles":              {func(s *Scene) { s.Obstacles = make([]Obstacle, 16) }},
		"preference":                          {func(s *Scene) { s.W = []float64{0.5, 0.5} }},
		"agent 1 and obstacle 1 overlap: the": {func(s *Scene) { s.Robots[1].Enters, s.Obstacles[1].C[1], s.Robots[0].P[1] = 1, 9.5, -10 }}, // it stands, and would be entered
	} {
		for k, change := range changes {
			s := full()
			if change(&s); s.Validate(p) == nil || !strings.Contains(s.Validate(p).Error(), says) {
				t.Errorf("%s, %d: %v", says, k, s.Validate(p))
			}
		}
	}
	for k := range 11 { // every number has to be one
		s := full()
		r := &s.Robots[1]
		*[]*float64{&r.P[0], &r.P[1], &r.Theta, &r.V, &r.R, &r.Goal[0], &r.Goal[1], &r.Last[0], &r.Last[1], &r.Enters, &r.Leaves}[k] = math.Inf(1)
		if err := s.Validate(p); err == nil || !strings.Contains(err.Error(), "agent 1: ") || !strings.Contains(err.Error(), "is not finite") {
			t.Errorf("number %d of a robot is infinite: %v", k, err)
		}
		s = full()
		o := &s.Obstacles[1]
		*[]*float64{&o.C[0], &o.C[1], &o.V[0], &o.V[1], &o.R}[k%5] = math.NaN()
		if err := s.Validate(p); err == nil || !strings.Contains(err.Error(), "obstacle 1: ") || !strings.Contains(err.Error(), "is not finite") {
			t.Errorf("number %d of an obstacle is none: %v", k%5, err)
		}
	}
	// Who waits outside may be where others are, and what moves may have gone.
	s := full()
	s.Robots[1].P[0], s.Robots[1].Enters = -9.5, 1
	s.Obstacles[1].V[0], s.Obstacles[1].C[1] = 0.1, 9.5
	s.Obstacles = s.Obstacles[1:]
	s.Robots[0].P[1] = -10
	require.OK(t, s.Validate(p))
}

// What stands may touch a goal, and robots at their goals may touch each other; if one leaves they may be on each other.
func TestGoalsMayTouch(t *testing.T) {
	for _, moving := range []bool{false, true} {
		y := system(t, moving)
		y.Params.DSafe = 0.125
		scene := func(gap float64) Scene {
			s := Scene{Robots: []Robot{{P: [2]float64{5, 5}, R: 0.25}, {P: [2]float64{-5, 5}, R: 0.25, Goal: [2]float64{0.625 - gap, 0}}}}
			s.Obstacles = []Obstacle{{C: [2]float64{0, -0.875 + gap}, R: 0.5}}
			return s
		}
		touching, overlapping := scene(0), scene(1e-3)
		require.OK(t, y.possible(&touching))
		if err := y.possible(&overlapping); err == nil || !strings.Contains(err.Error(), "agents[0].goal") || !strings.Contains(err.Error(), "obstacles[0], which stands") {
			t.Errorf("an obstacle on a goal: %v", err)
		}
		overlapping.Obstacles[0].V[0] = 0.5
		if err := y.possible(&overlapping); (err == nil) != moving || !moving && !strings.Contains(err.Error(), "obstacles[0].v") {
			t.Errorf("moving %v: one that moves over a goal: %v", moving, err)
		}
		for k, c := range []struct {
			gap    float64
			change func(a, b *Robot)
			said   bool
		}{
			{0, func(a, b *Robot) {}, false}, {1e-3, func(a, b *Robot) {}, true}, {1e-3, func(a, b *Robot) { a.Leaves = 9 }, false}, {1e-3, func(a, b *Robot) { b.Leaves = 9 }, false},
			{1e-3, func(a, b *Robot) { a.LeavesAtGoal = true }, false}, {1e-3, func(a, b *Robot) { b.LeavesAtGoal = true }, false},
		} {
			s := scene(c.gap)
			c.change(&s.Robots[0], &s.Robots[1])
			if all := strings.Join(start(y, s).Beyond(), "; "); strings.Contains(all, "agents 0 and 1 cannot stand at their goals together") != c.said {
				t.Errorf("case %d: %q", k, all)
			}
		}
	}
}
