package report

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/opfrecord"
)

func optimalFlow(name string, objective, published float64, iterations int) opfrecord.Network {
	gap, violation, peer := (objective-published)/published, 1e-10, 4000.0
	return opfrecord.Network{Name: name, Buses: 100, Status: "optimal", Objective: &objective, Published: &published, Gap: &gap,
		Iterations: iterations, CPUMS: 20, Violation: &violation, PeerMS: &peer}
}

// The report shows such a record whole, with a figure.
func TestTheReportShowsEveryNetwork(t *testing.T) {
	s := optimalFlowsSection(opfrecord.Record{Networks: []opfrecord.Network{optimalFlow("a", 100, 100, 20), optimalFlow("b", 103, 100, 30)}})
	if len(s.Rows) != 3 || len(s.figures) != 1 {
		t.Errorf("%d rows and %d figures", len(s.Rows), len(s.figures))
	}
	if _, err := s.figures[0].SVG(); err != nil {
		t.Error(err)
	}
}
