package backendtest

import (
	"errors"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/cartpole"
	"github.com/gpc-engine/gpc/examples/gallery/chain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// spoiled is the pole on a cart, one output of whose stages is spoiled.
type spoiled struct {
	*equations.Problem
	of     string
	failed error
}

// spoiledStages adds a thousandth of itself to an output.
type spoiledStages struct {
	domain.Stages
	of string
}

func (p spoiled) Abilities() *domain.ProblemAbilities {
	may := p.Problem.Abilities()
	may.Derivatives.Stages = p.NewStages
	return may
}

func (p spoiled) NewStages() (domain.Stages, error) {
	stages, err := p.Problem.NewStages()
	if err == nil {
		err = p.failed
	}
	return spoiledStages{stages, p.of}, err
}

func (s spoiledStages) spoil(of string, out []float64) {
	for i := range out {
		if s.of == of {
			out[i] *= 1.001
		}
	}
}

func (s spoiledStages) Evaluate(n int, x, u, next, j, margins []float64) {
	s.Stages.Evaluate(n, x, u, next, j, margins)
	s.spoil("next", next)
	s.spoil("J", j)
	s.spoil("margins", margins)
}

func (s spoiledStages) Linearise(n int, x, u, next, j, margins, ofNext, ofJ, ofMargins []float64) {
	s.Stages.Linearise(n, x, u, next, j, margins, ofNext, ofJ, ofMargins)
	s.spoil("slopes of next", ofNext)
	s.spoil("slopes of J", ofJ)
	s.spoil("slopes of margins", ofMargins)
}

func (s spoiledStages) Curvature(w, lambda, z []float64, far []bool, h []float64) {
	s.Stages.Curvature(w, lambda, z, far, h)
	s.spoil("curvature", h)
}

func (s spoiledStages) Priority(n int, x, ofSigma []float64) {
	s.Stages.Priority(n, x, ofSigma)
	s.spoil("slopes of priority", ofSigma)
}

func (s spoiledStages) PriorityCurvature(j, h []float64) {
	s.Stages.PriorityCurvature(j, h)
	s.spoil("curvature of priority", h)
}

func TestStagedCheckFindsMistakes(t *testing.T) {
	y := cartpole.Track()
	p := require.Get(equations.New(y))(t)
	points := require.Get(domainStates(require.Get(y.Case())(t), nil))(t)
	if errs := checkStaged(spoiled{Problem: p}, points); len(errs) > 0 {
		t.Fatal(errs[0])
	}
	for _, of := range []string{
		"next", "J", "margins", "slopes of next", "slopes of J", "slopes of margins", "curvature", "slopes of priority", "curvature of priority",
	} {
		if len(checkStaged(spoiled{Problem: p, of: of}, points)) == 0 {
			t.Errorf("%s spoiled: the check found nothing", of)
		}
	}
	if len(checkStaged(spoiled{Problem: p, failed: errors.New("no source")}, points)) == 0 {
		t.Error("stages that cannot be had: the check found nothing")
	}
}

// lenient has margins among many that are greater than alone, and a projection that moves every action.
type lenient struct {
	*equations.Problem
	by, moves float64
}

func (p lenient) Abilities() *domain.ProblemAbilities {
	may := p.Problem.Abilities()
	if many := may.ManyMargins; many != nil {
		may.ManyMargins = func() (domain.ManyMargins, error) {
			m, err := many()
			if m == nil || err != nil {
				return m, err
			}
			return lenientMargins{m, p.by}, nil
		}
	}
	return may
}

func (p lenient) Project(s, c, u []float64) bool {
	kept := p.Problem.Project(s, c, u)
	u[0] += p.moves
	return kept
}

type lenientMargins struct {
	domain.ManyMargins
	by float64
}

func (l lenientMargins) Evaluate(n int, x, u, next, margins []float64) {
	l.ManyMargins.Evaluate(n, x, u, next, margins)
	margins[0] += l.by
}

func TestCheckOfManyMarginsFindsMistakes(t *testing.T) {
	y := chain.System(1)
	p := require.Get(equations.New(y))(t)
	points := require.Get(domainStates(require.Get(y.Case())(t), nil))(t)
	if many := p.Abilities().ManyMargins; many == nil || require.Get(many())(t) == nil {
		t.Skip("no vectors here")
	}
	if errs := checkMany(lenient{Problem: p}, points); len(errs) > 0 {
		t.Fatal(errs[0])
	}
	if len(checkMany(lenient{p, 1e-3, 0}, points)) == 0 || len(checkMany(lenient{p, 0, 1e-3}, points)) == 0 {
		t.Error("the check found nothing")
	}
}
