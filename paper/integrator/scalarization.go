package integrator

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
)

const (
	// augmentation is the weight of the plain sum beside a Chebyshev or
	// ε-constraint form. It rules out weakly Pareto-optimal points.
	augmentation = 1e-3
	// tightestBound is the least share of the range of J₁ that an ε-constraint
	// leaves above the ideal: at 0 the feasible set has no interior.
	tightestBound = 0.01
)

// scalarized solves a problem at t = 0 with a fixed preference by the named
// form, and returns with it the weights of the equivalent weighted sum: those
// for which the same plan is stationary, read from the multipliers.
//
//	weighted sum    min wᵀJ
//	Chebyshev       min max_i w_i (J_i − ideal_i)/(nadir_i − ideal_i)
//	ε-constraint    min J₂  s.t.  J₁ ≤ w₁·ideal₁ + w₂·nadir₁
//
// J are the horizon sums; ideal and nadir come from the two single-objective
// optima.
func (l *Library) scalarized(w *interior, h horizonProblem, scalarization domain.Scalarization, out *solution) (weights [2]float64, err error) {
	if scalarization == domain.WeightedSum {
		if !l.best(w, &h, false, out) {
			return weights, domain.ErrInfeasible
		}
		return h.weights, nil
	}
	var single [2]solution
	for i := range single {
		one := h
		one.weights = [2]float64{augmentation, augmentation}
		one.weights[i] = 1
		if !l.best(w, &one, false, &single[i]) {
			return weights, domain.ErrInfeasible
		}
	}
	form, err := h.form(scalarization, &single)
	if err != nil {
		return weights, err
	}

	out.cost = math.Inf(1)
	var sol solution
	try := func(plan []float64) {
		w.solve(&form, plan, &sol)
		if sol.certified() && sol.cost < out.cost {
			*out = sol
		}
	}
	try(single[0].plan[:])
	try(single[1].plan[:])
	var index [startNeighbours]int
	l.nearest(&h, index[:])
	for _, i := range index {
		if i >= 0 {
			try(l.entry[i].plan[:])
		}
	}
	if math.IsInf(out.cost, 1) {
		return weights, domain.ErrInfeasible
	}
	weights = form.weights
	for i := range form.limited {
		for j := range weights {
			weights[j] += out.multiplier[3*form.steps+i] * form.limits[i].weights[j]
		}
	}
	// On the scale of a weighted sum with weights on the simplex.
	sum := weights[0] + weights[1]
	for i := range out.multiplier {
		out.multiplier[i] /= sum
	}
	out.cost = (weights[0]*out.total[0] + weights[1]*out.total[1]) / sum
	return [2]float64{weights[0] / sum, weights[1] / sum}, nil
}

// form is the problem that a form other than the weighted sum makes of h, given its two
// single-objective optima.
func (h *horizonProblem) form(scalarization domain.Scalarization, single *[2]solution) (horizonProblem, error) {
	ideal := [2]float64{single[0].total[0], single[1].total[1]}
	span := [2]float64{single[1].total[0] - ideal[0], single[0].total[1] - ideal[1]}
	if !(span[0] > 0 && span[1] > 0) {
		return horizonProblem{}, fmt.Errorf("objective ranges are %v: the objectives do not conflict", span)
	}
	form := *h
	switch scalarization {
	case domain.Chebyshev:
		mean := (span[0] + span[1]) / 2
		form.epigraph = 1
		form.limited = 2
		for i := range form.limits {
			scale := h.weights[i] * mean / span[i]
			form.limits[i] = horizonLimit{bound: scale * ideal[i], slope: 1}
			form.limits[i].weights[i] = scale
			form.weights[i] = augmentation * mean / span[i]
		}
	case domain.EpsilonConstraint:
		form.weights = [2]float64{augmentation, 1}
		form.limited = 1
		form.limits[0] = horizonLimit{
			weights: [2]float64{1, 0},
			bound:   ideal[0] + max(h.weights[1], tightestBound)*span[0],
		}
	default:
		return horizonProblem{}, fmt.Errorf("unknown scalarization %q, have %q, %q, %q", scalarization,
			domain.WeightedSum, domain.Chebyshev, domain.EpsilonConstraint)
	}
	return form, nil
}
