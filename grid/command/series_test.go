package command

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/series"
)

func loadsFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSeriesOfLoads(t *testing.T) {
	loads, results := loadsFile(t, "day.csv", "time,scale\nmorning,0.9\nnoon,1\nnight,0.8\n"), filepath.Join(t.TempDir(), "day")
	code, out, log := run("opf", "series", "case9", "--loads", loads, "--results", results, "--json")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, log)
	}
	var r seriesResult
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Steps != 3 || r.Optimal != 3 || r.Median == 0 || len(r.WithoutOptimum) != 0 {
		t.Errorf("%+v", r)
	}
	_, whole, _ := run("opf", "case9", "--scale", "1", "--json")
	var one optimalFlow
	if err := json.Unmarshal([]byte(whole), &one); err != nil {
		t.Fatal(err)
	}
	if alone := *one.Objective; !(r.Objective > 2*alone && r.Objective < 3*alone) || math.IsNaN(r.Objective) {
		t.Errorf("objectives add up to %g, noon alone has %g", r.Objective, alone)
	}
	for _, name := range series.Files {
		if info, err := os.Stat(filepath.Join(results, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSeriesSaysWhichStepHasNoOptimum(t *testing.T) {
	code, out, _ := run("opf", "series", "case9", "--loads", loadsFile(t, "day.csv", "time,scale\nfine,1\ntoo much,9\n"))
	if code != 1 || !strings.Contains(out, "1 of 2 steps optimal") || !strings.Contains(out, "step 1 too much: infeasible") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestSeriesRefusesWhatHasNoMeaning(t *testing.T) {
	loads := loadsFile(t, "day.csv", "scale\n1\n")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"case9"}, "--loads is required"},
		{[]string{"case9", "--loads", loads, "--scale", "2"}, "unknown flag: --scale"},
		{[]string{"case9", "case14", "--loads", loads}, "takes one network"},
		{[]string{"case9", "--loads", loads, "--chains", "-1"}, "-1 chains"},
		{[]string{"case9", "--loads", loads + "x"}, "does not exist"},
		{[]string{"case9", "--loads", loadsFile(t, "e.csv", "scale\n")}, "has no row with loads"},
	} {
		if code, _, log := run(append([]string{"opf", "series"}, c.args...)...); code != 2 || !strings.Contains(log, c.says) {
			t.Errorf("%v: exit code %d, %s; want %q", c.args, code, log, c.says)
		}
	}
}
