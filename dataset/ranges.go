package dataset

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/names"
)

// Range replaces the solver's own range of scenarios on some axes.
type Range struct {
	Axis   string // the name of an axis, or a pattern of path.Match such as "P*"
	Lo, Hi float64
}

// Within returns a solver's axes with the ranges applied in turn. An empty range, or one of no axis, is an error.
func Within(axes []domain.Variable, ranges []Range) ([]domain.Variable, error) {
	axes = slices.Clone(axes)
	for _, r := range ranges {
		if !(r.Lo < r.Hi) || math.IsInf(r.Hi-r.Lo, 0) {
			return nil, fmt.Errorf("dataset: the range of %q is %v to %v, want two finite numbers, the lower first", r.Axis, r.Lo, r.Hi)
		}
		found := false
		for i := range axes {
			match, err := path.Match(r.Axis, axes[i].Name)
			if err != nil {
				return nil, fmt.Errorf("dataset: axis %q: %w", r.Axis, err)
			}
			if match {
				axes[i].Lo, axes[i].Hi, found = r.Lo, r.Hi, true
			}
		}
		if !found {
			axisNames := make([]string, len(axes))
			for i := range axes {
				axisNames[i] = axes[i].Name
			}
			return nil, fmt.Errorf("dataset: no axis is named %q%s (there are %s)", r.Axis, names.Meant(r.Axis, axisNames), strings.Join(axisNames, ", "))
		}
	}
	return axes, nil
}
