package bench

import (
	"slices"
	"testing"
)

// A record holds calls from the whole measurement, at most so many, in their order.
func TestLatenciesThatARecordHolds(t *testing.T) {
	var us []float64
	for i := range 1000 {
		us = append(us, float64(i))
	}
	got := Sample(us)
	if len(got) != MaxLatencies || got[0] != 5 || got[99] != 995 || !slices.IsSorted(got) {
		t.Errorf("%v", got)
	}
	if got := Sample([]float64{3, 1, 2}); !slices.Equal(got, []float64{3, 1, 2}) {
		t.Errorf("%v", got)
	}
	if got := Sample(us[:150]); len(got) != MaxLatencies || got[0] != 0 || got[99] != 149 {
		t.Errorf("%v", got)
	}
	if got := Sample(nil); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
