package publish

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/compile"
)

// compiled are the maps of all devices, each case's on its first, the systems that other
// solvers are timed on before others.
func (d devices) compiled() string {
	names := d.systems()
	var all []compile.Report
	for _, r := range d {
		for _, name := range r.CompiledCases() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		all = append(all, r.Compilations...)
	}
	return report.Tables(report.Compilations(all, names))
}

// rounds are those of a case's compilation, with the reason of each.
func (d devices) rounds(name string) string {
	s := report.Section{Rows: [][]string{{"round", "why", "scenarios (near the worst)", "samples", "epochs", "own starts, mean %", "held-out, mean %", "p90 %", "max %", "confirmed: mean, p90, max %", "s"}}}
	for _, r := range d {
		i := slices.IndexFunc(r.Compilations, func(c compile.Report) bool { return c.Case == name })
		if i < 0 {
			continue
		}
		c := &r.Compilations[i]
		for _, round := range c.Rounds {
			confirmed, seconds := "–", "–"
			if m := round.Confirmed; m != nil {
				confirmed = m.Mean.Text("%.3g") + ", " + m.P90.Text("%.3g") + ", " + m.Max.Text("%.3g")
			}
			if !report.Spoilt(c.Load) {
				seconds = fmt.Sprintf("%.0f", round.Seconds.Solve+round.Seconds.Train+round.Seconds.Evaluate)
			}
			s.Rows = append(s.Rows, []string{
				string(round.Kind), round.Why, fmt.Sprintf("%d (%d)", round.Scenarios, round.Focused), fmt.Sprint(round.Samples), fmt.Sprint(round.Epochs), round.Training.Mean.Text("%.3g"),
				round.HeldOut.Mean.Text("%.3g"), round.HeldOut.P90.Text("%.3g"), round.HeldOut.Max.Text("%.3g"), confirmed, seconds,
			})
		}
		s.Note, s.Provenance = fmt.Sprintf("Rounds ended: %s.", c.Ended), report.Origin("", c.Commit, c.Device, c.Load)
		return report.Tables(s)
	}
	return noRecord
}

// besideCompiled is the same for the systems that other solvers are timed on.
func (d devices) besideCompiled() string {
	var all []closedloop.Pairing
	for _, r := range d {
		all = append(all, r.ForeignPairings(report.Undisturbed)...)
	}
	return report.Tables(report.BesideMaps(all, d.systems()))
}

// latentSteps is what localization, flow and retraction do in those systems.
func (d devices) latentSteps() string {
	var all []closedloop.Pairing
	for _, r := range d {
		all = append(all, r.ForeignPairings(report.InParts)...)
	}
	return report.Tables(report.BesideMaps(all, d.systems()))
}

// underNoise is the same where the measured state is noisy.
func (d devices) underNoise() string {
	var all []closedloop.Pairing
	for _, r := range d {
		all = append(all, r.ForeignPairings(func(p *closedloop.Pairing) bool { return len(p.Shift) == 0 && p.Bias == 0 && p.Noise > 0 })...)
	}
	s := report.BesideMaps(all, nil)
	if len(all) == 0 {
		return noRecord
	}
	s.Note = strings.TrimSpace(fmt.Sprintf("Noise of %g, in units of each state's scale. ", all[0].Noise) + s.Note)
	return report.Tables(s)
}
