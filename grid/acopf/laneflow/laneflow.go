// Package laneflow solves the AC power flow of one network for many inputs at once, one in each lane of a vector.
// Every lane has its own loads, set-points, branch admittances and start, and its result does not depend on the
// other lanes.
//
// The central type is Worker. It runs Newton's method of package powerflow, in polar coordinates with the same
// limits on a step. The elimination of the Jacobian is written once, entry by entry, as a program of package lanes.
// Factors are computed at every iteration. A lane that has not converged after the usual iterations is reported and
// left to package powerflow, which decides solvability. Contingencies solves those after outages, in which units share
// the missing power.
//
// Units are per unit and radian.
package laneflow

import (
	"fmt"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// maxIterations of Newton's method: warm starts need two or three, flat ones four.
const maxIterations = 8

// Solver is the analysis of one network, shared by any number of workers.
type Solver struct {
	net      *network.Network
	rated    []int
	compiled *lanes.Compiled
	plan     plan
	rotating bool // voltages are rotated by the steps' angles and start in rectangular form, see rotate
	// For power flows after outages:
	sharing     *sharing
	elimination *elimination
}

// Programs of a plan.
const (
	programMismatch  = iota // injections at the voltages, and their mismatch
	programStep             // Jacobian, elimination, and the step of running lanes
	programFromFlows        // |S| at the from ends of the rated branches
	programToFlows          // |S| at the to ends
	programSolve            // a step with the last factors
	programFactors          // Jacobian and elimination alone
	programAdjoint          // a solve with the transposed factors
	programMargin           // the largest violation
	programShift            // shifts voltages after outages as those before
	programs
)

// plan says which cell holds which quantity. pairs are buses connected by branches, i < j.
type plan struct {
	layout    lanes.Layout
	constants map[float64]lanes.Col

	vm, va, ps, qs     lanes.Col // by bus: voltage, and specified injections
	gd, bd             lanes.Col // diagonal of the bus admittance matrix
	gij, bij, gji, bji lanes.Col // by pair
	gff, bff, gft, bft lanes.Col // by rated branch
	gtf, btf, gtt, btt lanes.Col
	e, f, p, q         lanes.Col // by bus, computed: voltage in rectangular form, injections
	n, h, nt, ht       lanes.Col // by pair: its parts of p and q at i, and at j
	sf, st             lanes.Col // by rated branch
	worst, sum         lanes.Col // largest mismatch and sum of mismatches
	running            lanes.Col // < 0 in running lanes
	dp, dq             lanes.Col // by bus

	pairs   [][2]int
	pairOf  []int  // by branch
	flipped []bool // by branch: it runs from the pair's j to its i
	single  []bool // by pair: exactly one branch joins it
}

// New analyses a network whose Kind says which magnitudes are fixed. rated are the branches whose |S| is wanted. The
// result is nil, without an error, where the machine has no vector instructions.
func New(n *network.Network, rated []int) (*Solver, error) {
	level, err := isa.Choose()
	if err != nil || level == isa.Generic {
		return nil, err
	}
	return newSolver(n, rated, level, lanes.Widths(level)[0])
}

func newSolver(n *network.Network, rated []int, level isa.Level, width int) (*Solver, error) {
	return (&Solver{net: n, rated: rated}).compile(level, width)
}

func (s *Solver) compile(level isa.Level, width int) (*Solver, error) {
	order, err := powerflow.New(s.net)
	if err != nil {
		return nil, err
	}
	programList := s.write(order.Order())
	if s.compiled, err = lanes.Compile(level, width, programList[:]...); err != nil {
		return nil, fmt.Errorf("laneflow: %w", err)
	}
	return s, nil
}

// constant is a cell with v in every lane.
func (p *plan) constant(v float64) lanes.Col {
	c, ok := p.constants[v]
	if !ok {
		panic(fmt.Sprintf("laneflow: the constant %v was not laid out", v))
	}
	return c
}

// highestTerm ends the series of sine and cosine.
const highestTerm = 21

// write lays out the cells and writes the programs.
func (s *Solver) write(order []int32) [programs]*lanes.Program {
	p, n := &s.plan, s.net
	number := map[[2]int]int{}
	p.pairOf, p.flipped = make([]int, n.Branches()), make([]bool, n.Branches())
	for k, from := range n.From {
		pair := [2]int{min(from, n.To[k]), max(from, n.To[k])}
		index, ok := number[pair]
		if !ok {
			index = len(p.pairs)
			number[pair] = index
			p.pairs = append(p.pairs, pair)
		}
		p.pairOf[k], p.flipped[k] = index, from != pair[0]
	}
	p.single = singles(p.pairOf, len(p.pairs))
	buses, pairs, rated := n.Buses(), len(p.pairs), len(s.rated)
	l := &p.layout
	for _, c := range []*lanes.Col{&p.vm, &p.va, &p.ps, &p.qs, &p.gd, &p.bd, &p.e, &p.f, &p.p, &p.q, &p.dp, &p.dq} {
		*c = l.New(buses)
	}
	for _, c := range []*lanes.Col{&p.gij, &p.bij, &p.gji, &p.bji, &p.n, &p.h, &p.nt, &p.ht} {
		*c = l.New(pairs)
	}
	for _, c := range []*lanes.Col{&p.gff, &p.bff, &p.gft, &p.bft, &p.gtf, &p.btf, &p.gtt, &p.btt, &p.sf, &p.st} {
		*c = l.New(rated)
	}
	for _, c := range []*lanes.Col{&p.worst, &p.sum, &p.running} {
		*c = l.New(1)
	}
	p.constants = map[float64]lanes.Col{}
	for _, v := range append(lanes.SincosConstants(highestTerm), 0, powerflow.MaxAngleStep, powerflow.MaxMagnitudeStep, -roomWithoutUnit) {
		if p.constants[v] == nil {
			p.constants[v] = l.New(1)
		}
	}
	if s.sharing != nil {
		s.sharing.allocate(l, rated)
	}
	elimination := s.eliminate(order)
	if s.sharing != nil {
		s.elimination = elimination
	}
	var programList [programs]*lanes.Program
	for index, write := range [programs]func(b *lanes.Builder){
		s.mismatch, elimination.step, s.fromFlows, s.toFlows, elimination.solve, elimination.factors, elimination.adjoint, s.margin, s.shiftVoltages,
	} {
		b := lanes.NewBuilder(l)
		if s.sharing != nil || index < programSolve {
			write(b)
		}
		programList[index] = b.Program()
	}
	return programList
}

// group is the number of buses or pairs in one run of operations, so that temporaries stay in the first-level cache.
const group = 8

func groups(n int, f func(lo, hi int)) {
	for lo := 0; lo < n; lo += group {
		f(lo, min(lo+group, n))
	}
}

// mismatch writes the injections at the voltages and their differences from the specified ones.
func (s *Solver) mismatch(b *lanes.Builder) {
	p := &s.plan
	zero := p.constant(0)
	groups(s.net.Buses(), func(lo, hi int) {
		v := p.vm[lo:hi]
		if !s.rotating {
			sin, cos := b.Sincos(p.va[lo:hi], highestTerm, highestTerm-1, p.constant)
			b.SetMul(p.e[lo:hi], v, cos)
			b.SetMul(p.f[lo:hi], v, sin)
		}
		v2 := b.Mul(v, v)
		b.SetMul(p.p[lo:hi], v2, p.gd[lo:hi])
		b.SetFNMA(p.q[lo:hi], v2, p.bd[lo:hi], zero)
	})
	groups(len(p.pairs), func(lo, hi int) {
		i, j := make([]int, 0, group), make([]int, 0, group)
		for _, pair := range p.pairs[lo:hi] {
			i, j = append(i, pair[0]), append(j, pair[1])
		}
		ei, fi := p.e.At(i), p.f.At(i)
		ej, fj := p.e.At(j), p.f.At(j)
		c := b.FMA(ei, ej, b.Mul(fi, fj))  // Vi·Vj·cos(θi − θj)
		d := b.FNMA(ei, fj, b.Mul(fi, ej)) // Vi·Vj·sin(θi − θj)
		gij, bij := p.gij[lo:hi], p.bij[lo:hi]
		gji, bji := p.gji[lo:hi], p.bji[lo:hi]
		n, h := p.n[lo:hi], p.h[lo:hi]
		nt, ht := p.nt[lo:hi], p.ht[lo:hi]
		b.SetFMA(n, gij, c, b.Mul(bij, d))
		b.SetFNMA(h, bij, c, b.Mul(gij, d))
		b.SetFNMA(nt, bji, d, b.Mul(gji, c))
		b.SetFNMA(ht, bji, c, b.FNMA(gji, d, zero))
		b.SetAdd(p.p.At(i), p.p.At(i), n)
		b.SetAdd(p.q.At(i), p.q.At(i), h)
		b.SetAdd(p.p.At(j), p.p.At(j), nt)
		b.SetAdd(p.q.At(j), p.q.At(j), ht)
	})
	b.Copy(p.worst, zero)
	b.Copy(p.sum, zero)
	if s.sharing != nil {
		s.sharing.imbalance(b, p)
		return
	}
	var angles, magnitudes []int
	for bus, kind := range s.net.Kind {
		if kind != network.Slack {
			angles = append(angles, bus)
		}
		if kind == network.PQ {
			magnitudes = append(magnitudes, bus)
		}
	}
	for _, part := range []struct {
		buses   []int
		d, s, x lanes.Col
	}{{angles, p.dp, p.ps, p.p}, {magnitudes, p.dq, p.qs, p.q}} {
		d := part.d.At(part.buses)
		b.SetSub(d, part.s.At(part.buses), part.x.At(part.buses))
		b.AbsMax(p.worst, d)
		b.AbsSum(p.sum, d)
	}
}

// endFlows writes |S| at one end of the rated branches. With V its own voltage and W the other's, P = V²·G + a and Q
// = −V²·B + d of the branch's two-port.
func (s *Solver) endFlows(b *lanes.Builder, buses, remote []int, g, susceptance, gm, bm, size lanes.Col) {
	p := &s.plan
	groups(len(s.rated), func(lo, hi int) {
		var i, j []int
		for _, k := range s.rated[lo:hi] {
			i, j = append(i, buses[k]), append(j, remote[k])
		}
		c, d := p.rectangularProducts(b, i, j)
		size2 := p.squaredFlow(b, p.vm.At(i), c, d, g[lo:hi], susceptance[lo:hi], gm[lo:hi], bm[lo:hi])
		b.Copy(size[lo:hi], b.Sqrt(size2))
	})
}

// rectangularProducts are V·W·cos θ and V·W·sin θ from buses i to buses j.
func (p *plan) rectangularProducts(b *lanes.Builder, i, j []int) (c, d lanes.Col) {
	ei, fi := p.e.At(i), p.f.At(i)
	ej, fj := p.e.At(j), p.f.At(j)
	return b.FMA(ei, ej, b.Mul(fi, fj)), b.FNMA(ei, fj, b.Mul(fi, ej))
}

// squaredFlow is |S|² at one end of branches.
func (p *plan) squaredFlow(b *lanes.Builder, v, c, d, g, susceptance, gm, bm lanes.Col) lanes.Col {
	v2 := b.Mul(v, v)
	active := b.FMA(v2, g, b.FMA(gm, c, b.Mul(bm, d)))
	reactive := b.FMA(gm, d, b.FNMA(bm, c, b.FNMA(v2, susceptance, p.constant(0))))
	return b.FMA(active, active, b.Mul(reactive, reactive))
}

func (s *Solver) fromFlows(b *lanes.Builder) {
	p := &s.plan
	s.endFlows(b, s.net.From, s.net.To, p.gff, p.bff, p.gft, p.bft, p.sf)
}

func (s *Solver) toFlows(b *lanes.Builder) {
	p := &s.plan
	s.endFlows(b, s.net.To, s.net.From, p.gtt, p.btt, p.gtf, p.btf, p.st)
}

// rotate rotates the voltages in rectangular form by the angle steps x of the buses in list, at most
// powerflow.MaxAngleStep. That costs half of sine and cosine of whole angles.
func (p *plan) rotate(b *lanes.Builder, list []int, x lanes.Col) {
	groups(len(list), func(lo, hi int) {
		sin, cos := b.ReducedSincos(x[lo:hi], highestTerm, highestTerm-1, p.constant)
		e, f := p.e.At(list[lo:hi]), p.f.At(list[lo:hi])
		rotated := b.FNMA(f, sin, b.Mul(e, cos))
		b.SetFMA(f, e, sin, b.Mul(f, cos))
		b.Copy(e, rotated)
	})
}

// Worker solves as many power flows at once as it has lanes. One goroutine uses it.
type Worker struct {
	solver *Solver
	m      *lanes.Machine
	state  []state
	// Limits of Newton's method.
	tolerance float64
	limit     int
	steps     []int // Newton steps by lane
}

// state is the state of a lane.
type state uint8

const (
	idle state = iota
	running
	converged
	gaveUp
)

// NewWorker returns a worker whose lanes have the network's own admittances.
func (s *Solver) NewWorker() *Worker {
	w := &Worker{solver: s, m: lanes.NewMachine(s.compiled), tolerance: powerflow.DefaultTolerance, limit: maxIterations}
	w.state, w.steps = make([]state, w.m.Lanes()), make([]int, w.m.Lanes())
	for v, c := range s.plan.constants {
		w.m.SetAll(c[0], v)
	}
	for lane := range w.state {
		w.SetAdmittance(lane, &s.net.Admittance)
	}
	return w
}

// Lanes is the number of power flows that a worker solves at once.
func (w *Worker) Lanes() int { return len(w.state) }

// SetAdmittance sets the branch admittances of a lane, as network.ScaleBranches writes them.
func (w *Worker) SetAdmittance(lane int, y *network.Admittance) {
	n, p, m := w.solver.net, &w.solver.plan, w.m
	for b := range n.Kind {
		m.Set(p.gd[b], lane, n.Gs[b])
		m.Set(p.bd[b], lane, n.Bs[b])
	}
	for k := range p.pairs {
		for _, c := range []lanes.Col{p.gij, p.bij, p.gji, p.bji} {
			m.Set(c[k], lane, 0)
		}
	}
	add := func(r lanes.Ref, v float64) { m.Set(r, lane, m.Get(r, lane)+v) }
	for k, from := range n.From {
		to, pair := n.To[k], p.pairOf[k]
		add(p.gd[from], y.Gff[k])
		add(p.bd[from], y.Bff[k])
		add(p.gd[to], y.Gtt[k])
		add(p.bd[to], y.Btt[k])
		gij, bij := y.Gft[k], y.Bft[k]
		gji, bji := y.Gtf[k], y.Btf[k]
		if p.flipped[k] {
			gij, gji = gji, gij
			bij, bji = bji, bij
		}
		add(p.gij[pair], gij)
		add(p.bij[pair], bij)
		add(p.gji[pair], gji)
		add(p.bji[pair], bji)
	}
	for r, k := range w.solver.rated {
		for _, v := range []struct {
			c lanes.Col
			v []float64
		}{{p.gff, y.Gff}, {p.bff, y.Bff}, {p.gft, y.Gft}, {p.bft, y.Bft}, {p.gtf, y.Gtf}, {p.btf, y.Btf}, {p.gtt, y.Gtt}, {p.btt, y.Btt}} {
			m.Set(v.c[r], lane, v.v[k])
		}
	}
}

// Set sets a lane's injections (generation minus load) and its start by bus. vm is the set-point where a magnitude
// is fixed, and va the angle at a reference.
func (w *Worker) Set(lane int, p, q, vm, va []float64) {
	c := &w.solver.plan
	w.m.Scatter(c.ps[0], lane, p)
	w.m.Scatter(c.qs[0], lane, q)
	w.m.Scatter(c.vm[0], lane, vm)
	w.m.Scatter(c.va[0], lane, va)
	w.state[lane], w.steps[lane] = running, 0
}

// Solve solves the lanes set since the last call, to powerflow.DefaultTolerance.
func (w *Worker) Solve() {
	for w.evaluate() {
		w.step()
	}
}

// evaluate computes the mismatch of every lane and reports whether any is still running.
func (w *Worker) evaluate() (active bool) {
	c := &w.solver.plan
	w.m.Run(programMismatch)
	for lane, s := range w.state {
		if s == running {
			worst, sum := w.m.Get(c.worst[0], lane), w.m.Get(c.sum[0], lane)
			switch {
			case sum-sum != 0 || worst >= powerflow.Hopeless || w.steps[lane] == w.limit && !(worst <= w.tolerance):
				w.state[lane] = gaveUp
			case worst <= w.tolerance:
				w.state[lane] = converged
			}
		}
		if w.state[lane] == running {
			active = true
			w.m.Set(c.running[0], lane, -1)
		} else {
			w.m.Set(c.running[0], lane, 1)
		}
	}
	return active
}

// step takes a Newton step in the running lanes.
func (w *Worker) step() {
	for lane, s := range w.state {
		if s == running {
			w.steps[lane]++
		}
	}
	w.m.Run(programStep)
}

// Done takes a lane out: whether it has converged, and if so the voltages and the
// injections of its solution, by bus.
func (w *Worker) Done(lane int, vm, va, p, q []float64) bool {
	ok := w.state[lane] == converged
	w.state[lane] = idle
	if ok {
		w.Voltages(lane, vm, va)
		c := &w.solver.plan
		w.m.Gather(p, c.p[0], lane)
		w.m.Gather(q, c.q[0], lane)
	}
	return ok
}

// Voltages writes those of a lane by bus.
func (w *Worker) Voltages(lane int, vm, va []float64) {
	w.m.Gather(vm, w.solver.plan.vm[0], lane)
	w.m.Gather(va, w.solver.plan.va[0], lane)
}

// Flows computes |S| of the rated branches in every lane, at the from ends, and where both
// is wanted at the to ends; From and To read them.
func (w *Worker) Flows(toEnds bool) {
	w.m.Run(programFromFlows)
	if toEnds {
		w.m.Run(programToFlows)
	}
}

// From and To write |S| of the rated branches in a lane, pu.
func (w *Worker) From(lane int, size []float64) { w.gather(lane, size, w.solver.plan.sf) }
func (w *Worker) To(lane int, size []float64)   { w.gather(lane, size, w.solver.plan.st) }

func (w *Worker) gather(lane int, out []float64, c lanes.Col) {
	if len(c) > 0 {
		w.m.Gather(out, c[0], lane)
	}
}
