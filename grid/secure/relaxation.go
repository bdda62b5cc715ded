package secure

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
)

// Relaxation is the elastic slack of a limit or balance after an outage, pu.
type Relaxation struct {
	Outage
	Violation
}

// relaxations lists the positive elastic slacks, the most severe first.
func (p *interior) relaxations() (list []Relaxation) {
	for _, t := range p.states[1:] {
		for i := range t.limits {
			if t.soft(i) && t.elasticSlack[i]*t.limits[i].weight > Tolerance {
				list = append(list, Relaxation{t.outage, t.violation(i)})
			}
		}
		if t.elastic != nil {
			list = append(list, t.relaxedBalances()...)
		}
	}
	slices.SortStableFunc(list, func(a, b Relaxation) int { return cmp.Compare(b.Severity, a.Severity) })
	return list
}

// relaxedBalances lists the balances with elastic slack.
func (t *state) relaxedBalances() (list []Relaxation) {
	for i, row := range t.elastic.row {
		if imbalance := t.elastic.slack[i] - t.elastic.slack[i|1]; i%2 == 0 && math.Abs(imbalance) > Tolerance {
			b, kind := t.busOf(row-activeDualOffset), ActiveBalance
			if b < 0 {
				b, kind = t.busOf(row-reactiveDualOffset), ReactiveBalance
			}
			list = append(list, Relaxation{t.outage, Violation{kind, b, imbalance, math.Abs(imbalance), math.Abs(imbalance)}})
		}
	}
	return list
}

// busOf is the bus whose variables begin at first, −1 for none.
func (l *layout) busOf(first int) int { return slices.Index(l.bus, first) }

// violation is the elastic slack of limit i as a violation.
func (t *state) violation(i int) Violation {
	l := &t.limits[i]
	switched := i >= len(t.limits)-t.switchLimits
	pick := func(low, high Kind) Kind {
		if l.sign < 0 {
			return low
		}
		return high
	}
	switch {
	case l.kind == fromFlowLimit || l.kind == toFlowLimit:
		v := Violation{Kind: FromRating, Element: l.element}
		if l.kind == toFlowLimit {
			v.Kind = ToRating
		}
		rate := math.Sqrt(l.bound)
		v.Value = math.Sqrt(max(0, l.bound+t.h[i]))
		v.Excess = v.Value - rate
		v.Severity = v.Excess / rate
		return v
	case l.kind == shareLimit:
		return Violation{pick(LowActive, HighActive), l.element, l.bound + l.sign*t.h[i], t.h[i], t.h[i]}
	case switched:
		place := slices.Index(t.reactive, l.element)
		if t.switching.reactive[place] == 0 {
			return Violation{pick(LowReactive, HighReactive), t.sys.genBuses[place], t.x[l.element], t.h[i], t.h[i]}
		}
		v := Violation{Kind: SetPoint, Element: t.sys.genBuses[place], Excess: t.h[i] / dropUnit}
		v.Value, v.Severity = t.x[t.bus[v.Element]+magnitudeOffset], voltageSeverity*v.Excess
		return v
	}
	v := Violation{Kind: pick(LowVoltage, HighVoltage), Value: t.x[l.element], Excess: t.h[i], Severity: voltageSeverity * t.h[i]}
	v.Element = t.busOf(l.element - magnitudeOffset)
	return v
}

// describe says in words what would have to give.
func (v Violation) describe(n *network.Network) string {
	switch v.Kind {
	case LowVoltage, HighVoltage:
		return fmt.Sprintf("the voltage limit of bus %d by %.4g pu", n.BusID[v.Element], v.Excess)
	case FromRating, ToRating:
		return fmt.Sprintf("the rating of %s by %.4g MVA", Outage{Branch: v.Element, Unit: -1}.name(n), v.Excess*n.BaseMVA)
	case LowActive, HighActive:
		return fmt.Sprintf("the limit of active power of %s by %.4g MW", Outage{Branch: -1, Unit: v.Element}.name(n), v.Excess*n.BaseMVA)
	case LowReactive, HighReactive:
		return fmt.Sprintf("the reactive limit of the units at bus %d by %.4g MVAr", n.BusID[v.Element], v.Excess*n.BaseMVA)
	case SetPoint:
		return fmt.Sprintf("the voltage set-point of bus %d by %.4g pu", n.BusID[v.Element], v.Excess)
	case ActiveBalance:
		return fmt.Sprintf("the balance of bus %d by %.4g MW", n.BusID[v.Element], v.Excess*n.BaseMVA)
	}
	return fmt.Sprintf("the balance of bus %d by %.4g MVAr", n.BusID[v.Element], v.Excess*n.BaseMVA)
}
