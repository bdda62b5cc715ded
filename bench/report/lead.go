package report

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"html"
	"math"
	"slices"
)

// lead is what a report begins with: a run in motion, and six numbers of the method whose it is.
type lead struct {
	motion *Animation
	tiles  [6]tile
}

// tile is a number with what it is of.
type tile struct{ number, of, note string }

// lead is of the cases' leading methods; nil where no runs of them were recorded.
func (r *Records) lead(ctx context.Context) (*lead, error) {
	var of []int // evaluations
	safe, episodes, decisions, slowest := 0.0, 0, 0, 0.0
	for i := range r.Evaluations {
		e := &r.Evaluations[i]
		if e.Method != r.leading(e.Case) {
			continue
		}
		of = append(of, i)
		safe += math.Round(float64(e.Safe) * float64(e.Episodes))
		episodes += e.Episodes
		decisions += e.Decisions
		slowest = max(slowest, float64(e.Latency.P99))
	}
	if len(of) == 0 {
		return nil, nil
	}
	l := &lead{}
	// Bodies that move say more than time lines do.
	best := slices.IndexFunc(r.Traces, func(t Trace) bool {
		if t.Header.Method != r.leading(t.Header.Case) || len(t.Episodes) == 0 {
			return false
		}
		m, err := r.motion(&t, &t.Episodes[0])
		return m != nil && err == nil
	})
	if best < 0 && len(r.Traces) > 0 {
		best = 0
	}
	if best >= 0 {
		var err error
		if l.motion, err = r.Animation(ctx, &r.Traces[best]); err != nil {
			return nil, err
		}
	}
	first := &r.Evaluations[of[0]]
	least := first
	for _, i := range of {
		if e := &r.Evaluations[i]; cmp.Less(float64(e.Latency.P50), float64(least.Latency.P50)) {
			least = e
		}
	}
	l.tiles = [6]tile{
		{fmt.Sprintf("%.0f/%d", safe, episodes), "episodes safe", "no limit broken and every goal reached, all cases"},
		{fmt.Sprint(decisions), "decisions", fmt.Sprintf("by the map, in %d cases", len(of))},
		{number("%.3f %%", float64(first.RegretPct)), "above the optimum", "mean cost, " + first.Case},
		{number("%.3f %%", float64(first.Regret.P90)), "above it in the tail", "nine of ten episodes cost less, " + first.Case},
		{number("%.3f ms", float64(least.Latency.P50)/1e3), "a decision", "median, " + least.Case},
		{number("%.3f ms", slowest/1e3), "the slow ones", "99 of 100 take less, slowest case"},
	}
	return l, nil
}

func (p *sheet) lead(l *lead) {
	if l == nil {
		return
	}
	w := &p.html
	fmt.Fprint(w, "<div class=\"lead\">\n")
	if a := l.motion; a != nil {
		fmt.Fprintf(w, "<figure><img alt=\"%s\" src=\"data:image/gif;base64,%s\"><figcaption><b>%s.</b> %s</figcaption></figure>\n",
			html.EscapeString(a.Title), base64.StdEncoding.EncodeToString(a.GIF), html.EscapeString(a.Title), html.EscapeString(a.caption))
	}
	fmt.Fprint(w, "<dl class=\"tiles\">\n")
	for _, t := range l.tiles {
		fmt.Fprintf(w, "<div><dt>%s</dt><dd><b>%s</b><small>%s</small></dd></div>\n", html.EscapeString(t.of), html.EscapeString(t.number), html.EscapeString(t.note))
	}
	fmt.Fprint(w, "</dl>\n</div>\n")
}
