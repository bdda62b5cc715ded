package secure

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
)

// Give is what a limit or a balance after an outage would have to give, pu.
type Give struct {
	Outage
	Violation
}

// given lists what limits and balances give after outages, the most severe first.
func (p *interior) given() (list []Give) {
	for _, t := range p.states[1:] {
		for i := range t.limits {
			if t.gives(i) && t.give[i]*t.limits[i].weight > Tolerance {
				list = append(list, Give{t.outage, t.violation(i)})
			}
		}
		if t.elastic != nil {
			list = append(list, t.missing()...)
		}
	}
	slices.SortStableFunc(list, func(a, b Give) int { return cmp.Compare(b.Severity, a.Severity) })
	return list
}

// missing lists the balances that give.
func (t *state) missing() (list []Give) {
	for b := range t.bus {
		for of, kind := range []Kind{ActiveBalance, ReactiveBalance} {
			i := 4*b + 2*of
			if missing := t.elastic.give[i] - t.elastic.give[i+1]; math.Abs(missing) > Tolerance {
				list = append(list, Give{t.outage, Violation{kind, b, missing, math.Abs(missing), math.Abs(missing)}})
			}
		}
	}
	return list
}

// violation is what a limit gives.
func (t *state) violation(i int) Violation {
	l := &t.limits[i]
	side := i >= len(t.limits)-t.sides
	pick := func(low, high Kind) Kind {
		if l.sign < 0 {
			return low
		}
		return high
	}
	switch {
	case l.kind == atFrom || l.kind == atTo:
		v := Violation{Kind: FromRating, At: l.at}
		if l.kind == atTo {
			v.Kind = ToRating
		}
		rate := math.Sqrt(l.bound)
		v.Value = math.Sqrt(max(0, l.bound+t.h[i]))
		v.By = v.Value - rate
		v.Severity = v.By / rate
		return v
	case l.kind == ofShare:
		return Violation{pick(LowActive, HighActive), l.at, l.bound + l.sign*t.h[i], t.h[i], t.h[i]}
	case side:
		place := slices.Index(t.reactive, l.at)
		if t.corner.reactive[place] == 0 {
			return Violation{pick(LowReactive, HighReactive), t.sys.hold[place], t.x[l.at], t.h[i], t.h[i]}
		}
		v := Violation{Kind: SetPoint, At: t.sys.hold[place], By: t.h[i] / dropUnit}
		v.Value, v.Severity = t.x[t.bus[v.At]+ofMagnitude], voltageSeverity*v.By
		return v
	}
	v := Violation{Kind: pick(LowVoltage, HighVoltage), Value: t.x[l.at], By: t.h[i], Severity: voltageSeverity * t.h[i]}
	v.At = slices.IndexFunc(t.bus, func(at int) bool { return at+ofMagnitude == l.at })
	return v
}

// describe says in words what gives.
func (v Violation) describe(n *network.Network) string {
	switch v.Kind {
	case LowVoltage, HighVoltage:
		return fmt.Sprintf("the voltage limit of bus %d by %.4g pu", n.BusID[v.At], v.By)
	case FromRating, ToRating:
		return fmt.Sprintf("the rating of %s by %.4g MVA", Outage{v.At, -1}.name(n), v.By*n.BaseMVA)
	case LowActive, HighActive:
		return fmt.Sprintf("the limit of active power of %s by %.4g MW", Outage{-1, v.At}.name(n), v.By*n.BaseMVA)
	case LowReactive, HighReactive:
		return fmt.Sprintf("the reactive limit of the units at bus %d by %.4g MVAr", n.BusID[v.At], v.By*n.BaseMVA)
	case SetPoint:
		return fmt.Sprintf("the voltage set-point of bus %d by %.4g pu", n.BusID[v.At], v.By)
	case ActiveBalance:
		return fmt.Sprintf("the balance of bus %d by %.4g MW", n.BusID[v.At], v.By*n.BaseMVA)
	}
	return fmt.Sprintf("the balance of bus %d by %.4g MVAr", n.BusID[v.At], v.By*n.BaseMVA)
}
