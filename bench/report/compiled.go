package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/compile"
)

// checkCompilation refuses a record that the tables cannot index.
func checkCompilation(c *compile.Report) error {
	if c.Case == "" || c.Best < 0 || c.Best >= len(c.Rounds) {
		return fmt.Errorf("a compilation of case %q whose map is of round %d of %d", c.Case, c.Best, len(c.Rounds))
	}
	return nil
}

// compilationSections are a table of every map that was compiled, one of methods on the same
// episodes for the cases that the program does not have, as those of the gallery, and one of
// the latent step's parts there.
func (r *Records) compilationSections() (out []section) {
	if names := r.compiledCases(); len(names) > 0 {
		s := compilations(r.Compilations, names)
		s.title = "Maps compiled from equations"
		out = append(out, s)
	}
	if s := besideMaps(r.foreignPairings(undisturbed), nil); len(s.rows) > 1 {
		s.title = "Methods beside compiled maps"
		out = append(out, s)
	}
	if s := besideMaps(r.foreignPairings(inParts), nil); len(s.rows) > 1 {
		s.title = "The latent step on compiled maps"
		out = append(out, s)
	}
	return out
}

// compiledCases are those of the compilations, by name.
func (r *Records) compiledCases() (names []string) {
	for _, c := range r.Compilations {
		names = append(names, c.Case)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// loud is how many CPUs others may have while one loop is timed; beyond it the times are not
// the loop's own.
const loud = 0.25

// spoilt tells whether a load that is known was too much to time beside.
func spoilt(l *closedloop.Load) bool { return l != nil && l.Others+l.Stolen > loud }

// compilations is what maps reach from the starts that no decision has looked at: the first of
// every name, and which of them there is none of.
func compilations(all []compile.Report, names []string) section {
	s := section{rows: [][]string{{"case", "test by", "unsafe", "of these no way", "mean %", "p90 %", "max %", "no optimum", "rescued %", "p50 / p99, µs", "target %", "met", "scenarios, samples", "minutes", "held-out mean %, by method"}}}
	var on []*closedloop.Load
	var commits, devices, busy, missed []string
	for _, name := range names {
		i := slices.IndexFunc(all, func(c compile.Report) bool { return c.Case == name })
		if i < 0 {
			s.absent = append(s.absent, "`"+name+"`")
			continue
		}
		c, scenarios := &all[i], 0
		for _, round := range c.Rounds[:c.Best+1] {
			scenarios += round.Scenarios
		}
		t := &c.Test
		times, minutes, met := t.P50.Text("%.3g")+" / "+t.P99.Text("%.3g"), fmt.Sprintf("%.0f", c.Seconds/60), "yes"
		timed := cmp.Or(c.TimesLoad, c.Load)
		if spoilt(timed) {
			times = "–"
			busy = append(busy, fmt.Sprintf("`%s` (others had %.2f CPUs)", name, timed.Others+timed.Stolen))
		} else {
			on = append(on, timed)
		}
		if spoilt(c.Load) {
			minutes = "–"
		}
		if !c.Met {
			met = "no"
			missed = append(missed, fmt.Sprintf(" What would help `%s`: %s.", name, c.Advice))
		}
		var choice []string
		for _, m := range c.Choice {
			choice = append(choice, fmt.Sprintf("`%s` %s", m.Method, m.Mean.Text("%.3g")))
		}
		s.rows = append(s.rows, []string{
			"`" + name + "`", "`" + t.Method + "`", fmt.Sprintf("%d of %d", t.Unsafe, t.Episodes), fmt.Sprint(t.NoWay),
			t.Mean.Text("%.3g"), t.P90.Text("%.3g"), t.Max.Text("%.3g"), fmt.Sprint(t.Unsolved), t.Rescued.Text("%.2g"),
			times, fmt.Sprintf("%g", c.Target.Mean), met, fmt.Sprintf("%d, %d", scenarios, c.Rounds[c.Best].Samples), minutes, strings.Join(choice, ", "),
		})
		commits, devices = append(commits, c.Commit), append(devices, c.Device)
	}
	if len(commits) > 0 {
		s.provenance = origin("", distinct(commits), distinct(devices), on...)
	}
	if len(busy) > 0 {
		s.note = "Times taken beside other work are left out: " + strings.Join(busy, ", ") + "."
	}
	s.note = strings.TrimSpace(s.note + strings.Join(missed, ""))
	return s
}

// compiled are the maps of all devices, each case's on its first, the systems that other
// solvers are timed on before others.
func (d devices) compiled() string {
	names := d.systems()
	var all []compile.Report
	for _, r := range d {
		for _, name := range r.compiledCases() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		all = append(all, r.Compilations...)
	}
	return tables(compilations(all, names))
}

// rounds are those of a case's compilation, with the reason of each.
func (d devices) rounds(name string) string {
	s := section{rows: [][]string{{"round", "why", "scenarios (near the worst)", "samples", "epochs", "own starts, mean %", "held-out, mean %", "p90 %", "max %", "confirmed: mean, p90, max %", "s"}}}
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
			if !spoilt(c.Load) {
				seconds = fmt.Sprintf("%.0f", round.Seconds.Solve+round.Seconds.Train+round.Seconds.Evaluate)
			}
			s.rows = append(s.rows, []string{
				string(round.Kind), round.Why, fmt.Sprintf("%d (%d)", round.Scenarios, round.Focused), fmt.Sprint(round.Samples), fmt.Sprint(round.Epochs), round.Training.Mean.Text("%.3g"),
				round.HeldOut.Mean.Text("%.3g"), round.HeldOut.P90.Text("%.3g"), round.HeldOut.Max.Text("%.3g"), confirmed, seconds,
			})
		}
		s.note, s.provenance = fmt.Sprintf("Rounds ended: %s.", c.Ended), origin("", c.Commit, c.Device, c.Load)
		return tables(s)
	}
	return noRecord
}

// foreignPairings are those wanted of cases that the program does not have, on drawn scenes.
func (r *Records) foreignPairings(wanted func(p *closedloop.Pairing) bool) (out []closedloop.Pairing) {
	known := r.knownPaired()
	for _, name := range r.pairedCases() {
		if !slices.Contains(known, name) {
			out = append(out, r.paired(name, wanted)...)
		}
	}
	return out
}

// besideMaps is methods on the same episodes, case by case; names are those of which there
// has to be a row, in the order of the table.
func besideMaps(all []closedloop.Pairing, names []string) section {
	s := section{rows: [][]string{{"case", "method", "safe", "regret % ± 95 %", "median", "p90", "worst", "less the first's ± 95 %", "n", "replaced %", "p50 / p99, ms", "between decisions, ms"}}}
	var shown []closedloop.Pairing
	show := func(p closedloop.Pairing) {
		shown = append(shown, p)
		for i, m := range p.Pairs {
			row, between := pairedRow([]string{"`" + p.Case + "`"}, i, &m), "–"
			if m.Prepare != nil {
				between = number("%.3f", float64(m.Prepare.P50)/1e3) + " / " + number("%.3f", float64(m.Prepare.P99)/1e3)
			}
			if spoilt(p.Load) {
				row[len(row)-1], between = "–", "–"
			}
			s.rows = append(s.rows, append(slices.Insert(row, len(row)-1, replaced(&m)), between))
		}
	}
	for _, name := range names {
		if i := slices.IndexFunc(all, func(p closedloop.Pairing) bool { return p.Case == name }); i >= 0 {
			show(all[i])
		} else {
			s.absent = append(s.absent, "`"+name+"`")
		}
	}
	for _, p := range all {
		if !slices.Contains(names, p.Case) {
			show(p)
		}
	}
	if len(shown) > 0 {
		s.provenance = recordedBy(shown)
	}
	return s
}

// replaced is the share of decisions in which a guard had something else executed than the method's
// own action.
func replaced(m *closedloop.Paired) string {
	if m.Guard == nil || m.Decisions == 0 {
		return "–"
	}
	return number("%.1f", 100*float64(m.Fallback)/float64(m.Decisions))
}

// besideCompiled is the same for the systems that other solvers are timed on.
func (d devices) besideCompiled() string {
	var all []closedloop.Pairing
	for _, r := range d {
		all = append(all, r.foreignPairings(undisturbed)...)
	}
	return tables(besideMaps(all, d.systems()))
}

// inParts are pairings with a method beside itself without a part.
func inParts(p *closedloop.Pairing) bool { return undisturbedPlant(p) && ablates(p) }

// latentSteps is what localization, flow and retraction do in those systems.
func (d devices) latentSteps() string {
	var all []closedloop.Pairing
	for _, r := range d {
		all = append(all, r.foreignPairings(inParts)...)
	}
	return tables(besideMaps(all, d.systems()))
}

// underNoise is the same where the measured state is noisy.
func (d devices) underNoise() string {
	var all []closedloop.Pairing
	for _, r := range d {
		all = append(all, r.foreignPairings(func(p *closedloop.Pairing) bool { return len(p.Shift) == 0 && p.Bias == 0 && p.Noise > 0 })...)
	}
	s := besideMaps(all, nil)
	if len(all) == 0 {
		return noRecord
	}
	s.note = strings.TrimSpace(fmt.Sprintf("Noise of %g, in units of each state's scale. ", all[0].Noise) + s.note)
	return tables(s)
}
