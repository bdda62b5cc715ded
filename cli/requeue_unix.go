//go:build unix

package cli

import (
	"os"
	"syscall"
)

// launchers are the signals by which launchers of jobs say that a process is to end soon.
var launchers = []os.Signal{syscall.SIGUSR1}
