package plan

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

var adaptive = domain.Preference{Adaptive: true}

// contextSize is that of the paper's cases.
var contextSize = func() int {
	p := world.Default(false)
	return p.ContextSize()
}()

func system(t testing.TB, moving bool) *world.System {
	t.Helper()
	y, err := world.NewSystem("test", world.Default(moving), moving)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// start is the episode of a scene.
func start(y *world.System, scene world.Scene) *world.Episode {
	return (&world.Plant{System: y}).Start(scene)
}

// drawn is the prediction problem of a test scene.
func drawn(t testing.TB, y *world.System, rng *rand.Rand) *world.Prediction {
	t.Helper()
	s, err := y.Draw(world.Validation, rng.Uint64(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return s.Prediction(&y.Params)
}

// drive runs a controller for so many steps and hands every decision to check.
func drive(t testing.TB, e *world.Episode, c domain.Controller, steps int, check func(u []float64, d domain.Decision)) (cost, low float64) {
	t.Helper()
	if err := c.Reset(e); err != nil {
		t.Fatal(err)
	}
	p := e.Params()
	s, x, u := make([]float64, p.Room()*world.StateSize), make([]float64, p.ContextSize()), make([]float64, p.Room()*world.ActionSize)
	low = math.Inf(1)
	for range steps {
		if e.Done() {
			break
		}
		e.Observe(s, x)
		d, err := c.Decide(s, x, adaptive, u)
		if err != nil {
			t.Fatal(err)
		}
		if check != nil {
			check(u, d)
		}
		out, err := e.Apply(u)
		if err != nil {
			t.Fatal(err)
		}
		cost += out.Cost
		low = math.Min(low, out.Margin)
	}
	return cost, low
}

func planner(t testing.TB, y *world.System, candidates int) *Planner {
	t.Helper()
	o := Default(y.Moving())
	o.Candidates = candidates
	p, err := New(y, o, domain.Means{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func scene(t testing.TB, y *world.System, index uint64) *world.Episode {
	t.Helper()
	s, err := y.Draw(world.Validation, 17, index)
	if err != nil {
		t.Fatal(err)
	}
	return start(y, s)
}

// committedMargin is the smallest margin of all robots' committed plans over all L
// steps, rolled out in float64.
func committedMargin(p *Planner) float64 {
	plan := make([]float64, world.LookAhead*world.MaxRobots*world.ActionSize)
	for i := range p.scene.Robots {
		for k, u := range p.joint.Robots[i].Plan {
			a := p.scene.Action(plan, k, i)
			a[0], a[1] = float64(u[0]), float64(u[1])
		}
	}
	_, margin := p.scene.Score(plan, world.LookAhead, world.Thirds)
	return margin
}

// What the planner reports safe is safe: rolled out in float64, the committed
// plans of all robots keep every margin for all L steps, and after any number of
// decisions no margin has been violated.
func TestCommittedPlansAreSafe(t *testing.T) {
	for _, moving := range []bool{false, true} {
		y := system(t, moving)
		for index := range uint64(2) {
			e := scene(t, y, index)
			p := planner(t, y, 768)
			claimed := 0
			_, low := drive(t, e, p, 40, func(_ []float64, d domain.Decision) {
				if !d.Solved() {
					return
				}
				claimed++
				if least := committedMargin(p); least < 0.5*p.options.Hard {
					t.Fatalf("moving %v, scene %d: a committed plan called safe has the margin %v", moving, index, least)
				}
			})
			if claimed < 30 || low < 0 {
				t.Errorf("moving %v, scene %d: %d of 40 decisions safe for the look-ahead, smallest margin %v", moving, index, claimed, low)
			}
		}
	}
}

// The same scene gives the same actions, bit for bit, also from a planner that
// has run another scene before.
func TestPlannerIsDeterministic(t *testing.T) {
	y := system(t, false)
	var runs [2][]float64
	p := planner(t, y, 384)
	for i := range runs {
		drive(t, scene(t, y, 0), p, 6, func(u []float64, _ domain.Decision) { runs[i] = append(runs[i], u...) })
		drive(t, scene(t, y, 1), p, 3, nil)
	}
	if !slices.Equal(runs[0], runs[1]) {
		t.Error("two runs of one scene differ")
	}
}

// Whole static episodes reach every goal without a collision, where the
// finite-budget reference does not always.
func TestPlannerSolvesStaticScenes(t *testing.T) {
	if testing.Short() {
		t.Skip("whole episodes")
	}
	y := system(t, false)
	for index := range uint64(2) {
		e := scene(t, y, index)
		if _, low := drive(t, e, planner(t, y, 768), y.Params.Steps, nil); low < 0 || !e.Succeeded() {
			t.Errorf("scene %d: smallest margin %v, all goals reached: %v", index, low, e.Succeeded())
		}
	}
}

// A robot that is certain to be run over gets an action within its limits and the
// decision says that no plan is safe.
func TestPlannerReportsThatNoPlanIsSafe(t *testing.T) {
	y := system(t, true)
	s := world.Scene{Robots: []world.Robot{{R: 0.3, Goal: [2]float64{5, 0}}}}
	for k := range 12 {
		sin, cos := math.Sincos(2 * math.Pi * float64(k) / 12)
		s.Obstacles = append(s.Obstacles, world.Obstacle{C: [2]float64{2.2 * cos, 2.2 * sin}, V: [2]float64{-0.8 * cos, -0.8 * sin}, R: 0.9})
	}
	e := start(y, s)
	unsafe := 0
	drive(t, e, planner(t, y, 384), 8, func(_ []float64, d domain.Decision) {
		if !d.Solved() {
			unsafe++
		}
	})
	if unsafe != 8 {
		t.Errorf("%d of 8 decisions report that no plan is safe", unsafe)
	}
}

func TestPlannerFallsBackWithoutAState(t *testing.T) {
	y := system(t, true)
	p := domain.FiniteController(y, planner(t, y, 384))
	e := scene(t, y, 0)
	s, c, u := make([]float64, world.MaxRobots*world.StateSize), make([]float64, contextSize), make([]float64, world.MaxRobots*world.ActionSize)
	e.Observe(s, c)
	s[1] = math.NaN()
	d, err := p.Decide(s, c, adaptive, u)
	if err != nil || d.Solved() {
		t.Fatalf("a decision without a state: %+v, error %v", d, err)
	}
	if _, err := e.Apply(u); err != nil {
		t.Error(err)
	}
}

// The slope of the expected remaining cost is its derivative, in the open.
func TestRemainingCostSlope(t *testing.T) {
	y := system(t, true)
	e := ending(&view.Outlook{Scene: drawn(t, y, rand.New(rand.NewPCG(5, 6)))}, 0, 0.7, 1)
	const step = 1e-5
	for _, at := range [][2]float64{{1, 2}, {-7, 3}, {8, -9}} {
		_, gx, gy := e.At(at[0], at[1])
		right, _, _ := e.At(at[0]+step, at[1])
		left, _, _ := e.At(at[0]-step, at[1])
		up, _, _ := e.At(at[0], at[1]+step)
		down, _, _ := e.At(at[0], at[1]-step)
		if dx, dy := (right-left)/(2*step), (up-down)/(2*step); math.Hypot(dx-gx, dy-gy) > 1e-5*math.Hypot(gx, gy) {
			t.Errorf("at %v: slope (%v, %v), differences (%v, %v)", at, gx, gy, dx, dy)
		}
	}
}

// Patience is lost only without progress, and comes back with it.
func TestPatience(t *testing.T) {
	y := system(t, false)
	p := planner(t, y, 384)
	h := drawn(t, y, rand.New(rand.NewPCG(7, 8)))
	h.Goal[0] = [2]float64{h.State[0][0] + 6, h.State[0][1]}
	p.joint.See(h)
	w := &p.waits[0]
	for range patienceFor + 1 {
		if w.factor() != 1 {
			t.Fatalf("patience is lost after %d decisions, want %d", w.waited, patienceFor)
		}
		w.update(p, 0)
	}
	if w.factor() != 0.5 {
		t.Errorf("factor %v after %d decisions without progress, want 0.5", w.factor(), w.waited)
	}
	for range 200 {
		w.update(p, 0)
	}
	if w.factor() != math.Exp2(-halvings) {
		t.Errorf("factor %v, want at least 2^-%d", w.factor(), halvings)
	}
	h.State[0][0] += 1
	w.update(p, 0)
	if w.factor() != 1 {
		t.Errorf("factor %v after progress, want 1", w.factor())
	}
}

// The reference is feasible first: a plan that keeps every margin beats any that
// does not, and more candidates do not change its kind of answer.
func TestReferenceIsFeasibleFirst(t *testing.T) {
	for _, c := range []struct {
		a, b ranked
		want bool
	}{
		{ranked{true, 9, 0}, ranked{false, 1, 1}, true},
		{ranked{false, 1, 0}, ranked{true, 9, 1}, false},
		{ranked{true, 1, 0}, ranked{true, 2, 1}, true},
	} {
		if better(c.a, c.b) != c.want {
			t.Errorf("better(%+v, %+v) is %v", c.a, c.b, !c.want)
		}
	}
	y := system(t, true)
	if _, err := NewReference(y, 63); err == nil {
		t.Error("63 candidates are accepted")
	}
	r, err := NewReference(y, 384)
	if err != nil {
		t.Fatal(err)
	}
	e := scene(t, y, 3)
	drive(t, e, r, 5, func(_ []float64, _ domain.Decision) {
		top := r.order[0]
		for _, o := range r.order[1:] {
			if better(o, top) {
				t.Fatal("the order is not best first")
			}
		}
		if r.samples*referenceRounds != 384 {
			t.Fatalf("%d samples a round, want %d in all", r.samples, 384)
		}
	})
}

// The oracle's cost is that of the reference run in closed loop, NaN where the
// reference was not safe.
func TestOracleIsTheReferenceWhereItWasSafe(t *testing.T) {
	if testing.Short() {
		t.Skip("whole episodes")
	}
	y := system(t, false)
	safe := 0
	for index := range uint64(4) {
		e := scene(t, y, index)
		reference := func(y *world.System) (domain.Controller, error) { return NewReference(y, 384) }
		want, plan, err := (&world.Plant{System: y, Reference: reference}).Start(e.Scene().(world.Scene)).Oracle()
		if err != nil {
			t.Fatal(err)
		}
		r, err := reference(y)
		if err != nil {
			t.Fatal(err)
		}
		cost, low := drive(t, e, r, y.Params.Steps, nil)
		if e.Succeeded() && low >= 0 {
			safe++
			if cost != want || len(plan) != y.Params.Steps {
				t.Errorf("scene %d: oracle %v with %d steps, the reference paid %v", index, want, len(plan), cost)
			}
		} else if !math.IsNaN(want) || plan != nil {
			t.Errorf("scene %d: oracle %v where the reference was not safe", index, want)
		}
	}
	if safe == 0 {
		t.Error("the reference was safe nowhere")
	}
}

func BenchmarkField(b *testing.B) {
	y := system(b, false)
	h := drawn(b, y, rand.New(rand.NewPCG(1, 2)))
	p := planner(b, y, 4096)
	p.Observe(h, world.Thirds)
	var bodies []world.Disc
	for _, o := range h.Obstacles {
		bodies = append(bodies, world.Disc{X: o.C[0], Y: o.C[1], R: o.R + h.Radius[0] + y.Params.DSafe})
	}
	for b.Loop() {
		p.costs(0, bodies, p.options.Buffer, nil)
	}
}

// BenchmarkDecision is one whole decision of the planner, 4096 candidates, in the
// first thirty steps of a scene, where every robot is on its way.
func BenchmarkDecision(b *testing.B) {
	for _, moving := range []bool{false, true} {
		name := "static"
		if moving {
			name = "moving"
		}
		b.Run(name, func(b *testing.B) {
			y := system(b, moving)
			e := scene(b, y, 3)
			p := planner(b, y, 4096)
			s, c, u := make([]float64, world.MaxRobots*world.StateSize), make([]float64, contextSize), make([]float64, world.MaxRobots*world.ActionSize)
			for n := 0; b.Loop(); n++ {
				if n > 0 && n%30 == 0 {
					b.StopTimer()
					e = scene(b, y, 3)
					if err := p.Reset(e); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				e.Observe(s, c)
				if _, err := p.Decide(s, c, adaptive, u); err != nil {
					b.Fatal(err)
				}
				if _, err := e.Apply(u); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(p.scene.Robots), "robots")
			b.ReportMetric(float64(4096/rollout.Lanes), "blocks")
		})
	}
}
