package opf

import (
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

// Step writes the state and the context after u: the power flow of u under the
// present loads, which are also the forecast of the next ones, and what the units
// then give. Without a solution the state stays.
func (y *System) Step(s, c, u, sNext, cNext []float64) {
	w := y.pool.Get().(*workspace)
	defer y.pool.Put(w)
	copy(cNext, c)
	if !w.dispatch(s, c, u) {
		copy(sNext, s)
		return
	}
	w.state(sNext)
	copy(cNext[y.layout.previous:], w.solution.Pg)
}

// state writes the solution as (V…, θ…).
func (w *workspace) state(s []float64) {
	copy(s, w.solution.Vm)
	copy(s[len(w.solution.Vm):], w.solution.Va)
}

// Margins writes the margins of the power flow of u, pu: for every P_G, Q_G and
// bus voltage the distance to the nearer limit, for every rated branch S^max less
// |S| at its more loaded end, for every unit the ramp limit less |P_G − P_G
// before|; the reference unit counts with what the power flow gives it. All are
// −1 where the power flow has no solution.
func (y *System) Margins(s, c, u, m []float64) {
	w := y.pool.Get().(*workspace)
	defer y.pool.Put(w)
	w.dispatch(s, c, u)
	w.checkOutages(nil, math.Inf(1))
	copy(m, w.margin)
}

// Score writes the objectives and margins of the state that u leads to, the
// reference unit at its actual P_G: what the plant will say. Where the power flow
// has no solution the state stays, and the objectives are those of s and u. It
// is domain.ProblemAbilities.Score.
func (y *System) Score(s, c, u, J, m []float64) {
	w := y.pool.Get().(*workspace)
	defer y.pool.Put(w)
	solved := w.dispatch(s, c, u)
	w.checkOutages(nil, math.Inf(1))
	copy(m, w.margin)
	if !solved {
		y.Objectives(s, u, c, J)
		return
	}
	w.objectives(c, J)
}

// objectives writes J at the solution.
func (w *workspace) objectives(c, J []float64) {
	w.state(w.scored)
	evaluate(&w.system.model.terms, w.scored, w.solution.Pg, c, nil, J, nil, nil)
}

// Admit sets what the file fixes: the power of a unit, or the voltage of its bus, whose
// limits are equal. It is domain.ProblemAbilities.Admit.
func (y *System) Admit(_, _, u []float64) {
	n := y.Network
	for g, b := range n.GenBus {
		if n.PMin[g] == n.PMax[g] {
			u[g] = n.PMin[g]
		}
		if n.VMin[b] == n.VMax[b] {
			u[n.Gens()+g] = n.VMin[b]
		}
	}
}

// Remaining is 1: the loads beyond the present step are not known; see
// domain.ProblemAbilities.Remaining.
func (y *System) Remaining([]float64) int { return 1 }

// Fallback writes the conservative dispatch: every unit holds its last P_G and
// the merit order covers the change of load within the ramp, V_G are held where
// the state tells them; and that is projected. A state that is not finite is not
// looked at: the power flow of a projection follows from c and u, and begins flat.
func (y *System) Fallback(s, c, u []float64) {
	y.Base(s, c, u)
	if tensor.Finite(s) {
		for g, b := range y.Network.GenBus {
			u[y.layout.gens+g] = s[b]
		}
	} else {
		s = y.flat
	}
	y.Project(s, c, u)
}
