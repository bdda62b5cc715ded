package domain

import (
	"fmt"
	"math"
)

// Unit is the box [−1, 1]ⁿ that a learned policy acts in. −1 and 1 are the ends of the box of Spec.Action, and the values
// of a switch stand at equal distances between. It is safe for concurrent use. An evaluation and an environment that map
// a policy's answers by it do the same.
type Unit struct {
	admit  func(s, c, u []float64) // nil: the plant takes all of the box
	action []Variable
	values [][]float64 // of each action; nil: it has no switch
}

// NewUnit is the unit box of a problem, each of whose actions has to have a box unless the
// problem has Admit.
func NewUnit(p Problem) (*Unit, error) {
	spec := p.Spec()
	u := &Unit{action: spec.Action, values: make([][]float64, len(spec.Action)), admit: AbilitiesOfProblem(p).Admit}
	for i := range spec.Switches {
		u.values[spec.Switches[i].Action] = spec.Switches[i].Values
	}
	for _, v := range spec.Action {
		if u.admit != nil && !v.Bounded() {
			continue
		}
		if !(v.Lo < v.Hi) || math.IsInf(v.Lo, 0) || math.IsInf(v.Hi, 0) {
			return nil, fmt.Errorf("case %q: action %s has the box [%v, %v], want a finite one for a policy to act in", spec.Name, v.Name, v.Lo, v.Hi)
		}
	}
	return u, nil
}

// Action writes the action that a stands for in state s,
//
//	u_i = Lo_i + (Hi_i − Lo_i)·(a_i + 1)/2 with a_i limited to [−1, 1],
//
// or of a switch with values v_0 to v_n the one whose place is nearest to n·(a_i + 1)/2. Where the problem has Admit u is
// moved to the nearest that the plant takes. a is finite.
func (b *Unit) Action(s, c, a, u []float64) {
	for i, v := range b.action {
		share := (min(max(a[i], -1), 1) + 1) / 2
		if values := b.values[i]; values != nil {
			u[i] = values[int(math.Round(share*float64(len(values)-1)))]
			continue
		}
		u[i] = v.Lo + (v.Hi-v.Lo)*share
	}
	if b.admit != nil {
		b.admit(s, c, u)
	}
}
