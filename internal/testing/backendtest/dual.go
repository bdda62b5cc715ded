package backendtest

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

// dualRounding is for the real parts of dual functions, whose products may be summed in
// another order.
const dualRounding = 1e-11

// checkDual holds domain.Derivatives to the problem's own functions: its real parts to their
// values, its imaginary parts to their derivatives along a random direction, where the
// differences of both sides agree that there is one.
func checkDual(p domain.Problem, points []point) (errs []error) {
	dual := domain.AbilitiesOfProblem(p).Derivatives
	if !dual.Dual() {
		return nil
	}
	spec := p.Spec()
	ns, nc, nu, m, k := spec.MeasuredSize(), spec.ContextSize(), spec.ActionSize(), spec.ObjectiveSize(), len(spec.Margins)
	rng := newRand(domainSeed + 9)
	// Next state and context, objectives, margins.
	values := func(y []float64) []float64 {
		out := make([]float64, ns+nc+m+k)
		s, c, u := y[:ns], y[ns:ns+nc], y[ns+nc:]
		p.Step(s, c, u, out[:ns], out[ns:ns+nc])
		p.Objectives(s, u, c, out[ns+nc:ns+nc+m])
		p.Margins(s, c, u, out[ns+nc+m:])
		return out
	}
	for i, at := range points {
		y, direction := slices.Concat(at.s, at.c, at.u), make([]float64, ns+nc+nu)
		z := make([]complex128, len(y))
		for j, v := range y {
			direction[j] = rng.NormFloat64() * math.Max(1, math.Abs(v)) / math.Sqrt(float64(len(y)))
			z[j] = complex(v, direction[j]*domain.DualStep)
		}
		before := slices.Clone(z)
		got := make([]complex128, ns+nc+m+k)
		s, c, u := z[:ns], z[ns:ns+nc], z[ns+nc:]
		dual.Step(s, c, u, got[:ns], got[ns:ns+nc])
		dual.Objectives(s, u, c, got[ns+nc:ns+nc+m])
		dual.Margins(s, c, u, got[ns+nc+m:])
		if !slices.Equal(z, before) {
			errs = append(errs, fmt.Errorf("point %d: a dual function changed an input", i))
		}
		moved := func(h float64) []float64 {
			x := slices.Clone(y)
			for j, d := range direction {
				x[j] += h * d
			}
			return values(x)
		}
		middle, up, down := values(y), moved(differenceStep), moved(-differenceStep)
		for j, want := range middle {
			name, index := "next state", j
			switch {
			case j >= ns+nc+m:
				name, index = "margin", j-ns-nc-m
			case j >= ns+nc:
				name, index = "objective", j-ns-nc
			case j >= ns:
				name, index = "next context", j-ns
			}
			size := math.Max(1, math.Abs(want))
			if d := math.Abs(real(got[j]) - want); !(d <= dualRounding*size) {
				errs = append(errs, fmt.Errorf("point %d: %s %d of dual numbers is %v, of float64 %v", i, name, index, real(got[j]), want))
			}
			forward, backward := (up[j]-want)/differenceStep, (want-down[j])/differenceStep
			slope := (forward + backward) / 2
			scale := math.Max(size, math.Abs(slope))
			if math.Abs(forward-backward) > 1e-3*scale {
				continue
			}
			if d := math.Abs(imag(got[j])/domain.DualStep - slope); !(d <= 10*differenceTolerance*scale) {
				errs = append(errs, fmt.Errorf("point %d: the derivative of %s %d is %v by dual numbers, %v by differences (s %v, c %v, u %v)", i, name, index, imag(got[j])/domain.DualStep, slope, at.s, at.c, at.u))
			}
		}
	}
	return errs
}
