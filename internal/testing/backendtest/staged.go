package backendtest

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

const (
	// stagedRounding is for values and first derivatives, whose elementary functions and implicit steps may be computed in another way.
	stagedRounding = 1e-10
	// roundedCorner is for values whose corners the stages round, by a ten-thousandth of a usual size.
	roundedCorner = 1e-3
	// curvatureTolerance is for second derivatives, which are held to differences.
	curvatureTolerance = 1e-4
)

// stageValues are what a domain.Derivatives.Stages writes of some points at once.
type stageValues struct {
	k                     int
	by                    []int // of the derivatives, entries of (s, c, u)
	next, j, m            []float64
	ofNext, ofJ, ofM      []float64
	w, lambda, z, h       []float64
	ofSigma, jSigma, hOfJ []float64
}

// stagesOf evaluates points with random weights.
func stagesOf(spec *domain.Spec, stages domain.Stages, points []point) *stageValues {
	ns, nc, nu, nj, nm, n := spec.MeasuredSize(), spec.ContextSize(), spec.ActionSize(), spec.ObjectiveSize(), len(spec.Margins), len(points)
	d := &stageValues{}
	for i := range nu {
		d.by = append(d.by, ns+nc+i)
	}
	d.by = append(d.by, stages.Moving()...)
	d.k = len(d.by)
	rng := newRand(domainSeed + 10)
	normal := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		return x
	}
	var x, u []float64
	for _, at := range points {
		x, u = append(append(x, at.s...), at.c...), append(u, at.u...)
	}
	row := func(n int) []float64 { return make([]float64, n) }
	d.next, d.j, d.m = row(n*(ns+nc)), row(n*nj), row(n*nm)
	d.ofNext, d.ofJ, d.ofM, d.h = row(n*(ns+nc)*d.k), row(n*nj*d.k), row(n*nm*d.k), row(n*d.k*d.k)
	d.ofSigma, d.jSigma, d.hOfJ = row(n*nj*d.k), normal(n*nj), row(n*d.k*d.k)
	d.w, d.lambda, d.z = normal(n*nj), normal(n*(ns+nc)), normal(n*nm)
	stages.Linearise(n, x, u, nil, nil, nil, d.ofNext, d.ofJ, d.ofM)
	stages.Curvature(d.w, d.lambda, d.z, make([]bool, n), d.h)
	stages.Priority(n, x, d.ofSigma)
	stages.PriorityCurvature(d.jSigma, d.hOfJ)
	stages.Evaluate(n, x, u, d.next, d.j, d.m)
	return d
}

// checkStaged holds a domain.Derivatives.Stages to the problem's own functions: its values to theirs, its first derivatives to those of
// differences along a random direction, and the second ones to differences of the first, where both sides agree that there is one.
func checkStaged(p domain.Problem, points []point) (errs []error) {
	of := domain.AbilitiesOfProblem(p).Derivatives.Stages
	if of == nil {
		return nil
	}
	stages, err := of()
	if err != nil {
		return []error{err}
	}
	if stages == nil {
		return nil
	}
	spec := p.Spec()
	middle := stagesOf(spec, stages, points)
	rng := newRand(domainSeed + 11)
	directions := make([][]float64, len(points))
	moved := func(h float64) *stageValues {
		var to []point
		for i, at := range points {
			y := slices.Concat(at.s, at.c, at.u)
			for q, b := range middle.by {
				y[b] += h * directions[i][q]
			}
			to = append(to, point{s: y[:len(at.s)], c: y[len(at.s) : len(at.s)+len(at.c)], u: y[len(at.s)+len(at.c):]})
		}
		return stagesOf(spec, stages, to)
	}
	for i, at := range points {
		y := slices.Concat(at.s, at.c, at.u)
		for _, b := range middle.by {
			directions[i] = append(directions[i], rng.NormFloat64()*math.Max(1, math.Abs(y[b]))/math.Sqrt(float64(middle.k)))
		}
	}
	errs = append(middle.checkValues(p, points), checkLimiting(p, stages.Limiting(), points)...)
	if len(spec.Switches) > 0 {
		return errs // its slopes have corners at every value, and no solver follows them: the relaxed problem's are checked
	}
	up, down := moved(differenceStep), moved(-differenceStep)
	return append(errs, middle.checkDifferences(p, points, directions, up, down)...)
}

// checkLimiting holds the entries of the context that are said to limit nothing to that: neither the state after a step, nor the margins, nor the
// entries that do limit change with them.
func checkLimiting(p domain.Problem, limiting []int, points []point) (errs []error) {
	spec := p.Spec()
	rng := newRand(domainSeed + 12)
	all := func(at point, c []float64) []float64 {
		next, after, m := make([]float64, len(at.s)), make([]float64, len(c)), make([]float64, len(spec.Margins))
		p.Step(at.s, c, at.u, next, after)
		p.Margins(at.s, c, at.u, m)
		out := append(next, m...)
		for _, i := range limiting {
			out = append(out, after[i])
		}
		return out
	}
	for _, at := range points {
		other := slices.Clone(at.c)
		for i := range other {
			if !slices.Contains(limiting, i) {
				other[i] += rng.NormFloat64()
			}
		}
		if got, want := all(at, other), all(at, at.c); !slices.Equal(got, want) {
			errs = append(errs, fmt.Errorf("Stages.Limiting lists the entries %v of the context, and others change states or margins: %v in place of %v", limiting, got, want))
		}
	}
	return errs
}

// checkMany holds domain.ManyMargins to Margins, and Project to what they count on.
func checkMany(p domain.Problem, points []point) (errs []error) {
	of := domain.AbilitiesOfProblem(p).ManyMargins
	if of == nil {
		return nil
	}
	many, err := of()
	if err != nil {
		return []error{err}
	}
	if many == nil {
		return nil
	}
	nm := len(p.Spec().Margins)
	for first := 0; first < len(points); first += many.Most() {
		some := points[first:min(len(points), first+many.Most())]
		var x, u, next []float64
		for _, at := range some {
			x, u = append(append(x, at.s...), at.c...), append(u, at.u...)
			sNext, cNext := make([]float64, len(at.s)), make([]float64, len(at.c))
			p.Step(at.s, at.c, at.u, sNext, cNext)
			next = append(append(next, sNext...), cNext...)
		}
		got, want := make([]float64, len(some)*nm), make([]float64, nm)
		many.Evaluate(len(some), x, u, next, got)
		for i, at := range some {
			p.Margins(at.s, at.c, at.u, want)
			for k, w := range want {
				if g := got[i*nm+k]; !(math.Abs(g-w) <= stagedRounding*math.Max(1, math.Abs(w))) {
					errs = append(errs, fmt.Errorf("point %d: margin %d is %v among many, %v alone", first+i, k, g, w))
				}
			}
		}
	}
	return append(errs, checkLeftAlone(p, points)...)
}

// checkManyValues holds domain.ManyValues to the problem's own functions, and Project to what they count on.
func checkManyValues(p domain.Problem, points []point) (errs []error) {
	of := domain.AbilitiesOfProblem(p).ManyValues
	if of == nil {
		return nil
	}
	values, err := of()
	if err != nil {
		return []error{err}
	}
	if values == nil {
		return nil
	}
	spec, n := p.Spec(), len(points)
	d := &stageValues{
		next: make([]float64, n*(spec.MeasuredSize()+spec.ContextSize())), j: make([]float64, n*spec.ObjectiveSize()), m: make([]float64, n*len(spec.Margins)),
	}
	var x, u []float64
	for _, at := range points {
		x, u = append(append(x, at.s...), at.c...), append(u, at.u...)
	}
	many := values()
	many.Evaluate(n, x, u, d.next, d.j, d.m)
	errs = append(d.checkValues(p, points), checkLeftAlone(p, points)...)
	sigma := make([]float64, n*spec.ObjectiveSize())
	many.Priorities(n, x, u, sigma)
	errs = append(errs, checkPriorities(p, points, sigma)...)
	many.Project(n, x, u, d.next, d.j, d.m)
	return append(errs, d.checkProjected(p, points, u)...)
}

// checkPriorities holds the priorities of many decisions to those of the problem's indicators.
func checkPriorities(p domain.Problem, points []point, sigma []float64) (errs []error) {
	spec := p.Spec()
	delta, want := make([]float64, spec.ObjectiveSize()), make([]float64, spec.ObjectiveSize())
	for i, at := range points {
		p.Indicators(at.s, at.u, at.c, delta)
		spec.Semantic.Priority(delta, want)
		for k, w := range want {
			if g := sigma[i*len(want)+k]; !(math.Abs(g-w) <= stagedRounding) {
				errs = append(errs, fmt.Errorf("point %d: priority %d is %v among many, %v alone", i, k, g, w))
			}
		}
	}
	return errs
}

// checkProjected holds actions projected together, with what they lead to: they keep the limits where Project finds one that does,
// the actions of switches being the same. Project alone may take an escape's action.
func (d *stageValues) checkProjected(p domain.Problem, points []point, u []float64) (errs []error) {
	spec := p.Spec()
	nu, margins := spec.ActionSize(), make([]float64, len(spec.Margins))
	after, escape := slices.Clone(points), domain.AbilitiesOfProblem(p).Escape
	for i, at := range points {
		after[i].u = u[i*nu : (i+1)*nu]
		alone := slices.Clone(at.u)
		kept := p.Project(at.s, at.c, alone) && (escape == nil || !escape(at.s, at.c, slices.Clone(at.u)))
		for _, w := range spec.Switches {
			kept = kept && alone[w.Action] == at.u[w.Action]
			if got := after[i].u[w.Action]; got != at.u[w.Action] {
				errs = append(errs, fmt.Errorf("point %d: the action %d of a switch was %v, projected %v", i, w.Action, at.u[w.Action], got))
			}
		}
		if p.Margins(at.s, at.c, after[i].u, margins); kept && !(domain.Smallest(margins) >= -spec.MarginTolerance-stagedRounding) {
			errs = append(errs, fmt.Errorf("point %d: the action %v breaks a limit by %v, while %v keeps them", i, after[i].u, -domain.Smallest(margins), alone))
		}
	}
	return append(errs, d.checkValues(p, after)...)
}

// checkLeftAlone holds Project to leave an action alone that is inside the box and keeps its margins.
func checkLeftAlone(p domain.Problem, points []point) (errs []error) {
	margins := make([]float64, len(p.Spec().Margins))
	for i, at := range points {
		p.Margins(at.s, at.c, at.u, margins)
		projected := slices.Clone(at.u)
		if p.Project(at.s, at.c, projected); domain.Smallest(margins) >= 0 && inside(p.Spec(), at.u) && !slices.Equal(projected, at.u) {
			errs = append(errs, fmt.Errorf("point %d: the action %v keeps its margins, and Project makes %v of it", i, at.u, projected))
		}
	}
	return errs
}

// inside reports whether an action is in its box.
func inside(spec *domain.Spec, u []float64) bool {
	for i, a := range spec.Action {
		if a.Bounded() && !(a.Lo <= u[i] && u[i] <= a.Hi) {
			return false
		}
	}
	return true
}

// checkValues holds values to those of the problem.
func (d *stageValues) checkValues(p domain.Problem, points []point) (errs []error) {
	tolerance := stagedRounding
	if rounded := domain.AbilitiesOfProblem(p).Derivatives.Rounded; rounded != nil && rounded() > 0 {
		tolerance = roundedCorner
	}
	for i, at := range points {
		next, j, m := make([]float64, len(d.next)/len(points)), make([]float64, len(d.j)/len(points)), make([]float64, len(d.m)/len(points))
		p.Step(at.s, at.c, at.u, next[:len(at.s)], next[len(at.s):])
		p.Objectives(at.s, at.u, at.c, j)
		p.Margins(at.s, at.c, at.u, m)
		for _, part := range []struct {
			name      string
			got, want []float64
		}{{"the next state and context", d.next, next}, {"the objectives", d.j, j}, {"the margins", d.m, m}} {
			for r, want := range part.want {
				if got := part.got[i*len(part.want)+r]; !(math.Abs(got-want) <= tolerance*math.Max(1, math.Abs(want))) {
					errs = append(errs, fmt.Errorf("point %d: entry %d of %s is %v by stages, %v by the problem", i, r, part.name, got, want))
				}
			}
		}
	}
	return errs
}

// checkDifferences holds derivatives along a direction of each point to differences between points on both sides.
func (d *stageValues) checkDifferences(p domain.Problem, points []point, directions [][]float64, up, down *stageValues) (errs []error) {
	n, k := len(points), d.k
	sigma := func(i int, h float64) []float64 {
		at := points[i]
		y := slices.Concat(at.s, at.c, at.u)
		for q, b := range d.by {
			y[b] += h * directions[i][q]
		}
		delta, w := make([]float64, len(d.j)/n), make([]float64, len(d.j)/n)
		p.Indicators(y[:len(at.s)], y[len(at.s)+len(at.c):], y[len(at.s):len(at.s)+len(at.c)], delta)
		p.Spec().Semantic.Priority(delta, w)
		return w
	}
	for i, at := range points {
		hold := func(name string, got, before, here, after, size, tolerance float64) {
			forward, backward := (after-here)/differenceStep, (here-before)/differenceStep
			scale := math.Max(math.Max(1, size), math.Max(math.Abs(forward), math.Abs(backward)))
			if math.Abs(forward-backward) > 1e-3*scale {
				return // a kink
			}
			if want := (forward + backward) / 2; !(math.Abs(got-want) <= tolerance*scale) {
				errs = append(errs, fmt.Errorf("point %d: %s is %v, by differences %v (s %v, c %v, u %v)", i, name, got, want, at.s, at.c, at.u))
			}
		}
		along := func(of []float64, r int) (sum float64) {
			for q, v := range directions[i] {
				sum += of[r*k+q] * v
			}
			return sum
		}
		values := func(name string, of []float64, before, here, after []float64) {
			for r := range len(here) / n {
				e := i*len(here)/n + r
				hold(fmt.Sprintf("the derivative of entry %d of %s", r, name), along(of, e), before[e], here[e], after[e], math.Abs(here[e]), 10*differenceTolerance)
			}
		}
		values("the next state and context", d.ofNext, down.next, d.next, up.next)
		values("the objectives", d.ofJ, down.j, d.j, up.j)
		values("the margins", d.ofM, down.m, d.m, up.m)
		before, here, after := sigma(i, -differenceStep), sigma(i, 0), sigma(i, differenceStep)
		for r := range here {
			hold(fmt.Sprintf("the derivative of priority %d", r), along(d.ofSigma, i*len(here)+r), before[r], here[r], after[r], 1, 10*differenceTolerance)
		}
		for q := range k {
			hold(fmt.Sprintf("the second derivative of the Lagrangian by entry %d", d.by[q]), d.turned(d.h, i, q, directions[i]),
				down.slope(n, i, q), d.slope(n, i, q), up.slope(n, i, q), d.magnitude(n, i, q), curvatureTolerance)
			hold(fmt.Sprintf("the second derivative of the priorities by entry %d", d.by[q]), d.turned(d.hOfJ, i, q, directions[i]),
				weigh(down.ofSigma, d.jSigma, n, i, q, k), weigh(d.ofSigma, d.jSigma, n, i, q, k), weigh(up.ofSigma, d.jSigma, n, i, q, k), 1, curvatureTolerance)
		}
	}
	return errs
}

// turned is row q of a point's symmetric matrix, whose lower triangle h holds, along a direction.
func (d *stageValues) turned(h []float64, i, q int, direction []float64) (sum float64) {
	h = h[i*d.k*d.k:]
	for r, v := range direction {
		sum += h[max(q, r)*d.k+min(q, r)] * v
	}
	return sum
}

// weigh is the derivative by direction q of weightsᵀ of a point's rows.
func weigh(of, weights []float64, n, i, q, k int) (sum float64) {
	rows := len(weights) / n
	for r := range rows {
		sum += weights[i*rows+r] * of[(i*rows+r)*k+q]
	}
	return sum
}

// slope is the derivative of a point's Lagrangian by direction q.
func (d *stageValues) slope(n, i, q int) float64 {
	return weigh(d.ofJ, d.w, n, i, q, d.k) + weigh(d.ofNext, d.lambda, n, i, q, d.k) - weigh(d.ofM, d.z, n, i, q, d.k)
}

// magnitude is the sum of the sizes of what slope adds up.
func (d *stageValues) magnitude(n, i, q int) float64 {
	return math.Abs(weigh(d.ofJ, d.w, n, i, q, d.k)) + math.Abs(weigh(d.ofNext, d.lambda, n, i, q, d.k)) + math.Abs(weigh(d.ofM, d.z, n, i, q, d.k))
}
