package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/compile"
)

// Undisturbed pairings are of the case as it is, and of whole methods.
func Undisturbed(p *closedloop.Pairing) bool {
	return UndisturbedPlant(p) && !ablates(p) && !WaysRound(p)
}

// WaysRound pairings set a map beside path integral control, where there are several ways round.
func WaysRound(p *closedloop.Pairing) bool {
	return slices.ContainsFunc(p.Pairs, func(m closedloop.Paired) bool { return strings.HasPrefix(m.Method, "mppi-") })
}

// UndisturbedPlant tells whether a pairing is of the case's own plant, measured without error, and of its own scenes.
func UndisturbedPlant(p *closedloop.Pairing) bool {
	return len(p.Shift) == 0 && p.Noise == 0 && p.Bias == 0 && p.MeasuredNoise == 0 && p.ScenesSHA256 == "" && !Estimated(p)
}

// What stands behind the loads of a dispatch that withholds the admittances of its network, and of one that gives what measured flows
// say of them.
const (
	WithheldSuffix  = "-hidden"
	EstimatedSuffix = "-estimated"
)

// Estimated tells whether the methods of a pairing are given estimates of their network.
func Estimated(p *closedloop.Pairing) bool { return strings.HasSuffix(p.Regime, EstimatedSuffix) }

// ablates tells whether a pairing sets a method beside itself without a part.
func ablates(p *closedloop.Pairing) bool {
	return slices.ContainsFunc(p.Pairs, func(m closedloop.Paired) bool {
		_, is := WholeOf(m.Method)
		return is
	})
}

// ShiftText names the factors by which a plant differs from the model.
func ShiftText(shift map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(shift)) {
		parts = append(parts, fmt.Sprintf("%s × %g", name, shift[name]))
	}
	return strings.Join(parts, ", ")
}

// PairingsWhere returns the pairings of a case under its own priority that are wanted: those of larger maps first, then
// by shift, noise and bias.
func (r *Records) PairingsWhere(name string, wanted func(p *closedloop.Pairing) bool) (out []closedloop.Pairing) {
	out = Where(r, func(p *closedloop.Pairing) bool {
		return p.Case == name && p.ScenesSHA256 == "" && len(p.Preference) == 0 && !byCandidates(p) && !ByConstants(p) && !retrained(p) && wanted(p)
	})
	slices.SortStableFunc(out, func(a, b closedloop.Pairing) int {
		return cmp.Or(
			cmp.Compare(b.Map.Samples, a.Map.Samples), cmp.Compare(a.Noise, b.Noise), cmp.Compare(a.Bias, b.Bias),
			slices.Compare(slices.Sorted(maps.Keys(a.Shift)), slices.Sorted(maps.Keys(b.Shift))), compareFactors(a.Shift, b.Shift))
	})
	return out
}

// compareFactors orders shifts of the same parameters.
func compareFactors(a, b map[string]float64) int {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if c := cmp.Compare(a[name], b[name]); c != 0 {
			return c
		}
	}
	return 0
}

// pairedCases are the cases with pairings, by name.
func (r *Records) pairedCases() []string {
	return casesOf(Of[closedloop.Pairing](r), func(p *closedloop.Pairing) string { return p.Case })
}

// PairedCases are those of them that the program has.
func (r *Records) PairedCases() []string {
	return slices.DeleteFunc(r.pairedCases(), func(name string) bool {
		_, has := r.Cases[name]
		return !has
	})
}

// BundledMap is what tables call the map of a pairing without a file.
const BundledMap = "bundled"

// PairedRow is the i-th method of a pairing, behind what its first cells say.
func PairedRow(first []string, i int, m *closedloop.Paired) []string {
	return slices.Concat(first, []string{"`" + m.Method + "`"}, pairedCells(i, m), []string{Times("%.3f", &m.Latency)})
}

// pairedCells are how many of its episodes were safe, its regret, the median, 90 % quantile and
// largest of it, and by how much it differs from the first method's, over how many episodes.
func pairedCells(i int, m *closedloop.Paired) []string {
	difference, n := "–", "–"
	if i > 0 {
		difference, n = Estimate("%.5f", m.DifferencePct, m.DifferenceCI95), fmt.Sprint(m.Compared)
	}
	return slices.Concat([]string{fmt.Sprintf("%d/%d", m.Safe, m.Episodes), Estimate("%.5f", m.RegretPct, m.RegretCI95)}, Spread("%.5f", &m.Regret),
		[]string{m.RegretWorst.Text("%.4f"), difference, n})
}

// ablated are the parts of Algorithm 2 that the paper names, by what their ablations end in.
var ablated = []string{"-no-semantic", "-no-rollout", "-no-lie", "-no-retraction"}

// unprojected is what an ablation without the projection ends in.
const unprojected = "-no-projection"

// WholeOf is the method that an ablation of the paper's is one of.
func WholeOf(ablation string) (whole string, is bool) {
	for _, part := range ablated {
		if whole, is = strings.CutSuffix(ablation, part); is {
			return whole, whole == AlgorithmTwo || whole == Planner
		}
	}
	return "", false
}

// WarmSolver is the exact solver that a compiled map is set beside, AheadSolver the same with the time between decisions.
const (
	WarmSolver  = "nmpc"
	AheadSolver = WarmSolver + "-ahead"
)

// ByConstants tells whether a pairing runs a method again with other constants.
func ByConstants(p *closedloop.Pairing) bool {
	return slices.ContainsFunc(p.Pairs, func(m closedloop.Paired) bool { return len(m.Constants) > 0 })
}

// UnprojectedAside tells whether a pairing sets a method beside itself without its projection.
func UnprojectedAside(p *closedloop.Pairing) bool {
	return len(p.Pairs) == 2 && p.Pairs[1].Method == p.Pairs[0].Method+unprojected && UndisturbedPlant(p)
}

// retrained tells whether a pairing is of the projection, or of several maps of one method.
func retrained(p *closedloop.Pairing) bool {
	return UnprojectedAside(p) || len(p.Pairs) > 1 && p.Pairs[0].ModelSHA256 != p.Pairs[1].ModelSHA256 &&
		!slices.ContainsFunc(p.Pairs, func(m closedloop.Paired) bool { return m.Method != p.Pairs[0].Method })
}

// untimed tells whether none of some pairings holds times.
func untimed(pairings []closedloop.Pairing) bool {
	return !slices.ContainsFunc(pairings, func(p closedloop.Pairing) bool {
		return slices.ContainsFunc(p.Pairs, func(m closedloop.Paired) bool { return !math.IsNaN(float64(m.Latency.P50)) })
	})
}

// A pairing by candidates sets the planner with a map beside what decides without one: with as many
// candidates, and with as many as take its time.

// withoutMap is how the methods without a map begin whose latents' share went elsewhere.
const withoutMap = Planner + "-no-latent-"

// byCandidates tells whether a pairing is one of numbers of candidates: a method of it is without
// the map's latents.
func byCandidates(p *closedloop.Pairing) bool {
	return slices.ContainsFunc(p.Pairs, func(m closedloop.Paired) bool {
		return len(m.Method) > len(withoutMap) && m.Method[:len(withoutMap)] == withoutMap
	})
}

// ComparedCases are the cases with such a pairing.
func (r *Records) ComparedCases() []string {
	return casesOf(Of[closedloop.Pairing](r), func(p *closedloop.Pairing) string {
		if byCandidates(p) {
			return p.Case
		}
		return ""
	})
}

// CandidatesOf is how many candidates a decision of a row has.
func (r *Records) CandidatesOf(name string, m *closedloop.Paired) int {
	return cmp.Or(m.Candidates, r.Method(name, m.Method).Candidates)
}

// CandidatePairings are those of the case, most candidates first.
func (r Run) CandidatePairings() (out []closedloop.Pairing) {
	out = Where(r.Records, func(p *closedloop.Pairing) bool { return p.Case == r.Name && byCandidates(p) })
	slices.SortStableFunc(out, func(a, b closedloop.Pairing) int {
		return r.CandidatesOf(r.Name, &b.Pairs[0]) - r.CandidatesOf(r.Name, &a.Pairs[0])
	})
	return out
}

// EqualIn says in what a row is like the first: its candidates, or the time that they take.
func (r *Records) EqualIn(name string, first, m *closedloop.Paired) string {
	switch {
	case m == first:
		return "–"
	case r.CandidatesOf(name, first) == r.CandidatesOf(name, m):
		return "candidates"
	}
	return "time"
}

// comparisonSection is the table of one.
func comparisonSection(c closedloop.Compared) Section {
	if len(c.Comparisons) == 0 {
		return Section{}
	}
	first := c.Comparisons[0]
	return Section{
		title:      first.Case + ": on the same episodes" + estimatedAt(&first),
		Note:       fmt.Sprintf("Cost: mean over the %d episodes in which every run is safe of the difference to %s, ± its standard error.", first.Compared, first.Method),
		Provenance: fmt.Sprintf("Seed %d, commit %s.", first.Seed, first.Commit),
		Rows: Table(Columns{
			{"method", "{Method}"}, {"safe", "{Safe}/{Episodes}"}, {"cost %", "{DifferencePct %.2f} ± {DifferenceSEM? %.2f}"}, {"margin", "{MarginMean %.3f}"},
			{"p50 / p99 ms", "{Latency.P50? %.2f /1e3} / {Latency.P99? %.2f /1e3}"},
		}, c.Comparisons),
	}
}

// estimatedAt says at which noise, and how far from the limits, loops decided by an estimate; "" of others.
func estimatedAt(c *closedloop.Comparison) string {
	if c.MeasuredNoise == 0 {
		return ""
	}
	from := ""
	if len(c.MeasuredStates) > 0 {
		from = " from " + strings.Join(c.MeasuredStates, ", ")
	}
	return fmt.Sprintf(", by an estimate%s at a noise of %g %%, %g standard deviations off the limits", from, 100*c.MeasuredNoise, c.Tightening)
}

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
		s := Compilations(Of[compile.Report](r), names)
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
func (r *Records) CompiledCases() []string {
	return casesOf(Of[compile.Report](r), func(c *compile.Report) string { return c.Case })
}

// mostOthers is the share of a machine that others may have while a loop is timed; beyond it the times are not the loop's own.
const mostOthers = 0.125

// Disturbed tells whether a load that is known was too much to time beside.
func Disturbed(l *closedloop.Load) bool {
	return l != nil && l.Others+l.Stolen > mostOthers*float64(max(2, l.CPUs))
}

// withheld leaves the times out of a pairing that was recorded beside other work.
func withheld(p *closedloop.Pairing) error {
	if load := p.Load; Disturbed(load) {
		p.Untimed()
		p.Load = load
	}
	return nil
}

// Compilations is what maps reach from the starts that no decision has looked at, name by name, and which names there is none of.
func Compilations(all []compile.Report, names []string) Section {
	t := compilations{rows: [][]string{{"case", "test by", "unsafe", "of these no way", "mean %", "p90 %", "max %", "no optimum", "rescued %", "p50 / p99, µs", "target %", "met", "scenarios, samples", "minutes", "held-out mean %, by method"}}}
	var absent []string
	for _, name := range names {
		before := len(t.rows)
		for i := range all {
			if all[i].Case == name {
				t.add(&all[i])
			}
		}
		if len(t.rows) == before {
			absent = append(absent, "`"+name+"`")
		}
	}
	s := Section{Rows: t.rows, Absent: absent}
	if len(t.commits) > 0 {
		s.Provenance = Origin("", Distinct(t.commits), Distinct(t.devices), t.on...)
	}
	if len(t.busy) > 0 {
		s.Note = "Times taken beside other work are left out: " + strings.Join(t.busy, ", ") + "."
	}
	s.Note = strings.TrimSpace(s.Note + strings.Join(t.missed, ""))
	return s
}

// compilations are the rows of a table of them, and what stands beside it.
type compilations struct {
	rows                           [][]string
	on                             []*closedloop.Load
	commits, devices, busy, missed []string
}

func (s *compilations) add(c *compile.Report) {
	name, scenarios := "`"+c.Case+"`", 0
	for _, round := range c.Rounds[:c.Best+1] {
		scenarios += round.Scenarios
	}
	t := &c.Test
	times, minutes, met := t.P50.Text("%.3g")+" / "+t.P99.Text("%.3g"), fmt.Sprintf("%.0f", c.Seconds/60), "yes"
	timed := cmp.Or(c.TimesLoad, c.Load)
	if Disturbed(timed) {
		times = "–"
		s.busy = append(s.busy, fmt.Sprintf("%s (others had %.2f CPUs)", name, timed.Others+timed.Stolen))
	} else {
		s.on = append(s.on, timed)
	}
	if Disturbed(c.Load) {
		minutes = "–"
	}
	if !c.Met {
		met = "no"
		if help := fmt.Sprintf(" What would help %s: %s.", name, c.Advice); !slices.Contains(s.missed, help) {
			s.missed = append(s.missed, help)
		}
	}
	var choice []string
	for _, m := range c.Choice {
		choice = append(choice, fmt.Sprintf("`%s` %s", m.Method, m.Mean.Text("%.3g")))
	}
	s.rows = append(s.rows, []string{
		name, "`" + t.Method + "`", fmt.Sprintf("%d of %d", t.Unsafe, t.Episodes), fmt.Sprint(t.NoWay),
		t.Mean.Text("%.3g"), t.P90.Text("%.3g"), t.Max.Text("%.3g"), fmt.Sprint(t.Unsolved), t.Rescued.Text("%.2g"),
		times, fmt.Sprintf("%g", c.Target.Mean), met, fmt.Sprintf("%d, %d", scenarios, c.Rounds[c.Best].Samples), minutes, strings.Join(choice, ", "),
	})
	s.commits, s.devices = append(s.commits, c.Commit), append(s.devices, c.Device)
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
	s := Section{Rows: [][]string{{"case", "method", "safe", "regret % ± 95 %", "median", "p90", "worst", "less the first's ± 95 %", "n", "replaced %", TimesHeading, "between decisions, ms"}}}
	var shown []closedloop.Pairing
	show := func(p closedloop.Pairing) {
		shown = append(shown, p)
		for i, m := range p.Pairs {
			row, between := PairedRow([]string{"`" + p.Case + "`"}, i, &m), "–"
			if m.Prepare != nil {
				between = Number("%.3f", float64(m.Prepare.P50)/1e3) + " / " + Number("%.3f", float64(m.Prepare.P99)/1e3)
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
