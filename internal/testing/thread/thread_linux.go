package thread

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time since some moment on the clock that SleepUntil sleeps by; nothing sets it.
func Now() time.Duration { return clock(unix.CLOCK_MONOTONIC) }

// SleepUntil sleeps until a time of Now, however long what came before has taken.
func SleepUntil(t time.Duration) error {
	at := unix.NsecToTimespec(int64(t))
	for {
		if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// clock is 0 for a clock that the system does not have.
func clock(id int32) time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(id, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// CPU is what the calling thread has computed so far; 0 where it is not known.
func CPU() time.Duration { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

// Used is what the calling thread has used so far; ok is false where it is not known.
func Used() (u Usage, ok bool) {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &r) != nil {
		return u, false
	}
	return Usage{CPU: CPU(), Involuntary: int(r.Nivcsw), Voluntary: int(r.Nvcsw)}, true
}
