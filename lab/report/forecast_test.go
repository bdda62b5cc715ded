package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/peerrecord"
)

// forecastFactor is how far a launch may be from its forecast, either way.
const forecastFactor = 1.5

// Reasons that a forecast misses launches for. Each names what the counts of instructions do not have.
const (
	scattered = "a thread a row: each lane reads a sector of its own, eight times the sectors that the bytes need (lab/run ptx-report)"
	gathered  = "rows of samples and neighbours are found by number: reads that wait for reads before, with little to issue"
	summed    = "27 MB of partial sums in a chain of reads from the second-level cache, 12 splits one behind the other"
	swept     = "a block a matrix: three passes from the second-level cache by one multiprocessor, float64 sums of a block between them, on 12 of 132"
	queued    = "next to no work: most of it is the host that queues the kernel behind the first event, and this host is slower than that of the H200"
	shallow   = "a depth of 32 columns is two slices: activations and deltas that are read and written weigh more than the product"
)

// missed are the launches of the records that the forecast misses, in both precisions, each with the reason; a device
// in front of one that it misses there alone.
var missed = map[string]string{
	"gpc_domain_gradient_quadratic_60_12 4096 step 5": scattered,
	"gpc_domain_gradient_quadratic_60_12 4096 step 9": scattered,
	"gpc_train_latent 4096 train 10":                  gathered,
	"gpc_train_backward 4096 train 12":                shallow,
	"gpc_train_adam 4096 train 15":                    summed,
	"gpc_train_spectral 4096 train 16":                swept,
	"h100 gpc_train_losses 4096 train 11":             queued,
}

// jobFactor is how far a whole job may be from the forecast of its launches, either way.
const jobFactor = 1.3

// Reasons that the forecasts of whole jobs are others than the records.
const (
	hosts        = "launches alone: the host has a part of every decision of many loops, and the scan of codes is as long as its queries make it (docs/results/gpu.md)"
	read         = "the power flow reads by lists, reads that wait for reads; what crosses between host and device is not in it"
	updatesAlone = "updates alone, which were 5.5 s of it"
	firstKernels = "the host drew its noise then, and one block ranked the codes"
	others       = "the kernels are others since: lanes share a row of a roll-out"
)

var missedJobs = map[string]string{
	"`gpc train`, 359 348 samples, 40 epochs":        updatesAlone,
	"refinement of 4096, opf30":                      read,
	"refinement of 4096, one robot's view":           firstKernels,
	"4096 loops decide, an observation each, Case 1": hosts,
	"4096 loops decide, an observation each, opf30":  hosts,
	"refinement of 4096, cartpole":                   others,
	"refinement of 4096, hvac":                       others,
	"refinement of 4096, quadrotor":                  others,
	"refinement of 4096, chain21":                    others,
}

// Every job that was counted and timed whole is within a factor of the forecast, or its reason stands in missedJobs.
func TestForecastsOfWholeJobs(t *testing.T) {
	var w peerrecord.WholeJobs
	require.OK(t, json.Unmarshal(require.Get(os.ReadFile("../results/h200/jobs.json"))(t), &w))
	counted := 0
	for _, j := range w.Jobs {
		if j.Counted.Case == "" {
			continue
		}
		counted++
		f, ms, reason := JobForecast(j.Counted), j.Latest(), missedJobs[j.Job]
		t.Logf("%s: %.3g ms, forecast %.3g; %s", j.Job, ms, f, reason)
		if !(f > 0) || reason == "" && !(f <= jobFactor*ms && ms <= jobFactor*f) {
			t.Errorf("%s: %.3g ms, forecast %.3g, and no reason", j.Job, ms, f)
		}
	}
	if counted < 13 {
		t.Errorf("%d jobs were counted", counted)
	}
}

// Every launch that was recorded on an H200 and an H100 is within a factor of its forecast, or its reason stands in
// missed; a reason of a launch that is within is one too many.
func TestForecastsAreHeldToTheRecords(t *testing.T) {
	for _, device := range []string{"h200", "h100"} {
		files := require.Get(filepath.Glob("../results/" + device + "/gpu-kernels-*.json"))(t)
		within, limited, all := 0, 0, 0
		used := map[string]bool{}
		for _, file := range files {
			var record bench.Record
			require.OK(t, json.Unmarshal(require.Get(os.ReadFile(file))(t), &record))
			for _, r := range record.Results {
				all++
				l := r.Launch
				f := Forecast(&r)
				if !(f > 0) {
					t.Errorf("%s %s of %d, %d: no forecast of %s", r.Precision, l.Of, r.Batch, l.Place, l.Kernel)
					continue
				}
				key := fmt.Sprintf("%s %d %s %d", l.Kernel, r.Batch, l.Of, l.Place)
				ok := f <= forecastFactor*r.P50 && r.P50 <= forecastFactor*f
				if ok {
					within++
				}
				if l.Limit*forecastFactor >= r.P50 {
					limited++
				}
				if missed[device+" "+key] != "" {
					key = device + " " + key
				}
				reason := missed[key]
				used[key] = true
				if !ok && reason == "" {
					t.Errorf("%s, %s: %.1f µs, forecast %.1f, and no reason", device, key, r.P50, f)
				}
				if ok && strings.TrimSpace(reason) != "" && device == "h200" {
					t.Errorf("%s, %s: %.1f µs, forecast %.1f: within the factor, and a reason %q", device, key, r.P50, f, reason)
				}
			}
		}
		for key := range missed {
			named, _, _ := strings.Cut(key, " ")
			if of := named == "h200" || named == "h100"; !used[key] && (!of || named == device) {
				t.Errorf("%s: a reason for %s, which is no launch of the records", device, key)
			}
		}
		if all < 60 {
			t.Errorf("%s: %d launches are recorded", device, all)
		}
		t.Logf("%s: of %d launches %d are within %g of the forecast, %d of the limit", device, all, within, forecastFactor, limited)
	}
}
