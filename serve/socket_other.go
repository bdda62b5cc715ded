//go:build !unix

package serve

import (
	"net"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/internal/option"
)

// private refuses: no mode keeps other users of this system from a socket.
func private(string) (net.Listener, error) {
	return nil, gpc.BadInput(option.Errorf("this system cannot restrict a socket to its owner: use {Listen} 127.0.0.1:PORT with {TokenFile}"))
}

func abandoned(error) bool { return false }
