package peerrecord

import "testing"

// A comparison is of the rounds one by one: its ratio is the median of theirs, not that of the medians.
func TestCompareIsOfRounds(t *testing.T) {
	r := Compare("op", "case", "peer", 1, []float64{1, 2, 8, 4}, []float64{4, 4, 8, 40})
	if r.Ratio != 3 || r.Lo != 1 || r.Hi != 10 || r.OursUS != 3 || r.PeerUS != 6 {
		t.Errorf("%+v", r)
	}
}
