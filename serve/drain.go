package serve

import "time"

// Drain begins the end: what is asked from now on is refused with ErrClosed, but for the lines
// that Lines has read, and what has no answer after timeLimit gets the fallback, or ErrClosed.
func (s *Server) Drain(timeLimit time.Duration) {
	s.drain.Do(func() {
		close(s.draining)
		time.AfterFunc(timeLimit, func() { close(s.hurry) })
	})
}

// Draining reports whether Drain was called.
func (s *Server) Draining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// Close answers what was asked and gives up the sessions.
func (s *Server) Close() {
	s.closing.Lock()
	if !s.closed.Swap(true) {
		close(s.queue)
	}
	s.closing.Unlock()
	<-s.finished
	s.refining.Wait()
}
