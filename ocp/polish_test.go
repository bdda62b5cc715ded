package ocp

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/planscore"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// So many iterations from a plan near the optimum lead to it, whatever was polished before, and few at least towards it.
func TestPolishGoesOnFromAPlan(t *testing.T) {
	problem, pref := testdomain.Pole{}, domain.Preference{W: []float64{0.5, 0.5}}
	solver := newPole(problem, Options{Tolerance: 1e-7})
	s, c := []float64{-1, 0, 0.1, 0}, []float64{1, 0}
	best, err := solver.Minimise(s, c, testdomain.PoleSteps, pref, domain.WeightedSum, 1)
	if err != nil {
		t.Fatal(err)
	}
	given := slices.Concat(best.U...)
	for i := range given {
		given[i] += 0.3 * math.Cos(float64(i))
	}
	polish := func(iterations int) ([]float64, float64) {
		plan := slices.Clone(given)
		if !solver.Polish(s, c, pref, nil, plan, iterations) {
			t.Fatalf("%d iterations change nothing", iterations)
		}
		_, cost, _ := planscore.Plan(problem, s, c, pref, plan, testdomain.PoleSteps, true)
		return plan, cost
	}
	_, before, _ := planscore.Plan(problem, s, c, pref, given, testdomain.PoleSteps, true)
	whole, least := polish(50)
	once, towards := polish(1)
	if math.Abs(least-best.Cost) > 1e-6*best.Cost || !(towards < before) || !(least < towards) {
		t.Errorf("the plan costs %g, after an iteration %g, after 50 %g, the optimum %g", before, towards, least, best.Cost)
	}
	// Within a bound of one objective the least of the other is that of the weighting whose optimum ends at the bound.
	bounded, bound := slices.Clone(given), best.Total()[0]
	most := []domain.Bound{{Objective: 0, Most: bound, Unit: bound}}
	solver.Polish(s, c, domain.Preference{W: []float64{1e-4, 1 - 1e-4}}, most, bounded, 50)
	for j, tolerance := range []float64{1e-5, 1e-3} {
		only := domain.Preference{W: []float64{1 - float64(j), float64(j)}}
		if _, sum, _ := planscore.Plan(problem, s, c, only, bounded, testdomain.PoleSteps, true); !(sum <= best.Total()[j]*(1+tolerance)) {
			t.Errorf("objective %d sums to %g within a bound, want at most %g", j, sum, best.Total()[j])
		}
	}
	elsewhere := make([]float64, 7)
	solver.Polish([]float64{0.5, 0.2, 0, 0}, []float64{-1, 0.5}, domain.Preference{Adaptive: true}, nil, elsewhere, 3)
	if again, _ := polish(1); !slices.Equal(again, once) {
		t.Error("one iteration from the same plan leads elsewhere after another was polished")
	}
	if again, _ := polish(50); !slices.Equal(again, whole) {
		t.Error("50 iterations from the same plan lead elsewhere after another was polished")
	}
	kept := slices.Clone(given)
	if solver.Polish(s[:2], c, pref, nil, kept, 5) || !slices.Equal(kept, given) {
		t.Error("a plan from a state of another size was changed")
	}
}
