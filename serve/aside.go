package serve

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/machine"
)

const (
	// asideShare is one over the share of the dispatcher's time that goes into requests aside while other
	// sessions are open: fewer decisions than every tenth can find one in progress, so the 90th
	// percentile of their times stays what it is without them.
	asideShare = 16
	// asideQuiet is how long after the last decision for others a slice may begin before asideShare groups of
	// decisions have been made since the last: a plant that asks again at once would find one at every other of its
	// decisions, however small its share of the time.
	asideQuiet = 10 * time.Millisecond
	// asidePatience is how long a request aside waits for its turn before it is refused with ErrBusy.
	asidePatience = 2 * time.Second
)

// Aside asks for somebody who looks on: no plant waits for its answers. A request is one slice of the
// dispatcher's time. A slice begins only when no other request waits, so that a decision waits for
// the slice in progress at most. While sessions of others are open, slices take at most one
// sixteenth of the time, and where their plants ask again at once, one comes after sixteen decisions.
// Latencies and deadlines count from the beginning of the slice. Metrics and Health count slices apart,
// and a StateFile does not keep sessions that were begun aside.
type Aside struct{ s *Server }

// Aside is the server for somebody who looks on.
func (s *Server) Aside() Aside { return Aside{s} }

// Decide is Server.Decide. Where the server has no time for it within two seconds it is ErrBusy.
func (a Aside) Decide(ctx context.Context, session string, r Request) (*Decision, error) {
	answer, err := a.ask(ctx, &job{op: opDecide, session: session, request: r})
	return answer.Decision, err
}

// Refine is Server.Refine. It is ErrBusy, too, while a refinement is made that was not asked aside.
func (a Aside) Refine(ctx context.Context, session string, r Request, opt batchnav.RefineOptions) (*Refined, error) {
	answer, err := a.ask(ctx, &job{op: opRefine, session: session, request: r, refine: opt})
	return answer.Refinement, err
}

// Front is Server.Front, as Refine.
func (a Aside) Front(ctx context.Context, r Request, opt batchnav.FrontOptions) (*batchnav.Front, error) {
	answer, err := a.ask(ctx, &job{op: opFront, request: r, front: opt})
	return answer.Front, err
}

// Reset is Server.Reset.
func (a Aside) Reset(ctx context.Context, session string) error {
	_, err := a.ask(ctx, &job{op: opReset, session: session})
	return err
}

// Do does something in a slice.
func (a Aside) Do(ctx context.Context, f func() error) error {
	var outcome error
	_, err := a.ask(ctx, &job{op: opInside, task: func() { outcome = a.s.guarded(f) }})
	return cmp.Or(err, outcome)
}

// DecideBy lets a controller of another plant, by Controller, decide in a slice, and prepare its next decision. Its plan is Ahead.
func (a Aside) DecideBy(ctx context.Context, k domain.Controller, p domain.Problem, r Request) (d *Decision, err error) {
	err = a.Do(ctx, func() error {
		start, abilities := time.Now(), domain.AbilitiesOfController(k)
		decision, plan, err := decideBy(k, abilities, p, &r, *r.Preference)
		if err != nil {
			return err
		}
		d, decision.Ahead, decision.LatencyUs = decision, slices.Clone(plan), machine.Microseconds(time.Since(start))
		if abilities.Prepare != nil {
			return abilities.Prepare()
		}
		return nil
	})
	return d, err
}

// Groups is how many groups of decisions the server has made for those whose plants wait: while it grows, somebody
// who looks on does well to ask for less.
func (a Aside) Groups() int64 { return a.s.batches.Load() }

// Controller is the server's method on a case with another plant of the same sizes, made on the server's engine. That
// takes the time of hundreds of decisions, and none of the dispatcher's; its decisions belong into DecideBy.
func (a Aside) Controller(c *gpc.Case) (domain.Controller, error) {
	r, err := c.Resolve(a.s.opt.Setup)
	if err != nil {
		return nil, err
	}
	return r.Controller(a.s.engine)
}

// ask waits for a slice and for its answer.
func (a Aside) ask(ctx context.Context, j *job) (Answer, error) {
	s := a.s
	if s.Draining() {
		return Answer{}, ErrClosed
	}
	j.background, j.ready = true, make(chan struct{})
	patience := time.NewTimer(asidePatience)
	defer patience.Stop()
	select {
	case s.asideQueue <- j:
	case <-patience.C:
		return Answer{}, ErrBusy
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	case <-s.finished:
		return Answer{}, ErrClosed
	}
	<-j.ready
	return j.answer, j.err
}

// next is the group of requests to serve: one aside only where no other waits or comes, and its time has come.
func (s *Server) next(turn *time.Timer) (group []*job, ok bool) {
	for {
		select {
		case group, ok = <-s.queue:
			return s.dequeue(group), ok
		default:
		}
		queue := s.asideQueue
		if s.pending.Load() > 0 { // whoever has asked may be kept from the queue by a busy machine
			queue = nil
		}
		start := s.asideFrom
		if s.foreground > 0 && s.batches.Load()-s.asideAt < asideShare && s.decidedAt.Add(asideQuiet).After(start) {
			start = s.decidedAt.Add(asideQuiet)
		}
		if wait := time.Until(start); wait > 0 {
			queue = nil
			turn.Reset(wait)
		}
		select {
		case group, ok = <-s.queue:
			return s.dequeue(group), ok
		case j := <-queue:
			return []*job{j}, true
		case <-turn.C:
		}
	}
}

// slice answers a request aside, and says from when on the next may be.
func (s *Server) slice(j *job) {
	start := time.Now()
	s.asides.Add(1)
	if err := s.prepare(j, start); err != nil {
		s.fail(j, err)
		return
	}
	s.serve([]*job{j})
	s.asideAt = s.batches.Load()
	if s.foreground > 0 {
		s.asideFrom = time.Now().Add((asideShare - 1) * time.Since(start))
	}
}
