// Package domain is the public contract of a control problem. Whoever writes
// one package that fulfils Problem gets dataset, training, navigation,
// evaluation and benchmarks for it.
//
// The central type is Problem: the known dynamics, the objectives with their
// gradients, the urgency indicators, the hard margins and the projection of one
// system, in float64, one state at a time (the problem of eq. iclr-control in
// the paper). A Case bundles a Problem with the solver that makes its Pareto
// dataset and the plant it is evaluated on; both have generic defaults.
//
// # Vectors
//
// A decision sees a measured state s and a context c. The state is what the
// state decoder D_s reconstructs; the context (operating parameter, previous
// action, uncertainty descriptor, time) is known exactly and only enters the
// encoder E_x, followed by the priority slot (see Preference). Units are the
// problem's own and are named in Spec.
package domain

import "encoding/json"

// Case is a problem with everything around it. Only Problem and Parameters
// within Solver or Plant are needed; nil members have generic defaults, see
// package offline (Solver) and package closedloop (Plant).
type Case struct {
	Problem Problem
	// Group is what lists of cases put it under, such as "systems"; "": none.
	Group string
	// Learned is what dataset, training and model are about where that is not
	// Problem itself, such as one robot's view of a scene of many; nil: Problem.
	// Solver then solves it, and so does Optimizer.
	Learned Problem
	// Nominal is Problem with less known of its plant: the same state and action, and a
	// context that is the leading part of this one's. A policy that was trained on it acts
	// here too, without the rest; nil: none.
	Nominal Problem
	Solver  Solver
	Plant   Plant
	// Methods are the case's own, in the order of its tables. Those of the navigator
	// stand before them where the map is about Problem itself.
	Methods []Method
	// Numbered, if set, is the case's own method of a name with a number that Methods need not have; false: of none.
	Numbered func(name string) (Method, bool)
	// Rescue, if set, is the exact solver that the navigator's monitor asks when a
	// margin is negative or the residual too large, before Problem.Fallback. It
	// writes u and reports success; it must be safe for concurrent use.
	Rescue Optimal
	// Guard looks after the navigator's decisions, and is on unless it says otherwise. It
	// searches and asks the Solver where that is a Receding, or else asks Rescue.
	Guard Guard
	// Measurement says what of the plant is measured, how well, and what is not known of it; nil: the state
	// is, exactly. Tightened is the case with what b keeps off its margins, b being read at every solve and
	// roll-out; its plant stays as it is. nil: it cannot keep off.
	Measurement *Measurement
	// Delay is between what a decision is made by and its action; the zero value: none.
	Delay Delay
	// Level is how many standard deviations of the closed loop are kept off every limit, of a case with a
	// Measurement; 0: the limits are kept by the estimate alone.
	Level     float64
	Tightened func(b *Backoff) (Case, error)
	// Shifts are other plants to evaluate with, nil for none, and Shift the factors that
	// made this one; see Shifted.
	Shifts *Shifts
	Shift  map[string]float64
	// Other is there where Plant is that of another case, which methods do not know but those that are given the truth.
	Other *OtherPlant
	// Remake makes the case with other constants of its plant: the fields of Plant.Params in a
	// JSON object, of which those that it leaves out stay as they are. Names and sizes of the
	// problem that maps are about are those of the case. nil: they are fixed.
	Remake func(params json.RawMessage) (Case, error)
	// ForRobots is what Remake takes for scenes of exactly so many robots; nil: the scenes of the case have their number.
	ForRobots func(robots int) (params json.RawMessage, err error)
	// Altered says, in a line each, in what the plant of a case that was remade is another
	// than the one that maps and policies of the case are trained for.
	Altered []string
}

// MapProblem is the problem that dataset, training and model are about: Learned,
// or Problem where that is nil.
func (c *Case) MapProblem() Problem {
	if c.Learned != nil {
		return c.Learned
	}
	return c.Problem
}

// Method is the case's own method of that name.
func (c *Case) Method(name string) (Method, bool) {
	for _, m := range c.Methods {
		if m.Called(name) {
			return m, true
		}
	}
	if c.Numbered != nil {
		return c.Numbered(name)
	}
	return Method{}, false
}
