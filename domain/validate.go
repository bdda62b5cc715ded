package domain

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
)

// Validate says, by the name of the field, what in a Spec cannot be: sizes, lengths,
// ranges, names that occur twice.
func (s *Spec) Validate() error {
	if s == nil {
		return errors.New("Spec is nil")
	}
	if s.Name == "" {
		return errors.New("Spec.Name is empty")
	}
	var errs []error
	fail := func(format string, a ...any) {
		errs = append(errs, fmt.Errorf("case %q: Spec."+format, append([]any{s.Name}, a...)...))
	}
	for _, v := range []struct {
		field     string
		variables []Variable
		least     int
	}{
		{"Measured", s.Measured, 1}, {"Context", s.Context, 0}, {"Action", s.Action, 1}, {"Objectives", s.Objectives, 1}, {"Margins", s.Margins, 0},
	} {
		if len(v.variables) < v.least {
			fail("%s is empty, want at least one", v.field)
		}
		for i, x := range v.variables {
			if x.Name == "" {
				fail("%s[%d].Name is empty", v.field, i)
			}
			if x.Bounded() && !(x.Lo < x.Hi) {
				fail("%s[%d] (%s) has the box [%g, %g], want Lo < Hi", v.field, i, x.Name, x.Lo, x.Hi)
			}
			if index := slices.IndexFunc(v.variables, func(other Variable) bool { return other.Name == x.Name }); index < i {
				fail("%s[%d] and %s[%d] are both named %q", v.field, index, v.field, i, x.Name)
			}
		}
	}
	limits, limitOf := s.Limits()
	for i, x := range s.Margins {
		if l := limits[limitOf[i]]; x.Unit != l.Unit || x.Kind != l.Kind {
			fail("Margins[%d] (%s) is in %q, and a margin before it of the same limit, %q, in %q or of another Kind", i, x.Name, x.Unit, l.Name, l.Unit)
		}
	}
	if s.Plan < 1 || s.Steps < 1 {
		fail("Plan is %d and Steps %d, want at least 1 of each", s.Plan, s.Steps)
	}
	switch {
	case s.Horizon < 0:
		fail("Horizon is %d, want 0 for a plant whose episodes end, or at least 1", s.Horizon)
	case s.Horizon > 0 && s.Clock > 0:
		fail("Horizon is %d and Clock %d, want no clock for a plant that runs on", s.Horizon, s.Clock)
	}
	if !(s.StepSeconds > 0) || math.IsInf(s.StepSeconds, 0) {
		fail("StepSeconds is %v, want a finite time above 0", s.StepSeconds)
	}
	if !(s.MarginTolerance >= 0) || math.IsInf(s.MarginTolerance, 0) {
		fail("MarginTolerance is %v, want a finite number ≥ 0", s.MarginTolerance)
	}
	m := &s.Semantic
	if len(m.K) != len(s.Objectives) || len(m.Epsilon) != len(s.Objectives) {
		fail("Semantic has %d K and %d Epsilon, want one of each for the %d Objectives", len(m.K), len(m.Epsilon), len(s.Objectives))
	}
	for i, e := range m.Epsilon {
		if !(e > 0) || math.IsInf(e, 0) {
			fail("Semantic.Epsilon[%d] is %v, want a finite number above 0", i, e)
		}
	}
	for i, k := range m.K {
		if !(k >= 0) || math.IsInf(k, 0) {
			fail("Semantic.K[%d] is %v, want a finite number ≥ 0", i, k)
		}
	}
	if !(m.Rho > 0) || math.IsInf(m.Rho, 0) {
		fail("Semantic.Rho is %v, want a finite number above 0", m.Rho)
	}
	t := &s.Training
	for _, n := range []struct {
		field string
		value int
	}{
		{"Latent", t.Latent}, {"Hidden", t.Hidden}, {"Encoder", t.Encoder}, {"Scenarios", t.Scenarios}, {"Weights", t.Weights},
		{"ManifoldEpochs", t.ManifoldEpochs}, {"RolloutEpochs", t.RolloutEpochs}, {"Batch", t.Batch}, {"Codes", t.Codes},
	} {
		if n.value < 0 {
			fail("Training.%s is %d, want 0 or more", n.field, n.value)
		}
	}
	if f := t.PreferenceFloor; !(f >= 0) || math.IsInf(f, 0) {
		fail("Training.PreferenceFloor is %v, want a finite number ≥ 0", f)
	}
	if n := len(t.ActionTolerance); t.ActionTolerance != nil && n != s.PlanSize() {
		fail("Training.ActionTolerance has %d entries, a plan has %d", n, s.PlanSize())
	}
	for i, v := range t.ActionTolerance {
		if !(v > 0) || math.IsInf(v, 0) {
			fail("Training.ActionTolerance[%d] is %v, want a finite number above 0", i, v)
		}
	}
	return errors.Join(errs...)
}

// Validate checks a case before anything is run with it: its Specs, the names of its
// methods, and that the functions of its problems write as many values as their Spec
// says, by calling each once at an observation of zeros.
func (c *Case) Validate() error {
	if c.Problem == nil {
		return errors.New("a case has no Problem")
	}
	problems := []Problem{c.Problem}
	if c.Learned != nil {
		problems = append(problems, c.Learned)
	}
	for _, p := range problems {
		if err := p.Spec().Validate(); err != nil {
			return err
		}
		if err := probe(p); err != nil {
			return err
		}
	}
	name := c.Problem.Spec().Name
	if c.Nominal != nil {
		spec, less := c.Problem.Spec(), c.Nominal.Spec()
		if less.MeasuredSize() != spec.MeasuredSize() || less.ContextSize() > spec.ContextSize() || less.ActionSize() != spec.ActionSize() {
			return fmt.Errorf("case %q: its Nominal %q has %d measured values, %d of context and %d of action, want %d, at most %d, and %d", name, less.Name,
				less.MeasuredSize(), less.ContextSize(), less.ActionSize(), spec.MeasuredSize(), spec.ContextSize(), spec.ActionSize())
		}
	}
	for i, m := range c.Methods {
		if m.Name == "" || m.New == nil {
			return fmt.Errorf("case %q: Methods[%d] has the name %q, and New is given: %t; want both", name, i, m.Name, m.New != nil)
		}
		if slices.IndexFunc(c.Methods, func(o Method) bool { return o.Name == m.Name }) != i {
			return fmt.Errorf("case %q: two of its Methods are named %q", name, m.Name)
		}
	}
	if err := c.Guard.Validate(); err != nil {
		return fmt.Errorf("case %q: %w", name, err)
	}
	if c.Measurement != nil {
		if err := c.Measurement.Validate(c.Problem.Spec()); err != nil {
			return fmt.Errorf("case %q: %w", name, err)
		}
	}
	if err := c.Delay.Validate(c.Problem.Spec()); err != nil {
		return fmt.Errorf("case %q: %w", name, err)
	}
	if c.Shifts == nil {
		return nil
	}
	if len(c.Shifts.Parameters) == 0 || c.Shifts.New == nil {
		return fmt.Errorf("case %q: Shifts has %d Parameters, and New is given: %t; want at least one parameter, and New", name, len(c.Shifts.Parameters), c.Shifts.New != nil)
	}
	for i, p := range c.Shifts.Parameters {
		if p.Name == "" || slices.IndexFunc(c.Shifts.Parameters, func(o PlantParameter) bool { return o.Name == p.Name }) != i {
			return fmt.Errorf("case %q: Shifts.Parameters[%d] is named %q, want a name that no other has", name, i, p.Name)
		}
	}
	return nil
}

// unwritten fills an output before a function is called: a NaN that no arithmetic makes.
var unwritten = math.Float64frombits(0x7ff8_6770_6321_0001)

// probe calls every function of a problem with slices that hold exactly what Spec
// says, so that one entry too many, or one that is never written, is an error here and
// not in the middle of a run.
func probe(p Problem) error {
	spec := p.Spec()
	zeros := func(n int) []float64 { return make([]float64, n) }
	s, c, u := zeros(len(spec.Measured)), zeros(len(spec.Context)), zeros(len(spec.Action))
	m := len(spec.Objectives)
	sigma := slices.Repeat([]float64{1 / float64(m)}, m)
	var outputs [][]float64
	output := func(n int) []float64 {
		o := slices.Repeat([]float64{unwritten}, n)
		outputs = append(outputs, o)
		return o
	}
	for _, f := range []struct {
		name, writes string
		call         func()
	}{
		{"Base", "Plan × Action", func() { p.Base(s, c, output(spec.PlanSize())) }},
		{"Objectives", "Objectives", func() { p.Objectives(s, u, c, output(m)) }},
		{"Gradient", "Measured and Action", func() { p.Gradient(s, u, c, sigma, output(len(s)), output(len(u))) }},
		{"Indicators", "Objectives", func() { p.Indicators(s, u, c, output(m)) }},
		{"Step", "Measured and Context", func() { p.Step(s, c, u, output(len(s)), output(len(c))) }},
		{"Margins", "Margins", func() { p.Margins(s, c, u, output(len(spec.Margins))) }},
		{"Project", "Action", func() { p.Project(s, c, zeros(len(u))) }},
		{"Fallback", "Action", func() { p.Fallback(s, c, output(len(u))) }},
	} {
		outputs = outputs[:0]
		fault, panicked := outOfRange(f.call)
		for _, o := range outputs {
			if index := slices.IndexFunc(o, func(v float64) bool { return math.Float64bits(v) == math.Float64bits(unwritten) }); index >= 0 && !panicked {
				fault = fmt.Sprintf("entry %d of %d is not written", index, len(o))
			}
		}
		if fault != "" {
			return fmt.Errorf("case %q: %s does not keep to the sizes of Spec (s %d, c %d, u %d; it writes %s): %s", spec.Name, f.name, len(s), len(c), len(u), f.writes, fault)
		}
	}
	return nil
}

// outOfRange calls f and returns the message of an index beyond a slice's end. Any
// other panic is the problem's own business with an observation of zeros, which it
// may never meet; so is a negative index, which no size explains.
func outOfRange(f func()) (message string, panicked bool) {
	defer func() {
		e := recover()
		panicked = e != nil
		if r, ok := e.(runtime.Error); ok && strings.Contains(r.Error(), "out of range") && !strings.Contains(r.Error(), "[-") {
			message = r.Error()
		}
	}()
	f()
	return "", false
}
