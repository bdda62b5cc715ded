// Package dataset makes the samples that the map of Case 2 learns from. Its central
// type is Solver, a white-box optimiser of joint plans on the planner's own search.
package dataset

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/plan"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// Constants of the white-box solver.
const (
	// driveCandidates is the planner's budget on the way to the state that is solved.
	driveCandidates = 384
	driveCentre     = 0.6 // share of scenarios driven under (1/3, 1/3, 1/3), the others under a random preference
	// driveLength is the longest time at which a state is taken, in straight ways at
	// full speed: behind it, most robots stand at their goals.
	driveLength = 1.6
	// certifiedRoom is added to the hard margin in the search, which rounds to
	// float32, so that the certificate in float64 is about the hard margin itself.
	certifiedRoom = 1e-3
	perturbMargin = 0.05 // m, that a perturbed state keeps
	perturbTries  = 4    // each with half the size of the one before

	solverRounds  = 6    // of block-coordinate search over the robots, at most
	solverStarts  = 6    // blocks of starts in the first round
	driveDescent  = 200  // iterations from the best sixteen starts, in the scenario's state
	solverDescent = 90   // and again for each preference
	solverPolish  = 60   // iterations from the best plan
	baseRate      = 0.2  // largest first step from the base plan, m/s² and rad/s
	spreadRate    = 0.1  // largest first step, m/s² and rad/s
	spreadEnd     = 0.02 // last step relative to the first
	preferBase    = 5e-3 // relative gain that is given up for a plan that depends on the view alone
	solverCalm    = 60   // iterations towards calmer plans
	calmRate      = 0.05 // their first step, m/s² and rad/s
	calmSlack     = 3e-3 // relative cost that a calmer plan may add
	calmEffort    = 2e-3 // least weight of effort and smoothness there
	solverSettled = 8e-3 // residual from which a plan is left as it is
	scoreScale    = 5.0  // of the residual: what the ego's L steps cost 0.4 m from its goal
	// worthwhile is the least score of a sample: a robot at its goal and undisturbed
	// gives none.
	worthwhile = 5.0
	// leastSafety is the least weight of the soft penalty: a violated margin always
	// counts.
	leastSafety = 0.02
	// stationary is the largest certified residual, see residual.
	stationary = 2e-2
)

// Solver makes the Pareto samples of a View, as docs/explain/multiagent.md describes them. One scenario is one state of
// one scene. Its joint plan is optimised by block-coordinate descent, first under (1/3, 1/3, 1/3), and from there for
// every preference. The soft penalty's weight is at least leastSafety. A robot that is at its goal and undisturbed gives
// no sample.
//
// A solve in which a robot has no plan that keeps every margin is ErrInfeasible, one above the residual
// ErrNotConverged.
type Solver struct {
	view    *view.View
	system  *world.System
	options plan.Options
	stream  world.Stream // of the scenes
	pool    sync.Pool    // of *work
}

var _ domain.Solver = (*Solver)(nil)

// work is what one scenario is solved with.
type work struct {
	planner *plan.Planner
	search  *plan.Search
	joint   plan.Commitments
	look    view.Outlook // of the robot that is searched for
}

// NewSolver returns the solver of a view's samples.
func NewSolver(v *view.View) *Solver {
	y := v.System()
	r := &Solver{view: v, system: y, options: plan.Default(y.Moving()), stream: world.Training}
	r.options.Candidates, r.options.Soft = driveCandidates, view.Closeness(y.Moving())
	r.options.Price, r.options.Creep = 0, 0 // one objective for all samples
	r.options.Ways = rollout.Lanes / 2
	return r
}

// take is a work that no other goroutine has; put it back.
func (r *Solver) take() (*work, error) {
	if x, ok := r.pool.Get().(*work); ok {
		return x, nil
	}
	p, err := plan.New(r.system, r.options, domain.Means{})
	if err != nil {
		return nil, err
	}
	cpu, err := rollout.NewEvaluator(nil)
	if err != nil {
		return nil, err
	}
	return &work{planner: p, search: plan.NewSearch(cpu, world.LookAhead, solverStarts*rollout.Lanes, r.options.Ways)}, nil
}

// Parameters are where a scenario is: the scene as a coordinate whose bits number
// it, the time as a share of the drive, and the size of the perturbation. Which way
// a robot is perturbed follows from the scene.
func (r *Solver) Parameters() []domain.Variable {
	return []domain.Variable{
		{Name: "scene", Lo: 0, Hi: 1},
		{Name: "time", Lo: 0, Hi: 1},
		{Name: "shift", Unit: "m", Lo: 0, Hi: 0.25},
		{Name: "turn", Unit: "rad", Lo: 0, Hi: 0.4},
		{Name: "push", Unit: "m/s", Lo: 0, Hi: 0.3},
	}
}

// Prepare implements domain.Solver; solves share nothing.
func (r *Solver) Prepare(context.Context, uint64, func(done, total int)) error { return nil }

// Solve implements domain.Solver.
func (r *Solver) Solve(scenario int, p []float64, pref domain.Preference, scalarization domain.Scalarization, seed uint64) ([]domain.Sample, error) {
	samples, errs := r.SolveAll(scenario, p, []domain.Preference{pref}, scalarization, []uint64{seed})
	return samples[0], errs[0]
}

// Abilities implements domain.Able.
func (r *Solver) Abilities() *domain.SolverAbilities {
	return &domain.SolverAbilities{SolveAll: r.SolveAll}
}

// SolveAll is domain.SolverAbilities.SolveAll: the scene is driven once for all
// preferences.
func (r *Solver) SolveAll(_ int, p []float64, prefs []domain.Preference, scalarization domain.Scalarization, seeds []uint64) ([][]domain.Sample, []error) {
	samples, errs := make([][]domain.Sample, len(prefs)), make([]error, len(prefs))
	fail := func(err error) ([][]domain.Sample, []error) {
		for k := range errs {
			errs[k] = err
		}
		return samples, errs
	}
	if scalarization != domain.WeightedSum {
		return fail(fmt.Errorf("%s is solved by %s only, not by %s", r.view.Spec().Name, domain.WeightedSum, scalarization))
	}
	x, err := r.take()
	if err != nil {
		return fail(err)
	}
	defer r.pool.Put(x)
	if err := r.drive(x, p); err != nil {
		return fail(err)
	}
	start := x.joint
	for k, pref := range prefs {
		x.joint = start.Clone()
		x.search.Rand = rand.New(rand.NewPCG(seeds[k], 0x736f_6c76_6572))
		samples[k], errs[k] = r.solve(x, pref)
	}
	return samples, errs
}

// drive takes the planner to the scenario's state and solves that under (1/3, 1/3, 1/3),
// from plans that are shifted to it.
func (r *Solver) drive(x *work, coordinates []float64) error {
	y := r.system
	number := math.Float64bits(1 + coordinates[0]) // the coordinate's own bits: equal ones are equal scenes
	scene, err := y.Draw(r.stream, 0, number)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(number, 0x6472_6976_65))
	pref := domain.Preference{W: world.Thirds}
	if rng.Float64() >= driveCentre {
		a, b := rng.Float64(), rng.Float64()
		low, high := math.Min(a, b), math.Max(a, b)
		pref.W = []float64{math.Max(low, 0.1), high - low, 1 - high}
	}
	h := scene.Prediction(&y.Params)
	longest := 0.0
	for _, a := range scene.Robots {
		longest = math.Max(longest, math.Hypot(a.P[0]-a.Goal[0], a.P[1]-a.Goal[1]))
	}
	full := longest / (y.Params.Dt * y.Params.Limits.VMax)
	steps := min(int(coordinates[1]*(driveLength*full+1)), y.Params.Steps-2)
	s, c := make([]float64, y.Spec().MeasuredSize()), make([]float64, y.Spec().ContextSize())
	u := make([]float64, y.Spec().ActionSize())
	if err := x.planner.Reset(nil); err != nil {
		return err
	}
	for range steps {
		h.Encode(s, c)
		if _, err := x.planner.Decide(s, c, pref, u); err != nil {
			return err
		}
		h.Apply(u)
	}
	r.perturb(h, coordinates, rng)
	x.planner.Observe(h, world.Thirds)
	x.joint = x.planner.Commitments()
	x.joint.Obstacles = h.Predicted(nil, world.LookAhead)
	x.joint.Planned = h.Robots
	x.search.Rand = rand.New(rand.NewPCG(number, 0x7374_6172_74))
	weights := r.weights(&x.joint, domain.Preference{W: world.Thirds})
	r.optimise(x, &weights, driveDescent)
	return nil
}

// perturb displaces the robots; where that brings bodies too close, by less.
func (r *Solver) perturb(h *world.Prediction, coordinates []float64, rng *rand.Rand) {
	l := &h.Params.Limits
	var directions [world.MaxRobots][world.StateSize]float64
	for i := range directions {
		for k := range world.StateSize {
			directions[i][k] = rng.NormFloat64()
		}
	}
	start := slices.Clone(h.State)
	size := 1.0
	for range perturbTries {
		for i := range h.Robots {
			d, s := &directions[i], &h.State[i]
			s[0], s[1] = start[i][0]+size*coordinates[2]*d[0], start[i][1]+size*coordinates[2]*d[1]
			s[2] = start[i][2] + size*coordinates[3]*d[2]
			s[3] = min(max(start[i][3]+size*coordinates[4]*d[3], l.VMin), l.VMax)
		}
		if h.Margin() >= perturbMargin {
			return
		}
		size /= 2
	}
	copy(h.State, start)
}

// solve gives the samples of one state under one preference.
func (r *Solver) solve(x *work, pref domain.Preference) ([]domain.Sample, error) {
	j := &x.joint
	n := j.Scene.Robots
	samples := make([]domain.Sample, 0, 4*n)
	var rows [2][world.MaxRobots]domain.Sample
	for step := range 2 {
		if step == 1 {
			u := make([]float64, r.view.System().Spec().ActionSize())
			for i := range n {
				copy(u[2*i:], rows[0][i].U[:2])
			}
			h := j.Scene.Clone()
			h.Apply(u)
			j.Obstacles = nil // the first step's, which other preferences start from too
			j.Shift()
			j.See(h)
		}
		weights := r.weights(j, pref)
		r.optimise(x, &weights, (1-step)*solverDescent)
		if err := r.certify(x, pref, &weights, rows[step][:n]); err != nil {
			return nil, err
		}
	}
	var home [world.MaxRobots]bool
	for i := range n {
		r.begin(x, i, world.Thirds)
		cost, _ := worth(x.search, &j.Robots[i].Plan)
		home[i] = cost < worthwhile
	}
	for mirrored := range 2 {
		for i := range n {
			if home[i] {
				continue
			}
			for step := range 2 {
				row := rows[step][i]
				row.Trajectory, row.Step = int64(i+mirrored*world.MaxRobots), step
				if mirrored == 1 {
					row = r.view.Mirror(&row)
				}
				samples = append(samples, row)
			}
		}
	}
	return samples, nil
}

// weights are what each robot optimises: the preference, or its own priority.
func (r *Solver) weights(j *plan.Commitments, pref domain.Preference) (w [world.MaxRobots][3]float64) {
	v := r.view
	s, c := make([]float64, v.Spec().MeasuredSize()), make([]float64, v.Spec().ContextSize())
	var delta [3]float64
	for i := range j.Scene.Robots {
		if !pref.Adaptive {
			copy(w[i][:], pref.W)
			continue
		}
		var l view.Outlook
		j.Outlook(i, &l)
		v.Observe(&l, i, s, c)
		v.Indicators(s, nil, c, delta[:])
		v.Spec().Semantic.Priority(delta[:], w[i][:])
	}
	return w
}

// Why a joint plan is none of the samples, as datasets count it.
var (
	errCollides      = &domain.Reason{Kind: domain.ErrInfeasible, Text: "collides"}
	errNotStationary = &domain.Reason{Kind: domain.ErrNotConverged, Text: "not stationary"}
)

// certify checks the joint plan in float64 and writes one row for each robot.
func (r *Solver) certify(x *work, pref domain.Preference, weights *[world.MaxRobots][3]float64, rows []domain.Sample) error {
	v, h := r.view, x.joint.Scene
	joint := make([]float64, world.LookAhead*r.view.System().Spec().ActionSize())
	x.joint.Actions(joint)
	if _, margin := h.Score(joint, world.LookAhead, world.Thirds); !(margin >= r.options.Hard) {
		return errCollides
	}
	base := make([]float64, v.Spec().PlanSize())
	for i := range rows {
		row := domain.Sample{
			S: make([]float64, v.Spec().MeasuredSize()), C: make([]float64, v.Spec().ContextSize()), Preference: pref,
			U: make([]float64, v.Spec().PlanSize()), Target: make([]float64, v.Spec().PlanSize()),
			Sigma: weights[i][:], J: make([]float64, 3), Margins: make([]float64, 1),
		}
		row.KKT = r.residual(x, i, weights[i][:])
		if err := x.search.Err(); err != nil {
			return err
		}
		if !(row.KKT <= stationary) {
			return errNotStationary
		}
		var l view.Outlook
		x.joint.Outlook(i, &l)
		v.Observe(&l, i, row.S, row.C)
		for k := range world.LookAhead {
			copy(row.U[2*k:], h.Action(joint, k, i))
		}
		v.Base(row.S, row.C, base)
		for k := range base {
			row.Target[k] = row.U[k] - base[k]
		}
		a := v.Assess(&l, i, row.U, r.options.Hard)
		for k := range row.J {
			row.J[k] = a.J[k] / world.LookAhead
		}
		row.Margins[0] = a.Low
		row.Sigma = slices.Clone(row.Sigma)
		rows[i] = row
	}
	return nil
}
