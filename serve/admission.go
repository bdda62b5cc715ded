package serve

import (
	"sync/atomic"
	"time"
)

const (
	// reserve of a deadline is kept for the answer's way out: a tenth, but no more than that.
	reserve = 500 * time.Microsecond
	// Measured is the Options.Waiting of a server that measures it.
	Measured = -1
	// stretch is how many times as long as one decision a batch takes of as many as Measured lets
	// in: what is let in waits for one batch at most, besides its own.
	stretch = 1.5
	// learned is how many batches of several are decided before their time is gone by; until then
	// two are let in.
	learned = 32
)

// pace is how long batches take. It is the dispatcher's, but for most.
type pace struct {
	single, marginal typical // a decision alone, and each further one in its batch, ns
	several          int     // batches of more than one
	most             atomic.Int64
}

// observeBatch notes that a batch of n took so long.
func (p *pace) observeBatch(n int, d time.Duration, sessions int) {
	if n == 1 {
		p.single.learn(float64(d))
	} else {
		p.several++
		p.marginal.learn((float64(d) - float64(p.single)) / float64(n-1))
	}
	most := 2.0
	if p.several >= learned {
		most = 1 + (stretch-1)*float64(p.single/p.marginal)
	}
	p.most.Store(int64(min(most, float64(sessions))))
}

// typical is near the median of positive numbers: one that is far off moves it no further than
// any other.
type typical float64

func (t *typical) learn(x float64) {
	const step = 1.0 / 32
	switch {
	case *t == 0:
		*t = typical(max(1, x))
	case x > float64(*t):
		*t *= 1 + step
	default:
		*t = max(1, *t*(1-step))
	}
}

// room are the requests of one kind that may be asked at once, and those that are.
func (s *Server) room(o op) (now *atomic.Int64, most int) {
	if o == opRefine || o == opFront {
		return &s.metrics.refining, refinements
	}
	return &s.queued, s.waitingMax()
}

// waitingMax is how many requests that Options.Waiting counts may be asked at once.
func (s *Server) waitingMax() int {
	if s.opt.Waiting == Measured {
		return int(max(1, s.pace.most.Load()))
	}
	return s.opt.Waiting
}

// busy reports whether a request would be refused now.
func (s *Server) busy(o op) bool {
	now, most := s.room(o)
	return now.Load() >= int64(most)
}
