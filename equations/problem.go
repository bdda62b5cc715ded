package equations

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/tensor"
)

// Problem is a System as a domain.Problem.
type Problem struct {
	system   System // with Soft, Rates and Switches applied to its functions
	original System
	spec     domain.Spec
	clock    int       // its index in the context; −1: infinite horizon, no clock
	half     []float64 // half width of each action's box; 1 without a box
	works    sync.Pool
	// constants are System.Constants as JSON, nil for none; behaviour is a digest of the functions' outputs at random
	// starts and actions.
	constants, behaviour []byte
	declared             *declared    // nil: neither Soft nor Rates
	switching            *switching   // nil: no Switches
	relaxation           *shareSystem // of a relaxed problem; nil: it is none
	remark               string       // on the integrator; "": none
	program              func() (*program.Program, error)
	corners              func() (map[string]*program.Corners, error)
	valueCode            func() (*valueCode, error)
	derivativeCode       func() (*derivativeCode, error)
	projectionCode       func() (*projectionCode, error)
	stateOnly            []bool    // of each of Margins: it depends on the state alone
	marginSizes          []float64 // of each of Margins: its mean size at random starts and actions
	backoff              *domain.Backoff
	// Of an infinite horizon, by its case's solver; nil: unknown.
	terminalCost     func(s, c []float64, pref domain.Preference) float64
	planTerminalCost func(s, c []float64, steps int, pref domain.Preference) (*domain.Quadratic, bool)
	regulatorMargin  func(s, c []float64, steps int) (float64, bool)
	polish           func(s, c []float64, pref domain.Preference, bounds []domain.Bound, plan []float64, iterations int) bool // by its case's solver; nil: none
}

// Abilities implements domain.Able.
func (p *Problem) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{
		Derivatives: domain.Derivatives{Step: p.StepDual, Objectives: p.ObjectivesDual, Margins: p.MarginsDual, Disturbed: p.MarginsDisturbed, Stages: p.NewStages, Rounded: p.Rounded, Steps: p.NewSteps},
		Fingerprint: p.Fingerprint, Remaining: p.Remaining, Score: p.Score, Failed: p.Failed, Escape: p.Escape,
		MarginsOfState: p.MarginsOfState, Soft: p.softLimits(), ManyMargins: p.manyMargins(), ManyValues: p.manyValues(), TerminalCost: p.TerminalCost, PlanTerminalCost: p.PlanTerminalCost, TerminalMargin: p.TerminalMargin, Picture: p.Picture,
		Polish: p.polish,
	}
}

// work holds the buffers of one call.
type work struct {
	real    path[float64]
	dual    path[complex128]
	m       []float64
	s, c, u []complex128 // inputs of derivatives
	out     []complex128 // objectives or margins
	// Of a projection: the requested action, and the best so far.
	requested, best []float64
	program         leastDistance
	// Of a projection with switches: the request, the best set's action, and the sets.
	request, nearest []float64
	choices, fewer   []choice
}

// path evaluates the functions of the system. It remembers the last step and its margins: a caller of Step asks for
// objectives and margins next, and a projection asks for its margins again.
type path[T dual.Scalar] struct {
	s, c, u, next, nextContext []T // of the last step
	margins                    []T // of the step and of the escape after it, without backoff
	stepValid, marginsValid    bool
	states, contexts           [2][]T // along the escape
	escape                     []T
	equal                      func(a, b []T) bool
}

func newPath[T dual.Scalar](ns, nc, nu, nm int, equal func(a, b []T) bool) path[T] {
	row := func(n int) []T { return make([]T, n) }
	return path[T]{
		s: row(ns), c: row(nc), u: row(nu), next: row(ns), nextContext: row(nc), margins: row(nm),
		states: [2][]T{row(ns), row(ns)}, contexts: [2][]T{row(nc), row(nc)}, escape: row(nu), equal: equal,
	}
}

// sameDualBits is tensor.SameBits of dual numbers: an arctangent may tell the zeros apart.
func sameDualBits(a, b []complex128) bool {
	for i, v := range a {
		if math.Float64bits(real(v)) != math.Float64bits(real(b[i])) || math.Float64bits(imag(v)) != math.Float64bits(imag(b[i])) {
			return false
		}
	}
	return true
}

func (p *Problem) newWork() any {
	ns, nc, nu := len(p.spec.Measured), len(p.spec.Context), len(p.spec.Action)
	nj, nm := len(p.spec.Objectives), len(p.spec.Margins)
	return &work{
		real: newPath(ns, nc, nu, nm, tensor.SameBits), dual: newPath(ns, nc, nu, nm, sameDualBits), m: make([]float64, nm),
		s: make([]complex128, ns), c: make([]complex128, nc), u: make([]complex128, nu), out: make([]complex128, max(nj, nm)),
		program: newLeastDistance(nu, nm+2*nu), requested: make([]float64, nu), best: make([]float64, nu),
	}
}

func (p *Problem) borrow() *work { return p.works.Get().(*work) }

// Spec implements domain.Problem, as do the methods below.
func (p *Problem) Spec() *domain.Spec { return &p.spec }

// Fingerprint is domain.ProblemAbilities.Fingerprint. It covers the Spec, Constants and the digest of the functions'
// outputs, so that an edited equation makes another problem.
func (p *Problem) Fingerprint() [32]byte {
	return p.spec.Fingerprint(slices.Concat(p.constants, p.behaviour))
}

// System is the original system with its optional parts completed.
func (p *Problem) System() System {
	y := p.original
	y.Rest, y.StateScale, y.ObjectiveScale = p.system.Rest, p.system.StateScale, p.system.ObjectiveScale
	return y
}

// Substeps are those of the integrator; 0: there is none.
func (p *Problem) Substeps() int { return p.original.substeps() }

// Finer is the problem with so many times the substeps of its integrator.
func (p *Problem) Finer(factor int) (*Problem, error) {
	return New(p.original.integrated(factor*p.Substeps(), false))
}

// Remarks say what of the system is accepted and may not be meant; nil: nothing.
func (p *Problem) Remarks() []string {
	if p.remark == "" {
		return nil
	}
	return []string{p.remark}
}

// StateScale is the System's, completed where it was nil.
func (p *Problem) StateScale() []float64 { return slices.Clone(p.system.StateScale) }

// Base is Rest.
func (p *Problem) Base(_, _, plan []float64) {
	for len(plan) > 0 {
		plan = plan[copy(plan, p.system.Rest):]
	}
}

// Fallback is Rest, but for switches that may not change now.
func (p *Problem) Fallback(_, c, u []float64) {
	copy(u, p.system.Rest)
	p.spec.HoldSwitches(c, u)
}

// advance is a step of the system and of the clock, if any.
func advance[T dual.Scalar](p *Problem, f *Functions[T], s, c, u, sNext, cNext []T) {
	copy(cNext, c)
	stateStep(p, f, s, c, u, sNext, cNext)
	if p.clock >= 0 {
		cNext[p.clock] = c[p.clock] + dual.Const[T](p.tick())
	}
}

// tick is the clock's increment per step.
func (p *Problem) tick() float64 { return 1 / float64(p.spec.Steps) }

// integrate is the step of ODE or Stiff; false without either.
func integrate[T dual.Scalar](y *System, s, c, u, sNext []T) bool {
	switch {
	case y.ODE != nil:
		dual.Integrate(y.ODE, s, c, u, sNext)
	case y.Stiff != nil:
		dual.Radau(y.Stiff, s, c, u, sNext)
	default:
		return false
	}
	return true
}

// stateStep is the step of ODE or Stiff, then Step, cNext holding c.
func stateStep[T dual.Scalar](p *Problem, f *Functions[T], s, c, u, sNext, cNext []T) {
	integrate(&p.system, s, c, u, sNext)
	if f.Step != nil {
		f.Step(s, c, u, sNext, cNext)
	}
}

// takeStep computes the step of an action, into w.next and w.nextContext.
func takeStep[T dual.Scalar](p *Problem, f *Functions[T], w *path[T], s, c, u []T) {
	if w.stepValid && w.equal(w.s, s) && w.equal(w.c, c) && w.equal(w.u, u) {
		return
	}
	copy(w.s, s)
	copy(w.c, c)
	copy(w.u, u)
	w.stepValid, w.marginsValid = false, false // stays so where a function panics
	advance(p, f, s, c, u, w.next, w.nextContext)
	w.stepValid = true
}

// evaluateObjectives computes the objectives of an action.
func evaluateObjectives[T dual.Scalar](p *Problem, f *Functions[T], w *path[T], s, u, c, j []T) {
	takeStep(p, f, w, s, c, u)
	f.Objectives(s, c, u, w.next, j)
}

// evaluateMargins computes the margins of an action, then those of the escape from the next state.
func evaluateMargins[T dual.Scalar](p *Problem, f *Functions[T], w *path[T], s, c, u, m []T) {
	if len(p.system.Margins) == 0 {
		return
	}
	takeStep(p, f, w, s, c, u)
	if !w.marginsValid {
		systemMargins(p, f, w, s, c, u, w.margins)
		w.marginsValid = true
	}
	copy(m, w.margins)
	subtractBackoff(p, clockReading(p, c), m)
}

// systemMargins writes the margins of the path's step, then those of the escape after it, without backoff.
func systemMargins[T dual.Scalar](p *Problem, f *Functions[T], w *path[T], s, c, u, m []T) {
	n := len(p.system.Margins)
	f.Margins(s, c, u, w.next, m[:n])
	s, c = w.next, w.nextContext
	for k := range p.system.EscapeSteps {
		escapeAction(p, f, s, c, w.escape)
		sNext, cNext := w.states[k%2], w.contexts[k%2]
		advance(p, f, s, c, w.escape, sNext, cNext)
		f.Margins(s, c, w.escape, sNext, m[(k+1)*n:(k+2)*n])
		s, c = sNext, cNext
	}
}

// escapeAction is the escape's action, within the box.
func escapeAction[T dual.Scalar](p *Problem, f *Functions[T], s, c, u []T) {
	f.Escape(s, c, u)
	for i, a := range p.spec.Action {
		if a.Bounded() {
			u[i] = dual.Max(dual.Const[T](a.Lo), dual.Min(dual.Const[T](a.Hi), u[i]))
		}
	}
}

// Step is the system's, and the clock's.
func (p *Problem) Step(s, c, u, sNext, cNext []float64) {
	w := p.borrow()
	takeStep(p, &p.system.Real, &w.real, s, c, u)
	copy(sNext, w.real.next)
	copy(cNext, w.real.nextContext)
	p.works.Put(w)
}

// StepDual is Step at dual numbers.
func (p *Problem) StepDual(s, c, u, sNext, cNext []complex128) {
	w := p.borrow()
	takeStep(p, &p.system.Dual, &w.dual, s, c, u)
	copy(sNext, w.dual.next)
	copy(cNext, w.dual.nextContext)
	p.works.Put(w)
}

// Objectives evaluates the dynamics once, unless the last call did.
func (p *Problem) Objectives(s, u, c, j []float64) {
	w := p.borrow()
	evaluateObjectives(p, &p.system.Real, &w.real, s, u, c, j)
	p.works.Put(w)
}

// ObjectivesDual is Objectives at dual numbers.
func (p *Problem) ObjectivesDual(s, u, c, j []complex128) {
	w := p.borrow()
	evaluateObjectives(p, &p.system.Dual, &w.dual, s, u, c, j)
	p.works.Put(w)
}

// Margins evaluates the dynamics as Objectives does, and once for each step of the escape.
func (p *Problem) Margins(s, c, u, m []float64) {
	w := p.borrow()
	evaluateMargins(p, &p.system.Real, &w.real, s, c, u, m)
	p.works.Put(w)
}

// MarginsDual is Margins at dual numbers.
func (p *Problem) MarginsDual(s, c, u, m []complex128) {
	w := p.borrow()
	evaluateMargins(p, &p.system.Dual, &w.dual, s, c, u, m)
	p.works.Put(w)
}

// MarginsDisturbed is domain.Derivatives.Disturbed.
func (p *Problem) MarginsDisturbed(s, c, u, disturbance, m []complex128) {
	w := p.borrow()
	takeStep(p, &p.system.Dual, &w.dual, s, c, u)
	w.dual.stepValid = false
	for i, v := range disturbance {
		w.dual.next[i] += v
	}
	systemMargins(p, &p.system.Dual, &w.dual, s, c, u, m)
	p.works.Put(w)
}

// Score is domain.ProblemAbilities.Score.
func (p *Problem) Score(s, c, u, j, m []float64) {
	w := p.borrow()
	evaluateObjectives(p, &p.system.Real, &w.real, s, u, c, j)
	evaluateMargins(p, &p.system.Real, &w.real, s, c, u, m)
	p.works.Put(w)
}

// Gradient differentiates the objectives once for each entry of s and u.
func (p *Problem) Gradient(s, u, c, sigma, gs, gu []float64) {
	w := p.borrow()
	domain.Constants(w.s, s)
	domain.Constants(w.u, u)
	domain.Constants(w.c, c)
	j := w.out[:len(sigma)]
	for _, input := range [2]struct {
		values []complex128
		g      []float64
	}{{w.s, gs}, {w.u, gu}} {
		for i, v := range input.values {
			input.values[i] = dual.Seed(real(v), 1)
			evaluateObjectives(p, &p.system.Dual, &w.dual, w.s, w.u, w.c, j)
			input.values[i] = v
			sum := 0.0
			for k, x := range j {
				sum += sigma[k] * dual.Derivative(x)
			}
			input.g[i] = sum
		}
	}
	p.works.Put(w)
}

// Indicators depend on the state alone: the cost of staying in it at rest.
func (p *Problem) Indicators(s, _, c, delta []float64) {
	if p.system.Urgency != nil {
		p.system.Urgency(s, c, delta)
		return
	}
	p.system.Real.Objectives(s, c, p.system.Rest, s, delta)
	for i, j := range delta {
		j = math.Max(0, j)
		delta[i] = j / (j + p.system.ObjectiveScale[i])
	}
}

// Remaining is domain.ProblemAbilities.Remaining by the clock, or the horizon where that is infinite.
func (p *Problem) Remaining(c []float64) int {
	if p.clock < 0 {
		return p.spec.Horizon
	}
	steps := p.spec.Steps
	return max(1, steps-int(math.Round(c[p.clock]*float64(steps))))
}

// TerminalCost is domain.ProblemAbilities.TerminalCost by the case's horizon solver; 0 without one, and where episodes end.
func (p *Problem) TerminalCost(s, c []float64, pref domain.Preference) float64 {
	if p.terminalCost == nil {
		return 0
	}
	return p.terminalCost(s, c, pref)
}

// PlanTerminalCost is domain.ProblemAbilities.PlanTerminalCost.
func (p *Problem) PlanTerminalCost(s, c []float64, steps int, pref domain.Preference) (*domain.Quadratic, bool) {
	if p.planTerminalCost == nil {
		return nil, true
	}
	return p.planTerminalCost(s, c, steps, pref)
}

// TerminalMargin is domain.ProblemAbilities.TerminalMargin for an infinite horizon. A plan may end where the linear
// regulator about the optimal steady state satisfies the limits for another horizon. It is +Inf where the escape's
// steps are among the margins, and where there is no regulator.
func (p *Problem) TerminalMargin(s, c []float64) float64 {
	if p.regulatorMargin == nil || p.system.EscapeSteps > 0 {
		return math.Inf(1)
	}
	margin, ok := p.regulatorMargin(s, c, p.spec.Horizon)
	if !ok {
		return math.Inf(1)
	}
	return margin
}

// Failed reports whether a state is lost.
func (p *Problem) Failed(s, c []float64) bool { return p.system.Failed != nil && p.system.Failed(s, c) }

// Picture is the system's; nothing where it has none.
func (p *Problem) Picture(s, c []float64) []domain.Shape {
	if p.system.Picture == nil {
		return nil
	}
	return p.system.Picture(s, c)
}

// spec is the Spec with the defaults that follow from the sizes.
func (y *System) spec() domain.Spec {
	measured, scenarios := len(y.State), max(5, len(y.Scenario))
	inputs := measured + len(y.Context)
	hidden := 64
	if inputs > 8 {
		hidden = 128
	}
	t := y.Training
	fill(&t.Latent, min(max(8, inputs), 24))
	fill(&t.Hidden, hidden)
	fill(&t.Scenarios, 120*scenarios)
	fill(&t.Weights, 2)
	fill(&t.ManifoldEpochs, 300)
	fill(&t.RolloutEpochs, 10)
	fill(&t.Batch, 256)
	fill(&t.LearningRate, 2e-3)
	fill(&t.SpectralBound, 20)
	fill(&t.Codes, 4000)
	fill(&t.LocalNeighbours, 8)
	v := y.Navigation
	fill(&v.LatentStep, 0.005)
	fill(&v.VMax, 1)
	fill(&v.Epsilon, 0.1)
	fill(&v.MetricLambda, 1e-3)
	fill(&v.TopK, min(2, measured))
	fill(&v.LieGain, 0.1)
	fill(&v.LieScale, 0.1)
	fill(&v.RetractionMix, 0.5)
	fill(&v.Smoothing, 0.3)
	fill(&v.PriorityFilter, 1)
	fill(&v.Neighbours, t.Latent+4) // spans the latent; fewer neighbours lose directions where codes are sparse
	semantic := y.Semantic
	if semantic.K == nil {
		semantic.K = slices.Repeat([]float64{3}, len(y.Objectives))
	}
	if semantic.Epsilon == nil {
		semantic.Epsilon = slices.Repeat([]float64{1}, len(y.Objectives))
	}
	fill(&semantic.Rho, 1)
	tolerance := y.MarginTolerance
	fill(&tolerance, 1e-9)
	limits := slices.Clone(y.Margins)
	for k := range y.EscapeSteps {
		for _, v := range y.Margins {
			v.Name = fmt.Sprintf("%s+%d", v.Name, k+1)
			limits = append(limits, v)
		}
	}
	context, clock := slices.Clone(y.Context), 0
	if y.Horizon == 0 {
		context = append(context, domain.Variable{Name: clockName, Unit: "1"})
		clock = len(context)
	}
	context = append(context, y.last...)
	states := slices.Clone(y.State)
	for i, size := range y.StateScale {
		states[i].Size = size
	}
	return domain.Spec{
		Name: y.Name, Description: y.Description, Measured: states, Action: y.Action, Objectives: y.Objectives, Margins: limits,
		Context:   context,
		Enveloped: true, Clock: clock, Plan: max(1, y.plan), Steps: y.Steps, Horizon: y.Horizon, StepSeconds: y.StepSeconds,
		Semantic: semantic, MarginTolerance: tolerance, Navigation: v, Training: t,
	}
}

// clockName is the name of the context's last entry, unless the horizon is infinite.
const clockName = "clock"

// fill replaces a zero value by its default.
func fill[V comparable](v *V, value V) {
	var zero V
	if *v == zero {
		*v = value
	}
}
