package domain

import (
	"fmt"
	"math"
	"time"
)

// Guard says how far the navigator's decisions are looked after in a case: each is rolled
// out under the known dynamics before it is executed, and replaced where the roll-out
// breaks a limit, loses the state (Failed) or ends where it must not (TerminalMargin). The zero
// value looks to the end of the episode.
type Guard struct {
	// Off leaves it out: for a case in which a projected action exists in every state that
	// projected actions lead to.
	Off bool `json:"-"`
	// Steps of the look-ahead; 0: to the end of the episode as Remaining knows it, else a
	// whole episode.
	Steps int `json:"steps,omitempty"`
	// Noise is the standard deviation of measurement noise, in units of each state's own
	// scale as in EpisodeOptions, that margins are tightened by; 0: not.
	Noise float64 `json:"noise,omitempty"`
	// Iterations of the generic solver in one solve; 0: DefaultRescueIterations from what a search has found, and the solver's own
	// from a plan before.
	Iterations int `json:"iterations,omitempty"`
	// Deadline is how long a rescue takes at most: no round of its search begins that would
	// end later, and the solver has what is left, or is not asked; 0: to
	// its end. The result then depends on the machine.
	Deadline time.Duration `json:"deadline_ns,omitempty"`
}

// Validate says what in a Guard cannot be.
func (g *Guard) Validate() error {
	if g.Steps < 0 || g.Iterations < 0 || g.Deadline < 0 || !(g.Noise >= 0) || math.IsInf(g.Noise, 0) {
		return fmt.Errorf("a guard of %d steps, %d iterations, deadline %v, noise %v: want finite numbers ≥ 0", g.Steps, g.Iterations, g.Deadline, g.Noise)
	}
	return nil
}

// DefaultRescueIterations are enough for most solves from a plan that a search has found,
// and bound those that have no solution.
const DefaultRescueIterations = 60

// Follower knows a plan that keeps the limits, and how the plant is held to it. A controller asks it whether a decided action, in its
// place, may be followed by that plan, and rolls the action out only where it may not.
type Follower struct {
	// Keeps reports whether the plan keeps its limits behind u too, and returns it with u as its first action, [steps·action], valid
	// until the next call.
	Keeps func(s, c, u []float64) (plan []float64, keeps bool)
	// Renew is called where it does not. It may find the plan anew from (s, c), and with it what is kept off the limits, so that an
	// action is to be projected and asked about again. It returns the plan, [steps·action], valid until the next call.
	Renew func(s, c []float64) (plan []float64, renewed bool)
}
