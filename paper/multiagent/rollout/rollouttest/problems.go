package rollouttest

import (
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
)

// Names of the problems whose deviations are documented: a joint prediction of the
// largest size, and one robot's plans as the planner scores them.
const (
	fullJoint      = "6 robots, 15 discs, 8 steps"
	straightSingle = "1 robot, 15 discs, 40 steps"
)

// Problem is a prediction problem to be tried on every evaluator.
type Problem struct {
	Problem *rollout.Joint
	Name    string
	Bounds  []rollout.Bounds[float32]
	Spread  float64 // of the actions drawn
}

var bounds = rollout.Bounds[float32]{Previous: [2]float32{0.3, -0.4}, Lo: [2]float32{-2, -2}, Hi: [2]float32{2, 2}, Slew: [2]float32{1, 1}}

// Joint draws a joint problem of robots among discs, dense enough that every kind
// of margin is small somewhere. With hard margins of 0.02 m.
func Joint(rng *rand.Rand, name string, robots, count, steps int) Problem {
	j := &rollout.Joint{Steps: steps, Count: count, Penalty: rollout.Penalty[float32]{
		Exp: rollout.Repeat[float32](0.04), Square: rollout.Repeat[float32](80), Knee: rollout.Repeat[float32](rollout.NoKnee), Hard: rollout.Repeat[float32](0.02),
	}}
	o := Problem{Name: name, Problem: j, Spread: 1}
	for i := range robots {
		r := rollout.Robot{X: 5 * rng.NormFloat64(), Y: 5 * rng.NormFloat64(), Theta: 6*rng.Float64() - 3, V: 1.7*rng.Float64() - 0.5, Goal: [2]float64{4 * rng.NormFloat64(), 4}, Previous: [2]float64{0.1, -0.2}}
		j.Robots = append(j.Robots, r.Motion(0.2, -0.5, 1.2, 0.01, 0.02))
		goal := make([]float32, steps)
		for k := range goal {
			goal[k] = rng.Float32()
		}
		j.Goal = append(j.Goal, goal)
		j.Discs = append(j.Discs, scatter(rng, count, steps))
		pairs := make([]float32, i)
		for k := range pairs {
			pairs[k] = 0.6 + 0.3*rng.Float32()
		}
		j.Pair = append(j.Pair, pairs)
		o.Bounds = append(o.Bounds, bounds)
	}
	return o
}

func scatter(rng *rand.Rand, count, steps int) []float32 {
	discs := make([]float32, steps*count*rollout.DiscFields)
	for i := range discs {
		discs[i] = float32(5 * rng.NormFloat64())
		if i%rollout.DiscFields == 2 {
			discs[i] = 0.6 + 0.9*rng.Float32()
		}
	}
	return discs
}

// Single draws a problem of one robot among discs. With hard margins of 0.02 m.
func Single(rng *rand.Rand, name string, count, steps int, ending *rollout.Ending) Problem {
	r := rollout.Robot{X: rng.NormFloat64(), Y: rng.NormFloat64(), Theta: 6*rng.Float64() - 3, V: 0.6, Goal: [2]float64{3, -2}}
	s := &rollout.Joint{
		Steps: steps, Robots: []rollout.Motion[float32]{r.Motion(0.2, -0.5, 1.2, 0.03, 0.02)}, Count: count, Goal: [][]float32{make([]float32, steps)},
		Discs: [][]float32{scatter(rng, count, steps)}, Pair: [][]float32{nil}, Ending: ending,
		Penalty: rollout.Penalty[float32]{Square: rollout.Repeat[float32](60), Buffer: rollout.Repeat[float32](0.42), Knee: rollout.Repeat[float32](0.07), Hard: rollout.Repeat[float32](0.02)},
	}
	for k := range s.Goal[0] {
		s.Goal[0][k] = 0.7
	}
	return Problem{Name: name, Problem: s, Bounds: []rollout.Bounds[float32]{bounds}, Spread: 0.7}
}

// grid is a cost-to-go around a wall with a gap, blocked points included.
func grid() *rollout.Grid {
	g := &rollout.Grid{X0: -8, Y0: -8, Cell: 0.2, NX: 81, NY: 81, Rate: make([]float32, 81*81), Value: make([]float32, 81*81)}
	for i := range g.Value {
		x, y := g.X0+float64(i%g.NX)*g.Cell, g.Y0+float64(i/g.NX)*g.Cell
		d := math.Hypot(x-3, y+2)
		g.Rate[i], g.Value[i] = float32(0.2+0.3*d*d), float32(0.2*d+0.1*d*d*d+math.Sin(2*x)*math.Cos(y))
		if math.Hypot(x-1, y+1) < 0.7 {
			g.Rate[i], g.Value[i] = float32(math.Inf(1)), float32(math.Inf(1))
		}
	}
	return g
}

// Problems are those of every shape that the engine meets, and the degenerate ones.
func Problems() []Problem {
	rng := rand.New(rand.NewPCG(21, 22))
	straight := &rollout.Ending{Goal: [2]float64{3, -2}, Stage: 0.7, Stride: 0.24, Detour: 20, Scale: 1}
	guided := &rollout.Ending{Goal: [2]float64{3, -2}, Stage: 0.7, Stride: 0.24, Detour: 20, Scale: 0.9, Grid: grid()}
	all := []Problem{
		Joint(rng, fullJoint, 6, 15, 8),
		Joint(rng, "6 robots, no discs", 6, 0, 8),
		Joint(rng, "1 robot, no discs", 1, 0, 8),
		Joint(rng, "3 robots, 1 step", 3, 4, 1),
		Single(rng, "40 steps, 20 discs", 20, 40, nil),
		Single(rng, straightSingle, 15, 40, straight),
		Single(rng, "40 steps, ending on a grid", 15, 40, guided),
		Single(rng, "40 steps, no discs", 0, 40, straight),
	}
	// Robots on each other, and on a disc's centre: the distance is zero throughout.
	coincident := Joint(rng, "coincident bodies", 3, 2, 8)
	coincident.Spread = 0
	j := coincident.Problem
	for i := range j.Robots {
		j.Robots[i], j.Goal[i], j.Discs[i] = j.Robots[0], j.Goal[0], j.Discs[0]
		j.Robots[i].V = rollout.Vector[float32]{}
		for k := 0; k < len(j.Discs[i]); k += 2 * rollout.DiscFields {
			j.Discs[i][k], j.Discs[i][k+1] = j.Robots[i].X[0], j.Robots[i].Y[0]
		}
	}
	return append(all, coincident)
}

// Draw fills candidates with normal numbers.
func (o *Problem) Draw(rng *rand.Rand, candidates int) []float32 {
	plans := make([]float32, rollout.Blocks(candidates)*len(o.Problem.Robots)*rollout.PlanSize(o.Problem.Steps))
	for i := range plans {
		plans[i] = float32(o.Spread * rng.NormFloat64())
	}
	return plans
}
