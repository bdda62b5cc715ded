// Package jsonin reads JSON from users and clients, and names the field that is wrong.
//
// Its central types are Fields, an object read field by field as requests and observations are, with
// FieldError for a field that is wrong, and Exact, which takes what people write as it stands or
// refuses it: a field of another case, an array that is too short, a null, a key that appears twice.
// FirstDifference finds where two values differ.
package jsonin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"
)

// FieldError says what is wrong with a field; Field is "" where it is none alone.
type FieldError struct {
	Field string
	Err   error
}

func (e *FieldError) Error() string { return e.Err.Error() }
func (e *FieldError) Unwrap() error { return e.Err }

// Errorf is an error of a field.
func Errorf(field, format string, args ...any) error {
	return &FieldError{field, fmt.Errorf(format, args...)}
}

// Fields are those of an object that nobody has taken yet.
type Fields map[string]json.RawMessage

// Object reads the one object that a text is, behind a byte order mark or not, with no field twice; like is one as an example.
func Object(text []byte, kind, like string) (Fields, error) {
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("the %s is not UTF-8", kind)
	}
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("the %s is not a JSON object, such as %s", kind, like)
	}
	fields := Fields{}
	err := Members(dec, func(name string) error {
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return fmt.Errorf("field %.64q: %w", name, err)
		}
		fields[name] = value
		return nil
	})
	switch {
	case errors.As(err, new(*FieldError)):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("the %s is not JSON: %w", kind, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the %s has more than one JSON value", kind)
	}
	return fields, nil
}

// Members reads the object that dec stands in, behind its brace, to its end: value is called with
// the name of each field and has to read what stands there. A name that appears twice is a
// *FieldError.
func Members(dec *json.Decoder, value func(name string) error) error {
	declared := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string) // an object has no other token here
		if declared[name] {
			return Errorf(name, "field %.64q appears twice", name)
		}
		declared[name] = true
		if err := value(name); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// Nullable takes a field, nil for null; it reports whether it is there. want says what it is to be.
func Nullable[T any](f Fields, name, want string) (v *T, present bool, err error) {
	raw, present := f[name]
	if !present {
		return nil, false, nil
	}
	delete(f, name)
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, true, Errorf(name, "field %q is %.64s, want %s", name, raw, want)
	}
	return v, true, nil
}

// Take takes a field that is not null into what is there to take it, and reports whether it is there.
func Take[T any](f Fields, name, want string, dst *T) (present bool, err error) {
	v, present, err := Nullable[T](f, name, want)
	if err != nil || !present {
		return present, err
	}
	if v == nil {
		return true, Errorf(name, "field %q is null, want %s", name, want)
	}
	*dst = *v
	return true, nil
}

// Missing is the error of a field that has to be there.
func Missing(name, want string) error {
	return Errorf(name, "field %q is missing, want %s", name, want)
}

// Nothing refuses fields that nobody has taken; of is who has no such field.
func (f Fields) Nothing(object string) error {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		return Errorf(name, "%s has no field %.64q", object, name)
	}
	return nil
}
