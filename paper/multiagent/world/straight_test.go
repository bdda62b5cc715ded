package world

import (
	"math"
	"testing"
)

// Before anyone avoids anyone, scenes leave little room: robots that drive straight to their goals at
// full speed come nearer to one another, and the ego to obstacles, than the paper's robots do in the
// mean of whole episodes. So the paper's scenes have more room (docs/results/paper.md).
func TestStraightWaysMeet(t *testing.T) {
	const scenes, seed, paperPair, paperEgo = 100, 991, 2.477, 0.900
	y := system(t, false)
	meeting, blocked, pairs, egos := 0, 0, 0.0, 0.0
	for k := range uint64(scenes) {
		s, err := y.Draw(Test, seed, k)
		if err != nil {
			t.Fatal(err)
		}
		pair, ego := math.Inf(1), math.Inf(1)
		for step := range y.Params.Steps {
			at := make([]Robot, len(s.Robots))
			for i, r := range s.Robots {
				dx, dy := r.Goal[0]-r.P[0], r.Goal[1]-r.P[1]
				share := min(1, y.Params.Limits.VMax*y.Params.Dt*float64(step)/math.Hypot(dx, dy))
				r.P = [2]float64{r.P[0] + share*dx, r.P[1] + share*dy}
				at[i] = r
				for _, o := range at[:i] {
					pair = min(pair, math.Hypot(r.P[0]-o.P[0], r.P[1]-o.P[1])-r.R-o.R-y.Params.DSafe)
				}
			}
			for j := range s.Obstacles {
				ego = min(ego, obstacleMargin(&at[0], &s.Obstacles[j], y.Params.DSafe))
			}
		}
		pairs, egos = pairs+pair/scenes, egos+ego/scenes
		if pair < paperPair {
			meeting++
		}
		if ego < paperEgo {
			blocked++
		}
	}
	t.Logf("%d scenes: robots pass within %.3f m in %d, in the mean %.2f m; the ego passes obstacles within %.3f m in %d, in the mean %.2f m", scenes, paperPair, meeting, pairs, paperEgo, blocked, egos)
	if meeting < 90 || blocked < 90 || pairs > 0.8 || egos > 0 {
		t.Error("straight ways have more room than docs/results/paper.md says")
	}
}
