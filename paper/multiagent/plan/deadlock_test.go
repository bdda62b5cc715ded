package plan

import (
	"fmt"
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// narrow are the params of a scene with room for a wall.
func narrow(double bool) world.Params {
	p := world.Default(false)
	p.Robots, p.Obstacles, p.Steps = 16, 90, 400
	if double {
		p.Dynamics, p.Limits.VMin = world.DoubleIntegrator, -p.Limits.VMax
	}
	return p
}

// wall are discs from (x, y) on up to the workspace's edge and mirrored at the first axis.
func wall(x, y float64) (all []world.Obstacle) {
	for ; y <= 9.5; y += 0.7 { // nobody fits between two
		for _, side := range []float64{-1, 1} {
			all = append(all, world.Obstacle{C: [2]float64{x, side * y}, R: 0.5})
		}
	}
	return all
}

// corridor is a passage for one robot along the first axis, from −5 to 5 m: there is no other way.
func corridor() []world.Obstacle {
	all := append(wall(-5, half), wall(5, half)...)
	for x := -4.3; x < 4.9; x += 0.7 {
		all = append(all, world.Obstacle{C: [2]float64{x, half}, R: 0.5}, world.Obstacle{C: [2]float64{x, -half}, R: 0.5})
	}
	return all
}

// half is from the middle of a passage to the centres at its sides, m.
const half = 1.25

// Robots that meet where one fits through, and robots that swap places all at once, come home and touch nothing: of those
// that make no progress one goes on and the others make way.
func TestDeadlocksAreLeft(t *testing.T) {
	opposed := func(y float64, xs ...float64) (all []world.Robot) {
		for k, x := range xs { // goals are beyond the passage, in the order in which robots come, with room for all of them
			goal := [2]float64{math.Copysign(min(6+0.7*math.Abs(x), 9.5), -x), y + 0.8*float64(k%2)}
			all = append(all, world.Robot{P: [2]float64{x, y}, Goal: goal, R: 0.3, Theta: math.Atan2(0, -x)})
		}
		return all
	}
	var circle []world.Robot
	for k := range 8 {
		sin, cos := math.Sincos(math.Pi / 4 * float64(k))
		circle = append(circle, world.Robot{P: [2]float64{6 * cos, 6 * sin}, Goal: [2]float64{-6 * cos, -6 * sin}, R: 0.3, Theta: math.Atan2(-sin, -cos)})
	}
	for name, scene := range map[string]world.Scene{
		"two in a corridor":    {Robots: opposed(0, -1, 1), Obstacles: corridor()},
		"four in a corridor":   {Robots: opposed(0, -3, -4, 3, 4), Obstacles: corridor()},
		"three in a corridor":  {Robots: opposed(0, -3, -4, 2), Obstacles: corridor()},
		"six in a corridor":    {Robots: opposed(0, -0.6, -1.5, -2.4, 0.6, 1.5, 2.4), Obstacles: corridor()},
		"five meet one":        {Robots: opposed(0, -1, -2, -3, -4, -5, 1), Obstacles: corridor()},
		"two before a passage": {Robots: opposed(0, -9, 9), Obstacles: corridor()},
		"four at a doorway":    {Robots: append(opposed(0, -3, 3), opposed(2, -3, 3)...), Obstacles: wall(0, half)},
		"eight swap":           {Robots: circle, Obstacles: []world.Obstacle{}},
	} {
		for _, double := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, double integrators %v", name, double), func(t *testing.T) {
				t.Parallel()
				if testing.Short() && name != "two in a corridor" {
					t.Skip("one scene is enough")
				}
				params := narrow(double)
				params.Steps = 900 // turns are long, and how many it takes hangs on rounding
				y, err := world.NewSystem("test", params, false)
				if err != nil {
					t.Fatal(err)
				}
				if err := scene.Validate(&y.Params); err != nil {
					t.Fatal(err)
				}
				o := Blind(false, 768, true)
				o.Exchange = &Exchange{Delay: 1}
				p, err := New(y, o, domain.Means{})
				if err != nil {
					t.Fatal(err)
				}
				e, yielded := start(y, scene), 0
				_, low := drive(t, e, p, y.Params.Steps, func([]float64, domain.Decision) {
					for i := range p.waits {
						if p.waits[i].yielding > 0 {
							yielded++
						}
					}
				})
				if low < 0 || !e.Succeeded() {
					t.Errorf("smallest margin %v m: %s", low, e.Cause())
				}
				t.Logf("robots made way in %d decisions, smallest margin %.3f m", yielded, low)
			})
		}
	}
}
