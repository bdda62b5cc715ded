//go:build ipopt

package ipoptcheck

import (
	"context"
	"testing"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/networktest"
)

// The matrix that MUMPS is timed on is that of a minimum: it has as many negative eigenvalues as
// constraints.
func TestMUMPSFactorsTheMatrixOfAnOptimum(t *testing.T) {
	for _, name := range []string{"case9", "case30", "case118", "pglib_opf_case118_ieee"} {
		n := networktest.Load(t, name)
		solver, err := acopf.New(n, acopf.Options{})
		if err != nil {
			t.Fatal(err)
		}
		results := make([]acopf.Result, 1)
		if err := solver.Solve(context.Background(), make([]acopf.Problem, 1), results); err != nil {
			t.Fatal(err)
		}
		p, err := New(n, &acopf.Problem{}, Default)
		if err != nil {
			t.Fatal(err)
		}
		m, err := NewMUMPS(p, &results[0])
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := m.Factor(); err != nil {
				t.Fatal(err)
			}
		}
		if want := len(p.f.glo); m.Negative != want || !(m.Flops > 0) || m.Order <= want {
			t.Errorf("%s: %d negative eigenvalues of %d, want %d; %g operations", name, m.Negative, m.Order, want, m.Flops)
		}
		m.Close()
		p.Close()
	}
}
