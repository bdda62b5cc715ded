package view_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// TestThePageIsMadeOfItsSources: the bundle is what build.mjs wrote of the sources that are
// here, and not of others.
func TestThePageIsMadeOfItsSources(t *testing.T) {
	text := string(require.Get(os.ReadFile("page/SHA256SUMS"))(t))
	listed := map[string]bool{}
	for line := range strings.Lines(text) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("page/SHA256SUMS has the line %q", line)
		}
		listed[name] = true
		data, err := os.ReadFile(filepath.Join("ui", name))
		if own := sha256.Sum256(data); err != nil || hex.EncodeToString(own[:]) != sum {
			t.Errorf("%s is not the one that the page was made with (%v): run make ui and commit view/page", name, err)
		}
	}
	for _, name := range require.Get(filepath.Glob("ui/src/*"))(t) {
		if !listed[strings.TrimPrefix(filepath.ToSlash(name), "ui/")] {
			t.Errorf("the page was made without %s: run make ui and commit view/page", name)
		}
	}
	size := int64(0)
	for _, name := range []string{"app.js", "app.css", "index.html", "icon.svg"} {
		size += require.Get(os.Stat(filepath.Join("page", name)))(t).Size()
	}
	if size > 200<<10 {
		t.Errorf("the page has %d bytes, want at most 200 KiB", size)
	}
	if lock := require.Get(os.ReadFile("ui/package-lock.json"))(t); bytes.Contains(lock, []byte(`"resolved"`)) {
		t.Error("ui/package-lock.json names a registry's host")
	}
}
