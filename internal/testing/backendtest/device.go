package backendtest

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

// What device functions may differ by from the problem's own methods, relative to 1 +
// the largest entry of a result: the step's in float32, the roll-out's in float64. Cost
// and margin sum what actions and states bring, the input of E_x is float32.
const (
	deviceGradientTolerance = 1e-5
	deviceStateTolerance    = 1e-9
	deviceScoreTolerance    = 1e-8
	deviceInputTolerance    = 1e-6
	conditionDigits         = 1e-15 // of a state's entries, as one step's sums round
	conditionDraws          = 8
)

// DeviceGradient compares Base, Objectives and Gradient of a problem's device
// functions with its own methods.
func DeviceGradient(b backend.DeviceFunctions, p domain.Problem, at backend.DeviceRows) (errs []error) {
	got, err := b.DeviceGradient(p, at)
	if err != nil {
		return []error{err}
	}
	spec := p.Spec()
	ns, nu, m, np := spec.MeasuredSize(), spec.ActionSize(), spec.ObjectiveSize(), spec.PlanSize()
	for i := range at.S {
		s, c, u, sigma := rounded(at.S[i]), rounded(at.C[i]), rounded(at.U[i]), rounded(at.Sigma[i])
		J, gs, gu, base := make([]float64, m), make([]float64, ns), make([]float64, nu), make([]float64, np)
		p.Objectives(s, u, c, J)
		p.Gradient(s, u, c, sigma, gs, gu)
		p.Base(s, c, base)
		for _, r := range []struct {
			what string
			got  []float32
			want []float64
		}{
			{"J", got.J[i*m:], J}, {"∂/∂s", got.GS[i*ns:], gs}, {"∂/∂u", got.GU[i*nu:], gu}, {"base", got.Base[i*np:], base},
		} {
			if err := NearOrLost(row64(r.got[:len(r.want)]), r.want, deviceGradientTolerance); err != nil {
				errs = append(errs, fmt.Errorf("%s on the device, row %d, %s: %w", spec.Name, i, r.what, err))
			}
		}
	}
	return errs
}

// rounded is what float32 leaves of values.
func rounded(v []float64) []float64 {
	w := slices.Clone(v)
	for i, x := range w {
		w[i] = float64(float32(x))
	}
	return w
}

// DeviceStep compares one step of roll-outs by a problem's device functions with its
// own methods, and counts the rows whose action the projection moved. worst is the
// largest deviation of any number of the actions, states, contexts, costs and smallest
// margins, and all margins. What these are of an action or a state that is not a number
// is not compared.
func DeviceStep(b backend.DeviceFunctions, p domain.Problem, at backend.DeviceRows, project bool) (moved int, worst [5]float64, errs []error) {
	got, err := b.DeviceStep(p, at, project)
	if err != nil {
		return 0, worst, []error{err}
	}
	spec := p.Spec()
	for i := range at.S {
		u := rounded(at.U[i])
		have, want := StepRow(got, spec, i), stepOf(p, at.S[i], at.C[i], u, project)
		if want[0][0] != u[0] {
			moved++
		}
		for k, r := range []struct {
			what      string
			tolerance float64
		}{{"action", deviceStateTolerance}, {"state", deviceStateTolerance}, {"context", deviceStateTolerance},
			{"cost and margin", deviceScoreTolerance}, {"all margins", deviceStateTolerance}, {"input of E_x", deviceInputTolerance}} {
			if k == 4 && math.IsInf(want[3][1], -1) {
				continue
			}
			err := NearOrLost(have[k], want[k], r.tolerance)
			if err != nil {
				err = NearOrLost(have[k], want[k], r.tolerance+Conditioned(p, at.S[i], at.C[i], u, project)[k])
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s on the device, row %d of %d, projected %v, %s: %w", spec.Name, i, len(at.S), project, r.what, err))
			}
			for j, v := range want[k] {
				if off := math.Abs(have[k][j] - v); k < len(worst) && off > worst[k] && !math.IsInf(v, 0) {
					worst[k] = off
				}
			}
		}
	}
	return moved, worst, errs
}

// StepRow is what one of the rows became: action, next state and context, cost and
// margin, all margins, input of E_x.
func StepRow(r backend.DeviceSteps, spec *domain.Spec, i int) [6][]float64 {
	ns, nc, nu, np, nm, width := spec.MeasuredSize(), spec.ContextSize(), spec.ActionSize(), spec.PlanSize(), len(spec.Margins), spec.ObservationSize()
	return [6][]float64{
		r.Plan[i*np : i*np+nu], r.S[i*ns : (i+1)*ns], r.C[i*nc : (i+1)*nc], {r.Cost[i], r.Margin[i]}, r.Margins[i*nm : (i+1)*nm], row64(r.Input[i*width : (i+1)*width]),
	}
}

// stepOf is the same by the problem's own methods, as refinement in single
// operations takes them.
func stepOf(p domain.Problem, s, c, u []float64, project bool) [6][]float64 {
	spec := p.Spec()
	m := spec.ObjectiveSize()
	a, margin := slices.Clone(u), math.Inf(1)
	if !tensor.Finite(a) || !tensor.Finite(s) {
		margin = math.Inf(-1)
		clear(a)
	} else if project {
		p.Project(s, c, a)
	}
	delta, sigma, J, margins := make([]float64, m), make([]float64, m), make([]float64, m), make([]float64, len(spec.Margins))
	nextS, nextC := make([]float64, len(s)), make([]float64, len(c))
	p.Indicators(s, a, c, delta)
	spec.Semantic.Priority(delta, sigma)
	if score := domain.AbilitiesOfProblem(p).Score; score != nil {
		score(s, c, a, J, margins)
	} else {
		p.Objectives(s, a, c, J)
		p.Margins(s, c, a, margins)
	}
	cost := 0.0
	for k := range J {
		cost += sigma[k] * J[k]
	}
	for _, v := range margins {
		margin = math.Min(margin, v)
	}
	p.Step(s, c, a, nextS, nextC)
	if !tensor.Finite(nextS) || !tensor.Finite(nextC) {
		margin = math.Inf(-1)
		copy(nextS, s)
		copy(nextC, c)
	}
	input := append(append(append([]float64{}, nextS...), nextC...), make([]float64, 1+m)...)
	for k := range input {
		mean, scale := backend.DeviceNormal(k)
		input[k] = (input[k] - float64(mean)) / float64(scale)
	}
	return [6][]float64{a, nextS, nextC, {cost, margin}, margins, input}
}

// Conditioned is what each result of a step moves by, relative to 1 + its largest
// entry, where the state moves by its last digits: no other order of the same
// operations can be held more closely.
func Conditioned(p domain.Problem, s, c, u []float64, project bool) (most [6]float64) {
	want, rng := stepOf(p, s, c, u, project), newRand(domainSeed+7)
	for range conditionDraws {
		near := slices.Clone(s)
		for i, v := range near {
			near[i] = v + (2*rng.Float64()-1)*conditionDigits*math.Max(1, math.Abs(v))
		}
		for k, got := range stepOf(p, near, c, u, project) {
			scale := 1.0
			for _, v := range want[k] {
				if !math.IsInf(v, 0) {
					scale = math.Max(scale, math.Abs(v))
				}
			}
			for j, v := range want[k] {
				if d := math.Abs(got[j]-v) / scale; d > most[k] && !math.IsInf(d, 0) {
					most[k] = d
				}
			}
		}
	}
	return most
}

// Near compares relative to 1 + the largest entry.
func Near(got, want []float64, relative float64) error {
	scale := 1.0
	for _, v := range want {
		scale = math.Max(scale, math.Abs(v))
	}
	for i, v := range want {
		if !(math.Abs(got[i]-v) <= relative*scale) {
			return fmt.Errorf("entry %d is %v, want %v", i, got[i], v)
		}
	}
	return nil
}

// NearOrLost compares the entries that are numbers. In a row that has left the
// numbers the others have to be the same infinity, or not a number.
func NearOrLost(got, want []float64, relative float64) error {
	var numbers, wanted []float64
	for i, v := range want {
		switch {
		case math.IsNaN(v):
			if !math.IsNaN(got[i]) {
				return fmt.Errorf("entry %d is %v, want one that is not a number", i, got[i])
			}
		case math.IsInf(v, 0):
			if got[i] != v {
				return fmt.Errorf("entry %d is %v, want %v", i, got[i], v)
			}
		default:
			numbers, wanted = append(numbers, got[i]), append(wanted, v)
		}
	}
	return Near(numbers, wanted, relative)
}

// checkDevice runs the device functions at points, at actions far out of every limit,
// and, for the roll-out, at an action that is not a number.
func checkDevice(b backend.DeviceFunctions, p domain.Problem, points []point) (errs []error) {
	rng := newRand(domainSeed + 6)
	var at backend.DeviceRows
	for i, from := range points {
		u := slices.Clone(from.u)
		if i%2 == 1 {
			for j := range u {
				u[j] *= 3
			}
		}
		at.S, at.C, at.U, at.Sigma = append(at.S, from.s), append(at.C, from.c), append(at.U, u), append(at.Sigma, simplex(rng, p.Spec().ObjectiveSize()))
	}
	errs = DeviceGradient(b, p, at)
	at.U[0][0] = math.NaN()
	for _, project := range []bool{true, false} {
		_, _, wrong := DeviceStep(b, p, at, project)
		errs = append(errs, wrong...)
	}
	return errs
}
