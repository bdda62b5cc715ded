package opf

import (
	"cmp"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
)

// devicePattern is the Jacobian of the power flow in scalars, as the device functions
// eliminate them: the unknowns are the angle of every bus but the reference and the
// voltage of every bus without a unit, bus by bus in an order of elimination of their own.
// The equation of P_i stands in the row of θ_i, that of Q_i in the row of V_i. Behind the
// factors lie derivatives that are not eliminated: of the equations in the V_G, and of what
// limits bound and no equation holds, the Q of buses with a unit and the P of the reference.
type devicePattern struct {
	n                          int
	rowStart, column, diagonal []int32         // L and U together, columns ascending
	angle, size                []int           // row of θ_i and of V_i of each bus, −1: none
	values                     int             // factors and the derivatives behind them
	columns                    [][]columnEntry // by unit
	outputs                    [][]columnEntry // by twice the bus, 1 more of its Q
	extra                      map[[2]int]int32
	unit                       []int
	slack                      int
	// Places of values of which a program is made besides: the inverse of every diagonal
	// entry, the right-hand side, 0 and 1.
	inverse, rhs, zero, one, all int32
}

// columnEntry is a derivative behind the factors: of an equation in a V_G with the row of
// the equation, of an output with the row of the response that it is multiplied by.
type columnEntry struct{ row, place int32 }

// rowOf is the row of the response with a bus's angle or magnitude, −1 where nothing
// changes it: the unknowns, a row of zeros, the V_G by unit.
func (p *devicePattern) rowOf(bus int, magnitude bool) int {
	switch {
	case !magnitude:
		return p.angle[bus]
	case p.unit[bus] >= 0:
		return p.n + 1 + p.unit[bus]
	}
	return p.size[bus]
}

// shallowOrder orders buses for elimination: those of few neighbours first, as package powerflow
// does, of those the ones that wait for few others. Rounds are as many as wait for one another.
func shallowOrder(n *network.Network, buses []int32) (order []int32) {
	adjacent, depth := map[int32]map[int32]bool{}, map[int32]int{}
	for _, b := range buses {
		adjacent[b] = map[int32]bool{}
	}
	join := func(a, b int32) {
		if a != b && adjacent[a] != nil && adjacent[b] != nil {
			adjacent[a][b], adjacent[b][a] = true, true
		}
	}
	for k, f := range n.From {
		join(int32(f), int32(n.To[k]))
	}
	for remaining := slices.Clone(buses); len(remaining) > 0; {
		next := slices.MinFunc(remaining, func(a, b int32) int { return cmp.Compare(2*len(adjacent[a])+depth[a], 2*len(adjacent[b])+depth[b]) })
		remaining = slices.DeleteFunc(remaining, func(b int32) bool { return b == next })
		order = append(order, next)
		for a := range adjacent[next] {
			delete(adjacent[a], next)
			depth[a] = max(depth[a], depth[next]+1)
			for b := range adjacent[next] {
				join(a, b)
			}
		}
	}
	return order
}

func newDevicePattern(y *System) *devicePattern {
	n, m := y.Network, &y.model
	p := &devicePattern{
		angle: slices.Repeat([]int{-1}, n.Buses()), size: slices.Repeat([]int{-1}, n.Buses()),
		columns: make([][]columnEntry, n.Gens()), outputs: make([][]columnEntry, 2*n.Buses()), extra: map[[2]int]int32{}, unit: m.unit, slack: n.Slack,
	}
	for _, b := range shallowOrder(n, m.solver.Order()) {
		p.angle[b] = p.n
		p.n++
		if m.unit[b] < 0 {
			p.size[b] = p.n
			p.n++
		}
	}
	coupled := make([]map[int]bool, p.n) // with later unknowns, the fill included
	for i := range coupled {
		coupled[i] = map[int]bool{}
	}
	join := func(a, b int) {
		for _, i := range [2]int{p.angle[a], p.size[a]} {
			for _, j := range [2]int{p.angle[b], p.size[b]} {
				if i >= 0 && j >= 0 && i != j {
					coupled[min(i, j)][max(i, j)] = true
				}
			}
		}
	}
	for b := range p.angle {
		join(b, b)
	}
	for k, f := range n.From {
		join(f, n.To[k])
	}
	rows := make([][]int32, p.n)
	for i, later := range coupled {
		for a := range later {
			for b := range later {
				if a < b {
					coupled[a][b] = true
				}
			}
			rows[i], rows[a] = append(rows[i], int32(a)), append(rows[a], int32(i))
		}
		rows[i] = append(rows[i], int32(i))
	}
	for i := range rows {
		slices.Sort(rows[i])
	}
	p.rowStart, p.column = lists(rows)
	for i, row := range rows {
		index, _ := slices.BinarySearch(row, int32(i))
		p.diagonal = append(p.diagonal, p.rowStart[i]+int32(index))
	}
	p.values = len(p.column)
	return p
}

// find is the place of entry (i, j), −1 outside the pattern.
func (p *devicePattern) find(i, j int) int32 {
	index, ok := slices.BinarySearch(p.column[p.rowStart[i]:p.rowStart[i+1]], int32(j))
	if !ok {
		return -1
	}
	return p.rowStart[i] + int32(index)
}

// position is the place of the derivative of P or Q of a bus in θ or V of another, −1
// where nobody reads it: neither an equation nor a limit, or nothing changes it.
func (p *devicePattern) position(bus int, reactive bool, other int, magnitude bool) int32 {
	row, output := p.angle[bus], 2*bus
	if reactive {
		row, output = p.size[bus], 2*bus+1
	}
	column := p.rowOf(other, magnitude)
	switch {
	case column < 0 || row < 0 && !reactive && bus != p.slack:
		return -1
	case row >= 0 && column < p.n:
		return p.find(row, column)
	case row < 0:
		row = -1 - output
	}
	index, ok := p.extra[[2]int{row, column}]
	if !ok {
		index = int32(p.values)
		p.values++
		p.extra[[2]int{row, column}] = index
		if row >= 0 {
			g := column - p.n - 1
			p.columns[g] = append(p.columns[g], columnEntry{int32(row), index})
		} else {
			p.outputs[output] = append(p.outputs[output], columnEntry{int32(column), index})
		}
	}
	return index
}

// block are the places of ∂(P, Q) of a bus by (θ, V) of another.
func (p *devicePattern) block(bus, other int) []int32 {
	return []int32{p.position(bus, false, other, false), p.position(bus, false, other, true), p.position(bus, true, other, false), p.position(bus, true, other, true)}
}

// close ends the places of derivatives: those of a program's own lie behind them.
func (p *devicePattern) close() {
	p.inverse = int32(p.values)
	p.rhs = p.inverse + int32(p.n)
	p.zero = p.rhs + int32(p.n)
	p.one, p.all = p.zero+1, p.zero+2
}

// deviceProgram is the LU factorisation of one pattern, and the solves with it, as lanes
// side by side run them, in rounds of at most 32 tasks, all of one shape:
//
//	v[out] = (v[place] − Σ four products v·v) · v[scale], or the inverse of the bracket
//
// A task reads nothing that its round writes. The products of an entry are taken as they
// become ready, so that the last task of an entry has few and a round is short. The
// factorisation takes the right-hand side along as one column more.
type deviceProgram struct {
	tasks                     []deviceTask
	start                     []int32 // first task of each round, then the end
	factor, forward, backward int     // rounds
}

const (
	taskProducts = 4
	roundTasks   = 32
)

type deviceTask struct {
	place, out, scale int32
	invert            bool
	products          [taskProducts][2]int32
}

// deviceStep computes one entry of the factors or of a right-hand side.
type deviceStep struct {
	deviceTask
	pending [][2]int32
	height  int // steps that wait for it one after the other
}

func newDeviceProgram(f *devicePattern) *deviceProgram {
	p := &deviceProgram{start: []int32{0}}
	var factor, forward, backward []deviceStep
	for i := range f.n {
		substitution := deviceStep{deviceTask: deviceTask{place: f.rhs + int32(i), out: f.rhs + int32(i), scale: f.one}}
		for index := f.rowStart[i]; index < f.rowStart[i+1]; index++ {
			j := int(f.column[index])
			s := deviceStep{deviceTask: deviceTask{place: index, out: index, scale: f.one}}
			for l := f.rowStart[i]; int(f.column[l]) < min(i, j); l++ {
				if u := f.find(int(f.column[l]), j); u >= 0 {
					s.pending = append(s.pending, [2]int32{l, u})
				}
			}
			switch {
			case j < i:
				s.scale = f.inverse + int32(j)
				substitution.pending = append(substitution.pending, [2]int32{index, f.rhs + int32(j)})
			case j == i:
				s.out, s.invert = f.inverse+int32(i), true
			case len(s.pending) == 0:
				continue
			}
			factor = append(factor, s)
		}
		if len(substitution.pending) > 0 {
			forward = append(forward, substitution)
			factor = append(factor, substitution)
		}
	}
	for i := f.n - 1; i >= 0; i-- {
		s := deviceStep{deviceTask: deviceTask{place: f.rhs + int32(i), out: f.rhs + int32(i), scale: f.inverse + int32(i)}}
		for index := f.diagonal[i] + 1; index < f.rowStart[i+1]; index++ {
			s.pending = append(s.pending, [2]int32{index, f.rhs + f.column[index]})
		}
		backward = append(backward, s)
	}
	p.factor, p.forward, p.backward = p.schedule(f, factor), p.schedule(f, forward), p.schedule(f, backward)
	return p
}

// schedule appends the rounds of steps, which stand in an order of what they need, and
// returns how many there are.
func (p *deviceProgram) schedule(f *devicePattern, steps []deviceStep) (rounds int) {
	maker := make([]int, f.all) // of a place: 1 more than the step that is yet to write it
	for i := range steps {
		maker[steps[i].out] = i + 1
	}
	for i := len(steps) - 1; i >= 0; i-- {
		s := &steps[i]
		wait := func(place int32) {
			if k := maker[place] - 1; k >= 0 && k != i {
				steps[k].height = max(steps[k].height, s.height+1)
			}
		}
		for _, pair := range s.pending {
			wait(pair[0])
			wait(pair[1])
		}
		wait(s.scale)
		for k := range s.products {
			s.products[k] = [2]int32{f.zero, f.zero}
		}
	}
	remaining := make([]int, len(steps))
	for i := range remaining {
		remaining[i] = i
	}
	slices.SortStableFunc(remaining, func(a, b int) int { return cmp.Compare(steps[b].height, steps[a].height) })
	for ; len(remaining) > 0; rounds++ {
		var outputs []int32
		count, next := 0, remaining[:0]
		for _, i := range remaining {
			s := &steps[i]
			finished := false
			if count < roundTasks {
				var task deviceTask
				var ok bool
				if task, finished, ok = s.take(f, maker); ok {
					p.tasks = append(p.tasks, task)
					count++
				}
			}
			if finished {
				outputs = append(outputs, s.out)
			} else {
				next = append(next, i)
			}
		}
		remaining = next
		for _, place := range outputs {
			maker[place] = 0
		}
		p.start = append(p.start, int32(len(p.tasks)))
	}
	return rounds
}

// take is the next task of a step with what is ready: there is none where it would make the
// step longer, and finished says that it is the last.
func (s *deviceStep) take(f *devicePattern, maker []int) (task deviceTask, finished, ok bool) {
	task = s.deviceTask
	tasks := func(products int) int { return (products + taskProducts - 1) / taskProducts }
	n, next := 0, make([][2]int32, 0, len(s.pending))
	for _, pair := range s.pending {
		if n < taskProducts && maker[pair[0]] == 0 && maker[pair[1]] == 0 {
			task.products[n] = pair
			n++
		} else {
			next = append(next, pair)
		}
	}
	finished = len(next) == 0 && maker[s.scale] == 0
	if !finished && (len(next) == 0 || tasks(len(next)) == tasks(len(s.pending))) {
		return task, false, false
	}
	if !finished {
		task.out, task.scale, task.invert = s.place, f.one, false
	}
	s.pending = next
	return task, finished, true
}

// pack writes the tasks in columns of two words each: where the sum is read and goes, with the
// scale, negative for an inversion; two products; two more. Two places of a word have 16 bits each.
func (p *deviceProgram) pack() []int32 {
	words := make([]int32, (2+taskProducts)*len(p.tasks))
	two := func(places [2]int32) int32 { return int32(uint32(places[0]) | uint32(places[1])<<16) }
	for i, t := range p.tasks {
		scale := t.scale
		if t.invert {
			scale = -1
		}
		task := [2 + taskProducts]int32{two([2]int32{t.place, t.out}), scale}
		for k, pair := range t.products {
			task[2+k] = two(pair)
		}
		for k, word := range task {
			words[k/2*2*len(p.tasks)+2*i+k%2] = word
		}
	}
	return words
}
