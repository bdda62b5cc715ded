package serve

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// panicError is a panic as an error.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// panicked reports whether an error was a panic.
func panicked(err error) bool { return errors.As(err, new(*panicError)) }

// guarded makes a panic of f an error.
func (s *Server) guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.opt.Log.Error("panic", "value", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = &panicError{p}
		}
	}()
	return f()
}
