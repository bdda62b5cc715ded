package backendtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/diagnosis"
	"github.com/gpc-engine/gpc/internal/testing/planscore"
	"github.com/gpc-engine/gpc/tensor"
)

// checkScore compares Score's margins with those of Margins, to the tolerance of
// one evaluation of the dynamics.
func checkScore(p domain.Problem, points []point) (errs []error) {
	score := domain.AbilitiesOfProblem(p).Score
	if score == nil {
		return nil
	}
	spec := p.Spec()
	for i, at := range points {
		before := at.clone()
		J, m, want := make([]float64, spec.ObjectiveSize()), make([]float64, len(spec.Margins)), make([]float64, len(spec.Margins))
		score(at.s, at.c, at.u, J, m)
		p.Margins(at.s, at.c, at.u, want)
		if !tensor.Finite(J) {
			errs = append(errs, fmt.Errorf("point %d: Score gives the objectives %v", i, J))
		}
		for k := range m {
			if !(math.Abs(m[k]-want[k]) <= 1e-9*(1+math.Abs(want[k]))) {
				errs = append(errs, fmt.Errorf("point %d: Score says %v of margin %s, Margins %v", i, m[k], spec.Margins[k].Name, want[k]))
			}
		}
		if !slices.Equal(at.s, before.s) || !slices.Equal(at.u, before.u) || !slices.Equal(at.c, before.c) {
			errs = append(errs, fmt.Errorf("point %d: Score changed an input", i))
		}
	}
	return errs
}

// planRows is how many plans of each point a PlanScorer is given at once.
const planRows = 21

// checkPlanScore compares a PlanScorer with the roll-out of one plan after another.
func checkPlanScore(p domain.Problem, points []point) (errs []error) {
	newScorer := domain.AbilitiesOfProblem(p).NewPlanScorer
	if newScorer == nil {
		return nil
	}
	scorer, err := newScorer(nil)
	if err != nil {
		return []error{fmt.Errorf("a PlanScorer on the CPU: %w", err)}
	}
	spec := p.Spec()
	np, rng := spec.PlanSize(), newRand(domainSeed+6)
	for i, at := range points {
		b := domain.PlanBatch{S: at.s, C: at.c, Preference: domain.Preference{Adaptive: true}, Plans: tensor.New(planRows, np), Steps: spec.Plan, NoProjection: i%4 == 3}
		if i%2 == 1 {
			b.Preference, b.Steps = domain.Preference{W: simplex(rng, spec.ObjectiveSize())}, max(1, spec.Plan/2)
		}
		for r := range planRows {
			for h := range spec.Plan {
				tensor.Narrow(b.Plans.Row(r)[h*spec.ActionSize():], diagnosis.Draw(rng, spec.Action))
			}
		}
		lost := i % planRows
		b.Plans.Row(lost)[0] = float32(math.NaN())
		before, given := at.clone(), b.Plans.Clone()
		said := [2]domain.PlanBatch{b, b}
		said[1].Threads = 3
		for k := range said {
			o := &said[k]
			o.Projected, o.Cost, o.Margin = make([]float64, planRows*np), make([]float64, planRows), make([]float64, planRows)
			if err := scorer.ScorePlans(context.Background(), *o); err != nil {
				return append(errs, fmt.Errorf("point %d: ScorePlans: %w", i, err))
			}
		}
		if !slices.Equal(at.s, before.s) || !slices.Equal(at.c, before.c) || identical(b.Plans.Data, given.Data) != nil {
			errs = append(errs, fmt.Errorf("point %d: ScorePlans changed an input", i))
		}
		one, three := said[0], said[1]
		if m := one.Margin[lost]; spec.Keeps(m) {
			errs = append(errs, fmt.Errorf("point %d: a plan that is not finite has the margin %v", i, m))
		}
		for r := range planRows {
			if r == lost {
				continue
			}
			plan, cost, margin := planscore.Plan(p, at.s, at.c, b.Preference, row64(b.Plans.Row(r)), b.Steps, !b.NoProjection)
			want := append(plan, cost, margin)
			got := slices.Concat(one.Projected[r*np:(r+1)*np], one.Cost[r:r+1], one.Margin[r:r+1])
			if !slices.Equal(got, slices.Concat(three.Projected[r*np:(r+1)*np], three.Cost[r:r+1], three.Margin[r:r+1])) {
				errs = append(errs, fmt.Errorf("point %d, plan %d: ScorePlans says something else on three threads", i, r))
			}
			for j, v := range want {
				if d := math.Abs(got[j] - v); !(d <= planTolerance*math.Max(1, math.Abs(v))) && got[j] != v {
					errs = append(errs, fmt.Errorf("point %d, plan %d: ScorePlans says %v of plan, cost and margin, the roll-out %v", i, r, got, want))
					break
				}
			}
		}
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		if err := scorer.ScorePlans(cancelled, one); !errors.Is(err, context.Canceled) {
			errs = append(errs, fmt.Errorf("point %d: ScorePlans of a cancelled context: %v", i, err))
		}
	}
	return errs
}

// polishIterations are as many as a polish of a closed loop has, and polishSteps as many
// actions as its plan has at most.
const (
	polishIterations = 10
	polishSteps      = 20
)

func checkPolish(p domain.Problem, points []point) (errs []error) {
	may := domain.AbilitiesOfProblem(p)
	if may.Polish == nil {
		return nil
	}
	spec, rng, gained := p.Spec(), newRand(domainSeed+7), 0
	for i, at := range points {
		steps, pref := polishSteps, domain.Preference{Adaptive: true}
		if may.Remaining != nil {
			steps = min(steps, may.Remaining(at.c))
		}
		if i%2 == 1 {
			pref = domain.Preference{W: simplex(rng, spec.ObjectiveSize())}
		}
		given, cost, margin := planscore.Plan(p, at.s, at.c, pref, slices.Repeat(at.u, steps), steps, true)
		before, plans, changed := at.clone(), [3][]float64{}, [3]bool{}
		var beside sync.WaitGroup
		for k := range plans {
			plans[k] = slices.Clone(given)
			polish := func() { changed[k] = may.Polish(at.s, at.c, pref, nil, plans[k], polishIterations) }
			if k == 0 {
				polish()
			} else {
				beside.Go(polish)
			}
		}
		beside.Wait()
		switch {
		case !slices.Equal(at.s, before.s) || !slices.Equal(at.c, before.c):
			errs = append(errs, fmt.Errorf("point %d: Polish changed an input", i))
		case !slices.Equal(plans[0], plans[1]) || !slices.Equal(plans[0], plans[2]) || changed[0] != changed[1] || changed[0] != changed[2]:
			errs = append(errs, fmt.Errorf("point %d: Polish of the same plan gives %v, then %v and %v", i, plans[0], plans[1], plans[2]))
		case !tensor.Finite(plans[0]):
			errs = append(errs, fmt.Errorf("point %d: Polish gives %v", i, plans[0]))
		case !changed[0] && !slices.Equal(plans[0], given):
			errs = append(errs, fmt.Errorf("point %d: Polish reports no change and gives %v for %v", i, plans[0], given))
		}
		_, polished, kept := planscore.Plan(p, at.s, at.c, pref, plans[0], steps, true)
		if spec.Keeps(kept) && (polished < cost || !spec.Keeps(margin)) {
			gained++
		}
	}
	if gained < 2 {
		errs = append(errs, fmt.Errorf("a polish improved %d of %d plans", gained, len(points)))
	}
	return errs
}
