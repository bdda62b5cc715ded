package secure

import (
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
