package backendtest

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

func checkGradient(p domain.Problem, points []point) (errs []error) {
	spec := p.Spec()
	rng := newRand(domainSeed + 1)
	J := make([]float64, spec.ObjectiveSize())
	for i, at := range points {
		sigma := simplex(rng, spec.ObjectiveSize())
		before := at.clone()
		gs, gu := make([]float64, spec.MeasuredSize()), make([]float64, spec.ActionSize())
		p.Gradient(at.s, at.u, at.c, sigma, gs, gu)
		p.Objectives(at.s, at.u, at.c, J)
		if !slices.Equal(at.s, before.s) || !slices.Equal(at.u, before.u) || !slices.Equal(at.c, before.c) {
			errs = append(errs, fmt.Errorf("point %d: Gradient or Objectives changed an input", i))
		}
		if !tensor.Finite(J) {
			errs = append(errs, fmt.Errorf("point %d: objectives %v at s %v, u %v, c %v", i, J, at.s, at.u, at.c))
			continue
		}
		size, magnitude := 1.0, 1.0
		for _, g := range slices.Concat(gs, gu) {
			size = math.Max(size, math.Abs(g))
		}
		for j, v := range J {
			magnitude = math.Max(magnitude, math.Abs(v*sigma[j]))
		}
		moved := before.clone()
		value := func() float64 {
			p.Objectives(moved.s, moved.u, moved.c, J)
			sum := 0.0
			for j := range J {
				sum += sigma[j] * J[j]
			}
			return sum
		}
		for _, part := range []struct {
			name  string
			names []domain.Variable
			x, g  []float64
		}{{"s", spec.Measured, moved.s, gs}, {"u", spec.Action, moved.u, gu}} {
			for j := range part.x {
				x := part.x[j]
				h := differenceStep * math.Max(1, math.Abs(x))
				difference := func(h float64) float64 {
					part.x[j] = x + h
					up := value()
					part.x[j] = x - h
					return (up - value()) / (2 * h)
				}
				near, far := difference(h), difference(2*h)
				part.x[j] = x
				want := near + (near-far)/3 // Richardson: the error is of order h⁴
				if d := math.Abs(part.g[j] - want); !(d <= differenceTolerance*size+differenceRounding*magnitude) {
					errs = append(errs, fmt.Errorf("point %d: ∂(σᵀJ)/∂%s[%d] (%s) is %v, central difference %v (s %v, u %v, c %v, σ %v)", i, part.name, j, part.names[j].Name, part.g[j], want, at.s, at.u, at.c, sigma))
				}
			}
		}
	}
	return errs
}

// rowErrors compares row i of what a batch wrote with J and the gradients that reference
// says; last names the second gradient.
func rowErrors(b *domain.Batch, i int, what, reference string, J, gs, gu []float64, last string) (errs []error) {
	for _, part := range []struct {
		name string
		got  []float32
		want []float64
	}{{"J", b.J[i*b.JStride:], J}, {"∂/∂s", b.GS[i*b.GSStride:], gs}, {last, b.GU[i*b.GUStride:], gu}} {
		size := 1.0
		for _, v := range part.want {
			size = math.Max(size, math.Abs(v))
		}
		for j, want := range part.want {
			if d := math.Abs(float64(part.got[j]) - want); !(d <= batchTolerance*size) {
				errs = append(errs, fmt.Errorf("%s, row %d: %s[%d] is %v, %s %v", what, i, part.name, j, part.got[j], reference, want))
			}
		}
	}
	return errs
}

func checkBatchGradient(p domain.Problem, points []point) (errs []error) {
	batched := domain.AbilitiesOfProblem(p).Derivatives.Rows
	if batched == nil {
		return nil
	}
	spec := p.Spec()
	ns, nu, nc, m := spec.MeasuredSize(), spec.ActionSize(), spec.ContextSize(), spec.ObjectiveSize()
	rng := newRand(domainSeed + 2)
	rows := len(points)
	// Rows with gaps, one context and σ for all in the second round.
	for _, shared := range []bool{false, true} {
		b := domain.Batch{
			Rows: rows, SStride: ns + 3, UStride: nu + 1, CStride: nc, SigmaStride: m, JStride: m + 2, GSStride: ns + 1, GUStride: nu,
			S: make([]float32, rows*(ns+3)), U: make([]float32, rows*(nu+1)), C: make([]float32, rows*nc), Sigma: make([]float32, rows*m),
			J: make([]float32, rows*(m+2)), GS: make([]float32, rows*(ns+1)), GU: make([]float32, rows*nu),
		}
		if shared {
			b.CStride, b.SigmaStride = 0, 0
		}
		for i, at := range points {
			tensor.Narrow(b.S[i*b.SStride:], at.s)
			tensor.Narrow(b.U[i*b.UStride:], at.u)
			if i == 0 || !shared {
				tensor.Narrow(b.C[i*b.CStride:], at.c)
				tensor.Narrow(b.Sigma[i*b.SigmaStride:], simplex(rng, m))
			}
		}
		batched(b)
		withJ := slices.Concat(b.GS, b.GU)
		withoutJ := b
		withoutJ.J = nil
		batched(withoutJ)
		for i, v := range slices.Concat(b.GS, b.GU) {
			if v != withJ[i] {
				errs = append(errs, fmt.Errorf("GradientBatch gives another gradient when J is not wanted"))
				break
			}
		}
		for i := range points {
			s, u := row64(b.S[i*b.SStride:][:ns]), row64(b.U[i*b.UStride:][:nu])
			c, sigma := row64(b.C[i*b.CStride:][:nc]), row64(b.Sigma[i*b.SigmaStride:][:m])
			J, gs, gu := make([]float64, m), make([]float64, ns), make([]float64, nu)
			p.Objectives(s, u, c, J)
			p.Gradient(s, u, c, sigma, gs, gu)
			errs = append(errs, rowErrors(&b, i, "GradientBatch", "row by row", J, gs, gu, "∂/∂u")...)
		}
	}
	return errs
}

func checkBlockGradient(p domain.Problem, points []point) (errs []error) {
	block := domain.AbilitiesOfProblem(p).Derivatives.Block
	if block == nil {
		return nil
	}
	spec := p.Spec()
	ns, nu, m := spec.MeasuredSize(), spec.ActionSize(), spec.ObjectiveSize()
	rng := newRand(domainSeed + 5)
	// A size that is no multiple of anything, one row, and one more than a power
	// of two: blocks inside the problem end anywhere.
	for _, rows := range []int{len(points), 1, 129, 700} {
		b := domain.Block{Rows: rows, J: make([]float64, rows*m), GS: make([]float64, rows*ns), GU: make([]float64, rows*nu)}
		for i := range rows {
			at := points[i%len(points)]
			b.S, b.U, b.C = append(b.S, at.s...), append(b.U, at.u...), append(b.C, at.c...)
			b.Sigma = append(b.Sigma, simplex(rng, m)...)
		}
		inputs := slices.Concat(b.S, b.U, b.C, b.Sigma)
		block(b)
		if !slices.Equal(inputs, slices.Concat(b.S, b.U, b.C, b.Sigma)) {
			errs = append(errs, fmt.Errorf("GradientBlock of %d rows changed an input", rows))
		}
		onlyJ := domain.Block{Rows: rows, S: b.S, U: b.U, C: b.C, J: make([]float64, rows*m)}
		block(onlyJ)
		onlyGradient := domain.Block{Rows: rows, S: b.S, U: b.U, C: b.C, Sigma: b.Sigma, GS: make([]float64, rows*ns), GU: make([]float64, rows*nu)}
		block(onlyGradient)
		for i := range rows {
			at := points[i%len(points)]
			J, gs, gu := make([]float64, m), make([]float64, ns), make([]float64, nu)
			p.Objectives(at.s, at.u, at.c, J)
			p.Gradient(at.s, at.u, at.c, b.Sigma[i*m:(i+1)*m], gs, gu)
			for _, part := range []struct {
				name      string
				got, want []float64
			}{{"J", b.J[i*m:], J}, {"J without gradient", onlyJ.J[i*m:], J}, {"∂/∂s", b.GS[i*ns:], gs}, {"∂/∂u", b.GU[i*nu:], gu},
				{"∂/∂s without J", onlyGradient.GS[i*ns:], gs}, {"∂/∂u without J", onlyGradient.GU[i*nu:], gu}} {
				size := 1.0
				for _, v := range part.want {
					size = math.Max(size, math.Abs(v))
				}
				for j, want := range part.want {
					if d := math.Abs(part.got[j] - want); !(d <= blockTolerance*size) {
						errs = append(errs, fmt.Errorf("GradientBlock of %d rows, row %d: %s[%d] is %v, row by row %v", rows, i, part.name, j, part.got[j], want))
					}
				}
			}
		}
	}
	return errs
}
