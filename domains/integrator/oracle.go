package integrator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/gpc-engine/gpc/domain"
)

// oracleSeed draws the evaluation oracle's libraries. It differs from any seed
// a dataset is likely to be prepared with, so that the two are independent.
const oracleSeed = 0x6f72_6163_6c65 // "oracle"

// Oracle finds the optimum of a horizon problem from t = 0: an interior-point
// solve from the plans of the nearest library scenarios and from the cold
// cold starts, best of all. Its libraries are built on first use. It is safe
// for concurrent use.
type Oracle struct {
	system *System
	size   int
	seed   uint64
	mu     [2]sync.Mutex
	lib    [2]*Library // adaptive, fixed; nil before they are asked for
}

func newOracle(y *System) *Oracle { return newOracleOf(y, oracleLibrarySize, oracleSeed) }

func newOracleOf(y *System, size int, seed uint64) *Oracle {
	return &Oracle{system: y, size: size, seed: seed}
}

// library returns the library for the kind of preference, building it first
// where needed.
func (o *Oracle) library(ctx context.Context, adaptive bool) (_ *Library, err error) {
	kind := libraryOf(adaptive)
	o.mu[kind].Lock()
	defer o.mu[kind].Unlock()
	if o.lib[kind] == nil {
		o.lib[kind], err = BuildLibrary(ctx, o.system, !adaptive, o.size, o.seed, nil)
	}
	return o.lib[kind], err
}

// best returns the best certified optimum of a problem at t = 0.
func (o *Oracle) best(ctx context.Context, h *horizonProblem) (*solution, error) {
	if h.steps != Horizon {
		return nil, errors.New("the library's plans start at t = 0")
	}
	l, err := o.library(ctx, h.adaptive)
	if err != nil {
		return nil, err
	}
	w := o.system.interiors.Get().(*interior)
	defer o.system.interiors.Put(w)
	sol := new(solution)
	if !l.best(w, h, true, sol) {
		return nil, fmt.Errorf("no start reached a KKT residual of %g", CertifiedKKT)
	}
	return sol, nil
}

// best solves h from its nearest library plans and, where asked or where those
// fail, from the cold starts; it reports false where none was certified.
func (l *Library) best(w *interior, h *horizonProblem, cold bool, out *solution) bool {
	var index [startNeighbours]int
	l.nearest(h, index[:])
	out.cost = math.Inf(1)
	for _, i := range index {
		if i >= 0 {
			w.improve(h, l.entry[i].plan[:], out)
		}
	}
	if cold || math.IsInf(out.cost, 1) {
		var plan [2 * Horizon]float64
		for _, g := range guides {
			l.system.coldStart(h, g, &plan)
			w.improve(h, plan[:], out)
		}
	}
	return !math.IsInf(out.cost, 1)
}

// sceneProblem is the horizon problem of a scene at t = 0 with the evaluation
// clearance. A preference with neither flag nor weights is adaptive.
func (y *System) sceneProblem(h *horizonProblem, scene *Scene, pref domain.Preference) {
	*h = horizonProblem{
		steps:     Horizon,
		s:         [4]float64{scene.Q0[0], scene.Q0[1], scene.V0[0], scene.V0[1]},
		previous:  scene.UPrev,
		p:         scene.P,
		clearance: EvaluationClearance,
		adaptive:  pref.Adaptive || pref.W == nil,
	}
	if !h.adaptive {
		h.weights = [2]float64{pref.W[0], pref.W[1]}
	}
}
