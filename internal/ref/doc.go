// Package ref is the slow, obvious float64 implementation of every operation of
// package backend that decides; internal/testing/training has those that train. It is the specification: whoever writes a backend reads here
// what an operation means, and package backendtest holds the backend to it at
// the tolerances of docs/contribute/numerics.md.
//
// The central type is Backend, which fulfils backend.Backend with float32 at
// the boundary and float64 inside, one row after another. The float64 functions
// it is made of are exported, one file per operation:
//
//	mlp.go            forward, vector-Jacobian product, Jacobian, pullback metric
//	eig.go            top-k symmetric eigenpairs with a fixed sign
//	lie.go            Rodrigues rotation, Lie residual, the group ⊕
//	field.go          energy V and field F = −∇V
//	step.go           RK2 with cap and NaN fallbacks, the whole step, decode
//	localize.go       nearest measurement-consistent code, affine projection
//	score.go          roll-out of a decoded plan under the known dynamics
//	rollouts.go       roll-outs of the policy with offsets, for the search along them
//
// The maths is the paper's ("Geometric Pareto Control"); each function names
// the equation it computes by its label. Derivatives are checked against
// central differences and, independently, against gorgonia.org/gorgonia.
//
// # Non-finite values
//
// NaN is propagated, never dropped: relu(NaN) is NaN, its slope is NaN, a
// clipped NaN is NaN. Only the guards of the step replace it (see Step), and
// they report that they did.
package ref
