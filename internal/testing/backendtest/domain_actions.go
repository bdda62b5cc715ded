package backendtest

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

func checkDynamics(p domain.Problem, points []point) (errs []error) {
	spec := p.Spec()
	for i, at := range points {
		before := at.clone()
		sNext, cNext := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
		base := make([]float64, spec.PlanSize())
		p.Step(at.s, at.c, at.u, sNext, cNext)
		p.Base(at.s, at.c, base)
		if !tensor.Finite(sNext) || !tensor.Finite(cNext) || !tensor.Finite(base) {
			errs = append(errs, fmt.Errorf("point %d: Step gives %v and %v, Base %v", i, sNext, cNext, base))
		}
		if !slices.Equal(at.s, before.s) || !slices.Equal(at.u, before.u) || !slices.Equal(at.c, before.c) {
			errs = append(errs, fmt.Errorf("point %d: Step or Base changed an input", i))
		}
	}
	return errs
}

func checkIndicators(p domain.Problem, points []point) (errs []error) {
	spec := p.Spec()
	for i, at := range points {
		delta, sigma := make([]float64, spec.ObjectiveSize()), make([]float64, spec.ObjectiveSize())
		p.Indicators(at.s, at.u, at.c, delta)
		for j, d := range delta {
			if !(d >= 0 && d <= 1) {
				errs = append(errs, fmt.Errorf("point %d: indicator %d is %v, want [0, 1] (s %v)", i, j, d, at.s))
			}
		}
		spec.Semantic.Priority(delta, sigma)
		sum := 0.0
		for _, v := range sigma {
			sum += v
		}
		if !(math.Abs(sum-1) <= 1e-12) {
			errs = append(errs, fmt.Errorf("point %d: priority %v sums to %v", i, sigma, sum))
		}
	}
	return errs
}

func checkProjection(p domain.Problem, points []point) (errs []error) {
	spec := p.Spec()
	margins := make([]float64, len(spec.Margins))
	feasible := 0
	for i, at := range points {
		// The drawn action, and one far outside.
		for _, factor := range []float64{1, 3} {
			u := slices.Clone(at.u)
			for j := range u {
				u[j] *= factor
			}
			again := slices.Clone(u)
			before := at.clone()
			ok := p.Project(at.s, at.c, u)
			if okAgain := p.Project(at.s, at.c, again); ok != okAgain || !slices.Equal(u, again) {
				errs = append(errs, fmt.Errorf("point %d: the same projection twice gives %v, %v and %v, %v", i, u, ok, again, okAgain))
			}
			if !slices.Equal(at.s, before.s) || !slices.Equal(at.c, before.c) {
				errs = append(errs, fmt.Errorf("point %d: Project changed the state or the context", i))
			}
			if !tensor.Finite(u) {
				errs = append(errs, fmt.Errorf("point %d: projected action %v", i, u))
				continue
			}
			if !ok {
				continue
			}
			feasible++
			errs = append(errs, boxErrors(fmt.Sprintf("point %d, projected", i), spec, u)...)
			p.Margins(at.s, at.c, u, margins)
			for j, m := range margins {
				if !spec.Keeps(m) {
					errs = append(errs, fmt.Errorf("point %d: Project reports a feasible action, margin %s is %v (tolerance %v)", i, spec.Margins[j].Name, m, spec.MarginTolerance))
				}
			}
		}
	}
	if feasible == 0 {
		errs = append(errs, errors.New("Project never reports a feasible action, so that its margins could not be checked: does any action keep them?"))
	}
	return errs
}

// boxErrors checks the hard box of every action of a plan, to rounding.
func boxErrors(what string, spec *domain.Spec, plan []float64) (errs []error) {
	for j, v := range plan {
		a := spec.Action[j%len(spec.Action)]
		slack := 1e-12 + spec.MarginTolerance
		if a.Bounded() && !(v >= a.Lo-slack && v <= a.Hi+slack) {
			errs = append(errs, fmt.Errorf("%s: %s is %v, its box is [%v, %v]", what, a.Name, v, a.Lo, a.Hi))
		}
	}
	return errs
}

func checkPicture(p domain.Problem, points []point) (errs []error) {
	picture := domain.AbilitiesOfProblem(p).Picture
	if picture == nil {
		return nil
	}
	for i, at := range points {
		shapes := picture(at.s, at.c)
		for k := range shapes {
			if err := shapes[k].Validate(); err != nil {
				errs = append(errs, fmt.Errorf("point %d: picture: %d of %d: %w", i, k, len(shapes), err))
			}
		}
		if again := picture(at.s, at.c); !reflect.DeepEqual(shapes, again) {
			errs = append(errs, fmt.Errorf("point %d: picture: %v the first time, %v the second", i, shapes, again))
		}
	}
	return errs
}

func checkFallback(p domain.Problem, points []point) (errs []error) {
	spec := p.Spec()
	for i, at := range points {
		blind := make([]float64, len(at.s))
		for j := range blind {
			blind[j] = math.NaN()
		}
		for _, s := range [][]float64{blind, at.s} {
			u := make([]float64, spec.ActionSize())
			for j := range u {
				u[j] = math.NaN()
			}
			p.Fallback(s, at.c, u)
			if !tensor.Finite(u) {
				errs = append(errs, fmt.Errorf("point %d: fallback action %v for the state %v", i, u, s))
				continue
			}
			errs = append(errs, boxErrors(fmt.Sprintf("point %d, fallback", i), spec, u)...)
		}
	}
	return errs
}
