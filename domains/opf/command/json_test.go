package command

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/jsonkeys"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/internal/opfrecord"
)

// TestEveryJSONKeyIsDocumented: docs/json.md has every key that pf and opf print, and none
// besides.
func TestEveryJSONKeyIsDocumented(t *testing.T) {
	page := must.Get(jsonkeys.Read("../../../docs/json.md"))(t)
	page.Hold(t, map[string]any{"pf": powerFlow{}, "pf --outages": security{}, "opf": optimalFlow{}, "opf of several networks": opfrecord.Record{}, "opf --loads": seriesResult{}})
}
