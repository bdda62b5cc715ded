package publish

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
)

// briefGlance is README's form of the glance: means alone, in two digits.
func (d devices) briefGlance() string {
	s := report.Section{Rows: [][]string{{"case", "with the map: safe", "extra cost, % (n)", "p50 / p99, ms", "best without a map: safe", "extra cost, % (n)", "p50 / p99, ms"}}}
	cost := func(e *closedloop.Result) string {
		mean, sem := report.Excess(e)
		return fmt.Sprintf("%s (%d)", report.PlainPercent(mean, report.HalfWidth(sem, e.RegretN), e.RegretN), e.RegretN)
	}
	rows, _ := report.HardestScenes(d)
	for _, h := range rows {
		row := []string{h.Problem(), "`" + h.Own.Method + "`, " + report.KeptText(h.Own), cost(h.Own), report.PlainMilliseconds(&h.Own.Latency), "–", "–", "–"}
		if m := h.Paired; m != nil {
			row = append(row[:4], fmt.Sprintf("`%s`, %d/%d", m.Method, m.Safe, m.Episodes),
				fmt.Sprintf("%s above the map's (%d)", m.Cost.Mean.Text("%+.2f"), m.Cost.N), report.PlainMilliseconds(&m.Latency))
		} else if h.Other != nil {
			row = append(row[:4], "`"+h.Other.Method+"`, "+report.KeptText(h.Other), cost(h.Other), report.PlainMilliseconds(&h.Other.Latency))
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
	goals := first.Reached != nil
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
	s := report.Section{Rows: [][]string{append(head, "median", "p90", "n", "decision p50 / p99, ms", "in the paper")}}
	measured, spreads := false, false
	for i := range shown {
		e := &shown[i]
		row := []string{r.Titled(e), report.KeptText(e)}
		if e.Regime == "" {
			row[1] += fmt.Sprintf(", [%.1f, %.1f] %%", 100*e.CI95.Safe[0], 100*e.CI95.Safe[1])
		}
		if goals {
			row = append(row, report.Within("%.3f", e.MarginMean, e.MarginSEM, e.Episodes))
		}
		s.Rows = append(s.Rows, slices.Concat(row, report.ExcessCells(report.Decimals(e), e), []string{report.Milliseconds("%.3f", &e.Latency), report.InPaper(r.Paper(r.Name, e.Method))}))
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

// elsewhere sets the whole method, the plain map and the best without a map side by side in
// kinds of scenes that the paper has not.
func (d devices) elsewhere() string {
	s := report.Section{Rows: [][]string{{"case", "loads", "draws left out", "`" + report.AlgorithmTwo + "`", "`direct`", "best without a map"}}}
	cell := func(e *closedloop.Result) string {
		if e == nil {
			return "–"
		}
		return fmt.Sprintf("%s; %s; %s", report.KeptText(e), report.ExcessText(report.Decimals(e), e), report.Milliseconds("%.3f", &e.Latency))
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
