package serve

import (
	"cmp"
	"context"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/internal/jsonin"
)

// refinements, and fronts, may be asked for at once before the next is refused: one is made at a time.
const refinements = 8

// exclusive answers a request with what answer makes while nothing else refines. One that was asked aside waits for no other.
func (s *Server) exclusive(j *job, answer func() (Answer, error)) {
	if !j.background {
		s.refine.Lock()
	} else if !s.refine.TryLock() {
		s.fail(j, ErrBusy)
		return
	}
	defer s.refine.Unlock()
	if j.finished() {
		return
	}
	if j.overdue() { // it came too late, or waited too long
		s.expire(j)
		return
	}
	var a Answer
	err := s.guarded(func() (err error) {
		a, err = answer()
		return err
	})
	if err != nil {
		s.fail(j, err)
		return
	}
	if j.overdue() {
		s.expire(j)
		return
	}
	a.Op, a.Session = j.op.String(), j.session
	s.finish(j, a, nil, counted(j, &s.decisions)...)
}

// answerRefinement answers a refinement.
func (s *Server) answerRefinement(j *job) {
	s.exclusive(j, func() (Answer, error) {
		opt := j.refine
		if !j.searchDeadline.IsZero() && s.controlCase.Definition().Learned == nil { // a method's own search is not stopped: its late answer is dropped
			remaining := max(1, time.Until(j.searchDeadline))
			if opt.TimeLimit == 0 || remaining < opt.TimeLimit {
				opt.TimeLimit = remaining
			}
		}
		r, err := s.refiner.Refine(context.Background(), batchnav.Observation{S: j.request.S, C: j.request.C, Preference: j.preference}, opt)
		if err != nil {
			return Answer{}, err
		}
		return Answer{Refinement: &Refined{Refinement: *r}}, nil
	})
}

// frontable completes the options of a front, or says why there is none.
func (s *Server) frontable(o *batchnav.FrontOptions) error {
	switch d := s.controlCase.Definition(); {
	case d.Delay.Periods > 0:
		return jsonin.Errorf("op", "case %s has a delay: a front does not count the actions under way", s.spec.Name)
	case s.opt.Setup.Model == nil || d.Learned != nil:
		return jsonin.Errorf("op", "method %s of case %s has no map of the case's own problem, which a front needs", s.health.Method, s.spec.Name)
	}
	o.Points, o.Threads = cmp.Or(o.Points, batchnav.DefaultPoints), s.opt.Threads
	return nil
}

// answerFront answers a front.
func (s *Server) answerFront(j *job) {
	s.exclusive(j, func() (a Answer, err error) {
		if points := max(j.front.Points, len(j.front.Weights)); points > s.frontPoints {
			if s.fronts, err = s.controlCase.Fronts(s.engine, s.opt.Setup, points); err != nil {
				return a, err
			}
			s.frontPoints = points
		}
		a.Front, err = s.fronts.Front(context.Background(), batchnav.Observation{S: j.request.S, C: j.request.C}, j.front)
		return a, err
	})
}
