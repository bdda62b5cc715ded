//go:build unix

package serve

import (
	"errors"
	"net"
	"syscall"
)

// private listens at a socket that is its owner's alone from the moment on that it is there.
func private(path string) (net.Listener, error) {
	umask := syscall.Umask(0o177)
	defer syscall.Umask(umask)
	return net.Listen("unix", path)
}

// abandoned reports whether an error of dialling says that nobody listens at a socket that is there.
func abandoned(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
