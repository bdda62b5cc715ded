package secure

import (
	"cmp"
	"fmt"
	"math"
	"runtime"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
)

// Outage is a branch or unit that goes out of service, by index; the other index is −1.
type Outage struct {
	Branch, Unit int
	// Remote says of a branch that splits its island that the part without the island's first reference is meant. Each
	// part has its own balance.
	Remote bool
}

// Elements are the branches and units that are out.
func (o Outage) Elements() (branches, units []int) {
	if o.Branch >= 0 {
		branches = []int{o.Branch}
	}
	if o.Unit >= 0 {
		units = []int{o.Unit}
	}
	return branches, units
}

// Branches returns the outages of all branches that split no island.
func Branches(n *network.Network) (list []Outage) {
	for k, bridge := range n.Bridges() {
		if !bridge {
			list = append(list, Outage{Branch: k, Unit: -1})
		}
	}
	return list
}

// Units returns the outages of all units but the ends of DC lines.
func Units(n *network.Network) (list []Outage) {
	for g, terminal := range n.Terminals() {
		if !terminal {
			list = append(list, Outage{Branch: -1, Unit: g})
		}
	}
	return list
}

// name names an outage by the rows of the file's tables.
func (o Outage) name(n *network.Network) string {
	if o.Branch >= 0 {
		name := fmt.Sprintf("branch %d from bus %d to bus %d", n.BranchRow[o.Branch]+1, n.BusID[n.From[o.Branch]], n.BusID[n.To[o.Branch]])
		if o.Remote {
			name += ", in the part that it cuts off"
		}
		return name
	}
	return fmt.Sprintf("unit %d at bus %d", n.GenRow[o.Unit]+1, n.BusID[n.GenBus[o.Unit]])
}

// Options set the outages that a dispatch has to survive, and the limits after one.
type Options struct {
	// Outages; nil is every branch that splits no island, and every unit.
	Outages []Outage
	// Emergency is the factor on every rating after an outage, 1 or more; 0 is DefaultEmergency.
	Emergency float64
	// Band widens the voltage limits after an outage, pu; DefaultBand in DefaultOptions, and 0 is none.
	Band float64
	// Participation are the shares of units in power that an outage takes from their island, one a unit, not negative;
	// nil is in proportion to PMax − PMin.
	Participation []float64
	// Rounds is the most rounds of constraint generation; 0 is 100. MaxIterations is the most interior-point
	// iterations of each; 0 is 200.
	Rounds, MaxIterations int
	// Threads; 0 is GOMAXPROCS. No result depends on it.
	Threads int
	// Dispatchable is package acopf's.
	Dispatchable network.Dispatchable
	// Trace, if not nil, is called with every iterate.
	Trace func(Iterate)
}

const (
	// DefaultEmergency is the factor on ratings after an outage: lines carry more for the minutes of a redispatch.
	DefaultEmergency = 1.3
	// DefaultBand widens the voltage limits after an outage, pu.
	DefaultBand = 0.05
	// Tolerance is the excess (pu) over a limit that counts as a violation after an outage.
	Tolerance = 1e-6
)

// DefaultOptions are the defaults of the command.
func DefaultOptions() Options { return Options{Emergency: DefaultEmergency, Band: DefaultBand} }

// MaxIterations is the upper limit of Options.MaxIterations.
const MaxIterations = 10_000

func (o Options) withDefaults() Options {
	o.Emergency = cmp.Or(o.Emergency, DefaultEmergency)
	o.Rounds = cmp.Or(o.Rounds, 100)
	o.MaxIterations = cmp.Or(o.MaxIterations, 200)
	o.Threads = cmp.Or(o.Threads, runtime.GOMAXPROCS(0))
	return o
}

// Validate checks the options without a network.
func (o Options) Validate() error {
	switch {
	case o.Emergency != 0 && !(o.Emergency >= 1 && o.Emergency <= 100):
		return fmt.Errorf("secure: emergency factor %g: want 1 to 100", o.Emergency)
	case !(o.Band >= 0 && o.Band <= 1):
		return fmt.Errorf("secure: voltage band %g pu: want 0 to 1", o.Band)
	case o.Rounds < 0 || o.MaxIterations < 0 || o.MaxIterations > MaxIterations || o.Threads < 0:
		return fmt.Errorf("secure: %d rounds, %d iterations, %d threads: want 0 or more, and at most %d iterations", o.Rounds, o.MaxIterations, o.Threads, MaxIterations)
	}
	return nil
}

// check checks the options on a network.
func (o Options) check(n *network.Network) error {
	if err := o.Validate(); err != nil {
		return err
	}
	terminals := n.Terminals()
	for i, x := range o.Outages {
		switch {
		case x.Branch >= 0 && x.Unit >= 0 || x.Branch < 0 && x.Unit < 0 || x.Branch >= n.Branches() || x.Unit >= n.Gens():
			return fmt.Errorf("secure: outage %d has branch %d and unit %d: want one of them −1, the other an index into the network's %d branches or %d units", i, x.Branch, x.Unit, n.Branches(), n.Gens())
		case x.Unit >= 0 && terminals[x.Unit]:
			return fmt.Errorf("secure: %s is the end of a DC line, which is no outage: leave it out", x.name(n))
		}
	}
	return nil
}

// shares returns the participation factors, which sum to one in each island.
func (o Options) shares(n *network.Network, free []bool) ([]float64, error) {
	out := make([]float64, n.Gens())
	if o.Participation != nil && len(o.Participation) != len(out) {
		return nil, fmt.Errorf("secure: %d participation factors for %d units", len(o.Participation), len(out))
	}
	sum, participants, terminals, island := map[int]float64{}, 0, n.Terminals(), n.Islands()
	for g := range out {
		if o.Participation != nil {
			if out[g] = o.Participation[g]; !(out[g] >= 0) || math.IsInf(out[g], 1) {
				return nil, fmt.Errorf("secure: participation factor %g of unit %d at bus %d: want a finite number, not negative", out[g], n.GenRow[g]+1, n.BusID[n.GenBus[g]])
			}
		} else if out[g] = n.PMax[g] - n.PMin[g]; !terminals[g] && !finite(out[g]) {
			return nil, fmt.Errorf("secure: unit %d at bus %d has no limits of active power, from which its participation would follow: give factors", n.GenRow[g]+1, n.BusID[n.GenBus[g]])
		}
		if !free[g] || terminals[g] {
			out[g] = 0
		}
		if out[g] > 0 {
			participants++
		}
		sum[island[n.GenBus[g]]] += out[g]
	}
	if participants == 0 {
		return nil, fmt.Errorf("secure: network %s: no unit replaces the power that an outage takes: give a factor above 0 to a unit whose power can change", n.Name)
	}
	for g, b := range n.GenBus {
		if out[g] > 0 {
			out[g] /= sum[island[b]]
		}
	}
	return out, nil
}

// Problem holds loads, pu by bus; nil is the network's.
type Problem struct {
	Pd, Qd []float64
	// Objective is package acopf's, for the base state; without Ideal and Nadir.
	Objective acopf.Objective
	// Previous and Ramp bound the dispatch before any outage as in package acopf, pu by unit; nil is no bound. After
	// an outage only the units' limits hold.
	Previous, Ramp []float64
	// Start, if not nil, is an earlier secure result of the solver. The solve starts at its dispatch, multipliers
	// and remembered outages. It may fail where a solve without Start does not; Chain then solves cold.
	Start *Result
}

// Status says how a solve ended.
type Status int

// The statuses.
const (
	NotSolved      Status = iota // interrupted
	Secure                       // an optimum that survives every outage, by power flows
	Insecure                     // none was found: Result.Reason says what stood in the way
	IterationLimit               // of the interior point, or of rounds
	Numerical                    // a direction that is not finite
)

// String names the status.
func (s Status) String() string {
	return [...]string{"not solved", "secure", "no secure point found", "iteration limit", "numerical"}[s]
}

// converged ends the interior point. The checks decide whether the dispatch is secure.
const converged = Secure

// KKT are the residuals of the optimality conditions of the last round, as in package acopf.
type KKT struct {
	Feasibility, Gradient, Complementarity, Cost float64
	Mismatch, Violation                          float64
}

// Max is the largest of the four conditions.
func (k KKT) Max() float64 { return max(k.Feasibility, k.Gradient, k.Complementarity, k.Cost) }

// Iterate is one iterate for a trace.
type Iterate struct {
	Iteration, Outages              int
	Objective                       float64
	KKT                             KKT
	Barrier, Smoothing, Step, Shift float64
}
