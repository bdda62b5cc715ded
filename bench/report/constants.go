package report

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/closedloop"
)

// ByConstants tells whether a pairing runs a method again with other constants.
func ByConstants(p *closedloop.Pairing) bool {
	return slices.ContainsFunc(p.Pairs, func(m closedloop.Paired) bool { return len(m.Constants) > 0 })
}

// UnprojectedAside tells whether a pairing sets a method beside itself without its projection.
func UnprojectedAside(p *closedloop.Pairing) bool {
	return len(p.Pairs) == 2 && p.Pairs[1].Method == p.Pairs[0].Method+unprojected && UndisturbedPlant(p)
}

// retrained tells whether a pairing is of the projection, or of two maps of one method.
func retrained(p *closedloop.Pairing) bool {
	return UnprojectedAside(p) || len(p.Pairs) == 2 && p.Pairs[0].Method == p.Pairs[1].Method && p.Pairs[0].ModelSHA256 != p.Pairs[1].ModelSHA256
}

// untimed tells whether none of some pairings holds times.
func untimed(pairings []closedloop.Pairing) bool {
	return !slices.ContainsFunc(pairings, func(p closedloop.Pairing) bool {
		return slices.ContainsFunc(p.Pairs, func(m closedloop.Paired) bool { return !math.IsNaN(float64(m.Latency.P50)) })
	})
}
