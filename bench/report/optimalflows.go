package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpc-engine/gpc/internal/opfrecord"
	"gonum.org/v1/plot/vg/draw"
)

// ConditionsOf are the sets of networks of PGLib, by what their names end with.
var ConditionsOf = []struct{ End, Title string }{
	{"", "typical"}, {"__api", "heavily loaded (api)"}, {"__sad", "small angle differences (sad)"},
}

// EndOf is what the name of a network ends with.
func EndOf(name string) string {
	for _, c := range ConditionsOf[1:] {
		if strings.HasSuffix(name, c.End) {
			return c.End
		}
	}
	return ""
}

func GapOf(n *opfrecord.Network) string {
	if n.Gap == nil {
		return "–"
	}
	return fmt.Sprintf("%+.1e", *n.Gap)
}

func OptimalFlowsNote(r *opfrecord.Record) string {
	return fmt.Sprintf("CPU time of the first solve from the flat start, without the analysis of the network. The violation is of the limits by a power flow of the dispatch. Published values and times: %s, where a time is 1 s or more, on other hardware.", cmp.Or(r.Published, "none"))
}

func OptimalFlowsOrigin(r *opfrecord.Record) string {
	return Origin(r.Command, r.Commit, fmt.Sprintf("%s, %d threads", r.Device, r.Threads), r.Load)
}

// optimalFlowsSection is the record whole, and its figure.
func optimalFlowsSection(r opfrecord.Record) Section {
	s := Section{title: "Optimal power flows of many networks", Note: OptimalFlowsNote(&r), Provenance: OptimalFlowsOrigin(&r), figures: []*Figure{optimalFlowsFigure(&r)},
		Rows: [][]string{{"network", "buses", "status", "objective, $/h", "gap", "iterations", "CPU time, s", "analysis, s", "violation, pu", "memory, MB"}}}
	for i := range r.Networks {
		n := &r.Networks[i]
		objective, violation := "–", "–"
		if n.Optimal() {
			objective = fmt.Sprintf("%.7g", *n.Objective)
		}
		if n.Violation != nil {
			violation = fmt.Sprintf("%.1e", *n.Violation)
		}
		s.Rows = append(s.Rows, []string{n.Name, fmt.Sprint(n.Buses), n.Status, objective, GapOf(n), fmt.Sprint(n.Iterations),
			fmt.Sprintf("%.3g", n.CPUMS/1e3), fmt.Sprintf("%.3g", n.SetupMS/1e3), violation, fmt.Sprintf("%.0f", n.PeakMB)})
	}
	return s
}

// optimalFlowsFigure is time against buses, ours and as published.
func optimalFlowsFigure(r *opfrecord.Record) *Figure {
	f := newFigure("optimal-flows", "optimal power flows: time against buses", axis{"size of the network", "buses"}, axis{"CPU time", "s"})
	f.logX()
	f.logY()
	for k, c := range ConditionsOf {
		var xs, ys []float64
		for _, n := range r.Networks {
			if n.Optimal() && EndOf(n.Name) == c.End {
				xs, ys = append(xs, float64(n.Buses)), append(ys, n.CPUMS/1e3)
			}
		}
		f.points(c.Title, colour(k), draw.CircleGlyph{}, xs, ys)
	}
	var xs, ys []float64
	for _, n := range r.Networks {
		if n.PeerMS != nil {
			xs, ys = append(xs, float64(n.Buses)), append(ys, *n.PeerMS/1e3)
		}
	}
	f.points("published, other hardware", colour(grey), draw.CrossGlyph{}, xs, ys)
	f.caption = "CPU time of one solve from the flat start, each network once; published times of 1 s or more are IPOPT's with HSL through PowerModels on other hardware."
	return f
}
