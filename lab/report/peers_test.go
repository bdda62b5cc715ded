package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/lab/peerrecord"
)

// TestPeersSection: decisions are counted where a record has them, and its checks are said.
func TestPeersSection(t *testing.T) {
	r := peerrecord.Record{Ratios: []peerrecord.Ratio{{Op: "warm p50", Case: "cart", Peer: "other", Batch: 1, Ratio: 2}}}
	if s := peersSection(r); len(s.Rows[0]) != 8 || len(s.Rows[1]) != 8 {
		t.Errorf("a record without decisions has the rows %v", s.Rows)
	}
	r.Ratios[0].Decisions, r.Ratios[0].Unsolved, r.Ratios[0].Lower, r.Ratios[0].Higher = 80, 3, 1, 2
	r.Checks = []peerrecord.Check{{Case: "cart", Peer: "other", Decisions: 80, Unsolved: 4, Compared: 75, Worst: 2e-9, Above: 3e-6}}
	s := peersSection(r)
	if len(s.Rows[0]) != len(s.Rows[1]) || !slices.Equal(s.Rows[1][8:], []string{"80", "3", "1", "2"}) {
		t.Errorf("the rows are %v", s.Rows)
	}
	if want := "cart: 4 of our 80 decisions without a solution; other from our plans ends at our costs to 2.0e-09 in 75 of them, plans as timed are within 3.0e-06."; !strings.Contains(s.Note, want) {
		t.Errorf("the note is %q, want %q in it", s.Note, want)
	}
}
