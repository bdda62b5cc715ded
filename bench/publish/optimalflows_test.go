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
	text := part("networks of PGLib")(devices{r})
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
	if text := part("networks of PGLib")(devices{report.New("none", known())}); text != noRecord {
		t.Errorf("without a record: %q", text)
	}
}

// Networks beside IPOPT have a row each, with how IPOPT ended, and the means in the notes are those of the rows.
func TestNetworksBesideIPOPT(t *testing.T) {
	row := func(of, op string, batch int, ours, theirs float64, unsolved, lower int) peerrecord.Ratio {
		return peerrecord.Ratio{Op: op, Case: of, Batch: batch, Ratio: theirs / ours, OursUS: ours, PeerUS: theirs, Unsolved: unsolved, Lower: lower, OursShare: 0.25, PeerShare: 0.5}
	}
	p := peerrecord.Record{Note: "How.", Commit: "abc", Ratios: []peerrecord.Ratio{
		row("a", peerrecord.OpPGLib, 1, 1000, 10000, 0, 1), row("a", peerrecord.OpPGLib, 64, 500, 10000, 0, 1),
		row("a", peerrecord.OpFactor, 1, 10, 20, 0, 0), row("a", peerrecord.OpFactor, 64, 5, 20, 0, 0),
		row("b", peerrecord.OpPGLib, 1, 1000, 40000, 1, 0), row("b", peerrecord.OpPGLib, 16, 400, 40000, 1, 0),
	}}
	r := report.New("here", known())
	report.Set(r, []peerrecord.Record{p, {Ratios: []peerrecord.Ratio{{Op: "other"}}}})
	wants(t, part("networks of PGLib beside IPOPT")(devices{r}),
		"How. One solve, IPOPT / ours in the geometric mean of 2 networks: 20 alone, 44.7 side by side.",
		"| a | 1 | 0.5 | 10, at a lower cost | 10 | 20 |", "| b | 1 | 0.4 | 40, no optimum | 40 | 100 |",
		"One numeric factorisation, MUMPS / ours in the geometric mean of 1 networks: 2 alone, 4 side by side.",
		"| a | 0.01 | 0.005 | 0.02 | 2 | 4 | 0.25, 0.25, 0.50 |")
	if text := part("networks of PGLib beside IPOPT")(devices{report.New("none", known())}); text != noRecord {
		t.Errorf("without a record: %q", text)
	}
}

// README has the largest network, and of those beside IPOPT each that is much larger than the one above it; means are of all
// beside IPOPT.
func TestLargestFlowsStandBesideIPOPT(t *testing.T) {
	r := report.New("here", known())
	report.Set(r, []peerrecord.OptimalFlows{{Networks: []peerrecord.Network{
		testrecords.OptimalFlow("tiny", 100, 100, 20), testrecords.OptimalFlow("small", 100, 100, 20), testrecords.OptimalFlow("middle", 100, 100, 20), testrecords.OptimalFlow("large", 100, 100, 20)}}})
	networks := report.Of[peerrecord.OptimalFlows](r)[0].Networks
	for i, buses := range []int{10, 100, 1000, 10000} {
		networks[i].Buses = buses
	}
	if text := (devices{r}).largestFlows(); text != noRecord {
		t.Errorf("without IPOPT: %q", text)
	}
	p := peerrecord.Record{Note: "How.", Commit: "abc"}
	for _, of := range []string{"small", "middle"} {
		for _, batch := range []int{1, 64} {
			p.Ratios = append(p.Ratios, peerrecord.Ratio{Op: peerrecord.OpPGLib, Case: of, Batch: batch, Ratio: float64(8 + batch), OursUS: 5e5, PeerUS: 5e6})
		}
	}
	report.Set(r, []peerrecord.Record{p})
	text := devices{r}.largestFlows()
	wants(t, text, "| `small` | 100 | +0.0e+00 | 20 | 0.5 | 5 | 4 |", "| `middle` | 1000 |", "| `large` | 10000 | +0.0e+00 | 20 | 0.02 | – | 4 |", "Of all 4 networks that were tried, 4 were solved", "On [2 of them]", "took 9 times as long as `gpc`", "IPOPT took 72 times as long for each")
	if strings.Contains(text, "tiny") {
		t.Errorf("a network that was not solved beside IPOPT:\n%s", text)
	}
}
