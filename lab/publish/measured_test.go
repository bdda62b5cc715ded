package publish

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/deadline"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/report"
)

// printedBy is a run of a program that printed these lines.
func printedBy(t *testing.T, lines ...string) peerrecord.Benchmarked {
	return peerrecord.Benchmarked{Device: "a device", Commit: "c0ffee", Command: "go test", Benchmarks: require.Get(peerrecord.ParseBenchmarks(strings.Join(lines, "\n")))(t), Load: &closedloop.Load{CPUs: 2, Start: 0.5}}
}

// keep adds records as their files hold them.
func keep(t *testing.T, r *report.Records, all ...any) {
	t.Helper()
	for _, v := range all {
		require.OK(t, r.Add(require.Get(json.Marshal(v))(t)))
	}
}

// Pages show what was measured as the last record of it has it, the least time of several runs,
// dashes for what a run left out, and say so where nothing is recorded.
func TestPagesShowWhatWasMeasured(t *testing.T) {
	one := 8081.5263
	own := report.New("own", known())
	keep(t, own,
		printedBy(t, "BenchmarkWeights/0.7/100:1:1 1 9 ns/op 77 J_total_%"),
		printedBy(t,
			"BenchmarkWeights/0.7/1:100:1 1 9 ns/op 0.0055 J_total_%",
			"BenchmarkTightening/swing/V0.003,Q0,S0 1 9 ns/op 0.0042 gap_% 3 unsolved",
			"BenchmarkReceding/envelope/steps5,iterations1,bare=true 1 9 ns/op 0.00094 gap_% 2 unsolved 1 broken 1 linearisations 1 most"),
		printedBy(t, "BenchmarkSolve/case30/flat 9 8900 ns/op 3.2 iterations/op", "BenchmarkSolve/case30/flat 9 8400 ns/op 3.2 iterations/op"),
		printedBy(t, "BenchmarkMonitor/integrator-convex/10_%_of_signs 1 9 ns/op 0.8 answers_missed 114.7 above_% 60 flagged 22 drifting 60 episodes", "BenchmarkMonitor/opf30/direct 1 9 ns/op 0 alarms 30600 decisions"),
		printedBy(t, "BenchmarkRounded/opf30 1 9 ns/op 10 episodes 10 safe 9 safe_rounded -1.2e-05 difference_% 2e-05 interval_% 0.0127 largest_change"),
		printedBy(t, "BenchmarkGains/cstr-runs-on/nmpc/known 1 300 episodes 300 safe 299 way 299 safe_of_way 98.77 low_% 100 high_% 0.0061 offset_% 0.02 offset_worst_%"),
		printedBy(t, "BenchmarkGains/cstr/direct/estimated 1 300 episodes 298 safe 290 way 289 safe_of_way 98.1 low_% 99.99 high_% 297 compared 1.234 above_% 1.1 above_low_% 1.35 above_high_%"),
		printedBy(t, "BenchmarkRobust/gpc-nmpc-filter 1 20 episodes 1 violated 0.0301 worst_K 0.0352 between_K 0.0171 mean_cost 96.03 above_% 11.8 interval_% 5900.4 p50_us 9800 p99_us 0 unsolved"),
		printedBy(t, "BenchmarkPythonSystem/crane/direct 1 232.3 compile_s 100 episodes 1 unsafe 0.241 regret_pct 4.71 decision_p50_us 198.8 decision_p99_us 100 c_episodes 2 c_unsafe 0.031 c_regret_pct 60588 c_constant_bytes"),
		printedBy(t, "BenchmarkCortexM/opf30/float16/M7 1 6272 code_bytes 362664 constants_bytes 2560 static_bytes 216 stack_bytes 537065 instructions 583280 instructions_most 837360 instructions_dense 767 equal 768 entries"),
		printedBy(t, "BenchmarkCortexMEstimates/cstr--estimate=0.01--keep-off=3/M7 1 33908 code_bytes 60941 constants_bytes 1152 static_bytes 21888 loop_bytes 1080 frame_bytes 15560 map_instructions 7582360 instructions_full 2227800 instructions_most 100 decisions 33360 decisions_p50 2 first 2227800 first_most 98 followed 32800 followed_p50 35800 followed_most 0 renewed 2 episodes 0 unsafe 1 unsafe_gpc"),
		printedBy(t, "BenchmarkDirect/opf30/go-2 20 9 ns/op 15200 ns/decision", "BenchmarkDirect/opf30/c/half=false-2 20 9 ns/op 18240 ns/decision"),
		printedBy(t, `[{"name":"opf30 direct 1000","calls":20,"go_us":4933.2,"python_us":5105,"ratio":1.035},{"name":"opf30","python_us":1}]`),
		printedBy(t, `[{"name":"opf30, 256 environments, 2 threads","steps":512,"steps_per_second":241000.4,"cpu_microseconds_per_step":6.71}]`),
	)
	report.Set(own, []closedloop.Steering{
		{Case: "opf30", Method: "navigator", Front: []closedloop.FrontPoint{{W: []float64{1, 0, 0}, J: []closedloop.Number{1, 2, 3}, OracleJ: []closedloop.Number{1, 2, 3}, Compared: 1, Episodes: 1}}},
		{Case: "integrator-convex", Method: "navigator"},
	})
	keep(t, own, peerrecord.Served{Case: "opf30", Method: "navigator", Waiting: "measured", Commit: "c0ffee", P99Ratio: 1.758, Load: peerrecord.OfferedLoad{Seconds: 600, Rate: 10, Sent: 6000, Refused: 4000}, Broken: []string{"what is due is sent"}})
	keep(t, own, deadline.Deadlines{Case: "opf30", Method: "navigator", Commit: "c0ffee", Releases: 12000, Late: 2, Missed: 2, Response: deadline.Spread{P50: 337.33}})
	keep(t, own, peerrecord.BesidePandapower{Commit: "c0ffee", Peer: "pandapower 3.5.6", Numba: true, Rounds: 3, Rows: []peerrecord.PandapowerNetwork{
		{Network: "case9", Op: "runpp", Buses: 9, Voltage: 4.2e-11, OursMs: 16, PeerMs: 17, Ratio: 1.09, Lo: 0.98, Hi: 1.1, SolveMs: 0.8},
		{Network: "case14", Op: "runopp", Cost: &one, CostRelative: 4e-8, OursMs: 21, PeerMs: 147, Ratio: 6.9, Lo: 6.4, Hi: 6.9},
		{Network: "case300", Op: "runopp", PeerFailed: "OPFNotConverged: no\nmore", OursFailed: "infeasible"},
	}})
	keep(t, own, peerrecord.Listing{Kind: "files of MATPOWER", Commit: "c0ffee", Note: "8.1", Columns: []string{"file", "buses"}, Rows: [][]string{{"case9.m", "9"}}})
	keep(t, own, peerrecord.Listing{Kind: "networks of pandapower", Columns: []string{"network"}, Rows: [][]string{{"iceland"}}})
	report.Set(own, []peerrecord.Record{{Commit: "c0ffee", Ratios: []peerrecord.Ratio{
		{Op: "opf", Case: "case9", Peer: "IPOPT", Batch: 1, Ratio: 162.3, OursUS: 65.97}, {Op: "opf", Case: "case9", Peer: "IPOPT", Batch: 64, Ratio: 790.2, OursUS: 14.57},
		{Op: "opf", Case: "case9", Peer: "MIPS", Batch: 1, Ratio: 2411, OursUS: 65.97},
	}}})
	for _, page := range []struct {
		of   func(d devices) string
		want []string
	}{
		{weights.text, []string{"| 1 : 100 : 1 | 0.0055 % | – | – |", "| 100 : 1 : 1 | – | – | – |", "`go test` at commit c0ffee, a device."}},
		{tightening.text, []string{"| V 0.003 alone | – | – | 0.0042 % (3) |"}},
		{receding.text, []string{"| one linearisation, not projected | – | 0.0009400; 1, 2; 1.0, 1 | – |"}},
		{flows.text, []string{"| case30 | 8.4 µs, 3.2 iterations | – |", "load was at most 0.50"}},
		{devices.monitor, []string{"| 10 % of signs | 0.8, +114.70 %, 60, 22 | – | – | – |", "`opf30` 0 of 30600 decisions."}},
		{environments.text, []string{"| opf30, 256 environments, 2 threads | 6.71 | 241000 |"}},
		{rounded.text, []string{"| opf30 | 10 | 9 | -0.00001 ± 0.00002 | 0.013 |"}},
		{devices.gains, []string{"| `cstr-runs-on` | `nmpc` | known | 300/300 | 299 | 299 | 98.8 to 100.0 | – | – | 0.0061 (0.02) |", "| `cstr` | `direct` | estimated | 298/300 | 290 | 289 | 98.1 to 100.0 | +1.23 [+1.10, +1.35] | 297 | – |", "`go test`, `go test` at commit c0ffee, a device."}},
		{robust.text, []string{"| `gpc-nmpc-filter` | 1/20 | 0.03 | 0.035 | +96 ± 12 | 5900 | 9800 | 0 |", "load was at most 0.50"}},
		{pythonSystems.text, []string{"| `crane` | `direct` | 232 | 1/100 | 0.24 | 4.71 | 199 | 2/100 | 0.031 | 60588 |", "load was at most 0.50"}},
		{cortexM.text, []string{"| opf30 | float16 | M7 | 6272 | 362664 | 2560 | 216 | 537065 | 583280 | 837360 | 767 of 768 |"}},
		{cortexMEstimates.text, []string{"| `cstr--estimate=0.01--keep-off=3` | 15560 | – | 33360 | 2227800 | 2227800 | 98 of 100 | 32800 | 35800 | 0 | – | – | – | – | 7582360 | 0/2 | 1/2 |"}},
		{cortexMEstimators.text, []string{"| `cstr--estimate=0.01--keep-off=3` | 33908 | 60941 | 1152 | 21888 | 1080 |"}},
		{devices.exported, []string{"| opf30 | 15.2 | 18.2 | – | 1.2 |", "load was at most 0.50"}},
		{calls.text, []string{"| opf30 | `direct` | 1000 | 4933.2 | 5105.0 | 1.035 |", "| opf30 | `` |  | – | 1.0 | – |"}},
		{func(d devices) string { return d.steered("opf30") }, []string{"| opf30 | `navigator` | 1 | 1/1 |"}},
		{part("beyond capacity"), []string{"| answered | 0 decided (0 of them late), 4000 refused,", "p99 1.76 times the idle server's", "| does not hold | what is due is sent |", "6000 sent, 1.00 of"}},
		{part("a loop at a rate"), []string{"| response | 337.3 |", "* 2 of 12000 deadlines missed: 2 decisions late"}},
		{part("beside pandapower"), []string{"| case9 | 9 | 4e-11 | 0 | 0 | 0 | 16 / 17 | 1.09 [0.98, 1.1] | 0.8 |", "| case14 | 8081.5263 | 4e-8 | 0 | 0 | 21 / 147 | 6.9 [6.4, 6.9] | 0.0 |", "* case300, `runopp`: pandapower OPFNotConverged: no, gpc infeasible\n", "pandapower 3.5.6 with numba"}},
		{part("every file of MATPOWER"), []string{"| file | buses |", "| case9.m | 9 |", "Commit c0ffee, beside version 8.1"}},
		{part("every network of pandapower"), []string{"| iceland |"}},
		{shown(timedOf("opf"), foundOptima), []string{"| case9 | 66 | 15 | 162 | 790 | 2411 | – |"}},
	} {
		if text := page.of(devices{report.New("none", nil)}); text != noRecord {
			t.Errorf("without a record: %q", text)
		}
		text := page.of(devices{report.New("none", nil), own})
		for _, want := range page.want {
			if !strings.Contains(text, want) {
				t.Errorf("does not have %q:\n%s", want, text)
			}
		}
	}
}

// part is the text of a part of a page.
func part(name string) func(d devices) string {
	return documents[slices.IndexFunc(documents, func(doc document) bool { return doc.name == name })].text
}
