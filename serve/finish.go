package serve

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/machine"
)

// finish answers a request, which the counters count, and reports whether it was not
// answered yet. When it returns the answer is there.
func (s *Server) finish(j *job, a Answer, err error, counters ...*atomic.Int64) bool {
	if !j.answered.CompareAndSwap(false, true) {
		<-j.done
		return false
	}
	j.answer, j.err = a, err
	for _, c := range counters {
		c.Add(1)
	}
	if !j.aside {
		s.metrics.answered(j)
	}
	s.watchers.tell(j)
	s.release(j)
	j.stop()
	close(j.done)
	return true
}

// fail answers a request with an error.
func (s *Server) fail(j *job, err error) {
	if s.finish(j, Answer{Op: j.op.String(), Session: j.session}, err) && !j.aside {
		s.count(err)
	}
}

// count counts an error that was answered.
func (s *Server) count(err error) {
	s.refused.Add(1)
	s.metrics.refuse(err)
}

// conservative is the problem's fallback as a decision.
func (s *Server) conservative(r *Request) (*Decision, error) {
	d := &Decision{U: make([]float64, s.spec.ActionSize()), Residual: math.NaN(), Displacement: math.NaN(), Fallback: uint32(domain.FallbackConservative)}
	err := s.guarded(func() error {
		s.problem.Fallback(r.S, r.C, d.U)
		margins := make([]float64, len(s.spec.Margins))
		s.problem.Margins(r.S, r.C, d.U, margins)
		d.Margin = domain.Smallest(margins)
		d.Feasible = s.spec.Keeps(d.Margin)
		return nil
	})
	return d, err
}

// expire answers a request whose deadline has come with the plan before, or the problem's fallback. When it returns, true, the
// answer is there.
func (s *Server) expire(j *job) bool {
	if j.answered.Load() || !j.expires.CompareAndSwap(false, true) { // its session's plan moves on once
		<-j.done
		return true
	}
	d, err := s.replacement(j)
	if err != nil {
		s.fail(j, err)
		return true
	}
	a := Answer{Op: j.op.String(), Session: j.session}
	switch j.op {
	case opDecide:
		d.Late, d.LatencyUs = true, machine.Microseconds(time.Since(j.began))
		a.Decision = d
	case opRefine:
		plan := make([]float64, 0, s.spec.PlanSize())
		for range s.spec.Plan {
			plan = append(plan, d.U...)
		}
		a.Refinement = &Refined{Late: true, Refinement: batchnav.Refinement{U: plan, Cost: math.NaN(), Margin: d.Margin, Feasible: d.Feasible, Residual: math.NaN(), LocalizedCost: math.NaN()}}
	}
	s.finish(j, a, nil, counted(j, &s.late)...)
	return true
}

// counted are the counters of a request's answer: none of one that was asked aside.
func counted(j *job, counters ...*atomic.Int64) []*atomic.Int64 {
	if j.aside {
		return nil
	}
	return counters
}
