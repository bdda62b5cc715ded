package powerflow

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
)

// lanes are the outages of a batch, one in each lane of a register.
const lanes = 4

// laneStride is the distance of two positions' numbers in right-hand sides of lanes: the first in every lane, then the second.
const laneStride = 2 * lanes

// quad is two numbers in every lane: angle and magnitude of a voltage, its parts, or active and reactive power.
type quad [2][lanes]float64

// batch solves outages of one branch or unit side by side. Each step reads the base's factors, admittances and injections once for
// all lanes. A lane does what compensate does, in full steps; other outages are left to that.
type batch struct {
	queues               [2][]int // branches and units whose outages come next
	kind                 int      // of elements
	elements             []int    // of the lanes
	outages              [lanes]laneOutage
	x                    []float64 // right-hand side and step
	voltages, v          []quad    // also in rectangular form
	injections           []quad
	specified            []quad         // injections
	masks                [][lanes]int64 // by bus: -1 where a lane specifies the reactive one too, else 0
	state, base          []quad         // the four above, now and in the base
	baseMasks            [][lanes]int64
	steps                [][]float64
	lengths              [][lanes]float64 // squared, of these steps; +Inf of those before the last switch
	unsolved             [lanes]bool      // lanes that take steps
	factor, worst, total [lanes]float64
	switched             []int32 // in any lane
}

// Kinds of a batch.
const (
	branchOutages = iota
	unitOutages
)

// laneOutage is the outage of a lane, with the solver's state in it.
type laneOutage struct {
	*correction
	kind        []network.Kind
	atLimit     []int8
	released    []uint8
	qs          []float64
	bus         int     // of a unit; -1 of a branch
	qlo, qhi    float64 // that remain there
	dark        []int   // buses that the branch cuts off
	out         Solution
	steps, slow int  // as of iterate
	solved      bool // else Without solves it
}

// swap exchanges a lane's state and the solver's.
func (o *Outages) swap(y *laneOutage) {
	s := o.s
	o.correction, y.correction = y.correction, o.correction
	s.kind, y.kind = y.kind, s.kind
	s.atLimit, y.atLimit = y.atLimit, s.atLimit
	s.released, y.released = y.released, s.released
	s.qs, y.qs = y.qs, s.qs
	if y.bus >= 0 {
		s.qlo[y.bus], y.qlo = y.qlo, s.qlo[y.bus]
		s.qhi[y.bus], y.qhi = y.qhi, s.qhi[y.bus]
	}
}

// Ahead says which outages Branch and Unit are asked for next, in which order of each. They solve them side by side.
func (o *Outages) Ahead(branches, units []int) {
	s := o.s
	if !vectors || s.rounded || len(s.unknown)+len(s.net.References) != len(s.position) {
		return
	}
	if o.batch == nil {
		buses := len(s.position)
		b := &batch{x: make([]float64, laneStride*s.lu.n), state: make([]quad, 4*buses), base: make([]quad, 4*buses), masks: make([][lanes]int64, buses), baseMasks: make([][lanes]int64, buses)}
		b.voltages, b.v, b.injections, b.specified = b.state[:buses], b.state[buses:][:buses], b.state[2*buses:][:buses], b.state[3*buses:]
		for k, v := range o.v {
			for i, x := range [4][2]float64{{o.base.Va[k], o.base.Vm[k]}, v, {o.p[k], o.q[k]}, {o.ps[k], o.qs[k]}} {
				for lane := range lanes {
					b.base[i*buses+k][0][lane], b.base[i*buses+k][1][lane] = x[0], x[1]
				}
			}
			if o.kinds[k] == network.PQ {
				b.baseMasks[k] = [lanes]int64{-1, -1, -1, -1}
			}
		}
		for i := range b.outages {
			b.outages[i] = laneOutage{correction: &correction{}, kind: slices.Clone(s.kind), atLimit: slices.Clone(s.atLimit),
				released: slices.Clone(s.released), qs: slices.Clone(s.qs)}
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
	copy(b.state, b.base)
	copy(b.masks, b.baseMasks)
	b.lengths, b.unsolved, b.worst = b.lengths[:0], [lanes]bool{}, [lanes]float64{}
	for lane, element := range b.elements {
		y := &b.outages[lane]
		y.bus, y.dark, y.out = -1, nil, Solution{}
		y.solved, y.steps, y.slow = false, 0, 0
		o.swap(y)
		o.restoreBase()
		for _, m := range o.switched {
			if !o.opt.EnforceQ { // no other outage needs them
				o.responses.left[m], o.responses.right[m] = sparse{}, sparse{}
			}
		}
		if o.respond(kind == unitOutages); kind == branchOutages {
			b.unsolved[lane] = o.loseBranch(lane, element)
		} else {
			b.unsolved[lane] = o.loseUnit(lane, element)
		}
		o.swap(y)
	}
	if kind == unitOutages {
		o.evaluate(false)
		o.settle()
	}
	for slices.Contains(b.unsolved[:], true) {
		forwardLanesAVX2(lu.start, lu.row, lu.data[4*lu.lower(0):], b.x)
		for lane, unsolved := range b.unsolved {
			if unsolved {
				b.correct(o.responses, lane)
			}
		}
		for _, m := range b.switched {
			term, right := &o.responses.terms[m], &o.responses.right[m]
			addLanesAVX2(right.positions, right.values, b.x, &term.factors)
			*term = laneTerm{}
		}
		b.switched = b.switched[:0]
		backwardLanesAVX2(lu.start, lu.row, lu.data[4*lu.upper(0):], lu.inverse, b.x)
		for lane := range b.elements { // as freezeIsland
			for _, bus := range b.outages[lane].dark {
				x := b.x[laneStride*int(s.position[bus])+lane:]
				x[0], x[lanes] = 0, 0
			}
		}
		b.broyden()
		largest, previous := b.move(s), b.worst
		o.evaluate(true)
		for lane, unsolved := range b.unsolved {
			y := &b.outages[lane]
			if !unsolved {
				continue
			}
			if y.out.Iterations++; !(b.worst[lane] < previous[lane]/2) {
				y.slow++
			}
			y.steps++
			slow := !(b.worst[lane] <= o.small()) && (y.slow == slowSteps || y.steps == compensatedSteps)
			b.unsolved[lane] = !slow && b.total[lane] == b.total[lane] && largest[0][lane] <= laneAngle && largest[1][lane] <= MaxMagnitudeStep
		}
		o.settle()
	}
}

// correct does in a lane what Outages.solve does, but for the right vectors of switched buses, whose factors it writes.
func (b *batch) correct(r *responses, lane int) {
	c := b.outages[lane].correction
	c.y = c.y[:0]
	for _, m := range c.switched {
		term := &r.terms[m]
		if !term.used {
			timesLanesAVX2(r.left[m].positions, r.left[m].values, b.x, &term.products)
			term.used, b.switched = true, append(b.switched, m)
		}
		c.y = append(c.y, term.products[lane])
	}
	c.apply(b.x[lane:], laneStride)
	for t, m := range c.switched {
		r.terms[m].factors[lane] = -c.y[t]
	}
}

// evaluate writes the mismatches of all lanes, and their injections where these are not those of the voltages.
func (o *Outages) evaluate(inject bool) {
	b, s := o.batch, o.s
	if inject {
		injectLanesAVX2(o.rows.first, o.rows.entry, b.v, b.voltages, s.gd, s.bd, b.injections)
		for lane := 0; lane < len(b.elements) && b.kind == branchOutages; lane++ {
			b.disconnect(s, lane)
		}
	}
	mismatchLanesAVX2(s.position, b.masks, b.specified, b.injections, b.x, negligible*cmp.Or(o.opt.Tolerance, DefaultTolerance), &b.worst, &b.total)
}

// settle switches buses of lanes, as iterate does, and ends those where none does and that are solved.
func (o *Outages) settle() {
	b, s := o.batch, o.s
	change, inject := false, false
	for lane, unsolved := range b.unsolved {
		y := &b.outages[lane]
		margin := o.margin(b.worst[lane])
		switch {
		case !unsolved || margin == 0:
		case o.opt.EnforceQ && o.enforce(lane, margin):
			change, y.steps, y.slow = true, 0, 0
			for i := range b.lengths {
				b.lengths[i][lane] = math.Inf(1)
			}
			for _, bus := range o.responses.buses { // as release
				if voltage := &b.voltages[bus]; y.released[bus] > 0 && y.kind[bus] == network.PV {
					sin, cos := math.Sincos(voltage[0][lane])
					inject, voltage[1][lane] = true, s.vset[bus]
					b.v[bus][0][lane], b.v[bus][1][lane] = s.vset[bus]*cos, s.vset[bus]*sin
				}
			}
		case b.worst[lane] <= cmp.Or(o.opt.Tolerance, DefaultTolerance):
			y.solved, b.unsolved[lane] = true, false
		}
	}
	if change {
		o.evaluate(inject)
	}
}

// enforce switches buses of a lane, and reports whether any did.
func (o *Outages) enforce(lane int, margin float64) bool {
	b, s, y := o.batch, o.s, &o.batch.outages[lane]
	for _, k := range s.generators {
		bus := s.unknown[k]
		s.q[bus], s.vm[bus] = b.injections[bus][1][lane], b.voltages[bus][1][lane]
	}
	o.swap(y)
	defer o.swap(y)
	o.markIsland(y.dark)
	switched := s.enforce(&y.out, margin)
	if o.unmarkIsland(y.dark); switched {
		b.unsolved[lane] = o.follow()
		for _, bus := range o.responses.buses {
			o.specify(lane, int(bus))
		}
	}
	return switched
}

// specify takes the solver's reactive injection and kind of a bus.
func (o *Outages) specify(lane, bus int) {
	b, s := o.batch, o.s
	b.specified[bus][1][lane] = s.qs[bus]
	if b.masks[bus][lane] = 0; s.kind[bus] == network.PQ {
		b.masks[bus][lane] = -1
	}
}

// loseBranch prepares a lane, whose state the solver has, for the outage of a branch, and reports whether it did.
func (o *Outages) loseBranch(lane, branch int) bool {
	y, c := &o.batch.outages[lane], &o.changes[0]
	y.dark = o.cutOff(branch)
	o.markIsland(y.dark)
	changes := o.change(branch, c)
	if o.unmarkIsland(y.dark); !changes {
		return false
	}
	o.count = 1
	o.invert()
	for i := range c.n {
		o.batch.x[laneStride*(c.row[i]/2)+lanes*(c.row[i]%2)+lane] = c.mismatch[i]
		o.batch.worst[lane] = max(o.batch.worst[lane], math.Abs(c.mismatch[i]))
	}
	return o.follow()
}

// loseUnit prepares a lane, whose state the solver has, for the outage of a unit, and reports whether it did.
func (o *Outages) loseUnit(lane, unit int) bool {
	s, y := o.s, &o.batch.outages[lane]
	bus := s.net.GenBus[unit]
	_, compatible, restore := o.takeOut([]int{unit})
	o.specify(lane, bus)
	o.batch.specified[bus][0][lane], s.ps[bus] = s.ps[bus], o.ps[bus]
	qlo, qhi := s.qlo[bus], s.qhi[bus]
	restore()
	y.bus, y.qlo, y.qhi = bus, s.qlo[bus], s.qhi[bus]
	s.qlo[bus], s.qhi[bus] = qlo, qhi // as swap wants them
	return compatible && o.follow()
}

// broyden is Outages.broyden in every lane. Its last factor is left to move, and is 0 in lanes that take no step.
func (b *batch) broyden() {
	var share [lanes]float64
	for j, length := range b.lengths {
		if slices.Min(length[:]) == math.Inf(1) {
			continue
		}
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
		b.steps = append(b.steps, make([]float64, len(b.x)))
	}
	b.steps[n], b.x = b.x, b.steps[n] // which is written before it is read
	return largest
}

// disconnect takes the flow of a lane's branch out of the injections at its ends.
func (b *batch) disconnect(s *Solver, lane int) {
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

// batched writes the outage of an element from the batch, where it is solved there.
func (o *Outages) batched(kind, element int, out *Solution) bool {
	b, s := o.batch, o.s
	if b == nil {
		return false
	}
	if queue := b.queues[kind]; len(queue) > 0 && queue[0] == element {
		o.solveBatch(kind)
	}
	lane := slices.Index(b.elements, element)
	if lane < 0 || b.kind != kind || !b.outages[lane].solved {
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
		defer s.takeOut([]int{element})()
	}
	copy(s.atLimit, y.atLimit)
	out.Iterations, out.Mismatch, out.Switches = y.out.Iterations, b.worst[lane], y.out.Switches
	o.finish(out)
	o.clearIsland(y.dark, out)
	if kind == unitOutages {
		out.Pg[element], out.Qg[element] = 0, 0
	}
	return true
}
