package ocp

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// counting counts what is asked of the margins at dual numbers.
type counting struct {
	dualTanks
	margins *int
}

func (p counting) Abilities() *domain.ProblemAbilities {
	may := p.dualTanks.Abilities()
	may.Derivatives.Margins = p.MarginsDual
	return may
}

func (p counting) MarginsDual(s, c, u, m []complex128) {
	*p.margins++
	p.dualTanks.MarginsDual(s, c, u, m)
}

// Margins whose multipliers are next to nothing, for the barrier that there is, are not evaluated
// for the Hessian, and it is the one without them; all others are.
func TestAHessianIsSparedMarginsOfNoWeight(t *testing.T) {
	count := 0
	for name, p := range testPrograms(counting{margins: &count}) {
		q := p.q
		q.differentiate(p.cur)
		hessian := func(mu, z float64) (h []float64, margins int) {
			for i := range p.z {
				p.z[i] = z
			}
			before := count
			q.hessian(p.cur, mu, 1.3, p.z, p.lambda)
			return append([]float64(nil), q.h...), count - before
		}
		none, unasked := hessian(0, 0)
		little, spared := hessian(0, 1e-3*negligible)
		_, far := hessian(10, 1)
		much, all := hessian(0, 1)
		if unasked != 0 || spared != 0 || far != 0 || all == 0 {
			t.Errorf("%s: margins evaluated %d times with multipliers 0, %d with small ones, %d under a barrier far from the solution and %d with large ones, want none, none, none and some", name, unasked, spared, far, all)
		}
		differ := false
		for i, v := range little {
			if v != none[i] {
				t.Fatalf("%s: entry %d is %v with small multipliers, %v with none", name, i, v, none[i])
			}
			differ = differ || math.Abs(much[i]-v) > 1e-3
		}
		if !differ {
			t.Errorf("%s: the margins of this problem have no curvature, so that this proves nothing", name)
		}
	}
}
