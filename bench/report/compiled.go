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
func (r *Records) compilationSections() (out []Section) {
	if names := r.CompiledCases(); len(names) > 0 {
		s := Compilations(r.Compilations, names)
		s.title = "Maps compiled from equations"
		out = append(out, s)
	}
	if s := BesideMaps(r.ForeignPairings(Undisturbed), nil); len(s.Rows) > 1 {
		s.title = "Methods beside compiled maps"
		out = append(out, s)
	}
	if s := BesideMaps(r.ForeignPairings(InParts), nil); len(s.Rows) > 1 {
		s.title = "The latent step on compiled maps"
		out = append(out, s)
	}
	return out
}

// CompiledCases are those of the compilations, by name.
func (r *Records) CompiledCases() (names []string) {
	for _, c := range r.Compilations {
		names = append(names, c.Case)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// loud is how many CPUs others may have while one loop is timed; beyond it the times are not
// the loop's own.
const loud = 0.25

// Spoilt tells whether a load that is known was too much to time beside.
func Spoilt(l *closedloop.Load) bool { return l != nil && l.Others+l.Stolen > loud }

// Compilations is what maps reach from the starts that no decision has looked at: the first of
// every name, and which of them there is none of.
func Compilations(all []compile.Report, names []string) Section {
	s := Section{Rows: [][]string{{"case", "test by", "unsafe", "of these no way", "mean %", "p90 %", "max %", "no optimum", "rescued %", "p50 / p99, µs", "target %", "met", "scenarios, samples", "minutes", "held-out mean %, by method"}}}
	var on []*closedloop.Load
	var commits, devices, busy, missed []string
	for _, name := range names {
		i := slices.IndexFunc(all, func(c compile.Report) bool { return c.Case == name })
		if i < 0 {
			s.Absent = append(s.Absent, "`"+name+"`")
			continue
		}
		c, scenarios := &all[i], 0
		for _, round := range c.Rounds[:c.Best+1] {
			scenarios += round.Scenarios
		}
		t := &c.Test
		times, minutes, met := t.P50.Text("%.3g")+" / "+t.P99.Text("%.3g"), fmt.Sprintf("%.0f", c.Seconds/60), "yes"
		timed := cmp.Or(c.TimesLoad, c.Load)
		if Spoilt(timed) {
			times = "–"
			busy = append(busy, fmt.Sprintf("`%s` (others had %.2f CPUs)", name, timed.Others+timed.Stolen))
		} else {
			on = append(on, timed)
		}
		if Spoilt(c.Load) {
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
		s.Rows = append(s.Rows, []string{
			"`" + name + "`", "`" + t.Method + "`", fmt.Sprintf("%d of %d", t.Unsafe, t.Episodes), fmt.Sprint(t.NoWay),
			t.Mean.Text("%.3g"), t.P90.Text("%.3g"), t.Max.Text("%.3g"), fmt.Sprint(t.Unsolved), t.Rescued.Text("%.2g"),
			times, fmt.Sprintf("%g", c.Target.Mean), met, fmt.Sprintf("%d, %d", scenarios, c.Rounds[c.Best].Samples), minutes, strings.Join(choice, ", "),
		})
		commits, devices = append(commits, c.Commit), append(devices, c.Device)
	}
	if len(commits) > 0 {
		s.Provenance = Origin("", Distinct(commits), Distinct(devices), on...)
	}
	if len(busy) > 0 {
		s.Note = "Times taken beside other work are left out: " + strings.Join(busy, ", ") + "."
	}
	s.Note = strings.TrimSpace(s.Note + strings.Join(missed, ""))
	return s
}

// ForeignPairings are those wanted of cases that the program does not have, on drawn scenes.
func (r *Records) ForeignPairings(wanted func(p *closedloop.Pairing) bool) (out []closedloop.Pairing) {
	known := r.PairedCases()
	for _, name := range r.pairedCases() {
		if !slices.Contains(known, name) {
			out = append(out, r.PairingsWhere(name, wanted)...)
		}
	}
	return out
}

// BesideMaps is methods on the same episodes, case by case; names are those of which there
// has to be a row, in the order of the table.
func BesideMaps(all []closedloop.Pairing, names []string) Section {
	s := Section{Rows: [][]string{{"case", "method", "safe", "regret % ± 95 %", "median", "p90", "worst", "less the first's ± 95 %", "n", "replaced %", "p50 / p99, ms", "between decisions, ms"}}}
	var shown []closedloop.Pairing
	show := func(p closedloop.Pairing) {
		shown = append(shown, p)
		for i, m := range p.Pairs {
			row, between := PairedRow([]string{"`" + p.Case + "`"}, i, &m), "–"
			if m.Prepare != nil {
				between = Number("%.3f", float64(m.Prepare.P50)/1e3) + " / " + Number("%.3f", float64(m.Prepare.P99)/1e3)
			}
			if Spoilt(p.Load) {
				row[len(row)-1], between = "–", "–"
			}
			s.Rows = append(s.Rows, append(slices.Insert(row, len(row)-1, replaced(&m)), between))
		}
	}
	for _, name := range names {
		if i := slices.IndexFunc(all, func(p closedloop.Pairing) bool { return p.Case == name }); i >= 0 {
			show(all[i])
		} else {
			s.Absent = append(s.Absent, "`"+name+"`")
		}
	}
	for _, p := range all {
		if !slices.Contains(names, p.Case) {
			show(p)
		}
	}
	if len(shown) > 0 {
		s.Provenance = RecordedBy(shown)
	}
	return s
}

// replaced is the share of decisions in which a guard had something else executed than the method's
// own action.
func replaced(m *closedloop.Paired) string {
	if m.Guard == nil || m.Decisions == 0 {
		return "–"
	}
	return Number("%.1f", 100*float64(m.Fallback)/float64(m.Decisions))
}

// InParts are pairings with a method beside itself without a part.
func InParts(p *closedloop.Pairing) bool { return UndisturbedPlant(p) && ablates(p) }
