package pages

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

type inner struct {
	X int `json:"x"`
}

type embedded struct {
	E string `json:"e"`
}

type outer struct {
	embedded
	Plain  []float64          `json:"plain,omitempty"`
	List   []inner            `json:"list"`
	Map    map[string]*inner  `json:"map"`
	One    *inner             `json:"one"`
	Values map[string]float64 `json:"values"`
	Time   time.Time          `json:"time"` // writes itself
	Hidden int                `json:"-"`
	Named  int
}

func TestKeysOfTypes(t *testing.T) {
	if got := fmt.Sprint(KeysOf(&outer{})); got != "[Named e list[].x map{}.x one.x plain time values]" {
		t.Errorf("got %s", got)
	}
}

func TestPagesAreHeldToTypes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	require.OK(t, os.WriteFile(path, []byte("## `in`, `in too`\n\n| key | meaning |\n|---|---|\n| `x` | a number |\n\n## `out`\n\n| `list[]` | as `in` |\n| `map{}` | as `in` |\n| `one.y` | nothing |\n"), 0o644))
	p := require.Get(ReadKeys(path))(t)
	if d := p.Differences("in too", inner{}); len(d) != 0 {
		t.Errorf("in too: %v", d)
	}
	d := p.Differences("out", struct {
		List []inner `json:"list"`
		One  inner   `json:"one"`
	}{})
	if fmt.Sprint(d) != "[out: the page lacks a row | `one.x` | … | out: the page has `map{}.x`, which is not printed out: the page has `one.y`, which is not printed]" &&
		fmt.Sprint(d) != "[out: the page lacks a row | `one.x` | … | out: the page has `one.y`, which is not printed out: the page has `map{}.x`, which is not printed]" {
		t.Errorf("out: %v", d)
	}
	if d := p.Differences("nowhere", inner{}); len(d) != 1 {
		t.Errorf("a command without a section: %v", d)
	}
	require.OK(t, os.WriteFile(path, []byte("## `in`\n| `x` | a |\n| `x` | b |\n"), 0o644))
	if _, err := ReadKeys(path); err == nil {
		t.Error("a key that is there twice was taken")
	}
}
