// Package dcopf solves the optimal power flow of the linear model, that of network.DC. It minimises units' costs under the
// balance of active power at every bus, ratings, and limits of angles and of units.
//
// The central type is Solver. It is a primal–dual interior point (S. Mehrotra, SIAM J. Optimization 2, 1992) on the
// sparse KKT matrix, whose blocks are the buses. Costs may be any convex polynomials or piecewise linear.
package dcopf

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/internal/elimination"
	"github.com/gpc-engine/gpc/grid/internal/multifrontal"
	"github.com/gpc-engine/gpc/grid/network"
)

// Solver is a network's analysis. Solve may be called by several goroutines at once.
type Solver struct {
	net       *network.Network
	dc        *network.DC
	angle     []int // variable of a bus; −1 at a reference
	price     []int // of a bus's balance
	isPrice   []bool
	power     []int                  // of a unit; −1 for one without room, and for the to end of a DC line
	lines     map[int]network.DCLine // by the unit at the from end
	level     []int                  // of a unit's piecewise linear cost; −1 without
	variables int
	coupling  float64 // the largest of a branch
	limits    []limit
	structure *multifrontal.Structure
	constant  []float64 // of the matrix: balances
	diagonal  []int     // entry of a variable
	cross     []int     // entry of a limit's two variables; −1 for one
	row, col  []int32
}

// limit is a·x[i] + b·x[j] ≤ bound; j is −1 for none.
type limit struct {
	i, j        int
	a, b, bound float64
	multiplier  func(*acopf.LimitMultipliers) *float64 // nil for a segment of a cost
}

// DC is the network's linear model.
func (s *Solver) DC() *network.DC { return s.dc }

// fixedRoom is the room (pu) below which a unit's power is constant.
const fixedRoom = 1e-8

// New analyses a network. Its error says why it poses no optimal power flow.
func New(n *network.Network) (*Solver, error) {
	if err := cmp.Or(n.RequireCosts(), n.RequireLimits(), n.RequireFreeDelivery()); err != nil {
		return nil, err
	}
	dc, err := network.NewDC(n)
	if err != nil {
		return nil, err
	}
	nb := n.Buses()
	s := &Solver{net: n, dc: dc, angle: make([]int, nb), price: make([]int, nb), power: make([]int, n.Gens()), level: make([]int, n.Gens()), lines: map[int]network.DCLine{}}
	edges, gensAt, terminals := n.Edges(), make([][]int, nb), n.Terminals()
	for _, d := range n.DCLines {
		edges = append(edges, [2]int{n.GenBus[d.From], n.GenBus[d.To]})
		s.lines[d.From], gensAt[n.GenBus[d.From]] = d, append(gensAt[n.GenBus[d.From]], d.From) // first, as inner variables
	}
	order := elimination.MinimumDegree(nb, edges, nil)
	for g, b := range n.GenBus {
		if s.power[g], s.level[g] = -1, -1; !terminals[g] {
			gensAt[b] = append(gensAt[b], g)
		}
	}
	size, inner := make([]int, nb), make([]int, nb)
	next := func() int { s.variables++; return s.variables - 1 }
	for k, b := range order.Order {
		start := s.variables
		if s.angle[b] = -1; n.Kind[b] != network.Slack {
			s.angle[b] = next()
		}
		s.price[b] = next()
		inner[k] = s.variables - start
		for _, g := range gensAt[b] {
			if n.PMax[g]-n.PMin[g] > fixedRoom {
				s.power[g] = next()
				if terminals[g] {
					inner[k] = s.variables - start
				}
				if n.Cost[g].PiecewiseLinear() {
					s.level[g] = next()
				}
			}
		}
		size[k] = s.variables - start
	}
	s.isPrice = make([]bool, s.variables)
	for _, v := range s.price {
		s.isPrice[v] = true
	}
	s.addLimits()
	entries := map[[2]int]int{}
	entry := func(i, j int) int {
		i, j = max(i, j), min(i, j)
		e, ok := entries[[2]int{i, j}]
		if !ok {
			e, entries[[2]int{i, j}] = len(s.row), len(s.row)
			s.row, s.col, s.constant = append(s.row, int32(i)), append(s.col, int32(j)), append(s.constant, 0)
		}
		return e
	}
	for i := range s.variables {
		s.diagonal = append(s.diagonal, entry(i, i))
	}
	for k, start := range n.From {
		s.coupling = max(s.coupling, math.Abs(n.Coupling(k)))
		for _, end := range [2][2]int{{start, n.To[k]}, {n.To[k], start}} {
			if v := s.angle[end[0]]; v >= 0 {
				s.constant[entry(s.price[end[0]], v)] += n.Coupling(k)
				s.constant[entry(s.price[end[1]], v)] -= n.Coupling(k)
			}
		}
	}
	for g, v := range s.power {
		if v >= 0 {
			s.constant[entry(s.price[n.GenBus[g]], v)] = -1
			if d, ok := s.lines[g]; ok {
				s.constant[entry(s.price[n.GenBus[d.To]], v)] = 1 - d.Loss1
			}
		}
	}
	for _, l := range s.limits {
		e := -1
		if l.j >= 0 {
			e = entry(l.i, l.j)
		}
		s.cross = append(s.cross, e)
	}
	s.structure = multifrontal.AnalyseBordered(size, inner, order.Below, 0, s.row, s.col)
	return s, nil
}

// addLimits lists what may bind.
func (s *Solver) addLimits() {
	n := s.net
	add := func(i, j int, a, b, bound float64, multiplier func(*acopf.LimitMultipliers) *float64) {
		if i < 0 {
			i, j = j, -1
			a, b = b, 0
		}
		if i >= 0 && !math.IsInf(bound, 1) {
			s.limits = append(s.limits, limit{i, j, a, b, bound, multiplier})
		}
	}
	for k, start := range n.From {
		w, end := n.Coupling(k), n.To[k]
		i, j := s.angle[start], s.angle[end]
		fixed := n.FixedAngle(start) - n.FixedAngle(end) // of references
		flow := w * (fixed - n.Shift(k))
		add(i, j, w, -w, n.Rate[k]-flow, func(m *acopf.LimitMultipliers) *float64 { return &m.SFrom[k] })
		add(i, j, -w, w, n.Rate[k]+flow, func(m *acopf.LimitMultipliers) *float64 { return &m.STo[k] })
		add(i, j, 1, -1, n.AngMax[k]-fixed, func(m *acopf.LimitMultipliers) *float64 { return &m.AngMax[k] })
		add(i, j, -1, 1, fixed-n.AngMin[k], func(m *acopf.LimitMultipliers) *float64 { return &m.AngMin[k] })
	}
	for g, v := range s.power {
		add(v, -1, 1, 0, n.PMax[g], func(m *acopf.LimitMultipliers) *float64 { return &m.PMax[g] })
		add(v, -1, -1, 0, -n.PMin[g], func(m *acopf.LimitMultipliers) *float64 { return &m.PMin[g] })
		if s.level[g] >= 0 {
			slopes, intercepts := n.Cost[g].Segments()
			for k, slope := range slopes {
				add(v, s.level[g], slope, -1, -intercepts[k], nil)
			}
		}
	}
}

const (
	maxIterations = 200
	tolerance     = 1e-9  // of balances, limits and the scaled gradient, or what rounding leaves of couplings
	gapTolerance  = 1e-10 // of the products of slacks and multipliers, relative to the objective
	regularity    = 1e-10 // on the diagonal of variables without curvature
	// Multipliers from large on are tried as a proof that limits and balances contradict one another (the lemma of Farkas).
	// It counts if its residual is at most this share of what it proves.
	large         = 1e6
	proofResidual = 1e-6
)

// Solve finds the optimum at loads by bus, pu (nil: the network's): magnitudes are 1 pu and reactive powers 0. A result that
// is not Optimal has no slices.
func (s *Solver) Solve(ctx context.Context, pd []float64) (*acopf.Result, *acopf.LimitMultipliers, error) {
	if pd == nil {
		pd = s.net.Pd
	}
	if len(pd) != s.net.Buses() {
		return nil, nil, fmt.Errorf("dcopf: %d loads, network %s has %d buses", len(pd), s.net.Name, s.net.Buses())
	}
	r, m := s.iterate(ctx, pd)
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("dcopf: %w", err)
	}
	return r, m, nil
}

// Reason says in a sentence why there is no optimum; "" where there is one.
func Reason(r *acopf.Result) string {
	switch r.Status {
	case acopf.Optimal:
		return ""
	case acopf.Infeasible:
		return "balances and limits of units, ratings and angles contradict one another"
	}
	return "the iterations do not meet the conditions of an optimum"
}

// state is an iterate.
type state struct {
	x, step    []float64 // variables; those of balances are prices
	s, z       []float64 // slacks and multipliers of limits
	ds, dz     []float64
	target     []float64 // of s·z
	gradient   []float64 // of the Lagrangian, and balances at the prices' places
	excess     []float64 // of limits, with their slacks
	injected   []float64 // by bus, of what is constant
	scale      float64   // of the objective
	second     []float64 // curvature by unit
	constants  float64   // cost of units without room
	matrix     []float64
	factor     *multifrontal.Factor
	worst, gap float64
}

// iterate is the interior point.
func (s *Solver) iterate(ctx context.Context, pd []float64) (*acopf.Result, *acopf.LimitMultipliers) {
	n, count := s.net, len(s.limits)
	vector := func(size int) []float64 { return make([]float64, size) }
	y := &state{x: vector(s.variables), step: vector(s.variables), s: vector(count), z: vector(count), ds: vector(count), dz: vector(count), target: vector(count),
		gradient: vector(s.variables), excess: vector(count), second: vector(n.Gens()), matrix: vector(len(s.row)), factor: multifrontal.NewFactor(s.structure), scale: 1}
	fixed := vector(n.Gens())
	largest := 0.0
	for g, v := range s.power {
		p := network.Middle(n.PMin[g], n.PMax[g])
		value, first, _ := n.Cost[g].At(p)
		if v < 0 {
			fixed[g] = p
			y.constants += value
			continue
		}
		if y.x[v] = p; s.level[g] >= 0 {
			y.x[s.level[g]] = value
		}
		largest = max(largest, math.Abs(first))
	}
	if largest > 0 {
		y.scale = 1 / largest
	}
	s.deliver(fixed)
	y.injected = n.Balanced(pd, fixed)
	s.dc.InjectFixed(y.injected)
	for k, l := range s.limits {
		y.s[k] = max(l.bound-l.value(y.x), 1)
		y.z[k] = 1 / y.s[k]
	}
	r := &acopf.Result{Status: acopf.IterationLimit}
	for ; r.Iterations < maxIterations && ctx.Err() == nil; r.Iterations++ {
		s.residuals(y)
		if y.worst < max(tolerance, 0x1p-50*s.coupling) && y.gap < gapTolerance {
			r.Status = acopf.Optimal
			break
		}
		if s.contradiction(y) {
			r.Status = acopf.Infeasible
			break
		}
		if math.IsNaN(y.worst) || !s.factorise(y) {
			r.Status = acopf.Numerical
			break
		}
		clear(y.target)
		s.direction(y)
		primal, dual := y.lengths()
		mu, affine := 0.0, 0.0
		for k := range y.s {
			mu += y.s[k] * y.z[k]
			affine += (y.s[k] + primal*y.ds[k]) * (y.z[k] + dual*y.dz[k])
		}
		if count > 0 {
			mu, affine = mu/float64(count), affine/float64(count)
		}
		sigma := math.Pow(affine/max(mu, 1e-300), 3)
		for k := range y.target {
			y.target[k] = sigma*mu - y.ds[k]*y.dz[k]
		}
		s.direction(y)
		primal, dual = y.lengths()
		primal, dual = min(1, 0.9995*primal), min(1, 0.9995*dual)
		for i, d := range y.step {
			length := primal
			if s.isPrice[i] {
				length = dual
			}
			y.x[i] += length * d
		}
		for k := range y.s {
			y.s[k] += primal * y.ds[k]
			y.z[k] += dual * y.dz[k]
		}
	}
	if r.Status != acopf.Optimal {
		return r, nil
	}
	return r, s.result(y, fixed, r)
}

// deliver writes the powers of the to ends of DC lines by those of the from ends.
func (s *Solver) deliver(pg []float64) {
	for _, d := range s.net.DCLines {
		pg[d.To] = (d.Loss1-1)*pg[d.From] - d.Loss0
	}
}

func (l limit) value(x []float64) float64 {
	v := l.a * x[l.i]
	if l.j >= 0 {
		v += l.b * x[l.j]
	}
	return v
}

// spread adds a limit's coefficients times a factor.
func (l limit) spread(dst []float64, factor float64) {
	dst[l.i] += l.a * factor
	if l.j >= 0 {
		dst[l.j] += l.b * factor
	}
}

// residuals computes the gradient of the Lagrangian, balances, excesses and the gap.
func (s *Solver) residuals(y *state) {
	n := s.net
	clear(y.gradient)
	for b, v := range s.price {
		y.gradient[v] = -y.injected[b]
	}
	for e, w := range s.constant { // balances and their transpose
		if w != 0 {
			i, j := s.row[e], s.col[e]
			y.gradient[i] += w * y.x[j]
			y.gradient[j] += w * y.x[i]
		}
	}
	objective := y.constants * y.scale
	for g, v := range s.power {
		switch {
		case s.level[g] >= 0:
			y.gradient[s.level[g]] += y.scale
			objective += y.scale * y.x[s.level[g]]
		case v >= 0:
			value, first, second := n.Cost[g].At(y.x[v])
			y.gradient[v] += y.scale * first
			y.second[g] = y.scale * math.Max(second, 0)
			objective += y.scale * value
		}
	}
	y.gap = 0
	y.worst = 0
	for k, l := range s.limits {
		y.excess[k] = l.value(y.x) + y.s[k] - l.bound
		l.spread(y.gradient, y.z[k])
		y.gap += y.s[k] * y.z[k]
		y.worst = max(y.worst, math.Abs(y.excess[k])/max(1, math.Abs(l.a)))
	}
	y.gap /= 1 + math.Abs(objective)
	size := 1 + max(slices.Max(append(y.z, 0)), 0)
	for i, v := range y.gradient {
		if s.isPrice[i] {
			y.worst = max(y.worst, math.Abs(v))
		} else {
			y.worst = max(y.worst, math.Abs(v)/size)
		}
	}
}

// contradiction says whether multipliers and prices combine limits and balances to one that no angles and powers keep.
func (s *Solver) contradiction(y *state) bool {
	size := slices.Max(append(y.z, 0))
	if size < large {
		return false
	}
	proof, sum := make([]float64, s.variables), 0.0
	for k, l := range s.limits {
		l.spread(proof, y.z[k]/size)
		sum -= l.bound * y.z[k] / size
	}
	for b, v := range s.price {
		sum -= y.injected[b] * y.x[v] / size
	}
	for e, w := range s.constant {
		if i, j := s.row[e], s.col[e]; w != 0 && s.isPrice[i] {
			proof[j] += w * y.x[i] / size
		} else if w != 0 {
			proof[i] += w * y.x[j] / size
		}
	}
	worst := 0.0
	for i, v := range proof {
		if !s.isPrice[i] {
			worst = max(worst, math.Abs(v))
		}
	}
	return worst <= proofResidual*sum
}

// factorise factors the KKT matrix, and reports whether it is regular.
func (s *Solver) factorise(y *state) bool {
	copy(y.matrix, s.constant)
	for i, e := range s.diagonal {
		if s.isPrice[i] {
			y.matrix[e] -= regularity
		} else {
			y.matrix[e] += regularity
		}
	}
	for g, v := range s.power {
		if v >= 0 && s.level[g] < 0 {
			y.matrix[s.diagonal[v]] += y.second[g]
		}
	}
	for k, l := range s.limits {
		w := y.z[k] / y.s[k]
		y.matrix[s.diagonal[l.i]] += l.a * l.a * w
		if l.j >= 0 {
			y.matrix[s.diagonal[l.j]] += l.b * l.b * w
			y.matrix[s.cross[k]] += l.a * l.b * w
		}
	}
	y.factor.Factor(y.matrix, nil)
	return y.factor.Zero == 0
}

// direction is Newton's step to the targets of s·z.
func (s *Solver) direction(y *state) {
	for i, v := range y.gradient {
		y.step[i] = -v
	}
	for k, l := range s.limits {
		y.dz[k] = y.target[k]/y.s[k] - y.z[k] + y.z[k]/y.s[k]*y.excess[k]
		l.spread(y.step, -y.dz[k])
	}
	y.factor.Solve(y.step)
	for k, l := range s.limits {
		d := l.value(y.step)
		y.ds[k] = -y.excess[k] - d
		y.dz[k] += y.z[k] / y.s[k] * d
	}
}

// lengths are the longest steps that keep slacks and multipliers positive.
func (y *state) lengths() (primal, dual float64) {
	primal, dual = 1/0.9995, 1/0.9995
	for k := range y.s {
		if y.ds[k] < 0 {
			primal = min(primal, -y.s[k]/y.ds[k])
		}
		if y.dz[k] < 0 {
			dual = min(dual, -y.z[k]/y.dz[k])
		}
	}
	return primal, dual
}

// result writes an optimum.
func (s *Solver) result(y *state, fixed []float64, r *acopf.Result) *acopf.LimitMultipliers {
	nb, ng, nl := s.net.Buses(), s.net.Gens(), s.net.Branches()
	r.Vm, r.Va = slices.Repeat([]float64{1}, nb), make([]float64, nb)
	r.LambdaP, r.LambdaQ = make([]float64, nb), make([]float64, nb)
	r.Pg, r.Qg = fixed, make([]float64, ng)
	vector := func(size int) []float64 { return make([]float64, size) }
	m := &acopf.LimitMultipliers{VMin: vector(nb), VMax: vector(nb), PMin: vector(ng), PMax: vector(ng), QMin: vector(ng), QMax: vector(ng),
		SFrom: vector(nl), STo: vector(nl), AngMin: vector(nl), AngMax: vector(nl)}
	for b, v := range s.price {
		if r.Va[b] = s.net.FixedAngle(b); s.angle[b] >= 0 {
			r.Va[b] = y.x[s.angle[b]]
		}
		r.LambdaP[b] = y.x[v] / y.scale
		r.KKT.Mismatch = max(r.KKT.Mismatch, math.Abs(y.gradient[v]))
	}
	for k, l := range s.limits {
		if l.multiplier != nil && y.z[k] > y.s[k] { // it binds
			*l.multiplier(m) = y.z[k] / y.scale
		}
		r.KKT.Violation = max(r.KKT.Violation, l.value(y.x)-l.bound)
	}
	terminals := s.net.Terminals()
	for g, v := range s.power {
		if v >= 0 {
			r.Pg[g] = y.x[v]
		}
		value, first, _ := s.net.Cost[g].At(r.Pg[g])
		r.Objective += value
		d, ok := s.lines[g]
		if v < 0 && (ok || !terminals[g]) { // the reduced cost is the multiplier of either limit
			reduced := first - r.LambdaP[s.net.GenBus[g]]
			if ok {
				reduced += (1 - d.Loss1) * r.LambdaP[s.net.GenBus[d.To]]
			}
			m.PMin[g], m.PMax[g] = max(reduced, 0), max(-reduced, 0)
		}
	}
	s.deliver(r.Pg)
	r.J[2] = r.Objective
	r.KKT.Feasibility, r.KKT.Gradient = y.worst, y.worst
	r.KKT.Complementarity = y.gap
	return m
}
