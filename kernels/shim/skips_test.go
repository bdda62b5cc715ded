//go:build linux && (amd64 || arm64)

package shim_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/images"
)

// skipped are the tests of the CUDA path that a GPU leaves out: those that fail calls of
// the driver, which no device does on demand.
var skipped = []string{
	"engine TestAutoSurvivesAFaultAtEveryDriverCall",
	"engine TestWorkersLoseOneContext",
	"kernels TestCompiledEquations", // where NVRTC is not installed, as the next
	"kernels TestEquationsAreCompiledForTheDevice",
	"kernels TestFaultsOfARound",
	"kernels TestFaultsSurface",
	"paper/multiagent/plan TestFaultWhilePlanning",
	"paper/multiagent/rollout/rollouttest TestFaultsOfTheDevice",
	"train TestTrainingGoesOnAfterALostDevice",
}

// TestFaultsAloneAreSkippedOnADevice finds, in every package that tests kernels on
// shim.Device, the tests that GPC_TEST_GPU=1 would leave out: those that call shim.Open,
// by whatever function of theirs, and in files about devices those that skip themselves
// but under -short on the shim. The packages of the driver and the shim test these, and
// run nowhere else.
func TestFaultsAloneAreSkippedOnADevice(t *testing.T) {
	root := require.Get(images.Find("."))(t).Root
	var got []string
	for _, folder := range []string{
		"batchnav", "paper/multiagent/plan", "paper/multiagent/rollout/rollouttest", "engine", "kernels", "train",
	} {
		files := require.Get(filepath.Glob(filepath.Join(root, folder, "*_test.go")))(t)
		functions := map[string]*ast.FuncDecl{}
		var about []string // devices
		for _, file := range files {
			parsed := require.Get(parser.ParseFile(token.NewFileSet(), file, nil, 0))(t)
			device := folder == "kernels" || slices.ContainsFunc(parsed.Imports, func(i *ast.ImportSpec) bool { return strings.HasSuffix(i.Path.Value, `/kernels/shim"`) })
			for _, d := range parsed.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
					functions[f.Name.Name] = f
					if device && strings.HasPrefix(f.Name.Name, "Test") {
						about = append(about, f.Name.Name)
					}
				}
			}
		}
		if len(about) == 0 {
			t.Errorf("no tests of a device in %s", folder)
		}
		for _, name := range about {
			if skips(functions, name, map[string]bool{}) {
				got = append(got, folder+" "+name)
			}
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, skipped) {
		t.Errorf("on a GPU these tests are skipped:\n  %s\nand these may be:\n  %s", strings.Join(got, "\n  "), strings.Join(skipped, "\n  "))
	}
}

// skips tells whether a function skips its test on a GPU, itself or by one that it calls.
func skips(functions map[string]*ast.FuncDecl, name string, seen map[string]bool) (found bool) {
	f := functions[name]
	if f == nil || f.Body == nil || seen[name] {
		return false
	}
	seen[name] = true
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if i, ok := n.(*ast.IfStmt); ok && onShimAlone(i.Cond) {
			return false // a test that is long on the shim
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch to := call.Fun.(type) {
		case *ast.Ident:
			found = found || skips(functions, to.Name, seen)
		case *ast.SelectorExpr:
			if of, ok := to.X.(*ast.Ident); ok {
				found = found || of.Name == "shim" && to.Sel.Name == "Open" || of.Name == "t" && strings.HasPrefix(to.Sel.Name, "Skip")
			}
		}
		return true
	})
	return found
}

// onShimAlone tells a condition that holds on no GPU: one with && !shim.OnGPU().
func onShimAlone(cond ast.Expr) bool {
	and, ok := cond.(*ast.BinaryExpr)
	if !ok || and.Op != token.LAND {
		return false
	}
	not, ok := and.Y.(*ast.UnaryExpr)
	return ok && not.Op == token.NOT && strings.Contains(fmt.Sprint(callee(not.X)), "shim.OnGPU")
}

func callee(e ast.Expr) string {
	if call, ok := e.(*ast.CallExpr); ok {
		if to, ok := call.Fun.(*ast.SelectorExpr); ok {
			if of, ok := to.X.(*ast.Ident); ok {
				return of.Name + "." + to.Sel.Name
			}
		}
	}
	return ""
}
