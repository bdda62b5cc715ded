// Package results states what solvers find in the units, rows and numbers of the case's file, with the keys of JSON that
// gpc pf and gpc opf print and that the Python package reads: solutions (Flow, Secure), the limits that they break, and what
// every single outage does to one (After).
package results

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
)

// Limit is one limit of a network, where it is and how near a solution is, in the unit
// of the file. Bus, Gen and Branch are 0 where it is of something else.
type Limit struct {
	Kind   string  `json:"limit"`  // vmin, vmax, pmin, pmax, qmin, qmax, rating, angmin or angmax; in `why` also p_balance and q_balance: load that is not met, or, with a value below 0, power that nothing takes
	Bus    int     `json:"bus"`    // number in the file, for a unit that of its bus; 0 for a branch
	Gen    int     `json:"gen"`    // row in `mpc.gen`, from 1; 0 for what is no unit
	Branch int     `json:"branch"` // row in `mpc.branch`, from 1; 0 for what is none
	From   int     `json:"from"`   // number of its bus; 0 likewise
	To     int     `json:"to"`     // likewise
	End    string  `json:"end"`    // of a rating: from or to; "" else
	Value  float64 `json:"value"`  // at the solution, in `unit`
	Bound  float64 `json:"bound"`  // the limit, likewise; 0 for a balance
	Unit   string  `json:"unit"`   // pu, MW, MVAr, MVA or °
}

// Binding is a limit that binds at an optimum. Its multiplier is the decrease of the objective for one more unit of
// room, in $/h for the file's own.
type Binding struct {
	Limit
	Multiplier float64 `json:"multiplier"` // what the objective would fall by for a unit more of room, per hour
}

// Broken is a limit and by how much it is broken, or would have to give.
type Broken struct {
	Limit
	Excess float64 `json:"by"` // in its unit
}

// Where names the equipment of a limit.
func (l Limit) Where() string {
	place := fmt.Sprintf("bus %d", l.Bus)
	switch {
	case l.Gen > 0:
		place = fmt.Sprintf("unit %d at bus %d", l.Gen, l.Bus)
	case l.Branch > 0:
		place = fmt.Sprintf("branch %d from bus %d to bus %d", l.Branch, l.From, l.To)
	}
	if l.End != "" {
		place += ", " + l.End + " end"
	}
	return place
}

// Point is a solution of a network with its flows, in pu and rad.
type Point struct {
	net            *network.Network
	Vm, Va, Pg, Qg []float64
	Flows          *network.Flows
}

// NewPoint computes the flows of a solution, whose slices it keeps.
func NewPoint(n *network.Network, vm, va, pg, qg []float64) Point {
	p := Point{n, vm, va, pg, qg, network.NewFlows(n.Branches())}
	n.BranchFlows(&n.Admittance, vm, va, p.Flows)
	return p
}

// Bus are the voltage limits of a kind, by bus.
func (p Point) Bus(kind string, bounds []float64) func(int) Limit {
	return func(b int) Limit {
		return Limit{Kind: kind, Bus: p.net.BusID[b], Value: p.Vm[b], Bound: bounds[b], Unit: "pu"}
	}
}

// Gen are the limits of active or reactive power of a kind, by unit.
func (p Point) Gen(kind, unit string, values, bounds []float64) func(int) Limit {
	return func(g int) Limit {
		return Limit{Kind: kind, Bus: p.net.BusID[p.net.GenBus[g]], Gen: p.net.GenRow[g] + 1,
			Value: values[g] * p.net.BaseMVA, Bound: bounds[g] * p.net.BaseMVA, Unit: unit}
	}
}

func (p Point) branch(kind string, k int) Limit {
	return Limit{Kind: kind, Branch: p.net.BranchRow[k] + 1, From: p.net.BusID[p.net.From[k]], To: p.net.BusID[p.net.To[k]]}
}

// Flow are the ratings at one end of branches, by branch.
func (p Point) Flow(end string) func(int) Limit {
	return func(k int) Limit {
		l := p.branch("rating", k)
		pw, qw := p.Flows.Pf[k], p.Flows.Qf[k]
		if end == "to" {
			pw, qw = p.Flows.Pt[k], p.Flows.Qt[k]
		}
		l.End, l.Value = end, math.Hypot(pw, qw)*p.net.BaseMVA
		l.Bound, l.Unit = p.net.Rate[k]*p.net.BaseMVA, "MVA"
		return l
	}
}

// Angle are the limits of angle differences of a kind, by branch.
func (p Point) Angle(kind string, bounds []float64) func(int) Limit {
	return func(k int) Limit {
		l := p.branch(kind, k)
		l.Value, l.Bound, l.Unit = Degrees(p.Va[p.net.From[k]]-p.Va[p.net.To[k]]), Degrees(bounds[k]), "°"
		return l
	}
}

// Degrees converts rad to degrees.
func Degrees(rad float64) float64 { return rad * 180 / math.Pi }

// limitKind are the limits of a kind.
type limitKind struct {
	sign  float64 // of the value minus the bound where one is broken
	unit  float64 // a pu or rad in the file's
	count int
	limit func(int) Limit
}

// kinds are all limits of a point, in the order of acopf.LimitMultipliers.
func (p Point) kinds() [10]limitKind {
	n, base, degree := p.net, p.net.BaseMVA, Degrees(1)
	nb, ng, nl := n.Buses(), n.Gens(), n.Branches()
	return [10]limitKind{
		{-1, 1, nb, p.Bus("vmin", n.VMin)}, {1, 1, nb, p.Bus("vmax", n.VMax)},
		{-1, base, ng, p.Gen("pmin", "MW", p.Pg, n.PMin)}, {1, base, ng, p.Gen("pmax", "MW", p.Pg, n.PMax)},
		{-1, base, ng, p.Gen("qmin", "MVAr", p.Qg, n.QMin)}, {1, base, ng, p.Gen("qmax", "MVAr", p.Qg, n.QMax)},
		{1, base, nl, p.Flow("from")}, {1, base, nl, p.Flow("to")},
		{-1, degree, nl, p.Angle("angmin", n.AngMin)}, {1, degree, nl, p.Angle("angmax", n.AngMax)},
	}
}

// Binding lists the limits that bind, and sets the multipliers of the others to zero: an interior point leaves a
// small one at every limit. A limit binds where its multiplier, relative to the largest of all with the prices of
// buses, exceeds its slack in pu. The product of both is far below either.
func (p Point) Binding(r *acopf.Result, m *acopf.LimitMultipliers) []Binding {
	largest, lists := 0.0, [][]float64{m.VMin, m.VMax, m.PMin, m.PMax, m.QMin, m.QMax, m.SFrom, m.STo, m.AngMin, m.AngMax}
	for _, v := range append(lists, r.LambdaP, r.LambdaQ) {
		for _, x := range v {
			largest = max(largest, math.Abs(x))
		}
	}
	out := []Binding{}
	for k, kind := range p.kinds() {
		for i, x := range lists[k] {
			if x == 0 {
				continue
			}
			if l := kind.limit(i); math.Abs(l.Value-l.Bound)/kind.unit*largest >= x {
				lists[k][i] = 0
			} else {
				out = append(out, Binding{l, x / kind.unit})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Binding) int { return cmp.Compare(b.Multiplier, a.Multiplier) })
	return out
}

// Broken lists the limits of voltages, ratings and units that a power flow violates, the worst of each kind first. A
// power flow enforces none of them by itself.
func (p Point) Broken() []Broken {
	out, kinds := []Broken{}, p.kinds()
	kinds[6].limit = p.HeavierEnd
	for _, k := range []int{0, 1, 6, 2, 3, 4, 5} {
		first := len(out)
		for i := range kinds[k].count {
			l := kinds[k].limit(i)
			if excess := kinds[k].sign * (l.Value - l.Bound); excess > minViolation*kinds[k].unit {
				out = append(out, Broken{l, excess})
			}
		}
		slices.SortStableFunc(out[first:], func(a, b Broken) int { return cmp.Compare(b.Excess, a.Excess) })
	}
	return out
}

// Worst is the largest violation of a limit, pu or rad, and its name and place; 0 and "" without any.
func (p Point) Worst() (excess float64, limit string) {
	for _, kind := range p.kinds() {
		for i := range kind.count {
			l := kind.limit(i)
			if d := kind.sign * (l.Value - l.Bound) / kind.unit; d > excess {
				excess, limit = d, l.Kind+" at "+l.Where()
			}
		}
	}
	return excess, limit
}

// HeavierEnd is a branch's rating at the end with the larger flow.
func (p Point) HeavierEnd(k int) Limit {
	from, to := p.Flow("from")(k), p.Flow("to")(k)
	if to.Value > from.Value {
		return to
	}
	return from
}
