package acopf

import "testing"

// What is timed is the factorisation of the solver itself: its last matrices have the inertia of a
// minimum, assembled and factored again.
func TestFactorisationIsTheSolvers(t *testing.T) {
	s := newTestSolver(t, load(t, "case118"), Options{Threads: 1})
	for _, problems := range []int{1, 64} {
		f := s.NewFactorisation(problems)
		if want := s.teamFor(problems).lanes; f.Lanes != want || f.Flops != float64(s.plan.programs[programFactor].Flops()) {
			t.Errorf("%d lanes of %g operations, want %d of %d", f.Lanes, f.Flops, want, s.plan.programs[programFactor].Flops())
		}
		for range 2 {
			f.Assemble()
			f.Factor()
			for l := range f.Lanes {
				if got := f.m.Get(s.plan.negative[0], l); got != float64(2*s.plan.nb) {
					t.Errorf("lane %d of %d has %g negative eigenvalues, want %d", l, f.Lanes, got, 2*s.plan.nb)
				}
			}
		}
	}
}
