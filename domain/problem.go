package domain

// Problem is one controlled system. Methods must be safe for concurrent use
// and must not keep or modify their inputs; outputs are written into the last
// arguments, which the caller sizes by Spec. All values are finite when the
// inputs are.
type Problem interface {
	Spec() *Spec

	// Base writes the plan that D_u's output is relative to: the decoded plan is
	// Base + D_u(z). Zeros for an absolute decoder.
	Base(s, c, plan []float64)

	// Objectives writes J(s, u; c) of a single action u taken in state s.
	Objectives(s, u, c, J []float64)

	// Gradient writes ∂(σᵀJ)/∂s and ∂(σᵀJ)/∂u of the same expression.
	Gradient(s, u, c, sigma, gs, gu []float64)

	// Indicators writes δ_i ≥ 0, one per objective: 0 nominal, 1 at the boundary;
	// a smooth indicator may pass 1 beyond it.
	Indicators(s, u, c, delta []float64)

	// Step is the known dynamics F: state and context after u, as far as they can
	// be predicted. Entries of a state that was not measured are NaN.
	Step(s, c, u, sNext, cNext []float64)

	// Margins writes every hard margin of taking u in state s, ≥ 0 when kept. A limit of
	// the state belongs to the state that u leads to: then the last action answers for
	// where the episode ends.
	Margins(s, c, u, m []float64)

	// Project moves u, in place, onto the hard constraints by a bounded number of
	// operations, and reports whether the result keeps all of them. What takes more, once, is made by
	// ProblemAbilities.Prepare.
	Project(s, c, u []float64) (feasible bool)

	// Fallback writes the conservative action for an observation that cannot be
	// trusted. What was not measured is predicted by Step from the last decision;
	// before there is one entries of s may be NaN.
	Fallback(s, c, u []float64)
}
