package adjoint_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/adjoint"
	"github.com/gpc-engine/gpc/internal/backendtest"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/tensor"
)

const measured, context, action, steps = 3, 2, 2, 7

// drifting is a problem whose state turns with its own size and whose context moves and
// feels the actions, so that objectives and dynamics depend on what came before by
// every way there is. It has no derivatives of plans.
type drifting struct{ domain.Problem }

func (d drifting) Step(s, c, u, sNext, cNext []float64) {
	for i, v := range s {
		sNext[i] = 0.8*v + 0.3*math.Sin(s[(i+1)%len(s)]*c[0]) + 0.2*u[i%len(u)]
	}
	for i, v := range c {
		cNext[i] = 0.9*v + 0.1*u[i]*s[0]
	}
}

func newDrifting() drifting {
	return drifting{backendtest.NewToy(measured, context, action, steps)}
}

func batch(rng *rand.Rand, rows int) domain.Batch {
	draw := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	const plan = action * steps
	return domain.Batch{
		Rows: rows, S: draw(rows * measured), SStride: measured, C: draw(rows * context), CStride: context, U: draw(rows * plan), UStride: plan,
		Sigma: draw(rows * 3), SigmaStride: 3, J: make([]float32, rows*3), JStride: 3,
		GS: make([]float32, rows*measured), GSStride: measured, GU: make([]float32, rows*plan), GUStride: plan,
	}
}

func wide(v []float32) []float64 {
	w := make([]float64, len(v))
	tensor.Widen(w, v)
	return w
}

// The sweep gives what differences of the whole plan's cost give.
func TestAdjointIsTheDerivative(t *testing.T) {
	p := newDrifting()
	b := batch(rand.New(rand.NewPCG(1, 2)), 25)
	adjoint.Of(p).PlanGradientBatch(b)
	const plan = action * steps
	J, gs, gu := make([]float64, 3), make([]float64, measured), make([]float64, plan)
	for r := range b.Rows {
		ref.PlanGradient(p, wide(b.S[r*measured:][:measured]), wide(b.U[r*plan:][:plan]), wide(b.C[r*context:][:context]), wide(b.Sigma[r*3:][:3]), J, gs, gu)
		for _, part := range []struct {
			name string
			got  []float32
			want []float64
		}{{"J", b.J[r*3:], J}, {"∂/∂s", b.GS[r*measured:], gs}, {"∂/∂plan", b.GU[r*plan:], gu}} {
			for j, want := range part.want {
				if d := math.Abs(float64(part.got[j]) - want); !(d <= 1e-6*math.Max(1, math.Abs(want))) {
					t.Errorf("row %d: %s[%d] is %v, by differences %v", r, part.name, j, part.got[j], want)
				}
			}
		}
	}
}

// A problem's own derivatives are taken as they are.
func TestOwnDerivativesAreTaken(t *testing.T) {
	own := backendtest.NewToy(measured, context, action, steps)
	if adjoint.Of(own) != domain.PlanGradient(own) {
		t.Error("a problem with derivatives of plans is differentiated again")
	}
}

func TestSweepAllocatesNothing(t *testing.T) {
	of, b := adjoint.Of(newDrifting()), batch(rand.New(rand.NewPCG(3, 4)), 4)
	if n := testing.AllocsPerRun(20, func() { of.PlanGradientBatch(b) }); n > 0 {
		t.Errorf("%g allocations a call", n)
	}
}
