package gpc_test

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/examples/gallery"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

func TestASwitchedCaseIsNotExported(t *testing.T) {
	c := require.Get(gpc.NewCase(require.Get(gallery.Switched()[0].System().Case())(t)))(t)
	for _, opt := range []gpc.ExportOptions{{Dir: t.TempDir(), Episodes: 1}, {Dir: t.TempDir(), MapOnly: true, Records: 1}} {
		_, err := c.Export(t.Context(), nil, opt)
		if err == nil || !strings.Contains(err.Error(), "has switched actions") {
			t.Errorf("map only: %t: %v, want a refusal that names the switched actions", opt.MapOnly, err)
		}
	}
}
