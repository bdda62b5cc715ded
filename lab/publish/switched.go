package publish

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/examples/gallery"
	"github.com/gpc-engine/gpc/lab/report"
)

const switchedPage = "docs/results/switched.md"

// switchedBeside has a row for each system: whole episodes by our search and by bonmin.
func (d devices) switchedBeside() string {
	b := d.printed(below(switchedPeers.of))
	if b == nil {
		return noRecord
	}
	s := report.Section{Rows: [][]string{{"system", "periods × inputs", "decided by", "% above the best: two starts (the worst)", "CPU, s", "`bonmin`: two starts (the worst)", "CPU, s"}}}
	for _, m := range b.Benchmarks {
		of, v := strings.Split(m.Name, "/"), m.Metrics
		if of[2] == "reference" {
			continue
		}
		others := (v["starts"]*v["above_%"] - v["worst_%"]) / (v["starts"] - 1)
		if others < v["worst_%"]/1e4 { // of it six digits are recorded
			others, _ = strconv.ParseFloat(fmt.Sprintf("%.1g", others), 64)
		}
		cells := []string{excess(others) + " (" + excess(v["worst_%"]) + ")", fmt.Sprintf("%.3g", v["cpu_s"])}
		if v["kept"] < v["starts"] {
			cells = []string{fmt.Sprintf("no plan in %.0f of %.0f starts", v["starts"]-v["kept"], v["starts"]), "–"}
		}
		if of[2] != "bonmin" {
			s.Rows = append(s.Rows, append([]string{"`" + of[1] + "`", fmt.Sprintf("%.0f × %.0f", v["periods"], v["inputs"]), "`" + of[2] + "`"}, cells...))
		} else if last := len(s.Rows) - 1; last > 0 {
			s.Rows[last] = append(s.Rows[last], cells...)
		}
	}
	return report.Tables(s)
}

// excess is a percentage above a cost that is known to a millionth.
func excess(v float64) string {
	if v > 100 {
		return "> 100"
	}
	return fmt.Sprintf("%.2g", max(0, v-1e-6))
}

// switchedInFull has a row for each method, and switchedTimes one for each whose decisions were timed.
func (d devices) switchedInFull() string { return switchedMethods(d.manyEpisodes) }
func (d devices) switchedTimes() string  { return switchedMethods(d.pairing) }

func switchedMethods(of func(name string) *closedloop.Pairing) string {
	var all []closedloop.Pairing
	for _, y := range gallery.Switched() {
		if p := of(y.Name); p != nil {
			all = append(all, *p)
		}
	}
	return report.Tables(report.BesideMaps(all, nil))
}

// switchedNoisy is what estimates and limits that are kept off are worth beside switches.
func (d devices) switchedNoisy() string {
	var shown []closedloop.Pairing
	s := report.Section{Rows: [][]string{{"system", "noise, %", "kept off, σ", "method", "safe", "cost above the best, % (worst)"}}}
	for _, y := range gallery.Switched() {
		for _, p := range d.foreign(func(p *closedloop.Pairing) bool { return p.Case == y.Name && p.MeasuredNoise > 0 }) {
			shown = append(shown, p)
			for i := range p.Pairs {
				m := &p.Pairs[i]
				s.Rows = append(s.Rows, []string{"`" + p.Case + "`", fmt.Sprintf("%g", 100*p.MeasuredNoise), fmt.Sprintf("%g", p.Tightening), "`" + m.Method + "`", safeShare(m), meanAndWorst(m)})
			}
		}
	}
	if len(shown) == 0 {
		return noRecord
	}
	s.Provenance = report.RecordedBy(shown)
	return report.Tables(s)
}
