package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/report"
)

// What a run writes becomes records that the report reads, the last of what was measured
// twice.
func TestARunBecomesRecords(t *testing.T) {
	run, results := t.TempDir(), filepath.Join(t.TempDir(), "h200")
	write := func(name string, lines ...string) {
		require.OK(t, os.WriteFile(filepath.Join(run, name), []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	}
	row := func(command, result string) string {
		return `{"device":"NVIDIA H200, sm_90","commit":"abc","command":"` + command + `","results":[` + result + `]}`
	}
	const step = "/tmp/x/gpc bench step --case size:opf30 --batch 1,64 --backend cuda --time 1s --lines /tmp/out/rows.jsonl"
	write("rows.jsonl",
		row(step, `{"op":"step","case":"opf30","backend":"cuda","batch":1,"precision":"fp32","p50_us":120,"calls":9}`),
		row(step, `{"op":"step","case":"opf30","backend":"cuda","batch":64,"precision":"fp32","p50_us":150,"calls":9}`),
		row(step, `{"op":"step","case":"opf30","backend":"cuda","batch":1,"precision":"fp32","p50_us":110,"calls":9}`),
		row(step+" --tf32", `{"op":"step","case":"opf30","backend":"cuda","batch":64,"precision":"tf32","p50_us":90,"calls":9}`))
	write("launches.jsonl",
		row("gpc bench kernels --case size:opf30 --batch 1", `{"op":"kernels","case":"opf30","backend":"cuda","batch":1,"p50_us":9,"calls":9,"latencies_us":[9],"launch":{"of":"step","place":1,"kernel":"gpc_eig","limit_us":4,"by":"latency"}}`),
		row("gpc bench kernels --case size:opf30 --batch 1", `{"op":"kernels","case":"opf30","backend":"cuda","batch":1,"p50_us":5,"calls":9,"launch":{"of":"step","place":2,"kernel":"gpc_eig","limit_us":4,"by":"latency"}}`))
	write("steps.jsonl",
		`{"step":"doctor","ok":true,"code":0,"seconds":2,"limit":60,"commit":"abc"}`,
		`{"step":"suite-operations","ok":false,"code":124,"seconds":150,"limit":150,"commit":"abc","passed":3,"failed":[],"skipped":[]}`,
		`{"step":"suite-operations","ok":true,"code":0,"seconds":41,"limit":150,"commit":"abc","passed":60,"failed":[],"skipped":["TestFaultsOfARound"]}`)
	write("others.jsonl", `{"step":"peers-step","record":{"ratios":[]}}`, `{"step":"rollout","record":{"benchmarks":[{"name":"BenchmarkRollout"}]}}`)
	write("state.txt", "Fri Nov 27", "", "== uname -a", "Linux host-7 6.1", "", "== nproc", "16", "", "== nvidia-smi", "00000000:00:06.0", "",
		"== nvidia-smi --query-gpu=name,driver_version --format=csv", "name, driver_version", "NVIDIA H200, 580.1", "", "LD_LIBRARY_PATH=/opt/x", "", "== gpc doctor", "/opt/x/libcuda.so.1")
	write("peers-step.json", `{"ratios":[{"op":"step","peer":"JAX","ratio":2}]}`)
	written := require.Get(convert(run, results))(t)
	state := string(require.Get(os.ReadFile(filepath.Join(results, "state.txt")))(t))
	if want := "== nproc\n16\n\n== nvidia-smi --query-gpu=name,driver_version --format=csv\nname, driver_version\nNVIDIA H200, 580.1"; !strings.HasPrefix(state, want) || strings.Contains(state, "host-7") || strings.Contains(state, "libcuda") || strings.Contains(state, "/opt") {
		t.Errorf("of the machine's state is kept:\n%s", state)
	}
	if peers := require.Get(os.ReadFile(filepath.Join(results, "peers-step.json")))(t); !strings.Contains(string(peers), "JAX") {
		t.Errorf("the others, run again by themselves: %s", peers)
	}
	for _, path := range written {
		if text := string(require.Get(os.ReadFile(path))(t)); strings.Contains(text, "/tmp/") {
			t.Errorf("%s has a folder of the machine:\n%s", path, text)
		}
	}
	if launches := string(require.Get(os.ReadFile(filepath.Join(results, "gpu-kernels-case-size-opf30-batch-1.json")))(t)); strings.Contains(launches, "latencies_us") {
		t.Errorf("launches with latencies:\n%s", launches)
	}
	if len(written) != 7 {
		t.Errorf("%d records: %q", len(written), written)
	}
	r := require.Get(report.Load(context.Background(), results, nil))(t)
	benchmarks, peers, conformances := report.Of[bench.Record](r), report.Of[peerrecord.Record](r), report.Of[report.Conformance](r)
	if len(benchmarks) != 3 || len(peers) != 1 || len(conformances) != 1 {
		t.Fatalf("%d benchmarks, %d of peers, %d of conformance", len(benchmarks), len(peers), len(conformances))
	}
	if c := conformances[0]; len(c.Suites) != 1 || c.Suites[0].Passed != 60 || !strings.Contains(c.Device, "H200") {
		t.Errorf("%+v", c)
	}
	text := require.Get(os.ReadFile(filepath.Join(results, "gpu-step-case-size-opf30-batch-1-64.json")))(t)
	if !strings.Contains(string(text), `"p50_us": 110`) || strings.Contains(string(text), `"p50_us": 120`) {
		t.Errorf("a row that was measured again:\n%s", text)
	}
	if _, err := convert(run, results); err != nil {
		t.Errorf("again: %v", err)
	}
	write("rows.jsonl", "half a li")
	if _, err := convert(run, results); err == nil || !strings.Contains(err.Error(), "rows.jsonl, line 1") {
		t.Errorf("a line that is cut off: %v", err)
	}
}
