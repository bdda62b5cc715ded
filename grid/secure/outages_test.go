package secure

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/networktest"
)

func TestAUnitHasOneFactor(t *testing.T) {
	n := networktest.Load(t, "case9")
	if got, err := ReadParticipation(n, "f", strings.NewReader("\ufeffunit 2 0.4 # half\nunit 1 0.4\n")); err != nil || got[0] != 0.4 || got[2] != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ReadParticipation(n, "f", strings.NewReader("unit 2 0.4\n\nunit 02 0.6\n")); err == nil || !strings.Contains(err.Error(), "f, line 3: unit 02 is listed twice") {
		t.Error(err)
	}
}

// Of a list those are survivable that leave the network in one piece: all units, and the branches that are no bridges. The order stays.
func TestSurvivableOutagesLeaveOnePiece(t *testing.T) {
	n := networktest.Load(t, "case9")
	var all []Outage
	for k := range n.Branches() {
		all = append(all, Outage{Branch: k, Unit: -1})
	}
	all = append(all, Outage{Branch: -1, Unit: 2}, Outage{Branch: -1, Unit: 0})
	survivable, cut := Survivable(n, all)
	bridges := n.Bridges()
	for _, o := range cut {
		if o.Branch < 0 || !bridges[o.Branch] {
			t.Errorf("%v cuts nothing off", o)
		}
	}
	for k, o := range survivable {
		if o.Branch >= 0 && bridges[o.Branch] || k > 0 && slices.Index(all, o) < slices.Index(all, survivable[k-1]) {
			t.Errorf("%v is the survivable outage %d", o, k)
		}
	}
	if len(cut) != 3 || len(survivable) != 8 { // the three step-up transformers
		t.Errorf("%v cut off a part, %v do not", cut, survivable)
	}
}
