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
	// operations, and reports whether the result keeps all of them.
	Project(s, c, u []float64) (feasible bool)

	// Fallback writes the conservative action for an observation that cannot be
	// trusted. What was not measured is predicted by Step from the last decision;
	// before there is one entries of s may be NaN.
	Fallback(s, c, u []float64)
}

// Fingerprinted is implemented by a problem that is made of more than its Spec says:
// parameters of its functions, a network's file. Fingerprint is a SHA-256 of all that.
// Datasets and models hold it, and are refused by a problem with another.
type Fingerprinted interface{ Fingerprint() [32]byte }

// FingerprintOf is the problem's own fingerprint, or that of its Spec.
func FingerprintOf(p Problem) [32]byte {
	if own, ok := p.(Fingerprinted); ok {
		return own.Fingerprint()
	}
	return p.Spec().Fingerprint(nil)
}

// BatchGradient is implemented by a problem that evaluates whole float32
// batches itself, faster than row by row. All slices are row-major with the
// given row strides; stride 0 repeats one row. It must agree with Objectives
// and Gradient, which RunDomain checks.
type BatchGradient interface {
	GradientBatch(b Batch)
}

// Batch is the argument of GradientBatch: inputs s, u, c, sigma; outputs J
// (nil: not wanted), gs and gu. Each is Rows rows, Stride elements apart.
type Batch struct {
	Rows                                                                int
	S, U, C, Sigma, J, GS, GU                                           []float32
	SStride, UStride, CStride, SigmaStride, JStride, GSStride, GUStride int
}

// BlockGradient is implemented by a problem that evaluates many float64 points
// in one call at less cost than point by point, such as one whose objectives
// are a compiled graph. It must agree with Objectives and Gradient to rounding,
// which RunDomain checks; offline/shooting uses it for all points of one
// derivative evaluation.
type BlockGradient interface {
	GradientBlock(b Block)
}

// Block is the argument of GradientBlock: inputs S, U, C and Sigma, outputs J,
// GS and GU, each Rows rows of the problem's own width, row-major without gaps.
// J nil is not wanted. GS and GU are given both or neither; without them Sigma
// is not read and may be nil.
type Block struct {
	Rows                      int
	S, U, C, Sigma, J, GS, GU []float64
}

// DualStep is the size of a derivative in the imaginary part of a dual number: so
// small that products of two imaginary parts vanish beside the real one, and exact
// to multiply and divide by as far as rounding goes.
const DualStep = 1e-30

// Dual is implemented by a problem whose functions also take dual numbers:
// complex128 whose imaginary part is a derivative times DualStep. The arguments are
// those of the method of the same name, in its order; the real parts are that
// method's to rounding, and the imaginary parts its exact derivatives, which
// RunDomain checks. offline/shooting uses them.
type Dual interface {
	StepDual(s, c, u, sNext, cNext []complex128)
	ObjectivesDual(s, u, c, j []complex128)
	MarginsDual(s, c, u, m []complex128)
}

// Staged is implemented by a problem that evaluates and differentiates many decisions in one call, such as one whose functions are
// programs for the lanes of vectors. offline/shooting uses it for the stages of a horizon.
type Staged interface {
	// NewStages makes a workspace for one goroutine at a time. It is nil where the problem, whatever its arguments, has no such
	// derivatives; an error says why those that it should have cannot be had.
	NewStages() (Stages, error)
}

// Stages is the workspace of a Staged. Its arguments are rows of n decisions, row-major without gaps: x is (s, c) and next is
// (sNext, cNext). What it writes for one decision does not depend on the others. Values agree to rounding with those of Step, Objectives
// and Margins, and derivatives are exact, which RunDomain checks.
type Stages interface {
	// Moving lists the entries of (s, c) that an action may move, at once or through others, ascending. Derivatives are by the
	// entries of u, then by these: k of them.
	Moving() []int
	Evaluate(n int, x, u, next, j, margins []float64)
	// Linearise does what Evaluate does, where its outputs are not nil, and writes the first derivatives of next, of J and of the
	// margins, [n][rows][k] each.
	Linearise(n int, x, u, next, j, margins, ofNext, ofJ, ofMargins []float64)
	// Curvature writes into h, [n][k][k], the lower triangles of the Hessians of wᵀJ + λᵀnext − zᵀm at the decisions that
	// Linearise was called with last. far says of which decisions the margins weigh so little that theirs may be left out where it
	// costs much.
	Curvature(w, lambda, z []float64, far []bool, h []float64)
	// Priority writes the first derivatives of the adaptive priority σ, [n][rows][k], and PriorityCurvature the lower triangles of
	// the Hessians of jᵀσ, [n][k][k], at the decisions that Priority was called with last.
	Priority(n int, x []float64, ofSigma []float64)
	PriorityCurvature(j, h []float64)
}

// PlanProjector is implemented by a problem whose Project, along a plan, does not
// need what Step predicts of everything else. ProjectPlan does to a whole plan, in
// place, what Project does to each of its actions in turn.
type PlanProjector interface {
	ProjectPlan(s, c, plan []float64)
}

// Selective is implemented by a problem whose map is to learn some of the
// situations of a dataset only; training leaves the others out.
type Selective interface {
	Selects(s, c []float64) bool
}

// Scored is implemented by a problem in which the objectives of an executed
// action follow from the state it leads to, while Objectives looks at the state
// it is taken in. Score writes the stage objectives J as the plant will count
// them and every margin of Margins, at the cost of one evaluation of the known
// dynamics; refinement scores its roll-outs with it.
type Scored interface {
	Score(s, c, u, J, m []float64)
}

// Weighing is implemented by a problem whose plant does not count wᵀJ of a user's
// preference w, because the objectives differ in range, or σᵀJ in the adaptive mode: Weigh
// writes the weights of the raw objectives that a decision under a preference is counted
// with, by the plant and so by a search, and reports whether there are such; without,
// it is σ at each action.
type Weighing interface {
	Weigh(pref Preference, weights []float64) bool
}

// Failing is implemented by a problem with states that are lost, such as a fall, which
// the margins of single actions need not say. An episode that passes through one, at its
// start, after its last action or between, is not safe.
type Failing interface {
	Failed(s, c []float64) bool
}

// Lost reports whether a state is lost, which it is only of a Failing problem.
func Lost(p Problem, s, c []float64) bool {
	f, ok := p.(Failing)
	return ok && f.Failed(s, c)
}

// Answered is implemented by a problem that knows, by its own exact solver, what to do in
// some states: the navigator asks a map about them before it trusts it.
type Answered interface {
	// Answers are optimal decisions over the states that episodes come to; of each S, C,
	// Preference and Target are read. They are the same at each call. Those of a shifted
	// plant (Case.Shifted) are of the plant that the map was made for.
	Answers() []Sample
}

// Finite is implemented by a problem whose context tells how many decisions the
// episode still has, the present one included; refinement then looks no further
// ahead.
type Finite interface {
	Remaining(c []float64) int
}

// Lasting is implemented by a problem that goes on behind a plan where its Spec has a Horizon: Behind is what
// that costs from the state and context that the plan ends in, to be added to what the plan costs under a preference, so that plans of
// one length can be compared.
type Lasting interface {
	Behind(s, c []float64, pref Preference) float64
}

// Polisher is implemented by a problem with derivatives of what a whole plan leads to.
// Polish improves, in place, the actions of the decisions from (s, c) on, [steps·action],
// by at most iterations of the problem's own method, and reports whether it has changed
// them. It depends on its arguments alone. What it writes is finite and need keep no
// limit: it is executed only where the roll-out of its projected actions is feasible and
// costs less than the plan it was given.
type Polisher interface {
	Polish(s, c []float64, pref Preference, plan []float64, iterations int) bool
}
