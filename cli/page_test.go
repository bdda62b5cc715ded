package cli

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/compile"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// TestThePageOfAnOwnSystemShowsWhatIsPrinted: the tables in docs/tutorials/your-system.md have the columns
// that the commands print, and a compilation's last line is that of the program.
func TestThePageOfAnOwnSystemShowsWhatIsPrinted(t *testing.T) {
	app, file := cart(t)
	words := func(line string) string { return strings.Join(strings.Fields(line), " ") }
	var page []string
	for line := range strings.Lines(string(require.Get(os.ReadFile("../docs/tutorials/your-system.md"))(t))) {
		page = append(page, words(line))
	}
	var compiled bytes.Buffer
	writeCompiled(&compiled, &compile.Report{Rounds: make([]compile.Round, 1), Choice: make([]compile.Score, 1), Met: true, Ended: "target met"})
	printed := map[string]string{"compile": compiled.String()}
	for name, args := range map[string][]string{
		"eval pair": {"eval", "pair", "cart", "--methods", "direct", "--episodes", "1", "--model", file},
		"steer":     {"steer", "cart", "--divisions", "1", "--episodes", "1", "--model", file},
	} {
		code, out, log := run(app, args...)
		if code != 0 {
			t.Fatalf("%s: exit code %d, %s", name, code, log)
		}
		printed[name] = out
	}
	for name, out := range printed {
		for _, table := range strings.Split(out, "\n\n") {
			head, _, _ := strings.Cut(table, "\n")
			if strings.Contains(head, "the map of round") {
				continue
			}
			if !slices.Contains(page, words(head)) {
				t.Errorf("docs/tutorials/your-system.md has no table of %s with the columns\n%s", name, head)
			}
		}
	}
	_, verdict, _ := strings.Cut(compiled.String(), "(largest ")
	verdict, _, _ = strings.Cut(verdict[strings.Index(verdict, ","):], ";")
	if !slices.ContainsFunc(page, func(line string) bool { return strings.Contains(line, words(verdict)) }) {
		t.Errorf("docs/tutorials/your-system.md has no line with %q", verdict)
	}
}

// Times of a compilation are never printed in powers of ten.
func TestTimesOfACompilationArePlain(t *testing.T) {
	var out bytes.Buffer
	beside := compile.ExactSolver{Score: compile.Score{Prepare: &closedloop.Quantiles{P50: 72.1, P99: 14400}}, Period: 5e9, Fits: true}
	writeCompiled(&out, &compile.Report{Rounds: make([]compile.Round, 1), Choice: make([]compile.Score, 1), Met: true, Ended: "target met", Solver: &beside})
	if want := "it takes 0.0721 ms, p99 14.4, of a period of 5000000 ms"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out.String())
	}
	if row := strings.Split(out.String(), "\n")[1]; strings.Count(row, "–") != 1 {
		t.Errorf("starts of the data were not driven, and the row is %q", row)
	}
}
