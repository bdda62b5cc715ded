package publish

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/report"
)

// page is the report of some records.
func page(t *testing.T, records ...any) string {
	t.Helper()
	in, out := t.TempDir(), t.TempDir()
	for i, r := range records {
		require.OK(t, os.WriteFile(filepath.Join(in, string(rune('a'+i))+".json"), require.Get(json.Marshal(r))(t), 0o644))
	}
	all := require.Get(report.Load(t.Context(), in, known()))(t)
	require.Get(all.Write(t.Context(), out))(t)
	return string(require.Get(os.ReadFile(filepath.Join(out, "report.md")))(t))
}
