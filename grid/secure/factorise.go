package secure

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/internal/multifrontal"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

// factorise factors the KKT matrix. It shifts the diagonal until the inertia is right: as many negative eigenvalues
// as equations. After a shifted step it starts with a third of that shift.
func (p *interior) factorise() bool {
	want := 0
	for _, t := range p.states {
		for v, dual := range t.dual {
			if dual && !t.omit[v] {
				want++
			}
		}
	}
	p.shift = minShift
	p.pivoted = len(p.states) == 1 || p.sys.lanesBefore() == nil || p.sys.lanesAfter(p.states[1].part.reference, 1) == nil
	inLanes := !p.pivoted
	rho, added, addedRho := 0.0, 0.0, 0.0
	if p.shifted && p.lastShift/3 > firstShift/100 {
		p.shift, rho = p.lastShift/3, dualShift
	}
	for attempts := 0; ; attempts++ {
		negative, zero := p.factorWith(p.shift-added, rho-addedRho)
		if negative != want && inLanes && attempts == 1 && !p.shifted && p.sys.setCount <= maxPivotedSetPoints { // a shift does not help in lanes
			p.pivoted = true
			negative, zero = p.factorWith(0, 0)
		}
		if negative == want && zero == 0 {
			if p.shifted = p.shift > minShift; p.shifted {
				p.lastShift = p.shift
			}
			return true
		}
		p.pivoted = !inLanes
		added, addedRho = p.shift, rho
		switch {
		case attempts == 0 && zero > 0 && negative <= want:
			rho = dualShift
			p.shift = max(p.shift, p.lastShift/3)
		case p.shift == minShift && p.lastShift == 0:
			p.shift = firstShift
		case p.shift == minShift:
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

// factorWith adds shift and rho to the primal and dual diagonals and factors every state, the base state last.
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
			for _, v := range t.setPoints {
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
	base.condensed = append(base.condensed[:0], base.values...)
	for _, t := range p.states[1:] {
		negative, zero = negative+t.negative, zero+t.zeros
		if p.pivoted {
			t.addSchur(base.condensed)
		}
	}
	if !p.pivoted {
		p.eachGroup((*laneGroup).complements)
		for _, g := range p.groups {
			g.addSchur(base.condensed)
		}
	}
	if p.pivoted {
		base.factor.Factor(base.condensed, base.omit)
		return negative + base.factor.Negative, zero + base.factor.Zero
	}
	p.root.factorInterior(func(t *state) []float64 { return t.condensed })
	p.root.factorBorder()
	return negative + base.negative, zero
}

// addSchur adds the Schur complement to the entries of the base state.
func (t *state) addSchur(to []float64) {
	n, k := len(t.setPoints), 0
	for j := range n {
		for i := j; i < n; i++ {
			to[t.schurEntries[k]] += t.schur[j*n+i]
			k++
		}
	}
}

// direction solves for the step to s·z = mu. With second it includes the products of the predictor step. The
// predictor (mu = 0) only chooses mu and is not refined. A soft limit has h − elasticSlack + s = 0 and z +
// elasticDual = penalty. Elimination of s, elasticSlack and elasticDual leaves dz = (∇h·dx + q)/(s/z +
// elasticSlack/elasticDual).
func (p *interior) direction(mu float64, second bool) {
	p.each(func(t *state) {
		for i := range t.limits {
			t.target[i] = mu
			if second {
				t.target[i] -= t.ds[i] * t.dz[i]
			}
			t.q[i] = t.h[i] + t.target[i]/t.z[i]
			if t.soft(i) {
				t.elasticTarget[i] = mu
				if second {
					t.elasticTarget[i] -= t.dElasticSlack[i] * t.dElasticDual[i]
				}
				t.q[i] += -t.elasticTarget[i]/t.elasticDual[i] + t.elasticSlack[i]/t.elasticDual[i]*(t.penalty[i]-t.z[i]-t.elasticDual[i])
			}
			t.dz[i] = t.limitWeights[i] * t.q[i]
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
			t.elastic.setTargets(t, mu, second)
		}
	})
	base := p.states[0]
	for _, t := range p.states[1:] {
		for k, v := range t.setPoints {
			base.rhs[base.setPoints[k]] += t.rhs[v]
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
			t.dz[i] = t.limitWeights[i] * (t.directional(i, t.d) + t.q[i])
			t.ds[i] = t.target[i]/t.z[i] - t.s[i] - t.s[i]/t.z[i]*t.dz[i]
			if t.soft(i) {
				t.dElasticDual[i] = t.penalty[i] - t.z[i] - t.elasticDual[i] - t.dz[i]
				t.dElasticSlack[i] = t.elasticTarget[i]/t.elasticDual[i] - t.elasticSlack[i] - t.elasticSlack[i]/t.elasticDual[i]*t.dElasticDual[i]
			}
		}
		if t.elastic != nil {
			t.elastic.expand(t)
		}
	})
}

// linear solves the KKT system for the direction.
func (p *interior) linear() {
	p.each(func(t *state) { copy(t.d, t.rhs) })
	p.solve(func(t *state) []float64 { return t.d })
}

// refine improves the direction by iterative refinement and reports whether its residual is small enough.
func (p *interior) refine() bool {
	rounds := refinements
	if !p.pivoted {
		rounds = laneRefinements
	}
	previous := math.Inf(1)
	for k := 0; ; k++ {
		worst, size := p.residual()
		if !(worst > refinementTolerance*size) || k == rounds || !(worst < previous/2) && !p.pivoted {
			return p.pivoted || worst <= laneTolerance*size || p.sys.setCount > maxPivotedSetPoints && worst <= size/2
		}
		previous = worst
		p.correct()
	}
}

// group assigns the states after outages to lane groups. The last group is no wider than it has to be.
func (p *interior) group() {
	if p.root == nil {
		p.root = p.sys.lanesBefore().group()
	}
	p.root.states = p.states[:1]
	count := 0
	for remaining := p.states[1:]; len(remaining) > 0; count++ {
		reference := remaining[0].part.reference
		other := slices.IndexFunc(remaining, func(t *state) bool { return t.part.reference != reference })
		if other < 0 {
			other = len(remaining)
		}
		f := p.sys.lanesAfter(reference, other)
		switch {
		case count == len(p.groups):
			p.groups = append(p.groups, f.group())
		case p.groups[count].f != f:
			p.groups[count].release()
			p.groups[count] = f.group()
		}
		n := min(f.compiled.Width(), other)
		p.groups[count].states, remaining = remaining[:n], remaining[n:]
	}
	p.groups = p.groups[:count]
}

// release returns the lane groups to their pools. Nothing is factored afterwards.
func (p *interior) release() {
	if p.root == nil {
		return
	}
	for _, g := range append(p.groups, p.root) {
		g.release()
	}
	p.root, p.groups = nil, nil
}

// eachGroup runs f for every lane group in parallel.
func (p *interior) eachGroup(f func(g *laneGroup)) {
	parallel.Each(p.threads, len(p.groups), func(_, k int) { f(p.groups[k]) })
}

// solve overwrites a vector with the solution of the KKT system. It ignores the border's part of states after
// outages, whose right-hand side is in the base state's set-points.
func (p *interior) solve(vector func(t *state) []float64) {
	p.each(func(t *state) {
		if t.after {
			x := vector(t)
			for _, v := range t.setPoints {
				x[v] = 0
			}
			if p.pivoted {
				t.factor.Forward(x)
			}
		}
	})
	if !p.pivoted {
		p.eachGroup(func(g *laneGroup) { g.forward(vector) })
	}
	base := p.states[0]
	x := vector(base)
	for _, t := range p.states[1:] {
		source := vector(t)
		for k, v := range t.setPoints {
			x[base.setPoints[k]] += source[v]
		}
	}
	if p.pivoted {
		base.factor.Solve(x)
	} else {
		p.root.forward(vector)
		p.root.solveBorder(vector)
		p.root.backward(vector)
	}
	p.each(func(t *state) {
		if t.after {
			target := vector(t)
			for k, v := range t.setPoints {
				target[v] = x[base.setPoints[k]]
			}
			if p.pivoted {
				t.factor.Backward(target)
			}
		}
	})
	if !p.pivoted {
		p.eachGroup(func(g *laneGroup) { g.backward(vector) })
	}
}

// residual returns the largest entries of the direction's residual and of the right-hand side.
func (p *interior) residual() (worst, size float64) {
	p.each(func(t *state) {
		t.structure.Multiply(t.values, t.d, t.residual)
		for v, b := range t.rhs {
			t.residual[v] = b - t.residual[v]
		}
	})
	base := p.states[0]
	for _, t := range p.states[1:] {
		for k, v := range t.setPoints {
			base.residual[base.setPoints[k]] += t.residual[v]
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

// correct adds the solution for the residual to the direction.
func (p *interior) correct() {
	p.solve(func(t *state) []float64 { return t.residual })
	p.each(func(t *state) {
		for v, c := range t.residual {
			t.d[v] += c
		}
	})
}

// maxPivotedSetPoints is the largest number of set-points for which pivots are chosen by size where a shift or
// refinement fails in lanes. With a thousand set-points one such factorisation takes minutes. Larger networks accept
// a direction that leaves half of the right-hand side.
const maxPivotedSetPoints = 256
