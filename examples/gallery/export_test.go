package gallery

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/examples/gallery/cartpole"
	"github.com/gpc-engine/gpc/examples/gallery/chain"
	"github.com/gpc-engine/gpc/examples/gallery/cstr"
	"github.com/gpc-engine/gpc/examples/gallery/hvac"
	"github.com/gpc-engine/gpc/examples/gallery/models"
	"github.com/gpc-engine/gpc/examples/gallery/quadrotor"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/model"
)

// exported drives the case's controller, writes it as C, drives it there and returns the figures that C prints.
func exported(t testing.TB, y equations.System, method string, episodes int, optimise string) map[string]string {
	t.Helper()
	return exportedOff(t, y, 0, method, episodes, optimise)
}

// exportedOff is exported with so many standard deviations kept off the limits.
func exportedOff(t testing.TB, y equations.System, level float64, method string, episodes int, optimise string) map[string]string {
	t.Helper()
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc: what is exported is not compiled here")
	}
	name := y.Name
	def := require.Get(y.Case())(t)
	catalogue := gpc.Catalogue{Cases: []domain.Case{def}}
	c := require.Get(catalogue.Find(name))(t)
	if level > 0 {
		c = require.Get(c.Robust(level))(t)
	}
	var m *model.Model
	if method != export.Solver {
		bundled := require.Get(models.Bundled.Open(name + ".safetensors"))(t)
		defer bundled.Close()
		m = require.Get(model.Read(bundled))(t)
		m.Provenance.ProblemSHA256 = durable.Sum(domain.FingerprintOf(def.Problem)) // other starts make another problem
	}
	dir := filepath.Join(t.TempDir(), "c")
	r := require.Get(c.Export(t.Context(), m, gpc.ExportOptions{Dir: dir, Method: method, Episodes: episodes, Seed: 7}))(t)
	program := filepath.Join(t.TempDir(), "main_test")
	args := []string{"-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off", optimise}
	if runtime.GOARCH == "amd64" && require.Get(isa.Choose())(t) != isa.Generic {
		args = append(args, "-DGPC_FMA", "-mfma")
	}
	args = append(append(args, require.Get(filepath.Glob(filepath.Join(dir, "*.c")))(t)...), "-o", program, "-lm")
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
	figures["loop_bytes_said"] = strconv.Itoa(r.LoopBytes)
	if figures["unsafe"] != strconv.Itoa(*r.Unsafe) || figures["episodes"] != strconv.Itoa(episodes) {
		t.Fatalf("%s: %s of %s episodes unsafe in C, %d of %d by gpc", name, figures["unsafe"], figures["episodes"], *r.Unsafe, episodes)
	}
	return figures
}

// wider are starts from far beyond those that the map was made for.
func wider(y equations.System, times float64) equations.System {
	y.Scenario = slices.Clone(y.Scenario)
	for i, v := range y.Scenario {
		middle, half := (v.Lo+v.Hi)/2, (v.Hi-v.Lo)/2
		y.Scenario[i].Lo, y.Scenario[i].Hi = middle-times*half, middle+times*half
	}
	return y
}

// farReference is a system with a reference that its map was not trained on, and the starts that it was.
func farReference(y equations.System) equations.System {
	y.Scenario = slices.Clone(y.Scenario)
	ref := &y.Scenario[len(y.Scenario)-1]
	ref.Lo, ref.Hi = 7, 8
	return y
}

// unlimited is a system without margins.
func unlimited(t *testing.T, y equations.System) equations.System {
	p := require.Get(y.Program())(t)
	p.Functions = slices.DeleteFunc(p.Functions, func(f *program.Function) bool { return f.Name() == "margins" })
	y.Margins, y.Real.Margins, y.Dual.Margins, y.Source = nil, nil, nil, equations.Given(p)
	return y
}

// slowed is a system whose actions change by a tenth of their box at most, and whose first margin may be exceeded. The
// other margins have ranges.
func slowed(y equations.System) equations.System {
	y.Soft, y.Margins = []equations.Soft{{Margin: y.Margins[0].Name, Linear: 10}}, slices.Clone(y.Margins)
	for i := range y.Margins[1:] {
		y.Margins[1+i].Lo, y.Margins[1+i].Hi = 0, 5
	}
	for _, a := range y.Action {
		y.Rates = append(y.Rates, (a.Hi-a.Lo)/10)
	}
	return y
}

// blocked is a system whose plans hold their actions.
func blocked(y equations.System) equations.System {
	y.Blocks = []int{1, 1, 2, 4}
	return y
}

// A whole controller in C drives its plant to where Go drives it, and the same episodes are safe: also from where the guard has
// to act, of explicit steps, of integrated ones with an escape, and of implicit ones.
func TestWholeControllerInC(t *testing.T) {
	for _, test := range []struct {
		y      equations.System
		bound  float64 // of the state's typical size, and of the cost
		counts []string
	}{
		{wider(cartpole.Track(), 1.5), 1e-9, []string{"projected", "off_map", "guarded", "rested", "unsafe_decisions"}},
		{wider(quadrotor.System(), 3), 1e-5, // an observation may be rounded to another float
			[]string{"projected", "guarded", "escaped"}},
		{wider(cstr.System(), 2), 1e-9, []string{"projected"}},
		{unlimited(t, wider(cartpole.System(), 3)), 1e-9, []string{"guarded"}},
		{farReference(cartpole.System()), 1e-9, []string{"off_map"}},
	} {
		got := exported(t, test.y, export.Method, 24, "-O1")
		for _, what := range []string{"state_off", "cost_off"} {
			if v := require.Get(strconv.ParseFloat(got[what], 64))(t); !(v <= test.bound) {
				t.Errorf("%s: %s is %g, want at most %g", test.y.Name, what, v, test.bound)
			}
		}
		for _, what := range []string{"off_map", "guarded"} {
			if got[what] != got[what+"_gpc"] {
				t.Errorf("%s: %s decisions are %s in C, %s in Go", test.y.Name, got[what], what, got[what+"_gpc"])
			}
		}
		for _, what := range test.counts {
			if got[what] == "0" {
				t.Errorf("%s: no decision has %s: the test does not show it", test.y.Name, what)
			}
		}
	}
}

// The exact controller in C finds the optima that Go finds: of explicit steps, of integrated ones with an escape, of implicit ones,
// without margins, and of plants that run on. Two optima of one tolerance differ by the square of it in cost.
func TestExactControllerInC(t *testing.T) {
	for _, test := range []struct {
		y           equations.System
		state, cost float64
		long        bool // not under -short
	}{
		{wider(cartpole.Track(), 1.2), 1e-3, 1e-4, false},
		{quadrotor.System(), 0.1, 2e-2, false}, // ways on both sides cost nearly the same
		{wider(cstr.System(), 1.5), 1e-2, 1e-3, false},
		{unlimited(t, cartpole.System()), 1e-3, 1e-4, false},
		{hvac.System(), 0.1, 1e-2, true}, // several starts, and plans that are known
		{RunningOn()[0], 1e-3, 1e-4, false},
		{RunningOn()[1], 1e-2, 1e-3, true},
		{runningOn(chain.System(1), 20), 1e-3, 1e-4, true}, // without a context
		{slowed(cartpole.Track()), 1e-3, 1e-4, false},      // the clock is not the last of the context
		{blocked(cartpole.Track()), 1e-3, 1e-4, false},     // plans of fewer actions
		{blocked(RunningOn()[1]), 1e-2, 1e-3, true},
	} {
		if test.long && testing.Short() {
			continue
		}
		got := exported(t, test.y, export.Solver, 6, "-O1")
		for what, bound := range map[string]float64{"state_off": test.state, "cost_off": test.cost} {
			if v := require.Get(strconv.ParseFloat(got[what], 64))(t); !(v <= bound) {
				t.Errorf("%s: %s is %g, want at most %g", test.y.Name, what, v, bound)
			}
		}
		if got["unsolved"] != "0" || got["cold"] != "6" {
			t.Errorf("%s: %s decisions unsolved and %s solved anew, want 0 and the first of each of 6 episodes", test.y.Name, got["unsolved"], got["cold"])
		}
		// What the export says of a loop's memory is what the compiler makes of it.
		if got["loop_bytes"] != got["loop_bytes_said"] {
			t.Errorf("%s: a loop takes %s bytes, the export says %s", test.y.Name, got["loop_bytes"], got["loop_bytes_said"])
		}
	}
}

// starts is how many starts a record's loops have: GPC_EXPORT_STARTS, or 1000.
func starts() int {
	if n, err := strconv.Atoi(os.Getenv("GPC_EXPORT_STARTS")); err == nil {
		return n
	}
	return 1000
}

// BenchmarkExactLoops drives every system's exact controller in C and in Go from so many starts.
func BenchmarkExactLoops(b *testing.B) {
	for _, y := range slices.Concat(Systems(), RunningOn()) {
		b.Run(y.Name, func(b *testing.B) {
			for b.Loop() {
				got := exported(b, y, export.Solver, starts(), "-O2")
				figure := func(what string) float64 { return require.Get(strconv.ParseFloat(got[what], 64))(b) }
				b.ReportMetric(0, "ns/op")
				for _, what := range []string{"episodes", "unsafe", "unsafe_gpc", "differ", "decisions", "cold", "unsolved", "loop_bytes"} {
					b.ReportMetric(figure(what), what)
				}
				b.ReportMetric(100*figure("cost_off"), "cost_off_%")
				b.ReportMetric(100*(figure("mean_cost")/figure("mean_cost_gpc")-1), "above_%")
			}
		})
	}
}

// BenchmarkExportedLoops drives every system's controller in C and in Go from so many starts, two of them also behind an
// estimator with limits that are kept off.
func BenchmarkExportedLoops(b *testing.B) {
	type driven struct {
		y            equations.System
		noise, level float64
	}
	var all []driven
	for _, y := range Systems() {
		if f, err := models.Bundled.Open(y.Name + ".safetensors"); err == nil { // a system without a map has its exact controller alone
			f.Close()
			all = append(all, driven{y: y})
		}
	}
	for _, of := range append(all, driven{cartpole.Track(), 0.005, 3}, driven{quadrotor.System(), 0.01, 3}) {
		name := of.y.Name
		if of.level > 0 {
			name += fmt.Sprintf("--estimate=%v--keep-off=%v", of.noise, of.level)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				got := exportedOff(b, whole(b, of.y, of.noise, 0), of.level, export.Method, starts(), "-O2")
				b.ReportMetric(0, "ns/op")
				for _, what := range []string{
					"episodes", "unsafe", "unsafe_gpc", "differ", "cost_off", "state_off", "decisions", "projected", "off_map", "guarded", "incumbent", "escaped", "rested", "unsafe_decisions",
				} {
					v := require.Get(strconv.ParseFloat(got[what], 64))(b)
					if strings.HasSuffix(what, "_off") {
						v, what = 1e12*v, what+"_1e-12"
					}
					b.ReportMetric(v, what)
				}
			}
		})
	}
}

// bundledOf is a case's map, nil where it has none.
func bundledOf(c *gpc.Case) *model.Model {
	m, err := c.Model("")
	if err != nil {
		return nil
	}
	return m
}

// What C does not have is refused by name, and what it has instead is named.
func TestExportRefusesMethods(t *testing.T) {
	catalogue := gpc.Catalogue{Cases: require.Get(Cases())(t), Models: models.Bundled}
	for _, test := range []struct{ name, method, says string }{
		{"cartpole", "refine-64-ahead", "method refine-64-ahead cannot be exported (Method names it)"},
		{"cartpole", "nmpc-ahead", "the exact controller with Method nmpc"},
		{"cartpole", "direct", "Export direct-no-rescue"},
		{"hvac", "", "method refine-64-ahead cannot be exported (the map was compiled for it)"},
		{"cartpole", "teleport", "no method \"teleport\""},
	} {
		c := require.Get(catalogue.Find(test.name))(t)
		dir := filepath.Join(t.TempDir(), "c")
		_, err := c.Export(t.Context(), bundledOf(c), gpc.ExportOptions{Dir: dir, Method: test.method, Episodes: 1})
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s by %q: %v, want %q", test.name, test.method, err, test.says)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s by %q: the folder was written", test.name, test.method)
		}
	}
}
