package mixedinteger

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// single is the priority of a single objective.
var single = [1]float64{1}

// groupSize is the number of decisions of one evaluation: what they read and write stays in the second cache.
const groupSize = 256

// rollout scores candidates by the problem's equations. Candidates that begin alike are one as long as they do: they are
// sorted, and a step has one decision for each beginning.
type rollout struct {
	problem    domain.Problem
	spec       *domain.Spec
	abilities  *domain.ProblemAbilities
	values     domain.ManyValues
	real       bool      // an action without a switch can be projected
	continuous []int     // entries of the action without a switch
	feedback   *Feedback // that these follow; nil: a plan has its own

	sigma      []float64 // weights of the objectives of each row of a group
	violating  []int     // rows of a group to be projected
	order      []ordered
	plans      []*Plan // sorted
	shared     []int   // with the one before: steps in which they are alike
	branches   []branch
	children   []branch
	x, next, u []float64    // one row for each branch
	j, m       []float64    // of a group
	projected  [5][]float64 // rows that are projected: x, u, next, j, m
	extreme    []bool       // whether a row of a sweep has an action at an end of its box, and stays as it is; empty: none
	least      float64      // cost of a decision since Begin: below zero no candidate is given up early
	bound      Plan         // what is worse than this is given up where costs only grow
	nx, ns, nu int
	nj, nm     int
	adaptive   bool // weights follow from the state
	parents    []int32
}

// ordered is a plan with its first places.
type ordered struct {
	first uint64
	plan  *Plan
}

// branch are the plans from and before to, which agree up to the present step.
type branch struct {
	from, to        int32
	cost, violation float64
}

func newRollout(p domain.Problem) (*rollout, error) {
	spec := p.Spec()
	r := &rollout{
		problem: p, spec: spec, abilities: domain.AbilitiesOfProblem(p), real: len(spec.Switches) < spec.ActionSize(),
		ns: spec.MeasuredSize(), nx: spec.MeasuredSize() + spec.ContextSize(), nu: spec.ActionSize(), nj: spec.ObjectiveSize(), nm: len(spec.Margins),
	}
	var err error
	if r.values, err = domain.ValuesOf(p); err != nil {
		return nil, err
	}
	r.j, r.m, r.sigma = make([]float64, groupSize*r.nj), make([]float64, groupSize*r.nm), make([]float64, groupSize*r.nj)
	return r, nil
}

// run writes cost, violation and executed actions of the candidates. Those that are worse than bound before their end
// may be given up: their cost and their violation are +Inf.
func (r *rollout) run(s, c []float64, pref domain.Preference, steps int, plans []Plan, bound Plan) {
	r.bound = bound
	r.begin(pref)
	r.sort(plans)
	r.branches = append(r.branches[:0], branch{to: int32(len(plans))})
	r.grow(len(plans))
	copy(r.x, s)
	copy(r.x[r.ns:], c)
	for h := range steps {
		r.split(h)
		for first := 0; first < len(r.children); first += groupSize {
			r.evaluate(first, min(len(r.children), first+groupSize), h)
		}
		r.prune()
	}
	for _, b := range r.branches {
		for _, p := range r.plans[b.from:b.to] {
			p.Cost, p.Violation = b.cost, b.violation
		}
	}
}

// begin prepares the weights of the objectives.
func (r *rollout) begin(pref domain.Preference) {
	r.adaptive = pref.Adaptive && r.nj > 1
	weights := pref.W
	if pref.Adaptive { // the priority of a single objective
		weights = single[:]
	}
	for i := 0; i < groupSize && !r.adaptive; i++ {
		copy(r.sigma[i*r.nj:(i+1)*r.nj], weights)
	}
}

func (r *rollout) grow(n int) {
	r.x, r.next = slices.Grow(r.x[:0], n*r.nx)[:n*r.nx], slices.Grow(r.next[:0], n*r.nx)[:n*r.nx]
	r.u = slices.Grow(r.u[:0], n*r.nu)[:n*r.nu]
}

// sort orders the plans by their actions, those of the first step first.
func (r *rollout) sort(plans []Plan) {
	r.order = r.order[:0]
	for i := range plans {
		plans[i].Cost, plans[i].Violation = math.Inf(1), math.Inf(1)
		r.order = append(r.order, ordered{plans[i].first, &plans[i]})
	}
	slices.SortFunc(r.order, func(a, b ordered) int {
		if d := cmp.Compare(a.first, b.first); d != 0 {
			return d
		}
		if d := bytes.Compare(a.plan.Places, b.plan.Places); d != 0 || !r.independent() {
			return d
		}
		return slices.Compare(a.plan.Actions, b.plan.Actions)
	})
	r.plans = r.plans[:0]
	r.shared = r.shared[:0]
	for i, o := range r.order {
		r.plans = append(r.plans, o.plan)
		r.shared = append(r.shared, r.stepsShared(r.plans[max(0, i-1)], o.plan))
	}
}

// independent reports whether plans have actions that do not follow from their switches.
func (r *rollout) independent() bool { return r.real && r.feedback == nil }

// stepsShared are the steps in which two plans begin alike.
func (r *rollout) stepsShared(a, b *Plan) int {
	places := 0
	for places < len(a.Places) && a.Places[places] == b.Places[places] {
		places++
	}
	steps := places / len(r.spec.Switches)
	if !r.independent() {
		return steps
	}
	actions := 0
	for actions < steps*r.nu && a.Actions[actions] == b.Actions[actions] {
		actions++
	}
	return actions / r.nu
}

// split makes the branches of step h, with their states and actions, of those of the step before.
func (r *rollout) split(h int) {
	r.children, r.parents = r.children[:0], r.parents[:0]
	for i, b := range r.branches {
		for from := b.from; from < b.to; {
			to := from + 1
			for to < b.to && r.shared[to] > h {
				to++
			}
			row := len(r.children)
			r.plans[from].act(r.spec, h, r.independent(), r.u[row*r.nu:(row+1)*r.nu])
			r.children = append(r.children, branch{from, to, b.cost, b.violation})
			r.parents = append(r.parents, int32(i))
			from = to
		}
	}
	// States of the rows: those of their parents, which stand in x.
	for row := range r.children {
		parent := int(r.parents[row])
		copy(r.next[row*r.nx:(row+1)*r.nx], r.x[parent*r.nx:(parent+1)*r.nx])
	}
	r.x, r.next = r.next, r.x
	if r.feedback != nil {
		for row, b := range r.children {
			s, _, u := r.row(row, 0)
			r.feedback.follow(r.spec, r.continuous, h, s, u)
			for _, p := range r.plans[b.from:b.to] {
				copy(p.Actions[h*r.nu:], u)
			}
		}
	}
}

// act writes the action of step h: the values of the places, and the continuous entries if asked for.
func (p *Plan) act(spec *domain.Spec, h int, continuous bool, u []float64) {
	if continuous {
		copy(u, p.Actions[h*len(u):])
	}
	places := p.Places[h*len(spec.Switches):]
	for i := range spec.Switches {
		w := &spec.Switches[i]
		u[w.Action] = w.Values[places[i]]
	}
}

// evaluate steps the branches from and before to. Where a limit is broken the actions without a switch are projected
// onto it, if there are any.
func (r *rollout) evaluate(from, to, h int) {
	n := to - from
	x, u, next := r.group(from, n)
	r.values.Evaluate(n, x, u, next, r.j, r.m)
	if r.real {
		r.project(from, n, h)
	}
	if r.adaptive {
		r.values.Priorities(n, x, u, r.sigma)
	}
	for i := range n {
		r.score(&r.children[from+i], i, from)
	}
}

func (r *rollout) row(i, first int) (s, c, u []float64) {
	x := r.x[(first+i)*r.nx:][:r.nx]
	return x[:r.ns], x[r.ns:], r.u[(first+i)*r.nu:][:r.nu]
}

// group views the n rows from first on.
func (r *rollout) group(first, n int) (x, u, next []float64) {
	return r.x[first*r.nx:][:n*r.nx], r.u[first*r.nu:][:n*r.nu], r.next[first*r.nx:][:n*r.nx]
}

// margin is the smallest of row i of a group.
func (r *rollout) margin(i int) float64 { return domain.Smallest(r.m[i*r.nm : (i+1)*r.nm]) }

// project projects the actions of the group that break a limit.
func (r *rollout) project(first, n, h int) {
	r.violating = r.violating[:0]
	for i := range n {
		if !r.spec.Keeps(r.margin(i)) && (len(r.extreme) == 0 || r.hasWay(first, i, n)) {
			r.violating = append(r.violating, i)
		}
	}
	if len(r.violating) == 0 {
		return
	}
	r.projectRows(first, n)
	for _, i := range r.violating {
		_, _, u := r.row(i, first)
		for _, p := range r.plans[r.children[first+i].from:r.children[first+i].to] {
			copy(p.Actions[h*r.nu:], u)
			for k := range r.spec.Switches { // a limit may take another value
				w := &r.spec.Switches[k]
				p.Places[h*len(r.spec.Switches)+k] = uint8(w.Nearest(u[w.Action]))
			}
		}
	}
}

// projectRows projects the violating rows of a group, all together.
func (r *rollout) projectRows(first, n int) {
	x, u, next := r.group(first, n)
	blocks := [...]struct {
		all   []float64
		width int
	}{{x, r.nx}, {u, r.nu}, {next, r.nx}, {r.j, r.nj}, {r.m, r.nm}}
	for k, b := range blocks {
		r.projected[k] = r.projected[k][:0]
		for _, i := range r.violating {
			r.projected[k] = append(r.projected[k], b.all[i*b.width:(i+1)*b.width]...)
		}
	}
	p := &r.projected
	r.values.Project(len(r.violating), p[0], p[1], p[2], p[3], p[4])
	for k, b := range blocks {
		for row, i := range r.violating {
			copy(b.all[i*b.width:(i+1)*b.width], p[k][row*b.width:])
		}
	}
}

// hasWay reports whether row i of a group follows a plan and one of its extremes, which are the rows after it, keeps the limits. Others
// would be projected in vain.
func (r *rollout) hasWay(first, i, n int) bool {
	if r.extreme[first+i] {
		return false
	}
	for i++; i < n && r.extreme[first+i]; i++ {
		if r.spec.Keeps(r.margin(i)) {
			return true
		}
	}
	return false
}

// score adds a step to what is known of a branch.
func (r *rollout) score(b *branch, i, first int) {
	if margin := r.margin(i); !r.spec.Keeps(margin) {
		b.violation -= margin
	}
	cost := tensor.DotInOrder(r.sigma[i*r.nj:(i+1)*r.nj], r.j[i*r.nj:])
	r.least = min(r.least, cost)
	b.cost += cost
	if failed := r.abilities.Failed; failed != nil {
		next := r.next[(first+i)*r.nx:][:r.nx]
		if failed(next[:r.ns], next[r.ns:]) {
			b.violation = math.Inf(1)
		}
	}
}

// prune leaves out the branches that are worse than the bound, unless a decision had a cost below zero. The states of
// the other branches become those of the next step.
func (r *rollout) prune() {
	r.branches = r.branches[:0]
	for row, b := range r.children {
		if r.exceeds(&b) {
			continue
		}
		if target := len(r.branches); target != row {
			copy(r.next[target*r.nx:(target+1)*r.nx], r.next[row*r.nx:(row+1)*r.nx])
		}
		r.branches = append(r.branches, b)
	}
	r.x, r.next = r.next, r.x
}

// exceeds reports whether a branch is worse than the bound, whatever follows.
func (r *rollout) exceeds(b *branch) bool {
	return r.least >= 0 && r.cheaper(&branch{cost: r.bound.Cost, violation: r.bound.Violation}, b)
}

// better is cheaper for plans; a number that is none comes last.
func (r *rollout) better(p, o *Plan) bool {
	if math.IsNaN(p.Cost+p.Violation) || math.IsNaN(o.Cost+o.Violation) {
		return math.IsNaN(o.Cost+o.Violation) && !math.IsNaN(p.Cost+p.Violation)
	}
	return r.cheaper(&branch{cost: p.Cost, violation: p.Violation}, &branch{cost: o.Cost, violation: o.Violation})
}

// cheaper is safe before cheap.
func (r *rollout) cheaper(b, o *branch) bool {
	if v, w := r.rounded(b.violation), r.rounded(o.violation); v != w {
		return v < w
	}
	return r.rounded(b.cost) < r.rounded(o.cost)
}

// gains reports whether p is better than o: it breaks limits less, or as little at a cost that is lower by more than a share of it.
func (r *rollout) gains(p, o *Plan, share float64) bool {
	return r.better(p, o) && (r.rounded(p.Violation) != r.rounded(o.Violation) || !(p.Cost >= o.Cost-share*math.Abs(o.Cost)))
}

// rounded makes sums equal that differ by the roundings of a projection. They would otherwise decide between plans that a limit makes one,
// and the search would go another way on every machine and in C.
func (r *rollout) rounded(v float64) float64 {
	if r.real {
		return float64(float32(v))
	}
	return v
}
