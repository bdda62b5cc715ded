package report

import (
	"bytes"
	"fmt"
	"slices"
)

// Run is a case as recorded on one device.
type Run struct {
	*Records
	Name string
}

// RunsOf are the cases that have some of what is listed by names, each on its first device.
func RunsOf(all []*Records, names func(r *Records) []string) (out []Run) {
	for _, r := range all {
		for _, name := range names(r) {
			if !slices.ContainsFunc(out, func(other Run) bool { return other.Name == name }) {
				out = append(out, Run{r, name})
			}
		}
	}
	return out
}

// Tables writes tables one below another, without those that have no rows.
func Tables(sections ...Section) string {
	var b bytes.Buffer
	for _, s := range sections {
		if len(s.Rows) < 2 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if s.Note != "" {
			fmt.Fprintf(&b, "%s\n\n", s.Note)
		}
		s.Table(&b)
		s.origins(&b)
	}
	return b.String()
}
