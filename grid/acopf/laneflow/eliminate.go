package laneflow

import (
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// elimination is Gaussian elimination of the Jacobian ∂(P, Q)/∂(θ, V/V), one unknown after another: the angle of
// every bus except a reference, then its magnitude where that is free. A fixed magnitude has no row and no column.
type elimination struct {
	solver  *Solver
	bus     []int    // by unknown
	angle   []bool   // by unknown: whether it is the bus's angle
	unknown [2][]int // by bus: unknown of its angle and of its magnitude; −1: none
	size    int
	// pattern are the unknowns j > k with an entry (k, j) when k is eliminated, fill included; it is symmetric.
	pattern [][]int
	// level of an unknown: unknowns of one level are independent.
	level  []int
	levels int
	// Cells of entries, multipliers, inverse pivots and the right-hand side.
	entry, factor map[[2]int]lanes.Ref
	inverse, x    lanes.Col
	negative      lanes.Col // −n and −n′ of pairs
	diagonal      [4]lanes.Col
	maxima        [2]lanes.Col
	scale         lanes.Col
	// current are the cells of the factors' upper part.
	current map[[2]int]lanes.Ref
}

// eliminate computes the fill of the order and lays out the cells.
func (s *Solver) eliminate(order []int32) *elimination {
	buses := s.net.Buses()
	e := &elimination{solver: s, unknown: [2][]int{slices.Repeat([]int{-1}, buses), slices.Repeat([]int{-1}, buses)}}
	add := func(bus int, angle bool) {
		kind := 0
		if !angle {
			kind = 1
		}
		e.unknown[kind][bus] = e.size
		e.bus, e.angle = append(e.bus, bus), append(e.angle, angle)
		e.size++
	}
	for _, b := range order {
		add(int(b), true)
		if s.net.Kind[b] == network.PQ || s.sharing != nil {
			add(int(b), false)
		}
	}
	if s.sharing != nil { // Δ replaces the reference's angle
		add(s.net.Slack, false)
		add(s.net.Slack, true)
	}
	adjacent := make([]map[int]bool, e.size)
	for k := range adjacent {
		adjacent[k] = map[int]bool{}
	}
	join := func(i, j int) {
		if i >= 0 && j >= 0 && i != j {
			adjacent[i][j], adjacent[j][i] = true, true
		}
	}
	for b := range buses {
		join(e.unknown[0][b], e.unknown[1][b])
	}
	for _, p := range s.plan.pairs {
		for _, a := range e.unknown {
			for _, c := range e.unknown {
				join(a[p[0]], c[p[1]])
			}
		}
	}
	if s.sharing != nil {
		for _, b := range s.sharing.genBuses {
			join(e.unknown[0][s.net.Slack], e.unknown[0][b])
		}
	}
	l := &s.plan.layout
	e.pattern, e.level = make([][]int, e.size), make([]int, e.size)
	e.entry, e.factor = map[[2]int]lanes.Ref{}, map[[2]int]lanes.Ref{}
	for k := range e.size {
		for j := range adjacent[k] {
			if j > k {
				e.pattern[k] = append(e.pattern[k], j)
			}
		}
		slices.Sort(e.pattern[k])
		for _, i := range e.pattern[k] {
			e.level[i] = max(e.level[i], e.level[k]+1)
			// A multiplier reuses the cell of its entry where it can: fewer cells stay in a nearer cache.
			if entry, ok := e.entry[[2]int{i, k}]; ok {
				e.factor[[2]int{i, k}] = entry
			} else {
				e.factor[[2]int{i, k}] = l.New(1)[0]
			}
			for _, j := range e.pattern[k] {
				join(i, j)
				if _, ok := e.entry[[2]int{i, j}]; !ok {
					e.entry[[2]int{i, j}] = l.New(1)[0]
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
		s.sharing.allocateEntries(e, l)
	}
	return e
}

// entries are the cells of the Jacobian before elimination:
//
//	⎡ ∂Pi/∂θj  Vj·∂Pi/∂Vj ⎤ = ⎡  h  n ⎤
//	⎣ ∂Qi/∂θj  Vj·∂Qi/∂Vj ⎦   ⎣ −n  h ⎦
//
// with h and n the pair's parts of Q and P at i.
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
	current := map[[2]int]lanes.Ref{}
	if e.solver.sharing != nil {
		e.solver.sharing.entries(b, e, current)
		return current
	}
	block := func(i, j int, cells [4]lanes.Ref) {
		for r, row := range e.unknown {
			for c, col := range e.unknown {
				if row[i] >= 0 && col[j] >= 0 {
					current[[2]int{row[i], col[j]}] = cells[2*r+c]
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
	return current
}

// step writes one Newton step: voltages of the running lanes move by the solution, shortened to the longest allowed
// step.
func (e *elimination) step(b *lanes.Builder) {
	e.factors(b)
	e.solve(b)
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
	current := e.entries(b)
	e.current = current
	// Equal operations of a level are adjacent and form one run.
	for _, level := range e.byLevel() {
		for _, k := range level {
			b.SetDiv(e.inverse[k:k+1], one, cell(current[[2]int{k, k}]))
		}
		for _, k := range level {
			for _, i := range e.columnPattern(k) {
				b.SetMul(cell(e.factor[[2]int{i, k}]), cell(current[[2]int{i, k}]), e.inverse[k:k+1])
			}
		}
		for _, k := range level {
			right := e.rowPattern(k)
			for _, i := range e.columnPattern(k) {
				factor := cell(e.factor[[2]int{i, k}])
				for _, j := range right {
					index := [2]int{i, j}
					value, entry := zero, e.entry[index]
					if r, ok := current[index]; ok {
						value = cell(r)
					}
					b.SetFNMA(cell(entry), factor, cell(current[[2]int{k, j}]), value)
					current[index] = entry
				}
			}
		}
	}
}

// rowPattern are the unknowns with an entry in the upper row of k.
func (e *elimination) rowPattern(k int) (list []int) {
	for _, j := range e.pattern[k] {
		if _, ok := e.current[[2]int{k, j}]; ok {
			list = append(list, j)
		}
	}
	return list
}

// columnPattern are the unknowns with an entry in the lower column of k.
func (e *elimination) columnPattern(k int) (list []int) {
	for _, i := range e.pattern[k] {
		if _, ok := e.current[[2]int{i, k}]; ok {
			list = append(list, i)
		}
	}
	return list
}

// solve writes the step with the present factors.
func (e *elimination) solve(b *lanes.Builder) {
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
			for _, i := range e.columnPattern(k) {
				b.SetFNMA(e.x[i:i+1], cell(e.factor[[2]int{i, k}]), e.x[k:k+1], e.x[i:i+1])
			}
		}
	}
	for l := e.levels - 1; l >= 0; l-- {
		for _, k := range byLevel[l] {
			for _, j := range e.rowPattern(k) {
				b.SetFNMA(e.x[k:k+1], cell(e.current[[2]int{k, j}]), e.x[j:j+1], e.x[k:k+1])
			}
		}
		for _, k := range byLevel[l] {
			b.SetMul(e.x[k:k+1], e.x[k:k+1], e.inverse[k:k+1])
		}
	}
	e.move(b)
}

// move moves the voltages and Δ by the solution.
func (e *elimination) move(b *lanes.Builder) {
	p := &e.solver.plan
	zero, one := p.constant(0), p.constant(1)
	var unknowns [2][]int
	for k, angle := range e.angle {
		kind := 0
		if !angle {
			kind = 1
		}
		if !angle || e.bus[k] != e.solver.net.Slack { // else it is Δ
			unknowns[kind] = append(unknowns[kind], k)
		}
	}
	scale := one
	for kind, maxStep := range [2]float64{powerflow.MaxAngleStep, powerflow.MaxMagnitudeStep} {
		b.Copy(e.maxima[kind], zero)
		b.AbsMax(e.maxima[kind], e.x.At(unknowns[kind]))
		scale = b.Min(b.Div(p.constant(maxStep), e.maxima[kind]), scale)
	}
	b.Copy(e.scale, scale)
	if e.solver.rotating {
		list := make([]int, len(unknowns[0]))
		for i, k := range unknowns[0] {
			list[i] = e.bus[k]
		}
		groups(len(list), func(lo, hi int) {
			x := b.Select(p.running, b.Mul(e.scale, e.x.At(unknowns[0][lo:hi])), zero)
			p.rotate(b, list[lo:hi], x)
		})
		groups(len(unknowns[1]), func(lo, hi int) {
			var i []int
			for _, k := range unknowns[1][lo:hi] {
				i = append(i, e.bus[k])
			}
			step := b.Select(p.running, b.Mul(e.scale, e.x.At(unknowns[1][lo:hi])), zero)
			for _, c := range []lanes.Col{p.e.At(i), p.f.At(i)} {
				b.SetFMA(c, c, step, c)
			}
		})
	}
	for kind, voltage := range [2]lanes.Col{p.va, p.vm} {
		list := unknowns[kind]
		groups(len(list), func(lo, hi int) {
			x := e.x.At(list[lo:hi])
			var v lanes.Col
			for _, k := range list[lo:hi] {
				v = append(v, voltage[e.bus[k]])
			}
			step := b.Mul(e.scale, x)
			if kind == 1 {
				step = b.Mul(step, v)
			}
			b.SetAdd(v, v, b.Select(p.running, step, zero))
		})
	}
	if y := e.solver.sharing; y != nil {
		delta := e.unknown[0][e.solver.net.Slack]
		b.SetAdd(y.delta, y.delta, b.Select(p.running, b.Mul(e.scale, e.x[delta:delta+1]), zero))
	}
}

// adjoint writes the solve with the transposed factors, for gradients by the unknowns.
func (e *elimination) adjoint(b *lanes.Builder) {
	b.Copy(e.x, e.solver.sharing.gradient)
	byLevel := e.byLevel()
	for _, level := range byLevel {
		for _, k := range level {
			b.SetMul(e.x[k:k+1], e.x[k:k+1], e.inverse[k:k+1])
		}
		for _, k := range level {
			for _, j := range e.rowPattern(k) {
				b.SetFNMA(e.x[j:j+1], cell(e.current[[2]int{k, j}]), e.x[k:k+1], e.x[j:j+1])
			}
		}
	}
	for l := e.levels - 1; l >= 0; l-- {
		for _, k := range byLevel[l] {
			for _, i := range e.columnPattern(k) {
				b.SetFNMA(e.x[k:k+1], cell(e.factor[[2]int{i, k}]), e.x[i:i+1], e.x[k:k+1])
			}
		}
	}
}
