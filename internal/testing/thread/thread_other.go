//go:build !linux

package thread

import "time"

var begun = time.Now()

// Now is the time since some moment on the clock that SleepUntil sleeps by; nothing sets it.
func Now() time.Duration { return time.Since(begun) }

// SleepUntil sleeps until a time of Now, however long what came before has taken.
func SleepUntil(t time.Duration) error {
	time.Sleep(t - Now())
	return nil
}

// Used is not known here.
func Used() (u Usage, ok bool) { return u, false }
