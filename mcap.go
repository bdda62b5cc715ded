package gpc

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/interrupt"
	"github.com/gpc-engine/gpc/internal/recording"
)

// Recorded is what a trace was written as.
type Recorded struct {
	Case     string `json:"case"`     // of the trace
	Method   string `json:"method"`   // that decided
	Episodes int    `json:"episodes"` // written
	Bytes    int64  `json:"bytes"`    // of the file
}

// MCAP writes a trace as a file that Foxglove and Rerun open: scenes, frames and numbers on
// the plant's clock. The file is whole or not there.
func (k *Catalogue) MCAP(ctx context.Context, trace, out string) (*Recorded, error) {
	in, err := os.Open(trace)
	if err != nil {
		return nil, BadInput(err)
	}
	defer in.Close()
	var r Recorded
	var wrong error
	err = durable.Create(out, func(w io.Writer) error {
		size := &counter{w: w}
		h, n, err := recording.Write(size, interrupt.Reader(ctx, in), func(h *closedloop.Header) (*domain.Case, error) {
			c, _, err := k.Traced(h)
			if err != nil {
				return nil, err
			}
			return &c.def, nil
		})
		switch {
		case err == nil:
			r = Recorded{h.Case, h.Method, n, size.n}
		case size.err == nil:
			wrong = err // of the trace
		}
		return err
	})
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, err
	case wrong != nil:
		return nil, badInputf("%s: %w", trace, wrong)
	case err != nil:
		return nil, refused(err)
	}
	return &r, nil
}

// counter counts what is written, and keeps the error that ended it.
type counter struct {
	w   io.Writer
	n   int64
	err error
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	if err != nil {
		c.err = err
	}
	return n, err
}
