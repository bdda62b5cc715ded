package domain

import (
	"fmt"
	"math"
)

// Unit is the box [−1, 1]ⁿ that a learned policy acts in: −1 and 1 are the ends of the box
// of Spec.Action. It is safe for concurrent use. An evaluation and an environment that map a
// policy's answers by it do the same.
type Unit struct {
	admit  func(s, c, u []float64) // nil: the plant takes all of the box
	action []Variable
}

// NewUnit is the unit box of a problem, each of whose actions has to have a box unless the
// problem has Admit.
func NewUnit(p Problem) (*Unit, error) {
	spec := p.Spec()
	u := &Unit{action: spec.Action, admit: AbilitiesOfProblem(p).Admit}
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
// moved to the nearest that the plant takes where the problem has Admit. a is finite.
func (b *Unit) Action(s, c, a, u []float64) {
	for i, v := range b.action {
		share := (min(max(a[i], -1), 1) + 1) / 2
		u[i] = v.Lo + (v.Hi-v.Lo)*share
	}
	if b.admit != nil {
		b.admit(s, c, u)
	}
}
