package acopf

import (
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
)

// Equal units behind transformers without resistance take up most reactive power at uneven powers. Where that is wanted,
// even powers are a saddle, which no step leaves by itself.
func TestEqualUnitsLeaveTheSaddle(t *testing.T) {
	c := &matpower.Case{
		Bus:    []matpower.Bus{bus(1, matpower.Reference, 0, 0), bus(2, matpower.PQ, 200, 0)},
		Gen:    []matpower.Gen{gen(1, 0, 400, 1)},
		Branch: []matpower.Branch{line(1, 2)},
	}
	c.Bus[1].Bs = 150
	for i := 3; i < 7; i++ {
		c.Bus = append(c.Bus, bus(i, matpower.PV, 0, 0))
		c.Gen = append(c.Gen, gen(i, 0, 100, 1))
		c.Gen[len(c.Gen)-1].QMin = 0
		c.Branch = append(c.Branch, matpower.Branch{From: 2, To: i, X: 0.14, InService: true})
	}
	r := solveOne(t, newTestSolver(t, build(t, c), Options{}), Problem{})
	if powers := r.Pg[1:]; r.Status != Optimal || !(slices.Max(powers)-slices.Min(powers) > 0.1) {
		t.Errorf("%v after %d iterations, powers %v: want uneven ones", r.Status, r.Iterations, powers)
	}
}
