package serve

import (
	"cmp"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/dataset"
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
		r, err := s.refiner.Refine(j.run, batchnav.Observation{S: j.request.S, C: j.request.C, Preference: j.preference}, opt)
		if err != nil {
			return Answer{}, err
		}
		return Answer{Refinement: &Refined{Refinement: *r}}, nil
	})
}

// frontable completes the options of a front, or says why there is none.
func (s *Server) frontable(j *job) error {
	o, d := &j.front, s.controlCase.Definition()
	switch {
	case d.Delay.Periods > 0:
		return jsonin.Errorf("op", "case %s has a delay: a front does not count the actions under way", s.spec.Name)
	case !s.solved(j) && o.TimeLimit > 0:
		return jsonin.Errorf("deadline_ms", "a map's front has no deadline: state one with exact")
	case !s.solved(j) && s.mapless():
		return jsonin.Errorf("op", "method %s of case %s has no map of the case's own problem, which a front needs", s.health.Method, s.spec.Name)
	case s.solved(j) && j.background:
		return jsonin.Errorf("op", "the points of a front of case %s are searched, which takes seconds", s.spec.Name)
	}
	o.Threads = s.opt.Threads
	return nil
}

// solved reports whether the points of a front are solved or searched one after another.
func (s *Server) solved(j *job) bool { return j.exact > 0 || len(s.spec.Switches) > 0 }

// mapless reports whether the method has no map of the case's own problem.
func (s *Server) mapless() bool {
	return s.opt.Setup.Model == nil || s.controlCase.Definition().Learned != nil
}

// answerFront answers a front. It ends once the request has another answer.
func (s *Server) answerFront(j *job) {
	if s.solved(j) {
		s.answerSolvedFront(j)
		return
	}
	s.exclusive(j, func() (a Answer, err error) {
		a.Front, err = s.front(&s.fronts, j)
		return a, err
	})
}

// front is the map's, or that of switched inputs, by fronts that are made once.
func (s *Server) front(fronts **batchnav.Fronts, j *job) (_ *batchnav.Front, err error) {
	if *fronts == nil {
		if *fronts, err = s.controlCase.Fronts(s.engine, s.opt.Setup); err != nil {
			return nil, err
		}
	}
	return (*fronts).Front(j.run, batchnav.Observation{S: j.request.S, C: j.request.C}, j.front)
}

// answerSolvedFront answers a front of the exact solver and the map's of the same weightings, or one of switched inputs. Only one is solved at a
// time. It has one thread, and holds up no decision, refinement or front of a map.
func (s *Server) answerSolvedFront(j *job) {
	if !s.exact.TryLock() {
		s.fail(j, ErrBusy)
		return
	}
	defer s.exact.Unlock()
	a := j.reply()
	if err := s.guarded(func() error { return s.solveFront(j, &a) }); err != nil {
		s.fail(j, err)
		return
	}
	s.finish(j, a, nil, counted(j, &s.decisions)...)
}

// solveFront solves a front. exact is locked.
func (s *Server) solveFront(j *job, a *Answer) (err error) {
	o := &j.front
	limit := min(cmp.Or(o.TimeLimit, MaxExactTime), MaxExactTime)
	if j.exact == 0 {
		o.TimeLimit = limit
		a.Front, err = s.front(&s.exactFronts, j)
		return err
	}
	o.Weights, o.TimeLimit = dataset.Proper(s.spec.ObjectiveSize(), j.exact), 0
	if !s.mapless() {
		o.Plans = true
		a.Same, err = s.front(&s.exactFronts, j)
	}
	if err == nil {
		o.TimeLimit = max(1, limit-time.Since(j.start))
		a.Exact, err = s.controlCase.ExactFront(j.run, batchnav.Observation{S: j.request.S, C: j.request.C}, *o, a.Same)
	}
	if err == nil && a.Same != nil {
		a.HypervolumeRatio = new(gpc.HypervolumeRatio(a.Same, a.Exact))
	}
	return err
}
