//go:build !unix

package cli

import "os"

// launchers signal nothing on this system.
var launchers []os.Signal
