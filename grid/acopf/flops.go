package acopf

import (
	"context"

	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// IterationFlops is the number of floating-point operations of one iteration of
// one problem, corrections of its linear solves and further factorisations left
// out.
func (s *Solver) IterationFlops() float64 {
	n := 0
	for _, i := range []int{programEvaluate, programGradient, programAssemble, programFactor, programPredictor, programGather, programSolve,
		programCorrector, programGather, programSolve, programResidual, programExpand, programReach, programExpand, programReach, programMovePrimal, programMoveDual} {
		n += s.plan.programs[i].Flops()
	}
	return float64(n)
}

// Factorisation repeats the numeric factorisation of a network's KKT matrix, for measurements: its
// time does not depend on the numbers in the matrix. It is for one goroutine.
type Factorisation struct {
	Lanes int     // matrices factored at once
	Flops float64 // of one factor; assembly is not counted
	m     *lanes.Machine
}

// NewFactorisation has the matrices of the last iterates of the network's own problem, in as many
// lanes as that many problems use.
func (s *Solver) NewFactorisation(problems int) *Factorisation {
	t := s.teamFor(problems)
	w := t.workers.New().(*worker)
	w.run(&queue{ctx: context.Background(), problems: make([]Problem, t.lanes), results: make([]Result, t.lanes)})
	return &Factorisation{Lanes: t.lanes, Flops: float64(s.plan.programs[programFactor].Flops()), m: w.m}
}

// Assemble writes every lane's matrix: derivatives are there, limits and units are eliminated.
func (f *Factorisation) Assemble() { f.m.Run(programAssemble) }

// Factor is the block LDLᵀ of the assembled matrices.
func (f *Factorisation) Factor() { f.m.Run(programFactor) }
