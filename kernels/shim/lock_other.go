//go:build !linux

package shim

import "errors"

func lockFile(string) (func(), error) {
	return nil, errors.New("the host shim is built on Linux only")
}
