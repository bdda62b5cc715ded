package closedloop

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// Rows are the methods that every case has whose Solver is a domain.Receding: what a map
// is compared with. All but the oracle see only what Decide is given. Their actions are
// projected, since a solver keeps margins to its own tolerance.
func Rows(c *domain.Case) []domain.Method {
	solver, ok := c.Solver.(domain.Receding)
	if !ok || c.Learned != nil {
		return nil
	}
	p := c.Problem
	rows := []domain.Method{
		{Name: "oracle", About: fmt.Sprintf("the best of %d solves of the whole episode from its true start, which differ in where they begin", oracleStarts), Group: domain.GroupExact,
			New: func(domain.Means) (domain.Controller, error) {
				return newOracle(c)
			}},
		{Name: "hold", About: "the last action again, at first the fallback, projected", Group: domain.GroupBaseline, Brief: true,
			New: func(domain.Means) (domain.Controller, error) { return &hold{problem: p}, nil }},
		{Name: "online", About: "the optimum of the next decision alone, σ held at the present state", Group: domain.GroupBaseline, Brief: true,
			New: newReceding(p, solver, 1, true)},
	}
	for _, n := range []int{5, 10, 20} {
		if n < p.Spec().LookAhead() {
			rows = append(rows, mpc(p, solver, n))
		}
	}
	rows = append(rows,
		domain.Method{Name: "nmpc", About: "the optimum of all remaining decisions, from the plan before, shifted", Group: domain.GroupBaseline, Brief: true,
			New: func(domain.Means) (domain.Controller, error) {
				return recedingOf(p, solver, p.Spec().LookAhead(), false), built(c.Solver)
			}},
		severalStarts(c, solver, 8),
		domain.Method{Name: "nmpc-ahead", About: "the same, solved between decisions where the last one leads, and corrected for what is measured", Group: domain.GroupBaseline, Ahead: true,
			New: newAhead(p, c.Solver, solver)})
	for _, name := range []string{"mppi-512", "mppi-4096"} {
		m, _ := pathMethod(p, name)
		rows = append(rows, m)
	}
	return rows
}

// severalStarts is nmpc whose first plan is the best of n solves: from the solver's own start and from plans at random.
func severalStarts(c *domain.Case, solver domain.Receding, n int) domain.Method {
	return domain.Method{Name: fmt.Sprintf("nmpc-from-%d", n), About: fmt.Sprintf("the same, an episode's first decision the best of %d starts; nmpc-from-N for any N", n), Group: domain.GroupBaseline,
		New: func(domain.Means) (domain.Controller, error) {
			r := recedingOf(c.Problem, solver, c.Problem.Spec().LookAhead(), false)
			r.starts = n
			return r, built(c.Solver)
		}}
}

// built prepares a solver, once, with what first decisions begin from: no decision's time includes it.
func built(s domain.Solver) error { return s.Prepare(context.Background(), 0, nil) }

// Row is the one of Rows with that name, or mpc-N for any N from 1 to the decisions of an
// episode, nmpc-from-N, or mppi-N with or without its constants.
func Row(c *domain.Case, name string) (domain.Method, bool) {
	for _, m := range Rows(c) {
		if m.Name == name {
			return m, true
		}
	}
	solver, ok := c.Solver.(domain.Receding)
	if !ok || c.Learned != nil {
		return domain.Method{}, false
	}
	if m, ok := pathMethod(c.Problem, name); ok {
		return m, true
	}
	for _, numbered := range []struct {
		prefix string
		most   int
		method func(n int) domain.Method
	}{
		{"mpc-", c.Problem.Spec().LookAhead(), func(n int) domain.Method { return mpc(c.Problem, solver, n) }},
		{"nmpc-from-", 1 << 16, func(n int) domain.Method { return severalStarts(c, solver, n) }},
	} {
		number, cut := strings.CutPrefix(name, numbered.prefix)
		if n, err := strconv.Atoi(number); cut && err == nil && n >= 1 && n <= numbered.most && number == strconv.Itoa(n) {
			return numbered.method(n), true
		}
	}
	return domain.Method{}, false
}

func mpc(p domain.Problem, solver domain.Receding, n int) domain.Method {
	return domain.Method{Name: fmt.Sprintf("mpc-%d", n), About: fmt.Sprintf("%d decisions of look-ahead, from the plan before, shifted; mpc-N for any N", n), Group: domain.GroupBaseline,
		New: newReceding(p, solver, n, false)}
}

// hold repeats the last action.
type hold struct {
	problem domain.Problem
	last    []float64
}

func (h *hold) Reset(domain.Episode) error {
	h.last = nil
	return nil
}

func (h *hold) Decide(s, c []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	if h.last == nil {
		h.problem.Fallback(s, c, u)
	} else {
		copy(u, h.last)
	}
	feasible := h.problem.Project(s, c, u)
	h.last = append(h.last[:0], u...)
	return domain.Decided(feasible), nil
}

// Abilities implements domain.Able.
func (h *hold) Abilities() *domain.ControllerAbilities {
	executed := func(u []float64) { h.last = append(h.last[:0], u...) }
	return &domain.ControllerAbilities{Executed: executed, Missed: func(_, _, u []float64) { executed(u) }}
}

// receding solves the next decisions and applies the first action.
type receding struct {
	problem          domain.Problem
	remaining        func(c []float64) int // nil: the episode's end is that of the spec
	horizon          domain.Horizon
	steps            int  // look-ahead at most
	constantPriority bool // σ is that of the present state along the look-ahead
	starts           int  // of an episode's first solve; 0: the solver's own one
	t                int
	plan, last       []float64 // last: executed action
	cost             float64   // of plan
	delta, sigma     []float64
}

func newReceding(p domain.Problem, solver domain.Receding, steps int, constantPriority bool) func(domain.Means) (domain.Controller, error) {
	return func(domain.Means) (domain.Controller, error) {
		return recedingOf(p, solver, steps, constantPriority), nil
	}
}

func recedingOf(p domain.Problem, solver domain.Receding, steps int, constantPriority bool) *receding {
	spec := p.Spec()
	m := spec.ObjectiveSize()
	return &receding{
		problem: p, remaining: domain.AbilitiesOfProblem(p).Remaining, horizon: solver.NewHorizon(0), steps: steps, constantPriority: constantPriority,
		plan: make([]float64, steps*spec.ActionSize()), last: make([]float64, spec.ActionSize()), delta: make([]float64, m), sigma: make([]float64, m),
	}
}

func (r *receding) Reset(domain.Episode) error {
	r.t = 0
	r.horizon.Begin(nil)
	return nil
}

func (r *receding) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	d, err := r.solve(s, c, pref, u)
	if err == nil {
		r.execute(s, c, u)
	}
	return d, err
}

// Abilities implements domain.Able.
func (r *receding) Abilities() *domain.ControllerAbilities {
	return &domain.ControllerAbilities{Executed: func(u []float64) { copy(r.last, u) }, Missed: r.missed}
}

func (r *receding) missed(_, _, u []float64) {
	copy(r.last, u)
	r.t++
}

// solve writes the first action of the plan from (s, c).
func (r *receding) solve(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	if r.t == 0 {
		r.problem.Fallback(s, c, r.last)
	}
	if r.constantPriority && pref.Adaptive {
		pref.Priority(r.problem, s, r.last, c, r.delta, r.sigma)
		pref = domain.Preference{W: r.sigma}
	}
	plan := r.plan[:len(u)*min(r.steps, r.decisionsLeft(c))]
	if r.t == 0 && r.starts > 1 {
		r.beginAtBest(s, c, pref, plan)
	}
	cost, solved, err := r.horizon.Solve(s, c, pref, plan)
	if err != nil {
		return domain.Decision{}, err
	}
	r.cost = cost
	copy(u, plan)
	d := domain.Decided(solved)
	d.Ahead = plan
	return d, nil
}

// beginAtBest makes the best plan of several starts the start of the next solve. It is the solver's own start where no
// solve converges.
func (r *receding) beginAtBest(s, c []float64, pref domain.Preference, plan []float64) {
	var start, best []float64
	least := math.Inf(1)
	for k := range r.starts {
		if k > 0 {
			start = append(start[:0], plan...)
			wave(rand.New(rand.NewPCG(uint64(k), oracleStarts)), r.problem.Spec().Action, start)
		}
		r.horizon.Begin(start)
		if cost, solved, err := r.horizon.Solve(s, c, pref, plan); err == nil && solved && cost < least {
			least, best = cost, append(best[:0], plan...)
		}
	}
	r.horizon.Begin(best)
}

// execute projects u, which is then the last action.
func (r *receding) execute(s, c, u []float64) {
	r.problem.Project(s, c, u)
	copy(r.last, u)
	r.t++
}

// ahead is a receding horizon that solves between decisions, in the state that the last action leads to by the known
// dynamics. This is "advanced-step" control (Zavala and Biegler 2009). A decision is that plan's first action. Where
// the solver can, it is corrected to first order for the measured state, and projected there. The first decision of an
// episode, and one under another preference, is solved when it is asked for.
type ahead struct {
	*receding
	preference domain.Preference
	// s and c are those of the last decision, then where the plan begins; u is its first action.
	s, c, nextS, nextC, u []float64
	ready                 bool
	planned               domain.Decision
	correcting            domain.Horizon // of the plan; nil: it cannot
	explorer              domain.Horizon
	agreed                int       // explorations in a row that came to the plan
	other                 []float64 // of an exploration
}

func newAhead(p domain.Problem, whole domain.Solver, solver domain.Receding) func(domain.Means) (domain.Controller, error) {
	return func(domain.Means) (domain.Controller, error) {
		spec := p.Spec()
		ns, nc := spec.MeasuredSize(), spec.ContextSize()
		return &ahead{
			receding: recedingOf(p, solver, spec.LookAhead(), false), explorer: solver.NewHorizon(explorerIterations),
			s: make([]float64, ns), c: make([]float64, nc), nextS: make([]float64, ns), nextC: make([]float64, nc), u: make([]float64, spec.ActionSize()),
		}, built(whole)
	}
}

func (a *ahead) Reset(ep domain.Episode) error {
	a.ready, a.agreed = false, 0
	return a.receding.Reset(ep)
}

func (a *ahead) Decide(s, c []float64, pref domain.Preference, u []float64) (d domain.Decision, err error) {
	if d = a.planned; a.ready && a.preference.Equal(pref) {
		if copy(u, a.u); a.correcting != nil {
			a.correcting.Correct(s, c, u)
		}
	} else if d, err = a.solve(s, c, pref, u); err != nil {
		return d, err
	}
	a.ready = false
	a.execute(s, c, u)
	a.preference.Adaptive, a.preference.W = pref.Adaptive, append(a.preference.W[:0], pref.W...)
	copy(a.s, s)
	copy(a.c, c)
	return d, nil
}

// Abilities implements domain.Able. Where a period was missed what is prepared is of another one, and where the next begins is not known.
func (a *ahead) Abilities() *domain.ControllerAbilities {
	abilities := a.receding.Abilities()
	abilities.Prepare = a.prepare
	abilities.Missed = func(s, c, u []float64) {
		a.ready, a.s[0] = false, math.NaN()
		a.missed(s, c, u)
	}
	return abilities
}

func (a *ahead) prepare() (err error) {
	if !tensor.Finite(a.s) || !tensor.Finite(a.c) {
		return nil
	}
	a.problem.Step(a.s, a.c, a.last, a.nextS, a.nextC)
	a.s, a.nextS = a.nextS, a.s
	a.c, a.nextC = a.nextC, a.c
	if a.planned, err = a.solve(a.s, a.c, a.preference, a.u); err == nil && a.explore() {
		a.planned, err = a.solve(a.s, a.c, a.preference, a.u)
	}
	a.ready, a.correcting = err == nil, nil
	if a.ready && a.planned.Solved() && a.horizon.Linearise() {
		a.correcting = a.horizon
	}
	return err
}

// After each of an episode's first explorations decisions the next one is also solved from a plan at random, until agreements
// of these solves in a row come to the plan that there is. Counts bound that, no clock: where explorationSeconds for each step
// and cube of its entries are above a quarter of a period nothing is explored.
// cheaper is the share of a cost that makes another optimum.
const explorations, agreements, explorerIterations, explorationSeconds, cheaper = 16, 2, 100, 5e-7, 1e-4

// explore reports whether a plan that costs less was found, from which the horizon then begins.
func (a *ahead) explore() bool {
	spec, entries := a.problem.Spec(), float64(len(a.s)+len(a.c)+len(a.u))
	if spec.Horizon > 0 || !a.planned.Solved() || a.agreed == agreements || a.t > explorations || 4*explorationSeconds*float64(spec.LookAhead())*math.Pow(entries, 3) > spec.StepSeconds {
		return false
	}
	a.other = append(a.other[:0], a.planned.Ahead...)
	wave(rand.New(rand.NewPCG(uint64(a.t), explorations)), spec.Action, a.other)
	a.explorer.Begin(a.other)
	cost, solved, err := a.explorer.Solve(a.s, a.c, a.preference, a.other)
	ok, gain := err == nil && solved, (a.cost-cost)/math.Abs(a.cost)
	if a.agreed++; !ok || !(math.Abs(gain) <= cheaper) {
		a.agreed = 0
	}
	if ok = ok && gain > cheaper; ok {
		a.horizon.Begin(a.other)
	}
	return ok
}

// decisionsLeft is how many decisions the episode still has, the next one included; of a plant that runs on, its horizon.
func (r *receding) decisionsLeft(c []float64) int {
	if r.remaining != nil {
		return r.remaining(c)
	}
	if spec := r.problem.Spec(); spec.Horizon == 0 {
		return max(1, spec.Steps-r.t)
	}
	return r.problem.Spec().Horizon
}

// oracleStarts of an oracle: the solver's own, the plant's reference, and plans at random.
const oracleStarts = 8

// oracle executes the best plan that it finds from the episode's true start.
type oracle struct {
	problem domain.Problem
	horizon domain.Horizon
	ep      domain.Episode
	plan    []float64
	costs   []float64
	t       int
	// ahead of its decisions do not act in the episode any more, and the state that it is given is where its first one acts.
	ahead int
}

// newOracle knows the plant that runs, which may be another than the case's model.
func newOracle(c *domain.Case) (*oracle, error) {
	problem, whole := c.Problem, c.Solver
	if c.Other != nil {
		if plant, generic := c.Plant.(*Simulation); generic {
			problem, whole = plant.Problem, plant.Solver
		}
	}
	solver, recedes := whole.(domain.Receding)
	if !recedes {
		return nil, fmt.Errorf("nothing solves the plant %s, so that no oracle knows it", c.Other)
	}
	return &oracle{problem: problem, horizon: solver.NewHorizon(0), ahead: c.Delay.Ahead()}, built(whole)
}

func (o *oracle) Reset(ep domain.Episode) error {
	o.ep, o.t = ep, 0
	o.plan, o.costs = nil, nil
	if ep == nil {
		return errors.New("the episode given to the oracle is nil, want the episode whose optimum it computes")
	}
	return nil
}

// Abilities implements domain.Able.
func (o *oracle) Abilities() *domain.ControllerAbilities {
	return &domain.ControllerAbilities{Blind: true, Starts: func() []float64 { return o.costs }}
}

func (o *oracle) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	if o.t == 0 {
		if err := o.solve(s, c, pref); err != nil {
			return domain.Decision{}, err
		}
	}
	if o.ahead > 0 && o.t >= o.ep.Steps()-o.ahead {
		o.problem.Fallback(s, c, u)
		return domain.Decided(true), nil
	}
	if o.t == o.ep.Steps() {
		return domain.Decision{}, fmt.Errorf("the oracle's plan has %d steps, and a further one was asked for", o.t)
	}
	copy(u, o.plan[o.t*len(u):])
	o.t++
	return domain.Decided(true), nil
}

// solve finds the plan from the true state and the context of the first decision, and
// projects it along its roll-out.
func (o *oracle) solve(initial, c []float64, pref domain.Preference) error {
	spec := o.problem.Spec()
	nu, steps, best := spec.ActionSize(), o.ep.Steps()-o.ahead, math.Inf(1)
	s := append([]float64(nil), initial...)
	if o.ahead == 0 {
		o.ep.State(s)
	}
	_, reference, _ := o.ep.Oracle() // one of the starts, where there is one
	plan := make([]float64, (steps+spec.Tail(steps))*nu)
	for k := range oracleStarts {
		start := plan
		switch {
		case k == 0:
			start = nil
		case k == 1 && len(reference) == steps+o.ahead:
			for t, u := range reference[:steps] {
				copy(plan[t*nu:], u)
			}
		default:
			wave(rand.New(rand.NewPCG(uint64(k), oracleStarts)), spec.Action, plan)
		}
		o.horizon.Begin(start)
		cost, converged, err := o.horizon.Solve(s, c, pref, plan)
		if err != nil {
			return err
		}
		if !converged {
			cost = math.NaN()
		}
		if o.costs = append(o.costs, cost); cost < best {
			best, o.plan = cost, append(o.plan[:0], plan...)
		}
	}
	if o.plan == nil {
		return fmt.Errorf("none of %d starts of the oracle converged", oracleStarts)
	}
	now, nextS, nextC := append([]float64(nil), c...), make([]float64, len(s)), make([]float64, len(c))
	for t := range steps {
		u := o.plan[t*nu : (t+1)*nu]
		o.problem.Project(s, now, u)
		o.problem.Step(s, now, u, nextS, nextC)
		s, nextS = nextS, s
		now, nextC = nextC, now
	}
	return nil
}

// wave writes a plan at random: a constant and two slow waves for each action.
func wave(rng *rand.Rand, actions []domain.Variable, plan []float64) {
	nu := len(actions)
	for j, a := range actions {
		mid, half := 0.0, 1.0
		if a.Bounded() {
			mid, half = (a.Lo+a.Hi)/2, 0.9*(a.Hi-a.Lo)/2
		}
		level, first := 1.2*rng.Float64()-0.6, 0.4*rng.NormFloat64()
		second, phase := 0.4*rng.NormFloat64(), 2*math.Pi*rng.Float64()
		for index := j; index < len(plan); index += nu {
			w := math.Pi * float64(index) / float64(len(plan))
			plan[index] = mid + half*math.Max(-1, math.Min(1, level+first*math.Sin(w+phase)+second*math.Sin(2*w+phase)))
		}
	}
}
