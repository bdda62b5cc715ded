package world

import "math"

// Bounds of Project: rounds over the robots, and the grid of actions within the
// slew bound that a robot in conflict chooses from.
const (
	projectionRounds = 2
	projectionGrid   = 7
)

// Project moves a joint action into limits and slew bounds, then lets each robot
// whose next position violates a margin choose, from a grid of actions within
// its bounds, the nearest that keeps its margins against the others' present
// choice (or the one with the largest margin). It reports whether all margins
// are kept after at most two rounds. It looks one step ahead: a robot that
// cannot stop in time is beyond it.
func (y *System) Project(s, c, u []float64) bool {
	h := y.Decode(s, c)
	clear(u[ActionSize*h.Robots:])
	l := &y.Params.Limits
	for i := range h.Robots {
		for k := range ActionSize {
			if math.IsNaN(u[2*i+k]) {
				u[2*i+k] = 0
			}
		}
		l.Nearest(u[2*i:2*i+2], h.Previous[i][:])
	}
	next := h.simulate(u, 1)
	at := &next.states[1]
	margin := func(i int) float64 {
		low := NoMargin
		p := &at[i]
		for j := range next.obstacle[1] {
			o := &next.obstacle[1][j]
			low = math.Min(low, math.Hypot(p[0]-o.C[0], p[1]-o.C[1])-h.Radius[i]-o.R-y.Params.DSafe)
		}
		for j := range h.Robots {
			if j != i {
				low = math.Min(low, math.Hypot(p[0]-at[j][0], p[1]-at[j][1])-h.Radius[i]-h.Radius[j]-y.Params.DSafe)
			}
		}
		return low
	}
	for range projectionRounds {
		kept := true
		for i := range h.Robots {
			if margin(i) >= 0 {
				continue
			}
			kept = false
			want := [2]float64{u[2*i], u[2*i+1]}
			best, state := want, at[i]
			bestMargin, bestDistance := margin(i), math.Inf(1)
			for g := range projectionGrid * projectionGrid {
				try := [2]float64{
					h.Previous[i][0] + l.DuMax[0]*(2*float64(g%projectionGrid)/(projectionGrid-1)-1),
					h.Previous[i][1] + l.DuMax[1]*(2*float64(g/projectionGrid)/(projectionGrid-1)-1),
				}
				l.Nearest(try[:], h.Previous[i][:])
				at[i] = y.Params.Step(&h.State[i], try[0], try[1])
				m := margin(i)
				d := math.Hypot(try[0]-want[0], try[1]-want[1])
				better := m > bestMargin
				if m >= 0 && bestMargin >= 0 {
					better = d < bestDistance
				}
				if better {
					best, state, bestMargin, bestDistance = try, at[i], m, d
				}
			}
			at[i] = state
			u[2*i], u[2*i+1] = best[0], best[1]
		}
		if kept {
			break
		}
	}
	for i := range h.Robots {
		if !(margin(i) >= 0) {
			return false
		}
	}
	return true
}
