package dataset

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// teacher makes samples of a controller's decisions in the case's plant. It replaces a solver.
type teacher struct {
	problem domain.Problem
	plant   domain.Plant
	regime  string
	seed    uint64
}

// newTeacher checks that the case can simulate closed loops of its map.
func newTeacher(c *domain.Case, o *Options) (*teacher, error) {
	name := c.Problem.Spec().Name
	switch {
	case c.Plant == nil:
		return nil, fmt.Errorf("dataset: case %s has no plant to simulate, which distilling needs", name)
	case c.Learned != nil:
		return nil, fmt.Errorf("dataset: the map of case %s is of another problem (%s) than its plant, so that its policy cannot be distilled", name, c.Learned.Spec().Name)
	case o.Policy == nil:
		return nil, errors.New("dataset: distilling needs a policy, none is given")
	case o.Scalarization != "" && o.Scalarization != domain.WeightedSum:
		return nil, fmt.Errorf("dataset: distilling works with weighted sums only, want no scalarization %q", o.Scalarization)
	}
	return &teacher{problem: c.Problem, plant: c.Plant, regime: o.Regime, seed: derive(o.Seed, streamEpisode, 0)}, nil
}

// Causes of an episode without samples.
var (
	errLost     = &domain.Reason{Kind: domain.ErrInfeasible, Text: "lost state"}
	errReplaced = &domain.Reason{Kind: domain.ErrInfeasible, Text: "no decision of the policy's own that keeps the margins"}
)

// episode drives one episode under pref and returns a sample for each accepted decision: the policy's own, within the
// margins. The target is the decoded plan before projection: where an optimum lies on a limit, a decoder that aims
// outside it errs less. A trajectory ends where a decision is left out.
func (v *teacher) episode(ctx context.Context, scenario int, pref domain.Preference, policy domain.Controller) ([]domain.Sample, error) {
	ep, err := v.plant.Episode(v.seed, scenario, domain.EpisodeOptions{Regime: v.regime, Preference: pref, Context: ctx})
	if err != nil {
		return nil, err
	}
	if err := policy.Reset(ep); err != nil {
		return nil, err
	}
	spec := v.problem.Spec()
	m := spec.ObjectiveSize()
	u, base, delta := make([]float64, spec.ActionSize()), make([]float64, spec.PlanSize()), make([]float64, m)
	var samples []domain.Sample
	trajectory := int64(0)
	for step := 0; !ep.Done(); step++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		row := domain.Sample{
			Scenario: scenario, Trajectory: trajectory, Step: step, Preference: pref,
			S: make([]float64, spec.MeasuredSize()), C: make([]float64, spec.ContextSize()),
			U: make([]float64, spec.PlanSize()), Target: make([]float64, spec.PlanSize()),
			Sigma: make([]float64, m), J: make([]float64, m), Margins: make([]float64, len(spec.Margins)),
		}
		ep.Observe(row.S, row.C)
		d, err := policy.Decide(row.S, row.C, pref, u)
		if err != nil {
			return nil, fmt.Errorf("policy at step %d: %w", step, err)
		}
		if d.Decoded == nil && !d.Fallback.Replaced() {
			return nil, errors.New("the policy decodes no plans, which distilling needs")
		}
		accepted := d.Solved() && d.Decoded != nil && !d.Fallback.Replaced()
		v.problem.Margins(row.S, row.C, u, row.Margins)
		for _, margin := range row.Margins {
			accepted = accepted && spec.Keeps(margin)
		}
		if accepted {
			tensor.Widen(row.U, d.Decoded)
			copy(row.U, u)
			v.problem.Base(row.S, row.C, base)
			for j, b := range base {
				row.Target[j] = float64(d.Decoded[j]) - b
			}
			v.problem.Objectives(row.S, u, row.C, row.J)
			pref.Priority(v.problem, row.S, u, row.C, delta, row.Sigma)
			samples = append(samples, row)
		} else {
			trajectory++
		}
		out, err := ep.Apply(u)
		if err != nil {
			return samples, nil // the episode ends here; earlier samples stay valid
		}
		if out.Failed {
			return nil, errLost // the decisions that led there are not samples
		}
	}
	if len(samples) == 0 {
		return nil, errReplaced
	}
	return samples, nil
}
