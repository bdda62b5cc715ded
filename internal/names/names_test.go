package names

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A name is meant by a word with up to two wrong letters, at most half of it, in whatever case, and by its beginning;
// the nearest goes first, and what is near to nothing means nothing.
func TestMeant(t *testing.T) {
	known := []string{"auto", "cuda", "cpu", "ref", "opf30", "opf30-uncertain", "integrator-convex", "mpc-5", "mpc-10", "ppo"}
	for word, want := range map[string]string{
		"cud": "cuda", "cup": "cpu", "opf": "opf30", "CUDA": "cuda", "OPF30": "opf30", "gpu": "cpu", "opf3": "opf30", "opf30-uncertin": "opf30-uncertain",
		"integrator": "integrator-convex", "integrator-convex-2": "integrator-convex", "integrator_convex": "integrator-convex", "mpc-11": "mpc-10", "mcp-5": "mpc-5",
		"boat": "", "": "", "x": "", "re": "ref", "metal": "", "foo": "", "ppp": "ppo",
	} {
		said := Meant(word, known)
		if want != "" {
			want = "; did you mean " + want + "?"
		}
		if said != want {
			t.Errorf("%q: %q, want %q", word, said, want)
		}
	}
	if said := Meant[string]("cpu", nil); said != "" {
		t.Errorf("of no names: %q", said)
	}
}

// The distance is symmetric, 0 of equal words alone, and 1 where one letter is missing or two
// neighbours are exchanged.
func TestDistance(t *testing.T) {
	word := rapid.StringMatching("[ab]{0,5}")
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		if d := distance(a, b); (d == 0) != (a == b) || d != distance(b, a) {
			t.Fatalf("%q and %q are %d apart, %d the other way", a, b, d, distance(b, a))
		}
		if i := strings.Index(a, "ab"); i >= 0 && (distance(a, a[:i]+a[i+1:]) != 1 || distance(a, a[:i]+"ba"+a[i+2:]) != 1) {
			t.Fatalf("%q without a letter is %d away, with two exchanged %d", a, distance(a, a[:i]+a[i+1:]), distance(a, a[:i]+"ba"+a[i+2:]))
		}
	})
}
