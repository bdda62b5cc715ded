package publish

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/internal/peerrecord"
	"github.com/gpc-engine/gpc/internal/testing/testrecords"
)

// A set counts what is optimal and what reaches the published value; what does not stands first
// among the hard ones, with its reason.
func TestOptimalFlowsOfManyNetworks(t *testing.T) {
	failed := peerrecord.Network{Name: "c__api", Buses: 300, Status: "iteration limit", Reason: "because of this", Iterations: 300}
	published := 7.0
	failed.Published = &published
	r := report.New("here", known())
	report.Set(r, []peerrecord.OptimalFlows{{Command: "gpc opf x", Networks: []peerrecord.Network{
		testrecords.OptimalFlow("a", 100, 100, 20), testrecords.OptimalFlow("b", 103, 100, 30), testrecords.OptimalFlow("a__api", 99, 100, 40), failed}}})
	text := devices{r}.optimalFlows()
	for _, want := range []string{
		"| typical | 2 | 100 | 2 | 1 of 2 | 30, 30 | 1.0e-10 | 2e+02 of 2 |",
		"| heavily loaded (api) | 2 | 300 | 1 | 1 of 2 | 40, 40 | 1.0e-10 | 2e+02 of 1 |",
		"| c__api | 300 | because of this | – | 300 | 0 |",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Index(text, "c__api") > strings.Index(text, "| b ") || strings.Contains(text, "sad") {
		t.Errorf("order or sets:\n%s", text)
	}
	if text := (devices{report.New("none", known())}).optimalFlows(); text != noRecord {
		t.Errorf("without a record: %q", text)
	}
}
