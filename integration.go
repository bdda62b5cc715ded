package gpc

import (
	"context"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
)

// finerEpisodes are driven in a plant of finerFactor times the substeps of its integrator.
const (
	finerEpisodes = 4
	finerFactor   = 8
)

// integration drives a few of an evaluation's episodes in its plant and in one that is integrated in finer steps; nil
// where the plant is another than the model, or has no integrator.
func (c *Case) integration(ctx context.Context, newController func() (domain.Controller, error), opt closedloop.Options) (*closedloop.Integration, error) {
	p, ok := c.def.Problem.(*equations.Problem)
	plant, generic := c.def.Plant.(*closedloop.Simulation)
	if !opt.CheckIntegration || !ok || !generic || c.def.Other != nil || opt.Scenes != nil || opt.ShardCount > 1 {
		return nil, nil
	}
	finer, err := p.Finer(finerFactor)
	if finer == nil || err != nil {
		return nil, err
	}
	simulation, def := *plant, c.def
	simulation.Problem, def.Plant = finer, &simulation
	out := &closedloop.Integration{Episodes: min(opt.Episodes, finerEpisodes), Factor: finerFactor}
	drive := func(def *domain.Case) (cost float64, safe int, err error) {
		_, err = closedloop.Evaluate(ctx, def, newController, closedloop.Options{
			Method: opt.Method, Episodes: out.Episodes, Seed: opt.Seed, Noise: opt.Noise, Regime: opt.Regime, Bias: opt.Bias, Computing: opt.Computing,
			Preference: opt.Preference, Threads: opt.Threads, Candidates: opt.Candidates, WithoutOptima: true,
			Visit: func(e *closedloop.EpisodeRecord) {
				if cost += float64(e.End.Cost); e.End.Safe {
					safe++
				}
			},
		})
		return cost, safe, err
	}
	cost, safe, err := drive(&c.def)
	if err != nil {
		return nil, err
	}
	finerCost, finerSafe, err := drive(&def)
	out.CostPct, out.Safe, out.SafeFiner = closedloop.Number(100*(finerCost-cost)/cost), safe, finerSafe
	return out, err
}
