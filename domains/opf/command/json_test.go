package command

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/jsonkeys"
	"github.com/gpc-engine/gpc/internal/must"
)

// TestEveryJSONKeyIsDocumented: docs/json.md has every key that pf and opf print, and none
// besides.
func TestEveryJSONKeyIsDocumented(t *testing.T) {
	page := must.Get(jsonkeys.Read("../../../docs/json.md"))(t)
	for command, result := range map[string]any{"pf": powerFlow{}, "opf": optimalFlow{}} {
		for _, d := range page.Differences(command, result) {
			t.Error(d)
		}
	}
}
