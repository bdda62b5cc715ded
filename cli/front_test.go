package cli

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A front has its points in the file and in JSON, and bounds choose one that keeps them; bounds that none keeps are an exit code of 1.
func TestFront(t *testing.T) {
	app, file := cart(t)
	rows := filepath.Join(t.TempDir(), "front.csv")
	code, out, log := run(app, "front", "cart", "--model", file, "--points", "40", "--csv", rows, "--json")
	var got Trades
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || len(got.Points) < 30 || len(got.Points) > 40 || got.Best != nil {
		t.Fatalf("code %d, %v: %.200s\n%s", code, err, out, log)
	}
	f := require.Get(os.Open(rows))(t)
	defer f.Close()
	table := require.Get(csv.NewReader(f).ReadAll())(t)
	if len(table) != len(got.Points)+1 || len(table[0]) != len(table[1]) || table[0][len(table[0])-1] != "dominated" {
		t.Errorf("%d rows, the first %v", len(table), table[0])
	}
	name := strings.TrimPrefix(table[0][0], "weight of ")
	for bound, want := range map[string]int{"=1e9": 0, "=-1e9": 1} {
		if code, out, _ := run(app, "front", "cart", "--model", file, "--points", "40", "--within", name+bound); code != want || want == 0 && !strings.Contains(out, "within") {
			t.Errorf("within %s: code %d\n%s", bound, code, out)
		}
	}
	if code, out, log := run(app, "front", "cart", "--model", file, "--points", "40", "--exact", "10"); code != 0 || !strings.Contains(out, "exact solver: 10 weightings in ") {
		t.Errorf("exit code %d, %q, %s", code, out, log)
	}
	refused(t, app, "--exact 1: want 2 weightings", "front", "cart", "--model", file, "--exact", "1")
	refused(t, app, "--method direct: case cart has no switched inputs", "front", "cart", "--model", file, "--method", "direct")
	refused(t, app, "its file with --model\n", "front", "cart") // and no --method
	refused(t, app, "cart has no polish of the plans of its front", "front", "cart", "--model", file, "--polish", "3")
	refused(t, app, "with one of ", "front", "cart", "--model", file, "--within", "speed=1")
	refused(t, app, "want a number after =", "front", "cart", "--model", file, "--within", name+"=low")
	refused(t, app, "a second bound of "+name, "front", "cart", "--model", file, "--within", name+"=2,"+name+"=3")
	refused(t, app, "--state and --episode exclude each other", "front", "cart", "--model", file, "--state", "-", "--episode", "1")
	refused(t, app, "--points 1: want at least 2", "front", "cart", "--model", file, "--points", "1")
}
