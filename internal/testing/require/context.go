package require

import "context"

// EndAfter is a context that is cancelled from the n+1-th time on that it is asked for its
// error: an interruption at a place that does not depend on time.
func EndAfter(n int) context.Context { return &endAfter{context.Background(), n} }

type endAfter struct {
	context.Context
	left int
}

func (c *endAfter) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}
