package rollouttest_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/renameio/v2"

	"github.com/gpc-engine/gpc/domains/multiagent/rollout/rollouttest"
)

//go:generate go test . -count=1 -run NumericsPage -update

var update = flag.Bool("update", false, "rewrite the section of docs/numerics.md")

const (
	numericsPage = "../../../../docs/numerics.md"
	beginMark    = "<!-- begin generated: go test ./domains/multiagent/rollout/rollouttest -run Numerics -update -->\n"
	endMark      = "<!-- end generated: rollouttest -->\n"
)

// TestNumericsPageHasTheTable fails when docs/numerics.md and the tolerances differ.
func TestNumericsPageHasTheTable(t *testing.T) {
	page, err := os.ReadFile(numericsPage)
	if os.IsNotExist(err) {
		t.Skip("no checkout around this test")
	}
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| quantity | tolerance | reason |\n|---|---|---|\n")
	for _, tol := range rollouttest.Tolerances() {
		fmt.Fprintf(&table, "| %s | %.0e | %s |\n", tol.Quantity, tol.Value, tol.Reason)
	}
	before, rest, ok := bytes.Cut(page, []byte(beginMark))
	old, after, ok2 := bytes.Cut(rest, []byte(endMark))
	if !ok || !ok2 {
		t.Fatalf("%s has no section between %q and %q", numericsPage, beginMark, endMark)
	}
	if string(old) == table.String() {
		return
	}
	if !*update {
		t.Fatalf("%s does not have the table of this package; run: go test ./domains/multiagent/rollout/rollouttest -run Numerics -update", numericsPage)
	}
	fresh := string(before) + beginMark + table.String() + endMark + string(after)
	if err := renameio.WriteFile(numericsPage, []byte(fresh), 0o644); err != nil {
		t.Fatal(err)
	}
}
