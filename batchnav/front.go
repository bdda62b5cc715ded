package batchnav

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
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
	// Weights of the objectives, one row a point, each on the simplex; nil: at most Points, 0 for the default. Three quarters
	// are an even lattice without weights below a hundredth. The others lie between neighbours that are farthest apart in their
	// objectives.
	Weights [][]float64
	Points  int
	// Most are bounds of the objectives, +Inf for none: the lattice then has its corners, and the other points lie where these are
	// crossed. nil: there are none.
	Most []float64
	// Plans keeps the actions of the roll-outs, for ExactFront to begin with.
	Plans bool
	// Polish is the number of iterations by which domain.ProblemAbilities.Polish improves points' plans; 0: none. −1 are those of a
	// method that polishes. Where the map was compiled for none they are of the points that break a limit.
	Polish int
	// TimeLimit of a front that is solved or searched point by point, which has what is found by then; 0: none.
	TimeLimit time.Duration
	// LookAhead, Remaining and Threads are those of RefineOptions.
	LookAhead, Remaining, Threads int
}

const (
	// DefaultPoints are the points of a map's front that states none, SolvedPoints those of one that is solved or searched point by point,
	// MostPoints the largest number.
	DefaultPoints = 1000
	SolvedPoints  = 50
	MostPoints    = 16384
	// bisections are the rounds in which a lattice is made denser, each with the same share of points.
	bisections = 4
	// crossings are those where a bound is crossed.
	crossings = 8
	// polishedPoints are polished at most. The plans of others that are to be polished then lie between theirs.
	polishedPoints = 64
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
	LookAhead int          `json:"look_ahead"`         // decisions of a roll-out
	Ideal     []float64    `json:"ideal"`              // least of each objective among the feasible points that no other dominates; null: no point is feasible
	Nadir     []float64    `json:"nadir"`              // largest of each among them
	Knee      int          `json:"knee"`               // point of the least sum of objectives, each from 0 at Ideal to 1 at Nadir; −1: no point is feasible
	Polished  int          `json:"polished,omitempty"` // points whose plans a polish has improved; absent: none

	OffMap     bool `json:"off_map,omitempty"`    // true: a state is far beyond what the map was trained on, or an entry of the context is; absent elsewhere
	Incomplete bool `json:"incomplete,omitempty"` // true: the time limit came before the last point; absent elsewhere
}

// Fronts decides all trade-offs of one observation after another, each in one batch. It is used by one goroutine.
type Fronts struct {
	problem domain.Problem
	search  FrontSearch // nil: the map's decisions
	workers []*rollouts // one a thread, which share nothing
	rows    int         // of a worker at a time
	points  int         // of a front that states none
	// polishes: the map was compiled for a method that polishes.
	polishes bool
}

const (
	serialRows = 96   // of one thread: whole tiles of the products, whose states stay in a cache
	batchRows  = 1024 // of a backend that spreads them by itself
)

// NewFronts prepares the fronts of a map.
func NewFronts(b backend.Backend, m *model.Model, p domain.Problem, opt Options) (*Fronts, error) {
	l, err := load(b, m, p, &opt)
	if err != nil {
		return nil, err
	}
	return newFronts(l)
}

// newFronts are the fronts of a map that is loaded.
func newFronts(l *loaded) (*Fronts, error) {
	compiled, _ := OptionsFor(l.model.Provenance.Method)
	f, threads := &Fronts{problem: l.problem, rows: batchRows, points: DefaultPoints, polishes: compiled.Search.Polish > 0}, 1
	serial, ok := l.backend.(backend.Serial)
	if ok {
		threads, f.rows = l.backend.Describe().HostThreads(), serialRows
	}
	for range threads {
		single, err := *l, error(nil)
		if ok {
			single.backend = serial.Serial()
		}
		if single.encoder, err = single.backend.NewNet(l.model.EncoderX); err != nil {
			return nil, fmt.Errorf("front: E_x: %w", err)
		}
		if err := single.makeStepper(f.rows); err != nil {
			return nil, err
		}
		r := newRollouts(&single)
		if r.many, err = single.manyValues(); err != nil {
			return nil, err
		}
		r.grow(f.rows, 1)
		f.workers = append(f.workers, r)
	}
	return f, nil
}

// FrontSearch plans a number of decisions from an observation under its preference; neighbour is the plan of the nearest weighting, nil for
// the first. Without a plan the weighting has none.
type FrontSearch func(ctx context.Context, obs Observation, neighbour []float64, decisions int) (domain.Chosen, error)

// NewSearchFronts are the fronts of a search: a plan a point, to its own end.
func NewSearchFronts(p domain.Problem, search FrontSearch) *Fronts {
	return &Fronts{problem: p, search: search, points: SolvedPoints}
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
		decision, err := f.search(ctx, obs, neighbour, front.LookAhead)
		if err != nil {
			return err
		}
		if decision.Plan == nil {
			continue
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
	opt.Points = cmp.Or(len(opt.Weights), opt.Points, f.points)
	if opt.Points > MostPoints || len(opt.Weights) == 0 && opt.Points < m {
		return nil, fmt.Errorf("front: %d points, want %d to %d", opt.Points, m, MostPoints)
	}
	decisions, err := opt.decisions(spec, domain.AbilitiesOfProblem(f.problem), obs.C)
	if err != nil {
		return nil, err
	}
	front := &Front{Points: []FrontPoint{}, LookAhead: decisions}
	front.OffMap = f.search == nil && f.workers[0].outsideEnvelope(obs.S, obs.C, 0)
	weights, rounds := opt.Weights, 0
	var pairs [][2]int
	if len(weights) == 0 {
		n := max(m, opt.Points-opt.Points/4)
		weights, rounds = dataset.Lattice(m, n), crossings
		pairs = dataset.Neighbours(weights)
		if opt.Most == nil {
			weights, rounds = dataset.Proper(m, n), bisections
		}
	}
	run, end := opt.limit(ctx)
	defer end()
	opt.Plans = opt.Plans || opt.Polish > 0 || opt.Polish < 0 && f.polishes
	err = f.decide(run, front, obs, weights, opt)
	if rounds > 0 { // later points count as not dominated until the end
		front.compare(m)
	}
	for round := 0; round < rounds && err == nil; round++ {
		middles, next := front.bisect(pairs, opt.Most, (opt.Points-len(front.Points)+rounds-round-1)/(rounds-round))
		if pairs = next; len(middles) == 0 {
			break
		}
		err = f.decide(run, front, obs, middles, opt)
	}
	if front.Incomplete = err != nil; err != nil && (run.Err() == nil || ctx.Err() != nil) {
		return nil, err
	}
	if opt.Polish != 0 && !front.Incomplete {
		if err := f.polish(ctx, front, obs, opt); err != nil {
			return nil, err
		}
	}
	front.compare(m)
	return front, nil
}

// polish improves the plans of points by the problem's own method, each from its own and then from the cheapest of others' under its
// weights. Beyond polishedPoints a point tries what lies between the two cheapest of these. The better plan stays.
func (f *Fronts) polish(ctx context.Context, front *Front, obs Observation, opt FrontOptions) error {
	improve := domain.AbilitiesOfProblem(f.problem).Polish
	able := f.search == nil && improve != nil && f.problem.Spec().Plan == 1
	if !able && opt.Polish > 0 {
		return fmt.Errorf("front: case %s has no polish of the plans of its front", f.problem.Spec().Name)
	}
	var numbers []int // of the points that are to be better
	var weights [][]float64
	for i, p := range front.Points {
		if weights = append(weights, p.W); able && (opt.Polish > 0 || f.polishes || !p.Feasible) {
			numbers = append(numbers, i)
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	if !opt.Plans {
		front.Points, opt.Plans = nil, true
		if err := f.decide(ctx, front, obs, weights, opt); err != nil {
			return err
		}
	}
	slices.SortStableFunc(numbers, func(a, b int) int { return slices.Compare(front.Points[a].W, front.Points[b].W) })
	n := min(polishedPoints, len(numbers))
	for k := range n { // the first are spread over the weights
		spread := k * (len(numbers) - 1) / max(1, n-1)
		numbers[k], numbers[spread] = numbers[spread], numbers[k]
	}
	if opt.Polish < 0 {
		opt.Polish = polishIterations
	}
	initial := slices.Clone(front.Points)
	// adopt makes a plan a point's where that is better.
	adopt := func(p *FrontPoint, plan []float64) {
		q := simulated(f.problem, obs, p.W, slices.Clone(plan), true)
		if w := f.counted(p.W); q.Feasible && (!p.Feasible || tensor.DotInOrder(w, q.J) < tensor.DotInOrder(w, p.J)) {
			*p = q
		}
	}
	// attempt gives a point a plan, and what the problem's method makes of it.
	attempt := func(p *FrontPoint, plan []float64) {
		if adopt(p, plan); ctx.Err() == nil && improve(obs.S, obs.C, domain.Preference{W: p.W}, nil, plan, opt.Polish) {
			adopt(p, plan)
		}
	}
	visit := func(numbers []int, task func(i int)) {
		parallel.Each(max(1, opt.Threads), len(numbers), func(_, k int) { task(numbers[k]) })
	}
	sources, remainder := numbers[:n], numbers[n:]
	visit(sources, func(i int) { attempt(&front.Points[i], slices.Clone(front.Points[i].plan)) })
	points := slices.Clone(front.Points)
	visit(sources, func(i int) {
		best, second := cheapest(points, f.counted(points[i].W))
		if best == &points[i] { // its own was polished
			best = second
		}
		if best != nil {
			attempt(&front.Points[i], slices.Clone(best.plan))
		}
	})
	points = points[:0]
	for _, i := range sources {
		points = append(points, front.Points[i])
	}
	visit(remainder, func(i int) {
		p := &front.Points[i]
		if best, second := cheapest(points, f.counted(p.W)); second != nil {
			plan, share := slices.Clone(best.plan), floats.Distance(p.W, best.W, 1)
			share /= share + floats.Distance(p.W, second.W, 1)
			floats.Scale(1-share, plan)
			floats.AddScaled(plan, share, second.plan)
			adopt(p, plan)
		}
	})
	for i := range initial {
		if !slices.Equal(front.Points[i].plan, initial[i].plan) {
			front.Polished++
		}
	}
	return ctx.Err()
}

// counted are the weights of the sums that the plant counts a decision under weights with.
func (f *Fronts) counted(w []float64) []float64 {
	counted := make([]float64, len(w))
	domain.AbilitiesOfProblem(f.problem).Weights(domain.Preference{W: w}, counted)
	return counted
}

// cheapest are the two feasible points whose sums cost least under weights; nil: there are fewer.
func cheapest(points []FrontPoint, w []float64) (best, second *FrontPoint) {
	cost := func(p *FrontPoint) float64 { return tensor.DotInOrder(w, p.J) }
	for i := range points {
		switch p := &points[i]; {
		case !p.Feasible:
		case best == nil || cost(p) < cost(best):
			best, second = p, best
		case second == nil || cost(p) < cost(second):
			second = p
		}
	}
	return best, second
}

// decisions are those of a roll-out from a context.
func (o *FrontOptions) decisions(spec *domain.Spec, abilities *domain.ProblemAbilities, c []float64) (int, error) {
	if o.LookAhead < 0 || o.Remaining < 0 || max(o.LookAhead, o.Remaining) > MaxLookAhead {
		return 0, fmt.Errorf("front: look-ahead %d, remaining %d: want 0 to %d", o.LookAhead, o.Remaining, MaxLookAhead)
	}
	return lookAhead(spec, abilities, c, o.LookAhead, o.Remaining), nil
}

// limit is a context that ends with the time limit, if there is one.
func (o *FrontOptions) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.TimeLimit > 0 {
		return context.WithTimeout(ctx, o.TimeLimit)
	}
	return ctx, func() {}
}

// decide adds points of these weights to a front.
func (f *Fronts) decide(ctx context.Context, front *Front, obs Observation, weights [][]float64, opt FrontOptions) error {
	if f.search != nil {
		return f.find(ctx, front, obs, weights, opt.LookAhead)
	}
	first, n, threads := len(front.Points), len(weights), max(1, min(opt.Threads, len(f.workers)))
	for _, w := range weights {
		if err := f.problem.Spec().CheckObservation(obs.S, obs.C, domain.Preference{W: w}); err != nil {
			return fmt.Errorf("front: point %d: the observation %w", len(front.Points), err)
		}
		front.Points = append(front.Points, FrontPoint{W: w})
	}
	if threads > 1 {
		opt.Threads = 1
	}
	rows := min(f.rows, (n+threads-1)/threads)
	errs := make([]error, threads)
	parallel.Each(threads, (n+rows-1)/rows, func(worker, chunk int) {
		points := front.Points[first+chunk*rows : first+min(n, (chunk+1)*rows)]
		errs[worker] = cmp.Or(errs[worker], f.workers[worker].decide(ctx, points, obs, front.LookAhead, opt))
	})
	return cmp.Or(errs...)
}

// decide decides points under their weights, and rolls them out.
func (r *rollouts) decide(ctx context.Context, points []FrontPoint, obs Observation, decisions int, opt FrontOptions) error {
	n, m := len(points), r.spec.ObjectiveSize()
	nu, np := r.spec.ActionSize(), r.spec.PlanSize()
	r.preferences, r.totals, r.executed = r.preferences[:0], make([]float64, n*m), nil
	for i := range points {
		r.preferences = append(r.preferences, domain.Preference{W: points[i].W})
		r.observe(obs.S, obs.C, r.preferences[i], r.scratch[0].slot, r.input.Row(i), r.state.Row(i), r.ctx.Row(i), nil)
	}
	if err := r.follow(n, 0); err != nil {
		return err
	}
	if opt.Plans && r.spec.Plan == 1 {
		r.executed = make([]float64, n*decisions*nu)
	}
	b := domain.PlanBatch{
		S: obs.S, C: obs.C, Plans: r.plan.Slice(0, n), Steps: decisions, Threads: opt.Threads,
		Projected: make([]float64, n*np), Cost: make([]float64, n), Margin: make([]float64, n),
	}
	if err := r.ScorePlans(ctx, b); err != nil {
		return err
	}
	for i := range points {
		p := &points[i]
		p.U, p.J = row(b.Projected, i, np)[:nu:nu], row(r.totals, i, m)
		p.Margin, p.Feasible = b.Margin[i], r.spec.Keeps(b.Margin[i]) && tensor.Finite(p.J)
		if len(r.executed) > 0 {
			p.plan = row(r.executed, i, decisions*nu)
		}
	}
	return nil
}

// bisect are the weights between `most` pairs of neighbours that are farthest apart in an objective, from 0 at Ideal to 1 at Nadir,
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
	gaps, order := make([]float64, len(pairs)), make([]int, len(pairs))
	for i, pair := range pairs {
		gaps[i], order[i] = gap(pair), i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(gaps[b], gaps[a]), a-b) })
	next = slices.Clone(pairs)
	for _, i := range order[:min(most, len(order))] {
		pair, w := pairs[i], make([]float64, len(f.Ideal))
		if gaps[i] == 0 {
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
	f.Ideal, f.Nadir = slices.Repeat([]float64{math.Inf(1)}, objectives), slices.Repeat([]float64{math.Inf(-1)}, objectives)
	var order []int
	for i := range f.Points {
		if f.Points[i].Feasible {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return slices.Compare(f.Points[a].J, f.Points[b].J) })
	var nondominated, stairs []int // stairs: those of three objectives that no other is below in the second and third, by the second
	for _, i := range order {      // what dominates a point stands before it
		p, rivals, step := &f.Points[i], nondominated, 0
		switch objectives {
		case 2: // the last has the least of the second
			rivals = rivals[max(0, len(rivals)-1):]
		case 3: // of those with no more of the second the last has the least of the third
			step = sort.Search(len(stairs), func(k int) bool { return f.Points[stairs[k]].J[1] > p.J[1] })
			rivals = stairs[max(0, step-1):step]
		}
		p.Dominated = slices.ContainsFunc(rivals, func(k int) bool { return dominates(f.Points[k].J, p.J) })
		if p.Dominated {
			continue
		}
		nondominated = append(nondominated, i)
		if objectives == 3 {
			end := step
			for end < len(stairs) && f.Points[stairs[end]].J[2] >= p.J[2] {
				end++
			}
			stairs = slices.Replace(stairs, step, end, i)
		}
		for j, v := range p.J {
			f.Ideal[j], f.Nadir[j] = min(f.Ideal[j], v), max(f.Nadir[j], v)
		}
	}
	if len(nondominated) == 0 {
		f.Ideal, f.Nadir = nil, nil
	}
	f.Knee = f.Best(slices.Repeat([]float64{math.Inf(1)}, objectives))
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
			if reach := f.Nadir[j] - f.Ideal[j]; reach > 0 {
				sum += (p.J[j] - f.Ideal[j]) / reach
			}
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
