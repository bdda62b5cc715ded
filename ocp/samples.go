package ocp

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

// Parameters are the scenario's axes.
func (s *Solver) Parameters() []domain.Variable { return s.axes }

// Solve returns the samples of one scenario: the kept steps of the optimal trajectory, then the perturbed ones, each
// a trajectory of its own. Errors are those of Minimise.
func (s *Solver) Solve(scenario int, parameters []float64, pref domain.Preference, scalarization domain.Scalarization, seed uint64) ([]domain.Sample, error) {
	s = s.forSamples()
	spec := s.problem.Spec()
	if len(parameters) != len(s.axes) {
		return nil, fmt.Errorf("scenario has %d parameters, want %d", len(parameters), len(s.axes))
	}
	state, ctx := make([]float64, len(spec.Measured)), make([]float64, len(spec.Context))
	s.initial(parameters, state, ctx)
	first, err := s.taskFromStart(state, ctx, s.opt.Horizon, seed)
	if err != nil {
		return nil, err
	}
	first.keepWorkspace = true
	t, err := first.minimise(pref, scalarization)
	if err != nil {
		return nil, err
	}
	iterate := s.detach(first.workspace)
	if len(s.blocks) > 0 {
		return s.blockedSamples(scenario, parameters, t, iterate, pref, scalarization, seed)
	}
	var out []domain.Sample
	for step := range s.opt.Keep {
		out = append(out, s.sample(t, step, scenario, pref))
	}
	rng := rand.New(rand.NewPCG(seed, 1<<63))
	var tasks []*task
	for range s.opt.Perturbed {
		step := rng.IntN(s.opt.Keep)
		tasks = append(tasks, s.perturbedTask(t, parameters, step, s.opt.Horizon-step, iterate, rng))
	}
	optima, err := s.perturbedOptima(tasks, pref, scalarization)
	if err != nil {
		return nil, err
	}
	for k, optimum := range optima {
		out = s.appendPerturbed(out, optimum, 1+k, tasks[k].shift, s.opt.Follow, scenario, pref)
	}
	return out, nil
}

// perturbedTask is the solve over the given steps from a perturbed state and context of a stage. iterate is that of the
// trajectory's solve.
func (s *Solver) perturbedTask(t *Trajectory, parameters []float64, stage, steps int, iterate *ipm, rng *rand.Rand) *task {
	state, ctx := s.perturbState(t.S[stage], rng), s.perturbContext(t, stage, iterate.q, parameters, rng)
	s.retreatToFeasible(state, ctx, t.S[stage], t.C[stage], t.U[stage])
	perturbed := s.taskFrom(state, ctx, steps, rng.Uint64(), t.U[stage:])
	perturbed.neighbour, perturbed.shift = iterate, stage
	return perturbed
}

// perturbedOptima are the optima of perturbed states, nil where none is found: on a device all at once.
func (s *Solver) perturbedOptima(tasks []*task, pref domain.Preference, scalarization domain.Scalarization) ([]*Trajectory, error) {
	optima, errs := make([]*Trajectory, len(tasks)), make([]error, len(tasks))
	parallel.Each(min(1+s.places(), len(tasks)), len(tasks), func(_, i int) {
		if errs[i] = s.ctx.Err(); errs[i] == nil {
			optima[i], errs[i] = tasks[i].minimise(pref, scalarization)
		}
		if unsolved(errs[i]) {
			s.work.dropped.Add(1)
			errs[i] = nil
		}
	})
	return optima, cmp.Or(errs...)
}

// perturbState adds normal noise of PerturbScale typical sizes.
func (s *Solver) perturbState(state []float64, rng *rand.Rand) []float64 {
	perturbed := slices.Clone(state)
	for i := range perturbed {
		perturbed[i] += s.opt.PerturbScale * s.opt.StateScale[i] * rng.NormFloat64()
	}
	return perturbed
}

// perturbContext is a stage's context with the constant entries of a perturbed scenario: those that no action moves
// and that do not change along the trajectory. The noise is normal, PerturbScale of the axes' ranges. With a terminal
// cost the context stays as it is: each new context would need a steady state.
func (s *Solver) perturbContext(t *Trajectory, stage int, q *program, parameters []float64, rng *rand.Rand) []float64 {
	ctx := slices.Clone(t.C[stage])
	if s.opt.TerminalCost {
		return ctx
	}
	constant := func(i int) bool {
		return !q.isActive[q.ns+i] && !slices.ContainsFunc(t.C, func(c []float64) bool { return c[i] != t.C[stage][i] })
	}
	perturbed := slices.Clone(parameters)
	for i, a := range s.axes {
		perturbed[i] += s.opt.PerturbScale * (a.Hi - a.Lo) * rng.NormFloat64()
	}
	domain.Clip(perturbed, perturbed, s.axes)
	s0, c0 := make([]float64, len(t.S[stage])), make([]float64, len(ctx))
	s.initial(perturbed, s0, c0)
	for i := range ctx {
		if constant(i) {
			ctx[i] = c0[i]
		}
	}
	return ctx
}

// blockedSamples are the samples of a scenario with move blocking: those of a receding loop, each solved from its own
// state, the first to best with its iterate. Later actions of a plan are no decisions of that loop.
func (s *Solver) blockedSamples(scenario int, parameters []float64, best *Trajectory, iterate *ipm, pref domain.Preference, scalarization domain.Scalarization, seed uint64) (out []domain.Sample, err error) {
	rng := rand.New(rand.NewPCG(seed, 1<<63))
	perturbed := make([]int, s.opt.Perturbed) // their steps
	for k := range perturbed {
		perturbed[k] = rng.IntN(s.opt.Keep)
	}
	previous := previousOptimum{plan: best.U, iterate: iterate}
	for step := 0; ; {
		sample := s.sample(best, 0, scenario, pref)
		sample.Step = step
		out = append(out, sample)
		for k, perturbedStep := range perturbed {
			if perturbedStep != step {
				continue
			}
			optima, err := s.perturbedOptima([]*task{s.perturbedTask(best, parameters, 0, s.opt.Horizon-step, previous.iterate, rng)}, pref, scalarization)
			if err != nil {
				return nil, err
			}
			out = s.appendPerturbed(out, optima[0], 1+k, step, 1, scenario, pref)
		}
		if step++; step == s.opt.Keep {
			return out, nil
		}
		previous.shift++
		if best, err = s.resolve(best.S[1], best.C[1], s.opt.Horizon-step, pref, seed, &previous); best == nil || err != nil {
			return out, err
		}
	}
}

const maxRetreats = 3 // most halvings of the distance to a perturbed state

// retreatToFeasible halves the distance of a state and context to the trajectory, whose action is u, while the
// projection finds no feasible action. No closed loop reaches such a state, and a solve takes longest to prove it
// infeasible.
func (s *Solver) retreatToFeasible(state, ctx, trajectory, c, u []float64) {
	action := make([]float64, len(u))
	for range maxRetreats {
		copy(action, u)
		if s.problem.Project(state, ctx, action) {
			return
		}
		for i, v := range trajectory {
			state[i] = (state[i] + v) / 2
		}
		for i, v := range c {
			ctx[i] = (ctx[i] + v) / 2
		}
	}
}

// appendPerturbed appends the leading rows of a perturbed optimum, if there is one, as a trajectory with the given number,
// from the given step on.
func (s *Solver) appendPerturbed(samples []domain.Sample, t *Trajectory, number, step, rows, scenario int, pref domain.Preference) []domain.Sample {
	if t == nil {
		return samples
	}
	for row := range min(rows, s.opt.Keep-step) {
		sample := s.sample(t, row, scenario, pref)
		sample.Trajectory, sample.Step, sample.Perturbed = int64(number), step+row, true
		samples = append(samples, sample)
	}
	return samples
}

// sample is one step of a trajectory.
func (s *Solver) sample(t *Trajectory, step, scenario int, pref domain.Preference) domain.Sample {
	spec := s.problem.Spec()
	u := make([]float64, 0, spec.PlanSize())
	for _, a := range t.U[step : step+spec.Plan] {
		u = append(u, a...)
	}
	target := make([]float64, len(u))
	s.problem.Base(t.S[step], t.C[step], target)
	for i := range target {
		target[i] = u[i] - target[i]
	}
	return domain.Sample{
		Scenario: scenario, Step: step, S: t.S[step], C: t.C[step], Preference: pref, U: u, Target: target,
		Sigma: t.Sigma[step], J: t.J[step], Margins: t.Margins[step], KKT: t.KKT,
	}
}
