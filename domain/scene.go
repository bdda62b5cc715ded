package domain

import (
	"fmt"
	"slices"
)

// Scored is Fixed for a scene that names its weights itself: nil, or those of o.
func (o EpisodeOptions) Scored(index, m int, w []float64) ([]float64, error) {
	options, err := o.Fixed(index, m)
	if err == nil && w != nil && !slices.Equal(options, w) {
		err = fmt.Errorf("w is %v, but the run scores episodes with the preference %v: leave it out, or run with the scene's preference", w, o.Preference)
	}
	return options, err
}

// Outside says of a value that it lies outside of a range that maps are trained on; "" for one
// that does not.
func Outside(quantity string, v float64, lo, hi float64, unit string) string {
	if lo <= v && v <= hi {
		return ""
	}
	if unit != "" {
		unit = " " + unit
	}
	return fmt.Sprintf("%s is %.4g%s, maps are trained on %.4g to %.4g", quantity, v, unit, lo, hi)
}
