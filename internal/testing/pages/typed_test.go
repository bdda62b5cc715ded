package pages

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// What the heads and the cells of tables of measurements have.
	measuredHead = regexp.MustCompile(`%|µs|\bms\b|\bp\d\d\b|median|regret|safe|ratio|cost|margin|instructions`)
	measuredCell = regexp.MustCompile(`\b[\d.]+ (µs|ms|%)`)
	fractions    = regexp.MustCompile(`\d\.\d`)
	generated    = regexp.MustCompile(`^<!-- .*(written by|begin generated|begin measured)`)
)

// untested are the folders and pages whose tables no test holds to records: the notebook, which nothing makes again,
// the results, which the report writes whole, and the kernels, whose tables are counts.
var untested = []string{"docs/contribute/notebook/", "docs/results/", "docs/contribute/cuda-kernels.md"}

// typedTables are the tables of a page, as their first rows, that have measurements and stand
// outside what a command writes.
func typedTables(page string) (found []string) {
	inside, table := false, []string(nil)
	for line := range strings.Lines(page + "\n\n") {
		switch {
		case generated.MatchString(line):
			inside = true
		case strings.HasPrefix(line, "<!-- end"):
			inside = false
		}
		if strings.HasPrefix(line, "|") && !inside {
			table = append(table, line)
			continue
		}
		if len(table) > 2 {
			rows := strings.Join(table[2:], "")
			measured := measuredHead.MatchString(table[0]) || len(measuredCell.FindAllString(rows, 3)) == 3
			if measured && len(fractions.FindAllString(rows, 3)) == 3 && !strings.Contains(table[0], " value ") {
				found = append(found, strings.TrimSpace(table[0]))
			}
		}
		table = nil
	}
	return found
}

// Tables of measurements are written by commands.
func TestMeasurementsAreNotTyped(t *testing.T) {
	const page = "| method | regret % |\n|---|---:|\n| a | 0.1 |\n| b | 0.2 |\n| c | 0.3 |\n"
	if got := typedTables("text\n" + page + "\n| | took |\n|---|---|\n| a | 1.5 ms, 2.5 ms |\n| b | 3.5 ms |"); len(got) != 2 {
		t.Errorf("of two typed tables %q are found", got)
	}
	if got := typedTables("<!-- x: written by make docs from lab/results -->\n" + page + "<!-- end of x -->\n\n| constant | value | regret % |\n|---|---|---|\n| a | 0.1, 0.2 | 0.3 |\n"); got != nil {
		t.Errorf("a generated table and one of constants are %q", got)
	}
	for _, page := range pages(t) {
		if slices.ContainsFunc(untested, func(prefix string) bool { return strings.HasPrefix(page, prefix) }) {
			continue
		}
		for _, head := range typedTables(text(t, page)) {
			t.Errorf("%s has a typed table of measurements: %s", page, head)
		}
	}
}
