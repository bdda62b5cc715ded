package results

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/secure"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Scenarios count what every one, solved separately, breaks, on any number of threads; one without a power flow counts for all
// outages.
func TestScenariosCountWhatEachBreaks(t *testing.T) {
	n := networktest.Load(t, "case_ieee30")
	list, _ := secure.Named(n, "all")
	_, groups, err := ReadOutages(n, "pairs", strings.NewReader("branch 1, unit 3\nbranch 4, branch 6\n"))
	require.OK(t, err)
	pd, qd := networktest.Walk(n, 0.9, 0.5, 20, rand.New(rand.NewPCG(3, 4)))
	heavy, reactive := n.Loads(9)
	pd, qd = append(pd, heavy), append(qd, reactive)
	for name, c := range map[string]struct {
		pr  FlowProblem
		opt SecurityOptions
	}{
		"plain":  {FlowProblem{}, SecurityOptions{Groups: groups}},
		"limits": {FlowProblem{Options: powerflow.Options{EnforceQ: true}}, SecurityOptions{Groups: groups, Emergency: 1.3}},
		"shared": {FlowProblem{Options: powerflow.Options{EnforceQ: true, Slack: NewSlack(n, false, nil)}}, SecurityOptions{ShareMissing: true, Emergency: 1.3, Band: 0.05}},
		"room":   {FlowProblem{Options: powerflow.Options{EnforceQ: true, Slack: NewSlack(n, true, nil)}}, SecurityOptions{ShareMissing: true, Emergency: 1.3, Band: 0.05}},
	} {
		var all [2]*Scenarios
		for i, threads := range []int{1, 3} {
			c.opt.Threads, c.opt.List = threads, list
			rows := Rows(pd, qd)
			all[i] = require.Get(AfterScenarios(t.Context(), n, c.pr, c.opt, func(int) (Samples, error) { return rows(7) }))(t)
			all[i].WallMS = 0
		}
		if !reflect.DeepEqual(all[0], all[1]) {
			t.Errorf("%s: other results on three threads", name)
		}
		got, before, after := all[0], 0, 0
		outages, elements, worst := map[Outage]int{}, map[string]int{}, map[string]float64{}
		for k := range pd {
			pr := c.pr
			pr.Pd, pr.Qd = pd[k], qd[k]
			one, err := After(t.Context(), n, pr, c.opt)
			if err != nil {
				for _, o := range all[0].Outages {
					outages[o.Outage]++
				}
				before, after = before+1, after+1
				continue
			}
			before += bit(len(one.Violations) > 0)
			after += bit(one.Breaking+one.Unsolved > 0)
			broken := map[string]bool{}
			for _, o := range one.Outages {
				outages[o.Outage] += bit(!o.Converged || len(o.Violations) > 0)
				for _, v := range o.Violations {
					key := fmt.Sprint(v.Kind, v.Where())
					broken[key], worst[key] = true, max(worst[key], v.Excess)
				}
			}
			for key := range broken {
				elements[key]++
			}
		}
		if got.Scenarios != len(pd) || got.Before.Scenarios != before || got.After.Scenarios != after || len(got.Outages) != got.Count || len(got.Elements) != len(elements) {
			t.Errorf("%s: %+v, want %d and %d of %d scenarios, and %d limits", name, got.After, before, after, len(pd), len(elements))
		}
		for _, o := range got.Outages {
			if o.Scenarios != outages[o.Outage] || o.Unsolved == 0 || !(o.Low < o.Probability && o.Probability <= o.High) {
				t.Errorf("%s, %s: %+v, want %d scenarios", name, o.Where(), o, outages[o.Outage])
			}
		}
		for _, e := range got.Elements {
			if key := fmt.Sprint(e.Kind, e.Limit.Where()); e.Scenarios != elements[key] || math.Abs(e.Excess-worst[key]) > 1e-6 || e.Scenario == "" {
				t.Errorf("%s, %s: %+v, want %d scenarios and %g", name, key, e, elements[key], worst[key])
			}
		}
	}
	// Without any power flow the outages have their names.
	dark := require.Get(AfterScenarios(t.Context(), n, FlowProblem{}, SecurityOptions{List: list[:1], Groups: groups[:1]}, Rows(pd[len(pd)-1:], qd[len(pd)-1:])))(t)
	if first := dark.Outages[0]; first.Outage != NewOutage(n, list[0]) || first.Unsolved != 1 || dark.Outages[1].Kind != "group" {
		t.Errorf("outages without a power flow: %+v", dark.Outages)
	}
	// Clopper and Pearson's intervals, as R's binom.test gives them.
	for k, want := range map[int][2]float64{0: {0, 0.003682084}, 7: {0.002819088, 0.014368505}, 1000: {0.996317916, 1}} {
		if r := (Risk{Scenarios: k}); true {
			if r.estimate(1000); math.Abs(r.Low-want[0]) > 1e-6 || math.Abs(r.High-want[1]) > 1e-6 {
				t.Errorf("%d of 1000: %g to %g, want %v", k, r.Low, r.High, want)
			}
		}
	}
}
