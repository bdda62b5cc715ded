package world

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
)

// Over a period a unicycle moves with its mean speed along its mean heading, and speeds end at their limits. An acceleration has an
// effect on the speed inside its limits alone.
func TestAPeriodOfARobot(t *testing.T) {
	p := Default(true)
	for _, c := range []struct {
		s        [StateSize]float64
		a, omega float64
		v        float64
		free     bool
	}{
		{[StateSize]float64{1, 2, 0.5, 0.4}, 1, -0.6, 0.6, true},
		{[StateSize]float64{1, -2, 2.5, 1.1}, 2, 0.8, 1.2, false},
		{[StateSize]float64{1, -2, -2.5, -0.4}, -2, 0.8, -0.5, false},
		{[StateSize]float64{0, 0, 0, 1.2}, 0, 1, 1.2, false},
		{[StateSize]float64{0, 0, 0, -0.5}, 0, 1, -0.5, false},
	} {
		got, m := p.step(&c.s, c.a, c.omega)
		mean, heading := (c.s[3]+c.v)/2, c.s[2]+0.1*c.omega
		want := [StateSize]float64{c.s[0] + 0.2*mean*math.Cos(heading), c.s[1] + 0.2*mean*math.Sin(heading), c.s[2] + 0.2*c.omega, c.v}
		for k := range want {
			if math.Abs(got[k]-want[k]) > 1e-12 {
				t.Errorf("%+v: %v, want %v", c, got, want)
			}
		}
		if m.free[0] != c.free {
			t.Errorf("%+v: the acceleration acts: %v", c, m.free[0])
		}
	}
	p = double(t).Params
	for axis := range 2 {
		for v, free := range map[float64]bool{-1.2: false, 0.7: true, 1.2: false} {
			s := [StateSize]float64{}
			s[2+axis] = v
			next, m := p.step(&s, 0, 0)
			if m.free[axis] != free || !m.free[1-axis] || next[axis] != 0.2*v || next[1-axis] != 0 {
				t.Errorf("axis %d at %v m/s: it is at %v, accelerations act: %v", axis, v, next, m.free)
			}
		}
	}
	s := [StateSize]float64{0, 0, 0.3, -0.4}
	if heading, speed := p.Velocity(&s); heading != math.Atan2(-0.4, 0.3) || math.Abs(speed-0.5) > 1e-15 {
		t.Errorf("velocity %v: heading %v, speed %v", s[2:], heading, speed)
	}
	unicycles := Default(true)
	if heading, speed := unicycles.Velocity(&s); heading != 0.3 || speed != -0.4 {
		t.Errorf("a unicycle at %v: heading %v, speed %v", s, heading, speed)
	}
}

// An obstacle that just touches an edge of the workspace goes on: the edge mirrors what is beyond it.
func TestATouchedEdgeMirrorsNothing(t *testing.T) {
	p := Default(true)
	p.Dt = 0.25
	for k := range 2 {
		for _, outwards := range []float64{-1, 1} {
			o := Obstacle{R: 0.5}
			o.C[k], o.V[k] = 9.25*outwards, outwards
			if p.advance(&o); o.C[k] != 9.5*outwards || o.V[k] != outwards {
				t.Errorf("axis %d: %+v", k, o)
			}
		}
	}
}

// The nearest action is the one that a search of all actions within the box and the slew bound finds, and the excess of an action is the
// largest distance that it has to any of its limits.
func TestTheNearestActionWithinLimits(t *testing.T) {
	l := Limits{AMin: -1.5, AMax: 2, OmegaMax: 0.75, DuMax: [2]float64{1, 0.5}}
	lo, hi := [2]float64{-1.5, -0.75}, [2]float64{2, 0.75}
	rng := rand.New(rand.NewPCG(9001, 7))
	values := []float64{0, 0.25, -0.25, 0.5, 1, -1, 1.5, -1.5, 2, -2, 4, -4, math.NaN()}
	for range 3000 {
		pick := func() float64 { return values[rng.IntN(len(values))] }
		u, last := []float64{pick(), pick()}, []float64{pick(), pick()}
		got := slices.Clone(u)
		l.Nearest(got, last)
		excess := math.Inf(-1)
		for k := range 2 {
			last[k], u[k] = zeroed(last[k]), zeroed(u[k])
			// All values on a lattice that holds every bound, those nearest to what the slew bound allows if the box does not meet it.
			best, distance := math.NaN(), math.Inf(1)
			for v := lo[k]; v <= hi[k]; v += 0.25 {
				beyond := max(0, math.Abs(v-last[k])-l.DuMax[k])
				if d := 100*beyond + math.Abs(v-u[k]); d < distance {
					best, distance = v, d
				}
			}
			if got[k] != best {
				t.Fatalf("%v after %v: entry %d is %v, want %v", u, last, k, got[k], best)
			}
			excess = max(excess, u[k]-hi[k], lo[k]-u[k], u[k]-last[k]-l.DuMax[k], last[k]-u[k]-l.DuMax[k])
		}
		if got := l.Excess(u, last); got != excess {
			t.Fatalf("%v after %v leaves its limits by %v, want %v", u, last, got, excess)
		}
	}
	for _, v := range []float64{math.Inf(1), math.Inf(-1)} {
		u := []float64{v, -v}
		if l.Nearest(u, []float64{v, -v}); u[0] != math.Copysign(1, v) || u[1] != -math.Copysign(0.5, v) {
			t.Errorf("after an action that is not finite: %v", u)
		}
	}
}

func zeroed(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// The batched roll-out has each robot's own limits, and obstacles where the plant moves them.
func TestTheBatchedProblemIsThePlants(t *testing.T) {
	y := system(t, true)
	y.Params.Limits.AMin, y.Params.Limits.OmegaMax, y.Params.Limits.DuMax = -1.5, 0.75, [2]float64{1, 0.5}
	h := drawn(t, y, rand.New(rand.NewPCG(9001, 8)))
	h.Previous[1] = [2]float64{0.25, -0.5}
	want := rollout.Bounds[float32]{Previous: [2]float32{0.25, -0.5}, Lo: [2]float32{-1.5, -0.75}, Hi: [2]float32{2, 0.75}, Slew: [2]float32{1, 0.5}}
	if got := h.Bounds(1); got != want {
		t.Errorf("bounds %+v, want %+v", got, want)
	}
	obstacles := h.simulate(make([]float64, 5*y.Spec().ActionSize()), 5).obstacle[1:]
	for _, reuse := range [][][]Obstacle{nil, h.Predicted(nil, 2), h.Predicted(nil, 9)} {
		if got := h.Predicted(reuse, 5); !slices.EqualFunc(got, obstacles, slices.Equal) {
			t.Errorf("obstacles are predicted at %v, want %v", got, obstacles)
		}
	}
	one := Scene{Robots: []Robot{{R: 0.3, Goal: [2]float64{2, 0}}}}
	if j := one.Prediction(&y.Params).Joint([]float64{0, 1, 0}); j.Penalty.Exp[0] != 12 || j.Penalty.Square[0] != 260 {
		t.Errorf("a robot alone: penalties %v and %v", j.Penalty.Exp, j.Penalty.Square)
	}
}

// All bodies of a problem are in its picture: the workspace, obstacles, and each robot with its goal, one that is outside as a dot.
func TestAPictureHasAllBodies(t *testing.T) {
	y := system(t, true)
	scene := Scene{
		Robots:    []Robot{{P: [2]float64{1, 2}, Theta: 0.5, R: 0.3, Goal: [2]float64{5, 6}}, {P: [2]float64{-1, 2}, R: 0.25, Goal: [2]float64{-5, 6}, Enters: 1}},
		Obstacles: []Obstacle{{C: [2]float64{3, -4}, R: 0.5}},
	}
	h := scene.Prediction(&y.Params)
	h.Radius[1] = 0.25 // it waits
	s, c := make([]float64, y.spec.MeasuredSize()), make([]float64, y.spec.ContextSize())
	h.Encode(s, c)
	var got []string
	for _, shape := range y.Picture(s, c) {
		if err := shape.Validate(); err != nil {
			t.Error(err)
		}
		got = append(got, describe(shape))
	}
	want := []string{
		"ground of 0 along [[-10 -10] [10 -10] [10 10] [-10 10] [-10 -10]]", "obstacle of 0 at [[3 -4]], 0.5, 0",
		"goal of 0 at [[5 6]], 0.35, 0", "body of 0 at [[1 2]], 0.3, 0.5", "goal of 1 at [[-5 6]], 0.35, 0", "body of 1 at [[-1 2]], 0.001, 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func describe(s domain.Shape) string {
	role := map[domain.Role]string{domain.Ground: "ground", domain.Obstacle: "obstacle", domain.Goal: "goal", domain.Body: "body"}[s.Role]
	if s.Radius == 0 {
		return fmt.Sprintf("%s of %d along %v", role, s.Of, s.Path)
	}
	return fmt.Sprintf("%s of %d at %v, %v, %v", role, s.Of, s.Path, s.Radius, s.Heading)
}
