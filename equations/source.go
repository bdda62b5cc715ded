package equations

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/internal/gotrace"
)

// Source holds the Go text of a system's functions. It is read as a program, which is differentiated exactly and
// exported to other languages. A binary carries it:
//
//	//go:embed *.go
//	var source embed.FS
//
// The compiler embeds the files that it compiles, so the two cannot differ. From names the function that makes the
// System.
type Source struct{ sourceText }

// sourceText is the text of a problem's functions: Go text, a program, or the system that this one was made of.
type sourceText interface {
	// read is the program of p.
	read(p *Problem) (*program.Program, error)
	// outputs is the function g of p, of the outputs of its Measurement.
	outputs(p *Problem, g signature) (*program.Function, error)
}

// Given is the source of a system that evaluates a program; Program returns that.
func Given(p *program.Program) *Source { return &Source{givenProgram{p}} }

// givenProgram is an existing program.
type givenProgram struct{ program *program.Program }

func (k givenProgram) read(*Problem) (*program.Program, error) { return k.program, nil }

func (k givenProgram) outputs(_ *Problem, g signature) (*program.Function, error) {
	if f := k.program.Function(g.name); f != nil {
		return f, nil
	}
	return nil, errUnreadOutputs
}

// goText holds the Go files of a package and of its imports.
type goText struct {
	main     gotrace.Source
	imports  []gotrace.Source
	function string // makes the System
	args     []any
}

// From is the source of the System that a function of these files returns, given its arguments, each an int or a
// float64. The files are those of one package, at the root of the file system.
func From(files fs.FS, function string, args ...any) *Source {
	return &Source{goText{main: gotrace.Source{Path: "system", Files: files}, function: function, args: slices.Clone(args)}}
}

// With adds a package that the equations import, by its path. Packages that it imports come before it. It panics
// where the source is not one of From.
func (s *Source) With(path string, files fs.FS) *Source {
	extended := s.sourceText.(goText)
	extended.imports = append(slices.Clone(extended.imports), gotrace.Source{Path: path, Files: files})
	return &Source{extended}
}

const dualPath = "github.com/gpc-engine/gpc/equations/dual"

// scatter is the distance from starts at which a program is compared with the functions, as a share of the state's
// sizes.
const scatter = 0.3

// Names of the functions of a system's program.
const (
	odeFunction        = "ode"
	stepFunction       = "step"
	objectivesFunction = "objectives"
	marginsFunction    = "margins"
	escapeFunction     = "escape"
	initialFunction    = "initial"
	urgencyFunction    = "urgency"
	failedFunction     = "failed"
)

// Program reads the system's functions from its Source. ode is that of ODE or Stiff; the others have the names above.
// Text that cannot be followed is an error with file and line. Program compares the result with the functions at
// random starts and actions. They differ, for example, where a variable has changed.
func (y System) Program() (*program.Program, error) {
	if y.Source == nil {
		return nil, y.noSource()
	}
	p, err := New(y)
	if err != nil {
		return nil, err
	}
	return p.Program()
}

// noSource is the error of a system without a Source.
func (y *System) noSource() error {
	return fmt.Errorf("system %q: Source is nil, want equations.From the embedded files", y.Name)
}

// Program is that of the System, read once.
func (p *Problem) Program() (*program.Program, error) { return p.program() }

// readProgram reads the source and compares it with the functions.
func (p *Problem) readProgram() (*program.Program, error) {
	if p.system.Source == nil {
		return nil, p.system.noSource()
	}
	read, err := p.system.Source.read(p)
	if err == nil {
		err = read.Validate()
	}
	if err == nil {
		err = p.compare(read)
	}
	if err != nil {
		return nil, fmt.Errorf("system %q: %w", p.system.Name, err)
	}
	return read, nil
}

// parameter is a parameter of a function: an input, an output, or both.
type parameter struct {
	name, vector string
	size         int
	input        bool
	output       bool
	initialised  string // of an output: the input that it starts from
}

// signature is a function of System.
type signature struct {
	name, field string
	parameters  []parameter
	returns     bool // a condition
}

// signatures are those of the system's functions, with the vectors of their parameters.
func (p *Problem) signatures() (vectors []program.Vector, list []signature) {
	y := &p.system
	vector := func(name string, entries []string) int {
		vectors = append(vectors, program.Vector{Name: name, Entries: entries})
		return len(entries)
	}
	ns := vector("state", domain.Names(y.State))
	nc := vector("context", domain.Names(p.spec.Context))
	nu := vector("action", domain.Names(y.Action))
	nj := vector("objectives", domain.Names(y.Objectives))
	nm := vector("margins", domain.Names(y.Margins))
	np := vector("scenario", domain.Names(y.Scenario))
	in := func(name, entries string, size int) parameter {
		return parameter{name: name, vector: entries, size: size, input: true}
	}
	out := func(name, entries string, size int) parameter {
		return parameter{name: name, vector: entries, size: size, output: true}
	}
	s, c, u := in("s", "state", ns), in("c", "context", nc), in("u", "action", nu)
	n := in("sNext", "state", ns)
	j, m := out("j", "objectives", nj), out("m", "margins", nm)
	cNext := out("cNext", "context", nc)
	cNext.initialised = "c"
	ode := signature{name: odeFunction, field: "ODE.Real", parameters: []parameter{s, c, u, out("ds", "state", ns)}}
	next := n
	switch {
	case y.Stiff != nil:
		ode.field = "Stiff.ODE"
	case y.ODE == nil:
		ode.name = ""
		next = out("sNext", "state", ns)
	}
	clock := out("c", "context", nc)
	return vectors, []signature{
		ode, {name: stepFunction, field: "Real.Step", parameters: []parameter{s, c, u, next, cNext}},
		{name: objectivesFunction, field: "Real.Objectives", parameters: []parameter{s, c, u, n, j}},
		{name: marginsFunction, field: "Real.Margins", parameters: []parameter{s, c, u, n, m}},
		{name: escapeFunction, field: "Real.Escape", parameters: []parameter{s, c, out("u", "action", nu)}},
		{name: initialFunction, field: "Initial", parameters: []parameter{in("p", "scenario", np), out("s", "state", ns), clock}},
		{name: urgencyFunction, field: "Urgency", parameters: []parameter{s, c, out("delta", "objectives", nj)}},
		{name: failedFunction, field: "Failed", parameters: []parameter{s, c}, returns: true},
	}
}

// rewriteProgram makes the program of p from that of an inner system, function by function. It leaves out the nil
// results of f.
func (p *Problem) rewriteProgram(inner *Problem, f func(read *program.Program, g signature) *program.Function) (*program.Program, error) {
	read, err := inner.system.Source.read(inner)
	if err != nil {
		return nil, err
	}
	vectors, list := p.signatures()
	out := &program.Program{Name: p.spec.Name, Vectors: vectors}
	for _, g := range list {
		if rewritten := f(read, g); rewritten != nil {
			out.Functions = append(out.Functions, rewritten)
		}
	}
	return out, nil
}

// read traces the functions.
func (k goText) read(p *Problem) (*program.Program, error) {
	system, err := k.run()
	if err != nil {
		return nil, err
	}
	vectors, list := p.signatures()
	out := &program.Program{Name: p.spec.Name, Vectors: vectors}
	for _, g := range list {
		if g.name == "" {
			continue
		}
		f, err := system.Field(g.field)
		if err != nil {
			return nil, fmt.Errorf("the source's %w", err)
		}
		if f == nil && g.name == stepFunction && (p.system.ODE != nil || p.system.Stiff != nil) {
			out.Functions = append(out.Functions, p.constantContextStep(g))
		}
		if f == nil {
			continue
		}
		traced, err := p.trace(f, g)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.field, err)
		}
		out.Functions = append(out.Functions, traced)
	}
	return out, nil
}

// constantContextStep is the step of a context in which only a clock changes.
func (p *Problem) constantContextStep(g signature) *program.Function {
	var in []program.Argument
	for _, a := range g.parameters[:4] {
		in = append(in, program.Argument{Name: a.name, Size: a.size, Vector: a.vector})
	}
	b := program.NewBuilder(g.name, in...)
	c := b.In(1)
	if p.clock >= 0 {
		c[p.clock] = b.Apply(program.Add, c[p.clock], b.Const(p.tick()))
	}
	return b.Function([]program.Argument{{Name: "cNext", Size: len(c), Vector: "context"}}, c)
}

// arguments are the inputs and outputs of the program's function.
func (g *signature) arguments() (in, out []program.Argument) {
	for _, a := range g.parameters {
		if a.input {
			in = append(in, program.Argument{Name: a.name, Size: a.size, Vector: a.vector})
		}
		if a.output {
			out = append(out, program.Argument{Name: a.name, Size: a.size, Vector: a.vector})
		}
	}
	if g.returns {
		out = []program.Argument{{Name: g.name, Size: 1}}
	}
	return in, out
}

func (p *Problem) trace(f *gotrace.Object, g signature) (*program.Function, error) {
	in, out := g.arguments()
	b := program.NewBuilder(g.name, in...)
	arguments := map[string][]program.Value{}
	for k, a := range in {
		arguments[a.Name] = b.In(k)
	}
	names, args := []string{}, [][]gotrace.Entry{}
	for _, a := range g.parameters {
		names = append(names, a.name)
		switch {
		case a.input:
			args = append(args, gotrace.Values(arguments[a.name]))
		case a.initialised != "":
			args = append(args, gotrace.Values(arguments[a.initialised]))
		case g.name == initialFunction && a.name == "c": // the context starts at zero
			args = append(args, gotrace.Values(slices.Repeat([]program.Value{b.Const(0)}, a.size)))
		default:
			args = append(args, make([]gotrace.Entry, a.size))
		}
	}
	finals, returned, err := f.Trace(b, names, args...)
	if err != nil {
		return nil, err
	}
	var results []program.Value
	for k, a := range g.parameters {
		for i, e := range finals[k] {
			v, ok := e.Written()
			if !ok {
				return nil, fmt.Errorf("it does not write %s[%d]", a.name, i)
			}
			if a.output {
				if g.name == initialFunction && a.name == "c" && i == p.clock {
					v = b.Const(0)
				}
				if g.name == stepFunction && a.name == "cNext" && i == p.clock {
					v = b.Apply(program.Add, arguments["c"][i], b.Const(p.tick()))
				}
				results = append(results, v)
			} else if v != arguments[a.name][i] {
				return nil, fmt.Errorf("it changes %s[%d], an input, which it may only read", a.name, i)
			}
		}
	}
	if g.returns {
		results = []program.Value{returned}
	}
	return b.Function(out, results), nil
}

// compare compares a program with the functions of the system at random points.
func (p *Problem) compare(read *program.Program) error {
	rng := rand.New(rand.NewPCG(3, 0x70726f6772616d)) // "program"
	for range 100 {
		if err := p.compareAt(read, p.sample(rng)); err != nil {
			return err
		}
	}
	return nil
}

// samplePoint is a random point at which a program is compared with the functions.
type samplePoint struct {
	parameters []float64 // of a scenario
	initial    []float64 // state and context of its start
	s, c, u    []float64 // near the start
}

// sample draws a point.
func (p *Problem) sample(rng *rand.Rand) samplePoint {
	parameters, u := make([]float64, len(p.system.Scenario)), make([]float64, len(p.spec.Action))
	s, c := make([]float64, len(p.spec.Measured)), make([]float64, len(p.spec.Context))
	domain.DrawScenario(rng, p.system.Scenario, parameters)
	p.initial(parameters, s, c)
	initial := slices.Concat(s, c)
	for i, a := range p.spec.Action {
		u[i] = rng.NormFloat64()
		if a.Bounded() {
			u[i] = a.Draw(rng)
		}
	}
	if p.system.snapAction != nil {
		p.system.snapAction(u)
	}
	for i, size := range p.system.StateScale {
		s[i] += scatter * size * rng.NormFloat64()
	}
	if clock := rng.Float64(); p.clock >= 0 {
		c[p.clock] = clock
	}
	return samplePoint{parameters, initial, s, c, u}
}

// agrees reports whether a program and the function give the same number. Processors that fuse products and sums
// round the two differently.
func agrees(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-9*(1+math.Abs(b))
}

func (p *Problem) compareAt(read *program.Program, point samplePoint) error {
	y := &p.system
	s, c, u := point.s, point.c, point.u
	next, nextContext := make([]float64, len(s)), slices.Clone(c)
	advance(p, &y.Real, s, c, u, next, nextContext)
	j, delta := make([]float64, len(y.Objectives)), make([]float64, len(y.Objectives))
	m, escape := make([]float64, len(y.Margins)), make([]float64, len(u))
	y.Real.Objectives(s, c, u, next, j)
	var ds, step []float64
	arguments := slices.Concat(s, c, u)
	switch {
	case y.ODE != nil:
		ds, step, arguments = make([]float64, len(s)), nextContext, slices.Concat(s, c, u, next)
		y.ODE.Real(s, c, u, ds)
	case y.Stiff != nil:
		z := make([]complex128, len(s)+len(c)+len(u)+len(s))
		domain.Constants(z, slices.Concat(s, c, u))
		y.Stiff.ODE(z[:len(s)], z[len(s):len(s)+len(c)], z[len(s)+len(c):len(z)-len(s)], z[len(z)-len(s):])
		for _, v := range z[len(z)-len(s):] {
			ds = append(ds, real(v))
		}
		step, arguments = nextContext, slices.Concat(s, c, u, next)
	default:
		step = slices.Concat(next, nextContext)
	}
	if y.Real.Margins != nil {
		y.Real.Margins(s, c, u, next, m)
	}
	if y.Real.Escape != nil {
		y.Real.Escape(s, c, escape)
	}
	if y.Urgency != nil {
		y.Urgency(s, c, delta)
	}
	failed := 0.0
	if p.Failed(s, c) {
		failed = 1
	}
	transition := slices.Concat(s, c, u, next)
	for _, f := range []struct {
		name         string
		exists       bool
		in, expected []float64
	}{
		{odeFunction, y.ODE != nil || y.Stiff != nil, slices.Concat(s, c, u), ds}, {stepFunction, true, arguments, step},
		{objectivesFunction, true, transition, j}, {marginsFunction, y.Real.Margins != nil, transition, m},
		{escapeFunction, y.Real.Escape != nil, slices.Concat(s, c), escape}, {initialFunction, true, point.parameters, point.initial},
		{urgencyFunction, y.Urgency != nil, slices.Concat(s, c), delta}, {failedFunction, y.Failed != nil, slices.Concat(s, c), []float64{failed}},
	} {
		g := read.Function(f.name)
		if (g != nil) != f.exists {
			return fmt.Errorf("only one of source and system has a function %s: is it the source of this system?", f.name)
		}
		if g == nil {
			continue
		}
		if g.Entries() != len(f.in) || g.Results() != len(f.expected) {
			return errors.New("the source is that of another system: " + f.name + " has other sizes")
		}
		computed := make([]float64, len(f.expected))
		g.Evaluate(f.in, computed)
		for i, expected := range f.expected {
			if !agrees(computed[i], expected) {
				return fmt.Errorf("%s as its source says gives %v for entry %d, the function itself %v, at %v: does it depend on a value that is not an argument, or is it the source of another system?",
					f.name, computed[i], i, expected, f.in)
			}
		}
	}
	return nil
}
