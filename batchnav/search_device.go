package batchnav

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
)

// rolloutsConfig is the map with what bends its policy in a search, at every step.
func (l *loaded) rolloutsConfig(round, steps int) backend.RolloutsConfig {
	return backend.RolloutsConfig{MapConfig: l.mapConfig(round), Knots: steps}
}

// prepareDevice prepares the backend's own roll-outs of the loaded model, of so many steps at
// most, where it has them and they give what the search wants.
func (r *search) prepareDevice() error {
	b, ok := r.backend.(backend.RolloutsBackend)
	if !ok {
		return nil
	}
	if r.polish != nil {
		r.onHost.begin("a polish takes the actions of every roll-out, which a device does not give")
		return nil
	}
	var err error
	r.device, err = b.NewRollouts(r.rolloutsConfig(r.round, r.steps))
	switch {
	case errors.Is(err, backend.ErrNoRollouts):
		r.device = nil
		r.onHost.begin(reasonOf(err, backend.ErrNoRollouts))
	case err != nil:
		return fmt.Errorf("batchnav: search: %w", err)
	}
	return nil
}

// scoreOnDevice is score by the backend itself, and reports whether it was that; a
// backend that can no longer is not asked again.
func (r *search) scoreOnDevice(s, c []float64, pref domain.Preference, z []float32, steps int) (done bool, err error) {
	if r.device == nil || steps > r.steps {
		return false, nil
	}
	behind, known := r.ends.of(r.loaded, s, c, steps, pref)
	if !known {
		return false, nil
	}
	n := r.offsets.Rows
	in := backend.RolloutsInput{S: s, C: c, Preference: pref, Z: z, Offsets: r.offsets, Steps: steps, Behind: behind, NoProjection: r.noProjection}
	out := backend.RolloutsOutput{Cost: r.cost[:n], Margin: r.margin[:n], First: r.first.Slice(0, n)}
	if r.failed != nil {
		out.Kept = r.kept[:n]
	}
	err = r.device.Score(in, out)
	if errors.Is(err, backend.ErrNoRollouts) {
		r.device = nil
		return false, nil
	}
	return true, err
}

// reasonOf is what an error says beside the one that it wraps.
func reasonOf(err, wrapped error) string {
	return strings.TrimSuffix(err.Error(), ": "+wrapped.Error())
}

// ending is what comes behind the plans of a decision, which all its rounds have in common.
type ending struct {
	s, c, w  []float64
	adaptive bool
	steps    int
	behind   *domain.Quadratic
	known    bool
}

// of is ProblemAbilities.BehindPlans, nil of a problem with nothing behind.
func (e *ending) of(l *loaded, s, c []float64, steps int, pref domain.Preference) (*domain.Quadratic, bool) {
	if !backend.Ends(l.problem) {
		return nil, true
	}
	if steps != e.steps || pref.Adaptive != e.adaptive || !slices.Equal(s, e.s) || !slices.Equal(c, e.c) || !slices.Equal(pref.W, e.w) {
		e.s, e.c, e.w = append(e.s[:0], s...), append(e.c[:0], c...), append(e.w[:0], pref.W...)
		e.steps, e.adaptive = steps, pref.Adaptive
		e.behind, e.known = l.may.BehindPlans(s, c, steps, pref)
	}
	return e.behind, e.known
}

// onHost tells once why the roll-outs of a search are the host's where the backend has its own, and which share of a decision they take.
type onHost struct {
	reason string        // "": nothing is to be told
	taken  time.Duration // by roll-outs since the decision began
}

// begin notes why.
func (h *onHost) begin(reason string) { h.reason = reason }

// tell is called behind a decision that has taken so long, whose roll-outs are known.
func (h *onHost) tell(l *loaded, whole time.Duration) {
	if h.reason == "" {
		return
	}
	if b, ok := l.backend.(backend.Teller); ok {
		share := min(1, h.taken.Seconds()/max(whole.Seconds(), 1e-9))
		b.Tell("search "+l.spec.Name+h.reason, fmt.Sprintf("the search rolls %s out on the CPU, %.0f %% of its first decision: %s", l.spec.Name, 100*share, h.reason))
	}
	h.reason = ""
}
