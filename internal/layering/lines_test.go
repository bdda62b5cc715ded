package layering

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Lines of Go without tests, at most. Who raises a budget says in the commit what left.
const (
	productLines    = 142_750 // all but the laboratory, generators of assembly and what tests stand on
	laboratoryLines = 23_000
)

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

// The product and the laboratory keep to their budgets of lines.
func TestLinesKeepToTheirBudget(t *testing.T) {
	product, lab := 0, 0
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
		if n := bytes.Count(text, []byte("\n")); strings.HasPrefix(filepath.ToSlash(dir), "lab/") {
			lab += n
		} else {
			product += n
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d lines of the product, %d of the laboratory", product, lab)
	if product > productLines || product < productLines/2 {
		t.Errorf("the product has %d lines of Go, its budget is %d", product, productLines)
	}
	if lab > laboratoryLines || lab < laboratoryLines/2 {
		t.Errorf("the laboratory has %d lines of Go, its budget is %d", lab, laboratoryLines)
	}
}
