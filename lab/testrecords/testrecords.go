// Package testrecords makes records for the tests of what reports and pages show of them.
package testrecords

import (
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/grid/optima"
	"github.com/gpc-engine/gpc/lab/scaling"
)

// Run is a record of episodes whose regrets are given, in %; the oracle's cost is 100.
func Run(name, method, regime string, regrets ...float64) closedloop.Result {
	r := closedloop.Result{
		Case: name, Method: method, Regime: regime, Episodes: len(regrets), Safe: 1, RegretN: len(regrets), Decisions: 300 * len(regrets), Excluded: 7,
		Outcomes: &closedloop.Outcomes{}, Load: &closedloop.Load{CPUs: 2, Start: 1, End: 2.25, Others: 0.125},
	}
	for i, v := range regrets {
		r.RegretPct += closedloop.Number(v / float64(len(regrets)))
		o := r.Outcomes
		o.Episode, o.Safe = append(o.Episode, i), append(o.Safe, true)
		o.Cost, o.Oracle = append(o.Cost, 100+v), append(o.Oracle, 100)
	}
	return r
}

// Scaling is a record of costs that grow by an exponent.
func Scaling(exponent float64) *scaling.Scaling {
	s := &scaling.Scaling{Device: "some CPU", Commit: "c0ffee", Command: "gpc bench scaling", Backend: "cpu", ISA: "avx2", Threads: 2, Load: &closedloop.Load{CPUs: 2, Start: 3.5}}
	for _, axis := range []string{"batch", "codes"} {
		c := scaling.Curve{Axis: axis, What: "something of some size"}
		for _, x := range []int{1, 4, 16, 64, 256, 1024} {
			us := 3 * math.Pow(float64(x), exponent)
			c.Points = append(c.Points, scaling.Point{X: x, Median: us, Interval: [2]float64{0.9 * us, 1.1 * us}, Calls: 20, GFlop: 1e-3 * float64(x)})
		}
		s.Curves = append(s.Curves, c)
	}
	return s
}

func OptimalFlow(name string, objective, published float64, iterations int) optima.Network {
	gap, violation, peer := (objective-published)/published, 1e-10, 4000.0
	return optima.Network{Name: name, Buses: 100, Status: "optimal", Objective: &objective, Published: &published, Gap: &gap,
		Iterations: iterations, CPUMS: 20, Violation: &violation, PeerMS: &peer}
}

// Row is the line of a page's first table row that begins so.
func Row(t *testing.T, page, begin string) string {
	t.Helper()
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, begin) {
			return line
		}
	}
	t.Fatalf("no row %q in\n%s", begin, page)
	return ""
}

// RowsHold asks that the page has, of each row's beginning, the cells.
func RowsHold(t *testing.T, page string, want map[string]string) {
	t.Helper()
	for begin, cells := range want {
		if line := Row(t, page, begin); !strings.Contains(line, cells) {
			t.Errorf("%s lacks %s", line, cells)
		}
	}
}
