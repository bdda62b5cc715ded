package secure

import (
	"fmt"
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
	// narrow is the width (pu) below which a power is taken as fixed.
	narrow = 1e-9
	// unbounded is the magnitude (pu) from which a limit is none, as in package acopf.
	unbounded = 1e8
	// dropUnit is the reactive power (pu) of the parameter y beyond a limit that stands for 1 pu of
	// voltage away from the set-point: both then have a similar size.
	dropUnit = 10
)

// mostAlone are the states that take less time one by one than in the lanes of a vector.
const mostAlone = 3

// system is what all states of one network share: set-points, limits and the two layouts.
type system struct {
	net   *network.Network
	opt   Options
	hold  []int   // buses with a unit, whose voltage is a set-point
	at    []int   // by bus: its place in hold, −1 for none
	units [][]int // by place in hold
	free  []bool  // by unit: its active power may be chosen
	share []float64

	setV     []int // by place in hold: which set-point its voltage is
	setP     []int // by unit: which set-point its power is, −1 where that is fixed
	setCount int
	qlo, qhi []float64 // by place in hold: sums over units
	rated    []int

	base, after *layout
	// Made when they are first needed: of the state before any outage, and of those after one.
	beside      func() (*beside, error) // power flows after outages
	lanesBefore func() *laneFactor
	lanesAfter  func(states int) *laneFactor // for the first of so many states; nil: none
}

// layout numbers the variables of a state, primal and dual, and the entries of its KKT matrix.
type layout struct {
	structure *multifrontal.Structure
	variables int
	bus       []int // by bus: its θ, λ_P, V, λ_Q follow one another
	reactive  []int // by place in hold: Q before an outage, the parameter y after one
	drop      []int // by place in hold, after an outage: multiplier of the voltage's equation
	delta     int   // after an outage: what units share
	set       []int // set-points; after an outage those of the border
	dual      []bool
	row, col  []int32
	diagonal  []int32       // by variable
	branch    [][8][8]int32 // entries of the eight variables at a branch's ends
	shunt     [][2]int32    // by bus: entries of V with λ_P and λ_Q
	between   [][]int32     // before an outage: entries of pairs of set-points, the second not after the first
	ofUnit    []unitEntries
	ofPlace   []placeEntries // by place in hold
	meets     []int32        // after one: those entries by the columns of the border's lower part, in the order of its variables
	entries   map[[2]int32]int32
}

// unitEntries are entries of a unit's power: with the balance of its bus, and after an outage with what units share.
type unitEntries struct{ balance, shared int32 }

// placeEntries are entries of what units at a bus give: Q or y with the balance, and after an outage y and the bus's
// voltage with the equation of that voltage, this with its set-point, and what units share with the balance of P.
type placeEntries struct{ balance, beyond, voltage, set, shared int32 }

// Offsets of a bus's variables.
const (
	ofAngle = iota
	ofActive
	ofMagnitude
	ofReactive
)

func newSystem(n *network.Network, opt Options) (*system, error) {
	s := &system{net: n, opt: opt, at: slices.Repeat([]int{-1}, n.Buses()), free: make([]bool, n.Gens()), setP: slices.Repeat([]int{-1}, n.Gens())}
	for g, b := range n.GenBus {
		if s.at[b] < 0 {
			s.at[b] = len(s.hold)
			s.hold = append(s.hold, b)
			s.units = append(s.units, nil)
		}
		s.units[s.at[b]] = append(s.units[s.at[b]], g)
		s.free[g] = n.PMax[g]-n.PMin[g] > narrow
	}
	for i := range s.hold {
		lo, hi := 0.0, 0.0
		for _, g := range s.units[i] {
			lo, hi = lo+n.QMin[g], hi+n.QMax[g]
		}
		s.qlo, s.qhi = append(s.qlo, lo), append(s.qhi, hi)
	}
	for k, rate := range n.Rate {
		if rate < unbounded && rate > 0 {
			s.rated = append(s.rated, k)
		}
	}
	for i := range s.hold {
		s.setV = append(s.setV, s.setCount)
		s.setCount++
		for _, g := range s.units[i] {
			if s.free[g] {
				s.setP[g] = s.setCount
				s.setCount++
			}
		}
	}
	var err error
	if s.share, err = opt.shares(n, s.free); err != nil {
		return nil, err
	}
	s.base, s.after = s.layBase(), s.layAfter()
	s.meet()
	level, err := isa.Choose()
	if err != nil {
		return nil, err
	}
	s.beside = sync.OnceValues(func() (*beside, error) { return newBeside(s) })
	few := min(level, isa.AVX2)
	s.lanesBefore = sync.OnceValue(func() *laneFactor {
		list, border := s.nodesBefore()
		return newLaneFactor(s.base, list, border, few, slices.Min(lanes.Widths(few))) // one state in narrow cells
	})
	widest := sync.OnceValue(func() *laneFactor {
		list, border := s.nodesAfter()
		return newLaneFactor(s.after, list, border, level, slices.Max(lanes.Widths(level)))
	})
	alone := sync.OnceValue(func() *laneFactor { return widest().of(few, slices.Min(lanes.Widths(few))) })
	s.lanesAfter = func(states int) *laneFactor {
		if f := widest(); f == nil || states > mostAlone {
			return f
		}
		return alone()
	}
	return s, nil
}

func (s *system) edges() (edges [][2]int) {
	for k, f := range s.net.From {
		edges = append(edges, [2]int{f, s.net.To[k]})
	}
	return edges
}

// newLayout numbers the variables of blocks of these sizes in an order of elimination; duals are
// marked by the caller.
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

// entry is the number of the matrix's entry at two variables, which is made where there is none.
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

// network makes the entries of buses and branches.
func (l *layout) network(s *system, start []int) {
	l.bus = start[:s.net.Buses()]
	for _, at := range l.bus {
		l.dual[at+ofActive], l.dual[at+ofReactive] = true, true
		for i := range 4 {
			for j := range i {
				l.entry(at+i, at+j)
			}
		}
		l.shunt = append(l.shunt, [2]int32{l.entry(at+ofMagnitude, at+ofActive), l.entry(at+ofReactive, at+ofMagnitude)})
	}
	for k, f := range s.net.From {
		var place [8][8]int32
		of := func(i int) int {
			if i < 4 {
				return l.bus[f] + i
			}
			return l.bus[s.net.To[k]] + i - 4
		}
		for i := range 8 {
			for j := range 8 {
				if i%2 == 0 || j%2 == 0 {
					place[i][j] = l.entry(of(i), of(j))
				}
			}
		}
		l.branch = append(l.branch, place)
	}
}

// finish makes the diagonal's entries and analyses the elimination.
func (l *layout) finish(order elimination.Order, sizes, inner []int, border int) {
	for v := range l.variables {
		l.diagonal = append(l.diagonal, l.entry(v, v))
	}
	l.structure = multifrontal.AnalyseBordered(sizes, inner, order.Below, border, l.row, l.col)
}

// layBase lays out the state before any outage. Set-points are variables of their buses, which
// go last, and meet one another: there the Schur complements of outages come in.
func (s *system) layBase() *layout {
	edges := s.edges()
	for i, a := range s.hold {
		for _, b := range s.hold[:i] {
			edges = append(edges, [2]int{a, b})
		}
	}
	order := elimination.MinimumDegree(s.net.Buses(), edges, s.hold)
	size := slices.Repeat([]int{4}, s.net.Buses())
	for i, b := range s.hold {
		for _, g := range s.units[i] {
			if s.free[g] {
				size[b]++
			}
		}
		size[b]++ // Q
	}
	l, start, sizes := newLayout(order, size)
	var inner []int
	for _, b := range order.Order {
		if s.at[b] >= 0 {
			inner = append(inner, size[b]-1)
		} else {
			inner = append(inner, 4)
		}
	}
	l.network(s, start)
	l.set, l.ofUnit, l.ofPlace = make([]int, s.setCount), make([]unitEntries, s.net.Gens()), make([]placeEntries, len(s.hold))
	for i, b := range s.hold {
		at := l.bus[b]
		l.set[s.setV[i]] = at + ofMagnitude
		next := at + 4
		for _, g := range s.units[i] {
			if s.free[g] {
				l.set[s.setP[g]] = next
				l.ofUnit[g].balance = l.entry(next, at+ofActive)
				next++
			}
		}
		l.reactive = append(l.reactive, next)
		l.ofPlace[i].balance = l.entry(next, at+ofReactive)
	}
	for i, a := range l.set {
		var row []int32
		for _, b := range l.set[:i+1] {
			row = append(row, l.entry(a, b))
		}
		l.between = append(l.between, row)
	}
	l.finish(order, sizes, inner, 0)
	return l
}

// layAfter lays out the state after an outage: its buses, what units share, and the border of
// set-points.
func (s *system) layAfter() *layout {
	nb := s.net.Buses()
	edges := s.edges()
	last := []int{nb}
	size := append(slices.Repeat([]int{4}, nb), 1)
	inner := append(slices.Repeat([]int{4}, nb), 1)
	for i, b := range s.hold {
		size[b] = 6
		edges = append(edges, [2]int{b, nb}, [2]int{b, nb + 1 + i}, [2]int{nb, nb + 1 + i})
		last = append(last, nb+1+i)
		n := 1
		for _, g := range s.units[i] {
			if s.free[g] {
				n++
			}
		}
		size, inner = append(size, n), append(inner, n)
	}
	order := elimination.MinimumDegree(nb+1+len(s.hold), edges, last)
	l, start, sizes := newLayout(order, size)
	innerOf := make([]int, len(sizes))
	for k, v := range order.Order {
		innerOf[k] = inner[v]
	}
	l.network(s, start)
	l.delta = start[nb]
	l.set, l.ofUnit, l.ofPlace = make([]int, s.setCount), make([]unitEntries, s.net.Gens()), make([]placeEntries, len(s.hold))
	for i, b := range s.hold {
		at, border := l.bus[b], start[nb+1+i]
		y, drop := at+4, at+5
		l.reactive, l.drop = append(l.reactive, y), append(l.drop, drop)
		l.dual[drop] = true
		l.set[s.setV[i]] = border
		l.ofPlace[i] = placeEntries{
			balance: l.entry(y, at+ofReactive), beyond: l.entry(y, drop), voltage: l.entry(drop, at+ofMagnitude), set: l.entry(drop, border),
		}
		next := border + 1
		for _, g := range s.units[i] {
			if !s.free[g] {
				continue
			}
			l.set[s.setP[g]] = next
			l.ofUnit[g] = unitEntries{balance: l.entry(next, at+ofActive), shared: l.entry(next, l.delta)}
			l.ofPlace[i].shared = l.entry(l.delta, at+ofActive)
			next++
		}
	}
	l.finish(order, sizes, innerOf, len(s.hold))
	return l
}

// meet says where the border of a state after an outage stands in the state before.
func (s *system) meet() {
	l := s.after
	first := l.variables - len(l.set)
	number := make([]int, len(l.set))
	for k, v := range l.set {
		number[v-first] = k
	}
	for j, b := range number {
		for _, a := range number[j:] {
			l.meets = append(l.meets, s.base.between[max(a, b)][min(a, b)])
		}
	}
}

// checkSupported says why a network has no secure problem here.
func checkSupported(n *network.Network) error {
	if err := n.RequireCosts(); err != nil {
		return err
	}
	name := func(g int) string {
		return fmt.Sprintf("network %s, generator %d at bus %d", n.Name, n.GenRow[g]+1, n.BusID[n.GenBus[g]])
	}
	for g, c := range n.Cost {
		if c.PiecewiseLinear() {
			return fmt.Errorf("%s: its cost is piecewise linear; a secure optimal power flow takes polynomials only", name(g))
		}
	}
	if n.ReactiveCost != nil {
		return fmt.Errorf("network %s: units have costs of reactive power, which a secure optimal power flow does not take", n.Name)
	}
	for g := range n.GenBus {
		if n.PMin[g] > n.PMax[g] || n.QMin[g] > n.QMax[g] {
			return fmt.Errorf("%s: a lower limit lies above its upper one", name(g))
		}
	}
	if len(n.References) != 1 {
		return fmt.Errorf("network %s: %d reference buses; a secure optimal power flow takes one", n.Name, len(n.References))
	}
	seen := reach(n, -1, n.Slack)
	for b, s := range seen {
		if !s {
			return fmt.Errorf("network %s: bus %d is in an island without the reference bus %d; a secure optimal power flow takes one island", n.Name, n.BusID[b], n.BusID[n.Slack])
		}
	}
	return nil
}

// reach says which buses hang together with one while a branch is out; −1 for none.
func reach(n *network.Network, without, from int) []bool {
	near := make([][]int, n.Buses())
	for k, f := range n.From {
		if k != without {
			near[f], near[n.To[k]] = append(near[f], n.To[k]), append(near[n.To[k]], f)
		}
	}
	seen := make([]bool, n.Buses())
	seen[from] = true
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		for _, b := range near[queue[0]] {
			if !seen[b] {
				seen[b] = true
				queue = append(queue, b)
			}
		}
	}
	return seen
}

// finite reports whether a limit is one.
func finite(x float64) bool { return math.Abs(x) < unbounded }
