package gallery

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/cartpole"
	"github.com/gpc-engine/gpc/examples/gallery/cstr"
	"github.com/gpc-engine/gpc/examples/gallery/quadrotor"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testcart"
)

// whole is a system of which every state is measured with noise, so many periods late.
func whole(t testing.TB, y equations.System, noise, delay float64) equations.System {
	if noise > 0 {
		y.Measurement = domain.Whole(require.Get(equations.New(y))(t).Spec(), noise)
	}
	y.Delay = delay
	return y
}

// partly is a system of which these states alone are measured.
func partly(t testing.TB, y equations.System, noise float64, states ...string) equations.System {
	y.Measurement = require.Get(domain.Partly(require.Get(equations.New(y))(t).Spec(), noise, states))(t)
	return y
}

// acted is a system of whose states each is disturbed, in the size of its noise.
func acted(y equations.System) equations.System {
	m := *y.Measurement
	m.Process = m.Deviation
	y.Measurement = &m
	return y
}

// lasting is a system that runs on.
func lasting(y equations.System) equations.System {
	y.Horizon, y.Steps = 20, 60
	return y
}

// given is a system of which what is measured is a function of its program, as in a file.
func given(t testing.TB, y equations.System) equations.System {
	p := require.Get(equations.New(y))(t)
	read := *require.Get(p.Program())(t)
	read.Functions = append(slices.Clip(read.Functions), require.Get(p.Outputs(y.Measurement))(t))
	y.Source = equations.Given(&read)
	return y
}

// Behind estimator and prediction a controller in C drives its plant to where Go drives it, with the same errors of what is measured
// and the same disturbances; and where sensors have faults it tells the same faults and has the same estimates. The derivatives
// of Go are dual numbers and those of C programs, which round otherwise.
func TestMeasuredControllerInC(t *testing.T) {
	for _, test := range []struct {
		y           equations.System
		level       float64 // kept off the limits
		method      string
		episodes    int
		state, cost float64
		faults      int  // at least
		long        bool // not under -short
	}{
		{cartpole.Positions(), 0, export.Method, 24, 1e-9, 1e-9, 8, false},
		{given(t, cartpole.Positions()), 0, export.Method, 24, 1e-9, 1e-9, 8, false},
		{partly(t, cartpole.Track(), 0.003, "theta", "x"), 0, export.Method, 12, 1e-9, 1e-9, 8, false},
		{whole(t, cartpole.Track(), 0, 2), 0, export.Method, 12, 1e-9, 1e-9, 0, true},
		{whole(t, quadrotor.System(), 0.0005, 1.4), 0, export.Method, 12, 1e-5, 1e-5, 8, true}, // an observation may be rounded to another float
		{whole(t, quadrotor.System(), 0, 0.4), 0, export.Method, 12, 1e-5, 1e-5, 0, true},
		{whole(t, cstr.System(), 0.003, 0.4), 0, export.Method, 12, 1e-9, 1e-9, 8, false},
		{testcart.System(), 0, export.Solver, 6, 1e-4, 1e-6, 8, true},
		{whole(t, testcart.System(), 0, 1.6), 0, export.Solver, 6, 1e-4, 1e-6, 8, false},
		{lasting(testcart.System()), 0, export.Solver, 6, 1e-4, 1e-6, 8, true}, // what comes behind the horizon is found again for each estimate of the wind
		{cartpole.Positions(), 3, export.Method, 12, 1e-9, 1e-9, 8, true},
		{whole(t, cartpole.Track(), 0.005, 1), 3, export.Method, 12, 1e-9, 1e-9, 8, false},
		{whole(t, wider(cartpole.Track(), 1.3), 0.01, 0), 3, export.Method, 12, 1e-9, 1e-9, 8, false}, // where no plan keeps off all, less is kept off
		{whole(t, quadrotor.System(), 0.0005, 1.4), 3, export.Method, 12, 1e-5, 1e-5, 8, true},        // with margins along the escape
		{acted(whole(t, cartpole.Track(), 0.002, 0)), 3, export.Method, 6, 1e-9, 1e-9, 8, false},
		{acted(whole(t, quadrotor.System(), 0.0005, 1.4)), 3, export.Method, 6, 1e-5, 1e-5, 8, true},
		{testcart.System(), 3, export.Solver, 6, 1e-4, 1e-6, 8, false},
		{whole(t, cartpole.Track(), 0.005, 1), 3, export.Solver, 6, 1e-3, 1e-4, 8, true},
	} {
		if test.long && testing.Short() {
			continue
		}
		t.Run(fmt.Sprintf("%s/%s/%v/%v", test.y.Name, test.method, test.y.Delay, test.level), func(t *testing.T) {
			got := exportedOff(t, test.y, test.level, test.method, test.episodes, "-O1")
			for what, bound := range map[string]float64{"state_off": test.state, "cost_off": test.cost} {
				if v := require.Get(strconv.ParseFloat(got[what], 64))(t); !(v <= bound) {
					t.Errorf("%s is %g, want at most %g", what, v, bound)
				}
			}
			if test.level > 0 && test.method == export.Method {
				followed(t, got, test.episodes*(test.y.Steps-int(math.Ceil(test.y.Delay))))
			}
			if test.y.Measurement == nil {
				return
			}
			if n := require.Get(strconv.Atoi(got["faults"]))(t); n < test.faults || got["faults_differ"] != "0" {
				t.Errorf("%d faults of sensors, of which %s are told otherwise in C; want at least %d and none", n, got["faults_differ"], test.faults)
			}
			if v := require.Get(strconv.ParseFloat(got["estimate_off"], 64))(t); !(v <= 1e-12) {
				t.Errorf("an estimate in C is %g typical sizes off", v)
			}
			if got["loop_bytes"] != got["loop_bytes_said"] {
				t.Errorf("a loop takes %s bytes, the export says %s", got["loop_bytes"], got["loop_bytes_said"])
			}
		})
	}
}

// followed checks how many decisions of each kind C counts: one of the first of an episode has no plan to follow, and others follow one.
func followed(t *testing.T, got map[string]string, decisions int) {
	t.Helper()
	sum := 0
	for _, kind := range []string{"first", "followed", "renewed", "rolled"} {
		sum += require.Get(strconv.Atoi(got[kind]))(t)
	}
	if got["first"] != got["episodes"] || got["followed"] == "0" || sum != decisions {
		t.Errorf("%s episodes have %s first decisions, %s that follow the plan before, %s that find it anew and %s that are rolled out, want %d together",
			got["episodes"], got["first"], got["followed"], got["renewed"], got["rolled"], decisions)
	}
}

// A controller in C that follows plans has them in the memory of its loop: of each stage what following it reads, derivatives in float in the
// place of those that they are computed from. With all in double, by the action too, a loop took what stands behind it.
func TestMemoryOfPlansInC(t *testing.T) {
	most := map[string]int{
		"cartpole":        12300,  // 16768
		"cartpole-track":  14300,  // 21888
		"cstr":            21300,  // 27696
		"double-pendulum": 51900,  // 73496
		"chain9":          55000,  // 90808
		"chain21":         211100, // 405256
		"quadrotor":       87600,  // 155528
		"hvac":            32800,  // 43536
	}
	for _, y := range Systems() {
		if most[y.Name] == 0 || testing.Short() && y.Name != "quadrotor" {
			continue
		}
		got := exportedOff(t, whole(t, y, 0.01, 0), 3, export.Method, 1, "-O0")
		if n := require.Get(strconv.Atoi(got["loop_bytes"]))(t); n > most[y.Name] || got["loop_bytes"] != got["loop_bytes_said"] {
			t.Errorf("%s: a loop takes %d bytes, the export says %s, want at most %d", y.Name, n, got["loop_bytes_said"], most[y.Name])
		}
	}
}

// What comes before a controller and is not there in C is refused by name.
func TestExportRefusesWhatIsBefore(t *testing.T) {
	other := cartpole.Positions()
	m := *other.Measurement
	m.Real = func(s, _, _, y []float64) { y[0], y[1] = s[0], 2*s[2] }
	other.Measurement = &m
	unread := cartpole.Positions()
	unread.Source = nil
	for _, test := range []struct {
		y     equations.System
		level float64
		says  string
	}{
		{lasting(cartpole.Positions()), 3, "which method nmpc in C cannot: leave KeepOff out"},
		{other, 0, "Measurement.Real as it was read writes"},
		{unread, 0, "whose text is not known"},
	} {
		c := require.Get(gpc.NewCase(require.Get(test.y.Case())(t)))(t)
		if test.level > 0 {
			c = require.Get(c.Robust(test.level))(t)
		}
		dir := filepath.Join(t.TempDir(), "c")
		_, err := c.Export(t.Context(), nil, gpc.ExportOptions{Dir: dir, Method: export.Solver, Episodes: 1})
		if !errors.As(err, &gpc.InputError{}) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v, want bad input that says %q", err, test.says)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%q: the folder was written", test.says)
		}
	}
}
