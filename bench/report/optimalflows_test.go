package report

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/peerrecord"
	"github.com/gpc-engine/gpc/internal/testing/testrecords"
)

// The report shows such a record whole, with a figure.
func TestTheReportShowsEveryNetwork(t *testing.T) {
	s := optimalFlowsSection(peerrecord.OptimalFlows{Networks: []peerrecord.Network{testrecords.OptimalFlow("a", 100, 100, 20), testrecords.OptimalFlow("b", 103, 100, 30)}})
	if len(s.Rows) != 3 || len(s.figures) != 1 {
		t.Errorf("%d rows and %d figures", len(s.Rows), len(s.figures))
	}
	if _, err := s.figures[0].SVG(); err != nil {
		t.Error(err)
	}
}
