package gpc

import (
	"cmp"
	"context"

	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/offline"
)

// DatasetDefaults are the options of the case's full dataset; OutDir and Seed are the
// caller's.
func (c *Case) DatasetDefaults() offline.Options {
	t := c.MapSpec().Training
	opt := offline.Options{
		Scenarios: t.Scenarios, Adaptive: true,
		Weights: offline.Weights{Count: t.Weights, Design: offline.WeightDesign(t.Design.Name)},
	}
	if d := t.Design; d.LogLo < d.LogHi {
		opt.Weights.Reference, opt.Weights.LogLo, opt.Weights.LogHi = d.Reference, d.LogLo, d.LogHi
	}
	if opt.Weights.Design == "" {
		opt.Weights.Design = offline.RandomWeights
	}
	return opt
}

// Dataset solves Pareto samples into a folder, or continues there; see
// offline.Generate. Samples of a case that keeps off its limits (Robust) keep off them too. policy is the file of an
// earlier map, "" for none: the method opt.Visiting.Method, which is direct where it is "", drives it on engines of e, and
// the optimum is also solved from every state that it visits, or with opt.Distil its decisions are the samples. Policy,
// Program and the rest of Visiting are filled in. progress may be nil.
func (c *Case) Dataset(ctx context.Context, policy string, e engine.Options, opt offline.Options, progress func(offline.Progress)) (*offline.Counters, error) {
	if opt.Scenarios < 1 {
		return nil, badInputf("dataset: %d scenarios, want 1 or more", opt.Scenarios)
	}
	if opt.OutDir == "" {
		return nil, badOptionf("dataset: {OutDir} is required, the folder to write the dataset to")
	}
	if err := opt.Weights.Validate(c.MapSpec().ObjectiveSize()); err != nil {
		return nil, BadInput(err)
	}
	opt.Scalarization = cmp.Or(opt.Scalarization, domain.WeightedSum)
	if err := opt.Scalarization.Validate(); err != nil {
		return nil, BadInput(err)
	}
	opt.Program = build()
	if policy != "" || opt.Distil {
		opt.Visiting.Method = cmp.Or(opt.Visiting.Method, "direct")
	}
	if opt.Distil {
		if opt.Scalarization != domain.WeightedSum {
			return nil, badOptionf("dataset: {Scalarization} %s and {Distil} exclude each other: {Distil} solves nothing", opt.Scalarization)
		}
		if m, err := c.method(opt.Visiting.Method); err != nil {
			return nil, err
		} else if m.New != nil {
			return nil, badOptionf("dataset: {Distil} takes a method that decodes plans with a map, such as direct; method %s of case %s does not", m.Name, c.Name())
		}
		if policy == "" {
			return nil, badOptionf("dataset: {Distil} needs {Policy}, the map that method %s drives", opt.Visiting.Method)
		}
		if c.def.Plant != nil {
			if _, err := c.def.Plant.Episode(opt.Seed, 0, domain.EpisodeOptions{Regime: opt.Regime, Preference: domain.Preference{Adaptive: true}, Context: ctx}); err != nil {
				return nil, BadInput(err)
			}
		}
	}
	if len(opt.Ranges) > 0 {
		if opt.Distil {
			return nil, badOptionf("dataset: {Ranges} and {Distil} exclude each other: {Distil} drives episodes, which {Regime} chooses")
		}
		if c.def.Solver != nil {
			if _, err := offline.Within(c.def.Solver.Parameters(), opt.Ranges); err != nil {
				return nil, BadInput(err)
			}
		}
	}
	if opt.Inward != 0 {
		inward := domain.AbilitiesOfSolver(c.def.Solver).Inward
		if inward == nil || opt.Distil {
			return nil, badOptionf("dataset: {Inward} needs a solver that can keep off its limits; case %s has none here", c.Name())
		}
		if _, err := inward(opt.Inward); err != nil {
			return nil, badOptionf("dataset: {Inward}: %v", err)
		}
	}
	if opt.Regime != "" && !opt.Distil {
		return nil, badOptionf("dataset: {Regime} %s needs {Distil}", opt.Regime)
	}
	if policy != "" {
		m, err := c.Model(policy)
		if err != nil {
			return nil, err
		}
		if opt.Visiting.ModelSHA256, err = m.SHA256(); err != nil {
			return nil, err
		}
		r, err := c.known().Resolve(Setup{Method: opt.Visiting.Method, Model: m})
		if err != nil {
			return nil, err
		}
		on, err := r.computing(e)
		if err != nil {
			return nil, err
		}
		defer on.close()
		opt.Policy, opt.Visiting.Backend = on.controller, on.backend
	}
	def := c.def
	if def.Level > 0 && !opt.Distil {
		if err := c.boundsInTime(); err != nil {
			return nil, err
		}
		samples, err := estimate.NewSamples(&def, c.Estimator)
		if err != nil {
			return nil, BadInput(err)
		}
		def.Solver, opt.KeptOff = samples, def.Level
	}
	counters, err := offline.Generate(ctx, def, opt, progress)
	return &counters, refused(err)
}
