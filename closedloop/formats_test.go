package closedloop

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/pages"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// docs/reference/formats.md has every key of a trace, and none besides.
func TestFormatsPage(t *testing.T) {
	page := require.Get(pages.ReadKeys("../docs/reference/formats.md"))(t)
	page.Hold(t, map[string]any{"header": Header{}, "scene line": sceneLine{}, "step line": Line{}, "end line": endLine{}, "seal line": sealLine{}, "scene file": SceneFile{}, "simulated scene": stagedScene{}})
}
