package plan

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// scriptedLoop does what a test says, and counts what it was shown.
type scriptedLoop struct {
	shown  []float64 // contexts
	resets int
	plan   [2 * world.LookAhead]float32
	did    domain.Decision
	fail   error
}

func (l *scriptedLoop) Reset(domain.Episode) error { l.resets++; return nil }
func (l *scriptedLoop) Decide(_, c []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	l.shown = append(l.shown[:0], c...)
	u[0], u[1] = 0.25, float64(l.plan[1])
	l.did.Decoded = l.plan[:]
	if l.did.Fallback&domain.FallbackAction != 0 {
		l.did.Decoded = nil
	}
	return l.did, l.fail
}

func navigator(t testing.TB, y *world.System, loop func() (domain.Controller, error)) *Navigator {
	t.Helper()
	n, err := NewNavigator(y, domain.Means{Loop: loop})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Every robot executes what its own loop decides and is committed to what that decoded;
// the monitor is the ego's, with the largest residual and the fallbacks of all.
func TestNavigatorExecutesItsLoops(t *testing.T) {
	y := system(t, true)
	var loops []*scriptedLoop
	n := navigator(t, y, func() (domain.Controller, error) {
		l := new(scriptedLoop)
		for k := range l.plan {
			l.plan[k] = 0.01 * float32(len(loops)+1)
		}
		l.did = domain.Decision{Sigma: []float64{float64(len(loops))}, Residual: float64(len(loops)), Displacement: 3, Fallback: domain.FallbackMargin}
		loops = append(loops, l)
		return l, nil
	})
	e := scene(t, y, 0)
	robots := e.Scene().(world.Scene).Robots
	drive(t, e, n, 1, func(u []float64, m domain.Decision) {
		for i := range robots {
			own := 0.01 * float64(i+1)
			plan := n.planner.Commitments().Robots[i].Plan
			if u[2*i] != 0.25 || math.Abs(u[2*i+1]-own) > 1e-7 || plan[0][0] != 0.25 || math.Abs(float64(plan[7][0])-own) > 1e-7 {
				t.Errorf("robot %d does %v of the plan %v, its loop says 0.25 and then %v", i, u[2*i:2*i+2], plan[:8], own)
			}
		}
		if m.Sigma[0] != 0 || m.Displacement != 3 || m.Residual != float64(len(robots)-1) || m.Fallback != domain.FallbackMargin || loops[0].resets != 1 {
			t.Errorf("the decision is %+v after %d resets", m, loops[0].resets)
		}
	})
	// What a loop could not decode is not committed to.
	loops[0].did.Fallback, loops[0].plan[20] = domain.FallbackAction, 9
	drive(t, scene(t, y, 0), n, 2, nil)
	if plan := n.planner.Commitments().Robots[0].Plan; plan[10][0] == 9 || plan[0][0] != 0.25 {
		t.Errorf("the ego, without a decoded plan, is committed to %v", plan)
	}
	loops[1].fail = errors.New("no power")
	s, c, u := make([]float64, world.MaxRobots*world.StateSize), make([]float64, contextSize), make([]float64, world.MaxRobots*world.ActionSize)
	e.Observe(s, c)
	if _, err := n.Decide(s, c, adaptive, u); !errors.Is(err, loops[1].fail) {
		t.Errorf("a loop's error comes back as %v", err)
	}
	if _, err := NewNavigator(y, domain.Means{}); err == nil {
		t.Error("a navigator without a map was made")
	}
}

// A later robot's view holds what the one before it has just decided.
func TestNavigatorsSeeEachOther(t *testing.T) {
	y := system(t, true)
	s := world.Scene{Robots: []world.Robot{
		{R: 0.3, P: [2]float64{0, 0}, Goal: [2]float64{8, 0}}, {R: 0.3, P: [2]float64{2, 0}, Goal: [2]float64{-6, 0}, Theta: math.Pi},
	}}
	var seen [2][]float64
	for k, turn := range []float32{-1, 1} {
		var loops []*scriptedLoop
		n := navigator(t, y, func() (domain.Controller, error) {
			l := new(scriptedLoop)
			for k := range world.LookAhead {
				l.plan[2*k], l.plan[2*k+1] = 0.5, turn
			}
			loops = append(loops, l)
			return l, nil
		})
		drive(t, start(y, s), n, 1, nil)
		seen[k] = loops[1].shown
	}
	if slices.Equal(seen[0], seen[1]) {
		t.Error("the second robot's view is the same wherever the ego goes")
	}
}

// On a map the navigator's actions keep their limits, are the same on any number of
// threads, and after Reset the same again.
func TestNavigatorOnAMap(t *testing.T) {
	for _, moving := range []bool{false, true} {
		y := system(t, moving)
		v := view.New(y)
		var runs [3][]float64
		for k := range runs {
			b, err := cpufallback.New(cpufallback.Options{Threads: 1 + k%2})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			m := untrained(t, v, 32, 64)
			n := navigator(t, y, func() (domain.Controller, error) {
				loop, err := batchnav.NewNavigator(b, m, v, batchnav.Options{})
				if err != nil {
					return nil, err
				}
				return loop.Controller(), nil
			})
			if k == 2 {
				drive(t, scene(t, y, 3), n, 3, nil)
			}
			drive(t, scene(t, y, 1), n, 6, func(u []float64, m domain.Decision) {
				runs[k] = append(runs[k], u...)
				if len(m.Sigma) != 3 || !(m.Residual > 0) || m.Times.Step == 0 {
					t.Errorf("the decision is %+v", m)
				}
			})
		}
		if !slices.Equal(runs[0], runs[1]) || !slices.Equal(runs[0], runs[2]) {
			t.Errorf("moving %v: threads or an episode before change what is done", moving)
		}
	}
}
