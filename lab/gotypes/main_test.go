package main

import (
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/gotrace"
)

// The types that are embedded are those of the packages as they are: `go generate ./lab/gotypes` writes them.
func TestBundleIsFresh(t *testing.T) {
	lines := func(exports []gotrace.Export, err error) []string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		api, err := describe(exports)
		if err != nil {
			t.Fatal(err)
		}
		return api
	}
	want, got := lines(collect()), lines(gotrace.Bundled())
	if len(want) < 500 {
		t.Fatalf("%d names are exported, so few", len(want))
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("what is embedded lacks this: run go generate ./lab/gotypes\n%s", line)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d names are embedded, want %d: run go generate ./lab/gotypes", len(got), len(want))
	}
}
