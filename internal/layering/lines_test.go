package layering

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A house is folders that a reader enters for one purpose, with its lines of Go without tests, at most. Who raises a budget says in the
// commit what left.
type house struct {
	name   string
	within func(path string) bool
	lines  int
}

// houses are the product's and the laboratory, without generators of assembly and what tests stand on. A file is of the first that has it.
var houses = []house{
	{"the laboratory", below("lab"), 22_975},
	{"the library of networks", below("grid"), 28_480},
	{"the paper's cases", below("paper"), 20_010},
	{"the controller and its engine", func(string) bool { return true }, 104_999},
}

func below(dir string) func(string) bool {
	return func(path string) bool { return strings.HasPrefix(path, dir+"/") }
}

// supports says whether a folder is what tests stand on: fixtures, conformance suites, and the two stand-ins
// for a GPU.
func supports(dir string) bool {
	for _, of := range []string{"internal/testing/", "kernels/ptx/", "kernels/shim/", "domain/domaintest/", "grid/networktest/", "paper/multiagent/rollout/rollouttest/"} {
		if strings.HasPrefix(dir+"/", of) {
			return true
		}
	}
	return false
}

// Every house keeps to its budget of lines.
func TestLinesKeepToTheirBudget(t *testing.T) {
	lines := make([]int, len(houses))
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch name := d.Name(); {
			case dir == ".":
			case strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules" || dir == "build" || dir == "out":
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || supports(filepath.ToSlash(filepath.Dir(dir))) {
			return nil
		}
		text, err := os.ReadFile(path)
		of := slices.IndexFunc(houses, func(h house) bool { return h.within(filepath.ToSlash(dir)) })
		lines[of] += bytes.Count(text, []byte("\n"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range houses {
		t.Logf("%s: %d lines", h.name, lines[i])
		if lines[i] > h.lines || lines[i] < h.lines/2 {
			t.Errorf("%s has %d lines of Go, its budget is %d", h.name, lines[i], h.lines)
		}
	}
}
