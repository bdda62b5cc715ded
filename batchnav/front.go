package batchnav

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// FrontOptions say which trade-offs of an observation are decided, and how.
type FrontOptions struct {
	// Weights of the objectives, one row a point, each on the simplex; nil: at most Points, 0 for DefaultPoints. Three quarters
	// are an even lattice. The others lie between neighbours that are farthest apart in their objectives.
	Weights [][]float64
	Points  int
	// Most are bounds of the objectives, +Inf for none: the points beside the lattice lie where these are crossed. nil: there are none.
	Most []float64
	// Plans keeps the actions of the roll-outs, for ExactFront to begin with.
	Plans bool
	// Polish is the number of iterations by which domain.ProblemAbilities.Polish improves each point's plan; 0: none.
	Polish int
	// TimeLimit of ExactFront; 0: none.
	TimeLimit time.Duration
	// LookAhead, Remaining and Threads are those of RefineOptions.
	LookAhead, Remaining, Threads int
}

const (
	// DefaultPoints are the points of a front, MostPoints the largest number.
	DefaultPoints = 1000
	MostPoints    = 16384
	// bisections are the rounds in which a lattice is made denser, each with the same share of points.
	bisections = 4
	// crossings are those where a bound is crossed.
	crossings = 8
)

// FrontPoint is one trade-off: the map's decision under one weighting, and the roll-out that follows it.
type FrontPoint struct {
	W         []float64 `json:"w"`         // weights of the objectives
	U         []float64 `json:"u"`         // first action, projected onto the limits
	J         []float64 `json:"j"`         // objectives summed over the roll-out
	Margin    float64   `json:"margin"`    // smallest of the roll-out
	Feasible  bool      `json:"feasible"`  // whether it keeps every limit
	Dominated bool      `json:"dominated"` // whether another feasible point is no dearer in any objective and cheaper in one

	plan []float64 // the actions of the roll-out; nil: they were not kept
}

// Front is all trade-offs of one observation. Its JSON keys are those of `gpc front`.
type Front struct {
	Points    []FrontPoint `json:"points"`
	LookAhead int          `json:"look_ahead"` // decisions of a roll-out
	Ideal     []float64    `json:"ideal"`      // least of each objective among the feasible points that no other dominates; null: no point is feasible
	Nadir     []float64    `json:"nadir"`      // largest of each among them
	Knee      int          `json:"knee"`       // point of the least sum of objectives, each from 0 at Ideal to 1 at Nadir; −1: no point is feasible

	Incomplete bool `json:"incomplete,omitempty"` // true: the time limit came before the last solve of an exact front; absent elsewhere
}

// Fronts decides all trade-offs of one observation after another, each in one batch. It is used by one goroutine.
type Fronts struct {
	problem     domain.Problem
	search      FrontSearch // nil: the map's decisions
	rollouts    *rollouts
	input, z    tensor.Matrix // of E_x and D_u
	state, ctx  tensor.Matrix
	plans       tensor.Matrix
	cost        []float64
	margin      []float64
	projected   []float64
	preferences []domain.Preference
	slot        []float64
}

// NewFronts prepares the fronts of a map, of at most that many points each.
func NewFronts(b backend.Backend, m *model.Model, p domain.Problem, opt Options, points int) (*Fronts, error) {
	if points < 1 || points > MostPoints {
		return nil, fmt.Errorf("front: a workspace for %d points, want 1 to %d", points, MostPoints)
	}
	l, err := load(b, m, p, &opt)
	if err != nil {
		return nil, err
	}
	return newFronts(l, points)
}

// newFronts are the fronts of a map that is loaded, whose stepper they make.
func newFronts(l *loaded, points int) (_ *Fronts, err error) {
	if err := l.makeStepper(points); err != nil {
		return nil, err
	}
	r := newRollouts(l)
	if r.many, err = l.manyValues(); err != nil {
		return nil, err
	}
	spec := l.spec
	return &Fronts{
		problem: l.problem, rollouts: r, input: tensor.New(points, spec.ObservationSize()), z: tensor.New(points, l.model.Latent()), state: tensor.New(points, spec.MeasuredSize()),
		ctx: tensor.New(points, spec.ContextSize()), plans: tensor.New(points, spec.PlanSize()), cost: make([]float64, points), margin: make([]float64, points),
		projected: make([]float64, points*spec.PlanSize()), slot: make([]float64, spec.PreferenceSize()),
	}, nil
}

// FrontSearch plans what remains from an observation under its preference; neighbour is the plan of the nearest weighting, nil for the first.
type FrontSearch func(obs Observation, neighbour []float64) (domain.Chosen, error)

// NewSearchFronts are the fronts of a search: a plan a point, to its own end.
func NewSearchFronts(p domain.Problem, search FrontSearch, points int) (*Fronts, error) {
	if points < 1 || points > MostPoints {
		return nil, fmt.Errorf("front: a workspace for %d points, want 1 to %d", points, MostPoints)
	}
	return &Fronts{problem: p, search: search, cost: make([]float64, points)}, nil
}

// find adds points of a search to a front.
func (f *Fronts) find(ctx context.Context, front *Front, obs Observation, weights [][]float64, decisions int) error {
	spec := f.problem.Spec()
	for _, w := range weights {
		obs.Preference = domain.Preference{W: w}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := spec.CheckObservation(obs.S, obs.C, obs.Preference); err != nil {
			return fmt.Errorf("front: point %d: the observation %w", len(front.Points), err)
		}
		var neighbour []float64
		closest := math.Inf(1)
		for i := range front.Points {
			if distance := floats.Distance(front.Points[i].W, w, 1); distance < closest {
				closest, neighbour = distance, front.Points[i].plan
			}
		}
		decision, err := f.search(obs, neighbour)
		if err != nil {
			return err
		}
		planned := len(decision.Plan) / spec.ActionSize()
		if decisions > 0 && planned != decisions {
			return fmt.Errorf("front: look-ahead %d, but a search plans to its own end, which is %d", decisions, planned)
		}
		point := simulated(f.problem, obs, w, slices.Clone(decision.Plan), false)
		point.Feasible = point.Feasible && decision.Feasible
		front.LookAhead, front.Points = planned, append(front.Points, point)
	}
	return nil
}

// Front decides an observation, whose own preference is not read, under every weighting, and rolls all of them out under the true
// dynamics. The actions are those of `direct` without its guard, or those of a search.
func (f *Fronts) Front(ctx context.Context, obs Observation, opt FrontOptions) (*Front, error) {
	spec := f.problem.Spec()
	m := spec.ObjectiveSize()
	if len(opt.Weights) == 0 {
		points := cmp.Or(opt.Points, min(DefaultPoints, len(f.cost)))
		if points < m || points > len(f.cost) {
			return nil, fmt.Errorf("front: %d points, want %d to the %d that there is room for", points, m, len(f.cost))
		}
		opt.Points = points
	}
	if n := len(opt.Weights); n > len(f.cost) {
		return nil, fmt.Errorf("front: %d weightings, want at most the %d that there is room for", n, len(f.cost))
	}
	decisions, err := opt.decisions(spec, domain.AbilitiesOfProblem(f.problem), obs.C)
	if err != nil {
		return nil, err
	}
	front := &Front{LookAhead: decisions}
	weights, rounds := opt.Weights, 0
	var pairs [][2]int
	if len(weights) == 0 {
		weights, rounds = dataset.Lattice(m, max(m, opt.Points-opt.Points/4)), bisections
		pairs = dataset.Neighbours(weights)
		if opt.Most != nil {
			rounds = crossings
		}
	}
	if err := f.decide(ctx, front, obs, weights, opt); err != nil {
		return nil, err
	}
	if rounds > 0 { // later points count as not dominated until the end
		front.compare(m)
	}
	for round := range rounds {
		middles, next := front.bisect(pairs, opt.Most, (opt.Points-len(front.Points)+rounds-round-1)/(rounds-round))
		if pairs = next; len(middles) == 0 {
			break
		}
		if err := f.decide(ctx, front, obs, middles, opt); err != nil {
			return nil, err
		}
	}
	if opt.Polish > 0 {
		if err := f.polish(ctx, front, obs, opt); err != nil {
			return nil, err
		}
	}
	front.compare(m)
	return front, nil
}

// polish improves the plan of each point by the problem's own method, and then what is cheapest under its weights of all points' plans.
// Where the roll-out of a plan's projected actions keeps the limits and costs less than the point, it is the point's.
func (f *Fronts) polish(ctx context.Context, front *Front, obs Observation, opt FrontOptions) error {
	improve := domain.AbilitiesOfProblem(f.problem).Polish
	if improve == nil || front.Points[0].plan == nil {
		return fmt.Errorf("front: case %s has no polish of the plans of its front", f.problem.Spec().Name)
	}
	for round := range 2 {
		points := slices.Clone(front.Points)
		parallel.Each(max(1, opt.Threads), len(points), func(_, i int) {
			p, best := &front.Points[i], &points[i]
			if ctx.Err() != nil {
				return
			}
			for k := range points {
				if q := &points[k]; round > 0 && q.Feasible && (!best.Feasible || tensor.DotInOrder(p.W, q.J) < tensor.DotInOrder(p.W, best.J)) {
					best = q
				}
			}
			if round > 0 && best == &points[i] {
				return
			}
			plan := slices.Clone(best.plan)
			for polished := range 2 { // as it is, and polished
				if polished > 0 && !improve(obs.S, obs.C, domain.Preference{W: p.W}, plan, opt.Polish) {
					break
				}
				candidate := simulated(f.problem, obs, p.W, slices.Clone(plan), true)
				if candidate.Feasible && (!p.Feasible || tensor.DotInOrder(p.W, candidate.J) < tensor.DotInOrder(p.W, p.J)) {
					*p = candidate
				}
			}
		})
	}
	return ctx.Err()
}

// decisions are those of a roll-out from a context.
func (o *FrontOptions) decisions(spec *domain.Spec, abilities *domain.ProblemAbilities, c []float64) (int, error) {
	if o.LookAhead < 0 || o.Remaining < 0 || max(o.LookAhead, o.Remaining) > MaxLookAhead {
		return 0, fmt.Errorf("front: look-ahead %d, remaining %d: want 0 to %d", o.LookAhead, o.Remaining, MaxLookAhead)
	}
	return lookAhead(spec, abilities, c, o.LookAhead, o.Remaining), nil
}

// decide adds points of these weights to a front.
func (f *Fronts) decide(ctx context.Context, front *Front, obs Observation, weights [][]float64, opt FrontOptions) error {
	if f.search != nil {
		return f.find(ctx, front, obs, weights, opt.LookAhead)
	}
	r, n := f.rollouts, len(weights)
	spec := r.spec
	m := spec.ObjectiveSize()
	f.preferences = f.preferences[:0]
	for i, w := range weights {
		pref := domain.Preference{W: w}
		if err := spec.CheckObservation(obs.S, obs.C, pref); err != nil {
			return fmt.Errorf("front: point %d: the observation %w", i, err)
		}
		r.observe(obs.S, obs.C, pref, f.slot, f.input.Row(i), f.state.Row(i), f.ctx.Row(i), nil)
		f.preferences = append(f.preferences, pref)
	}
	z, plans := f.z.Slice(0, n), f.plans.Slice(0, n)
	if err := r.encoder.Forward(f.input.Slice(0, n), z); err != nil {
		return err
	}
	if err := r.stepper.Decode(z, f.ctx.Slice(0, n), f.state.Slice(0, n), plans, tensor.Matrix{}); err != nil {
		return err
	}
	r.preferences, r.totals = f.preferences, make([]float64, n*m)
	if (opt.Plans || opt.Polish > 0) && spec.Plan == 1 {
		r.executed = make([]float64, n*front.LookAhead*spec.ActionSize())
	}
	defer func() { r.preferences, r.totals, r.executed = nil, nil, nil }()
	batch := domain.PlanBatch{
		S: obs.S, C: obs.C, Plans: plans, Steps: front.LookAhead, Threads: opt.Threads,
		Projected: f.projected[:n*spec.PlanSize()], Cost: f.cost[:n], Margin: f.margin[:n],
	}
	if err := r.ScorePlans(ctx, batch); err != nil {
		return err
	}
	for i, w := range weights {
		u := slices.Clone(row(f.projected, i, spec.PlanSize())[:spec.ActionSize()])
		p := FrontPoint{W: w, U: u, J: row(r.totals, i, m), Margin: f.margin[i], Feasible: spec.Keeps(f.margin[i])}
		if len(r.executed) > 0 {
			p.plan = row(r.executed, i, front.LookAhead*len(u))
		}
		front.Points = append(front.Points, p)
	}
	return nil
}

// bisect are the weights between so many pairs of neighbours that are farthest apart in an objective, from 0 at Ideal to 1 at Nadir,
// and the pairs as they are then. With bounds only pairs count of which one point keeps them, or where no point does those of the nearest.
func (f *Front) bisect(pairs [][2]int, bounds []float64, most int) (middles [][]float64, next [][2]int) {
	closest := -1
	if bounds != nil && f.Best(bounds) < 0 {
		closest = f.nearest(bounds)
	}
	gap := func(pair [2]int) (largest float64) {
		a, b := &f.Points[pair[0]], &f.Points[pair[1]]
		switch {
		case !a.Feasible || !b.Feasible || a.Dominated && b.Dominated:
			return 0
		case closest >= 0 && pair[0] != closest && pair[1] != closest:
			return 0
		case closest < 0 && bounds != nil && (a.exceeds(bounds) == 0) == (b.exceeds(bounds) == 0):
			return 0
		}
		for j, v := range a.J {
			if reach := f.Nadir[j] - f.Ideal[j]; reach > 0 {
				largest = max(largest, math.Abs(v-b.J[j])/reach)
			}
		}
		return largest
	}
	gaps := make(map[[2]int]float64, len(pairs))
	for _, pair := range pairs {
		gaps[pair] = gap(pair)
	}
	next = slices.Clone(pairs)
	slices.SortStableFunc(next, func(a, b [2]int) int { return cmp.Compare(gaps[b], gaps[a]) })
	for i := range min(most, len(next)) {
		pair, w := next[i], make([]float64, len(f.Ideal))
		if gaps[pair] == 0 {
			break
		}
		for j := range w {
			w[j] = (f.Points[pair[0]].W[j] + f.Points[pair[1]].W[j]) / 2
		}
		middle := len(f.Points) + len(middles)
		middles, next[i] = append(middles, w), [2]int{pair[0], middle}
		next = append(next, [2]int{middle, pair[1]})
	}
	return middles, next
}

// compare marks the dominated points, and finds what follows from the others.
func (f *Front) compare(objectives int) {
	f.Knee, f.Ideal, f.Nadir = -1, slices.Repeat([]float64{math.Inf(1)}, objectives), slices.Repeat([]float64{math.Inf(-1)}, objectives)
	var order []int
	for i := range f.Points {
		if f.Points[i].Feasible {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return slices.Compare(f.Points[a].J, f.Points[b].J) })
	var nondominated []int
	for _, i := range order { // what dominates a point stands before it
		p, rivals := &f.Points[i], nondominated
		if objectives == 2 { // the last has the least of the second
			rivals = rivals[max(0, len(rivals)-1):]
		}
		p.Dominated = slices.ContainsFunc(rivals, func(k int) bool { return dominates(f.Points[k].J, p.J) })
		if p.Dominated {
			continue
		}
		nondominated = append(nondominated, i)
		for j, v := range p.J {
			f.Ideal[j], f.Nadir[j] = min(f.Ideal[j], v), max(f.Nadir[j], v)
		}
	}
	if len(nondominated) == 0 {
		f.Ideal, f.Nadir = nil, nil
	}
	least := math.Inf(1)
	for _, i := range nondominated {
		if sum := f.distance(i); sum < least {
			least, f.Knee = sum, i
		}
	}
}

// distance is the sum of a point's objectives, each from 0 at Ideal to 1 at Nadir.
func (f *Front) distance(i int) (sum float64) {
	for j := range f.Ideal {
		sum += f.share(i, j)
	}
	return sum
}

// share is an objective of a point, from 0 at Ideal to 1 at Nadir.
func (f *Front) share(i, j int) float64 {
	if reach := f.Nadir[j] - f.Ideal[j]; reach > 0 {
		return (f.Points[i].J[j] - f.Ideal[j]) / reach
	}
	return 0
}

// exceeds is how far the objectives of a point are above bounds, in all.
func (p *FrontPoint) exceeds(bounds []float64) (sum float64) {
	for j, v := range p.J {
		sum += max(0, v-bounds[j])
	}
	return sum
}

// dominates reports whether a is no dearer in any objective than b, and cheaper in one.
func dominates(a, b []float64) bool {
	cheaper := false
	for j, v := range a {
		if v > b[j] {
			return false
		}
		cheaper = cheaper || v < b[j]
	}
	return cheaper
}

// Best is the feasible point whose objectives are at most these bounds, +Inf for no bound, and in which the sum of those without a
// bound, each from 0 at Ideal to 1 at Nadir, is least; of all where each has one. It is −1 where no point is within the bounds.
func (f *Front) Best(bounds []float64) int {
	var free []int
	unbounded := func(b float64) bool { return math.IsInf(b, 1) }
	for j, b := range bounds {
		if unbounded(b) || !slices.ContainsFunc(bounds, unbounded) {
			free = append(free, j)
		}
	}
	return f.least(bounds, free...)
}

// least is the point within bounds of the least sum of these objectives, each from 0 at Ideal to 1 at Nadir; −1: none is within them.
func (f *Front) least(bounds []float64, objectives ...int) int {
	best, least := -1, math.Inf(1)
	for i := range f.Points {
		p, sum := &f.Points[i], 0.0
		if !p.Feasible || p.Dominated || p.exceeds(bounds) > 0 {
			continue
		}
		for _, j := range objectives {
			sum += f.share(i, j)
		}
		if sum < least {
			best, least = i, sum
		}
	}
	return best
}

// nearest is the point, of those that no other dominates, whose objectives exceed bounds the least, each as a share of the front. What comes
// first outweighs all behind it. −1: none is feasible.
func (f *Front) nearest(bounds []float64, first ...int) int {
	const outweighs = 1e-2
	best, least := -1, math.Inf(1)
	for i := range f.Points {
		p, sum := &f.Points[i], 0.0
		if !p.Feasible || p.Dominated {
			continue
		}
		for j, v := range p.J {
			if reach := f.Nadir[j] - f.Ideal[j]; reach > 0 {
				sum += max(0, v-bounds[j]) / reach * math.Pow(outweighs, float64(max(0, slices.Index(first, j))))
			}
		}
		if sum < least {
			best, least = i, sum
		}
	}
	return best
}
