package dataset

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/tensor"
)

// Options of Generate.
type Options struct {
	// Scenarios is the number of Latin hypercube points.
	Scenarios int
	// Points are the scenarios instead, [Scenarios][parameters]; nil: a Latin hypercube.
	Points [][]float64
	// Ranges replace the solver's own ranges on some axes of the hypercube; the header's parameters include them.
	Ranges []Range
	// Adaptive solves every scenario with the adaptive priority σ(ŝ), Weights with fixed preferences. At least one of
	// the two must give a solve.
	Adaptive bool
	Weights  Weights
	// Scalarization applies to fixed preferences, "" is domain.WeightedSum; the
	// adaptive priority is always a weighted sum.
	Scalarization domain.Scalarization
	// Inward, if positive, is the slack by which every optimum keeps every margin
	// (domain.SolverAbilities.Inward); 0: the solver's own targets.
	Inward float64
	// KeptOff is the distance of the Solver's optima from the limits, in standard deviations (estimate.Samples); 0:
	// none.
	KeptOff float64
	Seed    uint64
	Shard   Shard // zero: the whole
	// OutDir is the dataset folder. Finished chunks of the same provenance there are kept.
	OutDir string
	// Threads is the number of scenarios solved at once; 0: all processors.
	Threads int
	// Chunk is the number of scenarios in a part, 0: 64. Work is lost only for
	// the chunk in progress.
	Chunk int
	// Policy makes one controller for each solving thread. Every solve under the weighted sum then also gives the
	// optima at the states that the controller visits (domain.SolverAbilities.SolveVisited). Visiting names it in the
	// provenance.
	Policy   func() (domain.Controller, error)
	Visiting Policy
	// Distil makes the policy the teacher. A scenario is then an episode of the case's plant, drawn by Seed from
	// another stream than evaluations use. Nothing is solved: the samples are the policy's own decisions
	// (domain.Decision.Decoded). Regime is the episodes'.
	Distil bool
	Regime string
	// Program and Command are recorded unchanged.
	Program, Command string
}

// Progress is Generate's report after a scenario.
type Progress struct {
	Stage       string // "prepare" or "solve"
	Done, Total int    // scenarios of this shard, those of earlier runs included
	Counters    Counters
}

// header is the header of the dataset that the options describe.
func (o Options) header(c domain.Case) (Header, error) {
	if c.MapProblem() == nil || c.Solver == nil && !o.Distil {
		return Header{}, errors.New("dataset: the case has no solver; package ocp has a generic one")
	}
	spec := c.MapProblem().Spec()
	level, err := isa.Name()
	if err != nil {
		return Header{}, fmt.Errorf("dataset: %w", err)
	}
	h := Header{
		Format: datasetFormat, Version: formatVersion, Shard: o.Shard, Command: o.Command, Layout: LayoutOf(spec),
		Provenance: Provenance{
			Case: spec.Name, ProblemSHA256: durable.Sum(domain.FingerprintOf(c.MapProblem())),
			Program: o.Program, ISA: level, Seed: o.Seed, Scenarios: o.Scenarios, Adaptive: o.Adaptive,
			Weights: o.Weights, Scalarization: o.Scalarization, Chunk: o.Chunk, Policy: o.Visiting,
			Distilled: o.Distil, Regime: o.Regime, Inward: o.Inward, KeptOff: o.KeptOff,
		},
	}
	p := &h.Provenance
	if !o.Distil {
		if p.Parameters, err = Within(c.Solver.Parameters(), o.Ranges); err != nil {
			return h, err
		}
	}
	if h.Shard == (Shard{}) {
		h.Shard.Count = 1
	}
	p.Chunk = cmp.Or(p.Chunk, 64)
	p.Scalarization = cmp.Or(p.Scalarization, domain.WeightedSum)
	p.Weights.Design = cmp.Or(p.Weights.Design, RandomWeights)
	if p.Weights.Design != LogarithmicWeights && p.Weights.Design != MixedWeights {
		p.Weights.Reference, p.Weights.LogLo, p.Weights.LogHi = 0, 0, 0
	}
	if err := p.Scalarization.Validate(); err != nil {
		return h, fmt.Errorf("dataset: %w", err)
	}
	if (o.Policy == nil) != (o.Visiting == Policy{}) {
		return h, errors.New("dataset: give a policy together with its name")
	}
	if o.Points != nil {
		if o.Distil {
			return h, errors.New("dataset: points and distilling exclude each other: points are scenarios to solve, distilling drives episodes")
		}
		if len(o.Points) != o.Scenarios {
			return h, fmt.Errorf("dataset: %d points for %d scenarios", len(o.Points), o.Scenarios)
		}
		if p.PointsSHA256, err = sumOfPoints(o.Points, len(p.Parameters)); err != nil {
			return h, err
		}
	}
	if len(o.Ranges) > 0 && (o.Distil || o.Points != nil) {
		return h, errors.New("dataset: ranges and points exclude each other: ranges are for scenarios that are drawn")
	}
	if o.Inward != 0 {
		if _, err := inward(c.Solver, o.Inward, o.Distil); err != nil {
			return h, err
		}
	}
	if o.Regime != "" && !o.Distil {
		return h, fmt.Errorf("dataset: regime %q needs a policy to distil: only its episodes have a regime", o.Regime)
	}
	if o.Policy != nil && !o.Distil && (domain.AbilitiesOfSolver(c.Solver).SolveVisited == nil || p.Scalarization != domain.WeightedSum) {
		return h, fmt.Errorf("dataset: case %s cannot solve from the states a policy visits, scalarization %q", spec.Name, p.Scalarization)
	}
	if !p.Adaptive && p.Weights.Count == 0 {
		return h, errors.New("dataset: nothing to solve for: want the adaptive priority, fixed weights, or both")
	}
	if err := h.validate(); err != nil {
		return h, fmt.Errorf("dataset: %w", err)
	}
	return h, nil
}

// inward is the solver that keeps a slack to the limits.
func inward(s domain.Solver, slack float64, distil bool) (domain.Solver, error) {
	tight := domain.AbilitiesOfSolver(s).Inward
	if tight == nil || distil {
		return nil, errors.New("dataset: inward targets need a solver that can keep off the limits, which this case has not")
	}
	s, err := tight(slack)
	if err != nil {
		return nil, fmt.Errorf("dataset: inward targets: %w", err)
	}
	return s, nil
}

// sumOfPoints is the SHA-256 of scenarios with the given number of parameters.
func sumOfPoints(points [][]float64, parameters int) (string, error) {
	sum := sha256.New()
	for i, point := range points {
		if len(point) != parameters || !tensor.Finite(point) {
			return "", fmt.Errorf("dataset: point %d is %v, want %d finite parameters", i, point, parameters)
		}
		for _, v := range point {
			binary.Write(sum, binary.LittleEndian, v)
		}
	}
	return durable.Sum([sha256.Size]byte(sum.Sum(nil))), nil
}
