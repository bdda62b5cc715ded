//go:build !unix && !windows

package machine

import "time"

// CPUTime is not known here.
func CPUTime() time.Duration { return 0 }
