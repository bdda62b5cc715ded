package equations_test

import (
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/domaintest"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

var stiffness = 2.0

func swing[T dual.Scalar](s, c, u, sNext, _ []T) {
	sNext[0], sNext[1] = s[0]+0.1*s[1], s[1]+0.1*(u[0]-dual.Const[T](stiffness)*dual.Sin(s[0]))
	if dual.Less(sNext[1], -c[0]) {
		sNext[1] = -c[0]
	}
}

func effort[T dual.Scalar](_, _, u, n, j []T) { j[0] = n[0]*n[0] + u[0]*u[0] }

// swinging is a system whose text is swingText.
func swinging() equations.System {
	return equations.System{
		Name: "swing", State: []domain.Variable{{Name: "angle", Unit: "rad"}, {Name: "rate", Unit: "rad/s"}},
		Context: []domain.Variable{{Name: "fastest", Unit: "rad/s"}}, Action: []domain.Variable{{Name: "torque", Unit: "N m", Lo: -1, Hi: 1}},
		Objectives: []domain.Variable{{Name: "effort", Unit: "1"}}, Scenario: []domain.Variable{{Name: "angle", Unit: "rad", Lo: -1, Hi: 1}},
		Initial: func(p, s, c []float64) { s[0], s[1], c[0] = p[0], 0, 2 }, Steps: 10, StepSeconds: 0.1,
		Real:   equations.Functions[float64]{Step: swing[float64], Objectives: effort[float64]},
		Dual:   equations.Functions[complex128]{Step: swing[complex128], Objectives: effort[complex128]},
		Failed: func(s, _ []float64) bool { return math.Abs(s[0]) > 3 },
	}
}

const swingText = `package p

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/domaintest"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/equations"
)

const stiffness = 2

func swing[T dual.Scalar](s, c, u, sNext, _ []T) {
	sNext[0], sNext[1] = s[0]+0.1*s[1], s[1]+0.1*(u[0]-stiffness*dual.Sin(s[0]))
	if dual.Less(sNext[1], -c[0]) {
		sNext[1] = -c[0]
	}
}

func effort[T dual.Scalar](_, _, u, n, j []T) { j[0] = n[0]*n[0] + u[0]*u[0] }

func System() equations.System {
	return equations.System{
		State:   []domain.Variable{{Name: "angle"}},
		Initial: func(p, s, c []float64) { s[0], s[1], c[0] = p[0], 0, 2 },
		Real:    equations.Functions[float64]{Step: swing[float64], Objectives: effort[float64]},
		Failed:  func(s, _ []float64) bool { return math.Abs(s[0]) > 3 },
	}
}
`

func sourceText(s string) fstest.MapFS { return fstest.MapFS{"p.go": {Data: []byte(s)}} }

// A system's functions are read whole: vectors and arguments have its names, the clock is advanced, a branch is a selection.
func TestProgramOfASystem(t *testing.T) {
	y := swinging()
	y.Source = equations.From(sourceText(swingText), "System")
	p, err := y.Program()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range p.Functions {
		names = append(names, f.Name())
	}
	if got := strings.Join(names, " "); got != "step objectives initial failed" {
		t.Errorf("the functions are %s", got)
	}
	out := make([]float64, 4)
	p.Function("step").Evaluate([]float64{0.5, -3, 1, 0.2, -1}, out)
	if want := 0.5 - 0.1*3; math.Abs(out[0]-want) > 1e-12 || out[1] != -1 || out[2] != 1 || math.Abs(out[3]-0.3) > 1e-12 {
		t.Errorf("a step leads to %v", out)
	}
	if v := p.Vectors[1]; v.Name != "context" || strings.Join(v.Entries, " ") != "fastest clock" {
		t.Errorf("the context is %v", v)
	}
}

// What is wrong with a source is said.
func TestProgramSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name, old, new, function, want string
	}{
		{"another function", "", "", "Other", "no function Other"},
		{"another constant", "stiffness = 2", "stiffness = 3", "System", "step as its source says gives"},
		{"a function less", "Failed:", "// ", "System", "only one of source and system has a function failed"},
		{"nothing written", "j[0] = n[0]*n[0] + u[0]*u[0]", "", "System", "Real.Objectives: it does not write j[0]"},
		{"an input written", "j[0] = n[0]", "u[0] = 0; j[0] = n[0]", "System", "it changes u[0]"},
		{"an index too far", "n[0]*n[0] + u", "n[2]*n[0] + u", "System", "Real.Objectives: p.go:21:57: index 2 of 2 (in effort"},
		{"a loop to a tolerance", "if dual.Less(sNext[1], -c[0])", "for dual.Less(sNext[1], -c[0])", "System", "p.go:16:"},
		{"no Go", "package p", "package", "System", "p.go:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			y := swinging()
			y.Source = equations.From(sourceText(strings.Replace(swingText, c.old, c.new, 1)), c.function)
			if _, err := y.Program(); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "swing") {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	if _, err := swinging().Program(); err == nil || !strings.Contains(err.Error(), "Source is nil") {
		t.Errorf("without a source: %v", err)
	}
}

// Packages that equations call are read with their own text.
func TestProgramWithAnotherPackage(t *testing.T) {
	y := swinging()
	calls := strings.Replace(swingText, "stiffness*dual.Sin(s[0])", "law.Pull(s[0])", 1)
	calls = strings.Replace(calls, "import (", "import (\n\"example.com/law\"", 1)
	law := "package law\nimport \"github.com/gpc-engine/gpc/equations/dual\"\nfunc Pull[T dual.Scalar](x T) T { return 2 * dual.Sin(x) }\n"
	y.Source = equations.From(sourceText(calls), "System")
	if _, err := y.Program(); err == nil || !strings.Contains(err.Error(), "undefined: law.Pull") {
		t.Errorf("without the package: %v", err)
	}
	y.Source = y.Source.With("example.com/law", sourceText(law))
	if _, err := y.Program(); err != nil {
		t.Error(err)
	}
}

// A variable that was changed after the program began makes other functions than the source's.
func TestProgramIsHeldToTheFunctions(t *testing.T) {
	defer func() { stiffness = 2 }()
	stiffness = 2.5
	y := swinging()
	y.Source = equations.From(sourceText(swingText), "System")
	if _, err := y.Program(); err == nil || !strings.Contains(err.Error(), "depend on a value that is not an argument") {
		t.Errorf("%v", err)
	}
}

// A number of a function that makes a system is read as it was given, so that a system with another parameter keeps its
// program; one of another type is refused.
func TestProgramOfASystemWithANumber(t *testing.T) {
	y := swinging()
	given := strings.Replace(swingText, "func System() equations.System {", "func System(fastest float64) equations.System {", 1)
	given = strings.Replace(given, "p[0], 0, 2 }", "p[0], 0, fastest }", 1)
	y.Initial = func(p, s, c []float64) { s[0], s[1], c[0] = p[0], 0, 1.7 }
	y.Source = equations.From(sourceText(given), "System", 1.7)
	if _, err := y.Program(); err != nil {
		t.Error(err)
	}
	y.Source = equations.From(sourceText(given), "System", 1)
	if _, err := y.Program(); err == nil || !strings.Contains(err.Error(), "float64") {
		t.Errorf("an int for a float64: %v", err)
	}
	y.Source = equations.From(sourceText(given), "System", 1.8)
	if _, err := y.Program(); err == nil || !strings.Contains(err.Error(), "initial") {
		t.Errorf("another number than the system's: %v", err)
	}
}

func roll[T dual.Scalar](s, _, u, sNext, _ []T) { sNext[0] = 0.9*s[0] + 0.1*u[0]/u[1] }

func fuel[T dual.Scalar](_, _, u, n, j []T) {
	e := n[0] - 1
	j[0], j[1] = e*e, n[0]*n[0]/(u[1]*u[1])+u[0]*u[0]
}

const rollText = `package p

import (
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

func roll[T dual.Scalar](s, _, u, sNext, _ []T) { sNext[0] = 0.9*s[0] + 0.1*u[0]/u[1] }

func fuel[T dual.Scalar](_, _, u, n, j []T) {
	e := n[0] - 1
	j[0], j[1] = e*e, n[0]*n[0]/(u[1]*u[1])+u[0]*u[0]
}

func System() equations.System {
	return equations.System{
		Initial: func(p, s, c []float64) { s[0] = p[0] },
		Real:    equations.Functions[float64]{Step: roll[float64], Objectives: fuel[float64]},
	}
}
`

// A system with a gear passes the test that `gpc new` writes: the rounding of corners between values is no mistake of the
// stages, and shares whose sum is above 1 are no costs without a least value.
func TestContractOfASwitchWithSource(t *testing.T) {
	gear := equations.Integer("gear", 1, 5)
	gear.Least, gear.Cost, gear.Objective = []int{2, 2, 2, 2, 2}, 0.1, "fuel"
	c, err := equations.System{
		Name: "roll", State: []domain.Variable{{Name: "speed", Unit: "m/s", Lo: 0, Hi: 2}},
		Action:   []domain.Variable{{Name: "push", Unit: "N", Lo: 0, Hi: 5}, {Name: "gear", Unit: "1"}},
		Switches: []equations.Switch{gear}, Rest: []float64{0, 1},
		Objectives: []domain.Variable{{Name: "delay", Unit: "1"}, {Name: "fuel", Unit: "1"}}, Scenario: []domain.Variable{{Name: "speed", Unit: "m/s", Lo: 0, Hi: 2}},
		Initial: func(p, s, _ []float64) { s[0] = p[0] }, Steps: 6, StepSeconds: 1,
		Real:   equations.Functions[float64]{Step: roll[float64], Objectives: fuel[float64]},
		Dual:   equations.Functions[complex128]{Step: roll[complex128], Objectives: fuel[complex128]},
		Source: equations.From(sourceText(rollText), "System"),
	}.Case()
	if err != nil {
		t.Fatal(err)
	}
	domaintest.Run(t, c)
}
