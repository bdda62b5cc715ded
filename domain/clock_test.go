package domain_test

import (
	"math"
	"strings"
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

// A value before that a switch does not have, or an age below 0, is refused with its entry; what was kept in single precision is taken.
func TestWhatWasBeforeOfASwitchIsAValueAndAnAge(t *testing.T) {
	spec := domain.Spec{
		Name: "a", Context: []domain.Variable{{Name: "last pump"}, {Name: "age of pump"}},
		Switches: []domain.Switch{{Values: []float64{0.1, 0.7}, Least: []int{2, 3}, Last: 0, Ages: 1}},
	}
	for _, c := range []struct {
		last, age float64
		wrong     string
	}{
		{0.1, 0, ""}, {float64(float32(0.7)), 3, ""}, {0.7, 99, ""}, {math.NaN(), math.NaN(), ""},
		{7, 1, "has last pump 7 in c[0], want one of [0.1 0.7]"}, {0.4, 1, "last pump 0.4"}, {math.Inf(1), 1, "last pump +Inf"}, {0.1, -1, "has age of pump -1 in c[1]"},
	} {
		err := spec.CheckSizes(nil, []float64{c.last, c.age})
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
