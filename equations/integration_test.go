package equations

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// lagged is a cart whose force follows the requested one with a pole of -rate 1/s, at a period of 0.1 s.
func lagged(rate float64) System {
	v := func(name string, lo, hi float64) domain.Variable { return domain.Variable{Name: name, Lo: lo, Hi: hi} }
	return System{
		Name: "lagged", State: []domain.Variable{v("x", -2, 2), v("v", -3, 3), v("f", -5, 5)}, Action: []domain.Variable{v("force", -5, 5)},
		Objectives: []domain.Variable{v("distance", 0, 0), v("effort", 0, 0)}, Margins: []domain.Variable{v("left", 0, 0), v("right", 0, 0)},
		Scenario: []domain.Variable{v("x", -1, 1), v("v", -0.5, 0.5)}, Initial: func(p, s, _ []float64) { s[0], s[1], s[2] = p[0], p[1], 0 },
		Steps: 30, StepSeconds: 0.1,
		Real: laggedFunctions[float64](), Dual: laggedFunctions[complex128](),
		ODE: &dual.Explicit{Real: laggedODE[float64](rate), Dual: laggedODE[complex128](rate), Span: 0.1, Substeps: 1},
	}
}

func laggedODE[T dual.Scalar](rate float64) func(s, c, u, ds []T) {
	return func(s, _, u, ds []T) { ds[0], ds[1], ds[2] = s[1], s[2], dual.Const[T](rate)*(u[0]-s[2]) }
}

func laggedFunctions[T dual.Scalar]() Functions[T] {
	return Functions[T]{
		Objectives: func(_, _, u, n, j []T) { j[0], j[1] = n[0]*n[0]+0.1*n[1]*n[1], 0.01*u[0]*u[0] },
		Margins:    func(_, _, _, n, m []T) { m[0], m[1] = 2+n[0], 2-n[0] },
	}
}

// An integrator that is unstable or inaccurate is refused, with what would do; with that it is accepted.
func TestIntegratorIsRefused(t *testing.T) {
	y := lagged(80)
	_, err := New(y)
	if err == nil {
		t.Fatal("a step of RK4 that enlarges a deviation 110 times is accepted")
	}
	for _, says := range []string{`system "lagged"`, "one step of the integrator (substeps=1) is off by", "the scale of f", "a deviation of f grows 110 times", "give Substeps: 8 of ODE or Stiff in place of ODE, with Substeps: 2, with"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q is not said of %v", says, err)
		}
	}
	y.ODE.Substeps = 2
	if _, err := New(y); err == nil || !strings.Contains(err.Error(), "unstable") {
		t.Errorf("2 substeps, whose steps enlarge a deviation 25 times: %v", err)
	}
	y.ODE.Substeps = 8
	if p := require.Get(New(y))(t); p.Remarks() != nil {
		t.Errorf("8 substeps: %q", p.Remarks())
	}
	y.ODE, y.Stiff = nil, &dual.Stiff{ODE: y.ODE.Dual, Span: 0.1, Substeps: 2}
	if p := require.Get(New(y))(t); p.Remarks() != nil {
		t.Errorf("stiff: %q", p.Remarks())
	}
}

// Between 1 and 10 % of a state's scale a step is accepted with a remark.
func TestIntegratorIsRemarked(t *testing.T) {
	y := lagged(12)
	p := require.Get(New(y))(t)
	if r := p.Remarks(); len(r) != 1 || !strings.Contains(r[0], "% of the scale of f") || !strings.Contains(r[0], "Substeps: 2 of ODE") {
		t.Errorf("the remarks are %q", r)
	}
	if r := require.Get(New(lagged(5)))(t).Remarks(); r != nil {
		t.Errorf("of a slow pole: %q", r)
	}
}

// What is unstable only where a plant comes to is found: the substrate of a culture that has grown.
func TestIntegratorIsCheckedBeyondStarts(t *testing.T) {
	y := lagged(1)
	y.Name, y.Margins, y.Real.Margins, y.Dual.Margins = "growing", nil, nil, nil
	y.State[0].Hi, y.State[1].Hi = 2, 40
	y.Scenario = []domain.Variable{{Name: "x", Lo: 0.1, Hi: 1}, {Name: "v", Lo: 0.5, Hi: 1}}
	y.ODE = &dual.Explicit{Real: culture[float64], Dual: culture[complex128], Span: 0.1, Substeps: 1}
	if _, err := New(y); err == nil || !strings.Contains(err.Error(), "the scale of x") {
		t.Errorf("a rate that grows beyond 28 1/s in an episode: %v", err)
	}
}

// culture is a substrate that is eaten at a rate that grows with the culture, v.
func culture[T dual.Scalar](s, _, u, ds []T) {
	ds[0], ds[1], ds[2] = s[1]*(0.2+0.02*u[0]-s[0]), 1.3*s[1], u[0]-s[2]
}

// A pole of the equations that lies beyond a limit refuses no system: left keeps x above −2.
func TestStepsBeyondLimitsAreLeftOut(t *testing.T) {
	y := lagged(5)
	y.ODE = &dual.Explicit{Real: poled[float64], Dual: poled[complex128], Span: 0.1, Substeps: 2}
	if r := require.Get(New(y))(t).Remarks(); r != nil {
		t.Errorf("the remarks are %q", r)
	}
	y.Margins, y.Real.Margins, y.Dual.Margins = nil, nil, nil
	if _, err := New(y); err == nil || !strings.Contains(err.Error(), "the scale of v") {
		t.Errorf("without the limit: %v", err)
	}
}

// poled has a pole of v at x = −2.3.
func poled[T dual.Scalar](s, _, u, ds []T) {
	ds[0], ds[1], ds[2] = 6*u[0], 0.1/(s[0]+2.3), u[0]-s[2]
}

// Auto takes the least number in doublings that keeps the error that is asked for.
func TestSubstepsAreChosen(t *testing.T) {
	for _, c := range []struct {
		rate, error float64
		substeps    int
	}{{1, 0, 1}, {12, 0.1, 1}, {12, 0, 4}, {80, 0.05, 4}, {80, 0, 8}} {
		y := lagged(c.rate)
		y.ODE.Substeps, y.ODE.Error = dual.Auto, c.error
		chosen := require.Get(New(y))(t).System()
		if n := chosen.ODE.Substeps; n != c.substeps {
			t.Errorf("a pole of %v with an error of %v: %d substeps, want %d", c.rate, c.error, n, c.substeps)
		}
		if y.ODE.Substeps != dual.Auto {
			t.Error("the system that was given has changed")
		}
	}
	y := lagged(1e6)
	y.ODE.Substeps = dual.Auto
	if _, err := New(y); err == nil || !strings.Contains(err.Error(), "Stiff in place of ODE") {
		t.Errorf("a pole that no number of substeps is for: %v", err)
	}
}

// A declaration, such as a soft limit, leaves the check as it is.
func TestIntegratorIsCheckedOnce(t *testing.T) {
	y := lagged(80)
	y.Soft, y.Rates = []Soft{{Margin: "left", Linear: 1}}, []float64{3}
	if _, err := New(y); err == nil || strings.Count(err.Error(), "unstable") != 1 || strings.Count(err.Error(), y.Name) != 1 {
		t.Errorf("with declarations: %v", err)
	}
	y.Soft, y.Rates, y.Action = nil, nil, slices.Clone(y.Action)
	y.Action[0].Lo, y.Action[0].Hi = 0, 0
	y.Switches = []Switch{OneOf("force", -5, 0, 5)}
	if _, err := New(y); err == nil || !strings.Contains(err.Error(), "unstable") {
		t.Errorf("with a switch: %v", err)
	}
}
