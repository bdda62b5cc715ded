package report

import (
	"encoding/json"
	"testing"

	"github.com/gpc-engine/gpc/compile"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// TestCompilationIsARecord: what compile writes is known by its keys.
func TestCompilationIsARecord(t *testing.T) {
	text := require.Get(json.Marshal(compile.Report{Case: "cart", Rounds: make([]compile.Round, 1), Choice: make([]compile.Score, 1)}))(t)
	r := New("device", nil)
	if err := r.Add(text); err != nil || len(Of[compile.Report](r)) != 1 {
		t.Errorf("%d compilations and %v from %s", len(Of[compile.Report](r)), err, text)
	}
}
