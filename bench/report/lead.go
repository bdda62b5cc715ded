package report

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
)

// lead is the first screen of a report: one sentence, one picture in motion, one table.
type lead struct {
	headline string
	motion   *Animation
	rows     [][]string
	note     string // how the rows are to be read, and what is not among them
}

// lead is of the cases' maps, each in the scenes that cost it most; without runs of them there is the picture alone.
func (r *Records) lead(ctx context.Context) (*lead, error) {
	l := &lead{headline: "gpc: recorded results, " + r.Device}
	t := r.mostMoving()
	if t != nil {
		var err error
		if l.motion, err = r.Animation(ctx, t); err != nil {
			return nil, err
		}
	}
	rows, few := HardestScenes([]*Records{r})
	if len(few) > 0 {
		l.note = " Left out, as one episode says little: " + strings.Join(few, ", ") + "."
	}
	if len(rows) == 0 {
		return l, nil
	}
	kept, most := 0, math.Inf(-1)
	l.rows = [][]string{{"case", "safe", "extra cost, %", "decision, ms"}}
	for _, h := range rows {
		mean, sem := Excess(h.Own)
		if keptShare(h.Own) == 1 {
			kept++
		}
		if h.Own.RegretN > 1 {
			most = max(most, float64(mean))
		}
		l.rows = append(l.rows, []string{
			"`" + h.Name + "`", KeptText(h.Own), PlainPercent(mean, HalfWidth(sem, h.Own.RegretN), h.Own.RegretN), PlainMilliseconds(&h.Own.Latency),
		})
		if h.Own.RegretN < 2 {
			l.rows[len(l.rows)-1][2] = "–"
		}
	}
	cases := fmt.Sprintf("%d of %d cases", kept, len(rows))
	if kept == len(rows) {
		cases = map[bool]string{true: "the case", false: fmt.Sprintf("all %d cases", kept)}[kept == 1]
	}
	l.headline = fmt.Sprintf("With the map every limit was kept in %s", cases)
	if !math.IsInf(most, 0) && !math.IsNaN(most) {
		l.headline += fmt.Sprintf(", at a mean extra cost of at most %s", strings.Replace(Number("%.2g\u00a0%%", max(0, most)), "e-0", "e-", 1))
	}
	l.headline += "."
	l.note = "Each row is of the scenes in which the map costs most. Safe: episodes, or dispatches of a network, in which no limit was broken and every goal reached, of all. " +
		"Extra cost: the mean above the optimum of the same episode, among robots above the paper's optimiser; with its 95 % interval where fewer than 30 episodes count. " +
		"Decision: half of them take less than the first number, 99 of 100 less than the second." + l.note
	return l, nil
}

// mostMoving is the trace of a leading method in whose pictures most bodies move; else the first; nil: there is none.
func (r *Records) mostMoving() *Trace {
	var best *Trace
	most := -1
	for i := range r.Traces {
		t := &r.Traces[i]
		if t.Header.Method != r.Leading(t.Header.Case) || len(t.Episodes) == 0 {
			continue
		}
		moving := 0
		if m, err := r.motion(t, &t.Episodes[0]); m != nil && err == nil {
			last := m.shapes[len(m.shapes)-1]
			for k, s := range m.shapes[0] {
				if s.Role != domain.Ground && !slices.Equal(s.Path, last[k].Path) {
					moving++
				}
			}
		}
		if moving > most {
			best, most = t, moving
		}
	}
	if best == nil && len(r.Traces) > 0 {
		best = &r.Traces[0]
	}
	return best
}

func (p *sheet) lead(l *lead) {
	w := &p.html
	fmt.Fprintf(w, "<h1>%s</h1>\n<div class=\"lead\">\n", html.EscapeString(l.headline))
	if a := l.motion; a != nil {
		p.enlargeable(a.Title, a.caption, a.SVG)
	}
	if l.rows != nil {
		var table bytes.Buffer
		htmlRows(&table, l.rows)
		fmt.Fprintf(w, "<table class=\"glance\">\n%s</table>\n", table.String())
	}
	fmt.Fprint(w, "</div>\n")
	if l.note != "" {
		fmt.Fprintf(w, "<details><summary>How to read this table</summary><p>%s</p></details>\n", html.EscapeString(strings.TrimSpace(l.note)))
	}
}
