package laneflow

import (
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// elimination is Gauss's on the Jacobian ∂(P, Q)/∂(θ, V/V), unknown by unknown: the angle of
// every bus that is not a reference, and behind it its magnitude where that is free. A
// held magnitude has no row and no column.
type elimination struct {
	solver *Solver
	bus    []int    // of each unknown
	angle  []bool   // whether it is the bus's angle
	at     [2][]int // unknown of a bus's angle, and of its magnitude; −1: none
	size   int
	// right are the unknowns j > k with an entry (k, j) when k is eliminated, fill included;
	// the pattern is symmetric.
	right [][]int
	// level of an unknown: those of one level do not touch each other.
	level  []int
	levels int
	// own are cells of entries, of their multipliers, of pivots and of the right-hand side.
	own, factor map[[2]int]lanes.Ref
	inverse, x  lanes.Col
	negative    lanes.Col // −n and −n′ of pairs
	diagonal    [4]lanes.Col
	maxima      [2]lanes.Col
	scale       lanes.Col
	// now are the cells that hold the factors' upper part.
	now map[[2]int]lanes.Ref
}

// eliminate finds the order's fill and lays the cells out.
func (s *Solver) eliminate(order []int32) *elimination {
	buses := s.net.Buses()
	e := &elimination{solver: s, at: [2][]int{slices.Repeat([]int{-1}, buses), slices.Repeat([]int{-1}, buses)}}
	add := func(bus int, angle bool) {
		which := 0
		if !angle {
			which = 1
		}
		e.at[which][bus] = e.size
		e.bus, e.angle = append(e.bus, bus), append(e.angle, angle)
		e.size++
	}
	for _, b := range order {
		add(int(b), true)
		if s.net.Kind[b] == network.PQ || s.sharing != nil {
			add(int(b), false)
		}
	}
	if s.sharing != nil { // what units share takes the place of the reference's angle
		add(s.net.Slack, false)
		add(s.net.Slack, true)
	}
	near := make([]map[int]bool, e.size)
	for k := range near {
		near[k] = map[int]bool{}
	}
	join := func(i, j int) {
		if i >= 0 && j >= 0 && i != j {
			near[i][j], near[j][i] = true, true
		}
	}
	for b := range buses {
		join(e.at[0][b], e.at[1][b])
	}
	for _, p := range s.plan.pairs {
		for _, a := range e.at {
			for _, c := range e.at {
				join(a[p[0]], c[p[1]])
			}
		}
	}
	if s.sharing != nil {
		for _, b := range s.sharing.hold {
			join(e.at[0][s.net.Slack], e.at[0][b])
		}
	}
	l := &s.plan.layout
	e.right, e.level = make([][]int, e.size), make([]int, e.size)
	e.own, e.factor = map[[2]int]lanes.Ref{}, map[[2]int]lanes.Ref{}
	for k := range e.size {
		for j := range near[k] {
			if j > k {
				e.right[k] = append(e.right[k], j)
			}
		}
		slices.Sort(e.right[k])
		for _, i := range e.right[k] {
			e.level[i] = max(e.level[i], e.level[k]+1)
			// A multiplier takes the place of its entry, where that has a cell of its own: fewer cells stay nearer.
			if own, ok := e.own[[2]int{i, k}]; ok {
				e.factor[[2]int{i, k}] = own
			} else {
				e.factor[[2]int{i, k}] = l.New(1)[0]
			}
			for _, j := range e.right[k] {
				join(i, j)
				if _, ok := e.own[[2]int{i, j}]; !ok {
					e.own[[2]int{i, j}] = l.New(1)[0]
				}
			}
		}
		e.levels = max(e.levels, e.level[k]+1)
	}
	e.inverse, e.x, e.negative = l.New(e.size), l.New(e.size), l.New(2*len(s.plan.pairs))
	for i := range e.diagonal {
		e.diagonal[i] = l.New(buses)
	}
	e.maxima, e.scale = [2]lanes.Col{l.New(1), l.New(1)}, l.New(1)
	if s.sharing != nil {
		s.sharing.layOutFor(e, l)
	}
	return e
}

// entries are the cells that hold the Jacobian before anything is eliminated:
//
//	⎡ ∂Pi/∂θj  Vj·∂Pi/∂Vj ⎤ = ⎡  h  n ⎤
//	⎣ ∂Qi/∂θj  Vj·∂Qi/∂Vj ⎦   ⎣ −n  h ⎦
//
// with h and n what the pair adds to Q and P at i.
func (e *elimination) entries(b *lanes.Builder) map[[2]int]lanes.Ref {
	p := &e.solver.plan
	zero := p.constant(0)
	pairs := len(p.pairs)
	b.SetSub(e.negative[:pairs], zero, p.n)
	b.SetSub(e.negative[pairs:], zero, p.nt)
	groups(len(p.vm), func(lo, hi int) {
		v2 := b.Mul(p.vm[lo:hi], p.vm[lo:hi])
		g, s := b.Mul(p.gd[lo:hi], v2), b.Mul(p.bd[lo:hi], v2)
		d := &e.diagonal
		b.SetSub(d[0][lo:hi], b.Sub(zero, p.q[lo:hi]), s)
		b.SetAdd(d[1][lo:hi], p.p[lo:hi], g)
		b.SetSub(d[2][lo:hi], p.p[lo:hi], g)
		b.SetSub(d[3][lo:hi], p.q[lo:hi], s)
	})
	now := map[[2]int]lanes.Ref{}
	if e.solver.sharing != nil {
		e.solver.sharing.entries(b, e, now)
		return now
	}
	block := func(i, j int, cells [4]lanes.Ref) {
		for r, row := range e.at {
			for c, col := range e.at {
				if row[i] >= 0 && col[j] >= 0 {
					now[[2]int{row[i], col[j]}] = cells[2*r+c]
				}
			}
		}
	}
	for bus := range p.vm {
		block(bus, bus, [4]lanes.Ref{e.diagonal[0][bus], e.diagonal[1][bus], e.diagonal[2][bus], e.diagonal[3][bus]})
	}
	for k, pair := range p.pairs {
		block(pair[0], pair[1], [4]lanes.Ref{p.h[k], p.n[k], e.negative[k], p.h[k]})
		block(pair[1], pair[0], [4]lanes.Ref{p.ht[k], p.nt[k], e.negative[pairs+k], p.ht[k]})
	}
	return now
}

// step writes one step of Newton's method: in the lanes that go on the voltages move by the
// solution, shortened to the longest step there is.
func (e *elimination) step(b *lanes.Builder) {
	e.factors(b)
	e.again(b)
}

func cell(r lanes.Ref) lanes.Col { return lanes.Col{r} }

// byLevel are the unknowns of each level.
func (e *elimination) byLevel() [][]int {
	all := make([][]int, e.levels)
	for k, l := range e.level {
		all[l] = append(all[l], k)
	}
	return all
}

// factors writes the Jacobian and its elimination.
func (e *elimination) factors(b *lanes.Builder) {
	one, zero := e.solver.plan.constant(1), e.solver.plan.constant(0)
	now := e.entries(b)
	e.now = now
	// Equal operations of a level stand together, so that they are one run.
	for _, level := range e.byLevel() {
		for _, k := range level {
			b.SetDiv(e.inverse[k:k+1], one, cell(now[[2]int{k, k}]))
		}
		for _, k := range level {
			for _, i := range e.below(k) {
				b.SetMul(cell(e.factor[[2]int{i, k}]), cell(now[[2]int{i, k}]), e.inverse[k:k+1])
			}
		}
		for _, k := range level {
			right := e.beside(k)
			for _, i := range e.below(k) {
				factor := cell(e.factor[[2]int{i, k}])
				for _, j := range right {
					at := [2]int{i, j}
					before, own := zero, e.own[at]
					if r, ok := now[at]; ok {
						before = cell(r)
					}
					b.SetFNMA(cell(own), factor, cell(now[[2]int{k, j}]), before)
					now[at] = own
				}
			}
		}
	}
}

// beside are the unknowns that have an entry in the upper row of one, and below those in its lower column.
func (e *elimination) beside(k int) (list []int) {
	for _, j := range e.right[k] {
		if _, ok := e.now[[2]int{k, j}]; ok {
			list = append(list, j)
		}
	}
	return list
}

func (e *elimination) below(k int) (list []int) {
	for _, i := range e.right[k] {
		if _, ok := e.now[[2]int{i, k}]; ok {
			list = append(list, i)
		}
	}
	return list
}

// again writes the step by the factors that there are.
func (e *elimination) again(b *lanes.Builder) {
	p := &e.solver.plan
	for k, bus := range e.bus {
		from := p.dp
		if !e.angle[k] {
			from = p.dq
		}
		b.Copy(e.x[k:k+1], from[bus:bus+1])
	}
	byLevel := e.byLevel()
	for _, level := range byLevel {
		for _, k := range level {
			for _, i := range e.below(k) {
				b.SetFNMA(e.x[i:i+1], cell(e.factor[[2]int{i, k}]), e.x[k:k+1], e.x[i:i+1])
			}
		}
	}
	for l := e.levels - 1; l >= 0; l-- {
		for _, k := range byLevel[l] {
			for _, j := range e.beside(k) {
				b.SetFNMA(e.x[k:k+1], cell(e.now[[2]int{k, j}]), e.x[j:j+1], e.x[k:k+1])
			}
		}
		for _, k := range byLevel[l] {
			b.SetMul(e.x[k:k+1], e.x[k:k+1], e.inverse[k:k+1])
		}
	}
	e.move(b)
}

// move moves the voltages by the solution, and what units share.
func (e *elimination) move(b *lanes.Builder) {
	p := &e.solver.plan
	zero, one := p.constant(0), p.constant(1)
	var unknowns [2][]int
	for k, angle := range e.angle {
		which := 0
		if !angle {
			which = 1
		}
		if !angle || e.bus[k] != e.solver.net.Slack { // else it is what units share
			unknowns[which] = append(unknowns[which], k)
		}
	}
	scale := one
	for which, longest := range [2]float64{powerflow.MaxAngleStep, powerflow.MaxMagnitudeStep} {
		b.Copy(e.maxima[which], zero)
		b.AbsMax(e.maxima[which], e.x.At(unknowns[which]))
		scale = b.Min(b.Div(p.constant(longest), e.maxima[which]), scale)
	}
	b.Copy(e.scale, scale)
	if e.solver.turning {
		list := make([]int, len(unknowns[0]))
		for i, k := range unknowns[0] {
			list[i] = e.bus[k]
		}
		groups(len(list), func(lo, hi int) {
			x := b.Select(p.going, b.Mul(e.scale, e.x.At(unknowns[0][lo:hi])), zero)
			p.turn(b, list[lo:hi], x)
		})
		groups(len(unknowns[1]), func(lo, hi int) {
			var i []int
			for _, k := range unknowns[1][lo:hi] {
				i = append(i, e.bus[k])
			}
			by := b.Select(p.going, b.Mul(e.scale, e.x.At(unknowns[1][lo:hi])), zero)
			for _, c := range []lanes.Col{p.e.At(i), p.f.At(i)} {
				b.SetFMA(c, c, by, c)
			}
		})
	}
	for which, of := range [2]lanes.Col{p.va, p.vm} {
		list := unknowns[which]
		groups(len(list), func(lo, hi int) {
			x := e.x.At(list[lo:hi])
			var v lanes.Col
			for _, k := range list[lo:hi] {
				v = append(v, of[e.bus[k]])
			}
			by := b.Mul(e.scale, x)
			if which == 1 {
				by = b.Mul(by, v)
			}
			b.SetAdd(v, v, b.Select(p.going, by, zero))
		})
	}
	if y := e.solver.sharing; y != nil {
		at := e.at[0][e.solver.net.Slack]
		b.SetAdd(y.delta, y.delta, b.Select(p.going, b.Mul(e.scale, e.x[at:at+1]), zero))
	}
}

// adjoint writes the solve with the transposed factors, of gradients in the unknowns.
func (e *elimination) adjoint(b *lanes.Builder) {
	b.Copy(e.x, e.solver.sharing.gradient)
	byLevel := e.byLevel()
	for _, level := range byLevel {
		for _, k := range level {
			b.SetMul(e.x[k:k+1], e.x[k:k+1], e.inverse[k:k+1])
		}
		for _, k := range level {
			for _, j := range e.beside(k) {
				b.SetFNMA(e.x[j:j+1], cell(e.now[[2]int{k, j}]), e.x[k:k+1], e.x[j:j+1])
			}
		}
	}
	for l := e.levels - 1; l >= 0; l-- {
		for _, k := range byLevel[l] {
			for _, i := range e.below(k) {
				b.SetFNMA(e.x[k:k+1], cell(e.factor[[2]int{i, k}]), e.x[i:i+1], e.x[k:k+1])
			}
		}
	}
}
