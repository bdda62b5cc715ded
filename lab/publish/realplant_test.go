package publish

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/lab/report"
)

// A row counts the safe of the starts with a way, and costs stand beside the first method's; comparisons without an estimate have none.
func TestTheRealPlant(t *testing.T) {
	r := report.New("a", nil)
	row := func(method string, noise float64, safe int) closedloop.Comparison {
		return closedloop.Comparison{Case: "cart", Method: method, Seed: 9, Commit: "abc", Episodes: 1000, Safe: safe, Way: 900, SafeOfWay: 899, Sensing: closedloop.Sensing{MeasuredNoise: noise, Tightening: 3}, Compared: 880, Difference: closedloop.RegretStatistics{Mean: 1.25, MeanCI95: closedloop.OpenInterval{1, 1.5}}}
	}
	report.Put(r, closedloop.Compared{Comparisons: []closedloop.Comparison{row("plain", 0, 1), row("bare", 0, 2)}},
		closedloop.Compared{Comparisons: []closedloop.Comparison{row("nmpc", 0.03, 951), row("direct", 0.03, 950)}},
		closedloop.Compared{Comparisons: []closedloop.Comparison{row("nmpc", 0.01, 991), row("direct", 0.01, 990)}})
	some := closedloop.Compared{Comparisons: []closedloop.Comparison{row("nmpc", 0.01, 991), row("direct", 0.01, 990)}}
	for i := range some.Comparisons {
		some.Comparisons[i].MeasuredStates = []string{"x", "theta"}
	}
	report.Put(r, some)
	text := devices{r}.realPlant()
	for _, want := range []string{
		"| `cart` | all | 1 | 3 | `nmpc` | 991/1000 | 900 | 899 | 99.4 to 100.0 | – | – |\n| `cart` | all | 1 | 3 | `direct` | 990/1000 | 900 | 899 | 99.4 to 100.0 | +1.25 [+1.00, +1.50] | 880 |\n| `cart` | all | 3 |",
		"+1.50] | 880 |\n| `cart` | x, theta | 1 |",
		"Seed 9, commit abc. Recorded without times.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "plain") || strings.Contains(text, "bare") {
		t.Errorf("a comparison without an estimate is in\n%s", text)
	}
	late := row("nmpc", 0, 999)
	late.Delay, late.Tightening = 1, 0
	report.Put(r, closedloop.Compared{Comparisons: []closedloop.Comparison{late}})
	if got := (devices{r}).delayed(); !strings.Contains(got, "| `cart` | 1 | `nmpc` | 999/1000 | 99.4 to 100.0 | – | – |") || strings.Contains(got, "bare") || strings.Contains(got, "x, theta") {
		t.Errorf("late actions:\n%s", got)
	}
	if (devices{r}).realPlant() != text {
		t.Error("a comparison without an estimate changes the table of those with one")
	}
}

// What the page says of the starts without a way, and of those whom they leave out, is what the records say.
func TestStartsWithoutAWayAreTold(t *testing.T) {
	c := claimsOf(t, "docs/results/real-plant.md")
	for _, of := range devices(recorded(t)).comparisons(func(m *closedloop.Comparison) bool {
		return m.Case == "cartpole-track" && len(m.MeasuredStates) == 2 && m.MeasuredNoise == 0.01 && m.Tightening == 3
	}) {
		solver, plain := of.Comparisons[0], of.Comparisons[1]
		c.says("%d of %d starts have none, and with them goes the difference of the two methods: of all starts the map keeps %d and the solver %d, of those with a way %d of %d each",
			solver.Episodes-solver.Way, solver.Episodes, plain.Safe, solver.Safe, plain.SafeOfWay, plain.Way)
		if plain.SafeOfWay != solver.SafeOfWay {
			t.Errorf("of those with a way %d and %d", plain.SafeOfWay, solver.SafeOfWay)
		}
	}
	const gains = "BenchmarkGains/cstr-runs-on/nmpc/"
	r := records{t, recorded(t)}
	c.says("In the mean it is %.3f %% of the range by estimates, and %.1f %% without them", r.printed(gains+"estimated", "offset_%"), r.printed(gains+"unknown", "offset_%"))
	if len(c.held) != 2 {
		t.Errorf("%d records", len(c.held))
	}
}
