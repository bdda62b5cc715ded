package acopf

// Iterate is what Options.Trace gets of every iterate, before the step from it.
type Iterate struct {
	Iteration int // of the attempt, from 1
	// Attempt is its start: warm, flat or file. Restoring is true in the feasibility phase, which minimises the
	// squared mismatch and not Objective.
	Attempt   string
	Restoring bool
	Objective float64 // of the problem
	Mismatch  float64 // ‖g‖∞, pu
	Violation float64 // of limits
	Gradient  float64 // ‖∇L‖∞ of the scaled objective
	Barrier   float64 // mean of s·z
	Monotone  bool    // by Fiacco and McCormick's rule
	Shift     float64 // primal regularisation of the last step's matrix
	Refused   int     // matrices of the wrong inertia before that
	Pivoted   bool    // the matrix is factored with pivots chosen by size
	Primal    float64 // length of the last step
	Dual      float64
}

var attemptNames = [...]string{warm: "warm", flat: "flat", fromFile: "file", feasible: "feasible"}

// trace reports a lane's iterate.
func (w *worker) trace(l int) {
	p, m, ln := w.plan, w.m, &w.lane[l]
	if ln.mode == idle {
		return
	}
	w.solver.opt.Trace(Iterate{Iteration: ln.iteration, Attempt: attemptNames[ln.job.attempt], Restoring: ln.mode == restoring,
		Objective: w.objective(l) / ln.scale, Mismatch: m.Get(p.maxG[0], l), Violation: m.Get(p.maxH[0], l), Gradient: m.Get(p.maxGrad[0], l),
		Barrier: m.Get(p.comp[0], l) / float64(len(p.s)+p.soft), Monotone: ln.barrier > 0, Shift: ln.shift, Refused: ln.shiftAttempts, Pivoted: ln.pivoted,
		Primal: m.Get(p.alphaP[0], l), Dual: m.Get(p.alphaD[0], l)})
}
