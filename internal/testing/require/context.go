package require

import (
	"context"
	"sync/atomic"
)

// EndAfter is a context that is cancelled from the n+1-th time on that it is asked for its
// error, by whichever goroutine: an interruption at a place that does not depend on time.
func EndAfter(n int) context.Context {
	c := &endAfter{Context: context.Background()}
	c.left.Store(int64(n))
	return c
}

type endAfter struct {
	context.Context
	left atomic.Int64
}

func (c *endAfter) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}
