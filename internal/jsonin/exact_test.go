package jsonin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

type part struct {
	At   [2]float64 `json:"at"`
	Name string     `json:"name,omitempty"`
}

type whole struct {
	Size  float64         `json:"size"`
	Count int             `json:"count,omitempty"`
	Parts []part          `json:"parts"`
	Loose json.RawMessage `json:"loose,omitempty"`
	Sum   struct {
		A int `json:"a"`
	} `json:"sum,omitzero"`
}

func TestWhatIsNotTakenAsItStandsIsRefusedByItsPath(t *testing.T) {
	const good = `{"size": 1.25, "parts": [{"at": [1, 2]}], "loose": {"x": [1, "}"]}}`
	var w whole
	require.OK(t, Exact([]byte(good), &w))
	if w.Size != 1.25 || w.Parts[0].At != [2]float64{1, 2} {
		t.Errorf("read as %+v", w)
	}
	for text, says := range map[string]string{
		`{"size": 1, "parts": [], "extra": 2}`:                           `unknown field "extra" of the value, want one of size, count, parts, loose, sum`,
		`{"size": 1, "parts": [], "sum": {"a": 1, "aa": 2}}`:             `unknown field "aa" of sum, want one of a`,
		`{"size": 1, "parts": [{"at": [1, 2], "nmae": "x"}]}`:            `unknown field "nmae"`,
		`{"Size": 1, "parts": []}`:                                       "Size is an unknown field",
		`{"parts": []}`:                                                  "size is missing",
		`{"size": 1, "parts": [{"name": "x"}]}`:                          "parts[0].at is missing",
		`{"size": 1, "parts": [{"at": [1]}]}`:                            "parts[0].at has 1 entries, want 2",
		`{"size": 1, "parts": [{"at": [1, 2, 3]}]}`:                      "parts[0].at has 3 entries, want 2",
		`{"size": null, "parts": []}`:                                    "size is null",
		`{"size": 1, "parts": [{"at": [1, null]}]}`:                      "parts[0].at[1] is null",
		`{"size": 1, "parts": [], "loose": {"x": null}}`:                 "loose.x is null",
		`{"size": "1", "parts": []}`:                                     "size is a string, want float64",
		`{"size": 1e999, "parts": []}`:                                   "size",
		`{"size": NaN, "parts": []}`:                                     "invalid character",
		`{"size": 1, "size": 2, "parts": []}`:                            "size appears twice",
		`{"size": 1, "parts": [{"at": [1, 2]}, {"at": [1], "at": [1]}]}`: "parts[1].at appears twice",
		`{"size": 1, "parts": [[[{"a": {"b": 1, "c": 2, "b": 3}}]]]}`:    "parts[0][0][0].a.b appears twice",
		strings.Repeat("[", 20000):                                       "max depth",
		`{"size": 1, "parts": []} {}`:                                    "more than one JSON value",
		`{"size": 1, "parts": [`:                                         "ends before",
		`[1]`:                                                            "the value is a array",
		``:                                                               "ends before",
		`null`:                                                           "null",
	} {
		if err := Exact([]byte(text), new(whole)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want one with %q", text, err, says)
		}
	}
	for _, text := range []string{good, `{"size": 0, "count": 0, "parts": [], "sum": {"a": 0}}`, `{"size": -0.0, "parts": []}`} {
		if err := Exact([]byte(text), new(whole)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestMergeKeepsWhatIsNotGiven(t *testing.T) {
	w := whole{Size: 3, Parts: []part{{At: [2]float64{1, 2}}}}
	require.OK(t, Merge([]byte(`{"count": 4}`), &w))
	if w.Size != 3 || w.Count != 4 || len(w.Parts) != 1 {
		t.Errorf("merged to %+v", w)
	}
	if err := Merge([]byte(`{"parts": [{"at": [1]}]}`), &w); err == nil {
		t.Error("a short list is taken")
	}
}

func FuzzExact(f *testing.F) {
	f.Add([]byte(`{"size": 1, "parts": [{"at": [1, 2], "name": "x"}], "loose": [1]}`))
	f.Add([]byte(`{"size": 1, "size": null, "parts": [{"at": []}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var w whole
		if Exact(text, &w) != nil {
			return
		}
		own := require.Get(json.Marshal(w))(t)
		if err := Exact(own, new(whole)); err != nil {
			t.Fatalf("%s is taken, and as %s refused: %v", text, own, err)
		}
	})
}
