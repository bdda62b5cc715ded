package secure

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/grid/internal/elimination"
	"github.com/gpc-engine/gpc/grid/internal/multifrontal"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

const (
	// fixedWidth is the range (pu) below which a power counts as fixed.
	fixedWidth = 1e-9
	// unbounded is the magnitude (pu) from which a limit counts as infinite, as in package acopf.
	unbounded = 1e8
	// dropUnit is the reactive power (pu) of the parameter y beyond a limit for 1 pu of voltage drop. Both then have
	// a similar size.
	dropUnit = 10
)

// maxScalarStates is the largest number of states that is faster one by one than in lanes.
const maxScalarStates = 3

// system is what all states of one network share: set-points, limits and the two layouts.
type system struct {
	net         *network.Network
	opt         Options
	genBuses    []int   // buses with a unit, whose voltage is a set-point
	genBusIndex []int   // by bus: its index in genBuses, −1 for none
	references  []int   // buses whose angles are fixed before an outage; net has the first alone
	units       [][]int // by index in genBuses
	free        []bool  // by unit: its active power may be chosen
	share       []float64
	islands     []*part          // by bus
	splits      map[Outage]*part // of branches that split an island

	setV     []int // by index in genBuses: the set-point of its voltage
	setP     []int // by unit: the set-point of its power, −1 where that is fixed or follows from another
	setCount int
	source   []*network.DCLine // by unit: the DC line of which it is the to end, where that has a set-point
	qlo, qhi []float64         // by index in genBuses: sums over units
	groups   []reactiveGroup
	levels   []costLevel
	rated    []int

	base, after *layout
	// Created at first use: for the base state, and for states after outages.
	laneSolver  func() (*laneFlows, error) // power flows after outages
	lanesBefore func() *laneFactor
	lanesAfter  func(reference, states int) *laneFactor // for that many states of parts with this reference; nil: none
}

// reactiveGroup are units at one bus with one reactive power before an outage: all of them, but those with a cost of their own.
type reactiveGroup struct {
	place  int // of the bus in genBuses
	units  []int
	lo, hi float64      // sums over units
	cost   network.Cost // zero for none
}

func (g *reactiveGroup) fixed() bool { return g.hi-g.lo <= fixedWidth }

// costLevel is a piecewise linear cost. Its variable, scaled, is above all segments.
type costLevel struct {
	network.Cost
	bus         int
	unit, group int // whose power it is of; the other is −1
}

// layout numbers the variables of a state, primal and dual, and the entries of its KKT matrix.
type layout struct {
	structure     *multifrontal.Structure
	variables     int
	bus           []int // by bus: first of its θ, λ_P, V, λ_Q
	reactive      []int // Q by group in the base state; the parameter y by index in genBuses after an outage
	level         []int // base state: the variables of piecewise linear costs
	levelPower    []int // and of their powers
	drop          []int // by index in genBuses, after an outage: multiplier of the voltage equation
	delta         int   // after an outage: Δ
	setPoints     []int // after an outage these are the border
	dual          []bool
	row, col      []int32
	diagonal      []int32       // by variable
	branch        [][8][8]int32 // entries of the eight variables at a branch's ends
	shunt         [][2]int32    // by bus: entries of V with λ_P and λ_Q
	setPointPairs [][]int32     // base state: entries of pairs of set-points, lower triangle by rows
	unitEntries   []unitEntries
	groupEntries  []int32         // base state: of Q with the balance
	levelEntries  []int32         // base state: of levels with their power
	genBusEntries []genBusEntries // after an outage, by index in genBuses
	schurEntries  []int32         // after an outage: the same entries by the columns of the border's lower triangle
	entries       map[[2]int32]int32
}

// unitEntries are entries of a unit's power: with the balance of its bus, and after an outage with Δ. The power of the to end
// of a DC line is that of the from end.
type unitEntries struct{ balance, delta int32 }

// genBusEntries are entries of a bus with units: y with the balance; y, the voltage and its set-point with the voltage
// equation, and Δ with the balance of P.
type genBusEntries struct{ balance, parameterDrop, voltageDrop, setPointDrop, deltaBalance int32 }

// Offsets of a bus's variables.
const (
	angleOffset = iota
	activeDualOffset
	magnitudeOffset
	reactiveDualOffset
)

func newSystem(n *network.Network, opt Options) (*system, error) {
	net := n
	if len(n.References) > 1 {
		net = n.WithReference(n.References[0])
	}
	s := &system{net: net, references: n.References, opt: opt, genBusIndex: slices.Repeat([]int{-1}, n.Buses()), free: make([]bool, n.Gens()), setP: slices.Repeat([]int{-1}, n.Gens()),
		source: make([]*network.DCLine, n.Gens())}
	for g, b := range n.GenBus {
		if s.genBusIndex[b] < 0 {
			s.genBusIndex[b] = len(s.genBuses)
			s.genBuses = append(s.genBuses, b)
			s.units = append(s.units, nil)
		}
		s.units[s.genBusIndex[b]] = append(s.units[s.genBusIndex[b]], g)
		s.free[g] = n.PMax[g]-n.PMin[g] > fixedWidth
	}
	for i := range n.DCLines {
		if d := &n.DCLines[i]; s.free[d.From] {
			s.free[d.To], s.source[d.To] = false, d
		}
	}
	for i := range s.genBuses {
		s.addGroups(i)
	}
	for k, rate := range n.Rate {
		if rate < unbounded && rate > 0 {
			s.rated = append(s.rated, k)
		}
	}
	for i := range s.genBuses {
		s.setV = append(s.setV, s.setCount)
		s.setCount++
		for _, g := range s.units[i] {
			if s.free[g] {
				s.setP[g] = s.setCount
				s.setCount++
			}
		}
	}
	for g, c := range n.Cost {
		if s.free[g] && c.PiecewiseLinear() {
			s.levels = append(s.levels, costLevel{c, n.GenBus[g], g, -1})
		}
	}
	for k, y := range s.groups {
		if !y.fixed() && y.cost.PiecewiseLinear() {
			s.levels = append(s.levels, costLevel{y.cost, s.genBuses[y.place], -1, k})
		}
	}
	var err error
	if s.share, err = opt.shares(n, s.free); err != nil {
		return nil, err
	}
	if err := s.addParts(n); err != nil {
		return nil, err
	}
	s.base, s.after = s.layoutBase(), s.layoutOutage()
	s.matchBorder()
	level, err := isa.Choose()
	if err != nil {
		return nil, err
	}
	s.laneSolver = sync.OnceValues(func() (*laneFlows, error) { return newLaneFlows(s) })
	narrowLevel := min(level, isa.AVX2)
	s.lanesBefore = sync.OnceValue(func() *laneFactor {
		list, border := s.nodesBefore()
		return newLaneFactor(s.base, list, border, narrowLevel, slices.Min(lanes.Widths(narrowLevel))) // one state in the narrowest vectors
	})
	type factors struct{ wide, single func() *laneFactor }
	lanesAfter := map[int]factors{}
	for _, y := range slices.Concat(s.islands, slices.Collect(maps.Values(s.splits))) {
		wide := sync.OnceValue(func() *laneFactor {
			list, border := s.nodesAfter(y.reference)
			return newLaneFactor(s.after, list, border, level, slices.Max(lanes.Widths(level)))
		})
		lanesAfter[y.reference] = factors{wide, sync.OnceValue(func() *laneFactor { return wide().forLanes(narrowLevel, slices.Min(lanes.Widths(narrowLevel))) })}
	}
	s.lanesAfter = func(reference, states int) *laneFactor {
		if f := lanesAfter[reference].wide(); f == nil || states > maxScalarStates {
			return f
		}
		return lanesAfter[reference].single()
	}
	return s, nil
}

// part is the buses of one balance after an outage.
type part struct {
	others    []bool // by bus; nil for none
	reference int    // a bus with units
}

// excludes says whether a bus is of another part; none is of nil.
func (y *part) excludes(bus int) bool { return y != nil && y.others != nil && y.others[bus] }

// part is what an outage leaves to one balance.
func (s *system) part(o Outage) *part {
	switch y := s.splits[o]; {
	case y != nil:
		return y
	case o.Branch >= 0:
		return s.islands[s.net.From[o.Branch]]
	case o.Unit >= 0:
		return s.islands[s.net.GenBus[o.Unit]]
	}
	return s.islands[s.net.Slack]
}

// addParts finds the parts that outages leave. Each needs a unit that shares what is missing.
func (s *system) addParts(n *network.Network) error {
	newPart := func(reference int, foreign func(bus int) bool) *part {
		y := &part{make([]bool, n.Buses()), reference}
		for b := range y.others {
			y.others[b] = foreign(b)
		}
		if !slices.Contains(y.others, true) {
			y.others = nil
		}
		return y
	}
	island, sides := n.Islands(), n.BridgeSides()
	s.islands, s.splits = make([]*part, n.Buses()), map[Outage]*part{}
	for _, r := range s.references {
		if s.islands[r] == nil {
			y := newPart(r, func(b int) bool { return island[b] != island[r] })
			for b, i := range island {
				if i == island[r] {
					s.islands[b] = y
				}
			}
		}
	}
	for _, o := range s.opt.Outages {
		y := s.part(o)
		if o.Branch >= 0 && sides[o.Branch] != nil {
			whole, side := y, sides[o.Branch]
			y = newPart(y.reference, func(b int) bool { return whole.excludes(b) || slices.Contains(side, b) != o.Remote })
			s.splits[o] = y
		}
		unit := 0
		for unit < n.Gens() && (s.share[unit] == 0 || y.excludes(n.GenBus[unit])) {
			unit++
		}
		if unit == n.Gens() {
			return fmt.Errorf("secure: the outage of %s cuts off a part of the network, or is in one, without a unit that shares the missing power, which no dispatch survives: leave it out", Outage{o.Branch, o.Unit, false}.name(n))
		}
		if y.excludes(y.reference) {
			y.reference = n.GenBus[unit]
		}
	}
	return nil
}

// addGroups divides the units at a bus by their costs of reactive power.
func (s *system) addGroups(i int) {
	var rest, all reactiveGroup
	rest.place = i
	for _, g := range s.units[i] {
		y := &rest
		if c := s.net.ReactiveCost; c != nil && (c[g].PiecewiseLinear() || len(c[g].Polynomial) > 0) {
			s.groups = append(s.groups, reactiveGroup{place: i, cost: c[g]})
			y = &s.groups[len(s.groups)-1]
		}
		for _, sum := range []*reactiveGroup{y, &all} {
			sum.units = append(sum.units, g)
			sum.lo, sum.hi = sum.lo+s.net.QMin[g], sum.hi+s.net.QMax[g]
		}
	}
	if s.qlo, s.qhi = append(s.qlo, all.lo), append(s.qhi, all.hi); len(rest.units) > 0 {
		s.groups = append(s.groups, rest)
	}
}

// newLayout numbers the variables of blocks of these sizes in an order of elimination. The caller marks the duals.
func newLayout(order elimination.Order, size []int) (l *layout, start, sizes []int) {
	l = &layout{entries: map[[2]int32]int32{}}
	start = make([]int, len(size))
	for _, v := range order.Order {
		start[v] = l.variables
		l.variables += size[v]
		sizes = append(sizes, size[v])
	}
	l.dual = make([]bool, l.variables)
	return l, start, sizes
}

// entry is the number of the matrix entry at two variables. It is created where there is none.
func (l *layout) entry(i, j int) int32 {
	key := [2]int32{int32(max(i, j)), int32(min(i, j))}
	e, ok := l.entries[key]
	if !ok {
		e = int32(len(l.row))
		l.entries[key] = e
		l.row, l.col = append(l.row, key[0]), append(l.col, key[1])
	}
	return e
}

// network creates the entries of buses and branches.
func (l *layout) network(s *system, start []int) {
	l.bus = start[:s.net.Buses()]
	for _, first := range l.bus {
		l.dual[first+activeDualOffset], l.dual[first+reactiveDualOffset] = true, true
		for i := range 4 {
			for j := range i {
				l.entry(first+i, first+j)
			}
		}
		l.shunt = append(l.shunt, [2]int32{l.entry(first+magnitudeOffset, first+activeDualOffset), l.entry(first+reactiveDualOffset, first+magnitudeOffset)})
	}
	for k, f := range s.net.From {
		var entries [8][8]int32
		variable := func(i int) int {
			if i < 4 {
				return l.bus[f] + i
			}
			return l.bus[s.net.To[k]] + i - 4
		}
		for i := range 8 {
			for j := range 8 {
				if i%2 == 0 || j%2 == 0 {
					entries[i][j] = l.entry(variable(i), variable(j))
				}
			}
		}
		l.branch = append(l.branch, entries)
	}
}

// finish creates the diagonal entries and analyses the elimination.
func (l *layout) finish(order elimination.Order, sizes, inner []int, border int) {
	for v := range l.variables {
		l.diagonal = append(l.diagonal, l.entry(v, v))
	}
	l.structure = multifrontal.AnalyseBordered(sizes, inner, order.Below, border, l.row, l.col)
}

// layoutBase lays out the base state. Set-points belong to their buses, which are eliminated last. They are all
// connected: the Schur complements of outages are added there.
func (s *system) layoutBase() *layout {
	edges := s.net.Edges()
	for i, a := range s.genBuses {
		for _, b := range s.genBuses[:i] {
			edges = append(edges, [2]int{a, b})
		}
	}
	order := elimination.MinimumDegree(s.net.Buses(), edges, s.genBuses)
	size := slices.Repeat([]int{4}, s.net.Buses())
	for g, b := range s.net.GenBus {
		if s.free[g] {
			size[b]++
		}
	}
	private := make([]int, s.net.Buses()) // variables that meet those of the bus alone
	for _, y := range s.groups {
		private[s.genBuses[y.place]]++
	}
	for _, y := range s.levels {
		private[y.bus]++
	}
	var inner []int
	for _, b := range order.Order {
		inner = append(inner, size[b])
		size[b] += private[b]
	}
	l, start, sizes := newLayout(order, size)
	l.network(s, start)
	l.setPoints, l.unitEntries = make([]int, s.setCount), make([]unitEntries, s.net.Gens())
	end := make([]int, s.net.Buses()) // of the variables so far
	for i, b := range s.genBuses {
		bus := l.bus[b]
		l.setPoints[s.setV[i]] = bus + magnitudeOffset
		next := bus + 4
		for _, g := range s.units[i] {
			if s.free[g] {
				l.setPoints[s.setP[g]] = next
				l.unitEntries[g].balance = l.entry(next, bus+activeDualOffset)
				next++
			}
		}
		end[b] = next
	}
	for _, y := range s.groups {
		b := s.genBuses[y.place]
		l.reactive = append(l.reactive, end[b])
		l.groupEntries = append(l.groupEntries, l.entry(end[b], l.bus[b]+reactiveDualOffset))
		end[b]++
	}
	for _, y := range s.levels {
		power := 0
		if y.unit >= 0 {
			power = l.setPoints[s.setP[y.unit]]
		} else {
			power = l.reactive[y.group]
		}
		l.level, l.levelPower = append(l.level, end[y.bus]), append(l.levelPower, power)
		l.levelEntries = append(l.levelEntries, l.entry(end[y.bus], power))
		end[y.bus]++
	}
	l.deliver(s)
	for i, a := range l.setPoints {
		var row []int32
		for _, b := range l.setPoints[:i+1] {
			row = append(row, l.entry(a, b))
		}
		l.setPointPairs = append(l.setPointPairs, row)
	}
	l.finish(order, sizes, inner, 0)
	return l
}

// deliver creates the entries of DC lines at their to ends.
func (l *layout) deliver(s *system) {
	for g, d := range s.source {
		if d != nil {
			l.unitEntries[g].balance = l.entry(l.setPoints[s.setP[d.From]], l.bus[s.net.GenBus[g]]+activeDualOffset)
		}
	}
}

// layoutOutage lays out the state after an outage: its buses, Δ, and the border of set-points.
func (s *system) layoutOutage() *layout {
	nb := s.net.Buses()
	edges := s.net.Edges()
	eliminatedLast := []int{nb}
	size := append(slices.Repeat([]int{4}, nb), 1)
	inner := append(slices.Repeat([]int{4}, nb), 1)
	for i, b := range s.genBuses {
		size[b] = 6
		edges = append(edges, [2]int{b, nb}, [2]int{b, nb + 1 + i}, [2]int{nb, nb + 1 + i})
		eliminatedLast = append(eliminatedLast, nb+1+i)
		n := 1
		for _, g := range s.units[i] {
			if s.free[g] {
				n++
			}
		}
		size, inner = append(size, n), append(inner, n)
	}
	for g, d := range s.source {
		if d != nil {
			edges = append(edges, [2]int{s.net.GenBus[g], nb + 1 + s.genBusIndex[s.net.GenBus[d.From]]})
		}
	}
	order := elimination.MinimumDegree(nb+1+len(s.genBuses), edges, eliminatedLast)
	l, start, sizes := newLayout(order, size)
	innerOf := make([]int, len(sizes))
	for k, v := range order.Order {
		innerOf[k] = inner[v]
	}
	l.network(s, start)
	l.delta = start[nb]
	l.setPoints, l.unitEntries, l.genBusEntries = make([]int, s.setCount), make([]unitEntries, s.net.Gens()), make([]genBusEntries, len(s.genBuses))
	for i, b := range s.genBuses {
		bus, border := l.bus[b], start[nb+1+i]
		y, drop := bus+4, bus+5
		l.reactive, l.drop = append(l.reactive, y), append(l.drop, drop)
		l.dual[drop] = true
		l.setPoints[s.setV[i]] = border
		l.genBusEntries[i] = genBusEntries{
			balance: l.entry(y, bus+reactiveDualOffset), parameterDrop: l.entry(y, drop), voltageDrop: l.entry(drop, bus+magnitudeOffset), setPointDrop: l.entry(drop, border),
		}
		next := border + 1
		for _, g := range s.units[i] {
			if !s.free[g] {
				continue
			}
			l.setPoints[s.setP[g]] = next
			l.unitEntries[g] = unitEntries{balance: l.entry(next, bus+activeDualOffset), delta: l.entry(next, l.delta)}
			l.genBusEntries[i].deltaBalance = l.entry(l.delta, bus+activeDualOffset)
			next++
		}
	}
	l.deliver(s)
	l.finish(order, sizes, innerOf, len(s.genBuses))
	return l
}

// matchBorder maps the border of a state after an outage to entries of the base state.
func (s *system) matchBorder() {
	l := s.after
	first := l.variables - len(l.setPoints)
	number := make([]int, len(l.setPoints))
	for k, v := range l.setPoints {
		number[v-first] = k
	}
	for j, b := range number {
		for _, a := range number[j:] {
			l.schurEntries = append(l.schurEntries, s.base.setPointPairs[max(a, b)][min(a, b)])
		}
	}
}

// finite reports whether a limit is finite.
func finite(x float64) bool { return math.Abs(x) < unbounded }
