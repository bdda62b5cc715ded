package gallery

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/cartpole"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// unitSource compiles the source of a unit under a prefix of its functions, and returns its GUID with the object.
func unitSource(t *testing.T, dir, unit, prefix string) (guid, object string) {
	t.Helper()
	archive := require.Get(zip.OpenReader(filepath.Join(dir, unit)))(t)
	defer archive.Close()
	text := string(require.Get(io.ReadAll(require.Get(archive.Open("sources/fmu.c"))(t)))(t))
	path := filepath.Join(dir, prefix+"fmu.c")
	require.OK(t, os.WriteFile(path, []byte(text), 0o600))
	object = filepath.Join(dir, prefix+"fmu.o")
	compiled(t, "-c", path, "-DFMI2_FUNCTION_PREFIX="+prefix, "-o", object)
	require.OK(t, os.Remove(path))
	return regexp.MustCompile(`#define GUID ("[^"]+")`).FindStringSubmatch(text)[1], object
}

func compiled(t *testing.T, args ...string) {
	t.Helper()
	args = append([]string{"-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off", "-O1"}, args...)
	if runtime.GOARCH == "amd64" && require.Get(isa.Choose())(t) != isa.Generic {
		args = append(args, "-DGPC_FMA", "-mfma")
	}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// The units of a controller with an estimator, and of its plant, are driven from where gpc has driven them, with the same errors of what
// is measured: the same episodes are safe, and end where they ended.
func TestMeasuredUnits(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc: what is exported is not compiled here")
	}
	const episodes = 24
	for _, y := range []equations.System{cartpole.Positions(), whole(t, cartpole.Track(), 0.002, 1)} {
		def := require.Get(y.Case())(t)
		c := require.Get(gpc.NewCase(def))(t)
		m := gallerysMap(t, "cartpole-track")
		m.Case, m.Provenance.ProblemSHA256 = y.Name, durable.Sum(domain.FingerprintOf(def.Problem))
		dir := filepath.Join(t.TempDir(), "c")
		r := require.Get(c.Export(t.Context(), m, gpc.ExportOptions{Dir: dir, Method: export.Method, Episodes: episodes, Seed: 7, FMU: true}))(t)
		controller, one := unitSource(t, dir, "gpc_"+r.Symbol+"_controller.fmu", "controller_")
		plant, two := unitSource(t, dir, "gpc_"+r.Symbol+"_plant.fmu", "plant_")
		program := filepath.Join(t.TempDir(), "units")
		args := []string{"testdata/units.c", one, two, "-I", dir, "-o", program, "-DCONTROLLER_GUID=" + controller, "-DPLANT_GUID=" + plant}
		spec := c.Spec()
		for name, n := range map[string]int{
			"NS": spec.MeasuredSize(), "NC": spec.ContextSize(), "NU": spec.ActionSize(), "NJ": spec.ObjectiveSize(), "ALL": len(spec.Margins), "NY": len(def.Measurement.Outputs),
			"NP": len(y.Scenario), "NA": spec.MeasuredSize() + len(def.Measurement.Unknown), "STEPS": spec.Steps,
		} {
			args = append(args, fmt.Sprintf("-DSIZE_%s=%d", name, n))
		}
		args = append(args, fmt.Sprintf("-DPERIOD=%v", spec.StepSeconds), fmt.Sprintf("-DTOLERANCE=%v", spec.MarginTolerance))
		if text := require.Get(os.ReadFile(filepath.Join(dir, "test_episodes.h")))(t); strings.Contains(string(text), "acting[]") {
			args = append(args, "-DDISTURBED")
		}
		for name, function := range map[string]string{"OUTPUTS_OF": "outputs", "STATE_MARGINS": "state_margins", "LEAST": "least"} {
			args = append(args, "-D"+name+"=gpc_"+r.Symbol+"_"+function)
		}
		compiled(t, append(append(args, require.Get(filepath.Glob(filepath.Join(dir, "gpc_*.c")))(t)...), "-lm")...)
		out := string(require.Get(exec.Command(program).CombinedOutput())(t))
		var unsafe, differ int
		var off float64
		if _, err := fmt.Sscanf(strings.ReplaceAll(out, "\n", " "), "unsafe %d differ %d off %g", &unsafe, &differ, &off); err != nil {
			t.Fatalf("%v: %q", err, out)
		}
		if unsafe != *r.Unsafe || differ != 0 || !(off <= 1e-9) {
			t.Errorf("%s: %d of %d episodes unsafe with units, %d by gpc; %d differ, ends are %g off", y.Name, unsafe, episodes, *r.Unsafe, differ, off)
		}
	}
}
