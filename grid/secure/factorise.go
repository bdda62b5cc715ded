package secure

import (
	"math"

	"github.com/gpc-engine/gpc/grid/internal/multifrontal"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

// factorise factors the matrix, with as much added to its diagonal as it needs to have as many
// negative eigenvalues as there are equations. After a step that needed some it begins with a third of that.
func (p *interior) factorise() bool {
	want := 0
	for _, t := range p.states {
		for v, dual := range t.dual {
			if dual && !t.omit[v] {
				want++
			}
		}
	}
	p.shift = leastShift
	p.pivoted = len(p.states) == 1 || p.sys.lanesBefore() == nil || p.sys.lanesAfter(1) == nil
	inLanes := !p.pivoted
	rho, added, addedRho := 0.0, 0.0, 0.0
	if p.shifted && p.lastShift/3 > firstShift/100 {
		p.shift, rho = p.lastShift/3, dualShift
	}
	for tried := 0; ; tried++ {
		negative, zero := p.factorWith(p.shift-added, rho-addedRho)
		if negative != want && inLanes && tried == 1 && !p.shifted && p.sys.setCount <= mostPivoted { // a shift does not help the lanes either
			p.pivoted = true
			negative, zero = p.factorWith(0, 0)
		}
		if negative == want && zero == 0 {
			if p.shifted = p.shift > leastShift; p.shifted {
				p.lastShift = p.shift
			}
			return true
		}
		p.pivoted = !inLanes
		added, addedRho = p.shift, rho
		switch {
		case tried == 0 && zero > 0 && negative <= want:
			rho = dualShift
			p.shift = max(p.shift, p.lastShift/3)
		case p.shift == leastShift && p.lastShift == 0:
			p.shift = firstShift
		case p.shift == leastShift:
			p.shift = max(firstShift/100, p.lastShift/3)
		default:
			p.shift *= shiftGrowth
		}
		rho = dualShift
		if p.shift > largestShift {
			return false
		}
	}
}

// factorWith adds to the diagonals and factors every state, the one before any outage last.
func (p *interior) factorWith(shift, rho float64) (negative, zero int) {
	add := func(t *state) {
		for v, dual := range t.dual {
			switch {
			case t.omit[v]:
			case dual:
				t.values[t.diagonal[v]] -= rho
			default:
				t.values[t.diagonal[v]] += shift
			}
		}
		if t.after {
			for _, v := range t.set {
				t.values[t.diagonal[v]] -= shift
			}
		}
	}
	p.each(func(t *state) {
		add(t)
		if t.factor == nil && p.pivoted {
			t.factor = multifrontal.NewFactor(t.structure)
		}
		if t.after && p.pivoted {
			t.factor.Factor(t.values, t.omit)
			t.schur, t.negative, t.zeros = t.factor.Schur(), t.factor.Negative, t.factor.Zero
		}
	})
	if !p.pivoted {
		p.group()
		p.eachGroup((*laneGroup).factor)
	}
	base := p.states[0]
	base.whole = append(base.whole[:0], base.values...)
	for _, t := range p.states[1:] {
		negative, zero = negative+t.negative, zero+t.zeros
		if p.pivoted {
			t.addSchur(base.whole)
		}
	}
	if !p.pivoted {
		p.eachGroup((*laneGroup).complements)
		for _, g := range p.groups {
			g.addSchur(base.whole)
		}
	}
	if p.pivoted {
		base.factor.Factor(base.whole, base.omit)
		return negative + base.factor.Negative, zero + base.factor.Zero
	}
	p.root.run(func(t *state) []float64 { return t.whole })
	p.root.factorBorder()
	return negative + base.negative, zero
}

// addSchur adds the Schur complement to the entries of the state before any outage.
func (t *state) addSchur(to []float64) {
	n, k := len(t.set), 0
	for j := range n {
		for i := j; i < n; i++ {
			to[t.meets[k]] += t.schur[j*n+i]
			k++
		}
	}
}

// direction solves for the step to s·z = mu; with second the products of the step before are
// taken into account. The step to 0 only says which mu to go to, and is not refined. Of a limit that may give, h − give + s = 0 and z + hold = price; elimination
// of s, give and hold leaves dz = (∇h·dx + q)/(s/z + give/hold).
func (p *interior) direction(mu float64, second bool) {
	p.each(func(t *state) {
		for i := range t.limits {
			t.target[i] = mu
			if second {
				t.target[i] -= t.ds[i] * t.dz[i]
			}
			t.q[i] = t.h[i] + t.target[i]/t.z[i]
			if t.gives(i) {
				t.giveTarget[i] = mu
				if second {
					t.giveTarget[i] -= t.dgive[i] * t.dhold[i]
				}
				t.q[i] += -t.giveTarget[i]/t.hold[i] + t.give[i]/t.hold[i]*(t.price[i]-t.z[i]-t.hold[i])
			}
			t.dz[i] = t.weigh[i] * t.q[i]
		}
		clear(t.rhs)
		t.addLimits(t.dz, t.rhs)
		for v := range t.rhs {
			t.rhs[v] = -t.rhs[v] - t.r[v]
			if t.omit[v] {
				t.rhs[v] = 0
			}
		}
		if t.elastic != nil {
			t.elastic.aim(t, mu, second)
		}
	})
	base := p.states[0]
	for _, t := range p.states[1:] {
		for k, v := range t.set {
			base.rhs[base.set[k]] += t.rhs[v]
			t.rhs[v] = 0
		}
	}
	p.linear()
	if (mu > 0 || p.pivoted) && !p.refine() && !p.pivoted {
		p.pivoted = true
		p.factorWith(0, 0)
		p.linear()
		p.refine()
	}
	p.each(func(t *state) {
		for i := range t.limits {
			t.dz[i] = t.weigh[i] * (t.along(i, t.d) + t.q[i])
			t.ds[i] = t.target[i]/t.z[i] - t.s[i] - t.s[i]/t.z[i]*t.dz[i]
			if t.gives(i) {
				t.dhold[i] = t.price[i] - t.z[i] - t.hold[i] - t.dz[i]
				t.dgive[i] = t.giveTarget[i]/t.hold[i] - t.give[i] - t.give[i]/t.hold[i]*t.dhold[i]
			}
		}
		if t.elastic != nil {
			t.elastic.expand(t)
		}
	})
}

// linear solves for the direction of the right-hand side.
func (p *interior) linear() {
	p.each(func(t *state) { copy(t.d, t.rhs) })
	p.solve(func(t *state) []float64 { return t.d })
}

// refine corrects the direction by what it leaves of the right-hand side, and says whether that is small enough.
func (p *interior) refine() bool {
	most := refinements
	if !p.pivoted {
		most = laneRefinements
	}
	last := math.Inf(1)
	for k := 0; ; k++ {
		worst, size := p.residual()
		if !(worst > refineTo*size) || k == most || !(worst < last/2) && !p.pivoted {
			return p.pivoted || worst <= laneTo*size || p.sys.setCount > mostPivoted && worst <= size/2
		}
		last = worst
		p.correct()
	}
}

// group gives states after outages their lanes, the last ones no more than they need.
func (p *interior) group() {
	if p.root == nil {
		p.root = p.sys.lanesBefore().group()
	}
	p.root.states = p.states[:1]
	count := 0
	for rest := p.states[1:]; len(rest) > 0; count++ {
		f := p.sys.lanesAfter(len(rest))
		switch {
		case count == len(p.groups):
			p.groups = append(p.groups, f.group())
		case p.groups[count].f != f:
			p.groups[count].release()
			p.groups[count] = f.group()
		}
		n := min(f.compiled.Width(), len(rest))
		p.groups[count].states, rest = rest[:n], rest[n:]
	}
	p.groups = p.groups[:count]
}

// release gives the lanes back. Nothing is factored after that.
func (p *interior) release() {
	if p.root == nil {
		return
	}
	for _, g := range append(p.groups, p.root) {
		g.release()
	}
	p.root, p.groups = nil, nil
}

// eachGroup runs f for every group of lanes, side by side.
func (p *interior) eachGroup(f func(g *laneGroup)) {
	parallel.Each(p.threads, len(p.groups), func(_, k int) { f(p.groups[k]) })
}

// solve writes the whole matrix's inverse times a vector over the vector. In states after an
// outage the border's part is not read: what they add to it is in that of the first state.
func (p *interior) solve(of func(t *state) []float64) {
	p.each(func(t *state) {
		if t.after {
			x := of(t)
			for _, v := range t.set {
				x[v] = 0
			}
			if p.pivoted {
				t.factor.Forward(x)
			}
		}
	})
	if !p.pivoted {
		p.eachGroup(func(g *laneGroup) { g.forward(of) })
	}
	base := p.states[0]
	x := of(base)
	for _, t := range p.states[1:] {
		from := of(t)
		for k, v := range t.set {
			x[base.set[k]] += from[v]
		}
	}
	if p.pivoted {
		base.factor.Solve(x)
	} else {
		p.root.forward(of)
		p.root.solveBorder(of)
		p.root.backward(of)
	}
	p.each(func(t *state) {
		if t.after {
			to := of(t)
			for k, v := range t.set {
				to[v] = x[base.set[k]]
			}
			if p.pivoted {
				t.factor.Backward(to)
			}
		}
	})
	if !p.pivoted {
		p.eachGroup(func(g *laneGroup) { g.backward(of) })
	}
}

// residual is what the direction leaves of the right-hand side, the largest entry, beside that of the
// right-hand side.
func (p *interior) residual() (worst, size float64) {
	p.each(func(t *state) {
		t.structure.Multiply(t.values, t.d, t.residual)
		for v, b := range t.rhs {
			t.residual[v] = b - t.residual[v]
		}
	})
	base := p.states[0]
	for _, t := range p.states[1:] {
		for k, v := range t.set {
			base.residual[base.set[k]] += t.residual[v]
			t.residual[v] = 0
		}
	}
	for _, t := range p.states {
		for v, r := range t.residual {
			worst, size = max(worst, math.Abs(r)), max(size, math.Abs(t.rhs[v]))
		}
	}
	return worst, size
}

// correct solves for the residual and adds that to the direction.
func (p *interior) correct() {
	p.solve(func(t *state) []float64 { return t.residual })
	p.each(func(t *state) {
		for v, c := range t.residual {
			t.d[v] += c
		}
	})
}

// mostPivoted are the set-points up to which pivots are chosen by size where a shift does not help, or a direction in lanes
// keeps a residual: with a thousand a factorisation of a block takes minutes. Above, a direction is taken that solves for
// half of the right-hand side.
const mostPivoted = 256
