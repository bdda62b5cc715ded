package layering

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// make fuzz runs every fuzz target there is, and no other.
func TestMakeFuzzRunsEveryTarget(t *testing.T) {
	root := filepath.Join("..", "..")
	var want, got []string
	target := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f \*testing\.F`)
	require.OK(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range target.FindAllSubmatch(text, -1) {
			folder := require.Get(filepath.Rel(root, filepath.Dir(path)))(t)
			want = append(want, string(m[1])+" ./"+filepath.ToSlash(folder))
		}
		return err
	}))
	for _, m := range regexp.MustCompile(`-fuzz '\^(\w+)\$\$' (\S+)`).FindAllSubmatch(require.Get(os.ReadFile(filepath.Join(root, "Makefile")))(t), -1) {
		got = append(got, string(m[1])+" "+string(m[2]))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("make fuzz runs\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The programs of make run share what is compiled: another -trimpath or cgo than make build's compiles every package once more.
func TestMakeRunCompilesOnce(t *testing.T) {
	text := string(require.Get(os.ReadFile(filepath.Join("..", "..", "Makefile")))(t))
	lines := 0
	for _, target := range []string{"build", "lab", "run"} {
		rule := regexp.MustCompile(`(?m)^` + target + `:.*\n((?:\t.*\n)+)`).FindStringSubmatch(text)
		for _, m := range regexp.MustCompile(`.*\$\(GO\) (?:build|run) .*`).FindAllString(rule[1], -1) {
			if lines++; !strings.Contains(m, "CGO_ENABLED=0 $(GO)") || !strings.Contains(m, " -trimpath ") {
				t.Errorf("make %s: %s: want CGO_ENABLED=0 and -trimpath", target, m)
			}
		}
	}
	if lines != 3 {
		t.Errorf("%d programs are built", lines)
	}
}
