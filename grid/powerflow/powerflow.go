// Package powerflow solves the AC power flow: the voltages at which every bus's
// balance holds, given loads, active generation and voltage set-points.
//
// The central type is Solver: Newton's method in polar coordinates (W. F.
// Tinney, C. E. Hart, "Power flow solution by Newton's method", IEEE Trans.
// PAS-86, 1967) on the network package's per-unit view, and the sensitivities of
// what it finds in what it was given (Linearise, Sensitivity). The Jacobian is kept as
// 2×2 blocks, one row and column of blocks a bus that is not a reference; its
// order of elimination and its factors' pattern are found once per topology, and
// a bus that changes between PV and PQ changes a block's second row, not the
// pattern. After New nothing is allocated.
//
// Units are per unit and radian.
package powerflow

import (
	"context"
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
)

// Start is where Newton's method begins.
type Start int

// The starts.
const (
	FromFile Start = iota // the case file's voltages
	Flat                  // 1 pu and the angle of the reference bus
	Warm                  // what the solver's last solve ended with; the file's before any, or after one that failed
	Given                 // the Vm and Va that stand in the solution handed to Solve
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
	// EnforceQ holds the reactive power of PV buses within their generators'
	// limits: a bus that would break one is held at it and lets its voltage go.
	// The reference bus is not switched.
	EnforceQ bool
	// Held, with EnforceQ and Given, begins with the buses at a limit that the solution's AtLimit has
	// there. They are released as any other.
	Held bool
	// Factors, where the solver's last solve had the same admittances and a start near this one, begins
	// with that solve's factors in place of new ones.
	Factors bool
	// Context ends the Newton steps with its error; nil: nothing does.
	Context context.Context
}

// DefaultTolerance is that of a solve, pu.
const DefaultTolerance = 1e-9

// DefaultIterations is how many Newton steps there are at most where nothing is said.
const DefaultIterations = 30

// MaxIterations is the most Newton steps that may be asked for.
const MaxIterations = 10_000

// Validate says what is wrong with the options.
func (o Options) Validate() error {
	switch {
	case o.Start < FromFile || o.Start > Given:
		return fmt.Errorf("powerflow: start %d: want FromFile, Flat, Warm or Given", o.Start)
	case !(o.Tolerance >= 0) || o.Tolerance > 1:
		return fmt.Errorf("powerflow: tolerance %g pu: want 0 (1e-9) to 1", o.Tolerance)
	case o.MaxIterations < 0 || o.MaxIterations > MaxIterations:
		return fmt.Errorf("powerflow: %d iterations: want 0 (30) to %d", o.MaxIterations, MaxIterations)
	}
	return nil
}

// Input is what a power flow is given. A nil slice stands for the network's own
// values.
type Input struct {
	Pd, Qd []float64 // load by bus
	Pg     []float64 // active power by generator; the reference bus's first generator takes up the rest
	Vg     []float64 // voltage set-point by generator; of several at a bus the last counts
}

// Status is how a solve ended.
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

// Solution is what a solve ended with; unless Status is Converged its voltages
// are those of the last iteration and are no power flow.
type Solution struct {
	Status         Status
	Iterations     int
	Factorisations int     // of the Jacobian: near a solution one serves several iterations
	Mismatch       float64 // largest, pu
	MismatchBus    int     // where
	Vm, Va         []float64
	Pg, Qg         []float64 // by generator, the reference's included
	// AtLimit says, by bus, that its reactive power is held at the lower (−1) or
	// the upper (+1) limit; 0 with EnforceQ off.
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
	toPair  []int32   // by branch
	flipped []bool    // by branch: it runs from the pair's j to its i

	unknown   []int32 // buses that are not references, in elimination order
	position  []int32 // by bus, −1 for a reference
	gensAt    [][]int32
	qlo, qhi  []float64 // sums over a bus's generators
	kind      []network.Kind
	held      []int8 // as Solution.AtLimit
	released  []uint8
	e, f      []float64
	p, q      []float64 // calculated injections
	ps, qs    []float64 // specified
	vset      []float64
	vm, va    []float64
	h, nn     []float64 // Vi·Vj·sin(θi − θj) and Vi·Vj·cos(θi − θj) of the pairs
	near      [][]int32 // branches at each bus
	joints    []int32   // pairs that join a reference to another bus
	warm      bool
	admitting *network.Admittance
	lost      int       // a unit that is out, −1 for none
	dead      []bool    // buses that are, nil for none
	beside    []float64 // right-hand sides of solveTransposed
	// The mismatch and kinds that newton's last factors were made at.
	made     float64
	factored []network.Kind
	// All positions; those of generators; and the closure of these and of a reference's
	// neighbours.
	everywhere, generating, towards []int32
}

// pair is two buses joined by branches: one entry each way of the bus
// admittance matrix.
type pair struct {
	i, j           int32
	gij, bij       float64
	gji, bji       float64
	blockIJ, block int32 // blocks (i, j) and (j, i) of the Jacobian, −1 at a reference
}

// New analyses a network's topology. The network is kept, not copied.
func New(n *network.Network) (*Solver, error) {
	buses := n.Buses()
	s := &Solver{net: n, gensAt: make([][]int32, buses), position: make([]int32, buses), lost: -1}
	for g, b := range n.GenBus {
		s.gensAt[b] = append(s.gensAt[b], int32(g))
	}
	for _, r := range n.References {
		if len(s.gensAt[r]) == 0 {
			return nil, fmt.Errorf("powerflow: network %s, bus %d: the reference bus has no generator in service, so that no power takes up the balance", n.Name, n.BusID[r])
		}
	}
	s.near = make([][]int32, buses)
	for k, from := range n.From {
		s.near[from] = append(s.near[from], int32(k))
		s.near[n.To[k]] = append(s.near[n.To[k]], int32(k))
	}
	s.analyse()
	f64 := func() []float64 { return make([]float64, buses) }
	s.qlo, s.qhi = f64(), f64()
	for b, gens := range s.gensAt {
		for _, g := range gens {
			s.qlo[b] += n.QMin[g]
			s.qhi[b] += n.QMax[g]
		}
	}
	s.allocate()
	return s, s.SetAdmittance(&n.Admittance)
}

// allocate makes what a solve writes to.
func (s *Solver) allocate() {
	buses := s.net.Buses()
	all := make([]float64, 11*buses+2*len(s.pairs))
	take := func(k int) []float64 {
		t := all[:k:k]
		all = all[k:]
		return t
	}
	for _, v := range []*[]float64{&s.gd, &s.bd, &s.e, &s.f, &s.p, &s.q, &s.ps, &s.qs, &s.vset, &s.vm, &s.va} {
		*v = take(buses)
	}
	s.h, s.nn = take(len(s.pairs)), take(len(s.pairs))
	s.kind = make([]network.Kind, buses)
	s.held = make([]int8, buses)
	s.released = make([]uint8, buses)
}

// Clone is a solver of the same topology and admittances with working memory of
// its own, for another goroutine.
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
	c.warm = false
	c.beside = make([]float64, len(s.beside))
	return &c
}

// analyse numbers the pairs and the unknowns and finds the factors' pattern.
func (s *Solver) analyse() {
	n := s.net
	number := make(map[[2]int]int32)
	s.toPair, s.flipped = make([]int32, n.Branches()), make([]bool, n.Branches())
	for k, from := range n.From {
		i, j := min(from, n.To[k]), max(from, n.To[k])
		at, ok := number[[2]int{i, j}]
		if !ok {
			at = int32(len(s.pairs))
			number[[2]int{i, j}] = at
			s.pairs = append(s.pairs, pair{i: int32(i), j: int32(j)})
		}
		s.toPair[k], s.flipped[k] = at, from != i
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
	var edges [][2]int32
	for _, p := range s.pairs {
		if vertex[p.i] >= 0 && vertex[p.j] >= 0 {
			edges = append(edges, [2]int32{vertex[p.i], vertex[p.j]})
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
			s.joints = append(s.joints, int32(k))
		}
	}
	for b, k := range s.position {
		if k >= 0 && len(s.gensAt[b]) > 0 {
			s.generating = append(s.generating, k)
		}
	}
	for k := range s.unknown {
		s.everywhere = append(s.everywhere, int32(k))
	}
	s.towards = slices.Clone(s.generating)
	for _, k := range s.joints {
		s.towards = append(s.towards, max(s.position[s.pairs[k].i], s.position[s.pairs[k].j]))
	}
	s.towards = s.lu.closure(s.towards)
	s.beside = make([]float64, 2*SideBySide*len(buses))
}

// Order lists the buses that are not references in the order of elimination. It is
// the solver's own.
func (s *Solver) Order() []int32 { return s.unknown }

// SetAdmittance takes other branch admittances, as network.ScaleBranches writes
// them. They are copied, but BranchFlows uses y itself, which is kept.
func (s *Solver) SetAdmittance(y *network.Admittance) error {
	n := s.net
	if len(y.Gff) != n.Branches() {
		return fmt.Errorf("powerflow: admittances of %d branches for a network of %d", len(y.Gff), n.Branches())
	}
	s.admitting, s.factored = y, s.factored[:0]
	copy(s.gd, n.Gs)
	copy(s.bd, n.Bs)
	for k := range s.pairs {
		p := &s.pairs[k]
		p.gij, p.bij, p.gji, p.bji = 0, 0, 0, 0
	}
	for k, from := range n.From {
		to := n.To[k]
		s.gd[from] += y.Gff[k]
		s.bd[from] += y.Bff[k]
		s.gd[to] += y.Gtt[k]
		s.bd[to] += y.Btt[k]
		p := &s.pairs[s.toPair[k]]
		gij, bij, gji, bji := y.Gft[k], y.Bft[k], y.Gtf[k], y.Btf[k]
		if s.flipped[k] {
			gij, bij, gji, bji = gji, bji, gij, bij
		}
		p.gij, p.bij, p.gji, p.bji = p.gij+gij, p.bij+bij, p.gji+gji, p.bji+bji
	}
	return nil
}

// NewSolution has room for a solution of the network.
func (s *Solver) NewSolution() *Solution {
	n := s.net
	return &Solution{
		Vm: make([]float64, n.Buses()), Va: make([]float64, n.Buses()), AtLimit: make([]int8, n.Buses()),
		Pg: make([]float64, n.Gens()), Qg: make([]float64, n.Gens()),
	}
}

// fit gives a solution room for one of the network, where it has none.
func (s *Solver) fit(out *Solution) {
	buses, units := s.net.Buses(), s.net.Gens()
	if len(out.Vm) != buses || len(out.Va) != buses || len(out.AtLimit) != buses || len(out.Pg) != units || len(out.Qg) != units {
		*out = *s.NewSolution()
	}
}

// BranchFlows writes the flows of a solution, with the admittances the solver
// has now.
func (s *Solver) BranchFlows(sol *Solution, dst *network.Flows) {
	s.net.BranchFlows(s.admitting, sol.Vm, sol.Va, dst)
}
