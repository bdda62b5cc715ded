package acopf

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// RangeKind is what a Range sets.
type RangeKind int

// The kinds of settings.
const (
	Ratio       RangeKind = iota // of a branch
	Shift                        // of the phase by a branch, rad
	Susceptance                  // of all shunts at a bus, pu
)

func (k RangeKind) String() string { return [...]string{"ratio", "phase shift", "susceptance"}[k] }

// Range makes a setting a variable between two values. Equal ones fix it.
type Range struct {
	Kind     RangeKind
	Index    int // of the branch or bus in the network
	Min, Max float64
}

// Setting is that of a network.
func (r Range) Setting(n *network.Network) float64 {
	switch r.Kind {
	case Ratio:
		return n.Ratio(r.Index)
	case Shift:
		return n.Shift(r.Index)
	}
	return n.Bs[r.Index]
}

func (r Range) validate(n *network.Network) error {
	count := n.Branches()
	if r.Kind == Susceptance {
		count = n.Buses()
	}
	if r.Index < 0 || r.Index >= count {
		return fmt.Errorf("network %s: the range of the %v %d is not in the network: want an index of 0 to %d", n.Name, r.Kind, r.Index, count-1)
	}
	if !(r.Min <= r.Max) || notFinite(r.Min) || notFinite(r.Max) || r.Kind == Ratio && r.Min <= 0 || r.Kind == Shift && r.Max-r.Min > 2*math.Pi {
		return fmt.Errorf("network %s: a range of the %v %d from %g to %g: want finite values, not falling, ratios above 0 and at most a turn of phase", n.Name, r.Kind, r.Index, r.Min, r.Max)
	}
	return nil
}

// Settled is a network with the settings of a result.
func Settled(n *network.Network, ranges []Range, settings []float64) *network.Network {
	if len(settings) == 0 {
		return n
	}
	values := [3]map[int]float64{{}, {}, {}}
	for i, setting := range settings {
		values[ranges[i].Kind][ranges[i].Index] = setting
	}
	return n.Adjusted(values[Ratio], values[Shift], values[Susceptance])
}

// variable is a setting that varies, with an inner bus m next to the outer one, k.
//
//   - A ratio τ of a branch at k: the branch's magnitude there is V_m = V_k/τ, and what it takes up of reactive power is
//     balanced at m.
//   - A phase shift φ: its angle there is θ_m = θ_k − φ, and its active power is balanced at m.
//   - A susceptance b: all of it that varies is a shunt at m, with V_m between half of V_k and all of it.
//
// Two tied units without limits lead the power from k to m, where the multiplier becomes that of k. So each variable of m
// has a pivot with the balance of a power, whatever the curvature. The limits of V_m are V_k·vLo ≤ V_m ≤ V_k·vHi. Those of
// θ_k − θ_m stand after the angle limits of branches.
type variable struct {
	Range
	number       int // in Options.Ranges
	outer, inner int
	start        float64 // setting
	fixed, scale float64 // of a susceptance fixed + scale·(V_m/V_k)²
}

// place is V_m/V_k and θ_k − θ_m at a setting.
func (y *variable) place(setting float64) (quotient, shift float64) {
	switch y.Kind {
	case Ratio:
		return 1 / setting, 0
	case Shift:
		return 1, setting
	}
	return math.Sqrt(max(setting-y.fixed, 0) / y.scale), 0
}

// leastQuotient of V_m/V_k is that of a susceptance, and half of that of a phase shift, where V_m is of no use.
const leastQuotient = 0.5

// addRanges puts the settings in the plan, whose network it replaces by one with the inner buses.
func (p *plan) addRanges(opt Options) error {
	p.inner, p.neutral = p.nb, p.net
	p.angleFrom, p.voltageFrom = p.net.From, p.net.From
	if len(opt.Ranges) == 0 {
		return nil
	}
	if opt.CurrentLimits {
		return errors.New("acopf: CurrentLimits and Ranges exclude one another: limits of currents would be of the magnitude after the ratio")
	}
	p.angleFrom, p.voltageFrom = slices.Clone(p.net.From), slices.Clone(p.net.From)
	neutral := make([]float64, len(opt.Ranges))
	for i, r := range opt.Ranges {
		if err := r.validate(p.net); err != nil {
			return err
		}
		if slices.ContainsFunc(opt.Ranges[:i], func(o Range) bool { return o.Kind == r.Kind && o.Index == r.Index }) {
			return fmt.Errorf("network %s: the %v %d has two ranges", p.net.Name, r.Kind, r.Index)
		}
		if neutral[i] = r.Min; r.Min == r.Max {
			continue
		}
		y := variable{Range: r, number: i, inner: p.nb, start: min(max(r.Setting(p.net), r.Min), r.Max)}
		switch p.nb++; r.Kind {
		case Ratio:
			y.outer, p.voltageFrom[r.Index] = p.net.From[r.Index], y.inner
			neutral[i] = 1
		case Shift:
			y.outer, p.angleFrom[r.Index] = p.net.From[r.Index], y.inner
			neutral[i] = 0
		default:
			y.outer = r.Index
			y.scale = (r.Max - r.Min) / (1 - leastQuotient*leastQuotient)
			y.fixed = r.Max - y.scale
			neutral[i] = y.fixed
		}
		p.variables = append(p.variables, y)
	}
	p.neutral = Settled(p.net, opt.Ranges, neutral)
	n := *p.neutral
	extend := func(value float64, lists ...*[]float64) {
		for _, list := range lists {
			*list = append(slices.Clip(*list), value)
		}
	}
	for _, y := range p.variables {
		n.BusID = append(slices.Clip(n.BusID), n.BusID[y.outer])
		extend(0, &n.Gs, &n.Pd, &n.Qd)
		extend(y.scale, &n.Bs)
		extend(1, &n.Vm0)
		extend(n.Va0[y.outer], &n.Va0)
		low, high, angle := leastQuotient, 1.0, p.startAngles[y.outer]
		switch y.Kind {
		case Ratio:
			low, high = 1/y.Max, 1/y.Min
		case Shift:
			high, angle = 1/leastQuotient, angle-y.start
			n.From, n.To = append(slices.Clip(n.From), y.outer), append(slices.Clip(n.To), y.inner)
			extend(math.Inf(1), &n.Rate)
			extend(y.Min, &n.AngMin)
			extend(y.Max, &n.AngMax)
		}
		extend(low, &n.VMin)
		extend(high, &n.VMax)
		extend(angle, &p.startAngles)
		lead := len(p.unitBus)
		p.unitBus, p.follows = append(p.unitBus, y.inner, y.outer), append(p.follows, false, true)
		p.ties = append(p.ties, tie{lead, lead + 1, -1, 0})
	}
	p.net = &n
	return nil
}

// adjacent are the pairs of buses that have a block of the matrix.
func (p *plan) adjacent() [][2]int {
	edges := p.net.Edges()
	for _, t := range p.ties {
		edges = append(edges, [2]int{p.unitBus[t.lead], p.unitBus[t.follow]})
	}
	for _, y := range p.variables {
		if y.Kind != Susceptance {
			angle, voltage, remote := p.angleFrom[y.Index], p.voltageFrom[y.Index], p.net.To[y.Index]
			edges = append(edges, [2]int{angle, voltage}, [2]int{angle, remote}, [2]int{voltage, remote})
		}
	}
	return edges
}

// active says whether a unit is of active power.
func (p *plan) active(unit int) bool {
	return unit < p.ng || unit >= 2*p.ng && p.variables[(unit-2*p.ng)/2].Kind == Shift
}

// coupled are the limits of magnitudes, those of inner buses times what they are relative to.
func (p *plan) coupled(b *lanes.Builder, limits, magnitude lanes.Col) lanes.Col {
	out := slices.Clip(limits[:p.inner])
	for _, y := range p.variables {
		out = append(out, b.Mul(limits[y.inner:y.inner+1], magnitude[y.outer:y.outer+1])...)
	}
	return out
}

// assembleRanges adds the outer buses' part in the limits of inner magnitudes, with these weights.
func (p *plan) assembleRanges(b *lanes.Builder, k *blocks, low, high lanes.Col) {
	for _, y := range p.variables {
		outer, inner := []int{y.outer}, []int{y.inner}
		for _, limit := range [][2]lanes.Col{{low, p.vLo}, {high, p.vHi}} {
			quotient := limit[1][y.inner : y.inner+1]
			weighted := b.Mul(limit[0][y.inner:y.inner+1], quotient)
			d := k.entry(outer, outer, rowMagnitude, rowMagnitude)
			b.SetFMA(d, weighted, quotient, d)
			d = k.entry(inner, outer, rowMagnitude, rowMagnitude)
			b.SetSub(d, d, weighted)
		}
		// The balance of the other power has no term.
		row := rowActive
		if y.Kind == Shift {
			row = rowReactive
		}
		b.Copy(k.entry(inner, inner, row, row), p.constant(-1))
	}
}

// startSettings puts the inner buses of a lane where its outer ones and the settings of the start have them.
func (w *worker) startSettings(l int) {
	p, m := w.plan, w.m
	for _, y := range p.variables {
		quotient, shift := y.place(y.start)
		if job := &w.lane[l].job; job.attempt == warm && job.problem.Start.Settings != nil {
			quotient, shift = y.place(job.problem.Start.Settings[y.number])
		}
		m.Set(p.v[y.inner], l, quotient*m.Get(p.v[y.outer], l))
		m.Set(p.th[y.inner], l, m.Get(p.th[y.outer], l)-shift)
	}
}

// startTransfers balances the inner buses of a lane whose balances have been evaluated.
func (w *worker) startTransfers(l int) {
	p, m := w.plan, w.m
	add := func(c lanes.Ref, d float64) { m.Set(c, l, m.Get(c, l)+d) }
	for _, t := range p.ties[len(p.ties)-len(p.variables):] {
		residual := p.cell(t.lead, p.gp, p.gq)[0]
		d := m.Get(residual, l)
		add(p.u[t.lead], d)
		add(p.u[t.follow], -d)
		add(p.cell(t.follow, p.gp, p.gq)[0], d)
		m.Set(residual, l, 0)
	}
}

// settings writes those of a lane's point.
func (w *worker) settings(l int, dst []float64) []float64 {
	p, m, ranges := w.plan, w.m, w.solver.opt.Ranges
	dst = resize(dst, len(ranges))
	for i, r := range ranges {
		dst[i] = r.Min
	}
	for _, y := range p.variables {
		quotient := m.Get(p.v[y.inner], l) / m.Get(p.v[y.outer], l)
		switch y.Kind {
		case Ratio:
			dst[y.number] = 1 / quotient
		case Shift:
			dst[y.number] = m.Get(p.th[y.outer], l) - m.Get(p.th[y.inner], l)
		default:
			dst[y.number] = y.fixed + float64(y.scale*quotient*quotient)
		}
	}
	return dst
}
