package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// wire is a connection that asks one request after another.
type wire struct {
	net.Conn
	from     *bufio.Reader
	patience time.Duration // for an answer
}

func (l *load) dial() (*wire, error) {
	c, err := new(net.Dialer).DialContext(l.ctx, "tcp", l.address)
	if err != nil {
		return nil, err
	}
	return &wire{c, bufio.NewReaderSize(c, 1<<14), l.o.patience}, nil
}

// request is one as it goes over the wire.
func request(path string, body []byte) []byte {
	return append(fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", path, len(body)), body...)
}

// decide is the request of a session for observation i.
func (l *load) decide(session string, i int) []byte {
	return request("/v1/decide", append(fmt.Appendf(nil, `{"session":%q,`, session), l.asks[i%len(l.asks)]...))
}

// ask sends a request and reads the status and the body of its answer. The body is valid until the
// next.
func (w *wire) ask(request []byte) (status int, body []byte, err error) {
	w.SetDeadline(time.Now().Add(w.patience))
	if _, err := w.Write(request); err != nil {
		return 0, nil, err
	}
	line, err := w.from.ReadString('\n')
	if err != nil {
		return 0, nil, err
	}
	if len(line) < 12 {
		return 0, nil, fmt.Errorf("a status of %q", line)
	}
	if status, err = strconv.Atoi(line[9:12]); err != nil {
		return 0, nil, err
	}
	length := 0
	for {
		if line, err = w.from.ReadString('\n'); err != nil {
			return 0, nil, err
		}
		if line == "\r\n" {
			break
		}
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return 0, nil, err
			}
		}
	}
	body = make([]byte, length)
	_, err = io.ReadFull(w.from, body)
	return status, body, err
}

// each runs f on n connections, which it closes, and gives their errors.
func (l *load) each(n int, f func(i int, w *wire) error) error {
	var wait sync.WaitGroup
	errs := make([]error, n)
	for i := range errs {
		wait.Go(func() {
			w, err := l.dial()
			if err == nil {
				err = f(i, w)
			}
			errs[i] = err
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}
