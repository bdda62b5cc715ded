package results

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/networktest"
)

// Lines of outages and of controls are refused with their place, or name what is in service, each once, by finite numbers. Outages
// that are read are solved.
func FuzzLines(f *testing.F) {
	for _, text := range []string{
		"branch 7\nunit 2\n", "north: branch 5, branch 6\nbus 7\r\n", "\ufeff# none\nbranch 1,unit 2,bus 3\n", "branch +7\nbranch 7\n", "branch 1, branch 1\n", ": branch 1,\n", "bus 1\nbus 2, unit 1\n",
		"tap 8 bus 9 1.03 1.05 0.9 1.1 16\n", "shift 4 flow 20 30 -30 30\nshift 4 -30 30\n", "shunt 9 bus 14 1 1.05 0 40 10\n", "tap 8 0.9 1.1 16\ntap 9 1e308 1e308\n", "tap 8 nan inf 1 2\n",
	} {
		f.Add(text)
	}
	n := networktest.Load(f, "case14")
	f.Fuzz(func(t *testing.T, text string) {
		list, groups, err := ReadOutages(n, "fuzzed", strings.NewReader(text))
		if err != nil && !strings.HasPrefix(err.Error(), "fuzzed") {
			t.Errorf("%q is refused without its place: %v", text, err)
		}
		if err == nil && len(list)+len(groups) < 20 {
			r, err := After(t.Context(), n, FlowProblem{}, SecurityOptions{List: list, Groups: groups})
			if err != nil || r.Count != len(list)+len(groups) || r.Secure+r.Breaking+r.Unsolved > r.Count {
				t.Errorf("%q: %v, %+v", text, err, r)
			}
		}
		controls, err := ReadControls(n, "fuzzed", strings.NewReader(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "fuzzed, line ") {
				t.Errorf("%q is refused without its place: %v", text, err)
			}
			return
		}
		listed := map[string]bool{}
		for _, c := range controls {
			key := fmt.Sprint(c.Kind, c.Branch, c.Shunt)
			if sum := c.Low + c.High + c.Min + c.Max; listed[key] || !(c.Min <= c.Max) || math.IsNaN(sum) || math.IsInf(c.Min, 0) || math.IsInf(c.Max, 0) || c.Branch+c.Shunt < 1 {
				t.Errorf("%q: %+v", text, c)
			}
			listed[key] = true
		}
	})
}
