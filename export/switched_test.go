package export_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/examples/gallery/models"
	"github.com/gpc-engine/gpc/examples/gallery/switched"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/model"

	"github.com/gpc-engine/gpc/equations"
)

// bundledMap is a gallery system's.
func bundledMap(t testing.TB, name string) *model.Model {
	t.Helper()
	f := require.Get(models.Bundled.Open(name + ".safetensors"))(t)
	defer f.Close()
	return require.Get(model.Read(f))(t)
}

// A search in C takes every decision of the same episodes as the one in Go: by the map's chances and without, of one switch and of
// several, with least times and bounded changes.
func TestASearchDecidesTheSameInC(t *testing.T) {
	compiler(t)
	order := orders()
	o := order[len(order)-1]
	t.Setenv(isa.Environment, o.kernels)
	for _, v := range []struct {
		y      equations.System
		method string
		mapped bool
	}{
		{switched.Fishing(), "refine-64", true},
		{switched.Fishing(), "refine-512", true},
		{switched.Fishing(), "direct", true},
		{switched.Fishing(), "search-64", false},
	} {
		t.Run(v.y.Name+"/"+v.method, func(t *testing.T) {
			c := require.Get(gpc.NewCase(require.Get(v.y.Case())(t)))(t)
			var m *model.Model
			if v.mapped {
				m = bundledMap(t, v.y.Name)
			}
			const episodes = 20
			dir := filepath.Join(t.TempDir(), "c")
			r := require.Get(c.Export(t.Context(), m, gpc.ExportOptions{Dir: dir, Method: v.method, Episodes: episodes, Seed: 9005}))(t)
			got := run(t, dir, append([]string{"-O2"}, o.flags...)...)
			for _, what := range []string{"cost_off", "state_off"} {
				if off := require.Get(strconv.ParseFloat(got[what], 64))(t); !(off <= 1e-9) {
					t.Errorf("%s is %g, want at most 1e-9", what, off)
				}
			}
			if got["differ"] != "0" || got["unsafe"] != strconv.Itoa(*r.Unsafe) || got["loop_bytes"] != strconv.Itoa(r.LoopBytes) {
				t.Errorf("%s episodes differ, %s are unsafe (%d by gpc), a loop has %s bytes (%d by gpc)", got["differ"], got["unsafe"], *r.Unsafe, got["loop_bytes"], r.LoopBytes)
			}
			t.Log(got)
		})
	}
}
