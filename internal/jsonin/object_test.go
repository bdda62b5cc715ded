package jsonin

import (
	"errors"
	"strings"
	"testing"
)

func field(err error) string {
	var e *FieldError
	if errors.As(err, &e) {
		return e.Field
	}
	return ""
}

// What is no object by itself is refused, with the field where it is about one.
func TestRead(t *testing.T) {
	for text, want := range map[string]struct{ field, says string }{
		``: {"", "not a JSON object, such as {}"}, `null`: {"", "not a JSON object"}, `[1]`: {"", "not a JSON object"}, "{\"a\":\"\xff\"}": {"", "UTF-8"},
		`{"a":1`: {"", "not JSON"}, `{"a":}`: {"", `field "a"`}, `{"a":1}{}`: {"", "more than one"}, `{"a":1} x`: {"", "more than one"},
		`{"a":1,"b":{},"a":2}`: {"a", `field "a" appears twice`}, `{"a":1,"\u0061":2}`: {"a", "twice"}, `{1:2}`: {"", "not JSON"},
	} {
		if f, err := Object([]byte(text), "body", "{}"); err == nil || field(err) != want.field || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%q: %v, %v; want field %q and an error that mentions %s", text, f, err, want.field, want.says)
		}
	}
	f, err := Object([]byte("\ufeff"+` {"a":[1, 2],"b":null} `), "body", "{}")
	if err != nil || len(f) != 2 || string(f["a"]) != "[1, 2]" || string(f["b"]) != "null" {
		t.Errorf("%q, %v", f, err)
	}
}

// Fields are taken once, as the type that is wanted, and what is left over is named.
func TestFieldsAreTaken(t *testing.T) {
	f, err := Object([]byte(`{"n":3,"s":"x","none":null,"list":[1],"z":0}`), "body", "{}")
	if err != nil {
		t.Fatal(err)
	}
	n := 7
	if there, err := Take(f, "n", "a number", &n); !there || err != nil || n != 3 {
		t.Errorf("%v %v %d", there, err, n)
	}
	if there, err := Take(f, "n", "a number", &n); there || err != nil || n != 3 {
		t.Errorf("the second time: %v %v %d", there, err, n)
	}
	if there, err := Take(f, "s", "a number", &n); !there || field(err) != "s" || !strings.Contains(err.Error(), `"x", want a number`) || n != 3 {
		t.Errorf("another type: %v %v %d", there, err, n)
	}
	if _, err := Take(f, "none", "a number", &n); field(err) != "none" || !strings.Contains(err.Error(), "null, want a number") {
		t.Errorf("null: %v", err)
	}
	if v, there, err := Nullable[[]int](f, "list", "a list"); !there || err != nil || len(*v) != 1 {
		t.Errorf("%v %v %v", v, there, err)
	}
	f["none"] = []byte("null")
	if v, there, err := Nullable[int](f, "none", "a number"); v != nil || !there || err != nil {
		t.Errorf("%v %v %v", v, there, err)
	}
	if err := f.Nothing("reset"); field(err) != "z" || !strings.Contains(err.Error(), "reset has no field") {
		t.Errorf("left over: %v", err)
	}
	delete(f, "z")
	if err := f.Nothing("reset"); err != nil {
		t.Errorf("nothing left over: %v", err)
	}
	if err := Missing("w", "weights"); field(err) != "w" || !strings.Contains(err.Error(), "missing, want weights") {
		t.Error(err)
	}
}
