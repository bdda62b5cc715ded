package pages

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Rows have the comments of fields: behind the field or above it, without its name; a type with a section of its own stands as a
// reference, embedded fields as their own rows, and a field without a comment is named.
func TestKeysHaveTheCommentsOfTheirFields(t *testing.T) {
	text := require.Get(WriteKeys("../../..", []Section{{Title: "`page`", Note: "A note.", Value: described{}}, {Title: "Object `point`", Value: position{}}}))(t)
	want := "\n## `page`\n\nA note.\n\n| key | meaning |\n|---|---|\n| `name` | who it is |\n| `where` | as `point`: where it stands |\n| `extra` | as `point` |\n| `extra.more` | more of a\\|b |\n" +
		"| `of[].n` | number of them |\n| `by` | by name |\n| `shared` | of the embedded type |\n\n## Object `point`\n\n| key | meaning |\n|---|---|\n| `x` | m |\n| `y` | m |\n\n"
	if text != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
	if _, err := WriteKeys("../../..", []Section{{Title: "`page`", Value: silent{}}}); err == nil || !strings.Contains(err.Error(), "pages.silent.Name") {
		t.Errorf("a field without a comment: %v", err)
	}
}

type position struct {
	X float64 `json:"x"` // m
	// Y is in the same unit, which the comment behind it says.
	Y float64 `json:"y"` // m
}

type shared struct {
	Shared bool `json:"shared"` // of the embedded type
}

type described struct {
	// Name is who
	// it is.
	Name  string    `json:"name"`
	Where *position `json:"where"` // where it stands
	Extra struct {
		position
		More []int `json:"more"` // more of a|b
	} `json:"extra"`
	Of []struct {
		N int `json:"n"` // number of them
	} `json:"of"`
	By map[string]float64 `json:"by"` // by name
	shared
	None int `json:"-"`
}

type silent struct {
	Name string `json:"name"`
}
