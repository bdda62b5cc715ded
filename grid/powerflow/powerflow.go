// Package powerflow solves the AC power flow: the voltages that balance every bus, given loads, active generation
// and voltage set-points.
//
// The central type is Solver: Newton's method in polar coordinates (W. F. Tinney, C. E. Hart, "Power flow solution
// by Newton's method", IEEE Trans. PAS-86, 1967) on the network package's per-unit view. Linearise and Sensitivity
// give the sensitivities of a solution to its input. The Jacobian consists of 2×2 blocks, one row and column of
// blocks for every bus except references. The order of elimination and the pattern of the factors are computed once
// per topology. A bus that switches between PV and PQ changes a block's second row, not the pattern. Nothing is
// allocated after New.
//
// Units are per unit and radian.
package powerflow

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/grid/network"
)

// Start is the start of Newton's method.
type Start int

// The starts.
const (
	FromFile     Start = iota // the case file's voltages; where it has no angles, those of Flat
	Flat                      // 1 pu and the reference's angle; with phase shifts the angles of a linear power flow
	Warm                      // the solver's last solution; the file's voltages before any, or after a failure
	FromSolution              // Vm and Va of the solution passed to Solve
)

// Options of a solve. The zero value is a solve from the file's voltages to
// 1e-9 pu in at most 30 iterations, without reactive limits.
type Options struct {
	Start Start
	// Tolerance is the largest mismatch of active and reactive power that counts
	// as solved, pu. 0 is DefaultTolerance.
	Tolerance float64
	// MaxIterations bounds the Newton steps in all. 0 is DefaultIterations.
	MaxIterations int
	// EnforceQ enforces the reactive limits of PV buses: a bus that would exceed one becomes PQ at the limit. The
	// reference bus does not switch.
	EnforceQ bool
	// KeepLimits, with EnforceQ and FromSolution, starts with the buses at a limit that the solution's AtLimit has
	// there. They are released like any other.
	KeepLimits bool
	// Factors starts with the factors of the last solve instead of new ones. That solve must have had the same
	// admittances and a near start.
	Factors bool
	// Slack shares the balance of active power among units; nil leaves it to the first unit of each reference.
	Slack *Slack
	// Context ends the Newton steps with its error; nil: never.
	Context context.Context
}

// DefaultTolerance is the default of Options.Tolerance, pu.
const DefaultTolerance = 1e-9

// DefaultIterations is the default of Options.MaxIterations.
const DefaultIterations = 30

// MaxIterations is the upper limit of Options.MaxIterations.
const MaxIterations = 10_000

// Validate checks the options.
func (o Options) Validate() error {
	switch {
	case o.Start < FromFile || o.Start > FromSolution:
		return fmt.Errorf("powerflow: start %d: want FromFile, Flat, Warm or FromSolution", o.Start)
	case !(o.Tolerance >= 0) || o.Tolerance > 1:
		return fmt.Errorf("powerflow: tolerance %g pu: want 0 (1e-9) to 1", o.Tolerance)
	case o.MaxIterations < 0 || o.MaxIterations > MaxIterations:
		return fmt.Errorf("powerflow: %d iterations: want 0 (30) to %d", o.MaxIterations, MaxIterations)
	}
	return nil
}

// Input specifies a power flow. A nil slice stands for the network's own values.
type Input struct {
	Pd, Qd []float64 // load by bus
	Pg     []float64 // active power by generator; the reference bus's first generator takes up the rest
	Vg     []float64 // voltage set-point by generator; of several at a bus the last counts
}

// Status says how a solve ended.
type Status int

// The statuses.
const (
	Converged      Status = iota
	IterationLimit        // the mismatch was still too large after the last iteration allowed
	Diverged              // the mismatch grew beyond bounds
	Singular              // the Jacobian could not be factorised
)

// String names the status.
func (s Status) String() string {
	return [...]string{"converged", "iteration limit", "diverged", "singular"}[s]
}

// Solution is the result of a solve. Unless Status is Converged its voltages are those of the last iteration and no
// power flow.
type Solution struct {
	Status         Status
	Iterations     int
	Factorisations int     // of the Jacobian; one serves several iterations near a solution
	Mismatch       float64 // largest, pu
	MismatchBus    int     // where
	Vm, Va         []float64
	Pg, Qg         []float64 // by generator, the reference's included
	// AtLimit says, by bus, whether its reactive power is at the lower (−1) or the upper (+1) limit; 0 with EnforceQ
	// off.
	AtLimit  []int8
	Switches int // how often a bus changed between PV and PQ
}

// Converged says whether the voltages are a power flow.
func (s *Solution) Converged() bool { return s.Status == Converged }

// Solver solves power flows of one topology. It is not safe for concurrent use;
// Clone is cheap.
type Solver struct {
	net     *network.Network
	lu      *blockLU
	pairs   []pair
	gd, bd  []float64 // diagonal of the bus admittance matrix
	pairOf  []int32   // by branch
	flipped []bool    // by branch: it runs from the pair's j to its i

	unknown        []int32   // buses that are not references, in elimination order
	position       []int32   // by bus, −1 for a reference
	gensAt         [][]int32 // ends of DC lines last: they balance nothing
	terminal       []bool    // by generator: the end of a DC line
	qlo, qhi       []float64 // sums over a bus's generators
	kind           []network.Kind
	atLimit        []int8 // as Solution.AtLimit
	released       []uint8
	e, f           []float64
	p, q           []float64 // calculated injections
	ps, qs         []float64 // specified
	vset           []float64
	vm, va         []float64
	h, nn          []float64 // Vi·Vj·sin(θi − θj) and Vi·Vj·cos(θi − θj) of the pairs
	branchesAt     [][]int32 // branches at each bus
	referencePairs []int32   // pairs of a reference and another bus
	warm           bool
	admittance     *network.Admittance
	rounding       []float64      // by bus: network.Rounding
	rounded        bool           // whether any is above 0
	sides          func() [][]int // network.BridgeSides, found once for all clones
	startAngles    []float64      // network.StartAngles
	noAngles       bool           // whether the file has no angles: they are equal, but for references
	shifted        bool           // whether a branch shifts the phase
	ties           [][]int        // network.Ties
	opened         []int          // branches that are out
	outUnits       []int
	rows           *rows     // of Outages
	dead           []bool    // by bus: in an island, or held; nil for none
	rightHandSides []float64 // of solveTransposed
	// The mismatch and kinds of newton's last factors.
	factorMismatch float64
	factorKinds    []network.Kind
	// Positions: all of them; those of generators; and the closure of these and of a reference's neighbours.
	all, generators, closure []int32
}

// pair is two buses connected by branches: one entry each way of the bus admittance matrix.
type pair struct {
	i, j           int32
	gij, bij       float64
	gji, bji       float64
	blockIJ, block int32 // blocks (i, j) and (j, i) of the Jacobian, −1 at a reference
}

// New analyses a network's topology. The network is kept, not copied.
func New(n *network.Network) (*Solver, error) {
	buses := n.Buses()
	s := &Solver{net: n, sides: sync.OnceValue(n.BridgeSides), startAngles: n.StartAngles(), ties: n.Ties(), terminal: n.Terminals(), gensAt: make([][]int32, buses), position: make([]int32, buses)}
	for _, terminal := range []bool{false, true} {
		for g, b := range n.GenBus {
			if s.terminal[g] == terminal {
				s.gensAt[b] = append(s.gensAt[b], int32(g))
			}
		}
	}
	for _, r := range n.References {
		if len(s.gensAt[r]) == 0 || s.terminal[s.gensAt[r][0]] {
			return nil, fmt.Errorf("powerflow: network %s, bus %d: the reference bus has no generator in service, so that no power takes up the balance", n.Name, n.BusID[r])
		}
	}
	s.branchesAt = n.BranchesAt()
	s.analyse()
	f64 := func() []float64 { return make([]float64, buses) }
	s.qlo, s.qhi = f64(), f64()
	for b := range buses {
		s.sumReactive(b)
	}
	s.allocate()
	for k := range n.From {
		s.shifted = s.shifted || n.Shift(k) != 0
	}
	angles := make(map[float64]bool)
	for b, k := range n.Kind {
		if k != network.Slack || buses == 2 {
			angles[n.Va0[b]] = true
		}
	}
	s.noAngles = len(angles) <= 1
	return s, s.SetAdmittance(&n.Admittance)
}

// allocate allocates the results of a solve.
func (s *Solver) allocate() {
	buses := s.net.Buses()
	all := make([]float64, 12*buses+2*len(s.pairs))
	take := func(k int) []float64 {
		t := all[:k:k]
		all = all[k:]
		return t
	}
	for _, v := range []*[]float64{&s.gd, &s.bd, &s.e, &s.f, &s.p, &s.q, &s.ps, &s.qs, &s.vset, &s.vm, &s.va, &s.rounding} {
		*v = take(buses)
	}
	s.h, s.nn = take(len(s.pairs)), take(len(s.pairs))
	s.kind = make([]network.Kind, buses)
	s.atLimit = make([]int8, buses)
	s.released = make([]uint8, buses)
}

// Clone is a solver of the same topology and admittances with its own working memory, for another goroutine.
func (s *Solver) Clone() *Solver {
	c := *s
	lu := *s.lu
	lu.data = make([]float64, len(lu.data))
	lu.inverse = make([]float64, len(lu.inverse))
	lu.rhs = make([]float64, len(lu.rhs))
	c.lu = &lu
	c.pairs = append([]pair(nil), s.pairs...)
	c.allocate()
	copy(c.gd, s.gd)
	copy(c.bd, s.bd)
	copy(c.rounding, s.rounding)
	c.warm, c.factorKinds, c.rows = false, nil, nil
	c.rightHandSides = make([]float64, len(s.rightHandSides))
	return &c
}

// analyse numbers the pairs and the unknowns and finds the factors' pattern.
func (s *Solver) analyse() {
	n := s.net
	number := make(map[[2]int]int32)
	s.pairOf, s.flipped = make([]int32, n.Branches()), make([]bool, n.Branches())
	for k, from := range n.From {
		i, j := min(from, n.To[k]), max(from, n.To[k])
		index, ok := number[[2]int{i, j}]
		if !ok {
			index = int32(len(s.pairs))
			number[[2]int{i, j}] = index
			s.pairs = append(s.pairs, pair{i: int32(i), j: int32(j)})
		}
		s.pairOf[k], s.flipped[k] = index, from != i
	}
	vertex := make([]int32, n.Buses())
	var buses []int32
	for b, k := range n.Kind {
		vertex[b] = -1
		if k != network.Slack {
			vertex[b] = int32(len(buses))
			buses = append(buses, int32(b))
		}
	}
	var edges [][2]int
	for _, p := range s.pairs {
		if vertex[p.i] >= 0 && vertex[p.j] >= 0 {
			edges = append(edges, [2]int{int(vertex[p.i]), int(vertex[p.j])})
		}
	}
	s.lu = newBlockLU(len(buses), edges)
	s.unknown = make([]int32, len(buses))
	for b, v := range vertex {
		s.position[b] = -1
		if v >= 0 {
			s.position[b] = s.lu.place[v]
			s.unknown[s.lu.place[v]] = int32(b)
		}
	}
	for k := range s.pairs {
		p := &s.pairs[k]
		p.blockIJ, p.block = -1, -1
		switch i, j := vertex[p.i], vertex[p.j]; {
		case i >= 0 && j >= 0:
			p.blockIJ, p.block = s.lu.block(i, j), s.lu.block(j, i)
		case i >= 0 || j >= 0:
			s.referencePairs = append(s.referencePairs, int32(k))
		}
	}
	for b, k := range s.position {
		if k >= 0 && len(s.gensAt[b]) > 0 {
			s.generators = append(s.generators, k)
		}
	}
	for k := range s.unknown {
		s.all = append(s.all, int32(k))
	}
	s.closure = slices.Clone(s.generators)
	for _, k := range s.referencePairs {
		s.closure = append(s.closure, max(s.position[s.pairs[k].i], s.position[s.pairs[k].j]))
	}
	s.closure = s.lu.closure(s.closure)
	s.rightHandSides = make([]float64, 2*RightHandSides*len(buses))
}

// Hold keeps the voltages of these buses, by bus, as a start has them, and ignores their balances; nil is none.
func (s *Solver) Hold(buses []bool) { s.dead = buses }

// Order lists the buses that are not references in the order of elimination. The solver owns the slice.
func (s *Solver) Order() []int32 { return s.unknown }

// SetAdmittance sets other branch admittances, as network.ScaleBranches writes them. They are copied. BranchFlows
// uses y itself, which is kept.
func (s *Solver) SetAdmittance(y *network.Admittance) error {
	n := s.net
	if len(y.Gff) != n.Branches() {
		return fmt.Errorf("powerflow: admittances of %d branches for a network of %d", len(y.Gff), n.Branches())
	}
	s.admittance, s.factorKinds, s.rounding = y, s.factorKinds[:0], n.Rounding(y, s.rounding)
	s.rounded = slices.Max(s.rounding) > 0
	for b := range n.Kind {
		s.sumAdmittance(b)
	}
	return nil
}

// sumAdmittance sums the admittances at a bus.
func (s *Solver) sumAdmittance(bus int) {
	n, y, at := s.net, s.admittance, s.branchesAt[bus]
	s.gd[bus], s.bd[bus] = n.Gs[bus], n.Bs[bus]
	for _, k := range at {
		p := &s.pairs[s.pairOf[k]]
		p.gij, p.bij = 0, 0
		p.gji, p.bji = 0, 0
	}
	for _, k := range at {
		if slices.Contains(s.opened, int(k)) {
			continue
		}
		p := &s.pairs[s.pairOf[k]]
		gij, bij := y.Gft[k], y.Bft[k]
		gji, bji := y.Gtf[k], y.Btf[k]
		if s.flipped[k] {
			gij, gji = gji, gij
			bij, bji = bji, bij
		}
		p.gij, p.bij = p.gij+gij, p.bij+bij
		p.gji, p.bji = p.gji+gji, p.bji+bji
		g, b := y.Gff[k], y.Bff[k]
		if n.To[k] == bus {
			g, b = y.Gtt[k], y.Btt[k]
		}
		s.gd[bus] += g
		s.bd[bus] += b
	}
}

// TakeOut takes branches and units out of service, and returns what puts them back. A solver and its clones share units.
func (s *Solver) TakeOut(branches, units []int) (restore func()) {
	open, takeOut := s.open(branches), s.takeOut(units)
	return func() {
		takeOut()
		open()
	}
}

// open takes branches out of the admittances, and returns what puts them back.
func (s *Solver) open(branches []int) (restore func()) {
	set := func(opened []int) {
		s.opened = opened
		for _, k := range branches {
			s.sumAdmittance(s.net.From[k])
			s.sumAdmittance(s.net.To[k])
			if s.rows != nil {
				s.rows.set(s, s.pairOf[k])
			}
		}
	}
	set(branches)
	return func() { set(nil) }
}

// takeOut takes units out of service, and returns what puts them back.
func (s *Solver) takeOut(units []int) (restore func()) {
	gens := make([][]int32, len(units))
	for i, unit := range units {
		b := s.net.GenBus[unit]
		gens[i] = s.gensAt[b]
		s.gensAt[b] = slices.DeleteFunc(slices.Clone(gens[i]), func(g int32) bool { return int(g) == unit })
		s.sumReactive(b)
	}
	s.outUnits = units
	return func() {
		for i, unit := range slices.Backward(units) {
			b := s.net.GenBus[unit]
			s.gensAt[b] = gens[i]
			s.sumReactive(b)
		}
		s.outUnits = nil
	}
}

// sumReactive sums the reactive limits of a bus's units.
func (s *Solver) sumReactive(bus int) {
	s.qlo[bus], s.qhi[bus] = 0, 0
	for _, g := range s.gensAt[bus] {
		s.qlo[bus] += s.net.QMin[g]
		s.qhi[bus] += s.net.QMax[g]
	}
}

// NewSolution allocates a solution of the network.
func (s *Solver) NewSolution() *Solution {
	n := s.net
	return &Solution{
		Vm: make([]float64, n.Buses()), Va: make([]float64, n.Buses()), AtLimit: make([]int8, n.Buses()),
		Pg: make([]float64, n.Gens()), Qg: make([]float64, n.Gens()),
	}
}

// reset leaves the slices of a solution, or allocates them where they have another size.
func (s *Solver) reset(out *Solution) {
	buses, units := s.net.Buses(), s.net.Gens()
	if len(out.Vm) != buses || len(out.Va) != buses || len(out.AtLimit) != buses || len(out.Pg) != units || len(out.Qg) != units {
		*out = *s.NewSolution()
	}
	*out = Solution{Vm: out.Vm, Va: out.Va, Pg: out.Pg, Qg: out.Qg, AtLimit: out.AtLimit}
}

// BranchFlows writes the flows of a solution with the solver's present admittances.
func (s *Solver) BranchFlows(sol *Solution, dst *network.Flows) {
	s.net.BranchFlows(s.admittance, sol.Vm, sol.Va, dst)
}
