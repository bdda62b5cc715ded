package main

import (
	"os"
	"syscall"
)

// alone are the settings with which OpenBLAS, which IPOPT and MUMPS call, keeps to one thread. It
// reads them as it is loaded, before main. Its threads wait by spinning, and CPU time would count that.
var alone = []string{"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}

// onOneThread starts the program again where the environment lets libraries take several threads.
func onOneThread() error {
	missing := false
	for _, name := range alone {
		if os.Getenv(name) != "1" {
			missing = true
			if err := os.Setenv(name, "1"); err != nil {
				return err
			}
		}
	}
	if !missing {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, os.Environ())
}
