package equations

import (
	"errors"
	"slices"

	"github.com/gpc-engine/gpc/equations/program"
)

// read is the program of p: k.inner with Soft and Rates.
func (k *declared) read(p *Problem) (*program.Program, error) {
	inner, err := k.innerProblem()
	if err != nil {
		return nil, err
	}
	return p.rewriteProgram(inner, func(read *program.Program, g signature) *program.Function {
		f := read.Function(g.name)
		if f == nil && g.name != marginsFunction || g.name == marginsFunction && len(p.system.Margins) == 0 {
			return nil
		}
		return k.rewrite(p, read, g, f)
	})
}

// rewriting is a function in the making: its arguments by their names, what the inner function f gets of them, and the
// results of f.
type rewriting struct {
	b               *program.Builder
	out             []program.Argument
	arguments       map[string][]program.Value
	inputs, results []program.Value
	action          int // where the action begins in inputs
}

// rewriting begins a function with g's arguments. f, nil for none, gets the first nc entries of the context.
func (g *signature) rewriting(f *program.Function, nc int) rewriting {
	in, out := g.arguments()
	w := rewriting{b: program.NewBuilder(g.name, in...), out: out, arguments: map[string][]program.Value{}}
	for i, a := range in {
		v := w.b.In(i)
		w.arguments[a.Name] = v
		switch a.Vector {
		case "context":
			v = v[:nc]
		case "action":
			w.action = len(w.inputs)
		}
		w.inputs = append(w.inputs, v...)
	}
	if f != nil {
		w.results = slices.Clone(w.b.Inline(f, w.inputs))
	}
	return w
}

// rewrite is f, of the program read, with g's arguments. f is nil for margins of rates alone.
func (k *declared) rewrite(p *Problem, read *program.Program, g signature, f *program.Function) *program.Function {
	w := g.rewriting(f, k.ownContext)
	b, arguments, results := w.b, w.arguments, w.results
	switch g.name {
	case stepFunction:
		for _, a := range k.limited {
			results = append(results, arguments["u"][a])
		}
	case initialFunction:
		for _, a := range k.limited {
			results = append(results, b.Const(p.system.Rest[a]))
		}
	case objectivesFunction:
		if len(k.soft) > 0 {
			margins, penalty := b.Inline(read.Function(marginsFunction), w.inputs), b.Const(0)
			for _, limit := range k.soft {
				penalty = b.Apply(program.Add, penalty, softPenalty(instructions{b}, limit, margins[limit.margin]))
			}
			for i, j := range results {
				results[i] = b.Apply(program.Add, j, penalty)
			}
		}
	case marginsFunction:
		margins := results
		results = nil
		for _, margin := range k.hard {
			results = append(results, margins[margin])
		}
		for i, a := range k.limited {
			rate, change := b.Const(k.rate[i]), b.Apply(program.Sub, arguments["u"][a], arguments["c"][k.ownContext+i])
			results = append(results, b.Apply(program.Sub, rate, change), b.Apply(program.Add, rate, change))
		}
	case escapeFunction:
		for i, a := range k.limited {
			rate, previous := b.Const(k.rate[i]), arguments["c"][k.ownContext+i]
			upper, lower := b.Apply(program.Add, previous, rate), b.Apply(program.Sub, previous, rate)
			results[a] = b.Apply(program.Max, lower, b.Apply(program.Min, upper, results[a]))
		}
	}
	return b.Function(w.out, results)
}

// outputs is the function of inner's Measurement with p's context.
func (k *declared) outputs(p *Problem, _ signature) (*program.Function, error) {
	if k.inner.Measurement == nil {
		return nil, errors.New("the system has no Measurement of its own, whose text is known")
	}
	inner, err := k.innerProblem()
	if err != nil {
		return nil, err
	}
	return p.outputsOf(inner)
}

// outputsOf is the function of the outputs of an inner problem with p's context, whose first entries are those of inner's.
func (p *Problem) outputsOf(inner *Problem) (*program.Function, error) {
	f, err := inner.outputFunction(inner.system.Measurement)
	if err != nil {
		return nil, err
	}
	in := slices.Clone(f.Inputs())
	in[1].Size = len(p.spec.Context)
	b := program.NewBuilder(f.Name(), in...)
	return b.Function(f.Outputs(), b.Inline(f, slices.Concat(b.In(0), b.In(1)[:inner.spec.ContextSize()], b.In(2)))), nil
}

// OwnProgram is the program of the original functions, without Soft, Rates and Switches.
func (p *Problem) OwnProgram() (*program.Program, error) {
	if p.switching != nil {
		return p.switching.inner.OwnProgram()
	}
	if p.declared == nil {
		return p.Program()
	}
	inner, err := p.declared.innerProblem()
	if err != nil {
		return nil, err
	}
	return inner.Program()
}
