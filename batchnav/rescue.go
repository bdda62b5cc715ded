package batchnav

import (
	"fmt"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/crossentropy"
	"github.com/gpc-engine/gpc/tensor"
)

// maxVain bounds how long a rescue waits: 2^maxVain decisions.
const maxVain = 10

// finder is a search of one decision in a given state.
type finder struct {
	*search
	memory          *memory
	input, state, z tensor.Matrix
	slot            []float64
	action          []float32 // the first of the best roll-out
}

func newFinder(s *search) finder {
	spec := s.spec
	return finder{
		search: s, memory: &memory{Memory: s.sampler.NewMemory()}, input: tensor.New(1, spec.ObservationSize()), state: tensor.New(1, spec.MeasuredSize()),
		z: tensor.New(1, s.model.Latent()), slot: make([]float64, spec.PreferenceSize()), action: make([]float32, spec.ActionSize()),
	}
}

// encode is an observation with its latent.
func (f *finder) encode(s, c []float64, pref domain.Preference) (root, error) {
	f.observe(s, c, pref, f.slot, f.input.Row(0), f.state.Row(0), f.present, nil)
	return root{s, c, pref, f.state.Row(0), f.z.Row(0)}, f.encoder.Forward(f.input, f.z)
}

// find is the decision in a state. The best roll-out, if there is one, is m's, and action and latent are its first.
func (f *finder) find(m *memory, s, c []float64, pref domain.Preference, timeLimit time.Duration) (best *crossentropy.Elite, err error) {
	x, err := f.encode(s, c, pref)
	if err != nil {
		return nil, err
	}
	if _, err := f.decide(m, x, f.action, timeLimit); err != nil {
		return nil, err
	}
	return m.Best(), nil
}

// rescueCandidates are enough to find a way where there is one, in about the time of a solve.
const rescueCandidates = 512

func newRescuer(source *loaded, opt *Options, noise []float64) (finder, error) {
	l := *source // with a stepper of its own
	r, err := newSearch(&l, &Options{Search: SearchOptions{Candidates: rescueCandidates, LookAhead: opt.Guard.Steps}, Context: opt.Context})
	if err != nil {
		return finder{}, err
	}
	if noise != nil {
		r.noise, r.tight, r.device = noise, make([]float64, r.round), nil
		r.onHost.reason = "a device does not know what noise takes from the margins"
	}
	return newFinder(r), nil
}

// rescue searches a plan by roll-outs and lets the generic solver continue from the best one. Without a generic solver
// it asks the case's own for an action, and the policy continues. A plan that is still not safe is compared with
// Problem.Fallback's action. Without a safe plan the next rescue is after 1, 2, 4, … decisions. elapsed is the part of
// a Deadline that is spent.
func (g *guard) rescue(l *loop, c []float64, pref domain.Preference, d *Decision, elapsed time.Duration) error {
	w, start := &l.guard, time.Now().Add(-elapsed)
	r := rollout{s: l.state, c: c, pref: pref, steps: w.next.steps, result: &w.other}
	asks := w.wait == 0 && !g.noRescue
	switch {
	case g.noRescue:
		if g.escape != nil && g.escape(l.state, c, l.alternative) {
			r.escapes = true
			if err := g.compare(w, d, r, domain.FallbackEscape); err != nil {
				return err
			}
			r.escapes = false
		}
	case !asks:
		w.wait--
	case g.solver != nil && g.receding == nil:
		d.Fallback |= domain.FallbackRescue
		if g.solver.Finds(l.state, c, pref, l.alternative) {
			r.prefix = l.alternative
			if err := g.compare(w, d, r, domain.FallbackSolver); err != nil {
				return err
			}
		}
	default:
		d.Fallback |= domain.FallbackRescue
		r.solved = true
		if g.opt.Deadline == 0 || elapsed < g.opt.Deadline {
			if err := g.find(l, r, d, max(0, g.opt.Deadline-elapsed)); err != nil {
				return err
			}
		}
		remaining := g.opt.Deadline - time.Since(start)
		if g.receding != nil && (g.opt.Deadline == 0 || remaining > 0) {
			if err := g.solve(g.rescueHorizon, l, r, l.guard.next.actions, d, remaining); err != nil {
				return err
			}
		}
	}
	switch {
	case w.next.safe():
		w.vain, w.wait = 0, 0
		return nil
	case asks:
		w.wait = 1<<min(w.vain, maxVain) - 1
		w.vain++
	}
	g.problem.Fallback(l.state, c, l.alternative)
	r.prefix, r.solved = l.alternative, false
	return g.compare(w, d, r, domain.FallbackConservative)
}

// find compares the best of rescueCandidates roll-outs.
func (g *guard) find(l *loop, r rollout, d *Decision, timeLimit time.Duration) error {
	f := &g.finder
	f.memory.forget() // a rescue depends on nothing that was before
	best, err := f.find(f.memory, r.s, r.c, r.pref, timeLimit)
	if err != nil || best == nil {
		return err
	}
	tensor.Widen(l.alternative, f.action)
	r.prefix, r.offsets = l.alternative, f.memory.offsets(r.steps)
	return g.compare(&l.guard, d, r, domain.FallbackSolver)
}

// solve compares the generic solver's plan, which begins at the initial actions; remaining is the rest of a Deadline.
func (g *guard) solve(horizon horizon, l *loop, r rollout, initial []float64, d *Decision, remaining time.Duration) error {
	if g.noise != nil {
		if tight := g.receding.Tightened(g.slack(r.s, r.c, l.u, &g.scratch[0])); tight != nil {
			horizon.Horizon = tight.NewHorizon(horizon.iterations)
		}
	}
	if g.opt.Deadline > 0 {
		horizon.Within(remaining)
	}
	g.prefix = append(g.prefix[:0], initial...)
	for nu := len(l.u); len(g.prefix) < r.steps*nu; { // the last action is held
		g.prefix = append(g.prefix, g.prefix[len(g.prefix)-nu:]...)
	}
	horizon.Begin(g.prefix)
	if _, _, err := horizon.Solve(r.s, r.c, r.pref, g.prefix); err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	r.prefix = g.prefix
	return g.compare(&l.guard, d, r, domain.FallbackSolver)
}
