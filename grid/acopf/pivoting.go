package acopf

import (
	"math"

	"github.com/gpc-engine/gpc/grid/internal/multifrontal"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// The block LDLᵀ eliminates a bus at a time. A voltage at a limit of large weight z/s costs digits: its balance has no
// other variable for a pivot. The neighbours' blocks then add numbers as large as the weight to their own curvature.
// The weight of a branch's limit costs digits as soon as it is added to the matrix. A lane that stalls for this reason
// continues with pivots chosen by size. The multipliers of its heavy branch limits stay in the matrix:
//
//	[ K   Jᵀ    ] [dx]   [ rhs with z in the place of w ]
//	[ J   −s/z  ] [dz] = [ s − r − target/z             ]

// uncondensedWeight is the weight z/s, times the square of the limit's largest derivative, from which a branch's
// limit stays in the matrix.
const uncondensedWeight = 1e4

// pivoting is the structure for pivots chosen by size, built once a network.
type pivoting struct {
	structure *multifrontal.Structure
	entries   []matrixEntry
	bus       []int // variable of each bus cell, in the order of rhs
	limits    []uncondensedLimit
	variables int
}

// matrixEntry is the source of a number of the matrix: a cell times a sign.
type matrixEntry struct {
	cell lanes.Ref
	sign float64
}

// uncondensedLimit is a branch limit that may stay in the matrix, by its place in condensed.
type uncondensedLimit struct {
	variable   int
	first, end int // range of its entries, the diagonal first
}

func (p *plan) newPivoting() *pivoting {
	out := &pivoting{}
	r, nr := p.rows(), len(p.rated)
	// A block has the bus's four variables, then the limits of branches to later buses.
	limits := make([][]int, p.nb)
	branchOf := func(a int) (branch int) {
		switch row := r.sf[0] + a; {
		case row < r.st[0]:
			return p.rated[a]
		case row < r.aLo[0]:
			return p.rated[a-nr]
		case row < r.aHi[0]:
			return p.angleLo[row-r.aLo[0]]
		default:
			return p.angleHi[row-r.aHi[0]]
		}
	}
	if p.soft == 0 {
		for a := range p.condensed {
			l := branchOf(a)
			k := min(p.order.Position[p.net.From[l]], p.order.Position[p.net.To[l]])
			if row := r.sf[0] + a; row < r.aLo[0] {
				k = min(p.order.Position[p.angleFrom[l]], p.order.Position[p.voltageFrom[l]], p.order.Position[p.net.To[l]])
			}
			limits[k] = append(limits[k], a)
		}
		out.limits = make([]uncondensedLimit, len(p.condensed))
	}
	sizes := make([]int, p.nb)
	start := make([]int, p.nb)
	for k := range p.nb {
		start[k] = out.variables
		sizes[k] = 4 + len(limits[k])
		for c := range 4 {
			out.bus = append(out.bus, start[k]+c)
		}
		for i, a := range limits[k] {
			out.limits[a].variable = start[k] + 4 + i
		}
		out.variables += sizes[k]
	}
	var row, col []int32
	entry := func(i, j int, cell lanes.Ref, sign float64) {
		row, col = append(row, int32(max(i, j))), append(col, int32(min(i, j)))
		out.entries = append(out.entries, matrixEntry{cell, sign})
	}
	for k, d := range p.diag {
		for i := range 4 {
			for j := range i + 1 {
				entry(start[k]+i, start[k]+j, d+lanes.Ref(4*i+j), 1)
			}
		}
	}
	for n, pair := range p.pairs {
		for i := range 4 {
			for j := range 4 {
				entry(start[pair[0]]+i, start[pair[1]]+j, p.offDiag[n]+lanes.Ref(4*i+j), 1)
			}
		}
	}
	reference := make([]bool, p.nb)
	for _, ref := range p.net.References {
		reference[ref] = true
	}
	for a := range out.limits {
		l := branchOf(a)
		from, to := p.net.From[l], p.net.To[l]
		v := &out.limits[a]
		v.first = len(out.entries)
		entry(v.variable, v.variable, p.s[r.sf[0]+a], 0)
		variable := func(bus, c int) int { return start[p.order.Position[bus]] + c }
		angle := func(bus int, cell lanes.Ref, sign float64) {
			if !reference[bus] {
				entry(v.variable, variable(bus, rowAngle), cell, sign)
			}
		}
		switch {
		case a < 2*nr:
			angle(p.angleFrom[l], p.qth[a], 1)
			angle(to, p.qth[a], -1)
			entry(v.variable, variable(p.voltageFrom[l], rowMagnitude), p.qvi[a], 1)
			entry(v.variable, variable(to, rowMagnitude), p.qvj[a], 1)
		case r.sf[0]+a < r.aHi[0]:
			angle(from, p.constant(1)[0], -1)
			angle(to, p.constant(1)[0], 1)
		default:
			angle(from, p.constant(1)[0], 1)
			angle(to, p.constant(1)[0], -1)
		}
		v.end = len(out.entries)
	}
	out.structure = multifrontal.Analyse(sizes, 4, p.order.Below, row, col)
	return out
}

// pivoted is a lane's matrix, its factor and a solution.
type pivoted struct {
	*pivoting
	factor              *multifrontal.Factor
	values              []float64
	omit                []bool // variables that are not in the matrix
	uncondensed         int    // count of limits in the matrix, which outlasts an interruption
	buses               []float64
	rhs, x, best        []float64
	residual, magnitude []float64
}

func newPivoted(p *pivoting) *pivoted {
	n := p.variables
	return &pivoted{pivoting: p, factor: multifrontal.NewFactor(p.structure), values: make([]float64, len(p.entries)), omit: make([]bool, n),
		buses: make([]float64, len(p.bus)), rhs: make([]float64, n), x: make([]float64, n), best: make([]float64, n), residual: make([]float64, n), magnitude: make([]float64, n)}
}

// chooseUncondensed chooses the branch limits that stay in the matrix, before it is assembled. Lanes without pivots
// chosen by size have none.
func (w *worker) chooseUncondensed(l int) {
	p, m, ln := w.plan, w.m, &w.lane[l]
	if !ln.pivoted {
		if v := w.pivoted[l]; v != nil && v.uncondensed > 0 {
			for _, c := range p.condensed {
				m.Set(c, l, 1)
			}
			v.uncondensed = 0
		}
		return
	}
	if w.pivoted[l] == nil {
		w.pivoted[l] = newPivoted(w.solver.pivoting())
	}
	v, first := w.pivoted[l], p.rows().sf[0]
	v.uncondensed = 0
	for a := range v.limits {
		s, z := m.Get(p.s[first+a], l), m.Get(p.z[first+a], l)
		largest := 1.0
		if a < 2*len(p.rated) {
			largest = max(math.Abs(m.Get(p.qth[a], l)), math.Abs(m.Get(p.qvi[a], l)), math.Abs(m.Get(p.qvj[a], l)))
		}
		keep, weight := z*largest*largest > uncondensedWeight*s, 1.0
		if keep {
			weight = 0
			v.uncondensed++
		}
		v.omit[v.limits[a].variable] = !keep
		m.Set(p.condensed[a], l, weight)
	}
}

// pivotedFactor factors a lane's matrix. It returns the number of negative eigenvalues without those of uncondensed
// limits; −1 for a singular matrix.
func (w *worker) pivotedFactor(l int) int {
	v, m, p := w.pivoted[l], w.m, w.plan
	for i, e := range v.entries {
		v.values[i] = e.sign * m.Get(e.cell, l)
	}
	first := p.rows().sf[0]
	for a, limit := range v.limits {
		if v.omit[limit.variable] {
			clear(v.values[limit.first:limit.end])
			continue
		}
		v.values[limit.first] = -m.Get(p.s[first+a], l) / m.Get(p.z[first+a], l)
	}
	v.factor.Factor(v.values, v.omit)
	w.lane[l].factored = true
	if v.factor.Zero > 0 {
		return -1
	}
	return v.factor.Negative - v.uncondensed
}

const (
	// Refinement ends at a residual within pivotedTolerance of each row's magnitude, after pivotedCorrections, or
	// when a correction does not halve it.
	pivotedTolerance   = 1e-15
	pivotedCorrections = 6
)

// pivotedSolve writes the direction of the buses in every lane with pivots chosen by size.
func (w *worker) pivotedSolve() {
	p, m, first := w.plan, w.m, w.plan.rows().sf[0]
	any := false
	for l := range w.lane {
		if ln := &w.lane[l]; ln.mode == idle || ln.turn != proceed || !ln.factored {
			continue
		}
		any = true
		v := w.pivoted[l]
		for a, limit := range v.limits {
			if !v.omit[limit.variable] {
				m.Set(p.w[first+a], l, m.Get(p.z[first+a], l))
			}
		}
	}
	if !any {
		return
	}
	m.Run(programGather) // unchanged in the other lanes
	for l := range w.lane {
		if ln := &w.lane[l]; ln.mode == idle || ln.turn != proceed || !ln.factored {
			continue
		}
		v := w.pivoted[l]
		m.Gather(v.buses, p.rhs[0], l)
		clear(v.rhs)
		for i, variable := range v.bus {
			v.rhs[variable] = v.buses[i]
		}
		for a, limit := range v.limits {
			if !v.omit[limit.variable] {
				s, z := m.Get(p.s[first+a], l), m.Get(p.z[first+a], l)
				v.rhs[limit.variable] = s - m.Get(p.r[first+a], l) - m.Get(p.target[first+a], l)/z
			}
		}
		v.solve()
		for i, variable := range v.bus {
			v.buses[i] = v.best[variable]
		}
		m.Scatter(p.sol[0], l, v.buses)
	}
}

// solve finds best for rhs.
func (v *pivoted) solve() {
	clear(v.x)
	clear(v.best)
	copy(v.residual, v.rhs)
	smallest := math.Inf(1)
	for range pivotedCorrections {
		v.factor.Solve(v.residual)
		for i, d := range v.residual {
			v.x[i] += d
		}
		residual := v.error()
		if !(residual < smallest) {
			return
		}
		copy(v.best, v.x)
		if residual <= pivotedTolerance || residual > smallest/2 {
			return
		}
		smallest = residual
	}
}

// error writes the residual at x. It returns the largest entry relative to its row's magnitude.
func (v *pivoted) error() float64 {
	v.structure.Residual(v.values, v.x, v.rhs, v.residual, v.magnitude)
	worst := 0.0
	for i, r := range v.residual {
		if r != 0 {
			worst = max(worst, math.Abs(r)/v.magnitude[i])
		}
	}
	return worst
}

// pivotedExpand writes the steps of the uncondensed limits: dz from the solution, ds from the complementarity.
func (w *worker) pivotedExpand() {
	p, m, first := w.plan, w.m, w.plan.rows().sf[0]
	for l := range w.lane {
		if ln := &w.lane[l]; ln.mode == idle || ln.turn != proceed || !ln.factored {
			continue
		}
		v := w.pivoted[l]
		for a, limit := range v.limits {
			if v.omit[limit.variable] {
				continue
			}
			s, z, dz := m.Get(p.s[first+a], l), m.Get(p.z[first+a], l), v.best[limit.variable]
			m.Set(p.dz[first+a], l, dz)
			m.Set(p.ds[first+a], l, (m.Get(p.target[first+a], l)-float64(s*dz))/z-s)
		}
	}
}
