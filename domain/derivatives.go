package domain

// Derivatives are derivatives of a Problem beyond Gradient, in whatever of these forms it has them. All
// agree with the methods of the problem to rounding, which RunDomain checks.
type Derivatives struct {
	// Rows evaluates objectives and gradients of whole float32 batches, faster than row by row.
	Rows func(b Batch)
	// Block evaluates many float64 points in one call at less cost than point by point, such as one whose
	// objectives are a compiled graph; ocp uses it for all points of one derivative
	// evaluation.
	Block func(b Block)
	// Step, Objectives and Margins, all three or none, are the problem's own functions at dual numbers:
	// complex128 whose imaginary part is a derivative times DualStep. The arguments are those of the
	// method of the same name, in its order; the imaginary parts are its exact derivatives.
	Step       func(s, c, u, sNext, cNext []complex128)
	Objectives func(s, u, c, j []complex128)
	Margins    func(s, c, u, m []complex128)
	// Disturbed are the margins, without tightening, where w is added to the state that an action leads to; nil: none is a limit of it.
	Disturbed func(s, c, u, w, m []complex128)
	// Stages makes a workspace, for one goroutine at a time, that evaluates and differentiates many
	// decisions in one call, such as by programs for the lanes of vectors; ocp uses it for
	// the stages of a horizon. It is nil where the problem, whatever its arguments, has no such
	// derivatives; an error says why those that it should have cannot be had.
	Stages func() (Stages, error)
	// Rounded is the number of levels by which Stages rounds corners, where a slope jumps; 0: it rounds nothing. A solver goes
	// on from the last to the first.
	Rounded func() int
	// Steps makes a function, for one goroutine at a time, that writes the derivatives of (sNext, cNext) by the given entries of (s, c),
	// [rows][entries], as a filter needs them at each decision. What it makes is nil where dual numbers take no longer; an error says
	// why those that the problem should have cannot be had.
	Steps func(entries []int) (func(s, c, u, ofNext []float64), error)
}

// Dual reports whether the problem's functions take dual numbers.
func (d *Derivatives) Dual() bool { return d.Step != nil && d.Objectives != nil && d.Margins != nil }

// Batch is the argument of Derivatives.Rows: inputs s, u, c, sigma; outputs J
// (nil: not wanted), gs and gu. Each is Rows rows, Stride elements apart; stride 0 repeats one row.
type Batch struct {
	Rows                                                                int
	S, U, C, Sigma, J, GS, GU                                           []float32
	SStride, UStride, CStride, SigmaStride, JStride, GSStride, GUStride int
}

// Block is the argument of Derivatives.Block: inputs S, U, C and Sigma, outputs J,
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

// Constants writes values as dual numbers without a derivative, and returns to.
func Constants(to []complex128, from []float64) []complex128 {
	for i, v := range from {
		to[i] = complex(v, 0)
	}
	return to
}

// Stages is the workspace of Derivatives.Stages. Its arguments are rows of n decisions, row-major without gaps: x is (s, c) and next is
// (sNext, cNext). What it writes for one decision does not depend on the others. Values agree to rounding with those of Step, Objectives
// and Margins, and derivatives are exact, which RunDomain checks.
type Stages interface {
	// Moving lists the entries of (s, c) that an action may move, at once or through others, ascending. Derivatives are by the
	// entries of u, then by these: k of them.
	Moving() []int
	// Limiting lists the entries of the context that the states and the margins depend on, at once or through others, ascending.
	Limiting() []int
	// Round sets the level of the rounding of corners for what follows, each further than the one before; a new workspace has 0.
	Round(level int)
	Evaluate(n int, x, u, next, j, margins []float64)
	// Linearise does what Evaluate does, where its outputs are not nil, and writes the first derivatives of next, of J and of the
	// margins, [n][rows][k] each.
	Linearise(n int, x, u, next, j, margins, ofNext, ofJ, ofMargins []float64)
	// Curvature writes into h, [n][k][k], the lower triangles of the Hessians of wᵀJ + λᵀnext − zᵀm at the decisions that
	// Linearise was called with last. far says of which decisions the margins weigh so little that theirs may be left out where it
	// costs much.
	Curvature(w, lambda, z []float64, negligible []bool, h []float64)
	// Priority writes the first derivatives of the adaptive priority σ, [n][rows][k], and PriorityCurvature the lower triangles of
	// the Hessians of jᵀσ, [n][k][k], at the decisions that Priority was called with last.
	Priority(n int, x []float64, ofSigma []float64)
	PriorityCurvature(j, h []float64)
}

// ManyMargins is what ProblemAbilities.ManyMargins makes, for one goroutine at a time.
type ManyMargins interface {
	// Most is how many decisions a call may have.
	Most() int
	// Evaluate writes the margins of n decisions, rows without gaps, x being (s, c) and next (sNext, cNext) as Problem.Step makes them. They
	// agree to rounding with those of Problem.Margins, and do not depend on one another.
	Evaluate(n int, x, u, next, margins []float64)
}
