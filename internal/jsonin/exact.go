package jsonin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/internal/names"
)

// Exact decodes one JSON value, such as people write by hand, into what into points to. Every value has to be taken as it
// stands: no null, no unknown or repeated key, no array of another length, no number that the
// field's type rounds. A key that is missing is an error unless its field has omitempty or
// omitzero. Errors begin with the path of what they are about, such as agents[1].goal[0].
func Exact(text []byte, dst any) error { return read(text, dst, false) }

// Merge is Exact of some of the fields alone: the others keep what they have.
func Merge(text []byte, dst any) error { return read(text, dst, true) }

// Known decodes one JSON value that a program wrote: unknown keys and anything behind it are errors.
func Known(text []byte, dst any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(dst); err != nil {
		return plain(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

func read(text []byte, dst any, partial bool) error {
	if err := unique(text); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(dst); err != nil {
		var source any
		if json.Unmarshal(text, &source) != nil {
			return plain(err)
		}
		return cmp.Or(unknown("", source, reflect.TypeOf(dst)), plain(err))
	}
	encoded, err := json.Marshal(dst)
	if err != nil {
		return err
	}
	var source, decoded any
	if err := json.Unmarshal(text, &source); err != nil {
		return plain(err)
	}
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		return err
	}
	return equal(source, decoded, partial)
}

// unknown names the first field of an object that its type does not have, with those that it has; nil for none.
func unknown(path string, source any, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	var known []string
	types := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" && key != "-" {
			known, types[key] = append(known, key), f.Type
		}
	}
	fields, _ := source.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if types[key] == nil {
			return fmt.Errorf("unknown field %q of %s%s, want one of %s", key, name(strings.TrimSuffix(path, ".")), names.Meant(key, known), names.List(known))
		}
		if err := unknown(path+key+".", fields[key], types[key]); err != nil {
			return err
		}
	}
	return nil
}

// plain says of an error of encoding/json which field it is about.
func plain(err error) error {
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s is a %s, want %s", name(kind.Field), kind.Value, kind.Type)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the JSON ends before it is whole")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// name is a path, or what stands for the whole.
func name(path string) string {
	if path == "" {
		return "the value"
	}
	return path
}

// equal reports the first place in which what was taken is not what was given.
func equal(source, decoded any, partial bool) error {
	d, differ := FirstDifference(source, decoded, func(source, decoded any) bool {
		switch {
		case decoded == Absent{}:
			return empty(source)
		case source == Absent{}:
			return partial
		}
		return source != nil && reflect.DeepEqual(source, decoded)
	})
	if !differ {
		return nil
	}
	a, isList := d.A.([]any)
	b, wantsList := d.B.([]any)
	switch {
	case d.B == Absent{}:
		return fmt.Errorf("%s is an unknown field", d.Path)
	case d.A == Absent{}:
		return fmt.Errorf("%s is missing", d.Path)
	case d.A == nil:
		return fmt.Errorf("%s is null", name(d.Path))
	case isList && wantsList:
		return fmt.Errorf("%s has %d entries, want %d", name(d.Path), len(a), len(b))
	}
	return fmt.Errorf("%s is %.60s, which is read as %.60s", name(d.Path), fmt.Sprint(d.A), fmt.Sprint(d.B))
}

// empty reports what a field with omitempty or omitzero leaves out.
func empty(v any) bool {
	switch v := v.(type) {
	case float64:
		return v == 0
	case bool:
		return !v
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, field := range v {
			if !empty(field) {
				return false
			}
		}
		return true
	}
	return false
}

// unique refuses a text that is not one JSON value, or with an object that has a key twice.
func unique(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	var whole json.RawMessage // so that what nested walks is valid, and not too deep for it
	if err := dec.Decode(&whole); err != nil {
		return plain(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one JSON value")
	}
	dec = json.NewDecoder(bytes.NewReader(whole))
	dec.UseNumber()
	err := nested(dec)
	if duplicate, ok := errors.AsType[*FieldError](err); ok {
		return fmt.Errorf("%s appears twice", duplicate.Field)
	}
	return err
}

// nested walks the next value of dec. A key that appears twice is an *FieldError of its path.
func nested(dec *json.Decoder) error {
	token, err := dec.Token()
	switch {
	case err != nil:
		return err
	case token == json.Delim('{'):
		return Members(dec, func(name string) error { return withHolder(name, nested(dec)) })
	case token == json.Delim('['):
		for i := 0; dec.More(); i++ {
			if err := nested(dec); err != nil {
				return withHolder(fmt.Sprintf("[%d]", i), err)
			}
		}
		_, err = dec.Token()
	}
	return err
}

// withHolder puts what holds a value before the path of an error in it.
func withHolder(holder string, err error) error {
	if duplicate, ok := errors.AsType[*FieldError](err); ok {
		duplicate.Field = Below(holder, duplicate.Field)
	}
	return err
}
