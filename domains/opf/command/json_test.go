package command

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/pages"
	"github.com/gpc-engine/gpc/internal/peerrecord"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// TestEveryJSONKeyIsDocumented: docs/reference/json.md has every key that pf and opf print, and none
// besides.
func TestEveryJSONKeyIsDocumented(t *testing.T) {
	page := require.Get(pages.ReadKeys("../../../docs/reference/json.md"))(t)
	page.Hold(t, map[string]any{"pf": powerFlow{}, "pf --outages": security{}, "opf": optimalFlow{}, "opf --secure": secureFlow{}, "opf --secure --loads": secureChain{}, "opf of several networks": peerrecord.OptimalFlows{}, "opf --loads": seriesResult{}})
}
