package report

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// Given is a figure of the paper's; a dash where it has none.
func Given(v float64) string { return Number("%g", v) }

// regretGiven is a regret of the paper's with its standard error.
func regretGiven(p domain.PaperRow) string {
	if math.IsNaN(p.Regret) {
		return "–"
	}
	if math.IsNaN(p.RegretSEM) {
		return Given(p.Regret)
	}
	return fmt.Sprintf("%g ± %g s.e.m.", p.Regret, p.RegretSEM)
}

// PaperRowOf is the paper's row of an evaluation of scenes like the paper's; of others it has
// none.
func (r *Records) PaperRowOf(e *closedloop.Result) domain.PaperRow {
	if e.Regime != PaperRegime {
		return domain.NoPaperRow()
	}
	return r.Paper(e.Case, e.Method)
}

// Absent are methods of the paper's in a case, with the paper's figures of them.
func (r *Records) Absent(name string, methods []string) (words []string) {
	for _, m := range methods {
		words = append(words, fmt.Sprintf("`%s` (%s)", m, InPaper(r.Paper(name, m))))
	}
	return words
}

// LikePaper are the evaluations of a case in scenes like the paper's, without noise.
func (r *Records) LikePaper(name string) []closedloop.Result {
	return r.EvaluationsWhere(name, func(e *closedloop.Result) bool { return e.Noise == 0 && e.Regime == PaperRegime })
}

// LackedLikePaper are the methods that the paper has and none of those is of; none where there
// are no such evaluations.
func (r *Records) LackedLikePaper(name string) []string {
	if evals := r.LikePaper(name); len(evals) > 0 {
		return r.Unrecorded(name, evals)
	}
	return nil
}
