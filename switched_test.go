package gpc_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/examples/gallery/switched"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

func TestWhatASwitchedCaseCannotExportIsSaid(t *testing.T) {
	for _, v := range []struct {
		system equations.System
		opt    gpc.ExportOptions
		want   string
	}{
		{switched.Fishing(), gpc.ExportOptions{MapOnly: true, Records: 1}, "leave MapOnly out"},
		{switched.Fishing(), gpc.ExportOptions{Method: "sum-up", Episodes: 1}, "method sum-up cannot be exported"},
		{switched.Fishing(), gpc.ExportOptions{Method: "search-64-ahead", Episodes: 1}, "method search-64-ahead cannot be exported"},
		{switched.Fishing(), gpc.ExportOptions{Method: "refine-64", Episodes: 1}, "no map to export"},
		{switched.HeatPump(), gpc.ExportOptions{Method: "search-64-polish", Episodes: 1}, "method search-64-polish cannot be exported"},
		{switched.HeatPump(), gpc.ExportOptions{Method: "nmpc", Episodes: 1}, `no exact solver "nmpc": "relaxed-512-polish" decides without a map`},
		{switched.Fishing(), gpc.ExportOptions{Method: "nmpc-ahead", Episodes: 1}, `no exact solver "nmpc-ahead": "search-512" decides without a map`},
		{boiler(), gpc.ExportOptions{Method: "search-64", Episodes: 1}, "export a copy of the system without them"},
	} {
		c := require.Get(gpc.NewCase(require.Get(v.system.Case())(t)))(t)
		v.opt.Dir = filepath.Join(t.TempDir(), "c")
		if _, err := c.Export(t.Context(), nil, v.opt); err == nil || !strings.Contains(err.Error(), v.want) {
			t.Errorf("%s, %q: %v, want %q", c.Name(), v.opt.Method, err, v.want)
		}
	}
}

// boiler is a room whose boiler stays on for three periods and off for two. The outside temperature is not measured.
func boiler() equations.System {
	return equations.System{
		Name: "boiler", Description: "a room with a boiler",
		State: []domain.Variable{{Name: "room", Unit: "°C", Lo: 15, Hi: 25}}, Context: []domain.Variable{{Name: "outside", Unit: "°C"}},
		Action: []domain.Variable{{Name: "boiler", Unit: "1"}}, Objectives: []domain.Variable{{Name: "energy", Unit: "1"}},
		Margins:  []domain.Variable{{Name: "cold", Unit: "K"}, {Name: "hot", Unit: "K"}},
		Scenario: []domain.Variable{{Name: "room", Unit: "°C", Lo: 20, Hi: 22}, {Name: "outside", Unit: "°C", Lo: -5, Hi: 10}},
		Initial:  func(p, s, c []float64) { s[0], c[0] = p[0], p[1] },
		Steps:    24, StepSeconds: 900, ODE: &dual.Explicit{Real: warm[float64], Dual: warm[complex128], Span: 0.25, Substeps: 1},
		Switches: []equations.Switch{{Action: "boiler", Values: []float64{0, 1}, Least: []int{2, 3}, Initial: math.NaN()}},
		Real:     comfort[float64](), Dual: comfort[complex128](),
		Measurement: &domain.Measurement{
			Outputs: []domain.Variable{{Name: "room", Unit: "°C"}}, Deviation: []float64{0.1}, Process: []float64{0.06}, Unknown: []domain.Unknown{{Context: 0, Mean: 2.5, Deviation: 5}},
		},
	}
}

func warm[T dual.Scalar](s, c, u, ds []T) {
	ds[0] = dual.Const[T](0.1)*(c[0]-s[0]) + dual.Const[T](4)*u[0]
}

func comfort[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{
		Objectives: func(_, _, u, _, j []T) { j[0] = u[0] },
		Margins:    func(_, _, _, n, m []T) { m[0], m[1] = n[0]-dual.Const[T](19), dual.Const[T](24)-n[0] },
	}
}

// The smallest margin of a switched loop is of its limits: that the rules of its switches are kept says nothing of them. One without limits
// has none.
func TestTheSmallestMarginOfASwitchedLoopIsOfItsLimits(t *testing.T) {
	y := boiler()
	y.Measurement = nil
	var least, all float64
	opt := closedloop.Options{Episodes: 2, Seed: 5, WithoutOptima: true, Preference: domain.Preference{Adaptive: true}, Visit: func(e *closedloop.EpisodeRecord) {
		least, all = min(least, e.End.Margins[0], e.End.Margins[1]), min(all, domain.Smallest(e.End.Margins))
	}}
	least = math.Inf(1)
	evaluated := func(y equations.System) *closedloop.Result {
		return require.Get(caseOf(t, y).Evaluate(t.Context(), gpc.Setup{Method: "search-64"}, engine.Options{}, opt))(t)
	}
	if r := evaluated(y); float64(r.MarginMin) != least || least <= 0 || all != 0 || r.Safe != 1 {
		t.Errorf("the smallest margin is %v, want %v, and %v with the rules", r.MarginMin, least, all)
	}
	opt.Visit = nil
	if r := evaluated(switched.Fishing()); !math.IsInf(float64(r.MarginMin), 1) {
		t.Errorf("without a limit the smallest margin is %v", r.MarginMin)
	}
}

// A plant with another gain of a switched actuator is driven, with the gain in its equations alone.
func TestASwitchedPlantHasOtherGains(t *testing.T) {
	y := boiler()
	y.Measurement = nil
	opt := closedloop.Options{Episodes: 3, Seed: 5, WithoutOptima: true, Preference: domain.Preference{Adaptive: true}}
	weak := require.Get(caseOf(t, y).Shifted(map[string]float64{"boiler": 0.7}))(t)
	evaluated := func(c *gpc.Case) float64 {
		return float64(require.Get(c.Evaluate(t.Context(), gpc.Setup{Method: "search-64"}, engine.Options{}, opt))(t).CostMean)
	}
	if whole, less := evaluated(caseOf(t, y)), evaluated(weak); !(less > whole) {
		t.Errorf("a boiler of 70 %% costs %v, a whole one %v", less, whole)
	}
}

// Where no plan keeps all of the distance to its end, the decisions that a change binds keep theirs.
func TestTheNextDecisionsKeepTheirDistance(t *testing.T) {
	y := boiler()
	comfort := y.Real.Margins
	y.Real.Margins = func(s, c, u, n, m []float64) {
		comfort(s, c, u, n, m)
		m[1]--
	}
	dual := y.Dual.Margins
	y.Dual.Margins = func(s, c, u, n, m []complex128) {
		dual(s, c, u, n, m)
		m[1]--
	}
	opt := closedloop.Options{Episodes: 40, Seed: 5, WithoutOptima: true, Preference: domain.Preference{Adaptive: true}}
	r := require.Get(require.Get(caseOf(t, y).Robust(3))(t).Evaluate(t.Context(), gpc.Setup{Method: "search-64"}, engine.Options{}, opt))(t)
	if r.Safe < 1 {
		t.Errorf("%v of the episodes are safe: %+v", r.Safe, r.Unsafe)
	}
}

// Limits that are kept off hold under noise, what acts on the plant and a late action, as they do not without. Least times, which are
// limits too, hold in both.
func TestASwitchedLoopKeepsOffItsLimits(t *testing.T) {
	y := boiler()
	y.Delay = 1.4
	c := caseOf(t, y)
	opt := closedloop.Options{Episodes: 20, Seed: 5, WithoutOptima: true, Preference: domain.Preference{Adaptive: true}}
	for level, want := range map[float64]func(safe float64) bool{
		0: func(safe float64) bool { return safe < 0.9 }, 3: func(safe float64) bool { return safe == 1 },
	} {
		r := require.Get(require.Get(c.Robust(level))(t).Evaluate(t.Context(), gpc.Setup{Method: "search-64"}, engine.Options{}, opt))(t)
		for _, unsafe := range r.Unsafe {
			if strings.Contains(unsafe.Cause, "boiler") {
				t.Errorf("%v deviations: %+v", level, unsafe)
			}
		}
		if !want(float64(r.Safe)) {
			t.Errorf("%v deviations kept off: %v of the episodes are safe", level, r.Safe)
		}
	}
}
