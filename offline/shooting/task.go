package shooting

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

// task is one state to solve from.
type task struct {
	solver     *Solver
	state, ctx []float64
	steps      int
	seed       uint64
	starts     [][][]float64
	// states, [steps+1][nx], are those of the first of starts: it begins there instead of at a roll-out, which an unstable
	// plant leaves by rounding alone. nil: none.
	states  []float64
	own     int // starts of the Solver's own behind these
	retries int // of them, where none of these converged
	// beside is a solve near by; what it ended with, so many stages further on, is tried in place of starts. nil: none.
	beside *ipm
	by     int
	// keeps says that the workspace of the solution is wanted in kept, for solves beside it; whoever wants it puts it back.
	keeps bool
	kept  *ipm
}

// taskFrom is Minimise's.
func (s *Solver) taskFrom(state, ctx []float64, steps int, seed uint64, starts ...[][]float64) *task {
	return &task{solver: s, state: state, ctx: ctx, steps: steps, seed: seed, starts: starts, own: max(0, s.opt.Starts-len(starts)), retries: retries}
}

// retries are a solve's, unless it is one of many.
const retries = 2

// best runs every start and returns the solution of the least cost.
func (t *task) best(configure func(*program)) (*Trajectory, error) {
	s := t.solver
	found, first := t.continued(configure), 0
	if found != nil {
		first = len(t.starts)
	}
	infeasible, lost, runs, lowest := 0, 0, 0, math.Inf(1)
	p := s.work.spaces.Get().(*ipm)
	defer func() { s.work.spaces.Put(p) }()
	if p.q.failed != nil {
		return nil, fmt.Errorf("shooting: %w", p.q.failed)
	}
	wanted := len(t.starts) + t.own
	for k := first; k < wanted || k < wanted+t.retries && found == nil && infeasible < runs; k++ {
		mu, held := firstBarrier, k == len(t.starts)
		switch {
		case k < len(t.starts):
			mu = plannedBarrier
		case held:
			mu = heldBarrier
		}
		t.ready(p, configure, s.opt.Iterations)
		p.opt.mu = mu
		p.place(t.state, t.ctx, t.steps)
		t.start(p.q, p.cur, k)
		r, feasible := ipmResult{kkt: math.Inf(1), violation: math.Inf(1)}, true
		states := t.states
		if k > 0 || len(t.starts) == 0 {
			states = nil
		}
		if p.begin(held, states) {
			r, feasible = p.minimise()
		}
		if err := s.until.Err(); err != nil {
			return nil, fmt.Errorf("shooting: %w", err)
		}
		runs++
		s.work.starts.Add(1)
		s.work.iterations.Add(int64(p.iterations))
		if !feasible {
			infeasible++
			continue
		}
		lowest = math.Min(lowest, r.kkt)
		if r.kkt <= s.opt.Tolerance && (found == nil || r.f < found.Cost) {
			if way := p.trajectory(r); !s.loses(way) {
				found = way
				p = t.keep(p)
			} else {
				infeasible++
				lost++
			}
		}
	}
	switch {
	case found != nil:
		return found, nil
	case lost == runs:
		return nil, fmt.Errorf("shooting: from state %v: %w", t.state, &domain.Reason{Kind: domain.ErrInfeasible, Text: "lost state"})
	case infeasible == runs:
		return nil, fmt.Errorf("shooting: from state %v: %w", t.state, domain.ErrInfeasible)
	case !(lowest < math.Inf(1)):
		return nil, fmt.Errorf("shooting: from state %v: %w", t.state, &domain.Reason{Kind: domain.ErrNotConverged, Text: "not finite"})
	default:
		return nil, fmt.Errorf("shooting: from state %v: KKT residual %.1e, want at most %.1e: %w", t.state, lowest, s.opt.Tolerance, domain.ErrNotConverged)
	}
}

// ready gives a workspace the options of a solve.
func (t *task) ready(p *ipm, configure func(*program), iterations int) {
	configure(p.q)
	p.q.room, p.q.blocks = t.solver.room, t.solver.blocks
	p.opt = ipmOptions{tolerance: t.solver.opt.Tolerance, iterations: iterations, further: 5, until: t.solver.until}
}

// keep takes the workspace of a solution, if the task keeps one, and returns one to go on with.
func (t *task) keep(p *ipm) *ipm {
	if !t.keeps {
		return p
	}
	other := t.kept
	if other == nil {
		other = t.solver.work.spaces.Get().(*ipm)
	}
	t.kept = p
	return other
}

// besideIterations are those that a solve beside another has; a start of its own takes fewer than more of them.
const besideIterations = 40

// continued is the solution that begins where the solve beside it ended: actions under the feedback of its last step, with its
// multipliers. nil where that leads to none, and another start may.
func (t *task) continued(configure func(*program)) *Trajectory {
	s := t.solver
	if t.beside == nil {
		return nil
	}
	p := s.work.spaces.Get().(*ipm)
	defer func() { s.work.spaces.Put(p) }()
	t.ready(p, configure, min(besideIterations, s.opt.Iterations))
	s.work.starts.Add(1)
	if p.q.failed != nil || !p.resume(t.beside, t.by, slices.Concat(t.state, t.ctx), t.steps, true) {
		return nil
	}
	r := p.iterate()
	s.work.iterations.Add(int64(p.iterations))
	if p.incomplete || !p.settled(&r) || !(r.kkt <= s.opt.Tolerance) {
		return nil
	}
	way := p.trajectory(r)
	if s.loses(way) {
		return nil
	}
	p = t.keep(p)
	return way
}

// start writes the scaled actions of start k.
func (t *task) start(q *program, to *point, k int) {
	at := func(step, j int) *float64 { return &to.v[step*q.nu+j] }
	scaled := func(step, j int, u float64) {
		x := (u - q.mid[j]) / q.half[j]
		if q.bounded[j] {
			x = math.Max(-0.9, math.Min(0.9, x))
		}
		*at(step, j) = x
	}
	if k < len(t.starts) {
		for step, u := range t.starts[k] {
			for j := range q.nu {
				*at(step, j) = (u[j] - q.mid[j]) / q.half[j]
			}
		}
		return
	}
	switch k -= len(t.starts); k {
	case 0:
		u := make([]float64, q.nu)
		q.problem.Fallback(t.state, t.ctx, u)
		for step := range t.steps {
			for j := range u {
				scaled(step, j, u[j])
			}
		}
	case 1:
		plan := make([]float64, q.spec.PlanSize())
		q.problem.Base(t.state, t.ctx, plan)
		for step := range t.steps {
			at := min(step, q.spec.Plan-1) * q.nu
			for j := range q.nu {
				scaled(step, j, plan[at+j])
			}
		}
	default:
		// A constant and two slow waves per action, at random.
		for j, of := range waves(t.seed, k, q.nu) {
			level, a, b, phase := of[0], of[1], of[2], of[3]
			for step := range t.steps {
				w := math.Pi * float64(step) / float64(t.steps)
				scaled(step, j, q.mid[j]+q.half[j]*(level+a*math.Sin(w+phase)+b*math.Sin(2*w+phase)))
			}
		}
	}
}

// waves are the constant, the amplitudes of two slow waves and their phase, of each action of start k.
func waves(seed uint64, k, actions int) [][4]float64 {
	rng := rand.New(rand.NewPCG(seed, uint64(k)))
	all := make([][4]float64, actions)
	for j := range all {
		level, a, b := 1.2*rng.Float64()-0.6, 0.4*rng.NormFloat64(), 0.4*rng.NormFloat64()
		all[j] = [4]float64{level, a, b, 2 * math.Pi * rng.Float64()}
	}
	return all
}

// place sets the state that the next solve starts from.
func (p *ipm) place(state, ctx []float64, steps int) {
	q := p.q
	q.layout(steps)
	q.resize(p.cur)
	clear(p.cur.y)
	copy(p.cur.x, state)
	copy(p.cur.x[q.ns:], ctx)
}

// trajectory copies the solution out.
func (p *ipm) trajectory(r ipmResult) *Trajectory {
	q, at := p.q, p.cur
	rows := func(flat []float64, count, width int) [][]float64 {
		out := make([][]float64, count)
		flat = slices.Clone(flat[:count*width])
		for i := range out {
			out[i] = flat[i*width : (i+1)*width : (i+1)*width]
		}
		return out
	}
	t := &Trajectory{
		Beyond: q.lasting.cost(q, at),
		U:      rows(at.u, q.steps, q.nu), Sigma: rows(at.sigma, q.steps, q.no), J: rows(at.j, q.steps, q.no), Margins: rows(at.g, q.steps, q.nm),
		Cost: r.f, KKT: r.kkt, Violation: r.violation, Iterations: r.iterations,
	}
	for i, room := range q.room {
		for _, m := range t.Margins {
			m[i] += room
		}
	}
	for _, x := range rows(at.x, q.steps+1, q.nx) {
		t.S, t.C = append(t.S, x[:q.ns:q.ns]), append(t.C, x[q.ns:])
	}
	return t
}
