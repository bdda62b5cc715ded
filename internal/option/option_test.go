package option

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
)

// An error names fields as the library has them, and in others' words what wraps it keeps the rest.
func TestFieldsAreSaidInOthersWords(t *testing.T) {
	err := Errorf("{OutDir} is required, and {EstimateFrom} is {not} %q: %w", "x", io.EOF)
	if got := err.Error(); got != `OutDir is required, and EstimateFrom is {not} "x": EOF` || !errors.Is(err, io.EOF) {
		t.Errorf("%q", got)
	}
	wrapped := fmt.Errorf("dataset: %w, said twice", err)
	flag := func(name string) string { return "--" + Kebab(name) }
	if got := In(wrapped, flag); got != `dataset: --out-dir is required, and --estimate-from is {not} "x": EOF, said twice` {
		t.Errorf("%q", got)
	}
	if got := In(io.EOF, flag); got != "EOF" {
		t.Errorf("%q", got)
	}
	if got := In(Errorf("{Backend} cuda: %w", Errorf("{Devices} 7: none")), flag); got != "--backend cuda: --devices 7: none" {
		t.Errorf("%q", got)
	}
	var e *Error
	if !errors.As(wrapped, &e) || !slices.Equal(fieldsOf(e), []string{"OutDir", "EstimateFrom"}) {
		t.Errorf("the fields are %v", fieldsOf(e))
	}
	for name, want := range map[string]string{"TF32": "tf32", "Threads": "threads", "KeepOff": "keep-off", "MapOnly": "map-only"} {
		if got := Kebab(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// fieldsOf are the names of the fields, in the order of the text.
func fieldsOf(e *Error) (names []string) {
	for _, m := range field.FindAllStringSubmatch(e.text, -1) {
		names = append(names, m[1])
	}
	return names
}
