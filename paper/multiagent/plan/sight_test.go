package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// ray is what this test has seen itself: a free segment.
type ray struct{ from, to [2]float64 }

// distance is a point's from it.
func (r *ray) distance(c [2]float64) float64 {
	dx, dy := r.to[0]-r.from[0], r.to[1]-r.from[1]
	at := 0.0
	if length := dx*dx + dy*dy; length > 0 {
		at = min(max(((c[0]-r.from[0])*dx+(c[1]-r.from[1])*dy)/length, 0), 1)
	}
	return math.Hypot(r.from[0]+at*dx-c[0], r.from[1]+at*dy-c[1])
}

// cast is a ray up to an obstacle.
func cast(from [2]float64, angle, reach float64, obstacles []world.Obstacle) ray {
	sin, cos := math.Sincos(angle)
	for _, o := range obstacles {
		x, y := from[0]-o.C[0], from[1]-o.C[1]
		b, c := x*cos+y*sin, x*x+y*y-o.R*o.R
		if root := b*b - c; root > 0 && b < 0 {
			reach = min(reach, -b-math.Sqrt(root))
		}
	}
	return ray{from, [2]float64{from[0] + reach*cos, from[1] + reach*sin}}
}

// Robots that know what their rays have seen touch nothing and arrive, and what they are committed to keeps clear of every obstacle that
// could stand where no ray has been, by rays of this test's own.
func TestRobotsKeepClearOfTheUnseen(t *testing.T) {
	sensing := world.Sensing{Rays: 32, Range: 5, LeastRadius: 0.4}
	for _, double := range []bool{false, true} {
		t.Run(fmt.Sprint("double integrators ", double), func(t *testing.T) {
			t.Parallel()
			params := world.Default(false)
			if double {
				params.Dynamics, params.Limits.VMin = world.DoubleIntegrator, -params.Limits.VMax
			}
			params.Sensing, params.Steps = sensing, 300
			y := require.Get(world.NewSystem("test", params.ForRobots(16), false))(t)
			scene := require.Get(y.Draw(world.Validation, 43, 0))(t)
			o := Default(false)
			o.Candidates, o.Exchange = 512, &Exchange{Delay: 1}
			p := require.Get(New(y, o, domain.Means{}))(t)
			rng, seen, decision := rand.New(rand.NewPCG(8, 9)), make([][]ray, len(scene.Robots)), 0
			e := start(y, scene)
			_, low := drive(t, e, p, params.Steps, func([]float64, domain.Decision) {
				for i := range seen {
					if decision >= 120 {
						break
					}
					s := p.joint.Scene.State[i]
					for k := range sensing.Rays {
						seen[i] = append(seen[i], cast([2]float64{s[0], s[1]}, 2*math.Pi*float64(k)/float64(sensing.Rays), sensing.Range, scene.Obstacles))
					}
				}
				if decision++; decision%8 != 0 || decision > 120 {
					return
				}
				for i := range seen {
					path := &p.joint.Robots[i].Path
					for range 20 {
						place := path[rng.IntN(len(path))]
						reach, angle := (scene.Robots[i].R+y.Params.DSafe+sensing.LeastRadius)*math.Sqrt(rng.Float64()), 2*math.Pi*rng.Float64()
						centre := [2]float64{float64(place[0]) + reach*math.Cos(angle), float64(place[1]) + reach*math.Sin(angle)}
						excluded := false
						for k := range seen[i] {
							if seen[i][k].distance(centre) < sensing.LeastRadius {
								excluded = true
								break
							}
						}
						if !excluded {
							t.Fatalf("decision %d: robot %d is committed to come %v m near to %v, where no ray has been", decision, i, reach, centre)
						}
					}
				}
			})
			if low < 0 || !e.Succeeded() {
				t.Errorf("smallest margin %v m: %s", low, e.Cause())
			}
			if len(p.scene.Obstacles) != 0 {
				t.Error("the planner knows the obstacles")
			}
		})
	}
}
