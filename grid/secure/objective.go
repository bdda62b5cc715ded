package secure

import (
	"errors"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/grid/network"
)

// weights are the weights of package acopf's objectives in the base state. States after outages have none.
type weights struct{ thermal, voltage, cost float64 }

// Constants of J₁ and J₂, package acopf's.
const (
	thermalThreshold = 0.85
	voltageDeadband  = 0.05
)

// check reports what is wrong with a problem.
func (pr *Problem) check(n *network.Network) error {
	o := &pr.Objective
	if o.Ideal != [3]float64{} || o.Nadir != [3]float64{} {
		return errors.New("secure: the objective has ideal and nadir points: leave them zero, and divide the weights by nadir − ideal")
	}
	for _, w := range o.Weights {
		if !(w >= 0) || math.IsInf(w, 1) {
			return fmt.Errorf("secure: weight %g of an objective: want a finite number, not negative", w)
		}
	}
	if (pr.Previous == nil) != (pr.Ramp == nil) || pr.Previous != nil && (len(pr.Previous) != n.Gens() || len(pr.Ramp) != n.Gens()) {
		return fmt.Errorf("secure: %d previous powers and %d ramps for %d units: want both for each unit, or neither", len(pr.Previous), len(pr.Ramp), n.Gens())
	}
	return nil
}

// applyProblem sets the base state's objective, its scale, and the ramp limits of its powers.
func (t *state) applyProblem(pr Problem) {
	s, n := t.sys, t.sys.net
	t.weight = weights{pr.Objective.Weights[0], pr.Objective.Weights[1], pr.Objective.Weights[2]}
	if pr.Objective.FileCost() {
		t.weight = weights{cost: 1}
	}
	largest := 0.0
	slope := func(c network.Cost, lo, hi float64) {
		_, slope, _ := c.At((max(lo, -unbounded) + min(hi, unbounded)) / 2)
		largest = max(largest, math.Abs(t.weight.cost*slope))
	}
	for g, c := range n.Cost {
		if s.free[g] {
			slope(c, n.PMin[g], n.PMax[g])
		}
	}
	for _, y := range s.groups {
		slope(y.cost, y.lo, y.hi)
	}
	t.scale = 1
	if largest > gradientScale {
		t.scale = gradientScale / largest
	}
	unit := map[int]int{}
	for g, k := range s.setP {
		if k >= 0 {
			unit[t.setPoints[k]] = g
		}
	}
	for i := range t.limits {
		l := &t.limits[i]
		g, ok := unit[l.element]
		if l.kind != variableLimit || !ok {
			continue
		}
		lo, hi := n.PMin[g], n.PMax[g]
		if pr.Previous != nil {
			lo, hi = max(lo, pr.Previous[g]-pr.Ramp[g]), min(hi, pr.Previous[g]+pr.Ramp[g])
			if hi-lo < fixedWidth {
				middle := min(max((lo+hi)/2, n.PMin[g]), n.PMax[g])
				lo, hi = middle-fixedWidth/2, middle+fixedWidth/2
			}
		}
		if l.bound = hi; l.sign < 0 {
			l.bound = lo
		}
	}
}

// addLoadingCost adds J₁ of a branch with the squared flow u at its from end. It returns the derivatives by u.
func (t *state) addLoadingCost(k int, u float64) (first, second float64) {
	root, rate := math.Sqrt(u), t.sys.net.Rate[k]
	overload := root/rate - thermalThreshold
	if overload <= 0 {
		return 0, 0
	}
	w := t.scale * t.weight.thermal
	t.objective += w * overload * overload * overload * overload
	d := 1 / (2 * rate * root)
	first = 4 * w * overload * overload * overload * d
	return first, 12*w*overload*overload*d*d - first/(2*u)
}

// addVoltageCost adds J₂ of a bus.
func (t *state) addVoltageCost(variable int, v float64) {
	d := math.Abs(v-1) - voltageDeadband
	if d <= 0 {
		return
	}
	w := t.scale * t.weight.voltage
	t.objective += w * d * d
	t.r[variable] += 2 * w * math.Copysign(d, v-1)
	t.values[t.diagonal[variable]] += 2 * w
}

// objectives writes J of the base state.
func (r *Result) objectives(n *network.Network) {
	r.J = [3]float64{2: r.Objective}
	for k, rate := range n.Rate {
		if math.IsInf(rate, 1) {
			continue
		}
		w := branchFlows(&n.Admittance, k, r.Va[n.From[k]]-r.Va[n.To[k]], r.Vm[n.From[k]], r.Vm[n.To[k]])
		if overload := math.Hypot(w.p[0], w.q[0])/rate - thermalThreshold; overload > 0 {
			r.J[0] += overload * overload * overload * overload
		}
	}
	for _, v := range r.Vm {
		if d := math.Abs(v-1) - voltageDeadband; d > 0 {
			r.J[1] += d * d
		}
	}
}
