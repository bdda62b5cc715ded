package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// TestAMissingPeerIsOneLine that says what is missing, and nothing is recorded
// where all are.
func TestAMissingPeerIsOneLine(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("PATH", empty)
	for _, folder := range []string{"", empty} {
		if _, err := findMIPS(folder); err == nil || !strings.Contains(err.Error(), "octave-cli") || strings.Contains(err.Error(), "\n") {
			t.Errorf("without Octave, %q: %v", folder, err)
		}
	}
	octave := filepath.Join(empty, "octave-cli")
	require.OK(t, os.WriteFile(octave, []byte("#!/bin/sh\necho broken >&2\necho more >&2\nexit 1\n"), 0o755))
	for folder, want := range map[string]string{"": "--matpower", empty: "no folder of MATPOWER"} {
		if _, err := findMIPS(folder); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", folder, err)
		}
	}
	require.OK(t, os.MkdirAll(filepath.Join(empty, "mips", "lib"), 0o755))
	if err := os.WriteFile(filepath.Join(empty, "mips", "lib", "mips.m"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := findMIPS(empty); err == nil || !strings.Contains(err.Error(), "broken") || strings.Contains(err.Error(), "\n") {
		t.Errorf("with an Octave that fails: %v", err)
	}
	out := filepath.Join(empty, "peers.json")
	if _, err := findIPOPT(); err != nil {
		if err := run(out, "", []string{"case9"}, 1); err == nil {
			t.Error("a comparison with nobody was recorded")
		}
		if _, err := os.Stat(out); err == nil {
			t.Error("a record without rows was written")
		}
	}
}
