package equations

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/program"
)

// Escape is domain.ProblemAbilities.Escape by the System's, clipped to the box.
func (p *Problem) Escape(s, c, u []float64) bool {
	if p.system.Real.Escape == nil {
		return false
	}
	p.system.Real.Escape(s, c, u)
	domain.Clip(u, u, p.spec.Action)
	return true
}

// Equations are the system as data, from its Source, for export to other languages.
func (p *Problem) Equations() (*program.System, error) {
	if p.backoff != nil {
		return nil, fmt.Errorf("system %q keeps off its limits by a table that every decision writes anew, which its equations do not have", p.system.Name)
	}
	read, err := p.Program()
	if err != nil {
		return nil, err
	}
	y := &program.System{
		Program: read, EscapeSteps: p.system.EscapeSteps,
		Rest: slices.Clone(p.system.Rest), StateScale: p.StateScale(), ObjectiveScale: slices.Clone(p.system.ObjectiveScale),
	}
	switch {
	case p.system.ODE != nil:
		y.Integrator, y.Span, y.Substeps = program.RK4, p.system.ODE.Span, p.system.ODE.Substeps
	case p.system.Stiff != nil:
		y.Integrator, y.Span, y.Substeps = program.Radau, p.system.Stiff.Span, p.system.Stiff.Substeps
	}
	return y, y.Validate()
}

// SolverProgram is the program that a solver follows, with corners that the input program.Rounding rounds by the factors,
// one after another; nil: there are none.
func (p *Problem) SolverProgram() (followed *program.Program, factors []float64, err error) {
	if followed, err = p.round(); err == nil {
		for level := range p.Rounded() {
			factors = append(factors, math.Pow(levelFactor, float64(roundingLevels-1-level)))
		}
	}
	return followed, factors, err
}

// Optimised is the rest of a solver's data: the adaptive priority as a function of (s, c), and the active entries of
// (s, c), ascending.
func (p *Problem) Optimised() (priority *program.Function, active []int, err error) {
	followed, err := p.round()
	if err != nil {
		return nil, nil, err
	}
	code, err := p.derivativeCode()
	if err != nil {
		return nil, nil, err
	}
	return p.priority(followed), slices.Clone(code.active), nil
}
