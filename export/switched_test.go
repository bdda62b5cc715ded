package export_test

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/models"
	"github.com/gpc-engine/gpc/examples/gallery/switched"
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

// A search in C takes every decision of the same episodes as the one in Go: by the map's chances and without, of one switch and of
// several, with least times and bounded changes, of episodes that end and of a plant that runs on, and where no plan keeps the limits.
// Go's vector instructions may round otherwise, so that of two plans of one cost another is taken.
func TestASearchDecidesTheSameInC(t *testing.T) {
	held := switched.Fishing()
	held.Switches[0].Least, held.Switches[0].Most, held.Switches[0].Window = []int{2, 3}, 3, 12
	running := held
	running.Horizon, running.Steps = 12, 40
	for _, v := range []struct {
		y      equations.System
		method string
		mapped bool
	}{
		{switched.Fishing(), "direct", true},
		{switched.Fishing(), "refine-64", true},
		{switched.Fishing(), "refine-512", true},
		{held, "search-64", false},
		{running, "search-64", false},
		{wide(switched.ThreeTank(), 3), "refine-64", true},
		{switched.VanDerPol(), "search-64", false},
		{switched.WaterTower(), "search-64", false},
		{switched.Subway(), "search-64", false},
	} {
		if testing.Short() && (v.method == "refine-512" || !v.mapped && v.y.Switches[0].Most == 0) {
			continue
		}
		for i, o := range orders() {
			if i > 0 && (testing.Short() || v.method == "search-64") {
				continue
			}
			t.Run(v.y.Name+"/"+v.method+"/"+o.kernels, func(t *testing.T) { holdSearch(t, v.y, v.mapped, v.method, o) })
		}
	}
}

// holdSearch exports a search and holds C to its decisions.
func holdSearch(t *testing.T, y equations.System, mapped bool, method string, o order) {
	t.Setenv(isa.Environment, o.kernels)
	c := require.Get(gpc.NewCase(require.Get(y.Case())(t)))(t)
	var m *model.Model
	if mapped {
		m = bundledMap(t, y.Name)
		m.Provenance.ProblemSHA256 = durable.Sum(domain.FingerprintOf(c.Definition().Learned)) // other starts make another problem
	}
	bound := 1e-12
	if o.kernels != isa.Generic.String() {
		bound = 1e-6
	}
	dir := filepath.Join(t.TempDir(), "c")
	r := require.Get(c.Export(t.Context(), m, gpc.ExportOptions{Dir: dir, Method: method, Episodes: 10, Seed: 9005}))(t)
	got := run(t, dir, append([]string{"-O2", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"}, o.flags...)...)
	for _, what := range []string{"cost_off", "state_off"} {
		if off := require.Get(strconv.ParseFloat(got[what], 64))(t); !(off <= bound) {
			t.Errorf("%s is %g, want at most %g", what, off, bound)
		}
	}
	if got["differ"] != "0" || got["unsafe"] != strconv.Itoa(*r.Unsafe) || got["loop_bytes"] != strconv.Itoa(r.LoopBytes) {
		t.Errorf("%s episodes differ, %s are unsafe (%d by gpc), a loop has %s bytes (%d by gpc)", got["differ"], got["unsafe"], *r.Unsafe, got["loop_bytes"], r.LoopBytes)
	}
	if c.Name() == "three-tank" && (got["unsafe_decisions"] == "0" || got["projected"] == "0") {
		t.Error("no decision is projected: the test does not show it")
	}
}

// Where actions have no switch, C projects them with other roundings than Go, which may make another of two plans the better one: then
// the search goes another way. What C executes is safe in the same episodes, and costs as much.
func TestASearchBesideOtherActionsCostsTheSameInC(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of roll-outs")
	}
	compiler(t)
	t.Setenv(isa.Environment, isa.Generic.String())
	for _, v := range []struct {
		y      equations.System
		method string
	}{{switched.HeatPump(), "search-64"}, {switched.Gears(), "refine-64"}} {
		c := require.Get(gpc.NewCase(require.Get(v.y.Case())(t)))(t)
		m := testdomain.Untrained(rand.New(rand.NewPCG(9009, 0)), c.MapSpec(), 6, 0, 24)
		m.Provenance.ProblemSHA256 = durable.Sum(domain.FingerprintOf(c.Definition().Learned))
		dir := filepath.Join(t.TempDir(), "c")
		require.Get(c.Export(t.Context(), m, gpc.ExportOptions{Dir: dir, Method: v.method, Episodes: 2, Seed: 9005}))(t)
		got := run(t, dir, "-O2")
		cost := func(name string) float64 { return require.Get(strconv.ParseFloat(got[name], 64))(t) }
		if off := cost("mean_cost")/cost("mean_cost_gpc") - 1; got["differ"] != "0" || got["unsafe"] != "0" || !(math.Abs(off) < 1e-6) {
			t.Errorf("%s: %s episodes differ, %s are unsafe, and the mean cost is off by %g", c.Name(), got["differ"], got["unsafe"], off)
		}
	}
}
