package integrator

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sort"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

// scenarioSize is the number of axes of a scenario: q, v, p, ṗ at t = 0.
const scenarioSize = 6

// Constants of the library of solved scenarios.
const (
	// LibrarySize is the number of scenarios in each of a Solver's libraries,
	// oracleLibrarySize in the evaluation oracle's, which also uses cold starts.
	LibrarySize       = 2500
	oracleLibrarySize = 1000
	// exchangeNeighbours is from how many neighbours' plans a library scenario is
	// solved again, exchangeRounds how often at most.
	exchangeNeighbours = 6
	exchangeRounds     = 6
	// startNeighbours is how many library plans a new problem starts from.
	startNeighbours = 12
	// improvement is the relative fall in cost that counts as another optimum.
	improvement = 1e-7
	// DatasetClearance is the ψ that dataset and library keep, so that a decoded
	// plan with a small error still clears the ellipse; EvaluationClearance is
	// the bound itself. A clearance of 1.005 alone costs 0.018 % regret in the
	// convex case; none at all, with targets lifted off the ellipse as well, cost
	// more than it saved (0.061 against 0.050 %, 300 episodes, both without emphasis).
	DatasetClearance    = 1.003
	EvaluationClearance = 1.0
)

// Library is a set of solved scenarios under one kind of preference. One
// interior-point solve finds one of several local optima; a scenario that takes
// over its neighbours' plans, round after round, leaves the worse ones. It is
// read-only once built and safe for concurrent use.
type Library struct {
	system *System
	fixed  bool // scenarios carry a fixed preference as seventh axis
	entry  []libraryEntry
}

type libraryEntry struct {
	coordinates [scenarioSize + 1]float64 // scaled axes; the last is w₁
	plan        [2 * Horizon]float64
	cost        float64
}

// scaled maps a problem at t = 0 to the library's axes: each scenario range
// becomes one unit; w₁ counts for two, since it moves the optimum most.
func (l *Library) scaled(h *horizonProblem, coordinates *[scenarioSize + 1]float64) {
	rate := (h.p[1] - h.p[0]) / l.system.Params.Dt
	for i, v := range [scenarioSize]float64{h.s[0], h.s[1], h.s[2], h.s[3], h.p[0], rate} {
		axis := &axes[i]
		coordinates[i] = (v - axis.Lo) / (axis.Hi - axis.Lo)
	}
	coordinates[scenarioSize] = 0
	if l.fixed {
		coordinates[scenarioSize] = 2 * h.weights[0] / (h.weights[0] + h.weights[1])
	}
}

var axes = trainingRange()

// BuildLibrary solves size scenarios drawn with seed, the adaptive priority or
// (fixed) a random fixed weight each, and exchanges plans until nothing
// improves. Equal arguments give equal libraries on any number of threads.
// progress, if not nil, is called from one goroutine at a time.
func BuildLibrary(ctx context.Context, y *System, fixed bool, size int, seed uint64, progress func(done, total int)) (*Library, error) {
	return buildLibrary(ctx, y, fixed, DatasetClearance, size, seed, progress)
}

// buildLibrary is BuildLibrary of plans that keep a clearance.
func buildLibrary(ctx context.Context, y *System, fixed bool, clearance float64, size int, seed uint64, progress func(done, total int)) (*Library, error) {
	l := &Library{system: y, fixed: fixed}
	b := libraryBuild{Library: l, clearance: clearance, problems: make([]horizonProblem, size), entries: make([]libraryEntry, size), report: func(int) {}}
	if total := size * (1 + exchangeRounds); progress != nil {
		b.report = func(done int) { progress(done, total) }
	}
	b.draw(rand.New(rand.NewPCG(seed, 0x6c69_6272_6172_7921))) // "library!"
	if err := b.solve(ctx); err != nil {
		return nil, err
	}
	if err := b.exchange(ctx); err != nil {
		return nil, err
	}
	b.report(size * (1 + exchangeRounds))
	for i := range b.entries {
		if !math.IsInf(b.entries[i].cost, 1) {
			l.entry = append(l.entry, b.entries[i])
		}
	}
	if len(l.entry) == 0 {
		return nil, errors.New("no library scenario could be solved")
	}
	return l, nil
}

// libraryBuild is a library under way: an entry for each problem, of cost +Inf where no plan
// is known.
type libraryBuild struct {
	*Library
	clearance float64
	problems  []horizonProblem
	entries   []libraryEntry
	report    func(solved int)
}

// draw makes the problems.
func (b *libraryBuild) draw(rng *rand.Rand) {
	draws := stratified(rng, len(b.problems), scenarioSize+1)
	for i := range b.problems {
		var v [scenarioSize]float64
		for j := range v {
			v[j] = axes[j].Lo + (axes[j].Hi-axes[j].Lo)*draws[i][j]
		}
		pref := domain.Preference{Adaptive: !b.fixed}
		if b.fixed {
			w := draws[i][scenarioSize]
			pref.W = []float64{w, 1 - w}
		}
		scene := b.system.scene(v[:])
		b.system.sceneProblem(&b.problems[i], &scene, pref)
		b.problems[i].clearance = b.clearance
	}
}

// solve solves every problem from cold starts.
func (b *libraryBuild) solve(ctx context.Context) error {
	return b.system.parallel(ctx, len(b.problems), b.report, func(w *interior, i int) {
		var sol solution
		e := &b.entries[i]
		e.cost = math.Inf(1)
		b.scaled(&b.problems[i], &e.coordinates)
		var plan [2 * Horizon]float64
		for _, g := range guides {
			b.system.coldStart(&b.problems[i], g, &plan)
			w.solve(&b.problems[i], plan[:], &sol)
			if sol.certified() && sol.cost < e.cost*(1-improvement) || math.IsInf(e.cost, 1) && sol.certified() {
				e.cost, e.plan = sol.cost, sol.plan
			}
		}
	})
}

// exchange solves every problem again from the plans of its neighbours, round by round, until
// nothing improves. A round reads the previous round's plans only, so that the order of solves
// does not matter.
func (b *libraryBuild) exchange(ctx context.Context) error {
	size := len(b.problems)
	neighbours := make([][exchangeNeighbours]int, size)
	for i := range b.entries {
		nearest(b.entries, &b.entries[i].coordinates, i, neighbours[i][:])
	}
	improved, nextImproved := slices.Repeat([]bool{true}, size), make([]bool, size)
	next := make([]libraryEntry, size)
	for round := range exchangeRounds {
		err := b.system.parallel(ctx, size, func(solved int) { b.report(size*(1+round) + solved) }, func(w *interior, i int) {
			var sol solution
			next[i], nextImproved[i] = b.entries[i], false
			for _, j := range neighbours[i] {
				if j < 0 || !improved[j] || math.IsInf(b.entries[j].cost, 1) {
					continue
				}
				w.solve(&b.problems[i], b.entries[j].plan[:], &sol)
				if sol.certified() && (math.IsInf(next[i].cost, 1) || sol.cost < next[i].cost*(1-improvement)) {
					next[i].cost, next[i].plan, nextImproved[i] = sol.cost, sol.plan, true
				}
			}
		})
		if err != nil {
			return err
		}
		b.entries, next = next, b.entries
		improved, nextImproved = nextImproved, improved
		if !slices.Contains(improved, true) {
			break
		}
	}
	return nil
}

// stratified draws n points of a Latin hypercube on [0, 1)^d.
func stratified(rng *rand.Rand, n, d int) [][]float64 {
	points := make([][]float64, n)
	for i := range points {
		points[i] = make([]float64, d)
	}
	for j := range d {
		for i, cell := range rng.Perm(n) {
			points[i][j] = (float64(cell) + rng.Float64()) / float64(n)
		}
	}
	return points
}

// nearest writes the indices of the entries nearest to at, ties by index,
// leaving out entry self; −1 where there are fewer.
func nearest(entries []libraryEntry, coordinates *[scenarioSize + 1]float64, self int, out []int) {
	distance := make([]float64, len(out))
	n := 0
	for i := range entries {
		if i == self {
			continue
		}
		d := 0.0
		for j, v := range entries[i].coordinates {
			d += (v - coordinates[j]) * (v - coordinates[j])
		}
		if n == len(out) && d >= distance[n-1] {
			continue
		}
		k := sort.SearchFloat64s(distance[:n], math.Nextafter(d, math.Inf(1)))
		if n < len(out) {
			n++
		}
		copy(distance[k+1:n], distance[k:n-1])
		copy(out[k+1:n], out[k:n-1])
		distance[k], out[k] = d, i
	}
	for ; n < len(out); n++ {
		out[n] = -1
	}
}

// nearest writes the indices of the library's entries nearest to a problem.
func (l *Library) nearest(h *horizonProblem, out []int) {
	var coordinates [scenarioSize + 1]float64
	l.scaled(h, &coordinates)
	nearest(l.entry, &coordinates, -1, out)
}

// libraryOf is the place of the library of a kind of preference.
func libraryOf(adaptive bool) int {
	if adaptive {
		return 0
	}
	return 1
}

// parallel calls f for every index on GOMAXPROCS goroutines, each with its own
// workspace.
func (y *System) parallel(ctx context.Context, n int, progress func(finished int), f func(w *interior, i int)) error {
	threads := runtime.GOMAXPROCS(0)
	workspaces := make([]*interior, threads)
	var report sync.Mutex
	finished := 0
	parallel.Each(threads, n, func(worker, i int) {
		if ctx.Err() != nil {
			return
		}
		if workspaces[worker] == nil {
			workspaces[worker] = newInterior(y)
		}
		f(workspaces[worker], i)
		report.Lock()
		defer report.Unlock()
		if finished++; finished%64 == 0 {
			progress(finished)
		}
	})
	return ctx.Err()
}
