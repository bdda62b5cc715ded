package main

import (
	"bytes"
	"testing"

	"github.com/gpc-engine/gpc/internal/gotrace"
)

// The types that are embedded are those of the packages as they are: `go generate ./internal/gotrace` writes them.
func TestBundleIsFresh(t *testing.T) {
	want, err := collect()
	if err != nil {
		t.Fatal(err)
	}
	got, err := gotrace.Bundled()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("%d packages are embedded, want %d", len(got), len(want))
	}
	for i, e := range want {
		if got[i].Path != e.Path || !bytes.Equal(got[i].Data, e.Data) {
			t.Errorf("the types of %s are not those that are embedded as %s: run go generate ./internal/gotrace", e.Path, got[i].Path)
		}
	}
}
