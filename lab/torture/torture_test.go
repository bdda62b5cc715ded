package main

import (
	"os"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// TestMain is also the program under attack.
func TestMain(m *testing.M) {
	if room, ok := os.LookupEnv(environment); ok {
		os.Exit(be(room))
	}
	os.Exit(m.Run())
}

// A few of each attack are survived.
func TestShort(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts the program a hundred times")
	}
	attacks := require.Get(run(t.TempDir(), short, 991, t.Output()))(t)
	for _, a := range attacks {
		if a.Tried == 0 || len(a.Lost) > 0 || a.Survived != a.Tried {
			t.Errorf("%s, %s: %d of %d survived: %s", a.By, a.On, a.Survived, a.Tried, strings.Join(a.Lost, "; "))
		}
	}
}
