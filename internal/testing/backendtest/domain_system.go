package backendtest

import (
	"errors"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/diagnosis"
)

// checkEffects are the findings of diagnosis.Effects.
func checkEffects(p domain.Problem, points []point) []error {
	return errorsOf(diagnosis.Effects(p, pointsOf(points)))
}

// errorsOf are all findings as errors.
func errorsOf(findings diagnosis.Findings) (errs []error) {
	for _, f := range findings {
		errs = append(errs, errors.New(f.String()))
	}
	return errs
}

func pointsOf(points []point) (all []diagnosis.Point) {
	for _, p := range points {
		all = append(all, diagnosis.Point{S: p.s, C: p.c, U: p.u})
	}
	return all
}
