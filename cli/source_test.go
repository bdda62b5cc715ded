package cli

import (
	"crypto/sha256"
	"encoding/json"
	"os"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Every record of runs names by content what its figures are of: the problem, the map that
// decided, and the instruction set.
func TestRecordsNameWhatTheyAreOf(t *testing.T) {
	app, file := cart(t)
	problem := durable.Sum(domain.FingerprintOf(app.Cases[0].Problem))
	model := durable.Sum(sha256.Sum256(require.Get(os.ReadFile(file))(t)))
	for _, args := range [][]string{
		{"eval", "cart", "--method", "direct", "--episodes", "1", "--model", file},
		{"eval", "cart", "--method", "oracle", "--episodes", "1"},
		{"eval", "pair", "cart", "--methods", "direct,oracle", "--episodes", "1", "--model", file},
		{"steer", "cart", "--divisions", "1", "--episodes", "1", "--model", file},
	} {
		code, out, log := run(app, append(args, "--json", "--backend", "cpu")...)
		if code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, log)
		}
		type source struct {
			Problem string `json:"problem_sha256"`
			Model   string `json:"model_sha256"`
			ISA     string `json:"isa"`
			Backend string `json:"backend"`
		}
		var got struct {
			source
			Pairs []source `json:"pairs"`
		}
		require.OK(t, json.Unmarshal([]byte(out), &got))
		if got.Problem != problem || got.ISA == "" {
			t.Errorf("%v: problem %q on %q, want %s", args, got.Problem, got.ISA, problem)
		}
		deciders := []source{got.source}
		if len(got.Pairs) > 0 {
			deciders = got.Pairs
		}
		for i, d := range deciders {
			if i > 0 || args[3] == "oracle" {
				if d.Model != "" || d.Backend != "" {
					t.Errorf("%v, method %d: decided by %q on %q, it has no map", args, i, d.Model, d.Backend)
				}
			} else if d.Model != model || d.Backend != "cpu" {
				t.Errorf("%v, method %d: decided by %q on %q, want %s", args, i, d.Model, d.Backend, model)
			}
		}
	}
}
