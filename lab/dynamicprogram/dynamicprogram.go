// Package dynamicprogram is the method dp of Case 1: dynamic programming on a grid, a sanity row beside the exact
// solvers. The central function is Add, which gives it to the case.
package dynamicprogram

import (
	"math"
	"runtime"
	"slices"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/paper/integrator"
)

// Entries of the context.
const (
	contextPrevious = 0 // u₋₁, two entries
	contextP        = 2
	contextRate     = 3
	contextSize     = 5
)

// Cases are those of the paper, as the laboratory has them.
func Cases() gpc.Catalogue {
	k := paper.Cases()
	for i := range k.Cases {
		Add(&k.Cases[i])
	}
	return k
}

// Add adds the method to a case of the double integrator, after the oracle; another case stays as it is.
func Add(c *domain.Case) {
	if y, ok := c.Problem.(*integrator.System); ok {
		c.Methods = slices.Insert(slices.Clone(c.Methods), min(1, len(c.Methods)), domain.Method{Name: "dp", About: "grid dynamic programming, a sanity row", Group: domain.GroupBaseline,
			New: func(domain.Means) (domain.Controller, error) { return newDynamicProgram(y), nil }})
	}
}

// The grid of the dynamic program: position, velocity and previous action. The
// ranges hold every optimal trajectory of the test box with some room. It has
// 22·12·9·7·49 ≈ 0.8 M states per step; finer grids approach the optimum
// slowly, so this is a sanity row and not the yardstick.
var gridAxes = [4]struct {
	low, high float64
	n         int
}{
	{-4.2, 3.8, 22},  // q₁, m
	{-1.3, 1.7, 12},  // q₂, m
	{-0.5, 3.5, 9},   // v₁, m/s
	{-1.75, 1.75, 7}, // v₂, m/s
}

const (
	actionsPerRadius = 4 // action nodes between 0 and u_max
	// blocked is the cost of a step into the ellipse. It is of the size of a
	// stage cost: decisions check the ellipse exactly, and a larger cost would be
	// smeared by the interpolation over the free cells around it (100 instead of
	// 20 doubles the regret).
	blocked = 20
)

// dynamicProgram solves the Bellman recursion on the grid for the scene's own
// p, at the first decision of an episode, and then picks the best of the action
// nodes within the slew bound, looking one step ahead with the interpolated
// value.
//
//	Q_t(q, v, u) = σ(q, p_t)ᵀJ + V_{t+1}(q′, v′, u),   V_t(q, v, w) = min_{‖u − w‖ ≤ r_max} Q_t(q, v, u)
//
// Q does not depend on the previous action w, which makes the recursion 49
// interpolations a grid point.
type dynamicProgram struct {
	system  *integrator.System
	actions [][2]float64
	reach   [][]int // action nodes within the slew bound of each
	nodes   int     // grid points in position and velocity
	value   [integrator.Horizon + 1][]float32
	solved  bool
}

func newDynamicProgram(y *integrator.System) *dynamicProgram {
	d := &dynamicProgram{system: y, nodes: 1}
	for _, axis := range gridAxes {
		d.nodes *= axis.n
	}
	spacing := y.Params.UMax / actionsPerRadius
	for i := -actionsPerRadius; i <= actionsPerRadius; i++ {
		for j := -actionsPerRadius; j <= actionsPerRadius; j++ {
			if i*i+j*j <= actionsPerRadius*actionsPerRadius {
				d.actions = append(d.actions, [2]float64{float64(i) * spacing, float64(j) * spacing})
			}
		}
	}
	d.reach = make([][]int, len(d.actions))
	for i, a := range d.actions {
		for j, b := range d.actions {
			if squared(a, b[:]) <= y.Params.RMax*y.Params.RMax {
				d.reach[i] = append(d.reach[i], j)
			}
		}
	}
	return d
}

func (d *dynamicProgram) Reset(domain.Episode) error {
	d.solved = false
	return nil
}

func (d *dynamicProgram) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	t := d.step(c)
	if !d.solved {
		d.recurse(c, pref)
		d.solved = true
	}
	var sigma [2]float64
	d.priority(s, c, pref, sigma[:])
	best, feasible := math.Inf(1), false
	u[0], u[1] = c[contextPrevious], c[contextPrevious+1]
	hold := [2]float64{u[0], u[1]}
	for a, action := range d.actions {
		if squared(action, hold[:]) > d.system.Params.RMax*d.system.Params.RMax {
			continue
		}
		cost, free := d.ahead(s, action, c[contextP], c[contextRate], sigma, d.value[t+1], a)
		if free && cost < best {
			best, feasible = cost, true
			u[0], u[1] = action[0], action[1]
		}
	}
	if !feasible {
		d.system.Project(s, c, u)
	}
	return domain.Decided(feasible), nil
}

// step is the number of decisions made.
func (d *dynamicProgram) step(c []float64) int {
	return integrator.Horizon - d.system.Remaining(c)
}

// priority writes σ at a state, or the fixed preference.
func (d *dynamicProgram) priority(s, c []float64, pref domain.Preference, sigma []float64) {
	if !pref.Adaptive {
		copy(sigma, pref.W)
		return
	}
	var delta [2]float64
	d.system.Indicators(s, nil, c, delta[:])
	d.system.Spec().Semantic.Priority(delta[:], sigma)
}

// ahead is the cost of one action and of what follows by the next step's value
// table, and whether the step stays out of the ellipse.
func (d *dynamicProgram) ahead(s []float64, u [2]float64, p, rate float64, sigma [2]float64, next []float32, action int) (cost float64, free bool) {
	var J [2]float64
	var state [4]float64
	var margins [3]float64
	var contextNext [contextSize]float64
	c := [contextSize]float64{contextP: p, contextRate: rate}
	d.system.Step(s, c[:], u[:], state[:], contextNext[:])
	d.system.Objectives(s, u[:], c[:], J[:])
	d.system.Margins(s, c[:], u[:], margins[:])
	cost = sigma[0]*J[0] + sigma[1]*J[1]
	if margins[0] < 0 {
		return cost + blocked + d.interpolate(next, &state, action), false
	}
	return cost + d.interpolate(next, &state, action), true
}

// interpolate is multilinear in position and velocity; beyond the grid the
// value of its edge holds.
func (d *dynamicProgram) interpolate(v []float32, state *[4]float64, action int) float64 {
	var base int
	var step [4]int
	var part [4]float64
	stride := d.nodes
	for i := range gridAxes {
		axis := &gridAxes[i]
		stride /= axis.n
		x := (state[i] - axis.low) / (axis.high - axis.low) * float64(axis.n-1)
		x = min(max(x, 0), float64(axis.n-1))
		cell := min(int(x), axis.n-2)
		part[i] = x - float64(cell)
		base += cell * stride
		step[i] = stride
	}
	row := v[action*d.nodes:][:d.nodes]
	sum := 0.0
	for corner := range 16 {
		index, weight := base, 1.0
		for i := range 4 {
			if corner>>i&1 == 1 {
				index += step[i]
				weight *= part[i]
			} else {
				weight *= 1 - part[i]
			}
		}
		sum += weight * float64(row[index])
	}
	return sum
}

// recurse fills the value tables from the last step back, for the p of the
// observed context.
func (d *dynamicProgram) recurse(c []float64, pref domain.Preference) {
	size := d.nodes * len(d.actions)
	for t := range d.value {
		if d.value[t] == nil {
			d.value[t] = make([]float32, size)
		}
	}
	clear(d.value[integrator.Horizon])
	now := d.step(c)
	inner := d.nodes / gridAxes[0].n
	for t := integrator.Horizon - 1; t > now; t-- {
		p := c[contextP] + c[contextRate]*float64(t-now)*d.system.Params.Dt
		parallel.Each(runtime.GOMAXPROCS(0), gridAxes[0].n, func(_, slab int) {
			q := make([]float32, len(d.actions))
			for node := slab * inner; node < (slab+1)*inner; node++ {
				d.node(t, node, p, c[contextRate], pref, q)
			}
		})
	}
}

// node fills the values of one grid point for every previous action.
func (d *dynamicProgram) node(t, node int, p, rate float64, pref domain.Preference, q []float32) {
	var s [4]float64
	rest := node
	for i := len(gridAxes) - 1; i >= 0; i-- {
		axis := &gridAxes[i]
		s[i] = axis.low + (axis.high-axis.low)*float64(rest%axis.n)/float64(axis.n-1)
		rest /= axis.n
	}
	var sigma [2]float64
	context := [contextSize]float64{contextP: p}
	d.priority(s[:], context[:], pref, sigma[:])
	for a, action := range d.actions {
		cost, _ := d.ahead(s[:], action, p, rate, sigma, d.value[t+1], a)
		q[a] = float32(cost)
	}
	for w, reach := range d.reach {
		best := float32(math.Inf(1))
		for _, a := range reach {
			best = min(best, q[a])
		}
		d.value[t][w*d.nodes+node] = best
	}
}

// squared is ‖a − b‖².
func squared(a [2]float64, b []float64) float64 {
	dx, dy := a[0]-b[0], a[1]-b[1]
	return dx*dx + dy*dy
}
