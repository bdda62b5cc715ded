package acopf

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/internal/elimination"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// Constants of the paper's objectives.
const (
	// ThermalThreshold is τ of J₁: the loading above which a branch is penalised.
	ThermalThreshold = 0.85
	// VoltageDeadband is δ_dead of J₂, pu.
	VoltageDeadband = 0.05
)

// unbounded is the magnitude from which a limit on P or Q (pu) is none; MATPOWER
// uses the same bound on its own unit.
const unbounded = 1e8

// plan is the structure of all problems on one network: which cell holds what,
// and the programs that work on the cells. A unit is one power of one
// generator: its P for the first gens of them, its Q for the others.
type plan struct {
	net           *network.Network // with the inner buses
	neutral       *network.Network // without them; settings that vary are not in its admittances
	variables     []variable
	inner         int       // the first inner bus
	angleFrom     []int     // branches: the bus at the from end whose angle and active power they have
	voltageFrom   []int     // whose magnitude and reactive power
	startAngles   []float64 // of a flat start
	nb, ng, nl    int
	unitBus       []int  // units, those of transfers to inner buses last
	hasGenerator  []bool // buses
	order         elimination.Order
	pairs         [][2]int // of places that a branch joins, the later one first, ascending by the earlier one
	pairsAt       []int    // where those of each earlier place begin
	fill          []int    // where the blocks of each column of the factor begin
	rated         []int    // branches with a limit on |S|
	angleLo       []int    // branches with a limit on the angle difference
	angleHi       []int
	bounded       [2][]int // units with a lower and with an upper limit
	linear        []int    // units with piecewise linear cost
	ties          []tie
	follows       []bool // units: one that follows another
	curved        []int  // generators with a capability curve
	segmentOf     []int  // for each segment, the position in linear
	segmentSlope  []float64
	segmentOffset []float64
	degree        int  // of the highest cost polynomial
	current       bool // ratings limit |I|
	soft          int  // limits that may be exceeded at a price, the first of all rows; 0 for none
	layout        lanes.Layout
	constants     map[float64]lanes.Col
	constantPool  lanes.Col
	cells
	programs [programCount]*lanes.Program
}

// Programs of a plan.
const (
	programEvaluate   = iota // values at the iterate: flows, balance, limits, objectives
	programGradient          // gradient of the Lagrangian and the norms of the KKT conditions
	programAssemble          // the KKT matrix
	programFactor            // its block LDLᵀ
	programPredictor         // targets and Newton's multipliers w of the affine direction
	programCorrector         // of the direction that is taken
	programGather            // the right-hand side from w
	programSolve             // its solution, or that of a residual: the direction, bus blocks only
	programResidual          // of the last solve, which is kept
	programCorrect           // what was kept, corrected by the last solve
	programExpand            // the rest of the direction
	programReach             // how far it may go
	programSave              // keeps the primal iterate
	programMovePrimal        // a step from what was kept
	programMoveDual
	programCount
)

// cells are the columns of a plan.
type cells struct {
	// Iterate: angle, magnitude, unit powers, piecewise linear costs; multipliers of
	// the balances; slacks and multipliers of the limits.
	th, v, u, y lanes.Col
	lp, lq      lanes.Col
	s, z        lanes.Col
	// The same at the start of a step, and the step. The step of th, lp, v and lq
	// is in sol, four cells a bus in the order of its block.
	th0, v0, u0, y0, s0 lanes.Col
	du, dy, ds, dz      lanes.Col
	sol, rhs, res, fix  lanes.Col

	// Problem: loads, limits, admittances, weights.
	pd, qd                                 lanes.Col
	vLo, vHi, uLo, uHi                     lanes.Col
	rate2                                  lanes.Col
	aLo, aHi                               lanes.Col
	gff, bff, gft, bft, gtf, btf, gtt, btt lanes.Col
	c1, c2, c3                             lanes.Col // of J₁, J₂ and cost, in the scaled objective

	// Fixed numbers.
	gs, bs                     lanes.Col
	coefficients               []lanes.Col // of the units' cost polynomials, constant first
	inverseRate                lanes.Col
	slope, offset              lanes.Col
	curveP, curveQ, curveBound lanes.Col

	// Values at the iterate.
	v2, iv              lanes.Col // |V|², 1/|V|
	a, b, c, d          lanes.Col // the parts of the flows that change with the angle
	pf, qf, pt, qt      lanes.Col
	gp, gq              lanes.Col // balance residuals
	h, r                lanes.Col // limits, h + s
	t1f, t2f            lanes.Col // ψ' and ψ'' of J₁ as a function of |S|²
	cost1, cost2        lanes.Col
	j1, j2, j3          lanes.Col
	g0th, g0v, g0u, g0y lanes.Col // ∇f + Jgᵀλ
	qth, qvi, qvj       lanes.Col // ∇|S|² of from ends, then of to ends, by rated

	condensed              lanes.Col // 0 for limits of branches whose multipliers stay in the matrix, else 1
	is, w, target          lanes.Col // 1/s; Newton's multipliers of the limits; wanted s·z
	du2, iu, nu            lanes.Col // pivots of the units, their inverses, their right-hand sides
	kyy, kpy, iyy, ny      lanes.Col
	cross, crossRatio      lanes.Col // of P and Q of generators with a capability curve: entry of the inverse, −quotient of the matrix
	diag, offDiag          lanes.Col // KKT blocks
	fd, fp, fw, fl         lanes.Col // factor: diagonal, its pivots, L·D and L
	negative               lanes.Col
	maxG, maxH, maxX, maxL lanes.Col
	maxZ, maxGrad, sumGrad lanes.Col
	maxS                   lanes.Col
	sumG, sumR, comp       lanes.Col
	maxRes, maxRhs         lanes.Col
	refine                 lanes.Col // < 0 in lanes whose solve is to be corrected
	renew                  lanes.Col // < 0 in lanes whose target of s·z is made anew by the corrector

	// What the driver sets for each lane.
	rho, shift     lanes.Col // dual and primal regularisation
	unitShift      lanes.Col // primal regularisation of the units
	mu, second     lanes.Col // target of s·z, and the weight of Mehrotra's correction
	alphaP, alphaD lanes.Col
	limitP, limitD lanes.Col // largest −ds/s and −dz/z
	dsz, sdz, dsdz lanes.Col
	elastic        lanes.Col // the balance that is asked for is g = elastic·λ

	softCells
}

// rows are the limits h ≤ 0 in the order of their slacks: V lower, V upper, unit
// lower, unit upper, |S|² at from ends, at to ends, angle lower, angle upper,
// segments of piecewise linear costs, sides of capability curves.
type rows struct {
	vLo, vHi, uLo, uHi, sf, st, aLo, aHi, segment, curve [2]int
	n                                                    int
}

func (p *plan) rows() rows {
	var r rows
	take := func(n int) [2]int {
		interval := [2]int{r.n, r.n + n}
		r.n += n
		return interval
	}
	r.vLo, r.vHi = take(p.nb), take(p.nb)
	r.uLo, r.uHi = take(len(p.bounded[0])), take(len(p.bounded[1]))
	r.sf, r.st = take(len(p.rated)), take(len(p.rated))
	r.aLo, r.aHi = take(len(p.angleLo)), take(len(p.angleHi))
	r.segment = take(len(p.segmentOf))
	r.curve = take(len(p.net.Curves))
	return r
}

func part(c lanes.Col, interval [2]int) lanes.Col { return c[interval[0]:interval[1]] }

// newPlan analyses the network.
func newPlan(net *network.Network, opt Options) (*plan, error) {
	if err := net.RequireCosts(); err != nil {
		return nil, err
	}
	p := &plan{net: net, startAngles: net.StartAngles(), nb: net.Buses(), ng: net.Gens(), nl: net.Branches(), current: opt.CurrentLimits, constants: map[float64]lanes.Col{}}
	if p.ng == 0 {
		return nil, fmt.Errorf("network %s: no generator in service", net.Name)
	}
	if err := p.addTies(opt.Dispatchable); err != nil {
		return nil, err
	}
	for _, c := range net.Curves {
		if p.follows[p.ng+c.Gen] || p.follows[c.Gen] {
			return nil, fmt.Errorf("network %s, generator %d at bus %d: a load of constant power factor with a capability curve cannot be honoured", net.Name, net.GenRow[c.Gen]+1, net.BusID[net.GenBus[c.Gen]])
		}
		if len(p.curved) == 0 || p.curved[len(p.curved)-1] != c.Gen {
			p.curved = append(p.curved, c.Gen)
		}
	}
	p.unitBus = append(slices.Clone(net.GenBus), net.GenBus...)
	if err := p.addRanges(opt); err != nil {
		return nil, err
	}
	net = p.net
	p.hasGenerator = make([]bool, p.nb)
	for _, bus := range net.GenBus {
		p.hasGenerator[bus] = true
	}
	for l := range net.From {
		if r := net.Rate[l]; !math.IsInf(r, 1) {
			p.rated = append(p.rated, l)
		}
		if !math.IsInf(net.AngMin[l], -1) {
			p.angleLo = append(p.angleLo, l)
		}
		if !math.IsInf(net.AngMax[l], 1) {
			p.angleHi = append(p.angleHi, l)
		}
	}
	p.order = elimination.MinimumDegree(p.nb, p.adjacent(), net.References)
	for i := range 2 * p.ng {
		lo, hi := p.unitLimits(i)
		if p.follows[i] {
			continue // the limits of P are its limits
		}
		// A ramp may bound any active power, but soft limits have none.
		ramped := i < p.ng && !opt.soft
		if lo > -unbounded || ramped {
			p.bounded[0] = append(p.bounded[0], i)
		}
		if hi < unbounded || ramped {
			p.bounded[1] = append(p.bounded[1], i)
		}
		cost, ok := p.unitCost(i)
		switch {
		case !ok:
		case cost.PiecewiseLinear():
			slope, offset := cost.Segments()
			for range slope {
				p.segmentOf = append(p.segmentOf, len(p.linear))
			}
			p.segmentSlope = append(p.segmentSlope, slope...)
			p.segmentOffset = append(p.segmentOffset, offset...)
			p.linear = append(p.linear, i)
		default:
			p.degree = max(p.degree, len(cost.Polynomial)-1)
		}
	}
	p.allocate()
	if opt.soft {
		p.allocateSoftLimits()
	}
	p.build()
	return p, nil
}

// unitLimits are the network's limits of a unit, pu.
func (p *plan) unitLimits(i int) (lo, hi float64) {
	switch {
	case i < p.ng:
		return p.net.PMin[i], p.net.PMax[i]
	case i >= 2*p.ng:
		return math.Inf(-1), math.Inf(1)
	}
	return p.net.QMin[i-p.ng], p.net.QMax[i-p.ng]
}

// unitCost is the cost of a unit in $/h of pu; false for none.
func (p *plan) unitCost(i int) (network.Cost, bool) {
	if i < p.ng {
		return p.net.Cost[i], true
	}
	if p.net.ReactiveCost == nil || i >= 2*p.ng {
		return network.Cost{}, false
	}
	return p.net.ReactiveCost[i-p.ng], true
}

// constant is a cell that holds v in every lane.
func (p *plan) constant(v float64) lanes.Col {
	c, ok := p.constants[v]
	if !ok {
		c = p.constantPool[len(p.constants) : len(p.constants)+1]
		p.constants[v] = c
	}
	return c
}

func (p *plan) allocate() {
	n := p.layout.New
	units, m, nr := len(p.unitBus), p.rows().n, len(p.rated)
	p.layout.Reserve(36*p.nb + (13+p.degree)*units + 12*m + 12*nr + 18*p.nl)
	col := func(size int, cols ...*lanes.Col) {
		for _, c := range cols {
			*c = n(size)
		}
	}
	p.constantPool = n(64 + 3*len(p.ties))
	c := &p.cells
	col(p.nb, &c.th, &c.v, &c.lp, &c.lq, &c.th0, &c.v0, &c.pd, &c.qd, &c.vLo, &c.vHi, &c.gs, &c.bs,
		&c.v2, &c.iv, &c.gp, &c.gq, &c.g0th, &c.g0v)
	col(units, &c.u, &c.u0, &c.du, &c.uLo, &c.uHi, &c.cost1, &c.cost2, &c.g0u, &c.du2, &c.iu, &c.nu)
	col(len(p.linear), &c.y, &c.y0, &c.dy, &c.g0y, &c.kyy, &c.kpy, &c.iyy, &c.ny)
	col(len(p.segmentOf), &c.slope, &c.offset)
	col(len(p.net.Curves), &c.curveP, &c.curveQ, &c.curveBound)
	col(len(p.curved), &c.cross, &c.crossRatio)
	col(m, &c.s, &c.z, &c.s0, &c.ds, &c.dz, &c.h, &c.r, &c.is, &c.w, &c.target)
	col(4*p.nb, &c.sol, &c.rhs, &c.res, &c.fix)
	col(nr, &c.rate2, &c.inverseRate, &c.t1f, &c.t2f)
	col(2*nr, &c.qth, &c.qvi, &c.qvj)
	r := p.rows()
	col(r.aHi[1]-r.sf[0], &c.condensed)
	col(len(p.angleLo), &c.aLo)
	col(len(p.angleHi), &c.aHi)
	col(p.nl, &c.gff, &c.bff, &c.gft, &c.bft, &c.gtf, &c.btf, &c.gtt, &c.btt, &c.a, &c.b, &c.c, &c.d, &c.pf, &c.qf, &c.pt, &c.qt)
	col(1, &c.c1, &c.c2, &c.c3, &c.j1, &c.j2, &c.j3, &c.negative, &c.maxG, &c.maxH, &c.maxX, &c.maxL, &c.maxZ, &c.maxS, &c.maxGrad, &c.sumGrad,
		&c.sumG, &c.sumR, &c.comp, &c.maxRes, &c.maxRhs, &c.refine, &c.renew, &c.rho, &c.shift, &c.unitShift, &c.mu, &c.second, &c.alphaP, &c.alphaD,
		&c.limitP, &c.limitD, &c.dsz, &c.sdz, &c.dsdz, &c.elastic)
	for range p.degree + 1 {
		c.coefficients = append(c.coefficients, n(units))
	}
	blocks := func(count int, cols ...*lanes.Col) {
		for _, c := range cols {
			*c = p.layout.Blocks(count)
		}
	}
	p.pairs, p.pairsAt, p.fill = p.adjacentPairs(), make([]int, p.nb+1), make([]int, p.nb+1)
	for _, pair := range p.pairs {
		p.pairsAt[pair[1]+1]++
	}
	for k, below := range p.order.Below {
		p.pairsAt[k+1] += p.pairsAt[k]
		p.fill[k+1] = p.fill[k] + len(below)
	}
	blocks(p.nb, &c.diag, &c.fd, &c.fp)
	blocks(len(p.pairs), &c.offDiag)
	blocks(p.fill[p.nb], &c.fw, &c.fl)
}

// adjacentPairs lists the pairs of places in the elimination order that have a block.
func (p *plan) adjacentPairs() [][2]int {
	var out [][2]int
	for _, e := range p.adjacent() {
		if i, j := p.order.Position[e[0]], p.order.Position[e[1]]; i != j {
			out = append(out, [2]int{max(i, j), min(i, j)})
		}
	}
	slices.SortFunc(out, byEarlier)
	return slices.Compact(out)
}

// byEarlier compares pairs by their earlier place, then by the later one.
func byEarlier(a, b [2]int) int { return cmp.Or(a[1]-b[1], a[0]-b[0]) }
