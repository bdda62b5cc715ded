package mixedinteger

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// together is how many candidates are rolled out at once: their states stay in the first cache.
const together = 64

// rollout scores candidates by the problem's equations.
type rollout struct {
	problem   domain.Problem
	spec      *domain.Spec
	abilities *domain.ProblemAbilities
	values    domain.ManyValues // nil: one decision at a time
	real      bool              // an action without a switch can be projected

	x, next, u, j, m []float64
	delta, sigma     []float64
	rows             []*Plan
}

func newRollout(p domain.Problem) (*rollout, error) {
	spec := p.Spec()
	r := &rollout{problem: p, spec: spec, abilities: domain.AbilitiesOfProblem(p), real: len(spec.Switches) < spec.ActionSize()}
	if make := r.abilities.ManyValues; make != nil {
		many, err := make()
		if err != nil {
			return nil, err
		}
		if many != nil {
			r.values = many()
		}
	}
	nx := spec.MeasuredSize() + spec.ContextSize()
	row := func(n int) []float64 { return make([]float64, together*n) }
	r.x, r.next, r.u = row(nx), row(nx), row(spec.ActionSize())
	r.j, r.m = row(spec.ObjectiveSize()), row(len(spec.Margins))
	r.delta, r.sigma = make([]float64, spec.ObjectiveSize()), make([]float64, spec.ObjectiveSize())
	return r, nil
}

// run writes cost, violation and executed actions of the candidates.
func (r *rollout) run(s, c []float64, pref domain.Preference, steps int, plans []Plan) {
	for first := 0; first < len(plans); first += together {
		r.group(s, c, pref, steps, plans[first:min(len(plans), first+together)])
	}
}

func (r *rollout) group(s, c []float64, pref domain.Preference, steps int, plans []Plan) {
	ns, nx, nu := len(s), len(s)+len(c), r.spec.ActionSize()
	r.rows = r.rows[:0]
	for i := range plans {
		p := &plans[i]
		p.Cost, p.Violation = 0, 0
		copy(r.x[i*nx:], s)
		copy(r.x[i*nx+ns:], c)
		r.rows = append(r.rows, p)
	}
	for h := range steps {
		for i, p := range r.rows {
			copy(r.u[i*nu:(i+1)*nu], p.Actions[h*nu:])
		}
		r.evaluate(len(plans), ns, nx, nu)
		for i, p := range r.rows {
			r.score(p, i, h, ns, nx, nu, pref)
		}
		r.x, r.next = r.next, r.x
	}
}

// evaluate steps n rows.
func (r *rollout) evaluate(n, ns, nx, nu int) {
	if r.values != nil {
		r.values(n, r.x, r.u, r.next, r.j, r.m)
		return
	}
	for i := range n {
		r.evaluateRow(i, ns, nx, nu)
	}
}

// evaluateRow is evaluate of one row by the problem's functions.
func (r *rollout) evaluateRow(i, ns, nx, nu int) {
	nj, nm := r.spec.ObjectiveSize(), len(r.spec.Margins)
	s, c, u := r.x[i*nx:i*nx+ns], r.x[i*nx+ns:(i+1)*nx], r.u[i*nu:(i+1)*nu]
	r.problem.Step(s, c, u, r.next[i*nx:i*nx+ns], r.next[i*nx+ns:(i+1)*nx])
	r.problem.Objectives(s, u, c, r.j[i*nj:(i+1)*nj])
	r.problem.Margins(s, c, u, r.m[i*nm:(i+1)*nm])
}

// score adds step h of row i to what is known of its plan. Where a limit is broken the actions without a switch are
// projected onto it, if there are any.
func (r *rollout) score(p *Plan, i, h, ns, nx, nu int, pref domain.Preference) {
	nj, nm := r.spec.ObjectiveSize(), len(r.spec.Margins)
	margin := domain.Smallest(r.m[i*nm : (i+1)*nm])
	if !r.spec.Keeps(margin) && r.real {
		u := r.u[i*nu : (i+1)*nu]
		r.problem.Project(r.x[i*nx:i*nx+ns], r.x[i*nx+ns:(i+1)*nx], u)
		copy(p.Actions[h*nu:], u)
		for k := range r.spec.Switches { // a limit may take another value
			w := &r.spec.Switches[k]
			p.Places[h*len(r.spec.Switches)+k] = uint8(w.Nearest(u[w.Action]))
		}
		r.evaluateRow(i, ns, nx, nu)
		margin = domain.Smallest(r.m[i*nm : (i+1)*nm])
	}
	if !r.spec.Keeps(margin) {
		if p.Violation -= margin; math.IsNaN(margin) {
			p.Violation = math.NaN()
		}
	}
	sigma := pref.W
	if pref.Adaptive {
		r.problem.Indicators(r.x[i*nx:i*nx+ns], r.u[i*nu:(i+1)*nu], r.x[i*nx+ns:(i+1)*nx], r.delta)
		r.spec.Semantic.Priority(r.delta, r.sigma)
		sigma = r.sigma
	}
	for k, w := range sigma {
		p.Cost += w * r.j[i*nj+k]
	}
	if r.abilities.Failed != nil && r.abilities.Failed(r.next[i*nx:i*nx+ns], r.next[i*nx+ns:(i+1)*nx]) {
		p.Violation = math.Inf(1)
	}
}
