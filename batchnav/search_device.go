package batchnav

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/crossentropy"
)

// deviceSearch is a search that a backend makes by itself, round by round or whole.
type deviceSearch struct {
	backend.Rollouts
	in    backend.SearchInput
	out   backend.SearchOutput
	round time.Duration // a round's so far; 0: none was made
}

// rolloutsConfig is the map with the offsets of its policy in a search, at every step.
func (l *loaded) rolloutsConfig(round, steps int, search crossentropy.Options) backend.RolloutsConfig {
	return backend.RolloutsConfig{MapConfig: l.mapConfig(round), Steps: steps, Search: search}
}

// prepareDevice prepares the backend's own roll-outs of the loaded model, of r.steps decisions at most, if the backend
// has them and they serve the search.
func (r *search) prepareDevice(sampling crossentropy.Options) error {
	b, ok := r.backend.(backend.RolloutsBackend)
	if !ok {
		return nil
	}
	rollouts, err := b.NewRollouts(r.rolloutsConfig(r.round, r.steps, sampling))
	switch {
	case errors.Is(err, backend.ErrNoRollouts):
		r.onHost.reason = reasonOf(err, backend.ErrNoRollouts)
		return nil
	case err != nil:
		return fmt.Errorf("search: %w", err)
	}
	if r.polish != nil && !rollouts.Executes() {
		r.onHost.reason = "a polish takes the actions of the best roll-out, which this device does not give"
		return nil
	}
	r.device = &deviceSearch{Rollouts: rollouts}
	return nil
}

// scoreOnDevice is score by the backend itself, and reports whether the backend could. One that cannot any longer is
// not asked again.
func (r *search) scoreOnDevice(x root, steps int) (handled bool, err error) {
	if r.device == nil || steps > r.steps || r.polish != nil { // a polish wants what every roll-out executes
		return false, nil
	}
	terminal, ok := r.ends.terminalCost(r.loaded, x.s, x.c, steps, x.pref)
	if !ok {
		return false, nil
	}
	n := r.offsets.Rows
	in := backend.RolloutsInput{S: x.s, C: x.c, Preference: x.pref, Z: x.z, Offsets: r.offsets, Steps: steps, TerminalCost: terminal, NoProjection: r.noProjection}
	out := backend.RolloutsOutput{Cost: r.cost[:n], Margin: r.margin[:n], First: r.first.Slice(0, n)}
	if r.failed != nil {
		out.Kept = r.survived[:n]
	}
	return r.handled(r.device.Score(in, out))
}

// handled reports whether the device did its part.
func (r *search) handled(err error) (handled bool, _ error) {
	switch {
	case errors.Is(err, backend.ErrNoSearch):
		return false, nil
	case errors.Is(err, backend.ErrNoRollouts):
		r.device = nil
		return false, nil
	}
	return err == nil, err
}

// searchOnDevice makes all rounds of n candidates of the decision that the sampler has begun by the backend itself, and
// reports whether the backend could. The memory gets all elites, or the best alone. elapsed is the part of the time
// limit that is spent.
func (r *search) searchOnDevice(n int, x root, steps int, elites bool, timeLimit, elapsed time.Duration) (handled bool, err error) {
	d := r.device
	if d == nil || steps > r.steps || r.noise != nil || r.polish != nil && !d.Executes() {
		return false, nil
	}
	terminal, ok := r.ends.terminalCost(r.loaded, x.s, x.c, steps, x.pref)
	if !ok {
		return false, nil
	}
	d.out = backend.SearchOutput{Rounds: d.out.Rounds[:0]}
	d.in = backend.SearchInput{S: x.s, C: x.c, Preference: x.pref, Z: x.z, TerminalCost: terminal, NoProjection: r.noProjection, Begin: r.sampler.Decision(), Candidates: n, Elites: elites}
	if timeLimit > 0 { // one round, and those that fit by the last measured time
		d.in.Rounds = 1
		if d.round > 0 {
			d.in.Rounds = max(1, int((timeLimit-elapsed)/d.round))
		}
	}
	start := time.Now()
	if handled, err = r.handled(d.Search(d.in, &d.out)); !handled {
		return false, err
	}
	if n := len(d.out.Rounds); n > 0 {
		d.round = time.Since(start) / time.Duration(n)
	}
	r.sampler.Settle(d.out.Outcome)
	if r.polish != nil {
		copy(r.polish.best, d.out.Executed)
	}
	return true, nil
}

// reasonOf is the text of an error without the error that it wraps. It is empty for that error itself, whose reason was
// reported before.
func reasonOf(err, wrapped error) string {
	if err == wrapped {
		return ""
	}
	return strings.TrimPrefix(strings.TrimSuffix(err.Error(), ": "+wrapped.Error()), wrapped.Error()+"\n")
}

// ending is the terminal cost of the plans of a decision, which all its rounds have in common.
type ending struct {
	s, c, w   []float64
	adaptive  bool
	steps     int
	terminal  *domain.Quadratic
	available bool
}

// terminalCost is ProblemAbilities.PlanTerminalCost, nil of a problem without a terminal cost.
func (e *ending) terminalCost(l *loaded, s, c []float64, steps int, pref domain.Preference) (*domain.Quadratic, bool) {
	if !backend.Ends(l.problem) {
		return nil, true
	}
	if steps != e.steps || pref.Adaptive != e.adaptive || !slices.Equal(s, e.s) || !slices.Equal(c, e.c) || !slices.Equal(pref.W, e.w) {
		e.s, e.c, e.w = append(e.s[:0], s...), append(e.c[:0], c...), append(e.w[:0], pref.W...)
		e.steps, e.adaptive = steps, pref.Adaptive
		e.terminal, e.available = l.abilities.PlanTerminalCost(s, c, steps, pref)
	}
	return e.terminal, e.available
}

// onHost reports once why the CPU rolls out though the backend could, and the share of a decision that this takes.
type onHost struct {
	reason  string        // "": nothing is to be told
	elapsed time.Duration // by roll-outs since the decision began
}

// tell is called after a decision that took the time whole.
func (h *onHost) tell(l *loaded, whole time.Duration) {
	if h.reason == "" {
		return
	}
	if b, ok := l.backend.(backend.Teller); ok {
		share := h.elapsed.Seconds() / max(whole.Seconds(), 1e-9)
		b.Tell("search "+l.spec.Name+h.reason, fmt.Sprintf("the search rolls %s out on the CPU, %.0f %% of its first decision: %s", l.spec.Name, 100*share, h.reason))
	}
	h.reason = ""
}
