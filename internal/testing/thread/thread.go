// Package thread reads the clock and the use of a thread, and sleeps until a time: for measurements of the tests and of
// the laboratory.
package thread

import "time"

// Usage is what a thread has used of the machine.
type Usage struct {
	CPU time.Duration
	// Involuntary context switches took the CPU from the thread for another, Voluntary ones it
	// began itself by waiting.
	Involuntary, Voluntary int
}

// Since is what was used after an earlier reading.
func (u Usage) Since(before Usage) Usage {
	return Usage{CPU: u.CPU - before.CPU, Involuntary: u.Involuntary - before.Involuntary, Voluntary: u.Voluntary - before.Voluntary}
}
