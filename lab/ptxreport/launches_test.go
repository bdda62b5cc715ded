package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/report"
)

// Every launch of a step and of a training update has a line with its own instructions: two launches of one kernel
// are not added up, and one that was counted before a call is none of it.
func TestLaunchesAreCountedOneByOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "launches.jsonl")
	require.OK(t, launches(file, "size:integrator", 1, false, false))
	places, sums := map[string]int{}, map[string]float64{}
	for in := json.NewDecoder(bytes.NewReader(require.Get(os.ReadFile(file))(t))); in.More(); {
		var c report.CountedLaunch
		require.OK(t, in.Decode(&c))
		places[c.Operation]++
		if c.Place != places[c.Operation] || c.Instructions == 0 || c.Batch != 1 || c.TF32 {
			t.Errorf("%+v at place %d", c, places[c.Operation])
		}
		sums[c.Kernel] = max(sums[c.Kernel], c.Instructions)
	}
	if places["step"] < 9 || places["train"] != 19 {
		t.Errorf("launches %v, want 9 and more of a step and 19 of a training update", places)
	}
	if one, eig := sums["gpc_mlp_forward_1"], sums["gpc_eig_32"]; !(one > 2000 && eig > one/10) {
		t.Errorf("instructions %v", sums)
	}
}
