package publish

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/lab/certificate"
	"github.com/gpc-engine/gpc/lab/report"
	"github.com/gpc-engine/gpc/model"
)

// The head of the page on guarantees says of the certificates what the records hold.
func TestGuaranteesAreThoseOfTheCertificates(t *testing.T) {
	text := unwrapped(t, "docs/explain/guarantees.md")
	says := func(sentence string) {
		t.Helper()
		if !strings.Contains(text, sentence) {
			t.Errorf("docs/explain/guarantees.md does not say %q", sentence)
		}
	}
	says("No map fulfils all conditions.")
	says("On the other four maps γ_min is negative, and the projection keeps the limits.")
	says("The *drift* rows hold in no case.")
	says("In Case 2 positive margin and feasible step hold at held-out samples of one robot's view, and the loop breaks margins all the same.")
	says("*identifiability*, in Cases 1 and 2.")
	sigma := map[string]string{}
	for _, c := range devices(recorded(t)).certified() {
		k, robots := c.Certificate, strings.HasPrefix(c.Certificate.Case, "multiagent-")
		if k.Verdicts()[certificate.Holds] == len(k.Conditions) {
			t.Errorf("%s has all conditions", k.Case)
		}
		if negative := k.Constants.GammaMin < 0; negative == robots {
			t.Errorf("%s: γ_min is %v", k.Case, k.Constants.GammaMin)
		}
		if breaks := k.Measured != nil && k.Measured.Violations > 0; breaks != robots {
			t.Errorf("%s: the loop breaks a margin: %v", k.Case, breaks)
		}
		for _, condition := range k.Conditions {
			holds := condition.Verdict == certificate.Holds
			switch name := condition.Name; {
			case strings.HasPrefix(name, "drift") && holds,
				name == "identifiability" && holds != strings.HasPrefix(k.Case, "opf30"),
				(name == "positive margin" || name == "feasible step") && holds != robots:
				t.Errorf("%s: %s: %v", k.Case, name, condition.Verdict)
			}
		}
		if sigma[k.Case] = fmt.Sprintf("%.3f", float64(k.Constants.Sigma0)); !strings.HasPrefix(k.Case, "opf30") && k.Constants.Sigma0 != 0 {
			t.Errorf("%s: σ_0 is %v", k.Case, k.Constants.Sigma0)
		}
	}
	if len(sigma) != 6 {
		t.Fatalf("%d certificates", len(sigma))
	}
	says(fmt.Sprintf("σ_0 is %s and %s.", sigma["opf30"], sigma["opf30-uncertain"]))
}

// The page on when not to use a map says what was measured: 64 roll-outs recover most of what a map of little data loses, a
// map costs more on a plant that it was not made for, and a layer has as many inputs as the page says.
func TestWhenNotToUseAMapIsMeasured(t *testing.T) {
	text := unwrapped(t, "docs/explain/when.md")
	for _, sentence := range []string{
		"64 roll-outs recover most of the loss", "On another plant its cost rises", fmt.Sprintf("A layer has at most %d inputs", model.MaxWidth),
		"The [paper's conditions](guarantees.md) do not all hold on any bundled map.",
	} {
		if !strings.Contains(text, sentence) {
			t.Errorf("docs/explain/when.md does not say %q", sentence)
		}
	}
	small, elsewhere := 0, 0
	own := map[string]float64{}
	for _, r := range report.RunsOf(recorded(t), (*report.Records).PairedCases) {
		for _, p := range plainest(r) {
			direct, search := pairedMethod(&p, "direct"), pairedMethod(&p, "refine-64")
			if direct == nil || search == nil {
				continue
			}
			if p.Map.File == "" {
				own[p.Case] = float64(direct.RegretPct)
			} else if small++; !(search.RegretPct < direct.RegretPct/2) {
				t.Errorf("%s, %d samples: 64 roll-outs cost %v, the map %v", p.Case, p.Map.Samples, search.RegretPct, direct.RegretPct)
			}
		}
	}
	for _, r := range report.RunsOf(recorded(t), (*report.Records).PairedCases) {
		for _, p := range report.Of[closedloop.Pairing](r.Records) {
			if direct := pairedMethod(&p, "direct"); len(p.Shift) == 1 && p.Shift["ellipse"] == 1.1 && p.Map.File == "" && direct != nil {
				if elsewhere++; !(float64(direct.RegretPct) > own[p.Case]) {
					t.Errorf("%s on another plant costs %v, on its own %v", p.Case, direct.RegretPct, own[p.Case])
				}
			}
		}
	}
	if small < 3 || elsewhere < 1 {
		t.Errorf("%d small maps, %d other plants", small, elsewhere)
	}
}
