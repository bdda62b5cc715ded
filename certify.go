package gpc

import (
	"context"
	"fmt"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/offline"
)

// heldOutStream separates the scenarios a certificate is estimated on from those
// of a dataset with the same seed.
const heldOutStream = 0x68656c646f757400 // "heldout"

// Certify estimates the paper's constants of a map on held-out scenarios, says which
// of its conditions hold, and compares the bounds with what the method does in closed
// loop. No method is AlgorithmTwo, where the case has it: the paper's conditions are of that
// loop. In a case whose map is not about its own problem the constants are those of
// the map's problem, the closed loop is that of the case's own method. So many held-out scenarios, ≥ 1, are solved, and
// the bounds compared with so many episodes; 0: none. The Options of opt are filled in. progress may be nil.
func (c *Case) Certify(ctx context.Context, e *Engine, s Setup, scenarios, episodes int, opt batchnav.CertifyOptions, progress func(stage string, done, total int)) (*batchnav.Certified, error) {
	if scenarios < 1 || episodes < 0 || opt.Steps < 1 || !(opt.Perturbation > 0) {
		return nil, badInputf("certify: %d scenarios, %d episodes, %d recovery steps of radius %v: want at least 1 scenario, 0 episodes, 1 step and a radius above 0", scenarios, episodes, opt.Steps, opt.Perturbation)
	}
	if c.def.Solver == nil {
		return nil, badInputf("case %s has no solver to make held-out samples with", c.Name())
	}
	if progress == nil {
		progress = func(string, int, int) {}
	}
	if s.Method == "" {
		s.Method = c.certified()
	}
	r, err := c.Resolve(s)
	switch {
	case err != nil:
		return nil, err
	case r.Model == nil:
		return nil, badInputf("certify: method %s decides without the map, want a method of the map such as navigator", r.Method.Name)
	case e == nil:
		return nil, errNoEngine
	}
	opt.Options = r.options
	held, err := c.heldOut(ctx, opt.Seed, scenarios, progress)
	if err != nil {
		return nil, err
	}
	problem := c.def.MapProblem()
	constants, err := batchnav.Estimate(ctx, e.backend, r.Model, problem, held, opt)
	if err != nil {
		return nil, err
	}
	var measured *batchnav.Measured
	if episodes > 0 && c.def.Plant != nil {
		ctrl, err := r.Controller(e)
		if err != nil {
			return nil, err
		}
		var optimal domain.Optimal
		if c.def.Learned == nil {
			optimal = domain.AbilitiesOfSolver(c.def.Solver).Optimal
		}
		if measured, err = batchnav.MeasureLoop(ctx, c.Spec(), ctrl, c.def.Plant, opt.Seed, episodes, domain.Preference{Adaptive: true}, optimal); err != nil {
			return nil, err
		}
	}
	recovery, err := batchnav.Recover(ctx, e.backend, r.Model, problem, held, constants, opt)
	if err != nil {
		return nil, err
	}
	set, err := instructionSet()
	if err != nil {
		return nil, err
	}
	of, err := r.Model.SHA256()
	if err != nil {
		return nil, err
	}
	certificate := batchnav.Judge(c.Name(), *constants, measured)
	certificate.Method = r.Method.Name
	return &batchnav.Certified{
		Certificate: certificate, Recovery: recovery, Commit: version.Build(), Device: e.Device(),
		ProblemSHA256: durable.Sum(domain.FingerprintOf(problem)), ModelSHA256: of, Backend: e.About().Backend, ISA: set,
	}, nil
}

// AlgorithmTwo is the paper's online algorithm as a method of a case whose default searches.
const AlgorithmTwo = "navigator"

// certified is the method that a certificate is about if none is named.
func (c *Case) certified() string {
	for _, m := range c.Methods() {
		if m.Name == AlgorithmTwo {
			return m.Name
		}
	}
	return c.DefaultMethod()
}

// heldOut solves scenarios of a stream that no dataset uses.
func (c *Case) heldOut(ctx context.Context, seed uint64, scenarios int, progress func(stage string, done, total int)) ([]domain.Sample, error) {
	solver := c.def.Solver
	seed ^= heldOutStream
	points, err := offline.LatinHypercube(solver.Parameters(), scenarios, seed)
	if err != nil {
		return nil, err
	}
	if err := solver.Prepare(ctx, seed, func(done, total int) { progress("prepare", done, total) }); err != nil {
		return nil, err
	}
	solver = domain.SolverUntil(ctx, solver)
	var held []domain.Sample
	for i, p := range points {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		samples, err := solver.Solve(i, p, domain.Preference{Adaptive: true}, domain.WeightedSum, seed)
		if err == nil {
			held = append(held, samples...)
		}
		progress("held-out scenarios", i+1, len(points))
	}
	if len(held) == 0 {
		return nil, fmt.Errorf("the solver certified no solution of the %d held-out scenarios", scenarios)
	}
	return held, nil
}
