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
			if at := slices.IndexFunc(v.variables, func(other Variable) bool { return other.Name == x.Name }); at < i {
				fail("%s[%d] and %s[%d] are both named %q", v.field, at, v.field, i, x.Name)
			}
		}
	}
	if s.Plan < 1 || s.Steps < 1 {
		fail("Plan is %d and Steps %d, want at least 1 of each", s.Plan, s.Steps)
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
	for i, m := range c.Methods {
		if m.Name == "" || m.New == nil {
			return fmt.Errorf("case %q: Methods[%d] has the name %q and New %t, want both", name, i, m.Name, m.New != nil)
		}
		if other, _ := c.Method(m.Name); slices.IndexFunc(c.Methods, func(o Method) bool { return o.Name == other.Name }) != i {
			return fmt.Errorf("case %q: two of its Methods are named %q", name, m.Name)
		}
	}
	return nil
}

// probe calls every function of a problem with slices that hold exactly what Spec
// says, so that one entry too many is an error here and not in the middle of a run.
func probe(p Problem) (err error) {
	spec := p.Spec()
	s, c, u := make([]float64, len(spec.Measured)), make([]float64, len(spec.Context)), make([]float64, len(spec.Action))
	m := len(spec.Objectives)
	vector := func(n int) []float64 { return make([]float64, n, n) }
	sigma := vector(m)
	for i := range sigma {
		sigma[i] = 1 / float64(m)
	}
	for _, f := range []struct {
		name, writes string
		call         func()
	}{
		{"Base", "Plan × Action", func() { p.Base(s, c, vector(spec.PlanSize())) }},
		{"Objectives", "Objectives", func() { p.Objectives(s, u, c, vector(m)) }},
		{"Gradient", "Measured and Action", func() { p.Gradient(s, u, c, sigma, vector(len(s)), vector(len(u))) }},
		{"Indicators", "Objectives", func() { p.Indicators(s, u, c, vector(m)) }},
		{"Step", "Measured and Context", func() { p.Step(s, c, u, vector(len(s)), vector(len(c))) }},
		{"Margins", "Margins", func() { p.Margins(s, c, u, vector(len(spec.Margins))) }},
		{"Project", "Action", func() { p.Project(s, c, vector(len(u))) }},
		{"Fallback", "Action", func() { p.Fallback(s, c, vector(len(u))) }},
	} {
		if what := outOfRange(f.call); what != "" {
			return fmt.Errorf("case %q: %s does not keep to the sizes of Spec (s %d, c %d, u %d; it writes %s): %s", spec.Name, f.name, len(s), len(c), len(u), f.writes, what)
		}
	}
	return nil
}

// outOfRange calls f and returns the message of an index beyond a slice's end. Any
// other panic is the problem's own business with an observation of zeros, which it
// may never meet.
func outOfRange(f func()) (what string) {
	defer func() {
		if e, ok := recover().(runtime.Error); ok && strings.Contains(e.Error(), "out of range") {
			what = e.Error()
		}
	}()
	f()
	return ""
}
