package report

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
)

// A table is what its columns say: fields in their formats and units, and a dash for what a row has not.
func TestColumnsDeclareATable(t *testing.T) {
	type row struct {
		Name    string
		Time    *float64
		Share   closedloop.Number
		Half    float64
		Solved  int
		Margins map[string]float64
		Parts   []string
	}
	us := 1500.0
	table := Table(Columns{
		{"name", "`{Name}`"}, {"time, ms", "{Time %.1f /1e3}"}, {"share", "{Share %.2f} ± {Half? %.2f}"}, {"solved", "{Solved} of 9"},
		{"pair", "{Margins.robot pair %.1f}"}, {"second", "{Parts.1}"}, {"ratio", "{Half times}"},
	}, []row{
		{"a", &us, 0.5, math.NaN(), 3, map[string]float64{"robot pair": 2}, []string{"x", "y"}},
		{"", nil, closedloop.Number(math.NaN()), 0.25, 0, nil, []string{"", ""}},
	})
	for i, want := range [][]string{
		{"name", "time, ms", "share", "solved", "pair", "second", "ratio"},
		{"`a`", "1.5", "0.50 ± –", "3 of 9", "2.0", "y", "NaN"},
		{"``", "–", "–", "0 of 9", "–", "", "0.25"},
	} {
		if !slices.Equal(table[i], want) {
			t.Errorf("row %d is %q, want %q", i, table[i], want)
		}
	}
	for _, cell := range []string{"{Tiem}", "{Parts.2}", "{Parts.one}", "{Time %.1f /e}"} {
		func() {
			defer func() {
				if what := recover(); what == nil {
					t.Errorf("%s is a cell", cell)
				}
			}()
			Columns{{"", cell}}.Row(row{Time: &us, Parts: []string{"x"}})
		}()
	}
	if got := Cell("{a tiny}, {b}", func(path string) any { return map[string]any{"a": 3e-9, "b": "c"}[path] }); got != "3e-9, c" {
		t.Errorf("a cell of named values is %q", got)
	}
}

// Times say of how many decisions they are, and the mean that a median hides.
func TestTimesOfDecisions(t *testing.T) {
	running := &closedloop.Quantiles{P50: 1000, P99: 9000, Mean: 1900}
	cold := &closedloop.Quantiles{P50: 5000, P99: 6000}
	heavy := &closedloop.Quantiles{P50: 1000, P99: 9000, Mean: 3000}
	for _, v := range []struct {
		of   closedloop.Latency
		want string
	}{
		{closedloop.Latency{Quantiles: closedloop.Quantiles{P50: 1000, P99: 7000}}, "1.0 / 7.0 of all"},
		{closedloop.Latency{Running: running, Cold: cold}, "1.0 / 9.0 (5.0)"},
		{closedloop.Latency{Running: heavy, Cold: cold}, "1.0 / 9.0 (5.0), mean 3.0"},
		{closedloop.Latency{Running: heavy}, "1.0 / 9.0, mean 3.0"},
		{closedloop.Latency{Quantiles: closedloop.Quantiles{P50: closedloop.Number(math.NaN())}}, "–"},
	} {
		if got := Times("%.1f", &v.of); got != v.want {
			t.Errorf("%q, want %q", got, v.want)
		}
	}
}
