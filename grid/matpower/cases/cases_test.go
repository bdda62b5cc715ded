package cases_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower/cases"
)

// TestEveryCaseReads: the sizes are those of the published systems.
func TestEveryCaseReads(t *testing.T) {
	want := map[string][3]int{
		"case9": {9, 3, 9}, "case14": {14, 5, 20}, "case30": {30, 6, 41},
		"case_ieee30": {30, 6, 41}, "case39": {39, 10, 46}, "case118": {118, 54, 186},
		"pglib_opf_case57_ieee": {57, 7, 80}, "pglib_opf_case118_ieee": {118, 54, 186}, "pglib_opf_case300_ieee": {300, 69, 411},
	}
	if len(cases.Names()) != len(want) {
		t.Errorf("names %v", cases.Names())
	}
	for _, name := range cases.Names() {
		c, err := cases.Read(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := [3]int{len(c.Bus), len(c.Gen), len(c.Branch)}; got != want[name] || c.Name != name || !c.HasCost {
			t.Errorf("%s: name %q, buses, generators and branches %v, want %v; costs %v", name, c.Name, got, want[name], c.HasCost)
		}
		text, _ := cases.Text(name)
		if lines := strings.Split(string(text), "\n"); !strings.HasPrefix(lines[1], "% Source: ") {
			t.Errorf("%s does not name its source: %q", name, lines[1])
		}
	}
	if !slices.Contains(cases.Names(), "case30") {
		t.Error("case30 is missing")
	}
}

func TestUnknownCaseNamesWhatThereIs(t *testing.T) {
	_, err := cases.Read("case31")
	if err == nil || !strings.Contains(err.Error(), "case_ieee30") {
		t.Errorf("error %v", err)
	}
}
