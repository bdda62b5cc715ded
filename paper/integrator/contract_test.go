package integrator

import (
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/domaintest"
)

func TestContract(t *testing.T) {
	for _, c := range []domain.Case{Convex(), Nonconvex()} {
		c.Solver = NewSolver(c.Problem.(*System), 20)
		t.Run(c.Problem.Spec().Name, func(t *testing.T) { domaintest.Run(t, c) })
	}
}
