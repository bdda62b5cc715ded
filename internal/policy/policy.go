// Package policy runs neural policies, trained by reinforcement learning outside this module, as methods of any
// case.
//
// The central type is Actor: the network of a policy with what it was trained on, as a file
// holds it. A policy observes [s, c], measured state and context in their units, in float32, and answers
// in domain.Unit: what package environment gives to whoever trains one. A network is
// evaluated in float32 on the CPU, one observation at a time.
package policy

import (
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// safeguarded stands behind the name of an algorithm whose actions domain.Safeguard looks after.
const safeguarded = "+safeguard"

// shielded is the algorithm that is trained behind domain.Safeguard, and never runs without.
const shielded = "ppo-shielded"

// algorithms are those that have an actor's file, with what they are.
var algorithms = []struct{ name, about string }{
	{"td3", "twin delayed deterministic policy gradient"},
	{"td3-penalty", "the same, with broken limits in its reward"},
	{"ppo", "proximal policy optimisation"},
	{"ppo-lagrangian", "the same with a multiplier on the cost of broken limits"},
	{"cpo", "constrained policy optimisation"},
	{shielded, "proximal policy optimisation, trained and run behind the one-step safeguard"},
}

// Algorithms are the names of those that an actor may be of.
func Algorithms() []string {
	var names []string
	for _, a := range algorithms {
		names = append(names, a.name)
	}
	return names
}

// Methods are learned policies as methods of a case, which need the file of an actor: of
// each algorithm the policy alone, whose answers are executed as they are, and behind
// domain.Safeguard. There are none where actions have no limits. trained is the problem that actors
// have to be made for: the case's, or on a shifted plant the one before, nil where that
// is not at hand.
func Methods(c *domain.Case, trained domain.Problem) (all []domain.Method) {
	if _, err := domain.NewUnit(c.Problem); err != nil {
		return nil
	}
	for _, a := range algorithms {
		m := domain.Method{Name: a.name, About: "a learned policy: " + a.about, Group: domain.GroupBaseline, Needs: domain.NeedsWeights, Brief: true}
		m.New = newController(c, trained, a.name, a.name == shielded)
		all = append(all, m)
		if a.name == shielded {
			continue
		}
		m.Name, m.About = a.name+safeguarded, m.About+", projected and replaced where a limit would break"
		m.New = newController(c, trained, a.name, true)
		all = append(all, m)
	}
	return all
}

func newController(c *domain.Case, trained domain.Problem, algorithm string, guarded bool) func(domain.Means) (domain.Controller, error) {
	return func(means domain.Means) (domain.Controller, error) {
		actor, err := Decode(means.Weights)
		if err != nil {
			return nil, err
		}
		if actor.Algorithm != algorithm {
			return nil, fmt.Errorf("the algorithm of the actor is %s, the method runs actors of %s", actor.Algorithm, algorithm)
		}
		observed, of := c.Problem, trained
		if c.Nominal != nil && actor.Case == c.Nominal.Spec().Name {
			observed, of = c.Nominal, c.Nominal
		}
		if err := actor.Fits(observed.Spec(), of); err != nil {
			return nil, err
		}
		unit, err := domain.NewUnit(c.Problem)
		if err != nil {
			return nil, err
		}
		p := &controller{actor: actor, unit: unit, network: actor.network(), observation: make([]float32, actor.Network.In()), answer: make([]float64, actor.Network.Out())}
		p.measured = observed.Spec().MeasuredSize()
		if guarded {
			p.safeguard = domain.NewSafeguard(c)
		}
		return p, nil
	}
}

// controller is a policy in closed loop.
type controller struct {
	actor       *Actor
	network     *network
	unit        *domain.Unit
	safeguard   *domain.Safeguard // nil: none
	observation []float32
	measured    int // entries of the observation that are of the state
	answer      []float64
}

func (p *controller) Reset(domain.Episode) error {
	if p.safeguard != nil {
		p.safeguard.Reset()
	}
	return nil
}

// Abilities implements domain.Able.
func (p *controller) Abilities() *domain.ControllerAbilities {
	return &domain.ControllerAbilities{Blind: p.safeguard != nil}
}

// Decide says in its Decision what the safeguard did.
func (p *controller) Decide(s, c []float64, pref domain.Preference, u []float64) (d domain.Decision, err error) {
	d = domain.Decided(true)
	if !pref.Equal(p.actor.Preference) {
		return d, domain.PreferenceError{Trained: p.actor.Preference, Requested: pref}
	}
	if p.safeguard != nil && (!tensor.Finite(s) || !tensor.Finite(c)) {
		d.Fallback, err = p.safeguard.Refuse(s, c, pref, u)
		return d, err
	}
	// The context of a nominal problem is the leading part of the case's.
	tensor.Narrow(p.observation, s[:p.measured])
	tensor.Narrow(p.observation[p.measured:], c[:len(p.observation)-p.measured])
	tensor.Widen(p.answer, p.network.forward(p.observation))
	p.unit.Action(s, c, p.answer, u)
	if p.safeguard != nil {
		d.Fallback = p.safeguard.Keep(s, c, pref, u)
	}
	return d, nil
}
