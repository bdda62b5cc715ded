package main

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/thread"
)

// warm makes decisions that do not count.
func warm(of *domain.Case, k domain.Controller, draw func(e int) (domain.Episode, error)) error {
	episode, err := draw(0)
	if err != nil {
		return err
	}
	// Of two decisions, since what the last one left serves where it is made again.
	return (&driven{of: of, k: k, to: &part{}}).drive(episode, 2)
}

// driven is a method in its closed loop.
type driven struct {
	of   *domain.Case
	k    domain.Controller
	to   *part
	gaps bool
	// bounds: every so manieth decision has one.
	bounds int
}

var adaptive = domain.Preference{Adaptive: true}

// drive decides the first steps of an episode.
func (d *driven) drive(episode domain.Episode, steps int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.k.Reset(episode); err != nil {
		return err
	}
	spec := d.of.Problem.Spec()
	s, ctx, u := make([]float64, len(spec.Measured)), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	for step := range steps {
		episode.Observe(s, ctx)
		before, known := thread.Used()
		if !known {
			return errors.New("the CPU time of a thread is not known on this system")
		}
		if _, err := d.k.Decide(s, ctx, adaptive, u); err != nil {
			return err
		}
		after, _ := thread.Used()
		d.to.CPU = append(d.to.CPU, float64(after.Since(before).CPU)/float64(time.Millisecond))
		result, err := episode.Apply(u)
		if err != nil {
			d.to.Failure, d.to.Decisions = fmt.Sprintf("decision %d: %v", step, err), d.to.Decisions+steps-step
			break
		}
		d.count(spec, &result)
		if d.bounds > 0 && d.to.Decisions%d.bounds == 0 {
			d.bound(s, ctx, u)
		}
		d.to.Cost += result.Cost
	}
	d.to.Action = u
	return nil
}

// count takes what the plant made of a decision.
func (d *driven) count(spec *domain.Spec, result *domain.Outcome) {
	d.to.Decisions++
	if spec.Keeps(result.Margin) {
		d.to.Secure++
	}
	if at := slices.Index(result.Named, result.Margin); result.Margin < d.to.Margin || d.to.Worst == "" {
		d.to.Margin, d.to.Worst = result.Margin, spec.Margins[max(at, 0)].Name
	}
}

// boundTolerance is what an exact solve may be beside its optimum, as a share.
const boundTolerance = 1e-6

// bound takes the bound of a decision and, where that is asked, what it costs above the optimum.
func (d *driven) bound(s, c, u []float64) {
	may := domain.AbilitiesOfProblem(d.of.Problem)
	if may.Gap == nil {
		return
	}
	bound := may.Gap(s, c, adaptive, u)
	if math.IsInf(bound, 1) {
		return
	}
	d.to.Bound = append(d.to.Bound, 100*bound)
	best := make([]float64, len(u))
	if !d.gaps || !may.Best(s, c, adaptive, best) {
		return
	}
	gap := 1 - d.cost(may, s, c, best)/d.cost(may, s, c, u)
	d.to.Gap = append(d.to.Gap, 100*gap)
	if bound < gap-boundTolerance {
		d.to.Below++
	}
}

// cost is what an action is counted with.
func (d *driven) cost(may *domain.ProblemAbilities, s, c, u []float64) float64 {
	spec := d.of.Problem.Spec()
	weights, J := make([]float64, spec.ObjectiveSize()), make([]float64, spec.ObjectiveSize())
	may.Weigh(adaptive, weights)
	may.Score(s, c, u, J, make([]float64, len(spec.Margins)))
	return floats.Dot(weights, J)
}
