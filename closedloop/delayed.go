package closedloop

import (
	"fmt"
	"slices"
)

// queuedActions are the first n actions of a plant, which no decision gave: the fallback.
func (m *Simulation) queuedActions(s, c []float64, n int) [][]float64 {
	queue := make([][]float64, n)
	for i := range queue {
		queue[i] = make([]float64, m.Problem.Spec().ActionSize())
		m.Problem.Fallback(s, c, queue[i])
	}
	return queue
}

// delayedAction takes a decided action and returns the one that acts now: itself where there is no delay.
func (e *simulated) delayedAction(u []float64) []float64 {
	if len(e.queue) == 0 {
		return u
	}
	acts := e.queue[0]
	e.queue = append(e.queue[1:], slices.Clone(u))
	return acts
}

// measuredState writes the state that is measured: of within the period, where the delay is not of whole ones.
func (e *simulated) measuredState(s []float64) {
	if share := e.delay.Share(); share > 0 {
		e.delay.Part(share, e.s, e.c, e.queue[0], s)
		return
	}
	copy(s, e.s)
}

// delayedOracle is the optimum of what a decision can change: the queued actions act first, then the best ones. Its
// plan is what to decide, so that its last actions do not act.
func (e *simulated) delayedOracle() (float64, [][]float64, error) {
	first := e.plant.start(e.scene)
	first.acting = nil // the reference knows nothing of what will act
	rest := first.queue
	sum := 0.0
	for i, u := range rest {
		out, err := first.Apply(u)
		if err != nil {
			return 0, nil, err
		}
		if spec := e.plant.Problem.Spec(); out.Failed || !spec.Keeps(out.Margin) {
			return 0, nil, fmt.Errorf("the plant is beyond a limit at decision %d, before an action that was decided acts", i)
		}
		sum += out.Cost
	}
	cost, plan, err := e.plant.Oracle(first.s, first.c, e.Steps()-len(rest), e.scene.Preference)
	if err != nil {
		return cost, plan, err
	}
	return sum + cost, append(slices.Clone(plan), rest...), nil
}
