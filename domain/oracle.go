package domain

import (
	"errors"
	"fmt"
)

// Oracle is the Controller that executes the plan of Episode.Oracle.
type Oracle struct {
	plan [][]float64
	t    int
}

// Reset asks the episode for its plan.
func (o *Oracle) Reset(ep Episode) error {
	if ep == nil {
		return errors.New("the episode given to the oracle is nil, want the episode whose optimum it computes")
	}
	_, plan, err := ep.Oracle()
	o.plan, o.t = plan, 0
	return err
}

// Abilities implements Able.
func (*Oracle) Abilities() *ControllerAbilities { return &ControllerAbilities{Blind: true} }

// Decide writes the plan's next action; where there is none, it is an error.
func (o *Oracle) Decide(_, _ []float64, _ Preference, u []float64) (Decision, error) {
	if o.t >= len(o.plan) {
		return Decision{}, fmt.Errorf("the oracle's plan has %d steps, and a further one was asked for", len(o.plan))
	}
	copy(u, o.plan[o.t])
	o.t++
	return Decided(true), nil
}
