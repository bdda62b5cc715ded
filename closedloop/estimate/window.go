package estimate

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/ocp"
	"github.com/gpc-engine/gpc/tensor"
)

// window is the moving-horizon estimate of a Filter (Rao, Rawlings and Mayne, 2003). It finds the entries at each of the
// last decisions, and the noise that acted on the plant between them, that make
//
//	½ |v|² + ½ Σ |w|² + ½ Σ ((y − h)/deviation)²
//
// least within the bounds of the entries. The oldest entries are mean + root·v, which is the arrival cost. w is the noise
// in its standard deviations. A decision that leaves the window enters mean and root by a step of the filter about the last
// estimate of the window. The Filter judges the outputs, and its covariance is that of the estimate.
type window struct {
	size      int
	tail      *Filter    // the arrival cost: mean and root of the oldest entries, without what was measured of them
	decisions []observed // decisions, the oldest first
	plan      []float64  // v of the oldest, then w of each later decision
	problem   *smoothing
	solver    *ocp.Receding
	unsolved  int
}

// observed is a decision of a window.
type observed struct {
	y, c, lastAction []float64     // what was measured and is used, NaN elsewhere; the context; the action before it
	x                []float64     // estimate
	moves            []appliedMove // to the next decision
}

type appliedMove struct {
	movement
	u []float64
}

// windowTolerance is the KKT residual of a window's solve, relative to the largest derivative at its start.
const windowTolerance = 1e-9

func newWindow(f *Filter) (*window, error) {
	measurement := *f.measurement
	measurement.Window = 0
	tail, err := New(f.problem, &measurement, f.mean, f.spread[:f.ns])
	if err != nil {
		return nil, err
	}
	w := &window{size: f.measurement.Window, tail: tail}
	w.problem = newSmoothing(w)
	solver, err := ocp.New(w.problem, nil, func(_, _, _ []float64) {}, ocp.Options{Horizon: w.size, StateScale: w.problem.scale, Tolerance: windowTolerance})
	if err != nil {
		return nil, fmt.Errorf("estimate: a window of %d decisions: %w", w.size, err)
	}
	w.solver, err = solver.Receding(0, 0)
	return w, err
}

// clear begins an episode.
func (w *window) clear() { w.decisions, w.plan, w.unsolved = w.decisions[:0], w.plan[:0], 0 }

// open makes room for a decision, before anything of it is measured.
func (w *window) open(f *Filter) {
	if len(w.decisions) == 0 { // the filter's prediction is all that is known
		copy(w.tail.x, f.x)
		copy(w.tail.root, f.root)
	}
	if len(w.decisions) == w.size {
		w.marginalise()
	}
}

// marginalise takes the oldest decision out of the window, into the arrival cost.
func (w *window) marginalise() {
	t, oldest := w.tail, &w.decisions[0]
	deviation := slices.Clone(t.x)
	t.relinearise(oldest)
	copy(t.x, deviation)
	for i, y := range oldest.y {
		if y-y == 0 {
			predicted, variance := t.expect(i)
			t.absorb(i, y-predicted, variance)
		}
	}
	for i, x := range oldest.x {
		deviation[i] = t.x[i] - x
	}
	copy(t.x, oldest.x)
	for i := range oldest.moves {
		t.moveFrom(&oldest.moves[i], deviation)
	}
	tensor.Axpy(1, deviation, t.x)
	w.decisions = append(w.decisions[:0], w.decisions[1:]...)
	w.plan = slices.Delete(w.plan, 0, t.n)
	w.depart()
}

// depart makes the plan begin where it did: v of the entries that the window has become the oldest with, root being a triangle.
func (w *window) depart() {
	t := w.tail
	if len(w.decisions) == 0 {
		return
	}
	for i := range t.n {
		rest := w.decisions[0].x[i] - t.x[i]
		for j := range i {
			rest -= t.root[i*t.n+j] * w.plan[j]
		}
		if w.plan[i] = rest / t.root[i*t.n+i]; !(math.Abs(w.plan[i]) < Gate*Gate) {
			w.plan[i] = 0 // known without error, or nearly
		}
	}
}

// relinearise writes y and its derivatives at the estimate of a decision.
func (f *Filter) relinearise(decision *observed) {
	copy(f.c, decision.c)
	copy(f.u, decision.lastAction)
	copy(f.x, decision.x)
	f.place()
	f.linearise()
	copy(f.before, f.x)
}

// moveFrom moves an estimate that deviates from where derivatives are taken; deviation moves with it.
func (f *Filter) moveFrom(m *appliedMove, deviation []float64) {
	previous := slices.Clone(deviation)
	f.move(&m.movement, m.u)
	for i := range deviation {
		deviation[i] = 0
		for k, v := range previous {
			deviation[i] += f.jac[i*f.n+k] * v
		}
	}
}

// settle estimates the window with what is measured now. Where its solve does not converge the filter's estimate stands.
func (w *window) settle(f *Filter, y []float64) {
	if f.widened { // what was measured before is of another state
		w.decisions, w.plan = w.decisions[:0], w.plan[:0]
		return
	}
	valid := slices.Clone(y)
	for i, fault := range f.faults {
		if fault != Fine {
			valid[i] = math.NaN()
		}
	}
	w.push(f, valid)
	w.problem.forget()
	w.solver.Begin(w.plan)
	status, err := w.solver.Solve(w.tail.x, []float64{0}, len(w.decisions), domain.Preference{W: []float64{1}})
	if err != nil || !status.Converged || status.Violation > boundTolerance {
		w.unsolved++
		return
	}
	for k := range w.decisions {
		copy(w.plan[k*f.n:], w.solver.Action(k))
	}
	w.roll()
	copy(f.x, w.decisions[len(w.decisions)-1].x)
	f.bound()
}

// boundTolerance is how far a solved window may be beyond a bound, in the scale of the entry; the estimate is then on the bound.
const boundTolerance = 1e-4

// roll writes the entries that the plan leads through.
func (w *window) roll() {
	x := w.tail.x
	for k := range w.decisions {
		x = w.problem.real.arrive(x, []float64{float64(k)}, w.plan[k*w.tail.n:(k+1)*w.tail.n])
		copy(w.decisions[k].x, x)
	}
}

// push is a decision at the filter's estimate.
func (w *window) push(f *Filter, y []float64) {
	w.decisions = append(w.decisions, observed{y: y, c: slices.Clone(f.c), lastAction: slices.Clone(f.u), x: slices.Clone(f.x)})
	w.plan = append(w.plan, make([]float64, f.n)...)
}

// record takes an action before the filter moves. A step without a measurement at its beginning has a decision of its
// own.
func (w *window) record(f *Filter, m *movement, u []float64) {
	if len(w.decisions) == 0 {
		return
	}
	last := &w.decisions[len(w.decisions)-1]
	if m.acts && len(last.moves) > 0 {
		w.open(f)
		w.push(f, slices.Repeat([]float64{math.NaN()}, f.ny))
		last = &w.decisions[len(w.decisions)-1]
	}
	last.moves = append(last.moves, appliedMove{*m, slices.Clone(u)})
}
