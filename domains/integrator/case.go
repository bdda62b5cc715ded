package integrator

import "github.com/gpc-engine/gpc/domain"

func newCase(name string, params Params, paper map[string]domain.PaperRow) domain.Case {
	system, err := NewSystem(name, params)
	if err != nil {
		panic("integrator: default parameters: " + err.Error())
	}
	oracle := newOracle(system)
	return domain.Case{
		Problem: system,
		Solver:  NewSolver(system, LibrarySize),
		Plant:   &Plant{system: system, oracle: oracle},
		Methods: methods(system),
		Paper:   paper,
	}
}
