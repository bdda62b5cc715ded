package opf

import "math"

// lossShare is the share of the load that the merit order adds for losses. It
// is about case30's; what it lacks the decoder learns.
const lossShare = 0.015

// Base writes the plan that the decoder corrects: the merit order, that is the
// dispatch of equal marginal costs which covers the load and a fixed share of
// losses within every unit's limits and ramp, without a network; and V_G of 1 pu.
func (y *System) Base(s, c, plan []float64) {
	l := &y.layout
	demand := 0.0
	for k := range l.loadP {
		demand += c[k]
	}
	y.merit(demand*(1+lossShare), c[l.previous:l.previous+l.gens], plan[:l.gens])
	for g := range l.gens {
		plan[l.gens+g] = 1
	}
}

// window is the range of P_G of a unit after its previous output: limits and
// ramp, with the limits first where the two do not meet.
func (y *System) window(g int, previous float64) (lo, hi float64) {
	n := y.Network
	lo = math.Min(math.Max(n.PMin[g], previous-y.Ramp[g]), n.PMax[g])
	hi = math.Max(math.Min(n.PMax[g], previous+y.Ramp[g]), n.PMin[g])
	return lo, hi
}

// meritHalvings of the interval of marginal costs leave 2⁻⁴⁰ of it.
const meritHalvings = 40

// merit writes the dispatch P with Σ P = demand as nearly as the windows allow
// and equal marginal costs where no window binds, by bisection on the price.
func (y *System) merit(demand float64, previous, p []float64) {
	low, high := math.Inf(1), math.Inf(-1)
	for g := range p {
		lo, hi := y.window(g, previous[g])
		_, first, _ := y.Network.Cost[g].At(lo)
		_, last, _ := y.Network.Cost[g].At(hi)
		low, high = math.Min(low, first), math.Max(high, last+flatSlope*(hi-lo))
	}
	for range meritHalvings {
		price, sum := (low+high)/2, 0.0
		for g := range p {
			p[g] = y.supply(g, price, previous[g])
			sum += p[g]
		}
		if sum < demand {
			low = price
		} else {
			high = price
		}
	}
}

// flatSlope, $/h per pu², is added to a unit's marginal cost curve so that a
// unit of constant marginal cost has a supply at every price.
const flatSlope = 1.0

// supply is the output at which unit g's marginal cost is price, within its
// window.
func (y *System) supply(g int, price, previous float64) float64 {
	lo, hi := y.window(g, previous)
	cost := &y.Network.Cost[g]
	if poly := cost.Polynomial; !cost.PiecewiseLinear() && len(poly) <= 3 {
		linear, slope := 0.0, flatSlope
		if len(poly) > 1 {
			linear = poly[1]
		}
		if len(poly) > 2 {
			slope = 2*poly[2] + flatSlope
		}
		// The added slope turns about the window's lower end.
		return math.Min(hi, math.Max(lo, (price-linear+flatSlope*lo)/slope))
	}
	a, b := lo, hi
	for range meritHalvings {
		m := (a + b) / 2
		if _, first, _ := cost.At(m); first+flatSlope*(m-lo) < price {
			a = m
		} else {
			b = m
		}
	}
	return (a + b) / 2
}
