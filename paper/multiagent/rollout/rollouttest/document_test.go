package rollouttest_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/docsection"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout/rollouttest"
)

//go:generate go test . -count=1 -run NumericsPage -update

var update = flag.Bool("update", false, "rewrite the section of docs/contribute/numerics.md")

var section = docsection.Section{
	Begin: "<!-- begin generated: go test ./paper/multiagent/rollout/rollouttest -run Numerics -update -->", End: "<!-- end generated: rollouttest -->",
}

// TestNumericsPageHasTheTable fails when docs/contribute/numerics.md and the tolerances differ.
func TestNumericsPageHasTheTable(t *testing.T) {
	var table strings.Builder
	table.WriteString("| quantity | tolerance | reason |\n|---|---|---|\n")
	for _, tol := range rollouttest.Tolerances() {
		fmt.Fprintf(&table, "| %s | %.0e | %s |\n", tol.Quantity, tol.Value, tol.Reason)
	}
	differs, err := section.Replace("../../../../docs/contribute/numerics.md", table.String(), *update)
	if os.IsNotExist(err) {
		t.Skip("no checkout around this test")
	}
	if err != nil {
		t.Fatal(err)
	}
	if differs && !*update {
		t.Fatal("docs/contribute/numerics.md does not have the table of this package; run: go test ./paper/multiagent/rollout/rollouttest -run Numerics -update")
	}
}
