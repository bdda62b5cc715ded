package results

import (
	"context"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/secure"
)

// Every outage of a list is solved once and counted as it ends, with the same results on any number of threads, whether the
// reference takes up what is missing or units share it.
func TestAfterIsTheSameOnAnyNumberOfThreads(t *testing.T) {
	n := networktest.Load(t, "case_ieee30")
	list, _ := secure.Named(n, "all")
	for _, shared := range []bool{false, true} {
		var all [2]*Security
		for i, threads := range []int{1, 3} {
			told := 0
			opt := SecurityOptions{List: list, Emergency: 1.3, Band: 0.05, ShareMissing: shared, Threads: threads, Progress: func(done, total int) {
				if told++; done != told || total != len(list) {
					t.Errorf("%d of %d after %d calls", done, total, told)
				}
			}}
			pr := FlowProblem{Options: powerflow.Options{EnforceQ: true}}
			got, err := After(context.Background(), n, pr, opt)
			if err != nil {
				t.Fatal(err)
			}
			if told != len(list) || len(got.Outages) != len(list) {
				t.Errorf("%d of %d outages, %d calls of progress", len(got.Outages), len(list), told)
			}
			seen := map[Outage]bool{}
			for _, o := range got.Outages {
				seen[o.Outage] = true
			}
			if len(seen) != len(list) {
				t.Errorf("%d different outages of %d", len(seen), len(list))
			}
			got.WallMS, all[i] = 0, got
		}
		if !reflect.DeepEqual(all[0], all[1]) {
			t.Errorf("shared %v: other results on three threads", shared)
		}
	}
}

// An analysis begins at voltages that are given: from the file's, PGLib's 300 buses have no power flow, and the error says so.
func TestAfterBeginsAtADispatch(t *testing.T) {
	n := networktest.Load(t, "case39")
	flow, sol, err := Flow(n, FlowProblem{Options: powerflow.Options{Start: powerflow.Flat}})
	if err != nil || !flow.Converged {
		t.Fatal(err, flow.Reason)
	}
	again, _, err := Flow(n, FlowProblem{Vm: sol.Vm, Va: sol.Va})
	if err != nil || again.Iterations != 0 || math.Abs(*again.LossMW-*flow.LossMW) > 1e-6 {
		t.Errorf("%v: %d iterations from the solution, losses of %g and %g MW", err, again.Iterations, *again.LossMW, *flow.LossMW)
	}
	none := networktest.Load(t, "pglib_opf_case300_ieee")
	if _, err := After(context.Background(), none, FlowProblem{}, SecurityOptions{List: secure.Branches(none)}); !errors.As(err, new(NoBaseError)) {
		t.Errorf("error %v, want that there is no power flow", err)
	}
}
