package domain

import (
	"fmt"
	"math"
)

// Delay says how old what a decision is made by will be when its action begins to act: what sensing, computing and
// actuating take together. A plant acts in whole periods. The action of period k is decided by what was measured
// Periods before k begins, and until the first one acts the plant has Problem.Fallback.
type Delay struct {
	// Periods of the system, such as 1 or 0.4; 0: none.
	Periods float64
	// Part writes the state a share of a period behind s, in (0, 1), with c and u held, and PartDual is the same at dual
	// numbers (see DualStep). Both nil: the delay is of whole periods.
	Part     func(share float64, s, c, u, sNext []float64)
	PartDual func(share float64, s, c, u, sNext []complex128)
}

// Ahead is how many actions are under way when one is decided.
func (d *Delay) Ahead() int { return int(math.Ceil(d.Periods)) }

// Share is how far into its period a measurement is made: 0 where the delay is of whole periods.
func (d *Delay) Share() float64 { return math.Ceil(d.Periods) - d.Periods }

// Validate says what of a Delay does not fit a problem.
func (d *Delay) Validate(spec *Spec) error {
	switch {
	case !(d.Periods >= 0) || d.Periods > float64(spec.Steps-1):
		return fmt.Errorf("a delay of %v periods, want 0 to %d: otherwise none of the %d decisions of an episode acts before its end", d.Periods, spec.Steps-1, spec.Steps)
	case (d.Part == nil) != (d.PartDual == nil):
		return fmt.Errorf("delay: Part is given: %t, PartDual is given: %t, want both or neither", d.Part != nil, d.PartDual != nil)
	case d.Share() > 0 && d.Part == nil:
		return fmt.Errorf("a delay of %v periods, want a whole number: only a system with an ordinary differential equation has states within a period", d.Periods)
	}
	return nil
}
