package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper/models"
	"github.com/gpc-engine/gpc/paper/opf"
	"github.com/gpc-engine/gpc/tensor"
)

// Rows of a step and refinements that are measured; docs/contribute/numerics.md says so.
const (
	problemRows = 64
	refinements = 16
)

// situation is a bundled map with its problem and what it was met with.
type situation struct {
	problem  domain.Problem
	model    *model.Model
	s, c     [][]float64
	priority [][]float64
}

// newSituation reads a bundled map and takes the first states of test trajectory
// seed's, dispatched by the fallback.
func newSituation(c domain.Case, seed uint64) (*situation, error) {
	spec := c.Problem.Spec()
	text, err := models.Bundled.ReadFile(spec.Name + ".safetensors")
	if err != nil {
		return nil, err
	}
	x := &situation{problem: c.Problem}
	if x.model, err = model.Read(bytes.NewReader(text)); err != nil {
		return nil, err
	}
	e, err := c.Plant.Episode(seed, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}})
	if err != nil {
		return nil, err
	}
	for range problemRows {
		s, ctx, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
		delta, sigma := make([]float64, spec.ObjectiveSize()), make([]float64, spec.ObjectiveSize())
		e.Observe(s, ctx)
		c.Problem.Fallback(s, ctx, u)
		c.Problem.Indicators(s, u, ctx, delta)
		spec.Semantic.Priority(delta, sigma)
		x.s, x.c, x.priority = append(x.s, s), append(x.c, ctx), append(x.priority, sigma)
		if _, err := e.Apply(u); err != nil {
			return nil, err
		}
	}
	return x, nil
}

func matrix(rows [][]float64) tensor.Matrix {
	m := tensor.New(len(rows), len(rows[0]))
	for i, r := range rows {
		tensor.Narrow(m.Row(i), r)
	}
	return m
}

// problemDeviations measures steps with a problem's own objectives, which on CUDA are
// its device functions, and whole refinements.
func problemDeviations(b backend.Backend) (list []backendtest.Deviation, err error) {
	for _, c := range []domain.Case{opf.Thirty(), opf.ThirtyUncertain()} {
		x, err := newSituation(c, 991)
		if err != nil {
			return nil, err
		}
		step, err := x.step(b)
		if err != nil {
			return nil, err
		}
		refined, err := x.refine(b)
		if err != nil {
			return nil, err
		}
		list = append(append(list, step...), refined...)
	}
	return list, nil
}

func (x *situation) step(b backend.Backend) ([]backendtest.Deviation, error) {
	m, nav := x.model, x.problem.Spec().Navigation
	cfg := backend.StepperConfig{
		DecoderS: m.DecoderS, DecoderU: m.DecoderU, NormS: m.NormS, NormU: m.NormU, Problem: x.problem, MaxBatch: problemRows,
		Params: backend.StepParams{Dt: 0.1, VMax: float32(nav.VMax), Epsilon: float32(nav.Epsilon), MetricLambda: float32(nav.MetricLambda), TopK: nav.TopK, LieGain: float32(nav.LieGain), LieScale: float32(nav.LieScale)},
	}
	rng := rand.New(rand.NewPCG(5, 6))
	in := backend.StepInput{Z: tensor.New(problemRows, m.Latent()), X: matrix(x.s), Ctx: matrix(x.c), Weights: matrix(x.priority)}
	for i := range problemRows {
		code := m.Codes.Row(rng.IntN(m.Codes.Rows))
		for j := range code {
			in.Z.Row(i)[j] = code[j] + 0.05*float32(rng.NormFloat64())
		}
	}
	return backendtest.StepDeviations(b, x.problem.Spec().Name, cfg, in)
}

// refine compares refinements of one candidate, the plan that needs no choice, with
// those of the reference: projection, power flow and cost are in float64 on both, so
// that what differs is the decoded plan and what the problem makes of that.
func (x *situation) refine(b backend.Backend) ([]backendtest.Deviation, error) {
	name := x.problem.Spec().Name
	list := []backendtest.Deviation{{Operation: "Refine, action", Size: name}, {Operation: "Refine, cost", Size: name}, {Operation: "Refine, margin", Size: name}}
	var refiners [2]*batchnav.Refiner
	for i, made := range []backend.Backend{b, ref.New()} {
		var err error
		if refiners[i], err = batchnav.NewRefiner(made, x.model, x.problem, batchnav.Options{}, 1); err != nil {
			return nil, err
		}
	}
	for i := range refinements {
		var results [2]*batchnav.Refinement
		for k, r := range refiners {
			var err error
			obs := batchnav.Observation{S: x.s[i], C: x.c[i], Preference: domain.Preference{Adaptive: true}}
			if results[k], err = r.Refine(context.Background(), obs, batchnav.RefineOptions{Candidates: 1, FlowSteps: 1, Seed: 1}); err != nil {
				return nil, fmt.Errorf("refinement %d of %s: %w", i, name, err)
			}
		}
		got, want := results[0], results[1]
		list[0].Add(got.U, want.U)
		list[1].Add([]float64{got.Cost}, []float64{want.Cost})
		list[2].Add([]float64{got.Margin}, []float64{want.Margin})
	}
	return list, nil
}
