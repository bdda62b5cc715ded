package publish

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/lab/certificate"
	"github.com/gpc-engine/gpc/lab/report"
)

// briefGlance is README's form of the glance: means alone, in two digits.
func (d devices) briefGlance() string {
	s := report.Section{Rows: [][]string{{"case", "with the map: safe", "extra cost, % (n)", report.TimesHeading, "best without a map: safe", "extra cost, % (n)", report.TimesHeading}}}
	cost := func(e *closedloop.Result) string {
		mean, sem := report.Excess(e)
		return fmt.Sprintf("%s (%d)", report.PlainPercent(mean, report.HalfWidth(sem, e.RegretN), e.RegretN), e.RegretN)
	}
	rows, _ := report.HardestScenes(d)
	for _, h := range rows {
		row := []string{h.Problem(), "`" + h.Own.Method + "`, " + report.SafeText(h.Own), cost(h.Own), report.PlainTimes(&h.Own.Latency), "–", "–", "–"}
		if m := h.Paired; m != nil {
			row = append(row[:4], fmt.Sprintf("`%s`, %d/%d", m.Method, m.Safe, m.Episodes),
				fmt.Sprintf("%s above the map's (%d)", m.Cost.Mean.Text("%+.2f"), m.Cost.N), report.PlainTimes(&m.Latency))
		} else if h.Other != nil {
			row = append(row[:4], "`"+h.Other.Method+"`, "+report.SafeText(h.Other), cost(h.Other), report.PlainTimes(&h.Other.Latency))
		}
		s.Rows = append(s.Rows, row)
	}
	return report.Tables(s)
}

// summary is a table for every case of its brief methods, beside the paper's figures, with what
// the paper has and the records lack named below it.
func (d devices) summary() string {
	var b bytes.Buffer
	for _, r := range report.RunsOf(d, (*report.Records).CaseNames) {
		evals := slices.Concat(r.Plain(r.Name), r.LikePaper(r.Name))
		shown := r.Brief(evals)
		if len(shown) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		summarize(r, &b, shown)
		if absent := r.Absent(r.Name, r.Unrecorded(r.Name, evals)); len(absent) > 0 {
			fmt.Fprintf(&b, "\nIn the paper and not recorded here: %s.\n", strings.Join(absent, ", "))
		}
	}
	return b.String()
}

// summarize writes the table of some runs of one kind of scenes.
func summarize(r report.Run, b *bytes.Buffer, shown []closedloop.Result) {
	first := &shown[0]
	goals := first.GoalReached != nil
	scenes := 0
	if goals {
		shown, scenes = report.SameScenes(shown)
		first = &shown[0]
	}
	head := []string{"method", "safe episodes, 95 %"}
	switch {
	case goals:
		head = append(head, "smallest margin, m ± 95 %", "cost above the reference's, % ± 95 %")
	case first.Regime != "":
		head = append(head[:1], "dispatches within every limit", "cost above the exact chain, % ± 95 %")
	default:
		head = append(head, "cost above the optimum, % ± 95 %")
	}
	s := report.Section{Rows: [][]string{append(head, "median", "p90", "n", report.TimesHeading, "in the paper")}}
	measured, spreads := false, false
	for i := range shown {
		e := &shown[i]
		row := []string{r.Titled(e), report.SafeText(e)}
		if e.Regime == "" {
			row[1] += fmt.Sprintf(", [%.1f, %.1f] %%", 100*e.CI95.Safe[0], 100*e.CI95.Safe[1])
		}
		if goals {
			row = append(row, report.Within("%.3f", e.MarginMean, e.MarginSEM, e.Episodes))
		}
		s.Rows = append(s.Rows, slices.Concat(row, report.ExcessCells(report.Decimals(e), e), []string{report.Times("%.3f", &e.Latency), report.InPaper(r.Paper(r.Name, e.Method))}))
		measured, spreads = measured || e.RegretN > 0, spreads || e.Regret.N > 0
	}
	about := r.About(r.Name)
	if about != "" {
		about = ": " + about
	}
	if first.Regime != "" {
		about += ", loads `" + first.Regime + "`"
	}
	fmt.Fprintf(b, "**`%s`**%s. Seed %d, %s.", r.Name, about, first.Seed, first.Device)
	if scenes > 0 {
		fmt.Fprintf(b, " Costs are over the %d episodes that all methods ran.", scenes)
	}
	if measured && !spreads {
		b.WriteString(" These records hold no medians.")
	}
	b.WriteString("\n\n")
	s.Rows = report.Filled(s.Rows)
	s.Table(b)
}

// otherLoads sets the whole method, the plain map and the best without a map side by side in
// kinds of scenes that the paper has not.
func (d devices) otherLoads() string {
	s := report.Section{Rows: [][]string{{"case", "loads", "draws left out", "`" + report.AlgorithmTwo + "`", "`direct`", "best without a map"}}}
	cell := func(e *closedloop.Result) string {
		if e == nil {
			return "–"
		}
		return fmt.Sprintf("%s; %s; %s", report.SafeText(e), report.ExcessText(report.Decimals(e), e), report.Times("%.3f", &e.Latency))
	}
	for _, r := range report.RunsOf(d, (*report.Records).CaseNames) {
		for _, evals := range r.Regimes() {
			if evals[0].Regime == "" || evals[0].Regime == report.PaperRegime {
				continue
			}
			other, name := r.Rival(evals), ""
			if other != nil {
				name = "`" + other.Method + "` "
			}
			s.Rows = append(s.Rows, []string{"`" + r.Name + "`", "`" + evals[0].Regime + "`", report.Excluded(&evals[0]), cell(report.FindMethod(report.AlgorithmTwo, evals)), cell(report.FindMethod("direct", evals)), name + cell(other)})
		}
	}
	return report.Tables(s)
}

// admittances has how many dispatches are kept where the admittances of the network are known, estimated from measured flows, and withheld.
func (d devices) admittances() string {
	s := report.Section{Rows: [][]string{{"case", "loads", "method", "known", "estimated", "cost above the exact chain, % ± 95 %", "n", "withheld"}}}
	var seeds, commits []string
	for _, r := range report.RunsOf(d, (*report.Records).CaseNames) {
		for _, p := range r.PairingsWhere(r.Name, report.Estimated) {
			seeds, commits = append(seeds, fmt.Sprint(p.Seed)), append(commits, p.Commit)
			loads := strings.TrimSuffix(p.Regime, report.EstimatedSuffix)
			kept := func(method, regime string) string {
				e := report.FindMethod(method, r.EvaluationsWhere(r.Name, func(e *closedloop.Result) bool { return e.Regime == regime && e.Noise == 0 }))
				if e == nil {
					return "–"
				}
				return report.SafeText(e)
			}
			for _, m := range p.Pairs {
				s.Rows = append(s.Rows, []string{
					"`" + r.Name + "`", "`" + loads + "`", "`" + m.Method + "`", kept(m.Method, loads), fmt.Sprintf("%d/%d", m.Decisions-m.Violations, m.Decisions),
					m.RegretPct.Text("%.4f") + " ± " + m.RegretCI95.Text("%.4f"), fmt.Sprint(m.RegretN), kept(m.Method, loads+report.WithheldSuffix),
				})
			}
		}
	}
	if len(s.Rows) > 1 {
		s.Provenance = fmt.Sprintf("Of the estimates: seed %s, commit %s, recorded without times.", report.Distinct(seeds), report.Distinct(commits))
	}
	return report.Tables(s)
}

// eachLoads visits every case under each of its loads with the evaluations there that are without
// noise; where something is withheld from the methods is no load of its own.
func (d devices) eachLoads(visit func(r report.Run, regime string, evals []closedloop.Result)) {
	for _, r := range report.RunsOf(d, (*report.Records).CaseNames) {
		regimes := []string{""}
		for _, e := range r.InRegimes(r.Name) {
			if e.Noise == 0 && !slices.Contains(regimes, e.Regime) && !strings.Contains(e.Regime, "-") {
				regimes = append(regimes, e.Regime)
			}
		}
		for _, regime := range regimes {
			if evals := r.EvaluationsWhere(r.Name, func(e *closedloop.Result) bool { return e.Noise == 0 && e.Regime == regime }); len(evals) > 0 {
				visit(r, regime, evals)
			}
		}
	}
}

// ablations are the methods without one of those parts, on the episodes of the whole one.
func (d devices) ablations() string {
	s := report.Section{Rows: [][]string{{"case", "loads", "without", "safe", "cost less the whole's, % [95 %]", "median", "n"}}}
	d.eachLoads(func(r report.Run, regime string, evals []closedloop.Result) {
		for _, m := range r.Cases[r.Name].Methods {
			whole, is := report.WholeOf(m.Name)
			if !is { // of a search
				continue
			}
			row := []string{r.Name, report.OrDash(regime), "`" + m.Name + "`"}
			if e := report.FindMethod(m.Name, evals); e != nil {
				s.Rows = append(s.Rows, slices.Concat(row, []string{report.SafeOf(e)}, r.CostAbove(e, whole)))
			} else if cells := pairedWith(r.Records, r.Name, regime, whole, m.Name); cells != nil {
				s.Rows = append(s.Rows, append(row, cells...))
			} else {
				s.Absent = append(s.Absent, fmt.Sprintf("%s of `%s`, loads %s", row[2], r.Name, report.OrDash(regime)))
			}
		}
	})
	return report.Tables(s)
}

// ablatedSearches are the searches whose parts were left out one by one.
var ablatedSearches = []string{"refine-64", "refine-512"}

// searchParts are the searches without one of their parts, and the map without the first of them,
// on the episodes of the whole search.
func (d devices) searchParts() string {
	s := report.Section{Rows: [][]string{{"case", "loads", "method", "safe", "regret, % ± 95 %", "cost less the whole search's, % [95 %]", "median", "n"}}}
	d.eachLoads(func(r report.Run, regime string, evals []closedloop.Result) {
		for i, whole := range ablatedSearches {
			parts := slices.DeleteFunc(slices.Clone(evals), func(e closedloop.Result) bool {
				return !strings.HasPrefix(e.Method, whole+"-") || r.Method(r.Name, e.Method).Group != domain.GroupAblation
			})
			first := report.FindMethod(whole, evals)
			if first == nil || len(parts) == 0 {
				continue
			}
			parts = append([]closedloop.Result{*first}, parts...)
			if direct := report.FindMethod("direct", evals); direct != nil && i == 0 {
				parts = append(parts, *direct)
			}
			for _, e := range parts {
				s.Rows = append(s.Rows, slices.Concat([]string{r.Name, report.OrDash(regime), "`" + e.Method + "`", report.SafeOf(&e), report.Within("%.5f", e.RegretPct, e.RegretSEM, e.RegretN)}, r.CostAbove(&e, whole)))
			}
		}
	})
	return report.Tables(s)
}

// pairedWith is a row of a pairing with a map of its own, that has a method first and another
// behind it; nil: there is none.
func pairedWith(r *report.Records, name, regime, first, method string) []string {
	for _, p := range report.Of[closedloop.Pairing](r) {
		if p.Case != name || p.Regime != regime || len(p.Pairs) == 0 || p.Pairs[0].Method != first || !report.UndisturbedPlant(&p) {
			continue
		}
		for _, m := range p.Pairs[1:] {
			if m.Method == method {
				return []string{
					fmt.Sprintf("%d/%d, map `%s`", m.Safe, m.Episodes, p.Map.File),
					m.Difference.Mean.Text("%+.4f") + " " + report.Interval("%+.4f", m.Difference.MeanCI95), m.Difference.Median.Text("%+.4f"), fmt.Sprint(m.Compared),
				}
			}
		}
	}
	return nil
}

// rolledOut is a table of the figures of the roll-outs that the paper draws, below the trace of the
// standing obstacles.
func (d devices) rolledOut() string {
	s := report.Section{Rows: [][]string{{"roll-out", "joint trajectory", "distance to the goal", "scene-safety margin"}}}
	picture := func(file, what string) string { return fmt.Sprintf("![%s](docs/results/figures/%s.svg)", what, file) }
	add := func(title, file string) {
		s.Rows = append(s.Rows, []string{title, picture(file+"-trajectory", "trajectories"), picture(file+"-distances", "distances"), picture(file+"-margins", "margins")})
	}
	for _, r := range d[:min(1, len(d))] { // figures of other devices are not in that folder
		for _, name := range []string{"multiagent-static", "multiagent-moving"} {
			if t := r.ShownTrace(name); t != nil && name == "multiagent-static" {
				add(fmt.Sprintf("%s, episode %d", strings.TrimPrefix(name, "multiagent-"), t.Episodes[0].Episode), name)
			}
			for _, o := range r.RolloutsOf(name) {
				add(fmt.Sprintf("%s, episode %d", strings.TrimPrefix(name, "multiagent-"), o.Number), fmt.Sprintf("%s-episode-%d", name, o.Number))
			}
		}
	}
	return report.Tables(s)
}

// certified are the certificates of all devices, one of each case.
func (d devices) certified() (all []certificate.Certified) {
	for _, r := range d {
		for _, c := range report.Of[certificate.Certified](r) {
			if !slices.ContainsFunc(all, func(o certificate.Certified) bool { return o.Certificate.Case == c.Certificate.Case }) {
				all = append(all, c)
			}
		}
	}
	slices.SortFunc(all, func(a, b certificate.Certified) int { return cmp.Compare(a.Certificate.Case, b.Certificate.Case) })
	return all
}

// conditions counts the verdicts of every certificate.
func (d devices) conditions() string {
	s := report.Section{Rows: [][]string{{"case", "conditions", "hold", "do not hold", "say nothing", "not measured", "broken in closed loop", "commit"}}}
	for _, c := range d.certified() {
		n := c.Certificate.Verdicts()
		var broken []string
		for _, v := range c.Certificate.Broken() {
			broken = append(broken, v.Beyond())
		}
		s.Rows = append(s.Rows, []string{
			c.Certificate.Case, fmt.Sprint(len(c.Certificate.Conditions)), fmt.Sprint(n[certificate.Holds]), fmt.Sprint(n[certificate.DoesNot]),
			fmt.Sprint(n[certificate.SaysNought]), fmt.Sprint(n[certificate.Unmeasured]), cmp.Or(strings.Join(broken, "; "), "–"), c.Commit,
		})
	}
	return report.Tables(s)
}

// conditionsBroken names the maps whose decoded actions leave the limits, and says where the certified loop breaks a margin.
func (d devices) conditionsBroken() string {
	var negative, broken []string
	for _, c := range d.certified() {
		name, k := "`"+c.Certificate.Case+"`", c.Certificate
		if k.Constants.GammaMin < 0 {
			negative = append(negative, name)
		}
		if m := k.Measured; m != nil && m.Violations > 0 {
			broken = append(broken, fmt.Sprintf("%d of %d decisions of %s", m.Violations, m.Decisions, name))
		}
	}
	text := ""
	if len(negative) > 0 {
		text += "\nThe decoded action's least margin is negative on " + strings.Join(negative, ", ") + ": there the projection keeps the limits.\n"
	}
	if len(broken) > 0 {
		text += "\nThe loop of Algorithm 2 breaks a margin in " + strings.Join(broken, ", and in ") + ".\n"
	}
	return text
}
