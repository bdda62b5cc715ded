package equations

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/internal/gotrace"
)

// Outputs is the measurement y of (s, c, u) as a function "outputs". Without functions a Measurement is of the
// states. Real of another is read from the Source, at Measurement.Real, and compared with it as Program does.
func (p *Problem) Outputs(measurement *domain.Measurement) (*program.Function, error) {
	f, err := p.outputFunction(measurement)
	if err != nil {
		return nil, fmt.Errorf("system %q: %w", p.spec.Name, err)
	}
	return f, nil
}

func (p *Problem) outputFunction(measurement *domain.Measurement) (*program.Function, error) {
	if err := measurement.Validate(&p.spec); err != nil {
		return nil, err
	}
	ns, nc, nu := len(p.spec.Measured), len(p.spec.Context), len(p.spec.Action)
	g := signature{name: "outputs", field: "Measurement.Real", parameters: []parameter{
		{name: "s", vector: "state", size: ns, input: true}, {name: "c", vector: "context", size: nc, input: true}, {name: "u", vector: "action", size: nu, input: true},
		{name: "y", size: len(measurement.Outputs), output: true},
	}}
	if measurement.Real == nil {
		b := program.NewBuilder(g.name, program.Argument{Name: "s", Size: ns, Vector: "state"}, program.Argument{Name: "c", Size: nc, Vector: "context"}, program.Argument{Name: "u", Size: nu, Vector: "action"})
		states := b.In(0)
		y := make([]program.Value, len(measurement.Outputs))
		for i := range y {
			y[i] = states[measurement.State(i)]
		}
		return b.Function([]program.Argument{{Name: "y", Size: len(y)}}, y), nil
	}
	source := p.system.Source
	if source == nil {
		return nil, errUnreadOutputs
	}
	f, err := source.outputs(p, g)
	if err != nil {
		return nil, err
	}
	return f, p.compareOutputs(f, measurement)
}

var errUnreadOutputs = errors.New("what its Measurement measures is a function whose text is not known, want equations.From the embedded files as the Source")

// outputs traces Measurement.Real.
func (k goText) outputs(p *Problem, g signature) (*program.Function, error) {
	system, err := k.run()
	if err != nil {
		return nil, err
	}
	f, err := system.Field(g.field)
	if err != nil {
		return nil, fmt.Errorf("the source's %w", err)
	}
	if f == nil {
		return nil, errors.New("the source has no Measurement.Real: is it the source of this system?")
	}
	traced, err := p.trace(f, g)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.field, err)
	}
	return traced, nil
}

// compareOutputs compares the function that was read with the original, at random points.
func (p *Problem) compareOutputs(read *program.Function, measurement *domain.Measurement) error {
	computed, expected := make([]float64, read.Results()), make([]float64, read.Results())
	rng := rand.New(rand.NewPCG(5, 0x6f757470757473)) // "outputs"
	for range 100 {
		point := p.sample(rng)
		s, c, u := point.s, point.c, point.u
		in := slices.Concat(s, c, u)
		measurement.Real(s, c, u, expected)
		read.Evaluate(in, computed)
		for i, w := range expected {
			if !agrees(computed[i], w) {
				return fmt.Errorf("Measurement.Real as it was read writes %v into entry %d, the function %v, for %v: does it depend on what is not an argument, or is it another Measurement than the source's?",
					computed[i], i, w, in)
			}
		}
	}
	return nil
}

// run calls the function of the source that makes the System.
func (k goText) run() (*gotrace.Object, error) {
	pkg, err := gotrace.Load(k.main, append([]gotrace.Source{{Path: dualPath, Files: dual.Source}}, k.imports...)...)
	if err != nil {
		return nil, err
	}
	return pkg.Run(k.function, k.args...)
}
