package export_test

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/models"
	"github.com/gpc-engine/gpc/examples/gallery/switched"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
)

// bundledMap is a gallery system's.
func bundledMap(t testing.TB, name string) *model.Model {
	t.Helper()
	f := require.Get(models.Bundled.Open(name + ".safetensors"))(t)
	defer f.Close()
	return require.Get(model.Read(f))(t)
}

// wide are starts from beyond those that a system is made for.
func wide(y equations.System, times float64) equations.System {
	y.Scenario = slices.Clone(y.Scenario)
	for i, v := range y.Scenario {
		middle, half := (v.Lo+v.Hi)/2, (v.Hi-v.Lo)/2
		y.Scenario[i].Lo, y.Scenario[i].Hi = middle-times*half, middle+times*half
	}
	return y
}

// brief are episodes of a few steps.
func brief(y equations.System, steps int) equations.System {
	y.Steps = steps
	return y
}

// A search in C takes every decision of the same episodes as the one in Go: by the map's chances and without, of one switch and of
// several, with least times and bounded changes, beside actions without a switch, of episodes that end and of a plant that runs on, and
// where no plan keeps the limits. Where all actions are switched, Go's vector instructions may round otherwise, so that of two plans of
// one cost another is taken.
func TestASearchDecidesTheSameInC(t *testing.T) {
	held := switched.Fishing()
	held.Switches[0].Least, held.Switches[0].Most, held.Switches[0].Window = []int{2, 3}, 3, 12
	running := held
	running.Horizon, running.Steps = 12, 40
	for _, v := range []struct {
		y      equations.System
		method string
		long   bool // not in short tests
	}{
		{switched.Fishing(), "direct", false},
		{switched.Fishing(), "refine-64", false},
		{switched.Fishing(), "refine-512", true},
		{held, "search-4096", false},
		{brief(wide(switched.ThreeTank(), 3), 20), "search-4096", true},
		{brief(switched.HeatPump(), 12), "search-4096", true},
		{held, "search-64", false},
		{running, "search-64", false},
		{wide(switched.ThreeTank(), 3), "refine-64", false},
		{switched.VanDerPol(), "search-64", true},
		{switched.WaterTower(), "search-64", true},
		{switched.Subway(), "search-64", true},
		{switched.Gears(), "search-64", false},
		{switched.HeatPump(), "direct", true},
		{switched.HeatPump(), "search-64", true},
		{wide(switched.HeatPump(), 2), "refine-64", true},
	} {
		if testing.Short() && v.long {
			continue
		}
		for i, o := range orders() {
			if i > 0 && (testing.Short() || i < len(orders())-1) {
				continue
			}
			t.Run(v.y.Name+"/"+v.method+"/"+o.kernels, func(t *testing.T) { holdSearch(t, v.y, v.method, o) })
		}
	}
}

// exportSearch exports a search of a system, by its bundled map or, where it has actions without a switch, by an untrained one.
func exportSearch(t *testing.T, y equations.System, method string, episodes int) (dir string, r *export.Result) {
	t.Helper()
	compiler(t)
	c := require.Get(gpc.NewCase(require.Get(y.Case())(t)))(t)
	var m *model.Model
	switch {
	case strings.HasPrefix(method, "search"):
	case len(y.Switches) < len(y.Action):
		m = testdomain.Untrained(rand.New(rand.NewPCG(9009, 0)), c.MapSpec(), 6, 0, 24)
	default:
		m = bundledMap(t, y.Name)
	}
	if m != nil {
		m.Provenance.ProblemSHA256 = durable.Sum(domain.FingerprintOf(c.Definition().Learned)) // other starts make another problem
	}
	dir = filepath.Join(t.TempDir(), "c")
	return dir, require.Get(c.Export(t.Context(), m, gpc.ExportOptions{Dir: dir, Method: method, Episodes: episodes, Seed: 9005}))(t)
}

// holdSearch exports a search and holds C to its decisions.
func holdSearch(t *testing.T, y equations.System, method string, o order) {
	t.Setenv(isa.Environment, o.kernels)
	bound, episodes := 1e-12, 10
	if len(y.Switches) < len(y.Action) {
		// In each decision elementary functions of its own may end a projection elsewhere by 1e-9 of half a box.
		episodes, bound = 3, 1e-9*float64(y.Steps)
	} else if o.kernels != isa.Generic.String() {
		bound = 1e-6
	}
	if strings.HasSuffix(method, "-4096") {
		episodes = 2
	}
	dir, r := exportSearch(t, y, method, episodes)
	got := run(t, dir, append([]string{"-O2", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"}, o.flags...)...)
	for _, what := range []string{"cost_off", "state_off"} {
		if off := require.Get(strconv.ParseFloat(got[what], 64))(t); !(off <= bound) {
			t.Errorf("%s is %g, want at most %g", what, off, bound)
		}
	}
	if got["differ"] != "0" || got["unsafe"] != strconv.Itoa(*r.Unsafe) || got["loop_bytes"] != strconv.Itoa(r.LoopBytes) {
		t.Errorf("%s episodes differ, %s are unsafe (%d by gpc), a loop has %s bytes (%d by gpc)", got["differ"], got["unsafe"], *r.Unsafe, got["loop_bytes"], r.LoopBytes)
	}
	if y.Name == "three-tank" && (got["unsafe_decisions"] == "0" || got["projected"] == "0") {
		t.Error("no decision is projected: the test does not show it")
	}
}

// Where a plan's way to the limits leads through actions that all break them, the projection enlarges last bits of elementary functions,
// in which C differs from Go and Go from itself on other instruction sets. The search then goes another way. What C executes keeps the
// limits in the same episodes, and costs as much.
func TestASearchThatEnlargesLastBitsCostsTheSameInC(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes of roll-outs")
	}
	t.Setenv(isa.Environment, isa.Generic.String())
	dir, _ := exportSearch(t, switched.Gears(), "refine-64", 40)
	got := run(t, dir, "-O2")
	figure := func(name string) float64 { return require.Get(strconv.ParseFloat(got[name], 64))(t) }
	off, half := figure("cost_difference"), figure("cost_difference_95")
	t.Logf("of %g, C costs %g ± %g more; %g in one episode", figure("mean_cost_gpc"), off, half, figure("cost_off"))
	if got["differ"] != "0" || got["unsafe"] != "0" || !(math.Abs(off) <= 2*half) || !(half <= 0.02*figure("mean_cost_gpc")) {
		t.Errorf("%s episodes differ, %s are unsafe, and C costs %g ± %g more of %g", got["differ"], got["unsafe"], off, half, figure("mean_cost_gpc"))
	}
}
