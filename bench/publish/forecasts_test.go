package publish

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/bench/report"
)

// A forecast is filled by the rows of a GPU that are its own, by no others.
func TestForecastsAreFilledByTheirOwnRows(t *testing.T) {
	if text := (devices{report.New("nowhere", nil)}).forecasts(); strings.Count(text, "not run") != len(forecasts) || !strings.Contains(text, "510 to 650 µs | ≤ 600 µs") || !strings.Contains(text, "11 to 14 s | ≤ 12 s") {
		t.Errorf("without a run:\n%s", text)
	}
	row := bench.Result{Op: "step", Case: "opf30", Backend: "cuda", ISA: "sm_90", Precision: "fp32", Batch: 4096, Size: "z 32", P50: 812, Calls: 20}
	own := row
	own.Size, own.P50 = "z 32, own objectives", 700
	cpu := row
	cpu.Backend, cpu.P50 = "cpu", 600
	two := row
	two.Devices, two.P50 = 2, 400
	eig := bench.Result{Op: "kernels", Case: "opf30", Backend: "cuda", Precision: "fp32", Batch: 4096, Size: "z 32", P50: 88, Calls: 20, Launch: &bench.Launch{Kernel: "gpc_eig"}}
	other := eig
	other.Launch, other.P50 = &bench.Launch{Kernel: "gpc_metric"}, 3
	r := report.New("h200", nil)
	report.Set(r, []bench.Record{{Results: []bench.Result{own, cpu, two, row, other, eig}}})
	text := (devices{r}).forecasts()
	if strings.Count(text, "not run") != len(forecasts)-2 || !strings.Contains(text, "812 µs (h200)") || !strings.Contains(text, "88 µs (h200)") {
		t.Errorf("after a run:\n%s", text)
	}
}
