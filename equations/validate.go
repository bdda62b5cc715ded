package equations

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/tensor"
)

// New checks a system, completes its optional parts and makes its problem. It keeps the system's slices.
func New(y System) (*Problem, error) {
	if (y.ODE != nil || y.Stiff != nil) && y.substeps() == dual.Auto && y.validate() == nil {
		return y.chooseSubsteps()
	}
	original := y
	y, switching, err := y.applySwitches()
	if err != nil {
		return nil, err
	}
	y, declarations, err := y.applyDeclarations()
	if err == nil {
		err = y.validate()
	}
	if err != nil {
		return nil, err
	}
	y.complete()
	p := &Problem{system: y, original: original, declared: declarations, switching: switching, spec: y.spec()}
	if switching != nil {
		p.declared = switching.inner.declared
		for i := range switching.switches {
			p.spec.Switches = append(p.spec.Switches, switching.switches[i].Switch)
		}
	}
	p.clock = p.spec.Clock - 1
	p.works.New = p.newWork
	p.program, p.corners = sync.OnceValues(p.readProgram), sync.OnceValues(p.findCorners)
	p.valueCode = sync.OnceValues(func() (*valueCode, error) { return p.compileValues(p.program()) })
	p.derivativeCode, p.projectionCode = sync.OnceValues(p.compileDerivatives), sync.OnceValues(p.compileProjection)
	for _, a := range y.Action {
		p.half = append(p.half, a.Half())
	}
	if err := p.spec.Validate(); err != nil {
		return nil, err
	}
	if constants := y.constants(); constants != nil {
		if p.constants, err = json.Marshal(constants); err != nil {
			return nil, fmt.Errorf("system %q: Constants: %w", y.Name, err)
		}
	}
	failed := p.tryFunctions()
	if err := cmp.Or(p.checkIntegrator(), failed); err != nil {
		return nil, fmt.Errorf("system %q: %w", y.Name, err)
	}
	return p, nil
}

// constants are Constants and Blocks, which tell maps and datasets apart; nil for none.
func (y *System) constants() any {
	if y.Blocks == nil {
		return y.Constants
	}
	return struct {
		Inner  any   `json:"own"`
		Blocks []int `json:"blocks"`
	}{y.Constants, y.Blocks}
}

// validate reports impossible fields by name.
func (y *System) validate() error {
	if y.Name == "" {
		return errors.New("System.Name is empty, want a name")
	}
	var errs []error
	fail := func(format string, a ...any) {
		errs = append(errs, fmt.Errorf("system %q: "+format, append([]any{y.Name}, a...)...))
	}
	y.validateNames(fail)
	y.validateFunctions(fail)
	y.validateIntegrators(fail)
	y.validateSizes(fail)
	return errors.Join(errs...)
}

func (y *System) validateNames(fail func(format string, a ...any)) {
	for _, list := range []struct {
		field     string
		variables []domain.Variable
		required  bool
	}{
		{"State", y.State, true}, {"Context", y.Context, false}, {"Action", y.Action, true}, {"Objectives", y.Objectives, true},
		{"Margins", y.Margins, false}, {"Scenario", y.Scenario, true},
	} {
		if list.required && len(list.variables) == 0 {
			fail("%s is empty, want at least one", list.field)
		}
		for i, v := range list.variables {
			switch first := slices.IndexFunc(list.variables, func(o domain.Variable) bool { return o.Name == v.Name }); {
			case v.Name == "":
				fail("%s[%d].Name is empty, want a name", list.field, i)
			case first < i:
				fail("%s[%d] and %s[%d] are both named %q", list.field, first, list.field, i, v.Name)
			}
			if v.Bounded() && !(v.Lo < v.Hi) || !isFinite(v.Lo) || !isFinite(v.Hi) {
				fail("%s[%d] (%s) ranges from %v to %v, want finite numbers and Lo < Hi", list.field, i, v.Name, v.Lo, v.Hi)
			}
			if list.field == "Scenario" && !v.Bounded() {
				fail("Scenario[%d] (%s) has no range, want Lo < Hi to draw it from", i, v.Name)
			}
			if list.field == "Context" && v.Name == clockName && y.Horizon == 0 {
				fail("Context[%d] is named %q, which is added to every context: leave it out", i, clockName)
			}
		}
	}
}

func (y *System) validateFunctions(fail func(format string, a ...any)) {
	integrated := y.Stiff != nil || y.ODE != nil
	for _, f := range []struct {
		field   string
		missing bool
	}{
		{"Initial", y.Initial == nil},
		{"Real.Step", y.Real.Step == nil && (!integrated || y.Dual.Step != nil)}, {"Dual.Step", y.Dual.Step == nil && (!integrated || y.Real.Step != nil)},
		{"Real.Objectives", y.Real.Objectives == nil}, {"Dual.Objectives", y.Dual.Objectives == nil},
		{"Real.Margins", y.Real.Margins == nil && len(y.Margins) > 0}, {"Dual.Margins", y.Dual.Margins == nil && len(y.Margins) > 0},
	} {
		if f.missing {
			fail("%s is nil, want a function", f.field)
		}
	}
	if len(y.Margins) == 0 && (y.Real.Margins != nil || y.Dual.Margins != nil) {
		fail("the function Margins is given and the list Margins is empty, want a name for each margin")
	}
	if (y.Real.Escape == nil) != (y.EscapeSteps == 0) || (y.Real.Escape == nil) != (y.Dual.Escape == nil) || y.EscapeSteps < 0 {
		fail("Real.Escape is given: %t, Dual.Escape is given: %t, EscapeSteps is %d; want both functions and at least 1 step, or none of them", y.Real.Escape != nil, y.Dual.Escape != nil, y.EscapeSteps)
	}
}

func (y *System) validateIntegrators(fail func(format string, a ...any)) {
	if stiff := y.Stiff; stiff != nil && (stiff.ODE == nil || !(stiff.Span > 0) || math.IsInf(stiff.Span, 0) || stiff.Substeps < 0 || !(stiff.Error >= 0)) {
		fail("Stiff: ODE is nil: %t, Span is %v, Substeps is %d, Error is %v; want a function, a finite time above 0, at least 1 or dual.Auto, and an error ≥ 0", stiff.ODE == nil, stiff.Span, stiff.Substeps, stiff.Error)
	}
	if ode := y.ODE; ode != nil && (ode.Real == nil || ode.Dual == nil || !(ode.Span > 0) || math.IsInf(ode.Span, 0) || ode.Substeps < 0 || !(ode.Error >= 0)) {
		fail("ODE: Real is nil: %t, Dual is nil: %t, Span is %v, Substeps is %d, Error is %v; want both functions, a finite time above 0, at least 1 or dual.Auto, and an error ≥ 0", ode.Real == nil, ode.Dual == nil, ode.Span, ode.Substeps, ode.Error)
	}
	if y.ODE != nil && y.Stiff != nil {
		fail("ODE and Stiff exclude each other: give one of them")
	}
}

func (y *System) validateSizes(fail func(format string, a ...any)) {
	if y.Horizon < 0 {
		fail("Horizon is %d, want 0 where episodes end, or at least 1 where the plant runs on", y.Horizon)
	}
	if y.Steps < 1 {
		fail("Steps is %d, want at least 1", y.Steps)
	}
	if !(y.StepSeconds > 0) || math.IsInf(y.StepSeconds, 0) {
		fail("StepSeconds is %v, want a finite time above 0", y.StepSeconds)
	}
	sizes := func(field string, values []float64, size int, entries string, positive bool) {
		if values != nil && len(values) != size {
			fail("%s has %d entries, want one for each of the %d entries of %s", field, len(values), size, entries)
		}
		for i, v := range values {
			if !isFinite(v) || positive && !(v > 0) {
				fail("%s[%d] is %v, want a finite number%s", field, i, v, map[bool]string{true: " above 0"}[positive])
			}
		}
	}
	for i, n := range y.Blocks {
		if n < 1 {
			fail("Blocks[%d] is %d, want a number of periods of at least 1", i, n)
		}
	}
	if y.Blocks != nil && len(y.Blocks) == 0 {
		fail("Blocks is empty, want nil where the action may change in each period, or numbers of periods")
	}
	sizes("Rest", y.Rest, len(y.Action), "Action", false)
	sizes("StateScale", y.StateScale, len(y.State), "State", true)
	sizes("ObjectiveScale", y.ObjectiveScale, len(y.Objectives), "Objectives", true)
}

// complete fills in Rest and StateScale.
func (y *System) complete() {
	rest := slices.Clone(y.Rest)
	if rest == nil {
		rest = make([]float64, len(y.Action))
	}
	for i, a := range y.Action {
		if y.Rest == nil && a.Bounded() && (a.Lo > 0 || a.Hi < 0) {
			rest[i] = a.Middle()
		}
	}
	domain.Clip(rest, rest, y.Action)
	y.Rest = rest
	if y.StateScale == nil {
		for _, v := range y.State {
			y.StateScale = append(y.StateScale, v.Half())
		}
	}
}

// trials is the number of random starts and actions to test the functions at.
const trials = 32

// tryFunctions calls the functions. Each has to write a finite number for each name. Both instantiations
// have to write the same ones, with the right derivatives. It then completes ObjectiveScale.
func (p *Problem) tryFunctions() error {
	y, spec := &p.system, &p.spec
	ns, nc, nu := len(spec.Measured), len(spec.Context), len(spec.Action)
	rng := rand.New(rand.NewPCG(1, 0x657175617469))    // "equati"
	clocks := rand.New(rand.NewPCG(1, 0x636c6f636b73)) // "clocks"
	hint := "does a conversion to float64, dual.Value or a step lose it?"
	if source := p.original.Source; source != nil {
		if _, exact := source.sourceText.(givenProgram); exact {
			hint = "is it too steep there, or does it jump?"
		}
	}
	suspects := map[string]*suspect{}
	scale := make([]float64, len(spec.Objectives))
	p.marginSizes = make([]float64, len(y.Margins))
	var trialRows [][]float64 // inputs and outputs of each trial
	for range trials {
		parameters, x, err := p.trial(rng)
		if err != nil {
			return err
		}
		direction := make([]float64, len(x))
		for i := range direction {
			direction[i] = (rng.Float64() - 0.5) * math.Max(1e-3, math.Abs(x[i]))
		}
		p.fixSwitched(x, direction)
		outputs, err := p.outputs(x)
		if err != nil {
			return err
		}
		trialRows = append(trialRows, slices.Concat(parameters, x))
		for _, o := range outputs {
			trialRows[len(trialRows)-1] = append(trialRows[len(trialRows)-1], o.values...)
		}
		for i, j := range outputs[1].values {
			scale[i] += math.Abs(j) / trials
		}
		for i, m := range outputs[2].values {
			p.marginSizes[i] += math.Abs(m) / trials
		}
		if p.clock >= 0 { // derivatives are compared away from the start, where what is known ahead often has a knot
			x = slices.Clone(x)
			x[ns+p.clock] = clocks.Float64()
			if outputs, err = p.outputs(x); err != nil {
				return err
			}
		}
		if err := p.compareDerivatives(x, direction, outputs, suspects); err != nil {
			return err
		}
	}
	for _, s := range suspects {
		if s.trials > trials/2 { // some trials may meet a kink or a steep place
			return fmt.Errorf("%s: %s", s.example, hint)
		}
	}
	for _, sizes := range [][]float64{scale, p.marginSizes} {
		for i, v := range sizes {
			if v == 0 {
				sizes[i] = 1
			}
		}
	}
	if y.ObjectiveScale == nil {
		y.ObjectiveScale = scale
	}
	starts := make([][]float64, len(trialRows))
	for i, row := range trialRows {
		starts[i] = row[len(y.Scenario):][:ns+nc+nu]
	}
	p.findStateMargins(starts)
	if err := p.checkEstimates(starts); err != nil {
		return err
	}
	return p.digestBehaviour(trialRows)
}

// trial draws a scenario, and its start with an action.
func (p *Problem) trial(rng *rand.Rand) (parameters, x []float64, err error) {
	y, spec := &p.system, &p.spec
	ns, nc, nu := len(spec.Measured), len(spec.Context), len(spec.Action)
	parameters, x = make([]float64, len(y.Scenario)), unwritten(ns+nc+nu)
	domain.DrawScenario(rng, y.Scenario, parameters)
	s, c, u := x[:ns:ns], x[ns:ns+nc:ns+nc], x[ns+nc:]
	if err := recovered(func() { p.initial(parameters, s, c) }); err != nil {
		return nil, nil, fmt.Errorf("the function Initial, given %d Scenario values, %d of State and %d of Context: %w", len(parameters), ns, nc, err)
	}
	if i := slices.IndexFunc(x[:ns+nc], func(v float64) bool { return !isFinite(v) }); i >= 0 {
		return nil, nil, fmt.Errorf("the function Initial leaves %s unset or not finite for the scenario %v, want a finite number", p.nameOf(i), parameters)
	}
	for i, a := range spec.Action {
		if a.Bounded() {
			u[i] = a.Draw(rng)
		} else {
			u[i] = rng.NormFloat64()
		}
	}
	if y.snapAction != nil {
		y.snapAction(u)
	}
	return parameters, x, nil
}

// suspect is an output whose derivative by dual numbers is not that by differences.
type suspect struct {
	trials  int // in which it is not
	example string
}

// compareDerivatives compares the outputs at x with those at dual numbers, and their derivatives along a direction with differences.
func (p *Problem) compareDerivatives(x, direction []float64, outputs []output, suspects map[string]*suspect) error {
	const h = 1e-6
	plus, err := p.outputs(perturbed(x, direction, h))
	if err != nil {
		return err
	}
	minus, err := p.outputs(perturbed(x, direction, -h))
	if err != nil {
		return err
	}
	duals, err := p.outputsDual(x, direction)
	if err != nil {
		return err
	}
	for k, o := range outputs {
		for i, v := range o.values {
			number := duals[k][i]
			if math.Abs(real(number)-v) > 1e-9*(1+math.Abs(v)) {
				return fmt.Errorf("%s writes %v into %s[%d] at float64 and %v at complex128: are Real and Dual the same function?", o.name, v, o.argument, i, real(number))
			}
			if o.argument == "j" && p.declared != nil && len(p.declared.soft) > 0 {
				continue // the inner problem's are compared, and differences step over the bend of a penalty
			}
			forward, backward := (plus[k].values[i]-v)/h, (v-minus[k].values[i])/h
			d := (forward + backward) / 2
			agrees := func(difference float64) bool {
				return math.Abs(dual.Derivative(number)-difference) <= 1e-4*(1+math.Abs(d)+math.Abs(v))
			}
			if agrees(d) || agrees(forward) || agrees(backward) { // at a corner it is that of one side
				continue
			}
			key := fmt.Sprintf("%s[%d]", o.argument, i)
			if suspects[key] == nil {
				suspects[key] = &suspect{}
			}
			suspects[key].trials++
			suspects[key].example = fmt.Sprintf("%s: the derivative of %s is %v by dual numbers and %v by differences", o.name, key, dual.Derivative(number), d)
		}
	}
	return nil
}

// maxDeviations is the largest distance of a start from an estimate's initial mean, in standard deviations. The
// filter takes a measured value further off for an outlier.
const maxDeviations = 6

// checkEstimates refuses an unknown entry of the context whose estimate begins far from every start, such as a mass
// without a Mean.
func (p *Problem) checkEstimates(starts [][]float64) error {
	if p.system.Measurement == nil {
		return nil
	}
	for i, unknown := range p.system.Measurement.Unknown {
		lo, hi, nearest := math.Inf(1), math.Inf(-1), math.Inf(1)
		for _, start := range starts {
			v := start[len(p.spec.Measured)+unknown.Context]
			lo, hi, nearest = math.Min(lo, v), math.Max(hi, v), math.Min(nearest, math.Abs(v-unknown.Mean))
		}
		if name := p.spec.Context[unknown.Context].Name; unknown.Deviation > 0 && nearest > maxDeviations*unknown.Deviation {
			return fmt.Errorf("Measurement.Unknown[%d] (%s) begins at a Mean of %v with a Deviation of %v, but starts have it from %.3g to %.3g: give the Mean that is known at first", i, name, unknown.Mean, unknown.Deviation, lo, hi)
		}
	}
	return nil
}

// digestBehaviour writes behaviour from the trials: each row holds scenario, s, c, u and outputs. It adds Urgency,
// Failed and Rest.
func (p *Problem) digestBehaviour(rows [][]float64) error {
	spec := &p.spec
	delta := make([]float64, len(spec.Objectives))
	for i, row := range rows {
		point := row[len(p.system.Scenario):]
		s, c, u := split(p, point[:len(spec.Measured)+len(spec.Context)+len(spec.Action)])
		failed := 0.0
		if err := recovered(func() {
			if p.Indicators(s, u, c, delta); p.Failed(s, c) {
				failed = 1
			}
		}); err != nil {
			return fmt.Errorf("one of Urgency and Failed, given %d of State, %d of Context with the clock and %d to write: %w", len(s), len(c), len(delta), err)
		}
		rows[i] = append(slices.Concat(row, delta, p.system.Rest), failed)
	}
	p.behaviour = digest(rows)
	return nil
}

// digits are the binary digits of a value in a digest, relative to the largest of its column: far fewer than
// processors agree in.
const digits = 20

// digest is a hash of rows, rounded column by column.
func digest(rows [][]float64) []byte {
	sum := sha256.New()
	for k := range rows[0] {
		largest := 0.0
		for _, row := range rows {
			largest = math.Max(largest, math.Abs(row[k]))
		}
		_, exponent := math.Frexp(largest)
		fmt.Fprintln(sum, exponent)
		for _, row := range rows {
			rounded := math.Round(math.Ldexp(row[k], digits-exponent))
			if rounded == 0 {
				rounded = 0 // removes the sign of zero
			}
			fmt.Fprintln(sum, rounded)
		}
	}
	return sum.Sum(nil)
}

// output is the output of one function of the system.
type output struct {
	name, argument string
	values         []float64
}

// outputs calls the functions at float64 at x = (s, c, u).
func (p *Problem) outputs(x []float64) ([]output, error) {
	y := &p.system
	s, c, u := split(p, x)
	next, nextContext := unwritten(len(s)), slices.Clone(c)
	j, m := unwritten(len(y.Objectives)), unwritten(len(y.Margins))
	escape := make([]float64, len(u))
	if y.Real.Escape != nil {
		escape = unwritten(len(u))
	}
	outputs := []output{{"Step", "sNext", next}, {"Objectives", "j", j}, {"Margins", "m", m}, {"Escape", "u", escape}}
	for k, call := range []func(){
		func() {
			stateStep(p, &y.Real, s, c, u, next, nextContext)
			if solved := make([]float64, len(s)); integrate(y, s, c, u, solved) && !tensor.SameBits(solved, next) {
				panic("it changes sNext, which ODE or Stiff has written")
			}
		},
		func() { y.Real.Objectives(s, c, u, next, j) },
		func() {
			if len(m) > 0 {
				y.Real.Margins(s, c, u, next, m)
			}
		},
		func() {
			if y.Real.Escape != nil {
				y.Real.Escape(s, c, escape)
			}
		},
	} {
		o := outputs[k]
		if err := recovered(call); err != nil {
			return nil, fmt.Errorf("%s, given %d of State, %d of Context with the clock, %d of Action and %d to write: %w", o.name, len(s), len(c), len(u), len(o.values), err)
		}
		for i, v := range o.values {
			if math.Float64bits(v) == math.Float64bits(sentinel) {
				return nil, fmt.Errorf("%s does not write %s[%d] of %d", o.name, o.argument, i, len(o.values))
			}
			if !isFinite(v) {
				return nil, fmt.Errorf("%s writes %v into %s[%d] for s %v, c %v, u %v", o.name, v, o.argument, i, s, c, u)
			}
		}
	}
	return append(outputs, output{"Step", "cNext", nextContext}), nil
}

// outputsDual are the outputs at complex128, with the derivative along a direction.
func (p *Problem) outputsDual(x, direction []float64) (outputs [5][]complex128, err error) {
	y := &p.system
	z := make([]complex128, len(x))
	for i, v := range x {
		z[i] = dual.Seed(v, direction[i])
	}
	s, c, u := split(p, z)
	next, nextContext := make([]complex128, len(s)), slices.Clone(c)
	j, m, escape := make([]complex128, len(y.Objectives)), make([]complex128, len(y.Margins)), make([]complex128, len(u))
	err = recovered(func() {
		stateStep(p, &y.Dual, s, c, u, next, nextContext)
		y.Dual.Objectives(s, c, u, next, j)
		if len(m) > 0 {
			y.Dual.Margins(s, c, u, next, m)
		}
		if y.Dual.Escape != nil {
			y.Dual.Escape(s, c, escape)
		}
	})
	if err != nil {
		err = fmt.Errorf("a function of Dual: %w", err)
	}
	return [5][]complex128{next, j, m, escape, nextContext}, err
}

// split views x as (s, c, u).
func split[T dual.Scalar](p *Problem, x []T) (s, c, u []T) {
	ns, nx := len(p.spec.Measured), len(p.spec.Measured)+len(p.spec.Context)
	return x[:ns:ns], x[ns:nx:nx], x[nx:]
}

// nameOf is the name of entry i of (s, c).
func (p *Problem) nameOf(i int) string {
	if n := len(p.spec.Measured); i >= n {
		return fmt.Sprintf("c[%d] (%s)", i-n, p.spec.Context[i-n].Name)
	}
	return fmt.Sprintf("s[%d] (%s)", i, p.spec.Measured[i].Name)
}

func perturbed(x, direction []float64, h float64) []float64 {
	out := slices.Clone(x)
	tensor.Axpy(h, direction, out)
	return out
}

// sentinel is a NaN that no arithmetic makes.
var sentinel = math.Float64frombits(0x7ff8_6571_7561_0001)

func unwritten(n int) []float64 { return slices.Repeat([]float64{sentinel}, n) }

// recovered calls f and returns a panic, such as an index beyond the lists of names, as an error.
func recovered(f func()) (err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("%v", e)
		}
	}()
	f()
	return nil
}
