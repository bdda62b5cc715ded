package diagnosis

import "time"

// SetCPUTime sets the clock of a check, and returns what puts its own back.
func SetCPUTime(clock func() time.Duration) (restore func()) {
	own := cpuTime
	cpuTime = clock
	return func() { cpuTime = own }
}
