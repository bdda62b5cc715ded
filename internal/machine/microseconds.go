package machine

import "time"

// Microseconds is a duration in the unit of every time in a record, to the nanosecond.
func Microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
