package main

import (
	"go/format"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Every place of a file that can be changed is, by another change of one line each that is still Go.
func TestMutantsChangeEveryPlaceOnce(t *testing.T) {
	const text = `package p

import "math"

func bounded(x, y float64) (float64, error) {
	if err := check(x); err != nil {
		return 0, err
	}
	if x <= y && !(x == 2*y) {
		x += max(y, 1)
	}
	return math.Abs(-x), nil
}
`
	p := listed{Dir: t.TempDir(), GoFiles: []string{"p.go"}}
	require.OK(t, os.WriteFile(filepath.Join(p.Dir, "p.go"), []byte(text), 0o644))
	seen := map[string]bool{}
	for seed := range uint64(20) {
		all := require.Get(p.mutants(rand.New(rand.NewPCG(seed, 0))))(t)
		if len(all) != 13 {
			t.Fatalf("%d places are changed: %v", len(all), all)
		}
		for _, m := range all {
			changed := string(m.apply([]byte(text)))
			if _, err := format.Source([]byte(changed)); err != nil || changed == text || strings.Count(changed, "\n") != strings.Count(text, "\n") {
				t.Errorf("%v: %v", m, err)
			}
			seen[strings.TrimSpace(strings.Split(changed, "\n")[m.Line-1])] = true
		}
	}
	for _, line := range []string{"if err := check(x); false && err != nil {", "if x < y && !(x == 2*y) {", "if x > y && !(x == 2*y) {", "if x <= y || !(x == 2*y) {",
		"if x <= y && (x == 2*y) {", "if x <= y && !(x != 2*y) {", "if x <= y && !(x == 2/y) {", "if x <= y && !(x == 3*y) {", "x -= max(y, 1)", "x += (y)", "x += (1)", "return (-x), nil", "return math.Abs(x), nil"} {
		if !seen[line] {
			t.Errorf("no mutant is %q; there are %v", line, seen)
		}
	}
}
