package gallery

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/examples/gallery/models"
	"github.com/gpc-engine/gpc/internal/isa"
	"github.com/gpc-engine/gpc/internal/must"
)

// exported drives the case's controller, writes it as C, drives it there and returns the figures that C prints.
func exported(t testing.TB, name string, episodes int, optimise string) map[string]string {
	t.Helper()
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc: what is exported is not compiled here")
	}
	catalogue := gpc.Catalogue{Cases: must.Get(Cases())(t), Models: models.Bundled}
	c := must.Get(catalogue.Find(name))(t)
	m := must.Get(c.Model(""))(t)
	dir := filepath.Join(t.TempDir(), "c")
	r := must.Get(c.Export(t.Context(), m, gpc.ExportOptions{Dir: dir, Method: "direct-no-rescue", Episodes: episodes, Seed: 7}))(t)
	program := filepath.Join(t.TempDir(), "main_test")
	args := []string{"-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off", optimise}
	if runtime.GOARCH == "amd64" && must.Get(isa.Choose())(t) != isa.Generic {
		args = append(args, "-DGPC_FMA", "-mfma")
	}
	args = append(append(args, must.Get(filepath.Glob(filepath.Join(dir, "*.c")))(t)...), "-o", program, "-lm")
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program).CombinedOutput()
	if keep := os.Getenv("GPC_EXPORT_LOG"); keep != "" {
		os.Stderr.Write(out)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	figures := map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		figures[key] = value
	}
	if figures["unsafe"] != strconv.Itoa(r.Unsafe) || figures["episodes"] != strconv.Itoa(episodes) {
		t.Fatalf("%s: %s of %s episodes unsafe in C, %d of %d by gpc", name, figures["unsafe"], figures["episodes"], r.Unsafe, episodes)
	}
	return figures
}

// A whole controller in C drives its plant to where Go drives it, and the same episodes are safe.
func TestWholeControllerInC(t *testing.T) {
	for name, bound := range map[string]float64{"cartpole-track": 1e-6} {
		got := exported(t, name, 60, "-O2")
		for _, what := range []string{"state_off", "cost_off"} {
			if v := must.Get(strconv.ParseFloat(got[what], 64))(t); !(v <= bound) {
				t.Errorf("%s: %s is %g, want at most %g", name, what, v, bound)
			}
		}
		if got["guarded"] == "0" || got["projected"] == "0" {
			t.Errorf("%s: %s decisions guarded, %s projected: the test shows nothing", name, got["guarded"], got["projected"])
		}
	}
}
