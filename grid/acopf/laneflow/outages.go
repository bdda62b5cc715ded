package laneflow

import (
	"cmp"
	"math"

	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// Outages solves the power flows without one branch each, as many at once as there are lanes. Newton's method starts
// at the base solution, with the admittances that remain. A lane that has finished takes the next outage. Outages
// that cut off buses, do not converge, or would switch a reactive limit go to powerflow.Outages. One goroutine uses
// it.
type Outages struct {
	w       *Worker
	scalar  *powerflow.Outages
	removed []removedBranch // by lane
	p, q    []float64
	vm, va  []float64
	flows   [2][]float64 // injections of a lane
	row     []int        // of the list, by lane
	e, f    []float64    // the base's voltages in rectangular form
}

// removedBranch records the cells that a branch's outage changed in a lane.
type removedBranch struct {
	cell  [8]lanes.Ref
	value [8]float64
	n     int
}

// Lanes get new outages once one in refill is free. Their mismatches are then computed again.
const refill = 4

// productsPerLane, times the lanes, is the largest number of block products of a factorisation for which lanes pay.
// Larger factors no longer fit the caches, and one base factorisation serves every outage of powerflow.Outages.
const productsPerLane = 1200

// ForOutages analyses a base's network for NewOutages. It is nil, without an error, where scalar outages are faster.
func ForOutages(scalar *powerflow.Outages) (*Solver, error) {
	level, err := isa.Choose()
	if err != nil || level == isa.Generic {
		return nil, err
	}
	width := lanes.Widths(level)[0]
	if scalar.Products() > productsPerLane*width {
		return nil, nil
	}
	return newSolver(scalar.Network(), nil, level, width, true)
}

// NewOutages returns the outages of a base. s is ForOutages of the same base, of any goroutine, and may be nil.
// scalar solves the outages that lanes do not solve.
func NewOutages(s *Solver, scalar *powerflow.Outages) *Outages {
	o := &Outages{scalar: scalar}
	if s == nil {
		return o
	}
	o.w = s.NewWorker()
	laneCount, buses := o.w.Lanes(), s.net.Buses()
	o.w.tolerance, o.w.limit = cmp.Or(scalar.Options().Tolerance, powerflow.DefaultTolerance), cmp.Or(scalar.Options().MaxIterations, powerflow.DefaultIterations)
	o.removed, o.row = make([]removedBranch, laneCount), make([]int, laneCount)
	o.p, o.q = scalar.Specified()
	o.vm, o.va = make([]float64, buses), make([]float64, buses)
	o.e, o.f = make([]float64, buses), make([]float64, buses)
	for b, vm := range scalar.Base().Vm {
		sin, cos := math.Sincos(scalar.Base().Va[b])
		o.e[b], o.f[b] = vm*cos, vm*sin
	}
	o.flows = [2][]float64{make([]float64, buses), make([]float64, buses)}
	return o
}

// Branches solves the outages of branches. It calls visit with each index in the list, in no certain order. The
// solution is out, which the next call reuses. The first error ends it.
func (o *Outages) Branches(list []int, out *powerflow.Solution, visit func(k int, outage powerflow.Outage) error) error {
	var remaining []int
	next, busy := 0, 0
	if o.w == nil {
		for ; next < len(list); next++ {
			remaining = append(remaining, next)
		}
	}
	fill := func() {
		for lane, k := range o.row {
			for ; k < 0 && next < len(list); next++ {
				if o.scalar.Bridge(list[next]) {
					remaining = append(remaining, next)
					continue
				}
				k = next
				o.load(lane, list[k])
				busy++
			}
			o.row[lane] = k
		}
	}
	due := func() bool { return next < len(list) && (len(o.row)-busy)*refill >= len(o.row) }
	for o.clearLanes(); next < len(list) || busy > 0; {
		if due() {
			fill()
		}
		o.w.evaluate()
		for lane, k := range o.row {
			if k < 0 || o.w.state[lane] == running {
				continue
			}
			o.row[lane] = -1
			busy--
			worst := o.w.m.Get(o.w.solver.plan.worst[0], lane)
			outage := powerflow.Outage{Solution: out}
			switch {
			case o.w.Done(lane, o.vm, o.va, o.flows[0], o.flows[1]) && o.scalar.Adopt(o.vm, o.va, o.flows[0], o.flows[1], worst, out):
				out.Iterations, outage.Lanes = o.w.steps[lane], true
			case worst-worst == 0:
				o.w.Voltages(lane, o.vm, o.va)
				var err error
				attempt := powerflow.Attempt{Vm: o.vm, Va: o.va, Steps: o.w.steps[lane], Solved: worst <= o.w.tolerance}
				if outage, err = o.scalar.Retry(list[k], attempt, out); err != nil {
					return err
				}
			default:
				remaining = append(remaining, k)
				continue
			}
			if err := visit(k, outage); err != nil {
				return err
			}
		}
		if busy > 0 && !due() {
			o.w.step()
		}
	}
	for _, k := range remaining {
		outage, err := o.scalar.Branch(list[k], out)
		if err == nil {
			err = visit(k, outage)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// clearLanes removes what an interrupted call left in the lanes.
func (o *Outages) clearLanes() {
	for lane := range o.row {
		o.row[lane], o.w.state[lane] = -1, idle
	}
}

// load sets a lane to the base without a branch.
func (o *Outages) load(lane, branch int) {
	p, base := &o.w.solver.plan, o.scalar.Base()
	o.removed[lane].restore(o.w, lane)
	o.w.Set(lane, o.p, o.q, base.Vm, base.Va)
	o.w.m.Scatter(p.e[0], lane, o.e)
	o.w.m.Scatter(p.f[0], lane, o.f)
	o.removed[lane].remove(o.w, lane, branch)
}

// restore puts the branch back.
func (l *removedBranch) restore(w *Worker, lane int) {
	for i := range l.n {
		w.m.Set(l.cell[i], lane, l.value[i])
	}
	l.n = 0
}

// remove removes a branch from a lane.
func (l *removedBranch) remove(w *Worker, lane, branch int) {
	m, n, p := w.m, w.solver.net, &w.solver.plan
	y := &n.Admittance
	subtract := func(c lanes.Ref, v float64, clear bool) {
		value := m.Get(c, lane)
		l.cell[l.n], l.value[l.n] = c, value
		l.n++
		if reduced := value - v; clear {
			m.Set(c, lane, 0)
		} else {
			m.Set(c, lane, reduced)
		}
	}
	from, to, pair := n.From[branch], n.To[branch], p.pairOf[branch]
	subtract(p.gd[from], y.Gff[branch], false)
	subtract(p.bd[from], y.Bff[branch], false)
	subtract(p.gd[to], y.Gtt[branch], false)
	subtract(p.bd[to], y.Btt[branch], false)
	gij, bij := y.Gft[branch], y.Bft[branch]
	gji, bji := y.Gtf[branch], y.Btf[branch]
	if p.flipped[branch] {
		gij, gji = gji, gij
		bij, bji = bji, bij
	}
	// The only branch between two buses leaves exact zeros.
	exclusive := p.single[pair]
	subtract(p.gij[pair], gij, exclusive)
	subtract(p.bij[pair], bij, exclusive)
	subtract(p.gji[pair], gji, exclusive)
	subtract(p.bji[pair], bji, exclusive)
}

// singles says of each pair whether exactly one branch joins it.
func singles(pairOf []int, pairs int) []bool {
	count := make([]int, pairs)
	for _, pair := range pairOf {
		count[pair]++
	}
	single := make([]bool, pairs)
	for pair, c := range count {
		single[pair] = c == 1
	}
	return single
}
