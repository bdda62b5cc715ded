package certificate

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/version"
)

// heldOutStream separates the scenarios a certificate is estimated on from those
// of a dataset with the same seed.
const heldOutStream = 0x68656c646f757400 // "heldout"

// Of estimates the paper's constants of a map on held-out scenarios, says which
// of its conditions hold, and compares the bounds with what the method does in closed
// loop. No method is gpc.AlgorithmTwo, where the case has it: the paper's conditions are of that
// loop. In a case whose map is not about its own problem the constants are those of
// the map's problem, the closed loop is that of the case's own method. So many held-out scenarios, ≥ 1, are solved, and
// the bounds compared with so many episodes; 0: none. progress may be nil.
func Of(ctx context.Context, c *gpc.Case, e *gpc.Engine, s gpc.Setup, scenarios, episodes int, opt Options, progress func(stage string, done, total int)) (*Certified, error) {
	if scenarios < 1 || episodes < 0 || opt.Steps < 1 || !(opt.Perturbation > 0) {
		return nil, gpc.BadInput(fmt.Errorf("certify: %d scenarios, %d episodes, %d recovery steps of radius %v: want at least 1 scenario, 0 episodes, 1 step and a radius above 0", scenarios, episodes, opt.Steps, opt.Perturbation))
	}
	if c.Definition().Solver == nil {
		return nil, gpc.BadInput(fmt.Errorf("case %s has no solver to make held-out samples with", c.Name()))
	}
	if progress == nil {
		progress = func(string, int, int) {}
	}
	s.Method = cmp.Or(s.Method, certified(c))
	r, err := c.Resolve(s)
	switch {
	case err != nil:
		return nil, err
	case r.Model == nil:
		return nil, gpc.BadInput(fmt.Errorf("certify: method %s decides without the map, want a method of the map such as navigator", r.Method.Name))
	}
	latents, err := c.Latents(e, s)
	if err != nil {
		return nil, err
	}
	holdout, err := heldOut(ctx, c, opt.Seed, scenarios, progress)
	if err != nil {
		return nil, err
	}
	constants, err := Estimate(ctx, latents, holdout, opt)
	if err != nil {
		return nil, err
	}
	var measured *Measured
	if episodes > 0 && c.Definition().Plant != nil {
		ctrl, err := r.Controller(e)
		if err != nil {
			return nil, err
		}
		var optimal domain.Optimal
		if c.Definition().Learned == nil {
			optimal = domain.AbilitiesOfSolver(c.Definition().Solver).Optimal
		}
		if measured, err = MeasureLoop(ctx, c.Spec(), ctrl, c.Definition().Plant, opt.Seed, episodes, domain.Preference{Adaptive: true}, optimal); err != nil {
			return nil, err
		}
	}
	recovery, err := Recover(ctx, latents, holdout, constants, opt)
	if err != nil {
		return nil, err
	}
	set, err := isa.Name()
	if err != nil {
		return nil, err
	}
	hash, err := r.Model.SHA256()
	if err != nil {
		return nil, err
	}
	certificate := Judge(c.Name(), *constants, measured)
	certificate.Method = r.Method.Name
	return &Certified{
		Certificate: certificate, Recovery: recovery, Commit: version.Build(), Device: e.Device(),
		ProblemSHA256: durable.Sum(domain.FingerprintOf(latents.Parts().Problem)), ModelSHA256: hash, Backend: e.About().Backend, ISA: set,
	}, nil
}

// certified is the method that a certificate is about if none is named.
func certified(c *gpc.Case) string {
	for _, m := range c.Methods() {
		if m.Name == gpc.AlgorithmTwo {
			return m.Name
		}
	}
	return c.DefaultMethod()
}

// heldOut solves scenarios of a stream that no dataset uses.
func heldOut(ctx context.Context, c *gpc.Case, seed uint64, scenarios int, progress func(stage string, done, total int)) ([]domain.Sample, error) {
	solver := c.Definition().Solver
	seed ^= heldOutStream
	points, err := dataset.LatinHypercube(solver.Parameters(), scenarios, seed)
	if err != nil {
		return nil, err
	}
	if err := solver.Prepare(ctx, seed, func(done, total int) { progress("prepare", done, total) }); err != nil {
		return nil, err
	}
	solver = domain.SolverUntil(ctx, solver)
	var holdout []domain.Sample
	for i, p := range points {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		samples, err := solver.Solve(i, p, domain.Preference{Adaptive: true}, domain.WeightedSum, seed)
		if err == nil {
			holdout = append(holdout, samples...)
		}
		progress("held-out scenarios", i+1, len(points))
	}
	if len(holdout) == 0 {
		return nil, fmt.Errorf("the solver certified no solution of the %d held-out scenarios", scenarios)
	}
	return holdout, nil
}
