package serve

import (
	"math"
	"sync"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/tensor"
)

// planTails are what is left of the sessions' plans, by name: a decision that comes late is answered by the next action there.
type planTails struct {
	mu    sync.Mutex
	plans map[string][]float64
	width int // of an action
}

// keep remembers what follows the first action of a plan; a plan of none forgets.
func (h *planTails) keep(session string, plan []float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(plan) <= h.width {
		delete(h.plans, session)
		return
	}
	h.plans[session] = append(h.plans[session][:0], plan[h.width:]...)
}

// take writes the next action of a session's plan, which moves on, and reports whether there is one.
func (h *planTails) take(session string, u []float64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	plan := h.plans[session]
	if len(plan) < h.width {
		return false
	}
	copy(u, plan)
	h.plans[session] = append(plan[:0], plan[h.width:]...)
	return tensor.Finite(u)
}

// replacement is the decision of a request whose deadline has come: the next action of the plan before where that keeps the limits, or
// breaks them by less than the problem's fallback, which it is elsewhere.
func (s *Server) replacement(j *job) (*Decision, error) {
	d, err := s.conservative(&j.request)
	if err != nil || j.op != opDecide {
		return d, err
	}
	next := make([]float64, s.spec.ActionSize())
	if !s.plans.take(j.session, next) {
		return d, nil
	}
	measured := s.controlCase.Definition().Delay.Periods == 0 && tensor.Finite(j.request.S) // else nothing is known of where it acts
	err = s.guarded(func() error {
		var source domain.Fallback
		d.Margin, source = closedloop.Hold(s.problem, j.request.S, j.request.C, next, measured, d.U)
		d.Feasible, d.Fallback = s.spec.Keeps(d.Margin), uint32(source)
		return nil
	})
	return d, err
}

// expire answers a request whose deadline has come with the plan before, or the problem's fallback. When it returns, true, the
// answer is there.
func (s *Server) expire(j *job) bool {
	if j.hasAnswer.Load() || !j.expires.CompareAndSwap(false, true) { // its session's plan moves on once
		<-j.ready
		return true
	}
	d, err := s.replacement(j)
	if err != nil {
		s.fail(j, err)
		return true
	}
	a := j.reply()
	switch j.op {
	case opDecide:
		d.Late, d.LatencyUs = true, machine.Microseconds(time.Since(j.start))
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

// conservative is the problem's fallback as a decision.
func (s *Server) conservative(r *Request) (*Decision, error) {
	d := &Decision{U: make([]float64, s.spec.ActionSize()), Residual: math.NaN(), Displacement: math.NaN(), Fallback: uint32(domain.FallbackConservative)}
	err := s.guarded(func() error {
		s.problem.Fallback(r.S, r.C, d.U)
		margins := make([]float64, len(s.spec.Margins))
		s.problem.Margins(r.S, r.C, d.U, margins)
		d.Margin = domain.Smallest(s.spec.LimitMargins(margins))
		d.Feasible = s.spec.Keeps(d.Margin)
		return nil
	})
	return d, err
}
