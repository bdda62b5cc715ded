package ocp

import (
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// tightened is a problem with tighter limits. It drops the problem's optional abilities, such as derivatives.
type tightened struct {
	domain.Problem
	slack []float64
}

func (p tightened) Margins(s, c, u, m []float64) {
	p.Problem.Margins(s, c, u, m)
	tensor.Axpy(-1, p.slack, m)
}

// Tightened implements domain.Receding.
func (s *Solver) Tightened(slack []float64) domain.Receding {
	return s.WithProblem(tightened{s.problem, slices.Clone(slack)})
}

// WithProblem is the solver of another problem of the same sizes, with the terminal cost of this one.
func (s *Solver) WithProblem(p domain.Problem) *Solver {
	return newSolver(p, s.axes, s.initial, s.opt, s.terminalCosts)
}
