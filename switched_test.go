package gpc_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/switched"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

func TestWhatASwitchedCaseCannotExportIsSaid(t *testing.T) {
	for _, v := range []struct {
		system equations.System
		opt    gpc.ExportOptions
		want   string
	}{
		{switched.Fishing(), gpc.ExportOptions{MapOnly: true, Records: 1}, "leave MapOnly out"},
		{switched.Fishing(), gpc.ExportOptions{Method: "sum-up", Episodes: 1}, "method sum-up cannot be exported"},
		{switched.Fishing(), gpc.ExportOptions{Method: "search-64-ahead", Episodes: 1}, "method search-64-ahead cannot be exported"},
		{switched.Fishing(), gpc.ExportOptions{Method: "refine-64", Episodes: 1}, "no map to export"},
		{switched.HeatPump(), gpc.ExportOptions{Method: "search-64-polish", Episodes: 1}, "method search-64-polish cannot be exported"},
	} {
		c := require.Get(gpc.NewCase(require.Get(v.system.Case())(t)))(t)
		v.opt.Dir = filepath.Join(t.TempDir(), "c")
		if _, err := c.Export(t.Context(), nil, v.opt); err == nil || !strings.Contains(err.Error(), v.want) {
			t.Errorf("%s, %q: %v, want %q", c.Name(), v.opt.Method, err, v.want)
		}
	}
}
