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

// curvatureTolerance of second derivatives, which are differences themselves.
const curvatureTolerance = 1e-4

// checkDual holds a domain.Dual to the problem's own functions: its real parts to their
// values, its imaginary parts to their derivatives along a random direction, where the
// differences of both sides agree that there is one.
func checkDual(p domain.Problem, points []point) (errs []error) {
	dual, ok := p.(domain.Dual)
	if !ok {
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
		dual.StepDual(s, c, u, got[:ns], got[ns:ns+nc])
		dual.ObjectivesDual(s, u, c, got[ns+nc:ns+nc+m])
		dual.MarginsDual(s, c, u, got[ns+nc+m:])
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

// checkCurved holds the first derivatives of a domain.Curved to its dual numbers, and the second
// to differences of these, along two random directions, where both sides agree that there is one.
func checkCurved(p domain.Problem, points []point) (errs []error) {
	curved, ok := p.(domain.Curved)
	if !ok {
		return nil
	}
	spec := p.Spec()
	ns, nc, nu, m, k := spec.MeasuredSize(), spec.ContextSize(), spec.ActionSize(), spec.ObjectiveSize(), len(spec.Margins)
	n := ns + nc + nu
	rng := newRand(domainSeed + 10)
	normal := func(n int, size float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = size * rng.NormFloat64()
		}
		return x
	}
	x, j, margins := make([]complex128, ns+nc), make([]complex128, m), make([]complex128, k)
	for i, at := range points {
		y, w, lambda, z := slices.Concat(at.s, at.c, at.u), normal(m, 1), normal(ns+nc, 1), normal(k, 1)
		size, by, h := make([]float64, n), rng.Perm(n)[:1+rng.IntN(n)], make([]float64, n*n)
		for a, v := range y {
			size[a] = (0.5 + rng.Float64()) * math.Max(1, math.Abs(v))
		}
		next, dj, dm := make([]float64, (ns+nc)*n), make([]float64, m*n), make([]float64, k*n)
		has := curved.Curvature(at.s, at.c, at.u, by, size, w, lambda, z, false, h)
		if linear := curved.Linearise(at.s, at.c, at.u, by, size, next, dj, dm); linear != has {
			return append(errs, fmt.Errorf("point %d: Linearise reports %t and Curvature %t", i, linear, has))
		} else if !has {
			return errs
		}
		left, right := normal(len(by), 1/math.Sqrt(float64(len(by)))), normal(len(by), 1/math.Sqrt(float64(len(by))))
		got := 0.0
		for a := range by {
			for b := range a + 1 {
				if v := h[a*len(by)+b]; a == b {
					got += v * left[a] * right[a]
				} else {
					got += v * (left[a]*right[b] + left[b]*right[a])
				}
			}
		}
		// slope is that of the stage's Lagrangian to the left, at h steps to the right.
		slope := func(h float64) (sum, magnitude float64) {
			at := make([]complex128, n)
			for a, v := range y {
				at[a] = complex(v, 0)
			}
			for a, b := range by {
				at[b] += complex(h*right[a]*size[b], left[a]*size[b]*domain.DualStep)
			}
			s, c, u := at[:ns], at[ns:ns+nc], at[ns+nc:]
			curved.StepDual(s, c, u, x[:ns], x[ns:])
			curved.ObjectivesDual(s, u, c, j)
			curved.MarginsDual(s, c, u, margins)
			for _, part := range []struct {
				values  []complex128
				weights []float64
				sign    float64
			}{{x, lambda, 1}, {j, w, 1}, {margins, z, -1}} {
				for a, v := range part.values {
					d := part.sign * part.weights[a] * imag(v) / domain.DualStep
					sum += d
					magnitude += math.Abs(d)
				}
			}
			return sum, magnitude
		}
		middle, magnitude := slope(0)
		for _, part := range []struct {
			name string
			rows []float64
			dual []complex128
		}{{"the next state and context", next, x}, {"the objectives", dj, j}, {"the margins", dm, margins}} {
			for r, v := range part.dual {
				got, size := 0.0, 1.0
				for a := range by {
					got += part.rows[r*len(by)+a] * left[a]
					size += math.Abs(part.rows[r*len(by)+a] * left[a])
				}
				if want := imag(v) / domain.DualStep; !(math.Abs(got-want) <= dualRounding*size) {
					errs = append(errs, fmt.Errorf("point %d: the derivative of entry %d of %s is %v, of dual numbers %v (s %v, c %v, u %v, by %v)", i, r, part.name, got, want, at.s, at.c, at.u, by))
				}
			}
		}
		up, _ := slope(differenceStep)
		down, _ := slope(-differenceStep)
		forward, backward := (up-middle)/differenceStep, (middle-down)/differenceStep
		want := (forward + backward) / 2
		scale := math.Max(magnitude, math.Max(math.Abs(forward), math.Abs(backward)))
		if math.Abs(forward-backward) > 1e-3*scale {
			continue
		}
		if !(math.Abs(got-want) <= curvatureTolerance*scale) {
			errs = append(errs, fmt.Errorf("point %d: the second derivative of the stage's Lagrangian is %v, by differences %v (s %v, c %v, u %v, by %v)", i, got, want, at.s, at.c, at.u, by))
		}
	}
	return errs
}
