package backendtest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/renameio/v2"
)

var update = flag.Bool("update", false, "rewrite the generated section of docs/numerics.md")

const (
	numericsPage = "../../docs/numerics.md"
	beginMark    = "<!-- begin generated: go test ./internal/backendtest -run Numerics -update -->\n"
	endMark      = "<!-- end generated -->\n"
)

func toleranceTable() string {
	var b strings.Builder
	b.WriteString("| quantity | tolerance | reason |\n|---|---|---|\n")
	for _, tol := range Tolerances() {
		fmt.Fprintf(&b, "| %s | %.0e | %s |\n", tol.Quantity, tol.Relative, strings.ReplaceAll(tol.Reason, "|w||h|", `\|w\|\|h\|`))
	}
	fmt.Fprintf(&b, "\nLeft out of comparison: rows nearer than %.1e (relative) to a ReLU's kink; for the step, rows whose "+
		"eigenvalue gap is below %.0e of the largest eigenvalue or whose eigenvector's leading entry leads by less than %.0e. "+
		"At least %.0f %% of the rows must remain.\n", kinkMargin, gapMargin, signMargin, 100*comparedShare)
	return b.String()
}

// TestNumericsPageHasTheTable fails when docs/numerics.md and the table differ.
func TestNumericsPageHasTheTable(t *testing.T) {
	page, err := os.ReadFile(numericsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(page, []byte(beginMark))
	old, after, ok2 := bytes.Cut(rest, []byte(endMark))
	if !ok || !ok2 {
		t.Fatalf("%s has no section between %q and %q", numericsPage, beginMark, endMark)
	}
	if string(old) == toleranceTable() {
		return
	}
	if !*update {
		t.Fatalf("%s does not have the table of tolerances.go; run: go test ./internal/backendtest -run Numerics -update", numericsPage)
	}
	fresh := string(before) + beginMark + toleranceTable() + endMark + string(after)
	if err := renameio.WriteFile(numericsPage, []byte(fresh), 0o644); err != nil {
		t.Fatal(err)
	}
}
