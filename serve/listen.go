package serve

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/internal/option"
)

const (
	// headPatience is how long a client may take for the head of a request, and for TLS;
	// idlePatience how long a connection may wait for the next.
	headPatience = 5 * time.Second
	idlePatience = time.Minute
	// headBytes of a request's head are read. net/http reads headSlop more than it is told.
	headBytes = 16 << 10
	headSlop  = 4 << 10
	// DefaultConnections may be open at once unless ListenOptions say otherwise.
	DefaultConnections = 4096
	// minToken is how many bytes a token has to have: guessed ones are tried as fast as the
	// server answers.
	minToken = 16
	maxToken = 4096
)

// ListenOptions say where a server is reached over HTTP. The zero value of each is a default.
type ListenOptions struct {
	Address string // host:port; "": none. Port 0 is any that is free.
	Unix    string // path of a socket that its owner alone may open; "": none
	// Token is the one of HTTPOptions: an address beyond this machine is refused without.
	Token string
	// TLSCert and TLSKey are PEM files of the certificate at Address; "": no TLS.
	TLSCert, TLSKey string
	Connections     int // open at once, at each door; one more is closed. 0: DefaultConnections
}

// Listen opens the doors of HTTP. An error is of gpc.BadInput where the options are wrong.
func (s *Server) Listen(o ListenOptions) (listeners []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range listeners {
				l.Close()
			}
			listeners = nil
		}
	}()
	most := cmp.Or(o.Connections, DefaultConnections)
	if (o.TLSCert == "") != (o.TLSKey == "") || o.TLSCert != "" && o.Address == "" {
		return nil, gpc.BadInput(errors.New("serve: TLS needs three things: a certificate, its key and an address"))
	}
	if o.Address != "" {
		address, err := net.ResolveTCPAddr("tcp", o.Address)
		if err != nil {
			return nil, gpc.BadInput(fmt.Errorf("serve: the address %q: %w; want HOST:PORT, such as 127.0.0.1:8080", o.Address, err))
		}
		if !address.IP.IsLoopback() && o.Token == "" {
			return nil, gpc.BadInput(option.Errorf("serve: other machines reach the address %q: it needs a token ({TokenFile}), or an address such as 127.0.0.1:8080", o.Address))
		}
		var cert tls.Certificate
		if o.TLSCert != "" {
			if cert, err = tls.LoadX509KeyPair(o.TLSCert, o.TLSKey); err != nil {
				return nil, gpc.BadInput(fmt.Errorf("serve: the certificate: %w", err))
			}
		}
		l, err := net.ListenTCP("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("serve: %w", err)
		}
		door := s.door(l, most)
		if o.TLSCert != "" {
			door = tls.NewListener(door, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}})
		}
		listeners = append(listeners, door)
	}
	if o.Unix != "" {
		l, err := listenUnix(o.Unix)
		if err != nil {
			return listeners, err
		}
		listeners = append(listeners, s.door(l, most))
	}
	return listeners, nil
}

// listenUnix opens a socket with mode 0600. One that a process left behind is replaced, one that
// somebody answers at is not.
func listenUnix(path string) (net.Listener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, gpc.BadInput(fmt.Errorf("serve: the socket: %w", err))
	case info.Mode().Type() != fs.ModeSocket:
		return nil, gpc.BadInput(fmt.Errorf("serve: %s exists and is not a socket: give the socket another path", path))
	default:
		c, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			c.Close()
			return nil, gpc.BadInput(fmt.Errorf("serve: another process listens at the socket %s: stop it, or give another path", path))
		}
		if !abandoned(err) {
			return nil, gpc.BadInput(fmt.Errorf("serve: the socket %s exists, and whether a process listens there cannot be tried: %w", path, err))
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("serve: the socket %s, left by a process that has ended, cannot be removed: %w", path, err)
		}
	}
	l, err := private(path)
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	return l, nil
}

// ReadToken reads the token of a file: one line of 16 to 4096 printable characters without blanks.
func ReadToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", gpc.BadInput(fmt.Errorf("serve: the token: %w", err))
	}
	token := strings.TrimRight(string(text), "\r\n")
	if len(token) < minToken || len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", gpc.BadInput(fmt.Errorf("serve: the token in %s: want one line of %d to %d printable ASCII characters without blanks", path, minToken, maxToken))
	}
	return token, nil
}
