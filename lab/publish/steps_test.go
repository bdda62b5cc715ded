package publish

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/report"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/paper/integrator"
)

// A pairing of steps stands in its own table with each part beside the whole of the same Δt, and not among the paper's constants.
func TestStepsStandBesideTheWholeOfTheirSize(t *testing.T) {
	at := func(more map[string]float64) map[string]float64 {
		all := map[string]float64{latentStep: 5}
		for name, v := range more {
			all[name] = v
		}
		return all
	}
	cost := func(mean float64) closedloop.RegretStatistics {
		return closedloop.RegretStatistics{N: 30, Mean: closedloop.Number(mean), MeanCI95: closedloop.OpenInterval{closedloop.Number(mean - 1), closedloop.Number(mean + 1)}}
	}
	r := report.New("machine", known())
	report.Set(r, []closedloop.Pairing{{Case: "integrator-convex", Noise: 0.02, Commit: "c", Pairs: []closedloop.Paired{
		{Method: "navigator", Episodes: 40, Safe: 31, Constants: at(nil)}, {Method: "direct", Episodes: 40, Safe: 38},
		{Method: "navigator", Episodes: 40, Safe: 32, Constants: at(map[string]float64{"lie-gain": 0}), Cost: cost(1)},
		{Method: "navigator", Episodes: 40, Safe: 33, Constants: at(map[string]float64{"lie-gain": 60}), Cost: cost(3)},
		{Method: "navigator", Episodes: 40, Safe: 34, Constants: at(map[string]float64{"lie-gain": 6}), Cost: cost(2)},
	}}})
	d := devices{r}
	table := d.steps()
	for _, want := range []string{
		"| integrator-convex | 0.02 | `direct` | 38/40, [0.0, 0.0] % |",
		"| 5 | 31/40, [0.0, 0.0] % | 0.000 ± 0.000, 0 | 32/40; +1.0000 [+0.0000, +2.0000], n 30 | 34/40; +2.0000 [+1.0000, +3.0000], n 30 | 33/40; +3.0000 [+2.0000, +4.0000], n 30 | – | – | – |",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if other := d.replacedConstants(); strings.Contains(other, "integrator-convex") {
		t.Errorf("among the paper's constants:\n%s", other)
	}
}

// steps is the record of lab/scripts/steps.sh of a case, with one Δt and noise.
func (r records) steps(name string, dt, noise float64) *closedloop.Pairing {
	r.t.Helper()
	p := new(closedloop.Pairing)
	require.OK(r.t, json.Unmarshal([]byte(raw(r.t, fmt.Sprintf("lab/results/epyc-2-cores/%s-step-%g-noise-%g.json", name, dt, noise))), p))
	return p
}

// What the page on decisions says of the online step are figures of records; those of cases.md stand with its others.
func TestTheOnlineStepsSentencesAreRecords(t *testing.T) {
	aboutTheStep(claimsOf(t, "docs/explain/decision.md"), records{t, recorded(t)})
}

// aboutTheStep holds what decision.md says of the step.
func aboutTheStep(c *claims, r records) {
	c.t.Helper()
	const ours = "BenchmarkLatentStep/integrator-convex/noise_0/step_0.005"
	var capped []float64
	for _, d := range r.all {
		for _, b := range report.Of[peerrecord.Benchmarked](d) {
			for _, m := range b.Benchmarks {
				if share, is := m.Metrics["capped"]; is {
					capped = append(capped, 100*share)
				}
			}
		}
	}
	c.says("%s %% of steps are at the cap", ranging("%.0f", capped))
	c.says("Its median is %.1f · 10⁻⁹ at our Δt of `integrator-convex`, and a unit of float32 at z is %.0f · 10⁻⁹", r.printed(ours, "residual_nano"), r.printed(ours, "float32_unit_nano"))
	c.says("To move the decoded action by a thousandth of its range γ_L needs to be %.0f 000 at our Δt and %.2f at the paper's",
		r.printed(ours, "gain_0.1_%")/1000, r.printed("BenchmarkLatentStep/integrator-convex/noise_0/step_5", "gain_0.1_%"))
	var weighed []float64
	for _, name := range []string{"integrator-convex", "integrator-nonconvex"} {
		for _, noise := range []float64{0, 0.02} {
			weighed = append(weighed, float64(replacedIn(r.steps(name, 0.005, noise), "raw-weights", 1).Cost.Mean))
		}
	}
	c.says("changes the cost by %s %% at our Δt of Case 1, with and without noise.", ranging("%+.3f", weighed))
	var long []any
	for _, dt := range []float64{0.5, 5} {
		for _, name := range []string{"integrator-convex", "integrator-nonconvex"} {
			long = append(long, float64(replacedIn(r.steps(name, dt, 0), "raw-weights", 1).Cost.Mean))
		}
	}
	c.says("Without noise and at a hundred times our Δt σ alone costs %.1f and %.1f %% more in the convex and the nonconvex case. At the paper's Δt it is %+.0f and %+.0f %%", long...)
	var ranges []float64
	for _, name := range []string{"integrator-convex", "integrator-nonconvex"} {
		cases := paper.Cases()
		calibration := require.Get(require.Get(cases.Find(name))(c.t).Model(""))(c.t).Calibration
		for i, nadir := range calibration.ObjectiveNadir {
			ranges = append(ranges, nadir-calibration.ObjectiveIdeal[i])
		}
	}
	c.says("is %s times as heavy beside the snap to the measurement", ranging("%.0f", ranges))
	var steered []any
	for _, file := range []string{"integrator-convex-steer-direct", "integrator-convex-steer", "integrator-nonconvex-steer-direct", "integrator-nonconvex-steer"} {
		var front closedloop.Steering
		require.OK(c.t, json.Unmarshal([]byte(raw(c.t, "lab/results/epyc-2-cores/"+file+".json")), &front))
		steered = append(steered, float64(front.MeanRegretPct))
	}
	c.says("Over 21 weightings `direct` costs %.4f %% above the exact front of `integrator-convex` and Algorithm 2 %.4f %%. Of `integrator-nonconvex` it is %.4f and %.4f %%", steered...)
}

// aboutTheParts holds what cases.md says of the parts of the method.
func aboutTheParts(c *claims, r records) {
	c.t.Helper()
	var above []any
	for _, dt := range []float64{0.005, 0.05, 0.5, 5} {
		above = append(above, float64(r.steps("integrator-convex", dt, 0).Pairs[0].RegretPct))
	}
	c.says("Algorithm 2 costs %.3f %% above the optimum of `integrator-convex` at our Δt, and %.3f, %.1f and %.0f %% at ten, a hundred and a thousand times of it", above...)
	var turned []float64
	unsure := 0
	for _, name := range []string{"integrator-convex", "integrator-nonconvex"} {
		for _, dt := range []float64{0.005, 0.05, 0.5, 5} {
			p := r.steps(name, dt, 0)
			m := replacedIn(p, "lie-gain", gainsIn(p)[1]).Cost
			if turned = append(turned, float64(m.Mean)); m.MeanCI95[0] < 0 {
				unsure++
			}
			if m = replacedIn(p, "lie-gain", 0).Cost; float64(m.MeanCI95[0]) > 1e-4 || float64(m.MeanCI95[1]) < -1e-4 {
				c.t.Errorf("%s, Δt %v: without the Lie residual episodes cost %v %%: the page says that nothing was found", name, dt, m.MeanCI95)
			}
		}
	}
	c.says("moves the action by a hundredth of its range, episodes cost %s %% more (%d of %d intervals holds 0)", ranging("%.2f", turned), unsure, len(turned))
	loose, other := replacedIn(r.steps("integrator-convex", 5, 0), "retraction", 0).Cost, replacedIn(r.steps("integrator-nonconvex", 5, 0), "retraction", 0).Cost
	c.says("without it episodes cost %.1f %s and %.1f %s %% more", float64(loose.Mean), report.Interval("%.1f", loose.MeanCI95), float64(other.Mean), report.Interval("%.1f", other.MeanCI95))
	var dispatched float64
	for _, dt := range []float64{0.002, 0.02, 0.2, 5} {
		for _, m := range r.steps("opf30", dt, 0).Pairs[1:] {
			if len(m.Constants) > 0 {
				dispatched = max(dispatched, math.Abs(float64(m.Cost.Mean)))
			}
		}
	}
	c.says("In `opf30` no part changes the cost by more than %.3f %% at any length", dispatched)
	for _, name := range []string{"integrator-convex", "integrator-nonconvex"} {
		p := r.steps(name, 0.005, 0.02)
		c.says("In `%s` Algorithm 2 is safe in %d of 200 episodes, `direct` in %d, the exact solver in %d, and Algorithm 2 without its smoothing in %d.",
			name, p.Pairs[0].Safe, pairedMethod(p, "direct").Safe, pairedMethod(p, "nmpc").Safe, replacedIn(p, "smoothing", 1).Safe)
	}
	convex, nonconvex := &r.steps("integrator-convex", 5, 0.02).Pairs[0], &r.steps("integrator-nonconvex", 5, 0.02).Pairs[0]
	c.says("With the paper's Δt it is safe in %d and %d, at %.0f and %.0f %% above the optimum.", convex.Safe, nonconvex.Safe, float64(convex.RegretPct), float64(nonconvex.RegretPct))
	one, two := ablated(c.t, "integrator-convex", "–"), ablated(c.t, "integrator-nonconvex", "–")
	c.says("Without it episodes of Case 1 cost %.1f and %.1f %% more", one, two)
	var dispatch []float64
	for _, name := range []string{"opf30", "opf30-uncertain"} {
		for _, loads := range []string{"envelope", "paper", "swing"} {
			dispatch = append(dispatch, ablated(c.t, name, loads))
		}
	}
	c.says("and of the dispatch %s %% more; among robots nothing was found", ranging("%.2f", dispatch))
}

// ablated is a cell of the generated table of ablations: what the adaptive priority is worth, %.
func ablated(t *testing.T, name, loads string) float64 {
	t.Helper()
	row := "| " + name + " | " + loads + " | `navigator-no-semantic` |"
	for line := range strings.Lines(raw(t, paperPage)) {
		if cells, is := strings.CutPrefix(line, row); is {
			figure, _, _ := strings.Cut(strings.TrimSpace(strings.Split(cells, "|")[1]), " ")
			return require.Get(strconv.ParseFloat(figure, 64))(t)
		}
	}
	t.Fatalf("no row %q", row)
	return 0
}

// aboutTheEllipse holds what cases.md says of the limit of Case 1.
func aboutTheEllipse(c *claims, r records) {
	c.t.Helper()
	least := math.Inf(1)
	var above []any
	for _, name := range []string{"integrator-convex", "integrator-nonconvex"} {
		of := "BenchmarkObstacleAge/" + name + "/"
		c.says("in %.0f of %.0f safe episodes of `direct` in `%s`", r.printed(of+"direct", "inside"), r.printed(of+"direct", "safe"), name)
		for _, method := range []string{"direct", "navigator", "nmpc"} {
			least = min(least, r.printed(of+method, "least_psi"))
			if safe, all := r.printed(of+method, "safe_later"), r.printed(of+method, "episodes"); safe != all {
				c.t.Errorf("%s%s: %v of %v episodes are safe with the ellipse of t + 1", of, method, safe, all)
			}
		}
		above = append(above, float64(r.paired(name+"-obstacle-age-0.json", "direct").RegretPct))
	}
	c.says("`direct` costs %.1f and %.1f %% above its optimum", above...)
	c.says("ψ is at least %.2f there", math.Floor(100*least)/100)
	p := integrator.Default(false)
	c.says("up to %.3f m", p.Dt*p.Ellipse.Rho[1]*0.14) // the fastest ṗ of the test box
}
