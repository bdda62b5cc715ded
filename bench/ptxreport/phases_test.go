package main

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Every kernel of a recorded refinement is of a phase, and the phases' least times are the
// refinement's.
func TestPhasesAreTheWholeRefinement(t *testing.T) {
	whole, sum, kernels := 0.0, 0.0, 0
	totals := make([]total, len(phasesOfRefinement))
	for _, r := range require.Get(read("counts.json"))(t) {
		if r.Of != "refine" || r.Case != "integrator-convex" || r.Precision != "tf32" || r.OfOneCall == 0 {
			continue
		}
		at := phaseOf(r.Kernel)
		if at < 0 {
			t.Errorf("%s is of no phase", r.Kernel)
			continue
		}
		least, _, _ := r.bounds()
		whole += least
		kernels++
		totals[at].add(r)
	}
	for i := range totals {
		if totals[i].launches == 0 || totals[i].bound() == "" {
			t.Errorf("%s: no launch, or none with a bound", phasesOfRefinement[i].name)
		}
		sum += totals[i].least
	}
	if kernels < 15 || math.Abs(sum-whole) > 1e-9*whole {
		t.Errorf("%d kernels take %g µs at least, their phases %g", kernels, whole, sum)
	}
}
