package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

const samples = "../../testdata/"

// A sample of NVIDIA's, as nvcc compiles it, runs without flags and computes the sum of two vectors.
func TestVectorAdd(t *testing.T) {
	var out, errs strings.Builder
	if rc := run([]string{samples + "vectorAdd.ptx"}, &out, &errs); rc != 0 {
		t.Fatalf("exit %d: %s", rc, errs.String())
	}
	for _, want := range []string{"buffer 2, f32:1000", ": 2 4 6 8 10 12 14 16 …", "nothing found"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// Arguments are of the parameter's type; what a kernel does wrong is named with its place and ends with 1; what is
// no input ends with 2, names the file and line where there is one, and runs nothing.
func TestExits(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.ptx")
	text := string(require.Get(os.ReadFile(samples + "vectorAdd.ptx"))(t))
	unknown := filepath.Join(t.TempDir(), "unknown.ptx")
	require.OK(t, os.WriteFile(unknown, []byte(strings.Replace(text, "add.f32", "cp.async", 1)), 0o600))
	for _, c := range []struct {
		args []string
		rc   int
		want string // in what goes to standard error
	}{
		{[]string{"-arg", "f32:64", "-arg", "f32:64", "-arg", "new:256", "-arg", "64", "-n", "64", "-lanes", "-seed", "3", samples + "vectorAdd.ptx"}, 0, ""},
		{[]string{"-arg", "f32:64", "-arg", "f32:60", "-arg", "f32:64", "-arg", "64", "-n", "64", samples + "vectorAdd.ptx"}, 1, "out of bounds: ../../testdata/vectorAdd.ptx:57 (vectorAdd.cu:4)"},
		{[]string{"-arg", "f32:64", "-arg", "new:256", "-arg", "f32:64", "-arg", "64", "-n", "64", samples + "vectorAdd.ptx"}, 1, "memory read unwritten"},
		{[]string{unknown}, 2, "unknown.ptx:59: cp.async: the instruction is not of the subset"},
		{[]string{missing}, 2, "missing.ptx"},
		{[]string{"-entry", "nothing", samples + "vectorAdd.ptx"}, 2, "has no entry nothing"},
		{[]string{"-arg", "1", samples + "vectorAdd.ptx"}, 2, "takes 4 parameters, 1 are given"},
		{[]string{"-arg", "f16:4", "-arg", "f32:4", "-arg", "f32:4", "-arg", "4", samples + "vectorAdd.ptx"}, 2, `parameter 0 of vectorAdd: "f16:4"`},
		{[]string{"-block", "2048", samples + "vectorAdd.ptx"}, 2, "a block of 2048 threads"},
		{[]string{"-block", "1,x", samples + "vectorAdd.ptx"}, 2, `-block "1,x"`},
		{[]string{samples + "vectorAdd.ptx", "more"}, 2, "2 files named"},
	} {
		var out, errs strings.Builder
		if rc := run(c.args, &out, &errs); rc != c.rc || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%v: exit %d, want %d with %q: %s", c.args, rc, c.rc, c.want, errs.String())
		}
	}
}
