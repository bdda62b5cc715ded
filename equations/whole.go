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

// Optimised is what a solver needs besides the equations.
func (p *Problem) Optimised() (*program.Followed, error) {
	followed, err := p.round()
	if err != nil {
		return nil, err
	}
	code, err := p.derivativeCode()
	if err != nil {
		return nil, err
	}
	y := &program.Followed{Program: followed, Priority: p.priority(followed), Moving: slices.Clone(code.active)}
	for level := range p.Rounded() {
		y.Factors = append(y.Factors, math.Pow(levelFactor, float64(roundingLevels-1-level)))
	}
	return y, nil
}
