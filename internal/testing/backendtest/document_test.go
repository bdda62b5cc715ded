package backendtest

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/docsection"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

var update = flag.Bool("update", false, "rewrite the generated section of docs/contribute/numerics.md")

var section = docsection.Section{Begin: "<!-- begin generated: go test ./internal/testing/backendtest -run Numerics -update -->", End: "<!-- end generated -->"}

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

// TestNumericsPageHasTheTable fails when docs/contribute/numerics.md and the table differ.
func TestNumericsPageHasTheTable(t *testing.T) {
	differs := require.Get(section.Replace("../../../docs/contribute/numerics.md", toleranceTable(), *update))(t)
	if differs && !*update {
		t.Fatal("docs/contribute/numerics.md does not have the table of tolerances.go; run: go test ./internal/testing/backendtest -run Numerics -update")
	}
}
