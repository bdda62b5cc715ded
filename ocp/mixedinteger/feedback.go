package mixedinteger

import (
	"bytes"
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// Feedback is a solved plan with the answer of its actions without a switch to other states than its own. Candidates that follow it are
// their switches alone.
type Feedback struct {
	places  []uint8   // of the plan's switches
	actions []float64 // of the plan, [steps·action]
	states  []float64 // before each of them, [steps·state]
	gains   []float64 // of the actions without a switch, [steps][continuous][state]
}

// Actions are those of the plan, [steps·action].
func (f *Feedback) Actions() []float64 { return f.actions }

// follow writes the actions without a switch, of which continuous are the entries, of step h from a state. Beyond the box they are at its
// edge.
func (f *Feedback) follow(spec *domain.Spec, continuous []int, h int, s, u []float64) {
	ns, n := len(s), len(continuous)
	x := f.states[h*ns : (h+1)*ns]
	for k, a := range continuous {
		v := f.actions[h*len(u)+a]
		for i, g := range f.gains[(h*n+k)*ns:][:ns] {
			v += g * (s[i] - x[i])
		}
		if b := &spec.Action[a]; b.Bounded() {
			v = math.Min(b.Hi, math.Max(b.Lo, v))
		}
		u[a] = v
	}
}

// Follow makes the candidates from here on follow a solved plan of as many steps, its own switches first; nil: none.
func (s *Search) Follow(f *Feedback) {
	if f != nil && len(f.places) != len(s.spec.Switches)*s.steps {
		f = nil
	}
	s.rollout.feedback, s.followed = f, f != nil
	s.keys.clear()
	s.neighbours.clear()
}

// FollowBest rolls out what was offered and makes the candidates follow the best plan, which Solve solves for its switches. It does nothing
// without Solve, where that plan is followed already, or where it cannot be solved.
func (s *Search) FollowBest() {
	if s.Solve == nil {
		return
	}
	s.runOffered()
	best := s.Best()
	if best == nil || s.rollout.feedback != nil && bytes.Equal(best.Places, s.rollout.feedback.places) {
		return
	}
	if f := s.Solve(best); f != nil {
		s.Follow(f)
	}
}

// solveElites solves at most n of the best plans, each other switches, and follows the best of all. It returns what is followed.
func (s *Search) solveElites(n int) *Feedback {
	s.FollowBest()
	s.runOffered()
	if s.Solve == nil {
		return s.rollout.feedback
	}
	answers := map[string]*Feedback{}
	if f := s.rollout.feedback; f != nil {
		answers[string(f.places)] = f
	}
	for i := 0; i < len(s.elites) && len(answers) < n; i++ {
		p := &s.elites[i]
		if _, ok := answers[string(p.Places)]; ok {
			continue
		}
		f := s.Solve(p)
		answers[string(p.Places)] = f
		if f != nil {
			s.Offer(f.actions)
		}
	}
	s.runOffered()
	if best := s.Best(); best != nil {
		s.rollout.feedback = answers[string(best.Places)]
	}
	return s.rollout.feedback
}
