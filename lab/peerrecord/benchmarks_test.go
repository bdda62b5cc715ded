package peerrecord

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// What programs print is read as the lines of go test or as rows of JSON, and what is neither
// is refused.
func TestParseBenchmarks(t *testing.T) {
	all := require.Get(ParseBenchmarks("goos: linux\nBenchmarkWeights/0.7/100:1:1-2   \t 1\t 3120 ns/op\t 0.0044 J_total_%\nBenchmarkLarge/buses-1180/flat 7 1.5e+06 ns/op\nPASS\n"))(t)
	if len(all) != 2 || all[0].Name != "BenchmarkWeights/0.7/100:1:1" || all[0].Metrics["J_total_%"] != 0.0044 || all[0].Metrics["ns/op"] != 3120 || all[1].Name != "BenchmarkLarge/buses-1180/flat" {
		t.Errorf("%+v", all)
	}
	all = require.Get(ParseBenchmarks(`[{"name":"opf30, 256 environments","steps":512,"by":"numpy"}]`))(t)
	if len(all) != 1 || all[0].Name != "opf30, 256 environments" || len(all[0].Metrics) != 1 || all[0].Metrics["steps"] != 512 {
		t.Errorf("%+v", all)
	}
	for _, wrong := range []string{"", "ok  pkg 1s\n", "BenchmarkX 1 fast ns/op\n", `[{"steps":1}]`, `[1]`} {
		if all, err := ParseBenchmarks(wrong); err == nil {
			t.Errorf("%q is read as %+v", wrong, all)
		}
	}
}
