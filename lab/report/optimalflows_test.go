package report

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/optima"
	"github.com/gpc-engine/gpc/lab/testrecords"
)

// The report shows such a record whole, with a figure.
func TestTheReportShowsEveryNetwork(t *testing.T) {
	s := optimalFlowsSection(optima.OptimalFlows{Networks: []optima.Network{testrecords.OptimalFlow("a", 100, 100, 20), testrecords.OptimalFlow("b", 103, 100, 30)}})
	if len(s.Rows) != 3 || len(s.figures) != 1 {
		t.Errorf("%d rows and %d figures", len(s.Rows), len(s.figures))
	}
	if _, err := s.figures[0].SVG(); err != nil {
		t.Error(err)
	}
}

// The note says of how many networks there were two starts, what they took, and where the second has the objective.
func TestTheNoteOfTwoStarts(t *testing.T) {
	a, b := testrecords.OptimalFlow("a", 100, 100, 20), testrecords.OptimalFlow("b", 97, 100, 50)
	starts := func(first, second int) []optima.Start {
		return []optima.Start{{Status: "optimal", Iterations: first, CPUMS: 10}, {Status: "optimal", Iterations: second, CPUMS: 15}}
	}
	if note := OptimalFlowsNote(&optima.OptimalFlows{Networks: []optima.Network{a, b}}); strings.Contains(note, "feasible point") {
		t.Errorf("of one start: %s", note)
	}
	a.Starts, b.Starts = starts(20, 30), starts(20, 30)
	note := OptimalFlowsNote(&optima.OptimalFlows{Networks: []optima.Network{a, b, testrecords.OptimalFlow("c", 1, 1, 1)}})
	if !strings.Contains(note, "2 networks were also solved") || !strings.Contains(note, "2.5 times the CPU time") || !strings.HasSuffix(note, "both starts: b.") {
		t.Error(note)
	}
}
