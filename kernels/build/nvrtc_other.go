//go:build !unix

package main

import (
	"errors"

	"github.com/gpc-engine/gpc/kernels/images"
)

type nvrtc struct{}

func openCompiler(images.Module) (*nvrtc, error) {
	return nil, errors.New("kernels are compiled on Linux: the package " + wheel + " is for it")
}

func (*nvrtc) compile(string, []byte, images.Target) ([]byte, string, error) {
	return nil, "", errors.ErrUnsupported
}
