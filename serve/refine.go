package serve

import (
	"context"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
)

// refinements may be asked for at once before the next is refused: one refines at a time.
const refinements = 8

// answerRefinement answers a refinement. One that was asked aside waits for no other.
func (s *Server) answerRefinement(j *job) {
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
	opt := j.refine
	if !j.searchDeadline.IsZero() && s.controlCase.Definition().Learned == nil { // a method's own search is not stopped: its late answer is dropped
		remaining := max(1, time.Until(j.searchDeadline))
		if opt.TimeLimit == 0 || remaining < opt.TimeLimit {
			opt.TimeLimit = remaining
		}
	}
	var result *batchnav.Refinement
	err := s.guarded(func() (err error) {
		result, err = s.refiner.Refine(context.Background(), batchnav.Observation{S: j.request.S, C: j.request.C, Preference: j.preference}, opt)
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
	s.finish(j, Answer{Op: j.op.String(), Session: j.session, Refinement: &Refined{Refinement: *result}}, nil, counted(j, &s.decisions)...)
}
