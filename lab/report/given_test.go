package report

import (
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
)

// Results on scenes of somebody's own do not stand among those on drawn ones.
func TestGivenScenesAreNoSample(t *testing.T) {
	const name = "integrator-convex"
	r := New("", known())
	for _, sum := range []string{"", "ab"} {
		Put(r, closedloop.Result{Case: name, Method: "navigator", ScenesSHA256: sum})
		Put(r, closedloop.Pairing{Case: name, ScenesSHA256: sum, Pairs: []closedloop.Paired{{Method: "navigator"}}})
	}
	if all := r.Plain(name); len(all) != 1 || all[0].ScenesSHA256 != "" {
		t.Errorf("%d evaluations", len(all))
	}
	if all := r.PairingsWhere(name, func(*closedloop.Pairing) bool { return true }); len(all) != 1 || all[0].ScenesSHA256 != "" {
		t.Errorf("%d pairings", len(all))
	}
	if UndisturbedPlant(&Of[closedloop.Pairing](r)[1]) {
		t.Error("a pairing on scenes that were given counts as the case as it is")
	}
}
