// Package exactjson reads JSON that people write by hand: what encoding/json would pass over
// in silence, a field of another case, an array that is too short, a null, a key that is there
// twice, is an error that names it.
//
// The central function is Read.
package exactjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Read decodes one JSON value into what into points to. Every value has to be taken as it
// stands: no null, no unknown or repeated key, no array of another length, no number that the
// field's type rounds. A key that is missing is an error unless its field has omitempty or
// omitzero. Errors begin with the path of what they are about, such as agents[1].goal[0].
func Read(text []byte, into any) error { return read(text, into, false) }

// Merge is Read of some of the fields alone: the others keep what they have.
func Merge(text []byte, into any) error { return read(text, into, true) }

func read(text []byte, into any, some bool) error {
	if err := unique(text); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return plain(err)
	}
	own, err := json.Marshal(into)
	if err != nil {
		return err
	}
	var given, taken any
	if err := json.Unmarshal(text, &given); err != nil {
		return plain(err)
	}
	if err := json.Unmarshal(own, &taken); err != nil {
		return err
	}
	return same("", given, taken, some)
}

// plain says of an error of encoding/json which field it is about.
func plain(err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
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

// same reports the first place in which what was taken is not what was given.
func same(path string, given, taken any, some bool) error {
	switch a := given.(type) {
	case nil:
		return fmt.Errorf("%s is null", name(path))
	case map[string]any:
		b, ok := taken.(map[string]any)
		if !ok {
			break
		}
		for _, key := range slices.Sorted(maps.Keys(a)) {
			at := strings.TrimPrefix(path+"."+key, ".")
			own, ok := b[key]
			if !ok && !empty(a[key]) {
				return fmt.Errorf("%s is no field here", at)
			}
			if !ok {
				continue
			}
			if err := same(at, a[key], own, some); err != nil {
				return err
			}
		}
		for _, key := range slices.Sorted(maps.Keys(b)) {
			if _, ok := a[key]; !ok && !some {
				return fmt.Errorf("%s is missing", strings.TrimPrefix(path+"."+key, "."))
			}
		}
		return nil
	case []any:
		b, ok := taken.([]any)
		if !ok {
			break
		}
		if len(a) != len(b) {
			return fmt.Errorf("%s has %d entries, want %d", name(path), len(a), len(b))
		}
		for i := range a {
			if err := same(fmt.Sprintf("%s[%d]", path, i), a[i], b[i], some); err != nil {
				return err
			}
		}
		return nil
	default:
		if given == taken {
			return nil
		}
	}
	return fmt.Errorf("%s is %.60s, which is read as %.60s", name(path), fmt.Sprint(given), fmt.Sprint(taken))
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

// unique refuses a text with more than one value, or an object with a key twice.
func unique(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	type level struct {
		keys  map[string]bool // of an object; nil: a list
		key   string
		value bool // what comes next is a value of key
		index int
	}
	var open []level
	path := func() string {
		var b strings.Builder
		for _, l := range open {
			if l.keys == nil {
				fmt.Fprintf(&b, "[%d]", l.index)
			} else {
				b.WriteString("." + l.key)
			}
		}
		return strings.TrimPrefix(b.String(), ".")
	}
	done := func() { // a value has ended
		if n := len(open); n > 0 {
			open[n-1].value = false
			open[n-1].index++
		}
	}
	for first := true; ; first = false {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) && !first && len(open) == 0 {
			return nil
		}
		if err != nil {
			return plain(err)
		}
		if len(open) == 0 && !first {
			return errors.New("there is more than one JSON value")
		}
		n := len(open)
		switch t := token.(type) {
		case json.Delim:
			switch t {
			case '{':
				open = append(open, level{keys: map[string]bool{}})
			case '[':
				open = append(open, level{})
			default:
				open = open[:n-1]
				done()
			}
		case string:
			if n == 0 || open[n-1].keys == nil || open[n-1].value {
				done()
				break
			}
			l := &open[n-1]
			l.key, l.value = t, true
			if l.keys[t] {
				return fmt.Errorf("%s is there twice", path())
			}
			l.keys[t] = true
		default:
			done()
		}
	}
}
