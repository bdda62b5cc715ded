package equations

import (
	"slices"

	"github.com/gpc-engine/gpc/equations/program"
)

// gainSource is the source of a system with actuator gains: the rewritten program of the system without them.
type gainSource struct {
	inner System // without these gains, with its own source
	// constants are the gains of a plant. nil: gains are context entries after nc others, and the last scenario
	// parameters.
	constants      []float64
	nc, parameters int
}

// withGains is the Source of y with gains; nil without a Source.
func (y *System) withGains(k gainSource) *Source {
	if y.Source == nil {
		return nil
	}
	k.inner, k.nc, k.parameters = *y, len(y.Context), len(y.Scenario)
	k.inner.Soft, k.inner.Rates, k.inner.Switches = nil, nil, nil // they belong to the system with gains
	return &Source{&k}
}

// read is the program of p: that of inner with gains.
func (k *gainSource) read(p *Problem) (*program.Program, error) {
	inner, err := New(k.inner)
	if err != nil {
		return nil, err
	}
	integrated := k.inner.ODE != nil || k.inner.Stiff != nil
	return p.rewriteProgram(inner, func(read *program.Program, g signature) *program.Function {
		f := read.Function(g.name)
		if f == nil {
			return nil
		}
		return k.rewrite(g, f, g.name == odeFunction || g.name == stepFunction && !integrated)
	})
}

// outputs has no text for a system with gains.
func (k *gainSource) outputs(*Problem, signature) (*program.Function, error) {
	return nil, errUnreadOutputs
}

// rewrite is f with g's arguments. With applyGains it multiplies the action by the gains.
func (k *gainSource) rewrite(g signature, f *program.Function, applyGains bool) *program.Function {
	in, out := g.arguments()
	b := program.NewBuilder(g.name, in...)
	var inputs, gains []program.Value
	for _, v := range k.constants {
		gains = append(gains, b.Const(v))
	}
	for i, a := range in {
		v := b.In(i)
		switch {
		case a.Vector == "context" && k.constants == nil:
			gains, v = k.splitContext(v)
		case a.Vector == "scenario" && k.constants == nil:
			gains, v = v[k.parameters:], v[:k.parameters]
		case a.Vector == "action" && applyGains:
			for n := range v {
				v[n] = b.Apply(program.Mul, gains[n], v[n])
			}
		}
		inputs = append(inputs, v...)
	}
	results := b.Inline(f, inputs)
	offset := 0
	for _, a := range out {
		if a.Vector == "context" && k.constants == nil {
			results = slices.Insert(results, offset+k.nc, gains...)
		}
		offset += a.Size
	}
	return b.Function(out, results)
}

// splitContext splits a context into gains and other entries.
func (k *gainSource) splitContext(c []program.Value) (gains, rest []program.Value) {
	n := len(k.inner.Action)
	return c[k.nc : k.nc+n], slices.Concat(c[:k.nc], c[k.nc+n:])
}
