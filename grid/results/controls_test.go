package results_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Transformers, a shunt and a phase shifter keep their bands; the case with their settings has this power flow, and a setting
// in steps is one of them.
func TestControlsKeepTheirBands(t *testing.T) {
	c := networktest.Case(t, "case14")
	n := networktest.Of(t, c)
	lines := "tap 10 bus 6 1.07 1.07 0.9 1.1\ntap 9 bus 9 1.04 1.045 0.85 1.15 40\nshunt 14 bus 14 1.045 1.05 0 40\nshift 8 flow 32 33 -20 20\n"
	list := require.Get(results.ReadControls(n, "controls", strings.NewReader(lines)))(t)
	flow, p, err := results.Regulate(n, results.FlowProblem{}, list)
	require.OK(t, err)
	if !flow.Converged || len(flow.Controls) != 4 {
		t.Fatal(flow.Reason)
	}
	for i, y := range flow.Controls {
		if !y.Keeps && y.Steps == 0 || y.Set < y.Min || y.Set > y.Max {
			t.Errorf("control %d: %+v", i, y)
		}
	}
	if steps := (list[1].Set - 0.85) / 0.0075; math.Abs(steps-math.Round(steps)) > 1e-9 {
		t.Errorf("a ratio of %v is none of the steps", list[1].Set)
	}
	results.Put(c, n, list)
	again, _, err := results.Flow(networktest.Of(t, c), results.FlowProblem{})
	require.OK(t, err)
	for b := range again.Bus {
		if math.Abs(again.Bus[b].Vm-p.Vm[b]) > 1e-8 {
			t.Errorf("bus %d: %v pu with these settings in the case, %v", b+1, again.Bus[b].Vm, p.Vm[b])
		}
	}
	if f := again.Branch[7].Pf; f < 31.9 || f > 33.1 {
		t.Errorf("the phase shifter lets %v MW through", f)
	}
}

// A control without room ends at its range, and says that it does not keep its band. What is wrong in a list is said.
func TestControlsAtTheEndOfTheirRange(t *testing.T) {
	var c *matpower.Case = networktest.Case(t, "case14")
	n := require.Get(network.New(c))(t)
	list := require.Get(results.ReadControls(n, "controls", strings.NewReader("shunt 14 bus 14 1.2 1.3 0 5\n")))(t)
	flow, _, err := results.Regulate(n, results.FlowProblem{}, list)
	require.OK(t, err)
	if y := flow.Controls[0]; y.Keeps || y.Set != 5 {
		t.Errorf("%+v", y)
	}
	// A range beyond all that a network takes is no other problem; a shifter on a bridge stays where it is.
	nine := require.Get(network.New(networktest.Case(t, "case9")))(t)
	list = require.Get(results.ReadControls(nine, "controls", strings.NewReader("shunt 9 bus 9 1.03 1.05 0 1e9\nshift 4 flow 20 30 -1e9 1e9\n")))(t)
	flow, _, err = results.Regulate(nine, results.FlowProblem{}, list)
	require.OK(t, err)
	if y := flow.Controls; !y[0].Keeps || math.Abs(y[0].Set-38.19) > 0.01 || y[1].Keeps || y[1].Set != 0 {
		t.Errorf("%+v", y)
	}
	for line, reason := range map[string]string{"tap 8 bus 4 1 1 0.9 1.1\ntap 8 bus 7 1 1 0.9 1.1": "line 2: tap 8 is listed twice", "tap 99 bus 4 1 1 0.9 1.1": "no branch in service is 99", "tap 8 bus 99 1 1 0.9 1.1": "no bus in service is 99", "tap 8 bus 4 1 1 0.9": "want", "tap 8 bus 4 1.1 1 0.9 1.1": "without room", "tap 8 bus 4 1 x 0.9 1.1": "finite", "valve 8 bus 4 1 1 0.9 1.1": "want tap", "tap 8 bus 4 1 1 0.9 1.1 0": "steps"} {
		if _, err := results.ReadControls(n, "controls", strings.NewReader(line)); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v, want %q", line, err, reason)
		}
	}
}
