package equations

import (
	"slices"

	"github.com/gpc-engine/gpc/equations/program"
)

// gainSource is the source of a system whose actuators have gains: the program of the system without them, rewritten.
type gainSource struct {
	of System // without these gains, with a source of its own
	// constants are the gains of a plant; nil: they are entries of the context behind own others, and the last of the scenario.
	constants       []float64
	own, parameters int
}

// withGains is the Source of y with such gains; nil where y has none.
func (y *System) withGains(k gainSource) *Source {
	if y.Source == nil {
		return nil
	}
	k.of, k.own, k.parameters = *y, len(y.Context), len(y.Scenario)
	k.of.Soft, k.of.Rates = nil, nil // which are of the system with these gains
	return &Source{&k}
}

// read is the program of p, which is k.of with the gains.
func (k *gainSource) read(p *Problem) (*program.Program, error) {
	plain, err := New(k.of)
	if err != nil {
		return nil, err
	}
	integrated := k.of.ODE != nil || k.of.Stiff != nil
	return p.rewriteProgram(plain, func(read *program.Program, g signature) *program.Function {
		f := read.Function(g.name)
		if f == nil {
			return nil
		}
		return k.rewrite(g, f, g.name == odeFunction || g.name == stepFunction && !integrated)
	})
}

// outputs of a system with gains are not known.
func (k *gainSource) outputs(*Problem, signature) (*program.Function, error) {
	return nil, errUnreadOutputs
}

// rewrite is f as a function of g's arguments. moves: it takes what acts in the place of an action.
func (k *gainSource) rewrite(g signature, f *program.Function, moves bool) *program.Function {
	in, out := g.arguments()
	b := program.NewBuilder(g.name, in...)
	var inputs, gains []program.Value
	for _, v := range k.constants {
		gains = append(gains, b.Const(v))
	}
	for i, a := range in {
		v := b.In(i)
		switch {
		case a.Of == "context" && k.constants == nil:
			gains, v = k.gainsOf(v)
		case a.Of == "scenario" && k.constants == nil:
			gains, v = v[k.parameters:], v[:k.parameters]
		case a.Of == "action" && moves:
			for n := range v {
				v[n] = b.Apply(program.Mul, gains[n], v[n])
			}
		}
		inputs = append(inputs, v...)
	}
	results := b.Inline(f, inputs)
	at := 0
	for _, a := range out {
		if a.Of == "context" && k.constants == nil {
			results = slices.Insert(results, at+k.own, gains...)
		}
		at += a.Size
	}
	return b.Function(out, results)
}

// gainsOf are the gains in a context, and what else is in it.
func (k *gainSource) gainsOf(c []program.Value) (gains, rest []program.Value) {
	n := len(k.of.Action)
	return c[k.own : k.own+n], slices.Concat(c[:k.own], c[k.own+n:])
}
