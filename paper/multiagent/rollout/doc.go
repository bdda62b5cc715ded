// Package rollout predicts, scores and differentiates candidate plans of
// unicycles, sixteen at a time: the hot path of Case 2.
//
// The central type is Engine, a set of kernels for this CPU. A block is sixteen
// candidates, one per lane, in structure-of-arrays order, so that every
// operation acts on sixteen candidates at once and none of them branches:
//
//	plan  [step][a, ω][lane]
//	path  [step][x, y, cos θ̄, sin θ̄, v̄, free][lane]   after the step
//	discs [step][disc][x, y, sum of radii and safety distance], the same for all lanes
//
// The dynamics are eq. multiagent-unicycle. The heading is kept as a unit vector
// and turned twice by half a step's angle: with |ω|Δt/2 ≤ 0.25 a short series is
// exact to float32 (its error is below 2e-8).
//
// Every kernel has a twin in Go, generic over the float type: in float32 it runs
// where there is no assembly, in float64 it is the reference of the tests.
package rollout

// Lanes is the number of candidates in a block.
const Lanes = 16

// Fields of one step of a path.
const (
	X = iota // position after the step, m
	Y
	Cos // of the mean heading θ̄ of the step
	Sin
	Speed // mean speed v̄ of the step, m/s
	Free  // 1 where the speed is inside its limits, so that the acceleration acts
	PathFields
)

// PlanFields are a and ω.
const PlanFields = 2

// DiscFields are x, y and the sum of radii and safety distance.
const DiscFields = 3

// PlanSize and PathSize are the lengths of a block's plan and path.
func PlanSize(steps int) int { return steps * PlanFields * Lanes }
func PathSize(steps int) int { return steps * PathFields * Lanes }
