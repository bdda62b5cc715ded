package ocp

import (
	"fmt"
	"math"
)

// augmentation is the share of all objectives in the Chebyshev and ε-constraint problems. It makes their solutions
// properly optimal, and moves them by less than one part in a thousand of an objective's range.
const augmentation = 1e-4

func (q *program) chebyshev(w, ideal, spread []float64) {
	q.setWeights(false, make([]float64, q.no))
	q.tau, q.tauCost = true, 1
	for i := range q.weights {
		q.weights[i] = augmentation / spread[i]
		if w[i] == 0 {
			continue
		}
		e := make([]float64, q.no)
		e[i] = w[i] / spread[i]
		q.totals = append(q.totals, total{a: 1, b: w[i] * ideal[i] / spread[i], e: e})
	}
}

func (q *program) epsilonConstraint(w, ideal, spread []float64) {
	primary := 0
	for i := range w {
		if w[i] > w[primary] {
			primary = i
		}
	}
	q.setWeights(false, make([]float64, q.no))
	for i := range q.weights {
		q.weights[i] = augmentation / spread[i]
		if i == primary {
			q.weights[i] = 1 / spread[i]
			continue
		}
		e := make([]float64, q.no)
		e[i] = 1 / spread[i]
		q.totals = append(q.totals, total{b: ideal[i]/spread[i] + 1 - w[i], e: e})
	}
}

// payoffTable is what minimising each objective alone attains.
type payoffTable struct {
	ideal, spread []float64     // [no]: the least of each objective, and its range over the minima
	plans         [][][]float64 // of the minima
}

// payoff minimises each objective alone.
func (t *task) payoff() (*payoffTable, error) {
	m := len(t.solver.problem.Spec().Objectives)
	ideal, nadir := make([]float64, m), make([]float64, m)
	table := &payoffTable{ideal: ideal, spread: make([]float64, m)}
	for i := range m {
		ideal[i], nadir[i] = math.Inf(1), math.Inf(-1)
	}
	for i := range m {
		w := make([]float64, m)
		for j := range w {
			w[j] = 1e-3 / float64(m)
		}
		w[i] += 1 - 1e-3
		optimum, err := t.solveStarts(func(q *program) { q.setWeights(false, w) })
		if err != nil {
			return nil, fmt.Errorf("minimum of objective %d: %w", i, err)
		}
		for j, v := range optimum.Total() {
			ideal[j], nadir[j] = math.Min(ideal[j], v), math.Max(nadir[j], v)
		}
		table.plans = append(table.plans, optimum.U)
	}
	for i := range table.spread {
		table.spread[i] = math.Max(nadir[i]-ideal[i], 1e-6*(1+math.Abs(ideal[i])))
	}
	return table, nil
}
