package world

import "github.com/gpc-engine/gpc/domain"

// Picture is domain.ProblemAbilities.Picture: the workspace, the obstacles, and every robot with its goal.
func (y *System) Picture(s, c []float64) []domain.Shape {
	h, w := y.Decode(s, c), y.Params.Workspace
	shapes := []domain.Shape{domain.Line(domain.Ground, [2]float64{w[0], w[2]}, [2]float64{w[1], w[2]}, [2]float64{w[1], w[3]}, [2]float64{w[0], w[3]}, [2]float64{w[0], w[2]})}
	for _, o := range h.Obstacles {
		shapes = append(shapes, domain.Disc(domain.Obstacle, o.C[0], o.C[1], o.R))
	}
	for i := range h.Robots {
		goal := domain.Disc(domain.Goal, h.Goal[i][0], h.Goal[i][1], y.Params.GoalRadius)
		robot := domain.Disc(domain.Body, h.State[i][0], h.State[i][1], h.Radius[i])
		if h.Absent[i] {
			robot.Radius = 1e-3 // a dot where it enters or has left
		}
		goal.Of, robot.Of = i, i
		robot.Heading, _ = y.Params.Velocity(&h.State[i])
		shapes = append(shapes, goal, robot)
	}
	return shapes
}
