package secure

import "math"

// elastic makes the balances after an outage soft, so that the problem has a feasible point whatever the outage
// leaves of the network. Each balance has a positive and a negative slack, an entry each:
//
//	g − sign·slack = 0   penalty = sign·λ + dual   slack·dual = μ
//
// Elimination of slack and dual leaves −slack/dual on the diagonal of the balance's row.
type elastic struct {
	row           []int // the balance's multiplier λ
	sign          []float64
	penalty       float64
	slack, dual   []float64
	dslack, ddual []float64
	target        []float64
}

func newElastic(t *state) *elastic {
	e := &elastic{penalty: initialBalancePenalty}
	for _, bus := range t.bus {
		for _, offset := range []int{activeDualOffset, reactiveDualOffset} {
			if !t.omit[bus+offset] {
				e.row = append(e.row, bus+offset, bus+offset)
				e.sign = append(e.sign, 1, -1)
			}
		}
	}
	for _, v := range []*[]float64{&e.slack, &e.dual, &e.dslack, &e.ddual, &e.target} {
		*v = make([]float64, len(e.row))
	}
	return e
}

func (e *elastic) clone(t *state) *elastic {
	o := newElastic(t)
	o.penalty = e.penalty
	copy(o.slack, e.slack)
	copy(o.dual, e.dual)
	return o
}

// begin sets slacks to the mismatches of the balances and multipliers to match, so that slack·dual is the barrier.
// Large values of a state that was solved before stay.
func (e *elastic) begin(t *state, barrier float64) {
	for j := 0; j < len(e.row); j += 2 {
		row := e.row[j]
		if e.slack[j] == 0 {
			if g := t.r[row]; math.Abs(g) > barrier/e.penalty {
				// μ/(penalty − λ) − μ/(penalty + λ) = g
				t.x[row] = g * e.penalty * e.penalty / (barrier + math.Sqrt(barrier*barrier+g*g*e.penalty*e.penalty))
			}
		}
		for i := j; i < j+2; i++ {
			e.dual[i] = max(e.penalty-e.sign[i]*t.x[row], 1e-6*e.penalty)
			e.slack[i] = max(e.slack[i], barrier/e.dual[i])
		}
	}
}

// evaluate subtracts the slacks from the residual and adds their part to the matrix.
func (e *elastic) evaluate(t *state) {
	for i, row := range e.row {
		t.r[row] -= e.sign[i] * e.slack[i]
		if e.dual[i] > 0 {
			t.values[t.diagonal[row]] -= e.slack[i] / e.dual[i]
		}
	}
}

// dualResidual is the residual of penalty = sign·λ + dual for entry i.
func (e *elastic) dualResidual(i int, t *state) float64 {
	return e.penalty - e.sign[i]*t.x[e.row[i]] - e.dual[i]
}

// setTargets sets the targets of slack·dual and adds their part to the right-hand side.
func (e *elastic) setTargets(t *state, mu float64, second bool) {
	for i, row := range e.row {
		e.target[i] = mu
		if second {
			e.target[i] -= e.dslack[i] * e.ddual[i]
		}
		t.rhs[row] += e.sign[i] * (e.target[i]/e.dual[i] - e.slack[i] - e.slack[i]/e.dual[i]*e.dualResidual(i, t))
	}
}

// expand recovers the steps of the eliminated slacks and duals.
func (e *elastic) expand(t *state) {
	for i, row := range e.row {
		e.ddual[i] = e.dualResidual(i, t) - e.sign[i]*t.d[row]
		e.dslack[i] = e.target[i]/e.dual[i] - e.slack[i] - e.slack[i]/e.dual[i]*e.ddual[i]
	}
}

func (e *elastic) move(primal, dual float64) {
	for i := range e.row {
		e.slack[i] += primal * e.dslack[i]
		e.dual[i] += dual * e.ddual[i]
	}
}

// largest is the balance with the largest net slack, by its first entry.
func (e *elastic) largest() (row int, slack float64) {
	for i := 0; i < len(e.row); i += 2 {
		if g := math.Abs(e.slack[i] - e.slack[i+1]); g > slack {
			row, slack = i, g
		}
	}
	return row, slack
}
