// Package ipoptcheck solves AC optimal power flows with IPOPT, an interior
// point solver of others (A. Wächter, L. T. Biegler, Math. Programming 106,
// 2006), to compare package acopf's optima and times with.
//
// Its central type is formulation: the optimal power flow as the nonlinear
// program IPOPT takes, written apart from acopf and from other formulas, so that
// a slip in one does not hide in both. The solver itself is linked with the
// build tag ipopt only; the formulation and the test of its derivatives are
// always there.
//
// With θ, V by bus and P, Q by generator, all per unit, it is
//
//	min  Σ cost(P) + Σ cost(Q), or a·J₁ + b·J₂ + c·J₃ + constant
//	s.t. balance of P and of Q at every bus
//	     |S|² ≤ rate² at both ends of rated branches
//	     limits of V, P, Q and of angle differences
//
// with a variable above all its segments for each piecewise linear cost (MATPOWER
// User's Manual §6.1–6.2).
package ipoptcheck

import (
	"math"

	"github.com/gpc-engine/gpc/grid/network"
)

// formulation is a nonlinear program in the form
//
//	min f(x)  s.t.  glo ≤ g(x) ≤ ghi,  xlo ≤ x ≤ xhi
//
// with sparse derivatives. x is θ, V, P, Q, then one variable a piecewise linear
// cost.
type formulation struct {
	net    *network.Network
	y      *network.Admittance
	pd, qd []float64
	// weight of the file's cost, of J₁ and of J₂, and a constant.
	cost, loading, deadband, constant float64

	shape
	rated    []int // branches with |S| limits
	ratedAt  []int // by branch, where it is in rated, or −1
	angled   []int // branches with angle limits
	segments []segment
	epigraph []int // by cost, P's before Q's: its variable, −1 for a polynomial
}

// shape is what IPOPT is told of a nonlinear program beforehand: start, limits and the patterns of
// its derivatives.
type shape struct {
	x0, xlo, xhi      []float64
	glo, ghi          []float64
	jacobian, hessian pattern
}

// segment is one line of a piecewise linear cost: slope·x[power] + intercept ≤
// x[value].
type segment struct {
	power, value     int
	slope, intercept float64
}

// pattern collects entries in the order they are written, so that a later pass
// in the same order finds their places.
type pattern struct {
	row, column []int32
	place       []int32
	at          map[[2]int32]int32
}

func (p *pattern) add(row, column int) {
	key := [2]int32{int32(row), int32(column)}
	k, ok := p.at[key]
	if !ok {
		if p.at == nil {
			p.at = map[[2]int32]int32{}
		}
		k = int32(len(p.row))
		p.at[key] = k
		p.row, p.column = append(p.row, key[0]), append(p.column, key[1])
	}
	p.place = append(p.place, k)
}

// Positions in x.
func (f *formulation) angle(bus int) int     { return bus }
func (f *formulation) magnitude(bus int) int { return f.net.Buses() + bus }
func (f *formulation) active(gen int) int    { return 2*f.net.Buses() + gen }
func (f *formulation) reactive(gen int) int  { return 2*f.net.Buses() + f.net.Gens() + gen }

// term is one power at one end of a branch as a function of the angle
// difference δ from that end to the other, of its own voltage magnitude v and of
// the other's w: a·v² + v·w·(c·cos δ + s·sin δ).
type term struct{ a, c, s float64 }

// terms are P and Q at the from end, P and Q at the to end.
func terms(y *network.Admittance, k int) [4]term {
	return [4]term{
		{y.Gff[k], y.Gft[k], y.Bft[k]},
		{-y.Bff[k], -y.Bft[k], y.Gft[k]},
		{y.Gtt[k], y.Gtf[k], y.Btf[k]},
		{-y.Btt[k], -y.Btf[k], y.Gtf[k]},
	}
}

// local is a value with its derivatives by (θ own, θ other, V own, V other).
type local struct {
	value    float64
	gradient [4]float64
	hessian  [4][4]float64
}

// at evaluates a term.
func (t term) at(delta, v, w float64) (l local) {
	sin, cos := math.Sincos(delta)
	m := t.c*cos + t.s*sin  // what multiplies v·w
	dm := t.s*cos - t.c*sin // its derivative by δ; the second one is −m
	l.value = t.a*v*v + v*w*m
	l.gradient = [4]float64{v * w * dm, -v * w * dm, 2*t.a*v + w*m, v * m}
	l.hessian = [4][4]float64{
		{-v * w * m, v * w * m, w * dm, v * dm},
		{v * w * m, -v * w * m, -w * dm, -v * dm},
		{w * dm, -w * dm, 2 * t.a, m},
		{v * dm, -v * dm, m, 0},
	}
	return l
}

// ends are the buses of a branch seen from its from end (0) or to end (1).
func (f *formulation) ends(branch, end int) (own, other int) {
	if end == 0 {
		return f.net.From[branch], f.net.To[branch]
	}
	return f.net.To[branch], f.net.From[branch]
}

// power evaluates P and Q at one end of a branch.
func (f *formulation) power(x []float64, branch, end int) (p, q local) {
	own, other := f.ends(branch, end)
	ts := terms(f.y, branch)
	delta := x[f.angle(own)] - x[f.angle(other)]
	v, w := x[f.magnitude(own)], x[f.magnitude(other)]
	return ts[2*end].at(delta, v, w), ts[2*end+1].at(delta, v, w)
}

// variables of a branch's end, in the order of local's derivatives.
func (f *formulation) variables(branch, end int) [4]int {
	own, other := f.ends(branch, end)
	return [4]int{f.angle(own), f.angle(other), f.magnitude(own), f.magnitude(other)}
}

// costs calls visit for every cost of a generator's power: its variable, its
// function and its number.
func (f *formulation) costs(visit func(number, variable int, c network.Cost)) {
	for g, c := range f.net.Cost {
		visit(g, f.active(g), c)
	}
	for g, c := range f.net.ReactiveCost {
		visit(len(f.net.Cost)+g, f.reactive(g), c)
	}
}

// overload is how far |S|/rate at a branch's from end is above 0.85, with its
// derivatives; zero where it is below or the branch has no rating.
func (f *formulation) overload(x []float64, branch int) (l local, active bool) {
	rate := f.net.Rate[branch]
	if math.IsInf(rate, 1) {
		return l, false
	}
	p, q := f.power(x, branch, 0)
	s := math.Hypot(p.value, q.value)
	if s/rate <= 0.85 {
		return l, false
	}
	l.value = s/rate - 0.85
	for i := range 4 {
		l.gradient[i] = (p.value*p.gradient[i] + q.value*q.gradient[i]) / (s * rate)
	}
	for i := range 4 {
		for j := range 4 {
			l.hessian[i][j] = (p.gradient[i]*p.gradient[j]+p.value*p.hessian[i][j]+
				q.gradient[i]*q.gradient[j]+q.value*q.hessian[i][j])/(s*rate) -
				l.gradient[i]*l.gradient[j]*rate/s
		}
	}
	return l, true
}

// objectives are J₁, J₂ and J₃ at x, with the costs' functions themselves.
func (f *formulation) objectives(x []float64) (j [3]float64) {
	for k := range f.net.From {
		if l, active := f.overload(x, k); active {
			j[0] += math.Pow(l.value, 4)
		}
	}
	for b := range f.net.BusID {
		d := max(0, math.Abs(x[f.magnitude(b)]-1)-0.05)
		j[1] += d * d
	}
	f.costs(func(_, variable int, c network.Cost) {
		value, _, _ := c.At(x[variable])
		j[2] += value
	})
	return j
}

func (f *formulation) objective(x []float64) float64 {
	v := f.constant
	f.costs(func(number, variable int, c network.Cost) {
		if e := f.epigraph[number]; e >= 0 {
			v += f.cost * x[e]
			return
		}
		value, _, _ := c.At(x[variable])
		v += f.cost * value
	})
	if f.loading != 0 || f.deadband != 0 {
		j := f.objectives(x)
		v += f.loading*j[0] + f.deadband*j[1]
	}
	return v
}

func (f *formulation) gradient(x, out []float64) {
	clear(out)
	f.costs(func(number, variable int, c network.Cost) {
		if e := f.epigraph[number]; e >= 0 {
			out[e] += f.cost
			return
		}
		_, first, _ := c.At(x[variable])
		out[variable] += f.cost * first
	})
	if f.loading != 0 {
		for k := range f.net.From {
			if l, active := f.overload(x, k); active {
				for i, variable := range f.variables(k, 0) {
					out[variable] += f.loading * 4 * math.Pow(l.value, 3) * l.gradient[i]
				}
			}
		}
	}
	if f.deadband != 0 {
		for b := range f.net.BusID {
			v := x[f.magnitude(b)]
			out[f.magnitude(b)] += f.deadband * 2 * max(0, math.Abs(v-1)-0.05) * math.Copysign(1, v-1)
		}
	}
}

// constraints writes g(x): balances of P, of Q, |S|² from, |S|² to, angle
// differences, segments.
func (f *formulation) constraints(x, out []float64) {
	n := f.net
	nb := n.Buses()
	for b := range nb {
		v := x[f.magnitude(b)]
		out[b], out[nb+b] = f.pd[b]+n.Gs[b]*v*v, f.qd[b]-n.Bs[b]*v*v
	}
	for g, b := range n.GenBus {
		out[b] -= x[f.active(g)]
		out[nb+b] -= x[f.reactive(g)]
	}
	for k := range n.From {
		for end := range 2 {
			own, _ := f.ends(k, end)
			p, q := f.power(x, k, end)
			out[own] += p.value
			out[nb+own] += q.value
		}
	}
	at := 2 * nb
	for end := range 2 {
		for _, k := range f.rated {
			p, q := f.power(x, k, end)
			out[at] = p.value*p.value + q.value*q.value
			at++
		}
	}
	for _, k := range f.angled {
		out[at] = x[f.angle(n.From[k])] - x[f.angle(n.To[k])]
		at++
	}
	for _, s := range f.segments {
		out[at] = s.slope*x[s.power] + s.intercept - x[s.value]
		at++
	}
}

// visitJacobian calls add for every entry of g's derivative, always in the same
// order; at x nil the values are not computed.
func (f *formulation) visitJacobian(x []float64, add func(row, column int, value float64)) {
	n := f.net
	nb := n.Buses()
	for b := range nb {
		v := 0.0
		if x != nil {
			v = x[f.magnitude(b)]
		}
		add(b, f.magnitude(b), 2*n.Gs[b]*v)
		add(nb+b, f.magnitude(b), -2*n.Bs[b]*v)
	}
	for g, b := range n.GenBus {
		add(b, f.active(g), -1)
		add(nb+b, f.reactive(g), -1)
	}
	var p, q local
	for k := range n.From {
		for end := range 2 {
			own, _ := f.ends(k, end)
			if x != nil {
				p, q = f.power(x, k, end)
			}
			for i, variable := range f.variables(k, end) {
				add(own, variable, p.gradient[i])
				add(nb+own, variable, q.gradient[i])
			}
		}
	}
	at := 2 * nb
	for end := range 2 {
		for _, k := range f.rated {
			if x != nil {
				p, q = f.power(x, k, end)
			}
			for i, variable := range f.variables(k, end) {
				add(at, variable, 2*(p.value*p.gradient[i]+q.value*q.gradient[i]))
			}
			at++
		}
	}
	for _, k := range f.angled {
		add(at, f.angle(n.From[k]), 1)
		add(at, f.angle(n.To[k]), -1)
		at++
	}
	for _, s := range f.segments {
		add(at, s.power, s.slope)
		add(at, s.value, -1)
		at++
	}
}

// visitHessian calls add for every entry of the lower triangle of
// factor·∇²f + Σ λ·∇²g, always in the same order.
func (f *formulation) visitHessian(x []float64, factor float64, lambda []float64, add func(row, column int, value float64)) {
	n := f.net
	nb := n.Buses()
	for b := range nb {
		value := 0.0
		if x != nil {
			value = 2*n.Gs[b]*lambda[b] - 2*n.Bs[b]*lambda[nb+b]
			if math.Abs(x[f.magnitude(b)]-1) > 0.05 {
				value += 2 * factor * f.deadband
			}
		}
		add(f.magnitude(b), f.magnitude(b), value)
	}
	f.costs(func(number, variable int, c network.Cost) {
		if f.epigraph[number] >= 0 {
			return
		}
		second := 0.0
		if x != nil {
			_, _, second = c.At(x[variable])
		}
		add(variable, variable, factor*f.cost*second)
	})
	for k := range n.From {
		for end := range 2 {
			var sum [4][4]float64
			if x != nil {
				f.branchHessian(x, k, end, factor, lambda, &sum)
			}
			variables := f.variables(k, end)
			for i, a := range variables {
				for j, b := range variables[:i+1] {
					add(max(a, b), min(a, b), sum[i][j])
				}
			}
		}
	}
}

// branchHessian sums what one end of a branch adds.
func (f *formulation) branchHessian(x []float64, k, end int, factor float64, lambda []float64, sum *[4][4]float64) {
	nb := f.net.Buses()
	own, _ := f.ends(k, end)
	p, q := f.power(x, k, end)
	mu := 0.0
	if i := f.ratedAt[k]; i >= 0 {
		mu = lambda[2*nb+end*len(f.rated)+i]
	}
	for i := range 4 {
		for j := range 4 {
			sum[i][j] = (lambda[own]+2*mu*p.value)*p.hessian[i][j] + (lambda[nb+own]+2*mu*q.value)*q.hessian[i][j] +
				2*mu*(p.gradient[i]*p.gradient[j]+q.gradient[i]*q.gradient[j])
		}
	}
	if end != 0 || f.loading == 0 {
		return
	}
	if l, active := f.overload(x, k); active {
		for i := range 4 {
			for j := range 4 {
				sum[i][j] += factor * f.loading * (12*l.value*l.value*l.gradient[i]*l.gradient[j] + 4*math.Pow(l.value, 3)*l.hessian[i][j])
			}
		}
	}
}
