// Package option is errors about the fields of options. A library names the field, and who asks in other words, as the flags
// of a command line, says it in those.
package option

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Error is an error about options, whose fields stand in braces in its text.
type Error struct {
	text string
	err  error
}

// Errorf is fmt.Errorf of a text in which the names of fields stand in braces, as in "{Threads} is %d: want 0 or more".
func Errorf(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &Error{err.Error(), errors.Unwrap(err)}
}

var field = regexp.MustCompile(`\{([A-Z]\w*)\}`)

// Error has the fields by their own names.
func (e *Error) Error() string { return e.in(func(name string) string { return name }) }
func (e *Error) Unwrap() error { return e.err }

func (e *Error) in(word func(name string) string) string {
	text := field.ReplaceAllStringFunc(e.text, func(found string) string { return word(found[1 : len(found)-1]) })
	if e.err != nil {
		text = strings.Replace(text, e.err.Error(), In(e.err, word), 1)
	}
	return text
}

// In is the text of an error with the fields of an Error that it wraps in other words.
func In(err error, word func(name string) string) string {
	text := err.Error()
	if e, ok := errors.AsType[*Error](err); ok {
		text = strings.Replace(text, e.Error(), e.in(word), 1)
	}
	return text
}

// Kebab is the name of a field as a flag without its dashes: EstimateFrom is estimate-from.
func Kebab(name string) string {
	var b strings.Builder
	for i, r := range name {
		if lower := strings.ToLower(string(r)); lower != string(r) {
			if i > 0 && name[i-1] >= 'a' && name[i-1] <= 'z' {
				b.WriteByte('-')
			}
			b.WriteString(lower)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
