package shooting

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

// Parameters are the scenario's axes.
func (s *Solver) Parameters() []domain.Variable { return s.axes }

// Solve returns the samples of one scenario: the kept steps of the optimal
// trajectory, then the perturbed ones, each a trajectory of its own. Errors are
// those of Minimise.
func (s *Solver) Solve(scenario int, p []float64, pref domain.Preference, how domain.Scalarization, seed uint64) ([]domain.Sample, error) {
	s = s.sampling()
	spec := s.problem.Spec()
	if len(p) != len(s.axes) {
		return nil, fmt.Errorf("shooting: scenario has %d parameters, want %d", len(p), len(s.axes))
	}
	state, ctx := make([]float64, len(spec.Measured)), make([]float64, len(spec.Context))
	s.initial(p, state, ctx)
	if len(s.blocks) > 0 {
		return s.decisions(scenario, p, state, ctx, pref, how, seed)
	}
	first, err := s.taskFromStart(state, ctx, s.opt.Horizon, seed)
	if err != nil {
		return nil, err
	}
	first.keeps = true
	t, err := first.minimise(pref, how)
	if err != nil {
		return nil, err
	}
	defer s.work.spaces.Put(first.kept)
	var out []domain.Sample
	for step := range s.opt.Keep {
		out = append(out, s.sample(t, step, scenario, pref))
	}
	rng := rand.New(rand.NewPCG(seed, 1<<63))
	for k := range s.opt.Perturbed {
		step := rng.IntN(s.opt.Keep)
		again, err := s.beside(t, p, step, s.opt.Horizon-step, first.kept, rng, pref, how)
		if err != nil {
			return nil, err
		}
		if again != nil {
			out = s.follow(out, again, 1+k, step, s.opt.Follow, scenario, pref)
		}
	}
	return out, nil
}

// beside is the optimum of so many steps from a perturbed state and context of stage at of a solve that kept its workspace; nil where
// none is found.
func (s *Solver) beside(t *Trajectory, about []float64, at, steps int, kept *ipm, rng *rand.Rand, pref domain.Preference, how domain.Scalarization) (*Trajectory, error) {
	from, ctx := s.near(t.S[at], rng), s.contextNear(t, at, kept.q, about, rng)
	s.nearer(from, ctx, t.S[at], t.C[at], t.U[at])
	beside := s.taskFrom(from, ctx, steps, rng.Uint64(), t.U[at:])
	beside.beside, beside.by = kept, at
	again, err := beside.minimise(pref, how)
	if err != nil && unsolved(err) {
		s.work.dropped.Add(1)
		return nil, nil
	}
	return again, err
}

// near is a state about another, at a normal distance of PerturbScale in typical sizes.
func (s *Solver) near(state []float64, rng *rand.Rand) []float64 {
	near := slices.Clone(state)
	for i := range near {
		near[i] += s.opt.PerturbScale * s.opt.StateScale[i] * rng.NormFloat64()
	}
	return near
}

// contextNear is the context of a scenario about the one of these parameters, at a normal distance of PerturbScale of their ranges, in
// place of the one of stage at of a solution: those entries change that no action moves and that stay as they are along it. Where the
// plant runs on none does, as what it costs behind its horizon is found for each context anew.
func (s *Solver) contextNear(t *Trajectory, at int, q *program, about []float64, rng *rand.Rand) []float64 {
	ctx := slices.Clone(t.C[at])
	if s.opt.Lasting {
		return ctx
	}
	constant := func(i int) bool {
		return !q.moves[q.ns+i] && !slices.ContainsFunc(t.C, func(c []float64) bool { return c[i] != t.C[at][i] })
	}
	other := slices.Clone(about)
	for i, a := range s.axes {
		other[i] += s.opt.PerturbScale * (a.Hi - a.Lo) * rng.NormFloat64()
	}
	domain.Clip(other, other, s.axes)
	s0, c0 := make([]float64, len(t.S[at])), make([]float64, len(ctx))
	s.initial(other, s0, c0)
	for i := range ctx {
		if constant(i) {
			ctx[i] = c0[i]
		}
	}
	return ctx
}

// decisions are the samples of a scenario whose plans hold their actions (Options.Blocks): those of a receding loop, each solved
// from its own state. What comes behind a plan's first action is no decision of that loop.
func (s *Solver) decisions(scenario int, about, state, ctx []float64, pref domain.Preference, how domain.Scalarization, seed uint64) ([]domain.Sample, error) {
	rng := rand.New(rand.NewPCG(seed, 1<<63))
	perturbed := make([]int, s.opt.Perturbed) // at these steps
	for k := range perturbed {
		perturbed[k] = rng.IntN(s.opt.Keep)
	}
	first, err := s.taskFromStart(state, ctx, s.opt.Horizon, seed)
	if err != nil {
		return nil, err
	}
	first.keeps = true
	best, err := first.minimise(pref, how)
	if err != nil {
		return nil, err
	}
	var out []domain.Sample
	left := leftover{solver: s, plan: best.U, kept: first.kept}
	defer left.take(nil)
	for step := 0; ; {
		sample := s.sample(best, 0, scenario, pref)
		sample.Step = step
		out = append(out, sample)
		for k, at := range perturbed {
			if at != step {
				continue
			}
			again, err := s.beside(best, about, 0, s.opt.Horizon-step, left.kept, rng, pref, how)
			if err != nil {
				return nil, err
			}
			if again != nil {
				out = s.follow(out, again, 1+k, step, 1, scenario, pref)
			}
		}
		if step++; step == s.opt.Keep {
			return out, nil
		}
		left.by++
		if best, err = s.resolve(best.S[1], best.C[1], s.opt.Horizon-step, pref, seed, &left); best == nil || err != nil {
			return out, err
		}
	}
}

const nearings = 3 // halvings of the way to a perturbed state, at most

// nearer takes a state and context half way back to those of the trajectory, whose action is u, as long as
// the projection finds no action that keeps the limits there: no closed loop comes to such a state, and
// a solve takes longest to find out that it has no way.
func (s *Solver) nearer(state, ctx, trajectory, c, u []float64) {
	action := make([]float64, len(u))
	for range nearings {
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

// follow appends the leading rows of an optimum from beside the trajectory, as the trajectory of
// that number, which begins at step.
func (s *Solver) follow(samples []domain.Sample, t *Trajectory, number, step, rows, scenario int, pref domain.Preference) []domain.Sample {
	for row := range min(rows, s.opt.Keep-step) {
		sample := s.sample(t, row, scenario, pref)
		sample.Trajectory, sample.Step, sample.Perturbed = int64(number), step+row, true
		samples = append(samples, sample)
	}
	return samples
}

// sample is step number step of a trajectory.
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
