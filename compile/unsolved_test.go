package compile

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Where no scenario has a sample, the error says how the solver failed, at which start, and what would help, whether or not
// the time is over before the last scenario.
func TestUnsolvedScenariosAreExplained(t *testing.T) {
	y := system()
	y.Real.Margins = func(_, _, _, n, m []float64) { m[0] = n[1] - 3 }
	y.Dual.Margins = func(_, _, _, n, m []complex128) { m[0] = n[1] - 3 }
	c := require.Get(gpc.NewCase(require.Get(y.Case())(t)))(t)
	for tick, scenarios := range map[time.Duration]string{0: "12", 8 * time.Minute: "8"} {
		now := time.Unix(0, 0)
		clock := func() time.Time {
			now = now.Add(tick)
			return now
		}
		_, err := compile(context.Background(), c, small(filepath.Join(t.TempDir(), "sled.safetensors")), clock)
		if err == nil {
			t.Fatal("a limit that no start keeps is compiled")
		}
		for _, says := range []string{"0 of " + scenarios + " scenarios have samples", "infeasible", "ocp: from state [", "there no action keeps the limits for one step: margin speed is -2.", "what would help: margins that are ≥ 0"} {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%v a look at the clock: %q is not said of %v", tick, says, err)
			}
		}
	}
}
