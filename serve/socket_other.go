//go:build !unix

package serve

import (
	"errors"
	"net"

	"github.com/gpc-engine/gpc"
)

// private refuses: no mode keeps other users of this system from a socket.
func private(string) (net.Listener, error) {
	return nil, gpc.BadInput(errors.New("a socket that is its owner's alone cannot be made on this system: listen at 127.0.0.1 with a token"))
}

func left(error) bool { return false }
