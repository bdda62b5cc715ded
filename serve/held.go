package serve

import (
	"math"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// held are what is left of the sessions' plans, by name: a decision that comes late is answered by the next action there.
type held struct {
	mu    sync.Mutex
	plans map[string][]float64
	width int // of an action
}

// keep remembers what follows the first action of a plan; a plan of none forgets.
func (h *held) keep(session string, plan []float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(plan) <= h.width {
		delete(h.plans, session)
		return
	}
	h.plans[session] = append(h.plans[session][:0], plan[h.width:]...)
}

// take writes the next action of a session's plan, which moves on, and reports whether there is one.
func (h *held) take(session string, u []float64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	plan := h.plans[session]
	if len(plan) < h.width {
		return false
	}
	copy(u, plan)
	h.plans[session] = append(plan[:0], plan[h.width:]...)
	return isFinite(u)
}

// replacement is the decision of a request whose deadline has come: the next action of the plan before where that keeps the limits, or
// breaks them by less than the problem's fallback, which it is elsewhere.
func (s *Server) replacement(j *job) (*Decision, error) {
	d, err := s.conservative(&j.request)
	if err != nil || j.op != opDecide {
		return d, err
	}
	next := make([]float64, s.spec.ActionSize())
	if !s.held.take(j.session, next) {
		return d, nil
	}
	known := s.of.Definition().Delay.Periods == 0 && isFinite(j.request.S) // else nothing is known of where it acts
	err = s.guarded(func() error {
		var by domain.Fallback
		d.Margin, by = closedloop.Hold(s.problem, j.request.S, j.request.C, next, known, d.U)
		d.Feasible, d.Fallback = s.spec.Keeps(d.Margin), uint32(by)
		return nil
	})
	return d, err
}

// isFinite reports whether every value is a number.
func isFinite(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}
