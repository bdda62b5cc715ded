package gpc

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/klauspost/cpuid/v2"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/train"
)

// Engine is what computes. Objects made on it are used by one goroutine each; it may
// serve many. Close it when they are done.
type Engine struct {
	backend     engine.Engine
	description About
}

// About says what an engine computes on.
type About struct {
	Backend string // "cpu", "cuda" or "ref"
	ISA     string // "avx512", "avx2", "generic"; "sm_90" and so on for a device
	Device  string // of a GPU
	Threads int
	Reason  string // why it was chosen
}

// OpenEngine opens an engine. Unless Threads says otherwise it uses every core.
func OpenEngine(opt engine.Options) (*Engine, error) {
	if opt.Threads < 0 {
		return nil, badOptionf("{Threads} %d: want 0 or more", opt.Threads)
	}
	e, reason, err := engine.Open(opt)
	if err != nil {
		return nil, BadInput(err)
	}
	d := e.Describe()
	return &Engine{e, About{d.Name, d.ISA, d.Device, d.Threads, reason}}, nil
}

// Close gives back what the engine holds.
func (e *Engine) Close() error { return e.backend.Close() }

// About says what computes and why.
func (e *Engine) About() About { return e.description }

// String is About in a line.
func (a About) String() string {
	return fmt.Sprintf("%s (%s, %d threads): %s", a.Backend, a.ISA, a.Threads, a.Reason)
}

// Ceiling measures what the engine's device can do at most: float32 multiply-adds in
// FLOP/s and a triad over memory in bytes/s; 0 where it cannot be measured.
func (e *Engine) Ceiling() (flops, bandwidth float64) {
	c, ok := e.backend.(engine.Ceiling)
	if !ok {
		return 0, 0
	}
	return c.PeakFMA(), c.PeakBandwidth()
}

// Bench measures operations on the engine beside its ceiling; see bench.Run. single,
// if not nil, is an engine in float32 throughout to compare errors with.
func (e *Engine) Bench(ctx context.Context, single *Engine, opt bench.Options) ([]bench.Result, error) {
	var ceiling bench.Ceiling
	if c, ok := e.backend.(engine.Ceiling); ok {
		ceiling = c.PeakFMA
	}
	if single != nil {
		opt.Float32 = single.backend
	}
	return bench.Run(ctx, e.backend, ceiling, opt)
}

// Device names what the engine computes on, for records.
func (e *Engine) Device() string {
	if a := e.description; a.Backend == "cuda" {
		return fmt.Sprintf("%s, %s; host %s", a.Device, a.ISA, Host())
	}
	return Host()
}

// Host names this machine, for records.
func Host() string {
	name := strings.TrimSpace(cpuid.CPU.BrandName)
	name = cmp.Or(name, runtime.GOARCH)
	return fmt.Sprintf("%s, %d threads", name, runtime.GOMAXPROCS(0))
}

// DatasetDefaults are the options of the case's full dataset; OutDir and Seed are the
// caller's.
func (c *Case) DatasetDefaults() dataset.Options {
	t := c.MapSpec().Training
	opt := dataset.Options{
		Scenarios: t.Scenarios, Adaptive: true,
		Weights: dataset.Weights{Count: t.Weights, Design: dataset.WeightDesign(t.Design.Name)},
	}
	if d := t.Design; d.LogLo < d.LogHi {
		opt.Weights.Reference, opt.Weights.LogLo, opt.Weights.LogHi = d.Reference, d.LogLo, d.LogHi
	}
	opt.Weights.Design = cmp.Or(opt.Weights.Design, dataset.RandomWeights)
	if c.Spec().ObjectiveSize() == 1 && len(c.Spec().Switches) > 0 {
		opt.Weights.Count = 0 // there is nothing to prefer, and its map is asked so
	}
	return opt
}

// Dataset solves Pareto samples into a folder, or continues there; see
// dataset.Generate. Samples of a case that keeps off its limits (Robust) keep off them too. policy is the file of an
// earlier map, "" for none: the method opt.Visiting.Method, which is direct where it is "", drives it on engines of e, and
// the optimum is also solved from every state that it visits, or with opt.Distil its decisions are the samples. A GPU of e
// solves what it can (domain.SolverAbilities.Accelerate). Policy, Program and the rest of Visiting are filled in. progress
// may be nil.
func (c *Case) Dataset(ctx context.Context, policy string, e engine.Options, opt dataset.Options, progress func(dataset.Progress)) (*dataset.Counters, error) {
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
			if _, err := dataset.Within(c.def.Solver.Parameters(), opt.Ranges); err != nil {
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
		setting, err := c.direct().computing(Setup{Method: opt.Visiting.Method, Model: m}, e)
		if err != nil {
			return nil, err
		}
		defer setting.close()
		opt.Policy, opt.Visiting.Backend = setting.controller, setting.backend
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
	if a := domain.AbilitiesOfSolver(def.Solver); a.Accelerate != nil && a.Places == 0 && !opt.Distil {
		device, err := OpenEngine(e)
		if err != nil {
			return nil, err
		}
		defer device.Close()
		def.Solver = engine.OnDevice(device.backend, def.Solver, c.Name())
	}
	counters, err := dataset.Generate(ctx, def, opt, progress)
	return &counters, refused(err)
}

// SolvedBy is the case with its solver on an engine that is a GPU and can solve for it (domain.SolverAbilities.Accelerate).
// Elsewhere it is the case as it is.
func (c *Case) SolvedBy(e *Engine) *Case {
	copied := *c
	if domain.AbilitiesOfSolver(c.def.Solver).Accelerate != nil {
		copied.def.Solver = engine.OnDevice(e.backend, c.def.Solver, c.Name())
	}
	return &copied
}

// build is what datasets and models say of the program that made them.
func build() string { return version.Version + " " + version.Build() }

// Train trains a map on the data in folders of datasets, their shards or both (see dataset.Load); see train.Run. Backend,
// Problem, Data and Version of opt are filled in. progress may be nil.
func (c *Case) Train(ctx context.Context, e *Engine, dirs []string, opt train.Options, progress func(train.Progress)) (*train.Result, error) {
	if e.description.Backend == "ref" {
		return nil, badInputf("the backend ref decides in float64 and does not train: want auto, cuda or cpu")
	}
	opt.Backend, opt.Problem, opt.Version = e.backend, c.def.MapProblem(), build()
	var rounds []*dataset.Dataset
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d, err := dataset.Open(dir)
		if err != nil {
			return nil, BadInput(err)
		}
		rounds = append(rounds, d)
	}
	var err error
	if opt.Data, err = train.FromDataset(c.def.MapProblem(), rounds...); err != nil {
		return nil, BadInput(err)
	}
	if err := opt.Validate(); err != nil {
		return nil, BadInput(err)
	}
	result, err := train.Run(ctx, opt, progress)
	return result, refused(err)
}
