package equations

import (
	"fmt"

	"github.com/gpc-engine/gpc/internal/simd/stages"
)

// NewSteps is domain.Derivatives.Steps where the system has a Source and is not Stiff, whose dual numbers know the solution of a step that was
// just taken. All lanes have the same point and share the directions.
func (p *Problem) NewSteps(by []int) (func(s, c, u, ofNext []float64), error) {
	if p.system.Source == nil || p.system.Stiff != nil {
		return nil, nil
	}
	known, err := p.valued()
	if err != nil {
		return nil, err
	}
	code, err := stages.NewSteps(known.of, by, (len(by)+known.width-1)/known.width)
	if err != nil {
		return nil, fmt.Errorf("system %q: %w", p.spec.Name, err)
	}
	compiled, err := code.Compile(known.level, known.width)
	if err != nil {
		return nil, fmt.Errorf("system %q: %w", p.spec.Name, err)
	}
	k := &steps{machine: code.NewMachine(compiled), by: len(by), rows: len(p.spec.Measured) + len(p.spec.Context)}
	for i, entry := range by {
		k.machine.Seed(i%known.width, i/known.width, entry)
	}
	return k.linearise, nil
}

// steps are the lanes of one point.
type steps struct {
	machine  *stages.Machine
	by, rows int
}

// linearise writes the derivatives of a step.
func (k *steps) linearise(s, c, u, ofNext []float64) {
	width := k.machine.Lanes()
	for lane := range width {
		k.machine.Set(lane, s, c, u)
	}
	k.machine.Linearise()
	for r := range k.rows {
		for i := range k.by {
			ofNext[r*k.by+i] = k.machine.Slope(i%width, i/width, r)
		}
	}
}
