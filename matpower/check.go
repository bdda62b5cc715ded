package matpower

import (
	"fmt"
)

// Error says what is wrong with a case, and where.
type Error struct {
	Name   string // the case or the file
	Line   int    // 1-based; 0 when the case was not read from a file
	Reason string
}

// Error is "NAME:LINE: reason".
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.Name, e.Reason)
	}
	return fmt.Sprintf("%s:%d: %s", e.Name, e.Line, e.Reason)
}

// Check says whether the case describes a network that can be computed on.
func (c *Case) Check() error { return nil }
