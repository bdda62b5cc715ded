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
// cold starts, best of all. Its libraries are built on first use, once for all
// systems of the same parameters. It is safe for concurrent use.
type Oracle struct {
	system *System
	size   int
	seed   uint64
}

func newOracle(y *System) *Oracle { return newOracleOf(y, oracleLibrarySize, oracleSeed) }

func newOracleOf(y *System, size int, seed uint64) *Oracle {
	return &Oracle{system: y, size: size, seed: seed}
}

// library returns the library for the kind of preference, building it first
// where needed.
func (o *Oracle) library(ctx context.Context, adaptive bool) (_ *Library, err error) {
	b := builtOf(libraryKey{o.system.Params, !adaptive, o.size, o.seed})
	b.Lock()
	defer b.Unlock()
	if b.library == nil {
		b.library, err = BuildLibrary(ctx, o.system, !adaptive, o.size, o.seed, domain.ProgressOf(ctx, "library of optima"))
	}
	return b.library, err
}

// libraryKey is what an oracle's library depends on.
type libraryKey struct {
	Params
	fixed bool
	size  int
	seed  uint64
}

// built is a library, nil until somebody who holds the lock has built it.
type built struct {
	sync.Mutex
	library *Library
}

// mostBuilt libraries are kept, the first to come being the first to go: the parameters of a trace that
// is verified may be any.
const mostBuilt = 8

var libraries struct {
	sync.Mutex
	entries map[libraryKey]*built
	order   []libraryKey
}

func builtOf(key libraryKey) *built {
	l := &libraries
	l.Lock()
	defer l.Unlock()
	if b := l.entries[key]; b != nil {
		return b
	}
	if l.entries == nil {
		l.entries = map[libraryKey]*built{}
	}
	if len(l.order) == mostBuilt {
		delete(l.entries, l.order[0])
		l.order = l.order[1:]
	}
	b := &built{}
	l.entries[key], l.order = b, append(l.order, key)
	return b
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
		clearance: EvaluationClearance,
		adaptive:  pref.Adaptive || pref.W == nil,
	}
	copy(h.p[:], scene.P[:])
	h.p[Horizon] = scene.P[Horizon-1] + scene.rise(Horizon-1)
	if !h.adaptive {
		h.weights = [2]float64{pref.W[0], pref.W[1]}
	}
}
