package publish

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/optima"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/report"
	"github.com/gpc-engine/gpc/lab/testrecords"
)

// A set counts what is optimal and what reaches the published value; what does not stands first
// among the hard ones, with its reason.
func TestOptimalFlowsOfManyNetworks(t *testing.T) {
	failed := optima.Network{Name: "c__api", Buses: 300, Status: "iteration limit", Reason: "because of this", Iterations: 300}
	published := 7.0
	failed.Published = &published
	r := report.New("here", known())
	report.Set(r, []optima.OptimalFlows{{Command: "gpc opf x", Networks: []optima.Network{
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

// row is a network beside IPOPT, by times in ms; without a ratio where one has no optimum.
func row(of, op string, batch int, ours, theirs float64, unsolved, lower int) peerrecord.Ratio {
	v := peerrecord.Ratio{Op: op, Case: of, Peer: "IPOPT 3", Batch: batch, OursUS: 1e3 * ours, PeerUS: 1e3 * theirs, Unsolved: unsolved, Lower: lower, OursShare: 0.25, PeerShare: 0.5, PeerDerivatives: 0.125, PeerAnalysisUS: 70}
	if unsolved == 0 {
		v.Ratio = theirs / ours
	}
	return v
}

// Networks beside IPOPT have a row each, first, again and side by side, with how IPOPT ended; those without an optimum stand apart,
// and the means in the notes are those of the rows.
func TestNetworksBesideIPOPT(t *testing.T) {
	p := peerrecord.Record{Note: "How.", Commit: "abc", Ratios: []peerrecord.Ratio{
		row("a", peerrecord.OpFirst, 1, 2, 10, 0, 1), row("a", peerrecord.OpAgain, 1, 1, 9, 0, 1), row("a", peerrecord.OpAgain, 64, 0.5, 9, 0, 1),
		row("a", peerrecord.OpFactor, 1, 0.01, 0.02, 0, 0), row("a", peerrecord.OpFactor, 64, 0.005, 0.02, 0, 0),
		row("b", peerrecord.OpFirst, 1, 2, 5000, 1, 0),
		row("c", peerrecord.OpFirst, 1, 1, 20, 0, 0), row("c", peerrecord.OpAgain, 1, 0.5, 18, 0, 0), row("c", peerrecord.OpAgain, 16, 0.25, 18, 0, 0),
	}}
	require.OK(t, p.Check())
	r := report.New("here", known())
	report.Set(r, []peerrecord.Record{p, {Ratios: []peerrecord.Ratio{{Op: "other"}}}})
	text := part("networks of PGLib beside IPOPT")(devices{r})
	wants(t, text,
		"How. IPOPT 3 / ours in the geometric mean of the networks that both solve: first 10 (n = 2), again 18 (n = 2), side by side 36 (n = 2).",
		"| a | 2 | 10, at a lower cost | 5 | 1 | 9 | 9 | 0.5 | 18 | 0.12 |", "| c | 1 | 20 | 20 | 0.5 | 18 | 36 | 0.25 | 72 | 0.12 |",
		"Without an optimum, and in no mean:", "| b | 2 | 5e+03, no optimum |",
		"One numeric factorisation, MUMPS / ours in the geometric mean: 2 (n = 1) alone, 4 (n = 1) side by side.",
		"| a | 0.01 | 0.005 | 0.02 | 0.07 | 2 | 4 | 0.25, 0.25, 0.50 |")
	if strings.Contains(text, "Both have") || strings.Count(text, "| b |") != 1 {
		t.Errorf("a failure stands among the optima:\n%s", text)
	}
	report.Set(r, []peerrecord.Record{{Ratios: append(p.Ratios[:5:5], p.Ratios[6:]...)}})
	if text := part("networks of PGLib beside IPOPT")(devices{r}); !strings.Contains(text, "Both have an optimum of every network.") || strings.Contains(text, "in no mean") {
		t.Errorf("without a failure:\n%s", text)
	}
	if text := part("networks of PGLib beside IPOPT")(devices{report.New("none", known())}); text != noRecord {
		t.Errorf("without a record: %q", text)
	}
}

// README has the largest network, and of those beside IPOPT each that is much larger than the one above it; means are of all
// beside IPOPT that both solved.
func TestLargestFlowsStandBesideIPOPT(t *testing.T) {
	r := report.New("here", known())
	report.Set(r, []optima.OptimalFlows{{Networks: []optima.Network{
		testrecords.OptimalFlow("tiny", 100, 100, 20), testrecords.OptimalFlow("small", 100, 100, 20), testrecords.OptimalFlow("middle", 100, 100, 20), testrecords.OptimalFlow("large", 100, 100, 20)}}})
	networks := report.Of[optima.OptimalFlows](r)[0].Networks
	for i, buses := range []int{10, 100, 1000, 10000} {
		networks[i].Buses, networks[i].SetupMS = buses, 80
	}
	if text := (devices{r}).largestFlows(); strings.Contains(text, "the same machine") || !strings.Contains(text, "Of all 4 networks that were tried, 4 were solved") {
		t.Errorf("without IPOPT: %q", text)
	}
	report.Set(r, []peerrecord.Record{{Note: "How.", Commit: "abc", Ratios: []peerrecord.Ratio{
		row("small", peerrecord.OpFirst, 1, 500, 5000, 0, 0), row("small", peerrecord.OpAgain, 1, 100, 4000, 0, 0), row("small", peerrecord.OpAgain, 64, 50, 4000, 0, 0),
		row("middle", peerrecord.OpFirst, 1, 500, 9000, 1, 0),
	}}})
	text := devices{r}.largestFlows()
	wants(t, text, "IPOPT 3, first solve, the same machine, s |", "| `small` | 100 | +0.0e+00 | 20 | 0.5 | 5 | 4 |", "| `middle` | 1000 | +0.0e+00 | 20 | 0.5 | no optimum | 4 |", "| `large` | 10000 | +0.0e+00 | 20 | 0.1 | – | 4 |",
		"Of all 4 networks that were tried, 4 were solved", "On the [1 of 2 networks]", "IPOPT 3 takes 10 times the CPU time of `gpc` for a first solve, in the geometric mean.")
	if strings.Contains(text, "tiny") {
		t.Errorf("a network that was not solved beside IPOPT:\n%s", text)
	}
}

// Published times stand beside a first solve with its analysis, from the flat start; of networks that either has no optimum of there
// is no ratio.
func TestPublishedTimesStandBesideFirstSolves(t *testing.T) {
	solved, later, failed := testrecords.OptimalFlow("a", 100, 100, 20), testrecords.OptimalFlow("b", 100, 100, 20), optima.Network{Name: "c", Buses: 300, SetupMS: 1, WallMS: 1}
	solved.SetupMS, solved.WallMS = 300, 700
	later.SetupMS, later.WallMS, later.Buses = 500, 9000, 6000
	later.Starts = []optima.Start{{Objective: later.Objective, WallMS: 1500}, {WallMS: 7500}}
	r := &optima.OptimalFlows{Networks: []optima.Network{later, solved, failed}}
	flows, missing, err := publishedFlows("# source\nnetwork,w,x,y,z\na,2,0.5,4,8\nb,,32,1,2\nc,1,1,1,1\nd,1,1,1,1\n", r)
	require.OK(t, err)
	if missing != 2 || len(flows) != 2 || flows[0].network.Name != "a" || flows[0].ours != 1 || flows[1].ours != 2 {
		t.Fatalf("%d missing, %+v", missing, flows)
	}
	loose, tight := ratiosOf(flows, madnlpLoose), ratiosOf(flows, madnlpTight)
	if got, want := loose.sentence("It", "1e-4"), "At 1e-4 It takes 2 times as long as `gpc` in the geometric mean of the 1 networks that it solves; `gpc` is faster on 1; it has no optimum of `b`."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := tight.sentence("It", "1e-8"), "At 1e-8 It takes 2.83 times as long as `gpc` in the geometric mean of the 2 networks that it solves; `gpc` is faster on 1 and slower on `a`."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, text := range []string{"network,w,x,y,z\na,2,0.5,4,x\n", "network,w,x,y,z\na,2,0.5,4,-1\n", "network,w,x,y,z\na,2\n"} {
		if _, _, err := publishedFlows(text, r); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// Every published figure of a learned optimal power flow has a network of ours next to it, and says whose it is.
func TestPublishedLearnedFiguresStandBesideOurs(t *testing.T) {
	text := learnedElsewhere(last[optima.OptimalFlows](devices(recorded(t))))
	rows := strings.Count(text, "\n| ") - 1
	if rows != 10 || strings.Contains(text, "Inf") || strings.Contains(text, "| 0 |") || strings.Count(text, "arXiv")+strings.Count(text, "https://") < 4 {
		t.Errorf("%d rows:\n%s", rows, text)
	}
	if want := "| CANOS | its authors | [arXiv 2403.17660](https://arxiv.org/abs/2403.17660) |"; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}

// The published table is whole: every typical network of PGLib-OPF v23.07, of which MadNLP misses two to 1e-8 and IPOPT none.
func TestThePublishedTimesAreOfAllTypicalNetworks(t *testing.T) {
	r := last[optima.OptimalFlows](devices(recorded(t)))
	flows, missing, err := publishedFlows(madnlpTable, r)
	require.OK(t, err)
	if missing != 0 || len(flows) != 66 {
		t.Errorf("%d networks, %d without a record", len(flows), missing)
	}
	for column, want := range []int{0, 2, 0, 0} {
		if p := ratiosOf(flows, column); len(p.unsolved) != want {
			t.Errorf("column %d: no optimum of %v, want %d", column, p.unsolved, want)
		}
	}
}
