package ocp

import (
	"cmp"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/simd/dense"
	"github.com/gpc-engine/gpc/tensor"
)

// program is the transcription of one finite-horizon problem by multiple shooting. Stage t has two kinds of
// variables. υ_t are the actions, scaled to [−1, 1] by their box. ξ_t are the components of (s_t, c_t) that some
// action moves, scaled by their typical sizes. Where a scalarization couples the stages, ξ_t also holds running
// totals of the objectives and one bound τ.
//
//	min  τCost·τ + Σ_t ω_tᵀJ(s_t, u_t; c_t) + V(s_N, c_N)
//	s.t. (s_{t+1}, c_{t+1}) = F(s_t, c_t, u_t)
//	     margins(s_t, c_t, u_t) ≥ 0             for every t, in their sizes (Variable.Scale)
//	     a τ + b − y_N ≥ 0                      for every total, y_{t+1} = y_t + eᵀJ_t
//
// The weights ω_t are fixed, or σ(s_t, u_t; c_t) in the adaptive mode. V is the terminal cost of an infinite horizon.
// First derivatives are those of domain.Derivatives. Without it, the problem's Gradient gives those of J with respect
// to s and u, and central differences the others. Second derivatives are exact where they are known, or differences: of
// exact first derivatives where they exist, else of values. Their error costs iterations, never accuracy.
type program struct {
	problem     domain.Problem
	abilities   *domain.ProblemAbilities
	dual        *domain.Derivatives // nil: differences
	staged      domain.Stages       // nil: stage by stage
	stagesErr   error               // why Stages failed
	levels      int                 // of the rounding of corners; 0: staged has none
	level       int                 // of staged
	linearised  *point              // the point that the stages have linearised; nil: none
	wantsSlopes bool                // evaluate with derivatives
	skipMargins []bool              // [steps], of a domain.Derivatives.Stages
	// Buffers of a domain.Derivatives.Stages, in the problem's units.
	weightings                  []float64 // of J, [steps][no]
	costates                    []float64 // λ, [steps][nx]
	hs                          []float64 // Hessians, [steps][nf][nf]
	units                       []float64 // sizes of the columns
	images                      []float64 // discarded
	prioritySlopes              []float64
	spec                        *domain.Spec
	ns, nc, nu, no, nm          int
	nx                          int // ns + nc
	mid, half                   []float64
	pinned                      []float64 // [steps][nu] actions that are given, NaN for the others; nil: none is
	bounded                     []bool
	scale                       []float64 // typical sizes of s, c, u
	points                      points
	adaptive                    bool
	weights                     []float64 // ω, unused in the adaptive mode
	tau                         bool
	tauCost                     float64
	totals                      []total
	steps                       int
	terminal                    *terminalCost // nil: none
	initialFree                 bool          // whether the first state is a variable
	active                      []int         // components of (s, c) that some action moves
	isActive                    []bool        // [nx], the same as a mask
	na, naug, nX, nf, d         int           // active, totals and τ, both; nu + na, nu + nX
	columns                     []int         // of the nf functions' variables, their places in (s, c, u)
	next, margins               []float64     // ∂ξ_{t+1}, [steps][nX][d], and ∂margins, [steps][nm][d]
	objective                   []float64     // ∂ωᵀJ, [steps][d]
	varying                     []float64     // the part of objective through σ, adaptive mode
	dj, dsigma                  []float64     // ∂J and ∂σ, [steps][no][d], in the adaptive mode with a domain.Derivatives
	totalSlopes                 []float64     // [totals][nX]: ∂ of the constraints on the totals
	h                           []float64     // Hessians of the stages' Lagrangians, [steps][d][d], lower triangles
	hp                          []float64     // a part of one: σᵀJ with J held, or without its linear part, [d][d]
	blocks                      []int         // Options.Blocks; nil: every action is free
	blocked                     []bool        // [steps]: the stage repeats the action of the previous one
	room                        []float64     // [nm]: distance to keep from each limit; nil: none
	marginSizes                 []float64     // [nm]
	sizedDuals                  []float64     // z per unit of the margins, [steps][nm]
	dx, dJ, dm                  []float64     // written by a domain.Derivatives.Stages: [nx], [no] and [nm] by the columns
	y                           []float64     // (s, c, u)
	fp, fm, mp, mm              []float64
	sp, sm, delta, unit         []float64
	slope                       []float64     // [d]
	negatedDuals                []float64     // −z of a stage
	costateProduct, dualProduct dense.Product // λᵀ∂ξ_{t+1} and zᵀ∂margins of a stage
	crossProduct                dense.Product // ∂σᵀ∂J and ∂Jᵀ∂σ of a stage
	plus, minus, step           []float64     // [d]
	costate                     []float64     // [nx]
	zy, zx, zj, zm              []complex128
	evaluations                 int64 // evaluations of a stage, at float64 and at dual numbers
}

// total is the constraint a τ + b − eᵀΣJ ≥ 0.
type total struct {
	a, b float64
	e    []float64
}

// point is one iterate: the variables and every function's value there.
type point struct {
	x, v, y  []float64 // [steps+1][nx] in the problem's units, [steps][nu] scaled, [steps+1][naug]
	u        []float64 // [steps][nu]
	image    []float64 // [steps][nx]: F at each stage
	j, sigma []float64 // [steps][no]
	g        []float64 // margins of every step, then the totals' constraints
	defect   []float64 // [steps][nX]: F − the next stage's, scaled
	f        float64
	rolled   bool // whether the states follow from the actions
}

func newProgram(p domain.Problem, stateScale []float64) *program {
	spec := p.Spec()
	q := &program{
		problem: p, spec: spec, points: newPoints(p),
		ns: len(spec.Measured), nc: len(spec.Context), nu: len(spec.Action), no: len(spec.Objectives), nm: len(spec.Margins),
	}
	q.abilities = domain.AbilitiesOfProblem(p)
	if q.abilities.Derivatives.Dual() {
		q.dual = &q.abilities.Derivatives
	}
	if q.abilities.Derivatives.Stages != nil {
		q.staged, q.stagesErr = q.abilities.Derivatives.Stages()
		if rounded := q.abilities.Derivatives.Rounded; rounded != nil && q.stagesErr == nil {
			q.levels = rounded()
		}
	}
	q.nx = q.ns + q.nc
	y := q.nx + q.nu
	q.scale = slices.Repeat([]float64{1}, y)
	copy(q.scale, stateScale)
	for i, v := range spec.Context {
		q.scale[q.ns+i] = cmp.Or(v.Size, 1)
	}
	for j, a := range spec.Action {
		q.mid, q.half, q.bounded = append(q.mid, a.Middle()), append(q.half, a.Half()), append(q.bounded, a.Bounded())
		q.scale[q.nx+j] = a.Half()
	}
	for _, v := range spec.Margins {
		q.marginSizes = append(q.marginSizes, v.Scale())
	}
	q.isActive, q.costate = make([]bool, q.nx), make([]float64, q.nx)
	for _, b := range []*[]float64{&q.y, &q.plus, &q.minus, &q.step} {
		*b = make([]float64, y)
	}
	q.fp, q.fm = make([]float64, q.nx), make([]float64, q.nx)
	q.mp, q.mm = make([]float64, q.nm), make([]float64, q.nm)
	for _, b := range []*[]float64{&q.sp, &q.sm, &q.delta, &q.unit} {
		*b = make([]float64, q.no)
	}
	if q.dual != nil {
		q.zy, q.zx = make([]complex128, y), make([]complex128, q.nx)
		q.zj, q.zm = make([]complex128, q.no), make([]complex128, q.nm)
	}
	return q
}

// transitions is the number of stages whose image matters: the terminal cost looks at the last one.
func (q *program) transitions() int {
	if q.terminal != nil {
		return q.steps
	}
	return q.steps - 1
}

// setWeights makes the program that of a weighted sum.
func (q *program) setWeights(adaptive bool, weights []float64) {
	q.adaptive, q.weights = adaptive, weights
	q.tau, q.tauCost, q.totals = false, 0, q.totals[:0]
}

// layout sizes the buffers for the active components that isActive marks.
func (q *program) layout(steps int) {
	q.steps, q.linearised = steps, nil
	size(&q.blocked, steps)
	block(q.blocked, q.blocks)
	q.active, q.columns = q.active[:0], q.columns[:0]
	for j := range q.nu {
		q.columns = append(q.columns, q.nx+j)
	}
	for a, moves := range q.isActive {
		if moves {
			q.active, q.columns = append(q.active, a), append(q.columns, a)
		}
	}
	q.na, q.naug = len(q.active), len(q.totals)
	if q.tau {
		q.naug++
	}
	q.nX, q.nf = q.na+q.naug, q.nu+q.na
	q.d = q.nu + q.nX
	q.costateProduct, q.dualProduct = dense.New(1, q.nX, q.d), dense.New(1, q.nm, q.d)
	q.crossProduct = dense.NewTransposed(q.d, q.no, q.d).Lower()
	size(&q.negatedDuals, q.nm)
	size(&q.units, q.nf)
	size(&q.next, steps*q.nX*q.d)
	size(&q.margins, steps*q.nm*q.d)
	size(&q.objective, steps*q.d)
	size(&q.h, steps*q.d*q.d)
	size(&q.slope, q.d)
	size(&q.varying, steps*q.d)
	size(&q.dj, steps*q.no*q.d)
	size(&q.dsigma, steps*q.no*q.d)
	size(&q.hp, q.d*q.d)
	for _, b := range [][]float64{q.next, q.margins, q.objective, q.varying, q.dj, q.dsigma, q.h} {
		clear(b)
	}
	size(&q.totalSlopes, len(q.totals)*q.nX)
	clear(q.totalSlopes)
	for k, tot := range q.totals {
		q.totalSlopes[k*q.nX+q.na+k] = -1
		if q.tau {
			q.totalSlopes[k*q.nX+q.nX-1] = tot.a
		}
	}
	// The totals and τ carry over from stage to stage.
	for t := range steps {
		for k := q.na; k < q.nX; k++ {
			q.next[(t*q.nX+k)*q.d+q.nu+k] = 1
		}
	}
}

// block marks the stages that repeat the previous action, by Options.Blocks.
func block(blocked []bool, blocks []int) {
	clear(blocked)
	if len(blocks) == 0 {
		return
	}
	for t, k := 0, 0; t < len(blocked); k++ {
		length := blocks[min(k, len(blocks)-1)]
		for t++; t < len(blocked) && length > 1; t++ {
			blocked[t] = true
			length--
		}
	}
}

// averageBlocks replaces the scaled actions of each block by their mean.
func (q *program) averageBlocks(v []float64) {
	if len(q.blocks) == 0 {
		return
	}
	for first, t := 0, 1; t <= q.steps; t++ {
		if t < q.steps && q.blocked[t] {
			continue
		}
		for j := range q.nu {
			sum := 0.0
			for k := first; k < t; k++ {
				sum += v[k*q.nu+j]
			}
			for k := first; k < t; k++ {
				v[k*q.nu+j] = sum / float64(t-first)
			}
		}
		first = t
	}
}

// constraints is the number of inequalities.
func (q *program) constraints() int { return q.steps*q.nm + len(q.totals) }

func (q *program) resize(p *point) {
	size(&p.x, (q.steps+1)*q.nx)
	size(&p.v, q.steps*q.nu)
	size(&p.y, (q.steps+1)*q.naug)
	size(&p.u, q.steps*q.nu)
	size(&p.image, q.steps*q.nx)
	size(&p.j, q.steps*q.no)
	size(&p.sigma, q.steps*q.no)
	size(&p.g, q.constraints())
	size(&p.defect, q.steps*q.nX)
}

// scaled is action j in half boxes off its middle.
func (q *program) scaled(j int, u float64) float64 { return (u - q.mid[j]) / q.half[j] }

// split views y as s, c, u.
func (q *program) split(y []float64) (s, c, u []float64) { return y[:q.ns], y[q.ns:q.nx], y[q.nx:] }

// state views stage t's state and context.
func (q *program) state(p *point, t int) (s, c []float64) {
	return p.x[t*q.nx : t*q.nx+q.ns], p.x[t*q.nx+q.ns : (t+1)*q.nx]
}

// action writes and views stage t's action in the problem's units.
func (q *program) action(p *point, t int) []float64 {
	u := p.u[t*q.nu : (t+1)*q.nu]
	for j := range u {
		u[j] = q.mid[j] + q.half[j]*p.v[t*q.nu+j]
		if q.isPinned(t, j) {
			u[j] = q.pinned[t*q.nu+j]
		}
	}
	return u
}

// marginsBeyondRoom writes the margins less the room to keep, in their sizes.
func (q *program) marginsBeyondRoom(s, c, u, m []float64) {
	q.problem.Margins(s, c, u, m)
	q.sizeMargins(m)
}

// sizeMargins subtracts the room to keep from the margins of a stage and divides them by their sizes.
func (q *program) sizeMargins(m []float64) {
	tensor.Axpy(-1, q.room, m)
	for i, size := range q.marginSizes {
		m[i] /= size
	}
}

// setLevel sets how far corners are rounded.
func (q *program) setLevel(level int) {
	if level != q.level {
		q.staged.Round(level)
		q.level, q.linearised = level, nil
	}
}

// forward writes the image of stage t.
func (q *program) forward(p *point, t int) {
	s, c := q.state(p, t)
	image := p.image[t*q.nx : (t+1)*q.nx]
	if q.staged != nil && q.levels > 0 {
		q.staged.Evaluate(1, p.x[t*q.nx:(t+1)*q.nx], p.u[t*q.nu:(t+1)*q.nu], image, q.unit, q.mp)
		return
	}
	q.problem.Step(s, c, p.u[t*q.nu:(t+1)*q.nu], image[:q.ns], image[q.ns:])
}

// priority writes the weights of the stage objectives.
func (q *program) priority(s, c, u, w []float64) {
	domain.Preference{Adaptive: q.adaptive, W: q.weights}.Priority(q.problem, s, u, c, q.delta, w)
}

// roll makes p a trajectory and evaluates it: it applies the scaled actions from the first state.
func (q *program) roll(p *point) {
	for t := range q.steps {
		q.action(p, t)
		q.forward(p, t)
		copy(p.x[(t+1)*q.nx:(t+2)*q.nx], p.image[t*q.nx:])
	}
	q.evaluate(p, true)
}

// evaluate fills everything except the variables. With rolled, the images exist already and the totals follow from
// the objectives. Values may be non-finite.
func (q *program) evaluate(p *point, rolled bool) {
	q.evaluations += int64(q.steps)
	p.rolled = rolled
	if q.staged != nil {
		q.evaluateStages(p, rolled)
	} else {
		q.evaluateEach(p, rolled)
	}
	p.f = tensor.DotInOrder(p.sigma, p.j)
	if q.tau {
		p.f += q.tauCost * p.y[q.naug-1]
	}
	p.f += q.terminal.value(q, p)
	for t := range q.steps {
		defect := p.defect[t*q.nX : (t+1)*q.nX]
		y, nextTotals := p.y[t*q.naug:(t+1)*q.naug], p.y[(t+1)*q.naug:(t+2)*q.naug]
		for k, tot := range q.totals {
			defect[q.na+k] = y[k] + tensor.DotInOrder(tot.e, p.j[t*q.no:(t+1)*q.no])
		}
		if q.tau {
			defect[q.nX-1] = y[q.naug-1]
		}
		if rolled {
			copy(nextTotals, defect[q.na:])
			clear(defect)
			continue
		}
		tensor.Axpy(-1, nextTotals, defect[q.na:])
		for i, a := range q.active {
			defect[i] = 0
			if t < q.transitions() {
				defect[i] = (p.image[t*q.nx+a] - p.x[(t+1)*q.nx+a]) / q.scale[a]
			}
		}
	}
	end := p.y[q.steps*q.naug:]
	for k, tot := range q.totals {
		g := tot.b - end[k]
		if q.tau {
			g += tot.a * end[q.naug-1]
		}
		p.g[q.steps*q.nm+k] = g
	}
}

// evaluateEach evaluates the functions stage by stage.
func (q *program) evaluateEach(p *point, rolled bool) {
	q.points.reset()
	for t := range q.steps {
		s, c := q.state(p, t)
		u := p.u[t*q.nu : (t+1)*q.nu]
		if !rolled {
			u = q.action(p, t)
			if t < q.transitions() {
				q.forward(p, t)
			}
		}
		q.marginsBeyondRoom(s, c, u, p.g[t*q.nm:(t+1)*q.nm])
		q.priority(s, c, u, p.sigma[t*q.no:(t+1)*q.no])
		if q.points.block != nil {
			q.points.add(s, c, u)
		} else {
			q.problem.Objectives(s, u, c, p.j[t*q.no:(t+1)*q.no])
		}
	}
	if q.points.block != nil {
		copy(p.j, q.points.objectives())
	}
}

// holdState holds the first measured state at every stage. The context follows the dynamics: its memory of actions
// has no typical size to measure a defect with.
func (q *program) holdState(p *point) {
	for t := range q.transitions() {
		copy(p.x[(t+1)*q.nx:(t+2)*q.nx], p.x[:q.nx])
	}
	for t := range q.steps {
		copy(p.y[(t+1)*q.naug:(t+2)*q.naug], p.y[:q.naug])
	}
	q.propagate(p, q.ns)
}

// propagate recomputes states by the dynamics and evaluates the point. It covers every inactive component, every
// component from firstComponent on, and the whole last stage, which a shift leaves without a state of its own.
func (q *program) propagate(p *point, firstComponent int) {
	for t := range q.transitions() {
		q.action(p, t)
		q.forward(p, t)
		for a, moves := range q.isActive {
			if !moves || a >= firstComponent || t == q.transitions()-1 {
				p.x[(t+1)*q.nx+a] = p.image[t*q.nx+a]
			}
		}
	}
	q.wantsSlopes = true
	q.evaluate(p, false)
	q.wantsSlopes = false
}

// finite reports whether every value of an evaluated point is finite.
func (q *program) finite(p *point) bool {
	sum := p.f - p.f
	for _, b := range [][]float64{p.g, p.defect} {
		for _, v := range b {
			sum += v - v
		}
	}
	return sum == 0
}

// discoverStages marks the active components that a domain.Derivatives.Stages lists.
func (q *program) discoverStages(p *point) {
	clear(q.isActive)
	for _, a := range q.staged.Moving() {
		q.isActive[a] = true
	}
	q.layout(q.steps)
	q.resize(p)
}

// discover marks the components that some action moves along a roll-out.
func (q *program) discover(p *point) {
	tensor.Fill(q.isActive, true)
	q.layout(q.steps)
	q.resize(p)
	q.differentiate(p)
	clear(q.isActive)
	for changed := true; changed; {
		changed = false
		for t := range q.transitions() {
			for i := range q.nx {
				if q.isActive[i] {
					continue
				}
				row := q.next[(t*q.nX+i)*q.d : (t*q.nX+i+1)*q.d]
				for col := range q.nf {
					if row[col] != 0 && (col < q.nu || q.isActive[q.columns[col]]) {
						q.isActive[i], changed = true, true
						break
					}
				}
			}
		}
	}
	q.layout(q.steps)
	q.resize(p)
}
