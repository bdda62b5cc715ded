// Package closedloop runs methods against a case's plant, scores them, records
// every decision in a trace that anyone can check, and checks such traces.
//
// The central functions are Evaluate, which streams a trace and returns the
// statistics of the tables, and Verify, which re-simulates a trace from its
// header, scenes and actions alone. Simulated makes a plant for a problem that
// brings none.
//
// Rates come with Clopper–Pearson intervals; the definitions of regret and gap
// are the paper's eq. iclr-opf-gap, iclr-nav-gap and eq. analytical-regret, the
// last with each method's σ at its own state.
package closedloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/machine"
)

// sizes returns how many components of state and action an episode has.
func sizes(spec *domain.Spec, ep domain.Episode) (state, action int) {
	if of := domain.AbilitiesOfEpisode(ep).Sizes; of != nil {
		return of()
	}
	return spec.MeasuredSize(), spec.ActionSize()
}

// stepsOf are the decisions of an episode where they are not the problem's own; 0: they are.
func stepsOf(plant domain.Plant) int {
	if p, generic := plant.(*Simulation); generic && p.steps() != p.Problem.Spec().Steps {
		return p.Steps
	}
	return 0
}

// newHeader describes a run.
func newHeader(c *domain.Case, plant domain.Plant, opt *Options) (Header, error) {
	params, err := json.Marshal(plant.Params())
	if err != nil {
		return Header{}, fmt.Errorf("closedloop: plant parameters: %w", err)
	}
	spec := c.Problem.Spec()
	h := Header{
		Trace: traceVersion, Case: spec.Name, Method: opt.Method, Seed: opt.Seed, Params: params,
		ProblemSHA256: durable.Sum(domain.FingerprintOf(c.Problem)), Commit: opt.Commit, Device: opt.Device, Backend: opt.Backend, ISA: opt.ISA, ModelSHA256: opt.ModelSHA256, Candidates: opt.Candidates,
		Noise: opt.Noise, Bias: opt.Bias, Shift: c.Shift, Regime: opt.Regime, Preference: opt.Preference,
		Episodes: opt.Episodes, Shard: [2]int{opt.ShardIndex, opt.ShardCount}, Tolerance: spec.MarginTolerance,
	}
	h.Plant, h.Steps, h.Computing = c.Other, stepsOf(plant), opt.Computing
	h.Estimated, h.KeptOff, h.Delay = c.Measurement != nil, c.Level, c.Delay.Periods
	if !c.Guard.Off {
		h.Guard = &c.Guard
	}
	if opt.Scenes != nil {
		h.ScenesSHA256 = opt.Scenes.SHA256
	}
	for _, m := range spec.Margins {
		h.Margins = append(h.Margins, m.Name)
	}
	return h, nil
}

// Evaluate runs a method, made anew by factory for every thread, through the
// episodes of a case and returns its statistics. The case needs a Plant (see
// Simulated). With a TracePath every episode is on disk before the next is
// counted, so that an interrupted run can be resumed; then the statistics cover
// the resumed episodes too.
func Evaluate(ctx context.Context, c *domain.Case, factory func() (domain.Controller, error), opt Options) (*Result, error) {
	spec := c.Problem.Spec()
	if err := opt.Validate(spec); err != nil {
		return nil, err
	}
	if c.Plant == nil {
		return nil, fmt.Errorf("closedloop: case %q has no plant to simulate; closedloop.Simulated makes one of its dynamics", spec.Name)
	}
	header, err := newHeader(c, c.Plant, &opt)
	if err != nil {
		return nil, err
	}
	e := evaluation{
		of: c, opt: &opt, header: header, methods: make([]domain.Controller, max(1, opt.Threads)), sum: newTally(spec, header.Steps),
		how: domain.EpisodeOptions{Noise: opt.Noise, Regime: opt.Regime, Preference: opt.Preference, Context: ctx},
	}
	var beyond []Beyond
	if opt.Scenes != nil {
		if beyond, err = opt.Scenes.Check(ctx, c, opt.Seed, opt.ShardIndex, opt.ShardCount, e.how); err != nil {
			return nil, err
		}
	}
	watch, err := machine.Begin(opt.Limit)
	if err != nil {
		return nil, err
	}
	if opt.TracePath != "" {
		lock, err := lockTrace(opt.TracePath, opt.Resume)
		if err != nil {
			return nil, err
		}
		if lock != nil {
			defer lock.Release()
		}
	}
	for i := range e.methods {
		if e.methods[i], err = factory(); err != nil {
			return nil, fmt.Errorf("closedloop: method %q: %w", opt.Method, err)
		}
	}
	next, resumed := opt.ShardIndex, false
	if opt.TracePath != "" {
		last := -1
		if e.file, last, err = openTrace(opt.TracePath, &e.header, opt.Resume, e.sum); err != nil {
			return nil, err
		}
		defer e.file.close()
		if resumed = last >= 0; resumed {
			next = last + opt.ShardCount
		}
	}
	if err := e.run(ctx, next); err != nil {
		return e.sum.result(&e.header), err
	}
	if e.file != nil {
		if err := e.file.close(); err != nil {
			return nil, err
		}
	}
	result := e.sum.result(&e.header)
	result.Beyond = beyond
	if result.Load, err = watch.End(); err != nil {
		return nil, err
	}
	if result.Load != nil {
		result.Load.Partial = resumed
	}
	return result, nil
}

// isEnd reports whether an error only says that there is no more to read.
func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, ErrTruncated) }
