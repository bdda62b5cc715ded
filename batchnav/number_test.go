package batchnav_test

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
)

// What is no number is a dash, as it is null in JSON: the smallest margin of what has no limits too.
func TestTheTextOfANumber(t *testing.T) {
	for v, want := range map[batchnav.Number]string{
		0.25: "0.2", batchnav.Number(math.Copysign(0.01, -1)): "0.0", batchnav.Number(math.Inf(1)): "–", batchnav.Number(math.Inf(-1)): "–", batchnav.Number(math.NaN()): "–",
	} {
		if got := v.Text("%.1f"); got != want {
			t.Errorf("%v is %q, want %q", float64(v), got, want)
		}
	}
}
