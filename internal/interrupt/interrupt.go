// Package interrupt ends a blocked read when a context ends: from a terminal, a pipe that nobody writes to, or a
// device without end.
package interrupt

import (
	"context"
	"io"
)

// Reader is r until ctx is done; then every Read, one in progress included, returns the
// context's error. Bytes that r has for a Read that was left are lost. It is used by one
// goroutine.
func Reader(ctx context.Context, r io.Reader) io.Reader {
	return &reader{ctx: ctx, r: r, done: make(chan result, 1)}
}

type reader struct {
	ctx  context.Context
	r    io.Reader
	own  []byte // what r reads into: a Read that was left may still write there
	done chan result
}

type result struct {
	n   int
	err error
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if len(r.own) < len(p) {
		r.own = make([]byte, len(p))
	}
	own := r.own[:len(p)]
	go func() {
		n, err := r.r.Read(own)
		r.done <- result{n, err}
	}()
	select {
	case got := <-r.done:
		return copy(p, own[:got.n]), got.err
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}
