package publish

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/lab/report"
	"github.com/gpc-engine/gpc/paper/integrator"
	"github.com/gpc-engine/gpc/paper/multiagent/plan"
	"github.com/gpc-engine/gpc/paper/opf"
)

// What the table of constants does not read from the cases is what the code has.
func TestTypedConstantsAreTheCodes(t *testing.T) {
	tight := opf.DatasetTightening
	for _, k := range paperConstants {
		switch {
		case strings.HasPrefix(k.name, "η"):
			want := [families]string{
				fmt.Sprintf("ψ by %.4g; targets lifted outward by up to %g m/s²", integrator.DatasetClearance-1, integrator.LiftReach),
				fmt.Sprintf("%g m", plan.Default(false).Hard),
				fmt.Sprintf("V %g, Q %g, S %g pu", tight.VLoad, tight.Q, tight.S),
			}
			if k.typed != want {
				t.Errorf("%s is %q, the code has %q", k.name, k.typed, want)
			}
		case strings.HasPrefix(k.name, "base"):
			for family, names := range familyCases {
				for _, name := range names {
					checkBase(t, family, name)
				}
			}
		case k.typed != [families]string{}:
			t.Errorf("%s is typed, and held by nothing", k.name)
		}
	}
}

// checkBase holds what Base writes to the words for it.
func checkBase(t *testing.T, family int, name string) {
	t.Helper()
	c, ok := known()[name]
	if !ok {
		t.Fatalf("no case %s", name)
	}
	p := c.Definition.MapProblem()
	spec := p.Spec()
	s, ctx, base := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.PlanSize())
	switch family {
	case 0:
		ctx[0], ctx[1] = 0.7, -0.3
		if p.Base(s, ctx, base); base[0] != 0.7 || base[1] != -0.3 {
			t.Errorf("%s: the base is %v, want the previous action", name, base)
		}
	case 1:
		for i, v := range spec.Measured { // a view of a goal 4 m ahead, and nobody near
			switch v.Name {
			case "root_distance":
				s[i] = 2
			case "goal_cos", "way_cos":
				s[i] = 1
			}
		}
		for k, along := range []float64{1.2, 2.8, 4, 4} {
			for i, v := range spec.Context {
				if v.Name == fmt.Sprintf("way%d_x", k) {
					ctx[i] = along
				}
			}
		}
		p.Base(s, ctx, base)
		moves := false
		for _, v := range base {
			moves = moves || v != 0
		}
		if !moves {
			t.Errorf("%s: the base does not go anywhere", name)
		}
	case 2:
		p.Base(s, ctx, base)
		for i, v := range base[len(base)/2:] {
			if v != 1 {
				t.Errorf("%s: the base's V_G %d is %v, want 1 pu", name, i, v)
			}
		}
	}
}

// Every constant has ours in each family, and either a run with the paper's value or the reason why
// there is none.
func TestEveryConstantHasOursAndARunOrAReason(t *testing.T) {
	r := report.New("machine", known())
	for i := range paperConstants {
		k := &paperConstants[i]
		for family := range families {
			if k.oursIn(devices{r}, family) == "–" {
				t.Errorf("%s: no value in the paper's family %d", k.name, family+1)
			}
		}
		if runs := k.replaced != "" || k.with != ""; runs == (k.notRun != "") {
			t.Errorf("%s: replaced by %q, with map %q, reason %q: want a run or a reason", k.name, k.replaced, k.with, k.notRun)
		}
	}
	table := devices{r}.constants()
	for _, want := range []string{"| 0.05 |", "| 0.3 | 1 | 1 |", "| 227 656 / 465 176 |", "50, mixed: 25 of a lattice, 25 logarithmic"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
}

// Runs with the paper's constants, maps with them, and runs without the projection stand in their
// tables and in no other.
func TestReplacedConstantsAndProjections(t *testing.T) {
	nan := closedloop.Number(math.NaN())
	none := closedloop.Latency{Quantiles: closedloop.Quantiles{P50: nan, P95: nan, P99: nan}}
	cost := closedloop.RegretStatistics{N: 20, Mean: 0.5, MeanCI95: closedloop.OpenInterval{0.25, 0.75}, Median: 0.125}
	pair := func(file string, pairs ...closedloop.Paired) closedloop.Pairing {
		for i := range pairs {
			pairs[i].Latency, pairs[i].Episodes, pairs[i].Safe = none, 20, 20-i
		}
		return closedloop.Pairing{Case: "opf30", Seed: 3, Commit: "c", Regime: "envelope", Map: closedloop.PairedMap{File: file, Samples: 12345}, Pairs: pairs}
	}
	r := report.New("machine", known())
	report.Set(r, []closedloop.Pairing{
		pair("", closedloop.Paired{Method: "navigator"}, closedloop.Paired{Method: "navigator", Constants: map[string]float64{"epsilon": 0.05}, Cost: cost}, closedloop.Paired{Method: "navigator", Constants: map[string]float64{"epsilon": 0.01}, Cost: cost}),
		pair("opf30-uniform", closedloop.Paired{Method: "navigator", ModelSHA256: "aa"}, closedloop.Paired{Method: "navigator", ModelSHA256: "bb", Cost: cost}),
		pair("opf30-inward", closedloop.Paired{Method: "navigator", ModelSHA256: "0123456789abcdef", Decisions: 400}, closedloop.Paired{Method: "navigator-no-projection", ModelSHA256: "0123456789abcdef", Decisions: 400, Violations: 7, MarginMin: -0.02, RegretPct: nan}),
	})
	d := devices{r}
	replaced, without := d.replacedConstants(), d.projections()
	for _, want := range []string{"| ε of the energy = 0.05 | 20/20 | 19/20 | +0.5000 [+0.2500, +0.7500] | +0.1250 | 20 |", "map `opf30-uniform` | 20/20 | 19/20 |"} {
		if !strings.Contains(replaced, want) {
			t.Errorf("no %q in\n%s", want, replaced)
		}
	}
	if strings.Contains(replaced, "0.01") || strings.Contains(replaced, "projection") {
		t.Errorf("a value that is not the paper's, or a projection, in\n%s", replaced)
	}
	if want := "| opf30 | `opf30-inward` | 12 345 | `0123456789ab` | `navigator-no-projection` | 19/20 | 7 of 400 | -0.02 | – | 0 |"; !strings.Contains(without, want) || strings.Contains(without, "uniform") {
		t.Errorf("no %q, or more, in\n%s", want, without)
	}
	if got := d.quality(); strings.Contains(got, "opf30") {
		t.Errorf("the table of searches has them:\n%s", got)
	}
}
