package domain_test

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// A clock that has no decision left, or never had one, is refused; one that is no number is a fault of the
// sensor, which loops answer.
func TestAClockBeyondItsEpisodeIsRefused(t *testing.T) {
	spec := domain.Spec{Name: "a", Measured: make([]domain.Variable, 1), Context: []domain.Variable{{Name: "goal"}, {Name: "clock"}}, Steps: 50, Clock: 2}
	for clock, taken := range map[float64]bool{0: true, 0.5: true, 0.98: true, 0.9800001: true, -1e-9: true, 1: false, 7.5: false, -0.5: false, math.Inf(1): false} {
		if err := spec.CheckSizes([]float64{0}, []float64{3, clock}); (err == nil) != taken {
			t.Errorf("clock %v: %v", clock, err)
		}
	}
	if err := spec.CheckSizes([]float64{0}, []float64{3, math.NaN()}); err != nil {
		t.Errorf("no number: %v", err)
	}
}
