package batchnav

import (
	"errors"
	"fmt"
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

// rolloutsConfig is the map with what bends its policy in a search, at every step.
func (l *loaded) rolloutsConfig(round, steps int, search crossentropy.Options) backend.RolloutsConfig {
	return backend.RolloutsConfig{MapConfig: l.mapConfig(round), Steps: steps, Search: search}
}

// deviceRollouts are the backend's own roll-outs of the loaded model, of so many steps at
// most; nil where it has none, or would not know a state that is lost.
func deviceRollouts(l *loaded, round, steps int, search crossentropy.Options) (*deviceSearch, error) {
	b, ok := l.backend.(backend.RolloutsBackend)
	if !ok || l.failing() {
		return nil, nil
	}
	r, err := b.NewRollouts(l.rolloutsConfig(round, steps, search))
	switch {
	case errors.Is(err, backend.ErrNoRollouts):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("batchnav: search: %w", err)
	}
	return &deviceSearch{Rollouts: r}, nil
}

// scoreOnDevice is score by the backend itself, and reports whether it was that; a
// backend that can no longer is not asked again.
func (r *search) scoreOnDevice(s, c []float64, pref domain.Preference, z []float32, steps int) (done bool, err error) {
	if r.device == nil || steps > r.steps || r.polish != nil { // a polish wants what every roll-out executes
		return false, nil
	}
	n := r.offsets.Rows
	in := backend.RolloutsInput{S: s, C: c, Preference: pref, Z: z, Offsets: r.offsets, Steps: steps, NoProjection: r.noProjection}
	return r.asked(r.device.Score(in, backend.RolloutsOutput{Cost: r.cost[:n], Margin: r.margin[:n], First: r.first.Slice(0, n)}))
}

// asked tells whether the device has done what it was asked for.
func (r *search) asked(err error) (done bool, _ error) {
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
// reports whether it was that. All elites are the memory's, or the best alone. Of the time within something is spent already.
func (r *search) searchOnDevice(n int, s, c []float64, pref domain.Preference, z []float32, steps int, elites bool, within, spent time.Duration) (done bool, err error) {
	d := r.device
	if d == nil || steps > r.steps || r.noise != nil || r.polish != nil && !d.Executes() {
		return false, nil
	}
	d.out = backend.SearchOutput{Rounds: d.out.Rounds[:0]}
	d.in = backend.SearchInput{S: s, C: c, Preference: pref, Z: z, NoProjection: r.noProjection, Begin: r.sampler.Decision(), Candidates: n, Elites: elites}
	if within > 0 { // one round, and as many more as are known to fit
		d.in.Rounds = 1
		if d.round > 0 {
			d.in.Rounds = max(1, int((within-spent)/d.round))
		}
	}
	start := time.Now()
	if done, err = r.asked(d.Search(d.in, &d.out)); !done {
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
