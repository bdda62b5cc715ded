package plan

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// crowded is the system of a crowd.
func crowded(t testing.TB, moving bool, robots int) *world.System {
	t.Helper()
	params := world.Default(moving)
	y, err := world.NewSystem("test", params.ForRobots(robots), moving)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// In a crowd nobody touches anybody, whoever decides and however late and unsure messages are: the plant says so of
// every step, and after each decision the commitments of all keep apart for as long as they reach, but where
// somebody has none that is safe.
func TestCrowdsKeepApart(t *testing.T) {
	for name, exchange := range map[string]*Exchange{
		"in turn": nil, "at once": {}, "a period late": {Delay: 1}, "late and lossy": {Delay: 3, Loss: 0.05}, "mostly lost": {Delay: 2, Loss: 0.8},
	} {
		t.Run(name, func(t *testing.T) {
			heard := exchange == nil || exchange.Loss < 0.5 // who is not heard cannot make way for what moves
			y := crowded(t, heard, 20)
			scene, err := y.Draw(world.Validation, 41, 0)
			if err != nil {
				t.Fatal(err)
			}
			o := Default(heard)
			o.Candidates, o.Exchange = 1024, exchange
			p, err := New(y, o, domain.Means{})
			if err != nil {
				t.Fatal(err)
			}
			moved, e := 0.0, start(y, scene)
			_, low := drive(t, e, p, 60, func(_ []float64, d domain.Decision) {
				h := p.joint.Scene
				for i := range h.Robots {
					moved += math.Abs(h.State[i][3])
					for j := range i {
						apart, a, b := h.Radius[i]+h.Radius[j]+h.Params.DSafe, p.joint.Robots[i].Path, p.joint.Robots[j].Path
						if exchange == nil { // who plans in turn does not look at what comes after a plan
							for k := range world.Stopping {
								a[world.LookAhead+k], b[world.LookAhead+k] = a[world.LookAhead-1], b[world.LookAhead-1]
							}
						}
						if d.Solved() && !a.Clear(&b, 0, apart) {
							t.Fatalf("decision %d: robots %d and %d are committed to touch", p.t, i, j)
						}
					}
				}
			})
			if low < 0 {
				t.Errorf("smallest margin %v m", low)
			}
			if mean := moved / (60 * 20); heard == (mean < 0.4) {
				t.Errorf("mean speed %v m/s, where messages are heard: %v", mean, heard)
			}
		})
	}
}

// Everybody of a crowd among standing obstacles arrives, unicycles and double integrators.
func TestCrowdsArrive(t *testing.T) {
	for _, exchange := range []*Exchange{nil, {Delay: 1}} {
		for _, double := range []bool{false, true} {
			if testing.Short() && double == (exchange == nil) {
				continue
			}
			params := world.Default(false)
			if double {
				params.Dynamics, params.Limits.VMin = world.DoubleIntegrator, -params.Limits.VMax
			}
			y, err := world.NewSystem("test", params.ForRobots(16), false)
			if err != nil {
				t.Fatal(err)
			}
			scene, err := y.Draw(world.Validation, 42, 0)
			if err != nil {
				t.Fatal(err)
			}
			o := Default(false)
			o.Candidates, o.Exchange = 1024, exchange
			p, err := New(y, o, domain.Means{})
			if err != nil {
				t.Fatal(err)
			}
			e := start(y, scene)
			if _, low := drive(t, e, p, 150, nil); low < 0 || !e.Succeeded() {
				t.Errorf("exchange %v, double integrators %v: smallest margin %v m: %s", exchange, double, low, e.Cause())
			}
		}
	}
}

// Of the bodies that a robot of a crowd does not look at none comes nearby, however it drives; and it looks at few.
func TestCrowdsLookAtWhatTheyCanMeet(t *testing.T) {
	y := crowded(t, true, 60)
	rng := rand.New(rand.NewPCG(3, 4))
	h := drawn(t, y, rng)
	l := y.Params.Limits
	for i := range h.Robots {
		h.State[i][3] = l.VMin + rng.Float64()*(l.VMax-l.VMin)
	}
	j := newCommitments(h.Robots)
	j.Planned = h.Robots
	wild := func() (plan Plan) {
		a, omega := rng.NormFloat64(), rng.NormFloat64()
		for k := range plan {
			plan[k] = [2]float32{float32(a + rng.NormFloat64()), float32(omega + rng.NormFloat64())}
		}
		return plan
	}
	for i := range h.Robots {
		j.Robots[i].Plan = wild()
	}
	j.See(h)
	var look view.Outlook
	seen, all := 0, 0
	for i := range h.Robots {
		j.Outlook(i, &look)
		seen += len(look.Visible) + len(look.Robots)
		all += len(h.Obstacles) + h.Robots - 1
		for range 50 {
			plan := wild()
			for k := range plan {
				plan[k][0] = max(plan[k][0], 0.5) // as far as it goes
			}
			path, _ := follow(h, i, &plan)
			for n := range h.Robots {
				if n == i || slices.ContainsFunc(look.Robots, func(o view.Other) bool { return o.Robot == n }) {
					continue
				}
				if !path.Clear(&j.Robots[n].Path, 0, h.Radius[i]+h.Radius[n]+h.Params.DSafe+nearby) {
					t.Fatalf("robot %d can meet robot %d, which it does not look at", i, n)
				}
			}
			for n := range h.Obstacles {
				if slices.Contains(look.Visible, n) {
					continue
				}
				for k, at := range path[:world.LookAhead] {
					o := &j.Obstacles[k][n]
					if math.Hypot(float64(at[0])-o.C[0], float64(at[1])-o.C[1]) < h.Radius[i]+o.R+h.Params.DSafe+nearby {
						t.Fatalf("robot %d can meet obstacle %d, which it does not look at", i, n)
					}
				}
			}
		}
	}
	if seen*3 > all {
		t.Errorf("robots look at %d of %d bodies", seen, all)
	}
}

// A proposal is adopted if and only if it keeps clear of those of higher rank, and the most urgent rank highest.
func TestProposalsOfHigherRankStand(t *testing.T) {
	y := crowded(t, true, 13)
	h := drawn(t, y, rand.New(rand.NewPCG(5, 6)))
	p, err := New(y, Options{Candidates: 64, LookAhead: world.LookAhead, Ways: descentBold, Exchange: &Exchange{}}, domain.Means{})
	if err != nil {
		t.Fatal(err)
	}
	x := &p.proposals
	x.all = make([]proposal, h.Robots)
	for i := range x.all { // 0, 1 and 2 meet, the others stand far apart
		for k := range x.all[i].path {
			x.all[i].path[k] = [2]float32{float32(10 * max(i, 2)), 0}
			p.joint.Robots[i].Path[k] = [2]float32{float32(-10 - 10*i), 0}
		}
		h.State[i] = [world.StateSize]float64{10 * float64(max(i, 2)), float64(i)}
	}
	for _, c := range []struct {
		turn   int
		urgent []int
		stands int // of 0, 1 and 2
	}{{0, nil, 0}, {1, nil, 1}, {2, nil, 2}, {0, []int{2}, 2}, {0, []int{1, 2}, 1}, {2, []int{1, 2}, 2}} {
		p.t = c.turn
		for i := range x.all {
			x.all[i].urgent = slices.Contains(c.urgent, i)
		}
		x.settle(p, h)
		for i := range x.all {
			if want := i > 2 || i == c.stands; x.all[i].stands != want {
				t.Errorf("turn %d, urgent %v: proposal %d stands %v", c.turn, c.urgent, i, x.all[i].stands)
			}
		}
	}
}
