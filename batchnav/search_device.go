package batchnav

import (
	"errors"
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
)

// rolloutsConfig is the map with what bends its policy in a search, at every step.
func (l *loaded) rolloutsConfig(round, steps int) backend.RolloutsConfig {
	return backend.RolloutsConfig{MapConfig: l.mapConfig(round), Knots: steps}
}

// deviceRollouts are the backend's own roll-outs of the loaded model, of so many steps at
// most; nil where it has none, or would not know a state that is lost.
func deviceRollouts(l *loaded, round, steps int) (backend.Rollouts, error) {
	b, ok := l.backend.(backend.RolloutsBackend)
	if !ok || l.failing() {
		return nil, nil
	}
	r, err := b.NewRollouts(l.rolloutsConfig(round, steps))
	switch {
	case errors.Is(err, backend.ErrNoRollouts):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("batchnav: search: %w", err)
	}
	return r, nil
}

// scoreOnDevice is score by the backend itself, and reports whether it was that; a
// backend that can no longer is not asked again.
func (r *search) scoreOnDevice(s, c []float64, pref domain.Preference, z []float32, steps int) (done bool, err error) {
	if r.device == nil || steps > r.steps {
		return false, nil
	}
	n := r.offsets.Rows
	in := backend.RolloutsInput{S: s, C: c, Preference: pref, Z: z, Offsets: r.offsets, Steps: steps, NoProjection: r.noProjection}
	err = r.device.Score(in, backend.RolloutsOutput{Cost: r.cost[:n], Margin: r.margin[:n], First: r.first.Slice(0, n)})
	if errors.Is(err, backend.ErrNoRollouts) {
		r.device = nil
		return false, nil
	}
	return true, err
}
