package serve

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/gpc-engine/gpc/internal/jsonin"
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
	alone, each typical // a decision alone, and each further one in its batch, ns
	several     int     // batches of more than one
	most        atomic.Int64
}

// took notes that a batch of n took so long.
func (p *pace) took(n int, d time.Duration, sessions int) {
	if n == 1 {
		p.alone.learn(float64(d))
	} else {
		p.several++
		p.each.learn((float64(d) - float64(p.alone)) / float64(n-1))
	}
	most := 2.0
	if p.several >= learned {
		most = 1 + (stretch-1)*float64(p.alone/p.each)
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

// ask queues one request that began at a time and waits for its answer.
func (s *Server) ask(ctx context.Context, j *job, began time.Time) (Answer, error) {
	err := s.admit(j)
	if err != nil {
		s.count(err)
		return Answer{Op: j.op.String(), Session: j.session}, err
	}
	if err = s.prepare(j, began); err == nil {
		err = s.enqueue([]*job{j}, false)
	}
	if err != nil {
		s.fail(j, err)
	}
	select {
	case <-j.done:
	case <-s.hurry:
		s.giveUp(j)
		<-j.done
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
	return j.answer, j.err
}

// room are the requests of one kind that may be asked at once, and those that are.
func (s *Server) room(o op) (now *atomic.Int64, most int) {
	if o == opRefine {
		return &s.metrics.refining, refinements
	}
	return &s.waiting, s.waitingMax()
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

// admit counts a request that waits, or refuses it.
func (s *Server) admit(j *job) error {
	if s.Draining() {
		return ErrClosed
	}
	now, most := s.room(j.op)
	if now.Add(1) > int64(most) {
		now.Add(-1)
		return ErrBusy
	}
	j.admitted = true
	return nil
}

// release takes a request from those that wait.
func (s *Server) release(j *job) {
	if j.admitted {
		now, _ := s.room(j.op)
		now.Add(-1)
	}
}

// prepare checks a request and starts its clock.
func (s *Server) prepare(j *job, began time.Time) error {
	j.began = began
	if j.done == nil {
		j.done = make(chan struct{})
	}
	if len(j.session) > MaxSessionName {
		return jsonin.Errorf("session", "the name of a session has %d bytes, at most %d are allowed", len(j.session), MaxSessionName)
	}
	if !utf8.ValidString(j.session) {
		return jsonin.Errorf("session", "the name of a session is not UTF-8")
	}
	r := &j.request
	if p := r.Preference; p != nil {
		if err := p.Validate(s.spec.ObjectiveSize()); err != nil {
			return &FieldError{Field: "preference", Err: err}
		}
	}
	if j.op != opDecide && j.op != opRefine {
		return nil
	}
	if m := s.of.Definition().Measurement; m != nil && j.op == opDecide {
		if len(r.Y) != len(m.Outputs) {
			return jsonin.Errorf("y", "field \"y\" has %d entries, case %q has %d measured outputs", len(r.Y), s.spec.Name, len(m.Outputs))
		}
		r.S = slices.Repeat([]float64{math.NaN()}, s.spec.MeasuredSize()) // nobody measured it
	}
	if err := s.spec.CheckSizes(r.S, r.C); err != nil {
		field := "s"
		if len(r.S) == s.spec.MeasuredSize() {
			field = "c"
		}
		return jsonin.Errorf(field, "the observation %w", err)
	}
	if j.op == opDecide && s.opt.MaxAge > 0 && r.Observed.IsZero() {
		return jsonin.Errorf("observed_ms", "field \"observed_ms\" is missing: this server takes observations of at most %v of age; want the time of the measurement, in milliseconds since 1970", s.opt.MaxAge)
	}
	if j.op == opRefine {
		if s.refiner == nil {
			return jsonin.Errorf("op", "method %s of case %s has no map, which a search needs: start the server with a method that has one", s.health.Method, s.spec.Name)
		}
		j.refine.Candidates = cmp.Or(j.refine.Candidates, DefaultCandidates)
		j.refine.Seed, j.refine.Threads = cmp.Or(j.refine.Seed, s.opt.Seed), s.opt.Threads
	}
	if own := s.deadlineOf(j.op); r.Deadline.IsZero() && own > 0 {
		r.Deadline = began.Add(own)
	}
	if r.Deadline.IsZero() {
		return nil
	}
	way := min(reserve, max(0, time.Until(r.Deadline)/10))
	r.Deadline = r.Deadline.Add(-way)
	j.until = r.Deadline.Add(-way)
	j.timer.Store(time.AfterFunc(time.Until(r.Deadline), func() { s.expire(j) }))
	return nil
}

// Deadline is that of a decision which states none; 0: none.
func (s *Server) Deadline() time.Duration { return s.deadlineOf(opDecide) }

// deadlineOf is that of requests which state none; 0: none.
func (s *Server) deadlineOf(of op) time.Duration {
	switch {
	case s.opt.Deadline != Period:
		return s.opt.Deadline
	case of != opDecide:
		return 0
	}
	return time.Duration(min(s.spec.StepSeconds*float64(time.Second), float64(MaxDeadline)))
}
