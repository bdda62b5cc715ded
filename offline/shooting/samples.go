package shooting

import (
	"errors"
	"fmt"
	"math/rand/v2"

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
		from := append([]float64(nil), t.S[step]...)
		for i := range from {
			from[i] += s.opt.PerturbScale * s.opt.StateScale[i] * rng.NormFloat64()
		}
		s.nearer(from, t.S[step], t.C[step], t.U[step])
		beside := s.taskFrom(from, t.C[step], s.opt.Horizon-step, rng.Uint64(), t.U[step:])
		beside.beside, beside.by = first.kept, step
		again, err := beside.minimise(pref, how)
		if errors.Is(err, domain.ErrInfeasible) || errors.Is(err, domain.ErrNotConverged) {
			s.work.dropped.Add(1)
			continue
		}
		if err != nil {
			return nil, err
		}
		out = s.follow(out, again, 1+k, step, s.opt.Follow, scenario, pref)
	}
	return out, nil
}

const nearings = 3 // halvings of the way to a perturbed state, at most

// nearer takes a state half way back to that of the trajectory, whose action is u, as long as
// the projection finds no action that keeps the limits there: no closed loop comes to such a state, and
// a solve takes longest to find out that it has no way.
func (s *Solver) nearer(state, trajectory, c, u []float64) {
	action := make([]float64, len(u))
	for range nearings {
		copy(action, u)
		if s.problem.Project(state, c, action) {
			return
		}
		for i, v := range trajectory {
			state[i] = (state[i] + v) / 2
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
