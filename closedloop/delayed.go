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

// beginning is the episode from its start on to where the first decision acts, and what it costs until then.
func (e *simulated) beginning() (first *simulated, sum float64, err error) {
	first = e.plant.start(e.scene)
	first.acting = nil // the reference knows nothing of what will act
	for i, u := range first.queue {
		out, err := first.Apply(u)
		if err != nil {
			return nil, 0, err
		}
		if spec := e.plant.Problem.Spec(); out.Failed || !spec.Keeps(out.Margin) {
			return nil, 0, fmt.Errorf("the plant is beyond a limit at decision %d, before an action that was decided acts", i)
		}
		sum += out.Cost
	}
	first.queue = nil
	return first, sum, nil
}
