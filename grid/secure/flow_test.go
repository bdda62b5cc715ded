package secure

import (
	"math"
	"testing"
)

// Units share what is missing until no balance shows what is left: spread over many units, a correction can be below what a power
// flow sees at each of them. On 500 buses such corrections were made until none was left, and the outage had no power flow.
func TestSharingEndsWhereNoBalanceShowsIt(t *testing.T) {
	for _, c := range []struct {
		name             string
		off, slope       float64
		correction, step int
		want             bool
	}{
		{"nothing is off", 1e-10, 1, 0, 15, true},
		{"as much is off as a flow sees", 1.3e-9, 1, 3, 1, false},
		{"no balance shows the correction", -1.3e-9, 1, 4, 0, true},
		{"there was no correction yet", 1.3e-9, 1, 0, 0, false},
		{"more is off than a limit may be broken by", 1e-5, 1, 4, 0, false},
		{"no unit has anything left", 1e-7, 0, 2, 1, true},
		{"more is missing than any unit has left", 1e-5, 0, 2, 1, false},
	} {
		if got := shareConverged(c.off, c.slope, c.correction, c.step); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// An optimum may lie where the network after an outage can carry no more: what is off has a double root there, of which the
// secants grow without end. On 300 buses they were not followed, and the outage had no power flow.
func TestSharingEndsWhereANetworkCanCarryNoMore(t *testing.T) {
	const most, first = 0.5523, 1 / 0.74
	var path secants
	delta := 0.42
	for k := range shareIterations {
		off := 1.2 * (most - delta) * (most - delta)
		if shareConverged(off, 1/first, k, 1) {
			if math.Abs(delta-most) > 1e-4 {
				t.Errorf("units share %v, want %v", delta, most)
			}
			return
		}
		by := first
		if secant, known := path.next(delta, off, first); known {
			by = secant
		}
		delta += off * by
	}
	t.Errorf("after %d corrections units share %v, want %v", shareIterations, delta, most)
}
