package equations

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
	"github.com/gpc-engine/gpc/internal/simd/stages"
	"github.com/gpc-engine/gpc/tensor"
)

const (
	// roundingLevels are those of the rounding of corners, each wider than the one before by levelFactor.
	roundingLevels = 8
	levelFactor    = 2.5
)

// valueCode is a system's program compiled for vector lanes, without derivatives.
type valueCode struct {
	system                          stages.System
	level                           isa.Level
	width                           int
	values, margins                 *stages.Code // margins: only with an escape
	compiledValues, compiledMargins *lanes.Compiled
}

// derivativeCode also has derivatives.
type derivativeCode struct {
	*valueCode
	active, constrained              []int
	slopes                           *stages.Code
	priority                         *stages.Function
	compiledSlopes, compiledPriority *lanes.Compiled
}

// NewStages is domain.Derivatives.Stages where the system has a Source. Its error names the source text that cannot
// be followed.
func (p *Problem) NewStages() (domain.Stages, error) {
	if p.system.Source == nil {
		return nil, nil
	}
	code, err := p.derivativeCode()
	if err != nil {
		return nil, err
	}
	w := &workspace{derivativeCode: code, evaluations: p.evaluations(code.valueCode), priorities: code.priority.NewMachine(code.compiledPriority)}
	w.Round(0)
	return w, nil
}

// Rounded is domain.Derivatives.Rounded.
func (p *Problem) Rounded() int {
	if p.system.Source != nil {
		if corners, _ := p.corners(); len(corners) > 0 {
			return roundingLevels
		}
	}
	return 0
}

// compileValues compiles a program of the system's functions without derivatives, if it could be read.
func (p *Problem) compileValues(read *program.Program, err error) (*valueCode, error) {
	if err != nil {
		return nil, err
	}
	y := &p.system
	system := stages.System{Program: read, EscapeSteps: y.EscapeSteps}
	for _, a := range y.Action {
		if a.Bounded() {
			system.Lo, system.Hi = append(system.Lo, a.Lo), append(system.Hi, a.Hi)
		} else {
			system.Lo, system.Hi = append(system.Lo, math.Inf(-1)), append(system.Hi, math.Inf(1))
		}
	}
	switch {
	case y.ODE != nil:
		system.Span, system.Substeps = y.ODE.Span, y.ODE.Substeps
	case y.Stiff != nil:
		system.Span, system.Substeps, system.Implicit = y.Stiff.Span, y.Stiff.Substeps, true
	}
	k := &valueCode{system: system}
	if k.level, err = isa.Choose(); err != nil {
		return nil, err
	}
	k.width = lanes.Widths(k.level)[0]
	k.values, k.compiledValues, err = k.compile(stages.NewValues(system))
	if err == nil && y.EscapeSteps > 0 {
		k.margins, k.compiledMargins, err = k.compile(stages.NewMargins(system))
	}
	return k, err
}

// compile compiles code, if it could be made.
func (k *valueCode) compile(code *stages.Code, failure error) (_ *stages.Code, compiled *lanes.Compiled, err error) {
	if err = failure; err == nil {
		compiled, err = code.Compile(k.level, k.width)
	}
	if err != nil {
		err = fmt.Errorf("system %q: %w", k.system.Program.Name, err)
	}
	return code, compiled, err
}

// compileDerivatives compiles the code that all workspaces share.
func (p *Problem) compileDerivatives() (*derivativeCode, error) {
	read, err := p.round()
	if err != nil {
		return nil, err
	}
	values, err := p.valueCode()
	if err == nil && values.system.Program != read {
		values, err = p.compileValues(read, nil)
	}
	if err != nil {
		return nil, err
	}
	y, system := &p.system, values.system
	k := &derivativeCode{valueCode: values}
	if k.active, err = system.Moving(); err == nil {
		k.constrained, err = system.Limiting()
	}
	if err != nil {
		return nil, fmt.Errorf("system %q: %w", y.Name, err)
	}
	var columns []int
	for i := range y.Action {
		columns = append(columns, len(p.spec.Measured)+len(p.spec.Context)+i)
	}
	if k.slopes, k.compiledSlopes, err = k.compile(stages.New(system, append(columns, k.active...))); err != nil {
		return nil, err
	}
	k.priority = stages.NewFunction(p.priority(read), k.active)
	if k.compiledPriority, err = k.priority.Compile(k.level, k.width); err != nil {
		return nil, fmt.Errorf("system %q: %w", y.Name, err)
	}
	return k, nil
}

// findCorners are the corners of the system's functions, by their names.
func (p *Problem) findCorners() (map[string]*program.Corners, error) {
	read, err := p.program()
	if err != nil {
		return nil, err
	}
	corners := map[string]*program.Corners{}
	for _, f := range read.Functions {
		switch f.Name() {
		case odeFunction, stepFunction, objectivesFunction, marginsFunction:
		default:
			continue
		}
		var free []bool
		for _, a := range f.Inputs() {
			free = append(free, slices.Repeat([]bool{a.Name != "c"}, a.Size)...)
		}
		draw := func(rng *rand.Rand, distant bool) (inputs []float64) {
			point, next := p.sample(rng), p.sample(rng).s
			for i, v := range p.spec.Measured { // far away is in the range, or up to a hundred sizes from a start
				for _, s := range [2][]float64{point.s, next} {
					switch {
					case distant && v.Bounded():
						s[i] = v.Lo + (v.Hi-v.Lo)*(1.2*rng.Float64()-0.1)
					case distant:
						s[i] += p.system.StateScale[i] * math.Pow(100, rng.Float64()) * rng.NormFloat64()
					}
				}
			}
			for _, a := range f.Inputs() {
				inputs = append(inputs, map[string][]float64{"s": point.s, "c": point.c, "u": point.u, "sNext": next}[a.Name]...)
			}
			return inputs
		}
		if c := f.Corners(draw, free, f.Name() == marginsFunction); c != nil {
			corners[f.Name()] = c
		}
	}
	return corners, nil
}

// round is the program that a solver follows, whose slopes do not jump where those of the system's functions do. Functions
// with corners have the input program.Rounding.
func (p *Problem) round() (*program.Program, error) {
	corners, err := p.corners()
	if err != nil {
		return nil, err
	}
	read, err := p.program()
	if err != nil || len(corners) == 0 {
		return read, err
	}
	rounded := *read
	rounded.Functions = slices.Clone(read.Functions)
	for i, f := range read.Functions {
		if c := corners[f.Name()]; c != nil {
			rounded.Functions[i] = c.Round()
		}
	}
	return &rounded, nil
}

// priority is the adaptive priority as a function of (s, c): Semantic.Priority of Indicators. It is rounded as the objectives.
func (p *Problem) priority(read *program.Program) *program.Function {
	y, nj, objectives := &p.system, len(p.spec.Objectives), read.Function(objectivesFunction)
	b := program.NewBuilder("priority", append([]program.Argument{{Name: "s", Size: len(p.spec.Measured)}, {Name: "c", Size: len(p.spec.Context)}}, objectives.Inputs()[4:]...)...)
	s, c := b.In(0), b.In(1)
	var urgency []program.Value
	if f := read.Function(urgencyFunction); f != nil {
		urgency = b.Inline(f, slices.Concat(s, c))
	} else {
		var rest []program.Value
		for _, v := range y.Rest {
			rest = append(rest, b.Const(v))
		}
		inputs := slices.Concat(s, c, rest, s)
		if len(objectives.Inputs()) > 4 {
			inputs = append(inputs, b.In(2)...)
		}
		for i, j := range b.Inline(objectives, inputs) {
			j = b.Apply(program.Max, b.Const(0), j)
			urgency = append(urgency, b.Apply(program.Div, j, b.Apply(program.Add, j, b.Const(y.ObjectiveScale[i]))))
		}
	}
	m := p.spec.Semantic
	top := b.Const(0)
	for i, d := range urgency {
		urgency[i] = b.Apply(program.Div, b.Apply(program.Mul, b.Const(m.K[i]), d), b.Const(m.Epsilon[i]))
		top = b.Apply(program.Max, top, urgency[i])
	}
	// σ does not depend on the common divisor.
	top = b.Apply(program.Detach, top)
	scale := b.Apply(program.Exp, b.Apply(program.Neg, top))
	sigma, sum := make([]program.Value, nj), b.Const(0)
	for i, d := range urgency {
		e := b.Apply(program.Exp, b.Apply(program.Sub, d, top))
		sigma[i] = b.Apply(program.Add, b.Apply(program.Sub, e, scale), b.Apply(program.Mul, b.Const(m.Rho), scale))
		sum = b.Apply(program.Add, sum, sigma[i])
	}
	for i := range sigma {
		sigma[i] = b.Apply(program.Div, sigma[i], sum)
	}
	return b.Function([]program.Argument{{Name: "sigma", Size: nj}}, sigma)
}

// manyMargins is domain.ProblemAbilities.ManyMargins of a system with a Source. Without an escape the roll-out knows
// an action's margins, those of the next state. Without vector instructions the functions are faster.
func (p *Problem) manyMargins() func() (domain.ManyMargins, error) {
	if p.system.Source == nil || p.system.EscapeSteps == 0 {
		return nil
	}
	return func() (domain.ManyMargins, error) {
		code, err := p.valueCode()
		if err != nil || code.level == isa.Generic {
			return nil, err
		}
		return &limits{problem: p, machine: code.margins.NewMachine(code.compiledMargins), ns: len(p.spec.Measured), nx: len(p.spec.Measured) + len(p.spec.Context),
			nm: len(p.spec.Margins)}, nil
	}
}

// limits implements domain.ManyMargins.
type limits struct {
	problem    *Problem
	machine    *stages.Machine
	ns, nx, nm int
}

func (l *limits) Most() int { return l.machine.Lanes() }

func (l *limits) Evaluate(n int, x, u, next, margins []float64) {
	l.machine.Set(n, x, u)
	l.machine.SetNext(n, next)
	l.machine.Linearise()
	l.machine.Values(n, nil, nil, margins)
	for i := range n {
		subtractBackoff(l.problem, clockReading(l.problem, row(x, l.nx, i)[l.ns:]), row(margins, l.nm, i))
	}
}

// evaluations evaluates decisions in the lanes of one machine.
type evaluations struct {
	problem                         *Problem
	values                          *stages.Machine
	ns, nx, nu, nj, nm, stepMargins int // each: margins of one step
}

func (p *Problem) evaluations(code *valueCode) evaluations {
	return evaluations{
		problem: p, values: code.values.NewMachine(code.compiledValues), ns: len(p.spec.Measured), nx: len(p.spec.Measured) + len(p.spec.Context),
		nu: len(p.spec.Action), nj: len(p.spec.Objectives), nm: len(p.spec.Margins), stepMargins: len(p.system.Margins),
	}
}

// workspace implements domain.Stages. Each set of lanes keeps the results of Linearise for Curvature.
type workspace struct {
	*derivativeCode
	evaluations
	sets         []*stages.Machine
	rounding     float64
	n            int // decisions of the last Linearise
	priorities   *stages.FunctionMachine
	x            []float64 // of the last Priority
	activeSlopes []float64
	z            []float64
}

// Moving implements domain.Stages, as the methods below do.
func (w *workspace) Moving() []int   { return w.active }
func (w *workspace) Limiting() []int { return w.constrained }

func (w *workspace) Round(level int) {
	w.rounding = math.Pow(levelFactor, float64(level))
	w.values.Round(w.rounding)
	w.priorities.Round(w.rounding)
	for _, m := range w.sets {
		m.Round(w.rounding)
	}
}

func row(values []float64, n, i int) []float64 { return values[i*n : (i+1)*n] }

// load writes the n decisions from first on that m has lanes for, and evaluates them.
func (w *evaluations) load(m *stages.Machine, first, n int, x, u []float64) {
	m.Set(n, x[first*w.nx:], u[first*w.nu:])
	m.Linearise()
}

func (w *evaluations) Evaluate(n int, x, u, next, j, margins []float64) {
	for first := 0; first < n; first += w.values.Lanes() {
		some := min(n-first, w.values.Lanes())
		w.load(w.values, first, some, x, u)
		w.store(w.values, first, some, x, next, j, margins)
	}
}

// store writes the values of the n decisions from first on, which the lanes of m hold.
func (w *evaluations) store(m *stages.Machine, first, n int, x, next, j, margins []float64) {
	m.Values(n, next[first*w.nx:], j[first*w.nj:], margins[first*w.nm:])
	if w.problem.backoff == nil {
		return
	}
	for i := first; i < first+n; i++ {
		subtractBackoff(w.problem, clockReading(w.problem, row(x, w.nx, i)[w.ns:]), row(margins, w.nm, i))
	}
}

func (w *workspace) Linearise(n int, x, u, next, j, margins, nextSlopes, objectiveSlopes, marginSlopes []float64) {
	w.n = n
	k := w.nu + len(w.active)
	for set, first := 0, 0; first < n; set++ {
		if set == len(w.sets) {
			w.sets = append(w.sets, w.slopes.NewMachine(w.compiledSlopes))
			w.sets[set].Round(w.rounding)
		}
		m := w.sets[set]
		some := min(n-first, m.Lanes())
		w.load(m, first, some, x, u)
		if next != nil {
			w.store(m, first, some, x, next, j, margins)
		}
		for i := first; i < first+some; i++ {
			m.Slopes(i-first, row(nextSlopes, w.nx*k, i), row(objectiveSlopes, w.nj*k, i), row(marginSlopes, w.nm*k, i))
		}
		first += m.Lanes()
	}
}

func (w *workspace) Curvature(weights, lambda, z []float64, far []bool, h []float64) {
	k := w.nu + len(w.active)
	lambda = lambda[:w.n*w.nx]
	for set, first := 0, 0; first < w.n; set++ {
		m := w.sets[set]
		last := min(w.n, first+m.Lanes())
		steps := 0
		for i := first; i < last; i++ {
			w.z = append(w.z[:0], row(z, w.nm, i)...)
			steps = max(steps, w.escapeSteps(far[i]))
			m.Weigh(i-first, row(weights, w.nj, i), row(lambda, w.nx, i), w.z)
		}
		m.Curvature(steps)
		for i := first; i < last; i++ {
			m.Hessian(i-first, row(h, k*k, i))
		}
		first = last
	}
}

// escapeSteps is the number of escape steps whose margins have weight in w.z. With far it clears their weights.
func (w *workspace) escapeSteps(far bool) int {
	if w.stepMargins == 0 {
		return 0
	}
	if far {
		clear(w.z[w.stepMargins:])
		return 0
	}
	for steps := w.nm/w.stepMargins - 1; steps > 0; steps-- {
		if !tensor.AllZero(row(w.z, w.stepMargins, steps)) {
			return steps
		}
	}
	return 0
}

// prioritise writes decisions from first on into the lanes of the priority.
func (w *workspace) prioritise(first int) (n int) {
	n = min(w.priorities.Lanes(), len(w.x)/w.nx-first)
	w.priorities.Set(n, w.x[first*w.nx:])
	return n
}

func (w *workspace) Priority(n int, x []float64, prioritySlopes []float64) {
	w.x = append(w.x[:0], x[:n*w.nx]...)
	k, active := w.nu+len(w.active), len(w.active)
	w.activeSlopes = slices.Grow(w.activeSlopes[:0], max(w.nj, active)*active)[:max(w.nj, active)*active]
	for first := 0; first < n; first += w.priorities.Lanes() {
		loaded := w.prioritise(first)
		w.priorities.Linearise()
		for lane := range loaded {
			w.priorities.Slopes(lane, w.activeSlopes[:w.nj*active])
			out := row(prioritySlopes, w.nj*k, first+lane)
			for i := range w.nj {
				clear(out[i*k : i*k+w.nu])
				copy(out[i*k+w.nu:], row(w.activeSlopes, active, i))
			}
		}
	}
}

func (w *workspace) PriorityCurvature(j, h []float64) {
	n, k, active := len(w.x)/w.nx, w.nu+len(w.active), len(w.active)
	if active == 0 { // no decision moves what a next one depends on
		clear(h[:n*k*k])
		return
	}
	for first := 0; first < n; first += w.priorities.Lanes() {
		loaded := w.prioritise(first)
		for lane := range loaded {
			w.priorities.Weigh(lane, row(j, w.nj, first+lane))
		}
		w.priorities.Curvature()
		for lane := range loaded {
			w.priorities.Hessian(lane, w.activeSlopes[:active*active])
			hessian := row(h, k*k, first+lane)
			clear(hessian)
			for i := range active {
				copy(hessian[(w.nu+i)*k+w.nu:], row(w.activeSlopes, active, i))
			}
		}
	}
}
