package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
)

// An observation that cannot be right is answered as one that is off the map, with exit code 1
// and the residual beside its limit, in JSON that is whole whatever overflows.
func TestAnImpossibleObservationIsSaid(t *testing.T) {
	app := &App{Catalogue: paper.Cases()}
	state := filepath.Join(t.TempDir(), "state.json")
	impossible := func(from string, at int, value float64) {
		t.Helper()
		var v struct {
			S []float64 `json:"s"`
			C []float64 `json:"c"`
		}
		require.OK(t, json.Unmarshal([]byte(from), &v))
		v.S[at] = value
		require.OK(t, os.WriteFile(state, require.Get(json.Marshal(v))(t), 0o644))
	}
	dispatch := string(require.Get(os.ReadFile("../examples/opf30/state.json"))(t))
	for _, of := range []struct {
		name, state string
		at          int
		value       float64
	}{
		{"opf30", dispatch, 0, 1e38}, // a voltage
		{"opf30", dispatch, 31, 1e9},
		{"integrator-convex", `{"s":[-3,0.5,0,0],"c":[0,0,0.2,0,0]}`, 2, 1e9}, // a velocity
	} {
		impossible(of.state, of.at, of.value)
		code, out, log := run(app, "refine", of.name, "--state", state, "--candidates", "16", "--backend", "cpu", "--json")
		var got struct {
			Off bool `json:"off_map"`
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 1 || !got.Off {
			t.Errorf("%s with %g: exit code %d, %v: %.300s%s", of.name, of.value, code, err, out, log)
		}
		code, out, log = run(app, "refine", of.name, "--state", state, "--candidates", "16", "--backend", "cpu")
		if code != 1 || !strings.Contains(out, "OFF THE MAP: above") {
			t.Errorf("%s with %g: exit code %d: %s%s", of.name, of.value, code, out, log)
		}
	}
}
