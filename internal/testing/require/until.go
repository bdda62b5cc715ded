package require

import (
	"time"
)

// Waiting is a T that knows by when its test has to end.
type Waiting interface {
	T
	Fatalf(format string, args ...any)
	Deadline() (deadline time.Time, ok bool)
}

const (
	// between two looks at a condition.
	between = time.Millisecond
	// report is what is left of a test's time when a condition that never came is named.
	report = 5 * time.Second
)

// Until waits until is holds, as long as the test may run at all (go test -timeout): a machine that
// is slow or busy fails no test. What names the condition where it never comes.
func Until(t Waiting, what string, is func() bool) {
	t.Helper()
	for !is() {
		if end, ok := t.Deadline(); ok && time.Until(end) < report {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(between)
	}
}
