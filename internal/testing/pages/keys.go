// Package pages holds the tests of the documents: links that lead somewhere, an index that names every
// page, measurements that commands write, and JSON that is printed as a page describes it.
//
// The central type is Page: the keys that a document's tables name, by keysHeading.
package pages

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// KeysOf are the keys of a value's JSON, sorted: those of an object within another behind its key
// and a point, of a list's objects behind [] and of a map's behind {}.
func KeysOf(v any) []string {
	keys := map[string]bool{}
	collect(keys, "", reflect.TypeOf(v))
	return slices.Sorted(maps.Keys(keys))
}

var (
	marshaler = reflect.TypeFor[json.Marshaler]()
	texter    = reflect.TypeFor[encoding.TextMarshaler]()
)

// writesItself says whether a type has JSON of its own.
func writesItself(t reflect.Type) bool {
	return t.Implements(marshaler) || t.Implements(texter) || reflect.PointerTo(t).Implements(marshaler)
}

// collect adds the keys of a type at a path.
func collect(keys map[string]bool, path string, t reflect.Type) {
	for t.Kind() == reflect.Pointer && !writesItself(t) {
		t = t.Elem()
	}
	whole := path
	for !writesItself(t) && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map || t.Kind() == reflect.Pointer) {
		switch t.Kind() {
		case reflect.Map:
			path += "{}"
		case reflect.Slice, reflect.Array:
			path += "[]"
		}
		t = t.Elem()
	}
	if writesItself(t) || t.Kind() != reflect.Struct {
		keys[whole] = true
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-", !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "":
			collect(keys, path, f.Type)
		default:
			if name == "" {
				name = f.Name
			}
			collect(keys, strings.TrimPrefix(path+"."+name, "."), f.Type)
		}
	}
}

// Page are the meanings of keys by the headings that a document has them under.
type Page map[string]map[string]string

var (
	keysHeading = regexp.MustCompile("`([^`]+)`")
	row         = regexp.MustCompile("^\\| `([^`]+)` \\| (.*) \\|$")
	as          = regexp.MustCompile("^as `([^`]+)`")
)

// ReadKeys reads a document whose level-two headings name commands in backquotes and whose tables
// have a key in backquotes first, then its meaning. A meaning that begins with "as" and a
// command stands for that one's keys behind the key.
func ReadKeys(path string) (Page, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	page := Page{}
	var now []string
	for n, line := range strings.Split(string(text), "\n") {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			now = nil
			for _, m := range keysHeading.FindAllStringSubmatch(title, -1) {
				if page[m[1]] != nil {
					return nil, fmt.Errorf("%s, line %d: %q is there twice", path, n+1, m[1])
				}
				now, page[m[1]] = append(now, m[1]), map[string]string{}
			}
			continue
		}
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for _, command := range now {
			if page[command][m[1]] != "" || strings.TrimSpace(m[2]) == "" {
				return nil, fmt.Errorf("%s, line %d: %q is there twice, or says nothing", path, n+1, m[1])
			}
			page[command][m[1]] = m[2]
		}
	}
	return page, nil
}

// keys are those of a command, with the ones that stand for others replaced by them.
func (p Page) keys(command string) (keys []string) {
	for key, meaning := range p[command] {
		m := as.FindStringSubmatch(meaning)
		if m == nil {
			keys = append(keys, key)
			continue
		}
		for _, k := range p.keys(m[1]) {
			keys = append(keys, key+"."+k)
		}
	}
	return keys
}

// Differences say which keys of a command's result the page lacks, and which it has that are
// none.
func (p Page) Differences(command string, result any) []string {
	return p.Against(command, KeysOf(result))
}

// Hold fails a test for every difference between a page and what its sections describe, a
// value of each by keysHeading.
func (p Page) Hold(t interface {
	Helper()
	Error(args ...any)
}, sections map[string]any) {
	t.Helper()
	for section, result := range sections {
		for _, d := range p.Differences(section, result) {
			t.Error(d)
		}
	}
}

// Against is Differences from the keys that the section is to have.
func (p Page) Against(command string, want []string) (out []string) {
	if p[command] == nil {
		return []string{fmt.Sprintf("%s has no section", command)}
	}
	got := p.keys(command)
	for _, k := range want {
		if !slices.Contains(got, k) {
			out = append(out, fmt.Sprintf("%s: the page lacks a row | `%s` | … |", command, k))
		}
	}
	for _, k := range got {
		if !slices.Contains(want, k) {
			out = append(out, fmt.Sprintf("%s: the page has `%s`, which is not printed", command, k))
		}
	}
	return out
}
