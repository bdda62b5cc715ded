package secure

import "math"

// elastic are balances after an outage that may give, at a price, so that the optimisation has a point
// inside its limits whatever an outage leaves of the network. What a balance gives is more − less, each
// an entry of its own:
//
//	g − sign·give = 0   price = sign·λ + hold   give·hold = μ
//
// Elimination of give and hold leaves −give/hold on the diagonal of the balance's row.
type elastic struct {
	row          []int // the balance's multiplier λ
	sign         []float64
	price        float64
	give, hold   []float64
	dgive, dhold []float64
	target       []float64
}

func newElastic(t *state) *elastic {
	e := &elastic{price: firstBalancePrice}
	for _, at := range t.bus {
		for _, of := range []int{ofActive, ofReactive} {
			e.row = append(e.row, at+of, at+of)
			e.sign = append(e.sign, 1, -1)
		}
	}
	for _, v := range []*[]float64{&e.give, &e.hold, &e.dgive, &e.dhold, &e.target} {
		*v = make([]float64, len(e.row))
	}
	return e
}

func (e *elastic) clone(t *state) *elastic {
	o := newElastic(t)
	o.price = e.price
	copy(o.give, e.give)
	copy(o.hold, e.hold)
	return o
}

// begin gives balances what they are off by, with multipliers that fit, for give·hold at a barrier.
// Those of a state that was solved before stay where they are large.
func (e *elastic) begin(t *state, barrier float64) {
	for j := 0; j < len(e.row); j += 2 {
		row := e.row[j]
		if e.give[j] == 0 {
			if g := t.r[row]; math.Abs(g) > barrier/e.price {
				// μ/(price − λ) − μ/(price + λ) = g
				t.x[row] = g * e.price * e.price / (barrier + math.Sqrt(barrier*barrier+g*g*e.price*e.price))
			}
		}
		for i := j; i < j+2; i++ {
			e.hold[i] = max(e.price-e.sign[i]*t.x[row], 1e-6*e.price)
			e.give[i] = max(e.give[i], barrier/e.hold[i])
		}
	}
}

// evaluate takes what balances give into the residual and the matrix.
func (e *elastic) evaluate(t *state) {
	for i, row := range e.row {
		t.r[row] -= e.sign[i] * e.give[i]
		if e.hold[i] > 0 {
			t.values[t.diagonal[row]] -= e.give[i] / e.hold[i]
		}
	}
}

// off is what the multipliers of an entry are off by.
func (e *elastic) off(i int, t *state) float64 { return e.price - e.sign[i]*t.x[e.row[i]] - e.hold[i] }

// aim sets targets of give·hold, and adds their part to the right-hand side.
func (e *elastic) aim(t *state, mu float64, second bool) {
	for i, row := range e.row {
		e.target[i] = mu
		if second {
			e.target[i] -= e.dgive[i] * e.dhold[i]
		}
		t.rhs[row] += e.sign[i] * (e.target[i]/e.hold[i] - e.give[i] - e.give[i]/e.hold[i]*e.off(i, t))
	}
}

// expand finds the steps of what was eliminated.
func (e *elastic) expand(t *state) {
	for i, row := range e.row {
		e.dhold[i] = e.off(i, t) - e.sign[i]*t.d[row]
		e.dgive[i] = e.target[i]/e.hold[i] - e.give[i] - e.give[i]/e.hold[i]*e.dhold[i]
	}
}

func (e *elastic) move(primal, dual float64) {
	for i := range e.row {
		e.give[i] += primal * e.dgive[i]
		e.hold[i] += dual * e.dhold[i]
	}
}

// most is the largest balance that gives, by its entry.
func (e *elastic) most() (at int, give float64) {
	for i := 0; i < len(e.row); i += 2 {
		if g := math.Abs(e.give[i] - e.give[i+1]); g > give {
			at, give = i, g
		}
	}
	return at, give
}
