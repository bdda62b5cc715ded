package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/peerrecord"
)

// says tells this binary to be a program that prints it, and to fail where it is "".
const says = "GPC_RECORD_SAYS"

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(says); ok {
		fmt.Println(text)
		if text == "" {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// What a program prints is kept with what else the machine did; of one that fails, or prints no
// measurement, nothing is.
func TestWhatAProgramPrintsIsKept(t *testing.T) {
	self := require.Get(os.Executable())(t)
	file := filepath.Join(t.TempDir(), "record.json")
	record := func(text string) error {
		t.Setenv(says, text)
		return run(t.Context(), file, machine.Limit{}, []string{self, "-bench", "Weights|Flows", "-ldflags", "-s -w"}, t.Output())
	}
	for _, wrong := range []string{"", "ok"} {
		if err := record(wrong); err == nil {
			t.Errorf("%q was kept", wrong)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a record of nothing was written")
	}
	require.OK(t, record("BenchmarkWeights/0.7-2 1 12 ns/op 0.5 J_total_%"))
	var r peerrecord.Benchmarked
	require.OK(t, json.Unmarshal(require.Get(os.ReadFile(file))(t), &r))
	if len(r.Benchmarks) != 1 || r.Benchmarks[0].Name != "BenchmarkWeights/0.7" || r.Benchmarks[0].Metrics["J_total_%"] != 0.5 || r.Device == "" || r.Commit == "" {
		t.Errorf("%+v", r)
	}
	if want := filepath.Base(self) + " -bench 'Weights|Flows'"; r.Command != want {
		t.Errorf("the command is %q, want %q", r.Command, want)
	}
	if l := r.Load; l != nil && (l.Others < 0 || l.CPUs < 1) {
		t.Errorf("load %+v", l)
	}
	if _, err := json.Marshal(r); err != nil || strings.Contains(r.Command, "ldflags") {
		t.Errorf("%v, %q", err, r.Command)
	}
}
