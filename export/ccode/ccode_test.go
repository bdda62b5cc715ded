package ccode_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/export/ccode"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// evaluate compiles f and evaluates it in C at the points.
func evaluate(t *testing.T, f *program.Function, points [][]float64) [][]float64 {
	t.Helper()
	name := os.Getenv("CC")
	if name == "" {
		name = "gcc"
	}
	compiler, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no C compiler %s: what is written is not compiled here", name)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "#include <math.h>\n#include <stdio.h>\n%s%s", ccode.Helpers, ccode.Function(f, "f"))
	call, at := []string{}, 0
	for _, a := range f.Inputs() {
		call, at = append(call, fmt.Sprintf("in + %d", at)), at+a.Size
	}
	at = 0
	for _, a := range f.Outputs() {
		call, at = append(call, fmt.Sprintf("out + %d", at)), at+a.Size
	}
	fmt.Fprintf(&text, "int main(void)\n{\n    double in[%d], out[%d];\n\n    while (fread(in, sizeof in, 1, stdin) == 1) {\n        f(%s);\n        fwrite(out, sizeof out, 1, stdout);\n    }\n    return 0;\n}\n",
		f.Entries(), f.Results(), strings.Join(call, ", "))
	dir := t.TempDir()
	source, binaryFile := filepath.Join(dir, "f.c"), filepath.Join(dir, "f")
	require.OK(t, os.WriteFile(source, []byte(text.String()), 0o600))
	flags := []string{"-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off", "-Wno-unused-function", "-O1", source, "-o", binaryFile, "-lm"}
	if out, err := exec.Command(compiler, flags...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, text.String())
	}
	var in bytes.Buffer
	for _, x := range points {
		require.OK(t, binary.Write(&in, binary.NativeEndian, x))
	}
	run := exec.Command(binaryFile)
	run.Stdin = &in
	out := bytes.NewReader(require.Get(run.Output())(t))
	all := make([][]float64, len(points))
	for i := range all {
		all[i] = make([]float64, f.Results())
		require.OK(t, binary.Read(out, binary.NativeEndian, all[i]))
	}
	return all
}

// rounded are the operations that every libm rounds alike.
var rounded = []program.Op{
	program.Add, program.Sub, program.Mul, program.Div, program.Neg, program.Abs, program.Sqrt, program.Floor, program.Detach,
	program.Min, program.Max, program.Less, program.AtMost, program.Equal, program.Select,
}

// random is a function of so many operations on 5 inputs in two arguments, with special constants among its values.
func random(rng *rand.Rand, operations int, ops []program.Op) *program.Function {
	b := program.NewBuilder("random", program.Argument{Name: "a", Size: 3}, program.Argument{Name: "b", Size: 2})
	values := slices.Concat(b.In(0), b.In(1))
	for _, c := range []float64{0, math.Copysign(0, -1), 1, -2, 0.1, 1e300, math.Inf(1), math.Inf(-1), math.NaN()} {
		values = append(values, b.Const(c))
	}
	for range operations {
		op := ops[rng.IntN(len(ops))]
		args := make([]program.Value, op.Arity())
		for k := range args {
			args[k] = values[rng.IntN(len(values))]
		}
		values = append(values, b.Apply(op, args...))
	}
	results := values[len(values)-12:]
	return b.Function([]program.Argument{{Name: "p", Size: 5}, {Name: "q", Size: 7}}, results)
}

var special = []float64{0, math.Copysign(0, -1), 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e-310, 3}

func points(rng *rand.Rand, n, size int) [][]float64 {
	all := make([][]float64, n)
	for i := range all {
		all[i] = make([]float64, size)
		for j := range all[i] {
			if all[i][j] = 3 * rng.NormFloat64(); rng.IntN(4) == 0 {
				all[i][j] = special[rng.IntN(len(special))]
			}
		}
	}
	return all
}

func same(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Float64bits(a) == math.Float64bits(b)
}

// Where operations are rounded alike everywhere, C computes the bits of Evaluate, derivatives too.
func TestBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		f := random(rng, 150, rounded)
		for _, g := range []*program.Function{f, f.Jacobian(nil).Function} {
			in := points(rng, 300, g.Entries())
			got, want := evaluate(t, g, in), make([]float64, g.Results())
			for i, x := range in {
				g.Evaluate(x, want)
				for j, v := range want {
					if !same(v, got[i][j]) {
						t.Fatalf("%s: result %d is %v in C, %v in Go, at %v", g.Name(), j, got[i][j], v, x)
					}
				}
			}
		}
	}
}

// Elementary functions differ from Go's by the last places of two libraries. Go's log is wrong below the least normal
// number on amd64, so that none is asked for.
func TestElementary(t *testing.T) {
	ops := program.Ops()[1:] // no constant
	b := program.NewBuilder("all", program.Argument{Name: "x", Size: 3})
	var results []program.Value
	for _, op := range ops {
		results = append(results, b.Apply(op, b.In(0)[:op.Arity()]...))
	}
	f := b.Function([]program.Argument{{Name: "y", Size: len(ops)}}, results)
	in := points(rand.New(rand.NewPCG(3, 4)), 3000, 3)
	for _, x := range in {
		for j, v := range x {
			if v != 0 && math.Abs(v) < 1e-300 {
				x[j] = 1e-300
			}
		}
	}
	got, want := evaluate(t, f, in), make([]float64, len(ops))
	for i, x := range in {
		f.Evaluate(x, want)
		for k, op := range ops {
			tolerance := 4e-15
			if op == program.Pow {
				tolerance = 1e-13 // Go's error grows with the exponent of the result
			}
			if slices.Contains(rounded, op) {
				tolerance = 0
			}
			if v := got[i][k]; v != want[k] && !(math.IsNaN(v) && math.IsNaN(want[k])) && !(math.Abs(v-want[k]) <= tolerance*(0.1+math.Abs(want[k]))) {
				t.Fatalf("%v at %v is %v in C, %v in Go", op, x[:op.Arity()], v, want[k])
			}
		}
	}
}
