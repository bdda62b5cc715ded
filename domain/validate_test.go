package domain_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// cart is the smallest valid case, for a test to break.
func cart() domain.Case {
	return domain.Case{Problem: testdomain.NewCart(20), Methods: []domain.Method{method("a"), method("b")}}
}

func method(name string) domain.Method {
	return domain.Method{Name: name, New: func(domain.Means) (domain.Controller, error) { return nil, nil }}
}

func TestValidateAcceptsTheCart(t *testing.T) {
	c := cart()
	c.Learned = testdomain.NewPlanCart(20, 3)
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

// TestSpecNamesTheField breaks one field of a valid Spec at a time: the error has to
// name it.
func TestSpecNamesTheField(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	named := []domain.Variable{{Name: "x"}, {Name: "x"}}
	for _, test := range []struct {
		names string
		spoil func(s *domain.Spec)
	}{
		{"Spec.Name", func(s *domain.Spec) { s.Name = "" }},
		{"Spec.Measured", func(s *domain.Spec) { s.Measured = nil }},
		{"Spec.Action", func(s *domain.Spec) { s.Action = nil }},
		{"Spec.Objectives", func(s *domain.Spec) { s.Objectives = nil }},
		{"Spec.Measured[1].Name", func(s *domain.Spec) { s.Measured = []domain.Variable{{Name: "x"}, {}} }},
		{"Spec.Measured[0] and Measured[1]", func(s *domain.Spec) { s.Measured = named }},
		{"Spec.Context[0] and Context[1]", func(s *domain.Spec) { s.Context = named }},
		{"Spec.Action[0] and Action[1]", func(s *domain.Spec) { s.Action = named }},
		{"Spec.Objectives[0] and Objectives[1]", func(s *domain.Spec) { s.Objectives = named }},
		{"Spec.Margins[0] and Margins[1]", func(s *domain.Spec) { s.Margins = named }},
		{"Spec.Margins[1] (v)", func(s *domain.Spec) { s.Margins = []domain.Variable{{Name: "u"}, {Name: "v", Limit: "u", Unit: "m"}} }},
		{"Spec.Margins[1] (v)", func(s *domain.Spec) {
			s.Margins = []domain.Variable{{Name: "u", Limit: "w"}, {Name: "v", Limit: "w", Kind: domain.Collision}}
		}},
		{"Spec.Action[0] (u)", func(s *domain.Spec) { s.Action = []domain.Variable{{Name: "u", Lo: 1, Hi: -1}} }},
		{"Spec.Action[0] (u)", func(s *domain.Spec) { s.Action = []domain.Variable{{Name: "u", Lo: 1, Hi: 1}} }},
		{"Spec.Measured[0] (q)", func(s *domain.Spec) { s.Measured = []domain.Variable{{Name: "q", Lo: nan, Hi: 1}} }},
		{"Plan", func(s *domain.Spec) { s.Plan = 0 }},
		{"Steps", func(s *domain.Spec) { s.Steps = -1 }},
		{"Spec.StepSeconds", func(s *domain.Spec) { s.StepSeconds = 0 }},
		{"Spec.StepSeconds", func(s *domain.Spec) { s.StepSeconds = nan }},
		{"Spec.StepSeconds", func(s *domain.Spec) { s.StepSeconds = inf }},
		{"Spec.MarginTolerance", func(s *domain.Spec) { s.MarginTolerance = -1 }},
		{"Spec.MarginTolerance", func(s *domain.Spec) { s.MarginTolerance = nan }},
		{"1 K", func(s *domain.Spec) { s.Semantic.K = []float64{1} }},
		{"3 K", func(s *domain.Spec) { s.Semantic.K = []float64{1, 1, 1} }},
		{"0 Epsilon", func(s *domain.Spec) { s.Semantic.Epsilon = nil }},
		{"Spec.Semantic.K[0]", func(s *domain.Spec) { s.Semantic.K = []float64{-1, 1} }},
		{"Spec.Semantic.K[1]", func(s *domain.Spec) { s.Semantic.K = []float64{1, inf} }},
		{"Spec.Semantic.Epsilon[0]", func(s *domain.Spec) { s.Semantic.Epsilon = []float64{0, 1} }},
		{"Spec.Semantic.Epsilon[1]", func(s *domain.Spec) { s.Semantic.Epsilon = []float64{1, nan} }},
		{"Spec.Semantic.Rho", func(s *domain.Spec) { s.Semantic.Rho = 0 }},
		{"Spec.Training.Latent", func(s *domain.Spec) { s.Training.Latent = -1 }},
		{"Spec.Training.PreferenceFloor", func(s *domain.Spec) { s.Training.PreferenceFloor = -0.01 }},
		{"Spec.Training.ActionTolerance has 2", func(s *domain.Spec) { s.Training.ActionTolerance = []float64{1, 1} }},
		{"Spec.Training.ActionTolerance[0]", func(s *domain.Spec) { s.Training.ActionTolerance = []float64{0} }},
		{"Spec.Training.Codes", func(s *domain.Spec) { s.Training.Codes = -1 }},
	} {
		spec := *testdomain.NewCart(20).Spec()
		test.spoil(&spec)
		err := spec.Validate()
		if err == nil || !strings.Contains(err.Error(), test.names) {
			t.Errorf("want an error that names %s, got %v", test.names, err)
		}
		if spec.Name != "" && err != nil && !strings.Contains(err.Error(), `case "cart"`) {
			t.Errorf("the error does not name the case: %v", err)
		}
	}
	if err := (*domain.Spec)(nil).Validate(); err == nil {
		t.Error("no Spec at all was accepted")
	}
}

// TestSpecNamesEveryField: one call tells all that is wrong.
func TestSpecNamesEveryField(t *testing.T) {
	spec := *testdomain.NewCart(20).Spec()
	spec.StepSeconds, spec.Measured, spec.Semantic.Rho = 0, nil, -1
	err := spec.Validate()
	for _, field := range []string{"StepSeconds", "Measured", "Semantic.Rho"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("the error does not name %s: %v", field, err)
		}
	}
}

// broken is the cart with functions of its own in place of one of the cart's.
type broken struct {
	*testdomain.Cart
	base, fallback        func(v []float64)
	objectives, indicator func(v []float64)
	gradient, step        func(first, second []float64)
	margins               func(s, v []float64)
	project               func(u []float64) bool
}

func (b *broken) Base(s, c, plan []float64) {
	if b.base != nil {
		b.base(plan)
		return
	}
	b.Cart.Base(s, c, plan)
}

func (b *broken) Fallback(s, c, u []float64) {
	if b.fallback != nil {
		b.fallback(u)
		return
	}
	b.Cart.Fallback(s, c, u)
}

func (b *broken) Objectives(s, u, c, J []float64) {
	if b.objectives != nil {
		b.objectives(J)
		return
	}
	b.Cart.Objectives(s, u, c, J)
}

func (b *broken) Indicators(s, u, c, delta []float64) {
	if b.indicator != nil {
		b.indicator(delta)
		return
	}
	b.Cart.Indicators(s, u, c, delta)
}

func (b *broken) Gradient(s, u, c, sigma, gs, gu []float64) {
	if b.gradient != nil {
		b.gradient(gs, gu)
		return
	}
	b.Cart.Gradient(s, u, c, sigma, gs, gu)
}

func (b *broken) Step(s, c, u, sNext, cNext []float64) {
	if b.step != nil {
		b.step(sNext, cNext)
		return
	}
	b.Cart.Step(s, c, u, sNext, cNext)
}

func (b *broken) Margins(s, c, u, m []float64) {
	if b.margins != nil {
		b.margins(s, m)
		return
	}
	b.Cart.Margins(s, c, u, m)
}

func (b *broken) Project(s, c, u []float64) bool {
	if b.project != nil {
		return b.project(u)
	}
	return b.Cart.Project(s, c, u)
}

// write is a function that writes n entries of a vector, in order.
func write(n int) func([]float64) {
	return func(v []float64) {
		for i := range n {
			v[i] = 1
		}
	}
}

// TestValidateFindsWrongSizes: an entry too many or too few is an error that names the
// function, not a panic.
func TestValidateFindsWrongSizes(t *testing.T) {
	// The cart has 2 of each but for 1 context and 1 action.
	for _, test := range []struct {
		names  string
		broken broken
	}{
		{"Base", broken{base: write(2)}},
		{"Base", broken{base: write(0)}},
		{"Objectives", broken{objectives: write(3)}},
		{"Objectives", broken{objectives: write(1)}},
		{"Gradient", broken{gradient: func(gs, gu []float64) { write(3)(gs); write(1)(gu) }}},
		{"Gradient", broken{gradient: func(gs, gu []float64) { write(2)(gs); write(2)(gu) }}},
		{"Gradient", broken{gradient: func(gs, gu []float64) { write(2)(gs) }}},
		{"Indicators", broken{indicator: write(3)}},
		{"Indicators", broken{indicator: write(1)}},
		{"Step", broken{step: func(s, c []float64) { write(3)(s); write(1)(c) }}},
		{"Step", broken{step: func(s, c []float64) { write(2)(s); write(2)(c) }}},
		{"Step", broken{step: func(s, c []float64) { write(2)(s) }}},
		{"Margins", broken{margins: func(_, m []float64) { write(3)(m) }}},
		{"Margins", broken{margins: func(_, m []float64) { write(1)(m) }}},
		{"Margins", broken{margins: func(s, m []float64) { m[0], m[1] = s[2], 1 }}},
		{"Project", broken{project: func(u []float64) bool { u[1] = 0; return true }}},
		{"Fallback", broken{fallback: write(2)}},
		{"Fallback", broken{fallback: write(0)}},
	} {
		c := cart()
		test.broken.Cart = testdomain.NewCart(20)
		c.Problem = &test.broken
		err := c.Validate()
		if err == nil || !strings.Contains(err.Error(), `case "cart": `+test.names+" ") {
			t.Errorf("want an error that names %s, got %v", test.names, err)
		}
		c = cart()
		if c.Learned = &test.broken; c.Validate() == nil {
			t.Errorf("%s of a Learned problem was not found", test.names)
		}
	}
}

// TestValidateLeavesOtherPanicsAlone: an observation of zeros may be one that a problem
// never meets.
func TestValidateLeavesOtherPanicsAlone(t *testing.T) {
	table := []float64{1}
	for name, margins := range map[string]func(s, m []float64){
		"a panic of its own": func(s, m []float64) { panic("no such state") },
		"a negative index":   func(s, m []float64) { m[0], m[1] = table[int(s[0])-1], 1 },
		"a division by zero": func(s, m []float64) { m[0], m[1] = float64(1/int(s[0])), 1 },
		"NaN":                func(s, m []float64) { m[0], m[1] = math.NaN(), math.Log(s[0]) },
	} {
		c := cart()
		c.Problem = &broken{Cart: testdomain.NewCart(20), margins: margins}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func same([]float64) (domain.Case, error) { return domain.Case{}, nil }

func TestValidateChecksTheCaseAround(t *testing.T) {
	spoiled := testdomain.NewCart(20)
	spoiled.Spec().Steps = 0
	for _, test := range []struct {
		names string
		spoil func(c *domain.Case)
	}{
		{"Problem", func(c *domain.Case) { c.Problem = nil }},
		{"Steps 0", func(c *domain.Case) { c.Problem = spoiled }},
		{"Steps 0", func(c *domain.Case) { c.Learned = spoiled }},
		{`its Nominal "cartpole"`, func(c *domain.Case) { c.Nominal = testdomain.Pole{} }},
		{"Methods[2]", func(c *domain.Case) { c.Methods = append(c.Methods, domain.Method{Name: "c"}) }},
		{"Methods[2]", func(c *domain.Case) { c.Methods = append(c.Methods, method("")) }},
		{`"b"`, func(c *domain.Case) { c.Methods = append(c.Methods, method("b")) }},
		{`"a"`, func(c *domain.Case) { c.Methods = append(c.Methods, method("a")) }},
		{"Shifts", func(c *domain.Case) { c.Shifts = &domain.Shifts{Parameters: []domain.PlantParameter{{Name: "mass"}}} }},
		{"Shifts", func(c *domain.Case) { c.Shifts = &domain.Shifts{New: same} }},
		{"Parameters[1]", func(c *domain.Case) {
			c.Shifts = &domain.Shifts{New: same, Parameters: []domain.PlantParameter{{Name: "mass"}, {Name: "mass"}}}
		}},
	} {
		c := cart()
		test.spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), test.names) {
			t.Errorf("want an error that names %s, got %v", test.names, err)
		}
	}
}

func TestCaseFindsItsMethodsAndItsMap(t *testing.T) {
	c := cart()
	if m, ok := c.Method("b"); !ok || m.Name != "b" {
		t.Errorf("method b: %+v, %t", m, ok)
	}
	if m, ok := c.Method("gpc"); ok {
		t.Errorf("a method that the case does not have: %+v", m)
	}
	if c.MapProblem() != c.Problem {
		t.Error("the map of a case without Learned is not about its Problem")
	}
	if c.Learned = testdomain.NewPlanCart(20, 3); c.MapProblem() != c.Learned {
		t.Error("the map of a case with Learned is not about it")
	}
}
