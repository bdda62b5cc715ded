package equations

import "github.com/gpc-engine/gpc/internal/simd/stages"

// NewSteps is domain.Derivatives.Steps where the system has a Source and is not Stiff: dual numbers of a stiff system
// reuse the last step's solution. All lanes have the same point and share the directions.
func (p *Problem) NewSteps(directions []int) (func(s, c, u, ofNext []float64), error) {
	if p.system.Source == nil || p.system.Stiff != nil {
		return nil, nil
	}
	values, err := p.valueCode()
	if err != nil {
		return nil, err
	}
	code, compiled, err := values.compile(stages.NewSteps(values.system, directions, (len(directions)+values.width-1)/values.width))
	if err != nil {
		return nil, err
	}
	k := &steps{machine: code.NewMachine(compiled), directions: len(directions), rows: len(p.spec.Measured) + len(p.spec.Context)}
	for i, entry := range directions {
		k.machine.Seed(i%values.width, i/values.width, entry)
	}
	return k.linearise, nil
}

// steps are the lanes of one point.
type steps struct {
	machine          *stages.Machine
	directions, rows int
	point            []float64
}

// linearise writes the derivatives of a step.
func (k *steps) linearise(s, c, u, ofNext []float64) {
	width := k.machine.Lanes()
	k.point = append(append(k.point[:0], s...), c...)
	k.machine.Set(1, k.point, u)
	k.machine.Linearise()
	for r := range k.rows {
		for i := range k.directions {
			ofNext[r*k.directions+i] = k.machine.Slope(i%width, i/width, r)
		}
	}
}
