package jsonin

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	require.OK(t, json.Unmarshal([]byte(text), &v))
	return v
}

// The first difference is named by its path, with what each value has there.
func TestFirst(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{`{"a": [1, {"b": 2}], "c": null}`, `{"c": null, "a": [1, {"b": 2}]}`, ""},
		{`1`, `2`, " 1 2"},
		{`{"a": [1, {"b": 2}]}`, `{"a": [1, {"b": 3}]}`, "a[1].b 2 3"},
		{`[[1, 2], [3, 4]]`, `[[1, 2], [3, 5]]`, "[1][1] 4 5"},
		{`{"z": 1, "b": 1}`, `{"z": 2, "b": 2}`, "b 1 2"},
		{`{"b": 1, "z": 3}`, `{"a": 1, "b": 1, "z": 4}`, "z 3 4"},
		{`{"b": 1}`, `{"a": null, "b": 1}`, "a absent <nil>"},
		{`{"a": {"b": null}}`, `{"a": {}}`, "a.b <nil> absent"},
		{`{"a": [1]}`, `{"a": [1, 2]}`, "a [1] [1 2]"},
		{`{"a": {"b": 1}}`, `{"a": [1]}`, "a map[b:1] [1]"},
	} {
		d, differ := FirstDifference(decoded(t, c.a), decoded(t, c.b), reflect.DeepEqual)
		got := ""
		if differ {
			got = fmt.Sprint(d.Path, " ", d.A, " ", d.B)
		}
		if got != c.want {
			t.Errorf("%s beside %s: %q, want %q", c.a, c.b, got, c.want)
		}
	}
}

// What is neither two objects nor two lists of one length is the same where equal says so.
func TestFirstAsksForTheRest(t *testing.T) {
	calls := 0
	_, differ := FirstDifference(decoded(t, `{"a": [1, "x"], "b": [1]}`), decoded(t, `{"a": [2, null], "b": [1, 2], "c": 1}`), func(any, any) bool {
		calls++
		return true
	})
	if differ || calls != 4 {
		t.Errorf("asked %d times, differ %v; want 4 of two entries, two lists and a key of one", calls, differ)
	}
}
