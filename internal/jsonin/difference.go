package jsonin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Absent stands for the value of a key that only the other object has.
type Absent struct{}

// String is what a message says of it.
func (Absent) String() string { return "absent" }

// Difference is a place in two values, such as agents[1].goal, "" for the values themselves, and
// what each has there.
type Difference struct {
	Path string
	A, B any
}

// FirstDifference is the first place in which a and b differ: objects are compared by the keys of a in their
// order, then by those of b alone, lists of one length by their entries. Whatever else two values
// are, they differ unless equal says that they do not.
func FirstDifference(a, b any, equal func(a, b any) bool) (d Difference, differ bool) {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		for _, key := range keys(x, y) {
			if d, differ = FirstDifference(valueAt(x, key), valueAt(y, key), equal); differ {
				d.Path = Below(key, d.Path)
				return d, true
			}
		}
		return d, false
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			break
		}
		for i := range x {
			if d, differ = FirstDifference(x[i], y[i], equal); differ {
				d.Path = Below(fmt.Sprintf("[%d]", i), d.Path)
				return d, true
			}
		}
		return d, false
	}
	return Difference{A: a, B: b}, !equal(a, b)
}

// keys are those of x in their order, then those of y alone.
func keys(x, y map[string]any) []string {
	all := slices.Sorted(maps.Keys(x))
	for _, key := range slices.Sorted(maps.Keys(y)) {
		if _, ok := x[key]; !ok {
			all = append(all, key)
		}
	}
	return all
}

func valueAt(object map[string]any, key string) any {
	if v, ok := object[key]; ok {
		return v
	}
	return Absent{}
}

// Below is the path of what stands at path in the value of holder, a key or an entry such as [3].
func Below(holder, path string) string {
	if path == "" || strings.HasPrefix(path, "[") {
		return holder + path
	}
	return holder + "." + path
}
