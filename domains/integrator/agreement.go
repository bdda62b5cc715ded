package integrator

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/domain"
)

// Agreement says how often two independently seeded oracles find the same
// optimum.
type Agreement struct {
	Scenarios  int     // test scenes compared
	Unsolved   int     // of them, not certified by one or both
	Differ     int     // of them, costs apart by more than one part in a million
	Worst      float64 // largest relative difference in cost
	LargestKKT float64 // largest KKT residual of any of the optima
}

// OracleAgreement builds two libraries of size scenarios from the two seeds,
// solves scenes test scenes with each at ψ ≥ 1, and compares. adaptive chooses
// the kind of preference; a fixed one is drawn for each scene.
func OracleAgreement(ctx context.Context, y *System, adaptive bool, scenes, size int, seeds [2]uint64) (Agreement, error) {
	out := Agreement{Scenarios: scenes}
	var lib [2]*Library
	for i := range lib {
		var err error
		if lib[i], err = BuildLibrary(ctx, y, !adaptive, size, seeds[i], nil); err != nil {
			return out, err
		}
	}
	rng := rand.New(rand.NewPCG(seeds[0]^testStream, seeds[1]))
	problems := make([]horizonProblem, scenes)
	for i := range problems {
		var v [scenarioSize]float64
		for j, axis := range testRange() {
			v[j] = axis.Lo + (axis.Hi-axis.Lo)*rng.Float64()
		}
		pref := domain.Preference{Adaptive: adaptive}
		if !adaptive {
			w := rng.Float64()
			pref.W = []float64{w, 1 - w}
		}
		scene := y.scene(v[:])
		y.sceneProblem(&problems[i], &scene, pref)
	}
	type pair struct {
		cost   [2]float64
		kkt    float64
		solved bool
	}
	pairs := make([]pair, scenes)
	err := y.parallel(ctx, scenes, func(int) {}, func(w *interior, i int) {
		p := &pairs[i]
		p.solved = true
		for k, l := range lib {
			var sol solution
			if !l.best(w, &problems[i], true, &sol) {
				p.solved = false
				continue
			}
			p.cost[k], p.kkt = sol.cost, max(p.kkt, sol.kkt)
		}
	})
	if err != nil {
		return out, err
	}
	for _, p := range pairs {
		if !p.solved {
			out.Unsolved++
			continue
		}
		apart := math.Abs(p.cost[0]-p.cost[1]) / min(p.cost[0], p.cost[1])
		if apart > 1e-6 {
			out.Differ++
		}
		out.Worst = max(out.Worst, apart)
		out.LargestKKT = max(out.LargestKKT, p.kkt)
	}
	return out, nil
}
