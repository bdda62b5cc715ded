package domain

import "github.com/gpc-engine/gpc/tensor"

// Controller decides in closed loop, one decision after another in one episode. It
// is used by one goroutine. What it may do besides are its ControllerAbilities.
type Controller interface {
	// Reset starts an episode. Methods that may not look at the plant (all but
	// oracles) use only what Decide is given; ep is nil where there is no plant.
	Reset(ep Episode) error
	// Decide writes the action and says how it was come to; where the method's own solve
	// did not succeed, u holds the method's own last resort. Observations are finite, but of one that is Blind.
	Decide(s, c []float64, pref Preference, u []float64) (Decision, error)
}

// FiniteController is a controller that is asked about finite observations alone. Another one is answered by Problem.Fallback, and
// is a period that the controller has Missed. One that is Blind is returned as it is.
func FiniteController(p Problem, k Controller) Controller {
	abilities := AbilitiesOfController(k)
	if abilities.Blind {
		return k
	}
	return &finiteController{k, p, abilities.Missed}
}

type finiteController struct {
	Controller
	problem Problem
	missed  func(s, c, u []float64)
}

// Abilities implements Able.
func (k *finiteController) Abilities() *ControllerAbilities {
	return AbilitiesOfController(k.Controller)
}

func (k *finiteController) Decide(s, c []float64, pref Preference, u []float64) (Decision, error) {
	if tensor.Finite(s) && tensor.Finite(c) {
		return k.Controller.Decide(s, c, pref, u)
	}
	k.problem.Fallback(s, c, u)
	if k.missed != nil {
		k.missed(s, c, u)
	}
	return Decided(false), nil
}

// Group is where a method stands in tables and figures.
type Group uint8

const (
	// GroupExact knows the scene or solves to optimality: the yardsticks.
	GroupExact Group = iota
	// GroupOwn are this project's controllers.
	GroupOwn
	// GroupAblation are those with a part left out.
	GroupAblation
	// GroupBaseline are what they are compared with.
	GroupBaseline
)

// Groups are the names of the groups, in the order of tables.
var Groups = []string{"exact", "own", "ablation", "baseline"}

// String is the group's name.
func (g Group) String() string { return Groups[g] }

// Needs says what a method has to be given, bit by bit.
type Needs uint8

const (
	// NeedsMap: the case's learned map and an engine, as Means.Proposer and Means.Loop.
	NeedsMap Needs = 1 << iota
	// NeedsWeights: weights of its own, as Means.Weights.
	NeedsWeights
)

// Method is one way to decide in a case. All that is known of it stands here:
// evaluation, reports and the recording scripts read this list, in its order.
type Method struct {
	Name  string // what `--method` takes
	About string // one line
	Group Group
	Needs Needs
	// Formerly is a name that it had, still taken where it is named and read where it is recorded;
	// "": none.
	Formerly string
	// Brief methods stand in a summary; the others in the full tables only.
	Brief bool
	// Navigation is what the map of NeedsMap navigates with; nil: what its problem's Spec
	// says.
	Navigation *Navigation
	// NoRollout decodes with the map's D_u as it was before rollout-aware refinement.
	NoRollout bool
	// Candidates per decision, of a method whose number of them is compared; 0: none.
	Candidates int
	// Ahead says that the controller works between its decisions (ControllerAbilities.Prepare).
	Ahead bool
	// New makes the controller. It is nil for a variant of the navigator, which
	// package batchnav makes.
	New func(Means) (Controller, error)
}

// Called reports whether a name is the method's, now or formerly.
func (m *Method) Called(name string) bool { return name == m.Name || name != "" && name == m.Formerly }

// Means is what a method is made with.
type Means struct {
	Proposer Proposer // the case's map on an engine, for NeedsMap
	// Loop makes a closed loop of Algorithm 2 about the problem of that map there, for NeedsMap. Its
	// decisions have what they Decoded; its Reset ignores the episode.
	Loop func() (Controller, error)
	// Accelerator is where that engine computes if it is a device; nil: this CPU.
	Accelerator Accelerator
	Weights     []byte // content of the file of weights, for NeedsWeights
	Candidates  int    // per decision; 0: the method's own number
}
