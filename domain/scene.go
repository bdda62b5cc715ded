package domain

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Staging is implemented by a plant that takes scenes of a user's own beside those that it
// draws.
type Staging interface {
	Plant
	// Draft is the scene of an episode of Episode's or Stage's in the form that Stage reads.
	Draft(e Episode) any
	// Stage makes an episode of a scene in JSON. What is not known, not finite, missing or
	// impossible, such as bodies that overlap, is an error that names its field. Measurement
	// noise is that of Episode under the same seed and index, and so is all else of a scene
	// that was drawn there. opt.Preference scores the episode; a scene that names other weights
	// is refused, as is any opt.Regime but "".
	Stage(seed uint64, index int, scene json.RawMessage, opt EpisodeOptions) (Episode, error)
}

// Scored is Fixed for a scene that names its weights itself: nil, or those of o.
func (o EpisodeOptions) Scored(index, m int, w []float64) ([]float64, error) {
	own, err := o.Fixed(index, m)
	if err == nil && w != nil && !slices.Equal(own, w) {
		err = fmt.Errorf("w is %v, and the run's preference %v scores the episode: leave it out, or ask for it", w, o.Preference)
	}
	return own, err
}

// Outside says of a value that it lies outside of a range that maps are trained on; "" for one
// that does not.
func Outside(what string, v float64, lo, hi float64, unit string) string {
	if lo <= v && v <= hi {
		return ""
	}
	if unit != "" {
		unit = " " + unit
	}
	return fmt.Sprintf("%s is %.4g%s, maps are trained on %.4g to %.4g", what, v, unit, lo, hi)
}
