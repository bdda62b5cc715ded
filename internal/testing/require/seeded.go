package require

import (
	"flag"
	"testing"
)

// Seeded draws the cases of package rapid in this test from one seed, unless a seed is given: of a test
// that counts what its draws met, which other seeds may miss.
func Seeded(t testing.TB) {
	t.Helper()
	seed := flag.Lookup("rapid.seed")
	if seed == nil {
		t.Fatal("this test does not import rapid")
	}
	if seed.Value.String() != "0" {
		return
	}
	OK(t, seed.Value.Set("1"))
	t.Cleanup(func() { OK(t, seed.Value.Set("0")) })
}
