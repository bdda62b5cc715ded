package results

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/secure"
)

// SecureFlow is the cheapest dispatch that survives outages, or the obstacles to one.
type SecureFlow struct {
	Case        string       `json:"case"`            // name of the network
	Status      string       `json:"status"`          // secure, no secure point found, iteration limit, numerical or not solved
	Reason      string       `json:"reason"`          // why there is no secure dispatch; ""
	Objective   *float64     `json:"objective"`       // of the dispatch, $/h; null where there is none
	Plain       *float64     `json:"plain_objective"` // of the optimum without outages
	Rounds      int          `json:"rounds"`          // of constraint generation
	Iterations  int          `json:"iterations"`      // of the interior point, in all rounds
	WallMS      float64      `json:"wall_ms"`         // of all
	LoadMW      float64      `json:"load_mw"`         // of all buses
	LossMW      *float64     `json:"loss_mw"`         // of all branches, before any outage
	Emergency   float64      `json:"emergency"`       // factor on ratings after an outage
	Band        float64      `json:"voltage_band_pu"` // what voltages may leave their limits by after one
	Outages     int          `json:"outages"`         // how many are checked
	LeftOut     []Outage     `json:"left_out"`        // branches that cut off a part of the network
	Before      []Check      `json:"before"`          // of the optimum without outages
	Remembered  []Outage     `json:"remembered"`
	After       []Check      `json:"after"` // of the last dispatch; empty where it is secure
	Relaxations []Relaxation `json:"gives"`
	Bus         []OptimalBus `json:"bus"`
	Dispatch
	Chance *Chance `json:"chance,omitempty"` // with scenarios
}

// Check is an outage that breaks a limit.
type Check struct {
	Outage
	Consequence
	Parts []Consequence `json:"parts,omitempty"` // of a branch that splits its island: what the part with its reference does, and the part that it cuts off; absent for others
}

// Consequence is what an outage does.
type Consequence struct {
	Converged  bool     `json:"converged"`  // whether there is a power flow
	Reason     string   `json:"reason"`     // why not; ""
	Severity   *float64 `json:"severity"`   // the largest of overloads as shares of the rating, and of voltages tenfold their pu; null without a power flow
	Violations []Broken `json:"violations"` // the worst first
}

// Relaxation is a limit that is not kept after an outage.
type Relaxation struct {
	After Outage `json:"after"`
	Broken
}

// OptimalBus is a bus of an optimum.
type OptimalBus struct {
	ID int     `json:"id"` // number in the file
	Vm float64 `json:"vm"` // voltage, pu
	Va float64 `json:"va"` // angle, °
	Pd float64 `json:"pd"` // active load, MW
	Qd float64 `json:"qd"` // reactive load, MVAr
	// Price is the objective's derivative by the bus's load, per MWh; in $ for the
	// file's own objective.
	Price float64 `json:"price"`
	Name  string  `json:"name,omitempty"` // of the file; absent where it has none
}

// OptimalBuses are the buses of an optimum in the file's units.
func OptimalBuses(n *network.Network, pd, qd, vm, va, lambda []float64) []OptimalBus {
	out := make([]OptimalBus, len(n.BusID))
	for b, id := range n.BusID {
		out[b] = OptimalBus{id, vm[b], Degrees(va[b]), pd[b] * n.BaseMVA, qd[b] * n.BaseMVA, lambda[b] / n.BaseMVA, n.BusName[b]}
	}
	return out
}

// Secure converts a result of a solver with these options to the file's units; pr is the problem it solved.
func Secure(n *network.Network, s *secure.Solver, opt secure.Options, pr secure.Problem, r *secure.Result) *SecureFlow {
	out := &SecureFlow{Case: n.Name, Status: r.Status.String(), Reason: r.Reason, Rounds: r.Rounds, Iterations: r.Iterations, Emergency: opt.Emergency, Band: opt.Band,
		LoadMW: n.MW(pr.Pd), Outages: len(Outages(n, s.Outages())), Before: checks(n, r.Before), After: checks(n, r.After), Remembered: Outages(n, r.Remembered), LeftOut: []Outage{}, Relaxations: []Relaxation{}, Bus: []OptimalBus{}, Dispatch: NoDispatch}
	for _, g := range r.Relaxations {
		out.Relaxations = append(out.Relaxations, Relaxation{NewOutage(n, g.Outage), broken(n, g.Violation)})
	}
	if r.Plain != 0 {
		out.Plain = &r.Plain
	}
	if r.Status != secure.Secure {
		return out
	}
	out.Objective = &r.Objective
	out.Bus = OptimalBuses(n, pr.Pd, pr.Qd, r.Vm, r.Va, r.LambdaP)
	out.Dispatch = NewPoint(n, r.Vm, r.Va, r.Pg, r.Qg).Dispatch()
	out.LossMW = new(out.Dispatch.Loss())
	return out
}

// checks lists the outages that break a limit or have no power flow. One that splits an island has two checks, and one row.
func checks(n *network.Network, list []*secure.Check) []Check {
	out := []Check{}
	for i, c := range list {
		if c.Remote {
			continue
		}
		r := Check{Outage: NewOutage(n, c.Outage)}
		if i+1 < len(list) && list[i+1].Remote {
			cut, joint := list[i+1], *c
			r.Parts = []Consequence{consequence(n, c), consequence(n, cut)}
			if joint.Solved = c.Solved && cut.Solved; !cut.Solved {
				joint.Reason = strings.TrimPrefix(c.Reason+"; in the part that is cut off: "+cut.Reason, "; ")
			}
			joint.Violations = slices.Concat(c.Violations, cut.Violations)
			slices.SortStableFunc(joint.Violations, func(a, b secure.Violation) int { return cmp.Compare(b.Severity, a.Severity) })
			c = &joint
		}
		if r.Consequence = consequence(n, c); c.Severity() > 0 {
			out = append(out, r)
		}
	}
	return out
}

func consequence(n *network.Network, c *secure.Check) Consequence {
	out := Consequence{Converged: c.Solved, Reason: c.Reason, Violations: []Broken{}}
	if severity := c.Severity(); c.Solved {
		out.Severity = &severity
	}
	for _, v := range c.Violations {
		out.Violations = append(out.Violations, broken(n, v))
	}
	return out
}

// kinds are the names and units of violations, and the side of the limit that the value is on: below it −1, above it 1.
var kinds = map[secure.Kind]struct {
	name, unit string
	side       float64
}{
	secure.LowVoltage: {"vmin", "pu", -1}, secure.HighVoltage: {"vmax", "pu", 1}, secure.SetPoint: {"set-point", "pu", 0},
	secure.LowActive: {"pmin", "MW", -1}, secure.HighActive: {"pmax", "MW", 1}, secure.ActiveBalance: {"balance", "MW", 0},
	secure.LowReactive: {"qmin", "MVAr", -1}, secure.HighReactive: {"qmax", "MVAr", 1}, secure.ReactiveBalance: {"balance", "MVAr", 0},
	secure.FromRating: {"rating", "MVA", 1}, secure.ToRating: {"rating", "MVA", 1},
}

// broken converts a violation to the file's units.
func broken(n *network.Network, v secure.Violation) Broken {
	kind, scale := kinds[v.Kind], n.BaseMVA
	if kind.unit == "pu" {
		scale = 1
	}
	l, excess := Limit{Kind: kind.name, Unit: kind.unit, Value: v.Value * scale}, v.Excess*scale
	l.Bound = l.Value - kind.side*excess
	switch v.Kind {
	case secure.FromRating, secure.ToRating:
		l.Branch, l.From, l.To = n.BranchRow[v.Element]+1, n.BusID[n.From[v.Element]], n.BusID[n.To[v.Element]]
		l.Bound = (v.Value - v.Excess) * scale
		if l.End = "from"; v.Kind == secure.ToRating {
			l.End = "to"
		}
		return Broken{l, excess}
	case secure.LowActive, secure.HighActive:
		l.Gen, l.Bus = n.GenRow[v.Element]+1, n.BusID[n.GenBus[v.Element]]
		return Broken{l, excess}
	case secure.ActiveBalance, secure.ReactiveBalance:
		l.Bound = 0
	}
	l.Bus = n.BusID[v.Element]
	return Broken{l, excess}
}
