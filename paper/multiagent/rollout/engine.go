package rollout

import (
	"fmt"

	"github.com/gpc-engine/gpc/internal/simd/isa"
)

// kernels are the operations of one instruction set on one block. Slices hold at
// least what the steps need; grad may be nil where derivatives are not wanted.
type kernels struct {
	limit func(plan []float32, steps int, b *Bounds[float32])
	track func(plan, path, goal []float32, steps int, m *Motion[float32], cost *Vector[float32])
	discs func(path, discs []float32, count, steps int, p *Penalty[float32], cost, low, safeSteps *Vector[float32], grad []float32)
	pair  func(path, other []float32, radii float32, steps int, p *Penalty[float32], cost, low, safeSteps *Vector[float32], grad, otherGrad []float32)
	back  func(plan, path, grad, goal []float32, steps int, m *Motion[float32], out []float32)
}

// Engine computes on one instruction set. It holds no state and is safe for
// concurrent use. Shapes are checked: a slice that is too short for its steps is
// a bug of the caller and panics.
type Engine struct {
	level isa.Level
	k     kernels
}

// New returns the engine of the best instruction set, or of the one that the
// environment variable GPC_CPU names.
func New() (*Engine, error) {
	level, err := isa.Choose()
	if err != nil {
		return nil, err
	}
	return &Engine{level, kernelsOf(level)}, nil
}

// On returns the engine of one instruction set that isa.Available lists.
func On(level isa.Level) *Engine { return &Engine{level, kernelsOf(level)} }

// Level is the instruction set.
func (e *Engine) Level() isa.Level { return e.level }

var generic = kernels{limitTwin[float32], trackTwin[float32], discsTwin[float32], pairTwin[float32], backTwin[float32]}

func require(name string, size, want int) {
	if size < want {
		panic(fmt.Sprintf("rollout: %s holds %d numbers, want %d", name, size, want))
	}
}

// Limit moves every action of a block's plans, in order, to the nearest within
// box and slew bound around the one before it. An action that is not a number stays
// so, and what comes after it in its plan is unspecified.
func (e *Engine) Limit(plan []float32, steps int, b *Bounds[float32]) {
	require("plan", len(plan), PlanSize(steps))
	e.k.limit(plan, steps, b)
}

// Track rolls one robot's plans out into path and adds to cost
//
//	Σ_k goal[k]·‖p_{k+1} − goal‖² + Effort·‖u_k‖² + Smooth·‖u_k − u_{k−1}‖².
func (e *Engine) Track(plan, path, goal []float32, steps int, m *Motion[float32], cost *Vector[float32]) {
	require("plan", len(plan), PlanSize(steps))
	require("path", len(path), PathSize(steps))
	require("goal", len(goal), steps)
	e.k.track(plan, path, goal, steps, m, cost)
}

// Discs scores one robot's paths against count discs per step (obstacles, and
// other robots on fixed plans). It adds to cost, lowers low to the smallest
// margin and safeSteps to the number of leading steps whose margins are all at least
// p.Hard, and where grad is not nil adds the derivatives of the score in the
// positions to it, [step][x, y][lane].
func (e *Engine) Discs(path, discs []float32, count, steps int, p *Penalty[float32], cost, low, safeSteps *Vector[float32], grad []float32) {
	require("path", len(path), PathSize(steps))
	require("discs", len(discs), count*steps*DiscFields)
	if grad != nil {
		require("grad", len(grad), 2*steps*Lanes)
	}
	e.k.discs(path, discs, count, steps, p, cost, low, safeSteps, grad)
}

// Pair is Discs for two robots' paths whose radii and safety distance sum to
// radii. The gradients are both given or both nil.
func (e *Engine) Pair(path, other []float32, radii float32, steps int, p *Penalty[float32], cost, low, safeSteps *Vector[float32], grad, otherGrad []float32) {
	require("path", len(path), PathSize(steps))
	require("other path", len(other), PathSize(steps))
	if grad != nil {
		require("grad", len(grad), 2*steps*Lanes)
		require("other grad", len(otherGrad), 2*steps*Lanes)
	}
	e.k.pair(path, other, radii, steps, p, cost, low, safeSteps, grad, otherGrad)
}

// Back is the reverse mode of Track: from the derivatives in the positions (what
// Discs and Pair left in grad) to those of the whole cost in the plans, written
// to out [step][a, ω][lane].
func (e *Engine) Back(plan, path, grad, goal []float32, steps int, m *Motion[float32], out []float32) {
	require("plan", len(plan), PlanSize(steps))
	require("path", len(path), PathSize(steps))
	require("grad", len(grad), 2*steps*Lanes)
	require("goal", len(goal), steps)
	require("out", len(out), PlanSize(steps))
	e.k.back(plan, path, grad, goal, steps, m, out)
}
