package secure

import (
	"cmp"
	"fmt"
	"math"
	"runtime"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
)

// Outage is what goes out of service: a branch or a unit of the network, by number; the other
// is −1.
type Outage struct{ Branch, Unit int }

// Branches are the outages of every branch that leaves no island.
func Branches(n *network.Network) (list []Outage) {
	for k, bridge := range n.Bridges() {
		if !bridge {
			list = append(list, Outage{k, -1})
		}
	}
	return list
}

// Units are the outages of every unit.
func Units(n *network.Network) (list []Outage) {
	for g := range n.Gens() {
		list = append(list, Outage{-1, g})
	}
	return list
}

// Islands says whether a branch's outage leaves buses without the reference.
func Islands(n *network.Network, branch int) bool {
	return !reach(n, branch, n.From[branch])[n.To[branch]]
}

// CutOff says which units a branch's outage leaves without the reference.
func CutOff(n *network.Network, branch int) []bool {
	seen, off := reach(n, branch, n.Slack), make([]bool, n.Gens())
	for g, b := range n.GenBus {
		off[g] = !seen[b]
	}
	return off
}

// String names an outage by the rows of the file's tables.
func (o Outage) name(n *network.Network) string {
	if o.Branch >= 0 {
		return fmt.Sprintf("branch %d from bus %d to bus %d", n.BranchRow[o.Branch]+1, n.BusID[n.From[o.Branch]], n.BusID[n.To[o.Branch]])
	}
	return fmt.Sprintf("unit %d at bus %d", n.GenRow[o.Unit]+1, n.BusID[n.GenBus[o.Unit]])
}

// Options say which outages a dispatch has to survive, and what holds after one.
type Options struct {
	// Outages; nil is every branch that leaves no island, and every unit.
	Outages []Outage
	// Emergency is the factor on every rating after an outage, 1 or more; 0 is DefaultEmergency.
	Emergency float64
	// Band is how far voltages may be outside their limits after an outage, pu; DefaultBand in
	// DefaultOptions, and 0 is none.
	Band float64
	// Participation are the shares in which units take up missing power after an outage, one a
	// unit, not negative; nil is in proportion to PMax − PMin.
	Participation []float64
	// Rounds of constraint generation at most; 0 is 100. MaxIterations is that of the interior point in
	// each; 0 is 200.
	Rounds, MaxIterations int
	// Threads; 0 is GOMAXPROCS. No result depends on it.
	Threads int
	// Dispatchable is package acopf's.
	Dispatchable network.Dispatchable
	// Trace, if not nil, is called with every iterate.
	Trace func(Iterate)
}

const (
	// DefaultEmergency is the factor on ratings after an outage: lines carry more for the minutes that a
	// redispatch takes.
	DefaultEmergency = 1.3
	// DefaultBand is what voltages may leave their limits by after an outage, pu.
	DefaultBand = 0.05
	// Tolerance is what a limit has to be exceeded by, pu, to count as broken after an outage.
	Tolerance = 1e-6
)

// DefaultOptions are those of the command.
func DefaultOptions() Options { return Options{Emergency: DefaultEmergency, Band: DefaultBand} }

// MaxIterations is the most that may be asked for.
const MaxIterations = 10_000

func (o Options) withDefaults() Options {
	o.Emergency = cmp.Or(o.Emergency, DefaultEmergency)
	o.Rounds = cmp.Or(o.Rounds, 100)
	o.MaxIterations = cmp.Or(o.MaxIterations, 200)
	o.Threads = cmp.Or(o.Threads, runtime.GOMAXPROCS(0))
	return o
}

// Validate says what is wrong with the options, apart from the network.
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

// check says what is wrong with the options on a network.
func (o Options) check(n *network.Network) error {
	if err := o.Validate(); err != nil {
		return err
	}
	bridges := n.Bridges()
	for i, x := range o.Outages {
		switch {
		case x.Branch >= 0 && x.Unit >= 0 || x.Branch < 0 && x.Unit < 0 || x.Branch >= n.Branches() || x.Unit >= n.Gens():
			return fmt.Errorf("secure: outage %d has branch %d and unit %d: want one of them −1, the other an index into the network's %d branches or %d units", i, x.Branch, x.Unit, n.Branches(), n.Gens())
		case x.Branch >= 0 && bridges[x.Branch]:
			return fmt.Errorf("secure: the outage of %s cuts off a part of the network, which no dispatch survives: leave it out", x.name(n))
		}
	}
	return nil
}

// shares are the participation factors, which sum to one.
func (o Options) shares(n *network.Network, free []bool) ([]float64, error) {
	out := make([]float64, n.Gens())
	if o.Participation != nil && len(o.Participation) != len(out) {
		return nil, fmt.Errorf("secure: %d participation factors for %d units", len(o.Participation), len(out))
	}
	sum, with := 0.0, 0
	for g := range out {
		if o.Participation != nil {
			if out[g] = o.Participation[g]; !(out[g] >= 0) || math.IsInf(out[g], 1) {
				return nil, fmt.Errorf("secure: participation factor %g of unit %d at bus %d: want a finite number, not negative", out[g], n.GenRow[g]+1, n.BusID[n.GenBus[g]])
			}
		} else if out[g] = n.PMax[g] - n.PMin[g]; !finite(out[g]) {
			return nil, fmt.Errorf("secure: unit %d at bus %d has no limits of active power, from which its participation would follow: give factors", n.GenRow[g]+1, n.BusID[n.GenBus[g]])
		}
		if !free[g] {
			out[g] = 0
		}
		if out[g] > 0 {
			with++
		}
		sum += out[g]
	}
	if with == 0 {
		return nil, fmt.Errorf("secure: network %s: no unit replaces the power that an outage takes: give a factor above 0 to a unit whose power can change", n.Name)
	}
	for g := range out {
		out[g] /= sum
	}
	return out, nil
}

// Problem are loads, pu by bus; nil is the network's.
type Problem struct {
	Pd, Qd []float64
	// Objective is package acopf's, of the state before any outage; without Ideal and Nadir.
	Objective acopf.Objective
	// Previous and Ramp bound the dispatch before any outage as in package acopf, pu by unit; nil is no
	// bound. After an outage units move within their limits alone.
	Previous, Ramp []float64
	// Start, if not nil, is an earlier secure result of the solver: its dispatch, multipliers and
	// remembered outages are where the solve begins. It may come to nothing where one without it does not: Chain then solves
	// from nothing.
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

// converged is what the interior point ends with; the checks decide whether that is secure.
const converged = Secure

// KKT are the residuals of the optimality conditions of the last round, as in package acopf.
type KKT struct {
	Feasibility, Gradient, Complementarity, Cost float64
	Mismatch, Violation                          float64
}

// Max is the largest of the four conditions.
func (k KKT) Max() float64 { return max(k.Feasibility, k.Gradient, k.Complementarity, k.Cost) }

// Iterate is what a trace is told.
type Iterate struct {
	Iteration, Outages           int
	Objective                    float64
	KKT                          KKT
	Barrier, Corner, Step, Shift float64
}
