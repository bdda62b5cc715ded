package publish

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A pairing of steps stands in its own table with each part beside the whole of the same Δt, and not among the paper's constants.
func TestStepsStandBesideTheWholeOfTheirSize(t *testing.T) {
	at := func(more map[string]float64) map[string]float64 {
		all := map[string]float64{latentStep: 5}
		for name, v := range more {
			all[name] = v
		}
		return all
	}
	cost := func(mean float64) closedloop.RegretStatistics {
		return closedloop.RegretStatistics{N: 30, Mean: closedloop.Number(mean), MeanCI95: closedloop.OpenInterval{closedloop.Number(mean - 1), closedloop.Number(mean + 1)}}
	}
	r := report.New("machine", known())
	report.Set(r, []closedloop.Pairing{{Case: "integrator-convex", Noise: 0.02, Commit: "c", Pairs: []closedloop.Paired{
		{Method: "navigator", Episodes: 40, Safe: 31, Constants: at(nil)}, {Method: "direct", Episodes: 40, Safe: 38},
		{Method: "navigator", Episodes: 40, Safe: 32, Constants: at(map[string]float64{"lie-gain": 0}), Cost: cost(1)},
		{Method: "navigator", Episodes: 40, Safe: 33, Constants: at(map[string]float64{"lie-gain": 60}), Cost: cost(3)},
		{Method: "navigator", Episodes: 40, Safe: 34, Constants: at(map[string]float64{"lie-gain": 6}), Cost: cost(2)},
	}}})
	d := devices{r}
	table := d.steps()
	for _, want := range []string{
		"| integrator-convex | 0.02 | `direct` | 38/40, [0.0, 0.0] % |",
		"| 5 | 31/40, [0.0, 0.0] % | 0.000 ± 0.000, 0 | 32/40; +1.000 [+0.000, +2.000], n 30 | 34/40; +2.000 [+1.000, +3.000], n 30 | 33/40; +3.000 [+2.000, +4.000], n 30 | – | – | – |",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if other := d.replacedConstants(); strings.Contains(other, "integrator-convex") {
		t.Errorf("among the paper's constants:\n%s", other)
	}
}

// steps is the record of scripts/steps.sh of a case, with one Δt and noise.
func (r records) steps(name string, dt, noise float64) *closedloop.Pairing {
	r.t.Helper()
	p := new(closedloop.Pairing)
	require.OK(r.t, json.Unmarshal([]byte(raw(r.t, fmt.Sprintf("bench/results/epyc-2-cores/%s-step-%g-noise-%g.json", name, dt, noise))), p))
	return p
}
