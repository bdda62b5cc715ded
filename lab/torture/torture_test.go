package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/peerrecord"
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
	record, part := peerrecord.Torture{Seed: 991, Short: true}, filepath.Join(t.TempDir(), "part")
	require.OK(t, run(t.TempDir(), short, t.Output(), &record, part))
	for _, a := range record.Attacks {
		if a.Tried == 0 || len(a.Lost) > 0 || a.Survived != a.Tried {
			t.Errorf("%s, %s: %d of %d survived: %s", a.By, a.On, a.Survived, a.Tried, strings.Join(a.Lost, "; "))
		}
	}
	// The last attack alone is left to a run that goes on.
	again := peerrecord.Torture{Seed: 991, Short: true}
	require.OK(t, run(t.TempDir(), short, t.Output(), &again, part))
	if n := len(record.Attacks); !reflect.DeepEqual(again.Attacks[:n-1], record.Attacks[:n-1]) || len(again.Attacks) != n || again.Attacks[n-1].Tried != record.Attacks[n-1].Tried {
		t.Errorf("gone on with: %+v", again.Attacks)
	}
}
