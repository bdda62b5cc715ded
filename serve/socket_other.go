//go:build !unix

package serve

import (
	"errors"
	"net"

	"github.com/gpc-engine/gpc"
)

// private refuses: no mode keeps other users of this system from a socket.
func private(string) (net.Listener, error) {
	return nil, gpc.BadInput(errors.New("this system cannot restrict a socket to its owner: use --listen 127.0.0.1:PORT with --token-file"))
}

func left(error) bool { return false }
