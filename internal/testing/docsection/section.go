// Package docsection rewrites the generated sections of documents, each between two lines
// of its own.
package docsection

import (
	"fmt"
	"os"
	"strings"

	"github.com/gpc-engine/gpc/internal/durable"
)

// Section names the lines around a section.
type Section struct{ Begin, End string }

// Replace puts text in the place of what stands between the lines in the file at path,
// and tells whether that differs. Without write the file stays as it is.
func (s Section) Replace(path, text string, write bool) (differs bool, err error) {
	page, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	before, rest, begun := strings.Cut(string(page), s.Begin+"\n")
	old, after, ended := strings.Cut(rest, s.End+"\n")
	if !begun || !ended {
		return false, fmt.Errorf("%s has no section between %q and %q", path, s.Begin, s.End)
	}
	if old == text || !write {
		return old != text, nil
	}
	return true, durable.WriteFile(path, []byte(before+s.Begin+"\n"+text+s.End+"\n"+after), 0o644)
}
