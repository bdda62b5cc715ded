package secure

import "math"

// factorise factors the matrix, with as much added to its diagonal as it needs to have as many
// negative eigenvalues as there are equations.
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
	rho, added, addedRho := 0.0, 0.0, 0.0
	for tried := 0; ; tried++ {
		negative, zero := p.factorWith(p.shift-added, rho-addedRho)
		if negative == want && zero == 0 {
			if tried > 0 {
				p.lastShift = p.shift
			}
			return true
		}
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
		if t.after {
			t.factor.Factor(t.values, t.omit)
		}
	})
	base := p.states[0]
	base.whole = append(base.whole[:0], base.values...)
	for _, t := range p.states[1:] {
		schur, n, first := t.factor.Schur(), len(t.set), t.variables-len(t.set)
		for a := range n {
			for b := range a + 1 {
				i, j := t.set[a]-first, t.set[b]-first
				base.whole[base.between[a][b]] += schur[min(i, j)*n+max(i, j)]
			}
		}
		negative, zero = negative+t.factor.Negative, zero+t.factor.Zero
	}
	base.factor.Factor(base.whole, base.omit)
	return negative + base.factor.Negative, zero + base.factor.Zero
}

// direction solves for the step to s·z = mu; with second the products of the step before are
// taken into account. Of a limit that may give, h − give + s = 0 and z + hold = price; elimination
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
			t.dz[i] = t.heavy(i) * t.q[i]
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
	p.each(func(t *state) { copy(t.d, t.rhs) })
	p.solve(func(t *state) []float64 { return t.d })
	for range refinements {
		if !p.refine() {
			break
		}
	}
	p.each(func(t *state) {
		for i := range t.limits {
			t.dz[i] = t.heavy(i) * (t.along(i, t.d) + t.q[i])
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

// solve writes the whole matrix's inverse times a vector over the vector. In states after an
// outage the border's part is not read: what they add to it is in that of the first state.
func (p *interior) solve(of func(t *state) []float64) {
	p.each(func(t *state) {
		if t.after {
			x := of(t)
			for _, v := range t.set {
				x[v] = 0
			}
			t.factor.Forward(x)
		}
	})
	base := p.states[0]
	x := of(base)
	for _, t := range p.states[1:] {
		from := of(t)
		for k, v := range t.set {
			x[base.set[k]] += from[v]
		}
	}
	base.factor.Solve(x)
	p.each(func(t *state) {
		if t.after {
			to := of(t)
			for k, v := range t.set {
				to[v] = x[base.set[k]]
			}
			t.factor.Backward(to)
		}
	})
}

// refine corrects the direction by its residual, and says whether another time is worth it.
func (p *interior) refine() bool {
	p.each(func(t *state) {
		t.structure.Residual(t.values, t.d, t.rhs, t.residual, t.magnitude)
	})
	base := p.states[0]
	for _, t := range p.states[1:] {
		for k, v := range t.set {
			base.residual[base.set[k]] += t.residual[v]
			t.residual[v] = 0
		}
	}
	worst, size := 0.0, 0.0
	for _, t := range p.states {
		for v, r := range t.residual {
			worst, size = max(worst, math.Abs(r)), max(size, math.Abs(t.rhs[v]))
		}
	}
	if !(worst > refineTo*size) {
		return false
	}
	p.solve(func(t *state) []float64 { return t.residual })
	p.each(func(t *state) {
		for v, c := range t.residual {
			t.d[v] += c
		}
	})
	return true
}
