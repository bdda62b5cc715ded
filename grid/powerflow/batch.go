package powerflow

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
)

// lanes are the outages of a batch, one in each lane of a register.
const lanes = 4

// quad is two numbers in every lane: angle and magnitude of a voltage, its parts, or active and reactive power.
type quad [2][lanes]float64

// batch solves outages of one branch or unit side by side. Each step reads the base's factors, admittances and injections once for
// all lanes. A lane does what compensate does, in full steps while no bus switches; other outages are left to that.
type batch struct {
	queues               [2][]int // branches and units whose outages come next
	kind                 int      // of elements
	elements             []int    // of the lanes
	outages              [lanes]laneOutage
	x, voltages, v       []quad // right-hand side and step; voltages, also in rectangular form
	injections           []quad
	baseVoltages, baseV  []quad
	steps                [][]quad
	lengths              [][lanes]float64 // squared, of these steps
	unsolved             [lanes]bool      // lanes that take steps
	factor, worst, total [lanes]float64
}

// Kinds of a batch.
const (
	branchOutages = iota
	unitOutages
)

// laneOutage is the outage of a lane. The bus of a unit that becomes PQ is in the first column of the halves.
type laneOutage struct {
	change
	correction      [columns][columns]float64 // (I + C·Z)⁻¹C of Outages.solve
	dark            []int                     // buses that the branch cuts off
	bus             int                       // of a unit
	power, reactive float64                   // what the bus's injections lack
	released        bool                      // the bus becomes PQ
	iterations      int                       // 0: it is left to Without from the base on
	solved          bool                      // else Without continues it
	mismatch        float64
}

// Ahead says which outages Branch and Unit are asked for next, in which order of each. They solve them side by side.
func (o *Outages) Ahead(branches, units []int) {
	s := o.s
	if !vectors || s.rounded || len(s.unknown)+len(s.net.References) != len(s.position) {
		return
	}
	if o.batch == nil {
		buses := len(s.position)
		b := &batch{x: make([]quad, s.lu.n), voltages: make([]quad, buses), v: make([]quad, buses), injections: make([]quad, buses),
			baseVoltages: make([]quad, buses), baseV: make([]quad, buses)}
		for k, v := range o.v {
			for lane := range lanes {
				b.baseVoltages[k][0][lane], b.baseVoltages[k][1][lane] = o.base.Va[k], o.base.Vm[k]
				b.baseV[k][0][lane], b.baseV[k][1][lane] = v[0], v[1]
			}
		}
		for i := range b.outages {
			b.outages[i].lower, b.outages[i].upper = make([]half, s.lu.n), make([]half, s.lu.n)
		}
		o.batch = b
	}
	o.batch.queues = [2][]int{slices.Clone(branches), slices.DeleteFunc(slices.Clone(units), func(unit int) bool {
		return s.position[s.net.GenBus[unit]] < 0
	})}
}

// solveBatch solves the outages of a kind that come next.
func (o *Outages) solveBatch(kind int) {
	b, s, lu := o.batch, o.s, o.s.lu
	n := min(lanes, len(b.queues[kind]))
	b.kind, b.elements, b.queues[kind] = kind, b.queues[kind][:n], b.queues[kind][n:]
	o.restoreBase()
	clear(b.x)
	copy(b.voltages, b.baseVoltages)
	copy(b.v, b.baseV)
	b.lengths, b.unsolved = b.lengths[:0], [lanes]bool{}
	tolerance := cmp.Or(o.opt.Tolerance, DefaultTolerance)
	for lane, element := range b.elements {
		if b.outages[lane].iterations = 0; kind == branchOutages {
			b.unsolved[lane] = o.loseBranch(lane, element)
		} else {
			b.unsolved[lane] = o.loseUnit(lane, element, tolerance)
		}
	}
	for step := 1; step <= compensatedSteps && slices.Contains(b.unsolved[:], true); step++ {
		forwardLanesAVX2(lu.start, lu.row, lu.data[4*lu.lower(0):], b.x)
		for lane, unsolved := range b.unsolved {
			if unsolved {
				b.correct(lane)
			}
		}
		backwardLanesAVX2(lu.start, lu.row, lu.data[4*lu.upper(0):], lu.inverse, b.x)
		for lane := range b.elements { // as freezeIsland
			for _, bus := range b.outages[lane].dark {
				x := &b.x[s.position[bus]]
				x[0][lane], x[1][lane] = 0, 0
			}
		}
		b.broyden()
		largest := b.move(s)
		injectLanesAVX2(o.rows.first, o.rows.entry, b.v, b.voltages, s.gd, s.bd, b.injections)
		for lane := range b.elements {
			b.disconnect(s, lane)
		}
		mismatchLanesAVX2(s.position, s.kind, s.ps, s.qs, b.injections, b.x, negligible*tolerance, &b.worst, &b.total)
		for lane, unsolved := range b.unsolved {
			y := &b.outages[lane]
			if !unsolved {
				continue
			}
			if kind == unitOutages && y.released {
				d := s.qs[y.bus] - b.injections[y.bus][1][lane]
				b.x[s.position[y.bus]][1][lane] = d
				b.worst[lane], b.total[lane] = max(b.worst[lane], math.Abs(d)), b.total[lane]+d
			}
			y.mismatch, y.solved = b.worst[lane], b.worst[lane] <= tolerance
			switch regular := b.total[lane] == b.total[lane] && largest[0][lane] <= laneAngle && largest[1][lane] <= MaxMagnitudeStep; {
			case !regular:
				b.unsolved[lane] = false
			case o.opt.EnforceQ && o.switches(lane):
				y.solved = false
				fallthrough
			case y.solved:
				y.iterations, b.unsolved[lane] = step, false
			}
		}
	}
}

// switches says whether a bus of a lane has to switch, as Solver.enforce does it. That of a unit that is out is left to that.
func (o *Outages) switches(lane int) bool {
	b, s, y := o.batch, o.s, &o.batch.outages[lane]
	margin := o.margin(y.mismatch)
	if margin == 0 {
		return false
	}
	for _, k := range s.generators {
		bus := s.unknown[k]
		q, v := b.injections[bus][1][lane]-s.qs[bus], b.voltages[bus][1][lane]
		switch {
		case b.kind == unitOutages && int(bus) == y.bus, slices.Contains(y.dark, int(bus)):
		case s.kind[bus] == network.PV && (q > s.qhi[bus]+margin || q < s.qlo[bus]-margin),
			s.kind[bus] != network.PV && s.atLimit[bus] != 0 && float64(s.atLimit[bus])*(v-s.vset[bus]) > voltageSlack*margin:
			return true
		}
	}
	return false
}

// loseBranch prepares a lane for the outage of a branch, and reports whether it did.
func (o *Outages) loseBranch(lane, branch int) bool {
	b, c, y := o.batch, &o.changes[0], &o.batch.outages[lane]
	o.count = 0
	o.responses.reset()
	y.dark = o.cutOff(branch)
	o.markIsland(y.dark)
	changes := o.change(branch, c)
	if o.unmarkIsland(y.dark); !changes {
		return false
	}
	o.count = 1
	if o.invert(); !o.responses.follow(o) {
		return false
	}
	for j := range columns {
		var column [maxRows]float64
		for i := range columns {
			column[i] = c.entries[i][j]
		}
		o.factors.solve(&column)
		for i := range columns {
			y.correction[i][j] = column[i]
		}
	}
	for i := range c.n {
		b.x[c.row[i]/2][c.row[i]%2][lane] = c.mismatch[i]
	}
	y.change, *c = *c, y.change
	return true
}

// loseUnit prepares a lane for the outage of a unit, and reports whether it did.
func (o *Outages) loseUnit(lane, unit int, tolerance float64) bool {
	s, y := o.s, &o.batch.outages[lane]
	if o.responses.number == nil {
		o.responses = o.newResponses()
	}
	bus, r := s.net.GenBus[unit], o.responses
	_, compatible, restore := o.takeOut([]int{unit})
	restore()
	y.dark, y.bus, y.released = nil, bus, s.kind[bus] != o.kinds[bus]
	y.power, y.reactive = s.ps[bus]-o.ps[bus], s.qs[bus]-o.qs[bus]
	d := [2]float64{s.ps[bus] - o.p[bus], s.qs[bus] - o.q[bus]}
	if s.kind[bus] != network.PQ {
		d[1] = 0
	}
	o.restoreBase()
	if !compatible || math.Abs(d[0]) <= tolerance && math.Abs(d[1]) <= tolerance {
		return false
	}
	k := s.position[bus]
	o.batch.x[k][0][lane], o.batch.x[k][1][lane] = d[0], d[1]
	if y.correction = [columns][columns]float64{}; !y.released {
		return true
	}
	y.path = r.halves(s, r.number[bus], y.lower, y.upper, y.path)
	product := 0.0
	for _, k := range y.path {
		product += y.upper[k][0]*y.lower[k][0] + y.upper[k][columns]*y.lower[k][columns]
	}
	y.correction[0][0] = 1 / (1 + product)
	return true
}

// correct takes what a lane's branch changes out of A⁻¹ times the right-hand side, as Outages.solve does.
func (b *batch) correct(lane int) {
	c := &b.outages[lane]
	var u, y [columns]float64
	for _, k := range c.path {
		z, x := &c.upper[k], &b.x[k]
		x0, x1 := x[0][lane], x[1][lane]
		for i := range u {
			u[i] += z[i]*x0 + z[columns+i]*x1
		}
	}
	for i := range y {
		m := &c.correction[i]
		y[i] = m[0]*u[0] + m[1]*u[1] + m[2]*u[2] + m[3]*u[3]
	}
	for _, k := range c.path {
		z, x := &c.lower[k], &b.x[k]
		x[0][lane] -= z[0]*y[0] + z[1]*y[1] + z[2]*y[2] + z[3]*y[3]
		x[1][lane] -= z[4]*y[0] + z[5]*y[1] + z[6]*y[2] + z[7]*y[3]
	}
}

// broyden is Outages.broyden in every lane. Its last factor is left to move, and is 0 in lanes that take no step.
func (b *batch) broyden() {
	var share [lanes]float64
	for j, length := range b.lengths {
		addDotLanesAVX2(b.x, &share, b.steps[j], &b.total)
		for lane, unsolved := range b.unsolved {
			if share[lane] = 0; unsolved {
				share[lane] = b.total[lane] / length[lane]
			}
		}
	}
	for lane, unsolved := range b.unsolved {
		if b.factor[lane] = 0; unsolved {
			b.factor[lane] = 1 / (1 - share[lane])
		}
	}
}

// laneAngle (rad) bounds the angles of laneTerms, whose truncation error is below 1e-15.
const laneAngle = 1.1

// laneTerms are the terms of sin d/d, then those of cos d, in every lane, the last first.
var laneTerms = func() (list [18][lanes]float64) {
	sin, cos := 1.0, 1.0
	for k := range 9 {
		for lane := range lanes {
			list[8-k][lane], list[17-k][lane] = sin, cos
		}
		n := float64(2 * k)
		cos /= -(n + 1) * (n + 2)
		sin /= -(n + 2) * (n + 3)
	}
	return list
}()

// move takes the steps, and returns the largest angle and magnitude of each.
func (b *batch) move(s *Solver) (largest quad) {
	var length [lanes]float64
	moveLanesAVX2(s.position, b.x, &b.factor, b.voltages, b.v, &laneTerms, &largest, &length)
	n := len(b.lengths)
	if b.lengths = append(b.lengths, length); n == len(b.steps) {
		b.steps = append(b.steps, make([]quad, len(b.x)))
	}
	b.steps[n], b.x = b.x, b.steps[n] // which is written before it is read
	return largest
}

// disconnect takes the flow of a lane's branch out of the injections at its ends, or adds what its unit's bus lacks.
func (b *batch) disconnect(s *Solver, lane int) {
	if b.kind == unitOutages {
		y := &b.outages[lane]
		b.injections[y.bus][0][lane] -= y.power
		b.injections[y.bus][1][lane] -= y.reactive
		return
	}
	branch, y := b.elements[lane], s.admittance
	i, j := s.net.From[branch], s.net.To[branch]
	v, w := &b.v[i], &b.v[j]
	c := v[0][lane]*w[0][lane] + v[1][lane]*w[1][lane]
	d := v[1][lane]*w[0][lane] - v[0][lane]*w[1][lane]
	v2, w2 := b.voltages[i][1][lane], b.voltages[j][1][lane]
	v2, w2 = v2*v2, w2*w2
	first, second := &b.injections[i], &b.injections[j]
	first[0][lane] -= v2*y.Gff[branch] + y.Gft[branch]*c + y.Bft[branch]*d
	first[1][lane] -= y.Gft[branch]*d - v2*y.Bff[branch] - y.Bft[branch]*c
	second[0][lane] -= w2*y.Gtt[branch] + y.Gtf[branch]*c - y.Btf[branch]*d
	second[1][lane] += y.Gtf[branch]*d + w2*y.Btt[branch] + y.Btf[branch]*c
	for _, bus := range b.outages[lane].dark { // has no mismatch
		b.injections[bus][0][lane], b.injections[bus][1][lane] = s.ps[bus], s.qs[bus]
	}
}

// batched writes the outage of an element from the batch, where it is solved there and no bus switches.
func (o *Outages) batched(kind, element int, out *Solution) bool {
	b, s := o.batch, o.s
	if b == nil {
		return false
	}
	if queue := b.queues[kind]; len(queue) > 0 && queue[0] == element {
		o.solveBatch(kind)
	}
	lane := slices.Index(b.elements, element)
	if lane < 0 || b.kind != kind || b.outages[lane].iterations == 0 {
		return false
	}
	y := &b.outages[lane]
	s.reset(out)
	o.restoreBase()
	for k := range b.voltages {
		voltage, injection := &b.voltages[k], &b.injections[k]
		s.va[k], s.vm[k] = voltage[0][lane], voltage[1][lane]
		s.p[k], s.q[k] = injection[0][lane], injection[1][lane]
		o.rows.v[k] = [2]float64{b.v[k][0][lane], b.v[k][1][lane]}
	}
	if kind == unitOutages {
		_, _, restore := o.takeOut([]int{element})
		defer restore()
		s.p[y.bus], s.q[y.bus] = s.p[y.bus]+y.power, s.q[y.bus]+y.reactive
	}
	if !y.solved {
		o.laneSteps = y.iterations
		return false
	}
	if o.opt.EnforceQ && s.enforce(out, reactiveSlack) {
		return false
	}
	out.Iterations, out.Mismatch = y.iterations, y.mismatch
	o.finish(out)
	o.clearIsland(y.dark, out)
	if kind == unitOutages {
		out.Pg[element], out.Qg[element] = 0, 0
	}
	return true
}
