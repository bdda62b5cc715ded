package machine

import (
	"time"

	"golang.org/x/sys/windows"
)

// CPUTime is what the process has computed so far, on all threads; 0 where it is not
// known.
func CPUTime() time.Duration {
	var created, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(windows.CurrentProcess(), &created, &exited, &kernel, &user) != nil {
		return 0
	}
	const unit = 100 * time.Nanosecond
	of := func(t windows.Filetime) time.Duration {
		return unit * time.Duration(uint64(t.HighDateTime)<<32|uint64(t.LowDateTime))
	}
	return of(kernel) + of(user)
}
