package laneflow

import (
	"cmp"
	"math"

	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// Outages solves the power flows without a branch each, as many side by side as there are lanes:
// Newton's method from the base solution, in each lane on the admittances that are left; a lane that is done
// goes on with another outage. What leaves an island, does not converge, or would switch a reactive limit
// is for powerflow.Outages. It is used by one goroutine.
type Outages struct {
	w      *Worker
	alone  *powerflow.Outages
	out    []lost // by lane
	p, q   []float64
	vm, va []float64
	flows  [2][]float64 // injections of a lane
	row    []int        // of the list, by lane
	e, f   []float64    // the base's voltages in rectangular form
}

// lost is what a branch's outage has changed in a lane.
type lost struct {
	cell  [8]lanes.Ref
	value [8]float64
	n     int
}

// refill: lanes are given new outages once one of so many is free. Imbalances are then found once more.
const refill = 4

// productsPerLane, for each lane, is how many products of blocks a factorisation may take where lanes pay. With more,
// their factors no longer fit the nearest caches, and one base factorisation serves every outage of powerflow.Outages.
const productsPerLane = 1200

// ForOutages analyses a base's network for NewOutages. It is nil, without an error, where outages
// are found faster one by one.
func ForOutages(alone *powerflow.Outages) (*Solver, error) {
	level, err := isa.Choose()
	if err != nil || level == isa.Generic {
		return nil, err
	}
	width := lanes.Widths(level)[0]
	if alone.Products() > productsPerLane*width {
		return nil, nil
	}
	return newSolver(alone.Network(), nil, level, width, true)
}

// NewOutages returns the outages of a base. s is ForOutages of the same base, of whichever
// goroutine's, and may be nil; alone is used for what lanes do not solve.
func NewOutages(s *Solver, alone *powerflow.Outages) *Outages {
	o := &Outages{alone: alone}
	if s == nil {
		return o
	}
	o.w = s.NewWorker()
	lanesThere, buses := o.w.Lanes(), s.net.Buses()
	o.w.tolerance, o.w.limit = cmp.Or(alone.Options().Tolerance, powerflow.DefaultTolerance), cmp.Or(alone.Options().MaxIterations, powerflow.DefaultIterations)
	o.out, o.row = make([]lost, lanesThere), make([]int, lanesThere)
	o.p, o.q = alone.Specified()
	o.vm, o.va = make([]float64, buses), make([]float64, buses)
	o.e, o.f = make([]float64, buses), make([]float64, buses)
	for b, vm := range alone.Base().Vm {
		sin, cos := math.Sincos(alone.Base().Va[b])
		o.e[b], o.f[b] = vm*cos, vm*sin
	}
	o.flows = [2][]float64{make([]float64, buses), make([]float64, buses)}
	return o
}

// Branches solves the outages of branches and calls each with the number in the list, in no certain
// order; the solution is out, and serves again for the next. It ends with the first error.
func (o *Outages) Branches(list []int, out *powerflow.Solution, each func(k int, got powerflow.Outage) error) error {
	var rest []int
	next, busy := 0, 0
	if o.w == nil {
		for ; next < len(list); next++ {
			rest = append(rest, next)
		}
	}
	fill := func() {
		for lane, k := range o.row {
			for ; k < 0 && next < len(list); next++ {
				if o.alone.Bridge(list[next]) {
					rest = append(rest, next)
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
	for o.free(); next < len(list) || busy > 0; {
		if due() {
			fill()
		}
		o.w.look()
		for lane, k := range o.row {
			if k < 0 || o.w.state[lane] == going {
				continue
			}
			o.row[lane] = -1
			busy--
			worst := o.w.m.Get(o.w.solver.plan.worst[0], lane)
			got := powerflow.Outage{Solution: out}
			switch {
			case o.w.Done(lane, o.vm, o.va, o.flows[0], o.flows[1]):
				if !o.alone.Take(o.vm, o.va, o.flows[0], o.flows[1], worst, out) {
					rest = append(rest, k)
					continue
				}
				out.Iterations = o.w.steps[lane]
			case worst-worst == 0:
				o.w.Voltages(lane, o.vm, o.va)
				var err error
				if got, err = o.alone.Retry(list[k], powerflow.Tried{Vm: o.vm, Va: o.va, Steps: o.w.steps[lane]}, out); err != nil {
					return err
				}
			default:
				rest = append(rest, k)
				continue
			}
			if err := each(k, got); err != nil {
				return err
			}
		}
		if busy > 0 && !due() {
			o.w.step()
		}
	}
	for _, k := range rest {
		got, err := o.alone.Branch(list[k], out)
		if err == nil {
			err = each(k, got)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// free takes what an earlier call may have left out of every lane.
func (o *Outages) free() {
	for lane := range o.row {
		o.row[lane], o.w.state[lane] = -1, idle
	}
}

// load gives a lane the base without a branch.
func (o *Outages) load(lane, branch int) {
	p, base := &o.w.solver.plan, o.alone.Base()
	o.out[lane].restore(o.w, lane)
	o.w.Set(lane, o.p, o.q, base.Vm, base.Va)
	o.w.m.Scatter(p.e[0], lane, o.e)
	o.w.m.Scatter(p.f[0], lane, o.f)
	o.out[lane].take(o.w, lane, branch)
}

// restore gives a lane back what was taken.
func (l *lost) restore(w *Worker, lane int) {
	for i := range l.n {
		w.m.Set(l.cell[i], lane, l.value[i])
	}
	l.n = 0
}

// take takes a branch out of a lane.
func (l *lost) take(w *Worker, lane, branch int) {
	m, n, p := w.m, w.solver.net, &w.solver.plan
	y := &n.Admittance
	less := func(c lanes.Ref, v float64, clear bool) {
		was := m.Get(c, lane)
		l.cell[l.n], l.value[l.n] = c, was
		l.n++
		if now := was - v; clear {
			m.Set(c, lane, 0)
		} else {
			m.Set(c, lane, now)
		}
	}
	from, to, at := n.From[branch], n.To[branch], p.toPair[branch]
	less(p.gd[from], y.Gff[branch], false)
	less(p.bd[from], y.Bff[branch], false)
	less(p.gd[to], y.Gtt[branch], false)
	less(p.bd[to], y.Btt[branch], false)
	gij, bij, gji, bji := y.Gft[branch], y.Bft[branch], y.Gtf[branch], y.Btf[branch]
	if p.flipped[branch] {
		gij, bij, gji, bji = gji, bji, gij, bij
	}
	// Of the only branch between its buses nothing of rounding stays.
	only := p.single[at]
	less(p.gij[at], gij, only)
	less(p.bij[at], bij, only)
	less(p.gji[at], gji, only)
	less(p.bji[at], bji, only)
}

// singles says of each pair whether one branch alone joins it.
func singles(toPair []int, pairs int) []bool {
	count := make([]int, pairs)
	for _, at := range toPair {
		count[at]++
	}
	single := make([]bool, pairs)
	for at, c := range count {
		single[at] = c == 1
	}
	return single
}
