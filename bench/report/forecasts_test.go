package report

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/bench"
)

// A forecast is filled by the rows of a GPU that are its own, by no others.
func TestForecastsAreFilledByTheirOwnRows(t *testing.T) {
	if text := (devices{New("nowhere", nil)}).forecasts(); strings.Count(text, "not run") != len(forecasts) || !strings.Contains(text, "510 to 650 µs | ≤ 600 µs") || !strings.Contains(text, "11 to 14 s | ≤ 12 s") {
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
	r := New("h200", nil)
	r.Benchmarks = []bench.Record{{Results: []bench.Result{own, cpu, two, row, other, eig}}}
	text := (devices{r}).forecasts()
	if strings.Count(text, "not run") != len(forecasts)-2 || !strings.Contains(text, "812 µs (h200)") || !strings.Contains(text, "88 µs (h200)") {
		t.Errorf("after a run:\n%s", text)
	}
}

// A suite that did not end is not shown as one without a failure.
func TestConformanceIsShown(t *testing.T) {
	r := New("h200", nil)
	if err := r.Add([]byte(`{"device":"NVIDIA H200","commit":"c","suites":[{"step":"suite-operations","ok":true,"passed":40,"failed":[],"skipped":["TestFaultsOfARound"],"seconds":31},{"step":"suite-rollout","ok":false,"passed":2,"failed":[],"skipped":[],"seconds":90}]}`)); err != nil {
		t.Fatal(err)
	}
	rows := conformanceSection(r.Conformances[0]).rows
	if len(rows) != 3 || rows[1][3] != "TestFaultsOfARound" || rows[1][2] != "0" || rows[2][2] != "did not end" {
		t.Errorf("%q", rows)
	}
}
