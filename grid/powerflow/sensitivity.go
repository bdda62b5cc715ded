package powerflow

import (
	"math"

	"github.com/gpc-engine/gpc/grid/network"
)

// How a quantity h(θ, V) of a solved power flow answers to what the power flow was
// given. With F(θ, V) = 0 the balances that are solved for, J = ∂F/∂(θ, V) and
// Jᵀλ = ∂h/∂(θ, V), the entry of λ in the row of an injection is ∂h/∂(that
// injection): one transposed solve gives all of them. The magnitude of a bus that
// holds its voltage is an unknown here too, with the equation V = set-point, so
// that its row of λ is the derivative in the set-point. A reference stands outside
// the system; its set-point acts through the balances of its neighbours.

// Linearise factorises the Jacobian at the voltages of the last solve, which the
// calls of Sensitivity and Response after it use, until the next Solve. It reports false
// where the Jacobian is singular.
func (s *Solver) Linearise() bool {
	s.factored = s.factored[:0]
	s.jacobian()
	return s.lu.factorise()
}

// LineariseAt is Linearise at the voltages, and with the admittances, of another solver of
// the topology (Clone), whose next solves leave this linearisation as it is.
func (s *Solver) LineariseAt(other *Solver) bool {
	if s != other {
		copy(s.kind, other.kind)
		copy(s.pairs, other.pairs)
		for _, v := range [][2][]float64{{s.gd, other.gd}, {s.bd, other.bd}, {s.e, other.e}, {s.f, other.f}, {s.p, other.p}, {s.q, other.q}, {s.vm, other.vm}, {s.h, other.h}, {s.nn, other.nn}} {
			copy(v[0], v[1])
		}
		s.admitting = other.admitting
	}
	return s.Linearise()
}

// Sensitivity overwrites the gradient of a quantity in the voltages, by bus, in
// angle (rad) and magnitude (pu), with its gradient in what the power flow was
// given, by bus:
//
//	angle      per pu of active power injected (generation less load); at a
//	           reference, which takes up the balance, 0
//	magnitude  at a PQ bus per pu of reactive power injected, at the others per pu
//	           of the voltage set-point
//
// The quantity may depend on the voltages of references; only their angles are
// fixed. What it depends on besides (the generation at a reference, say) is the
// caller's to add. Linearise comes first. It does not allocate.
func (s *Solver) Sensitivity(angle, magnitude []float64) {
	s.sensitivities([][]float64{angle}, [][]float64{magnitude}, s.everywhere, s.everywhere)
}

// Sensitivities is Sensitivity of as many as SideBySide quantities at once, a gradient each
// in angle and magnitude, at the buses with generators; the entries of others have no
// meaning.
func (s *Solver) Sensitivities(angle, magnitude [][]float64) {
	s.sensitivities(angle, magnitude, s.generating, s.towards)
}

// sensitivities are those at positions and at references, back being the positions' closure.
func (s *Solver) sensitivities(angle, magnitude [][]float64, positions, back []int32) {
	x := s.beside
	clear(x)
	for i, a := range angle {
		m := magnitude[i]
		for b, k := range s.position {
			if k >= 0 && (a[b] != 0 || m[b] != 0) { // few are
				at := 2*SideBySide*int(k) + i
				x[at], x[at+SideBySide] = a[b], s.vm[b]*m[b]
			}
		}
	}
	s.lu.solveTransposed(x, back)
	for i, a := range angle {
		m := magnitude[i]
		for _, k := range positions {
			b, at := s.unknown[k], 2*SideBySide*int(k)+i
			a[b], m[b] = x[at], x[at+SideBySide]
			if s.kind[b] != network.PQ {
				m[b] /= s.vm[b]
			}
		}
		for _, r := range s.net.References {
			a[r] = 0
		}
		for _, k := range s.joints {
			r, bus, byP, byQ := s.joint(&s.pairs[k], k)
			at := 2*SideBySide*int(s.position[bus]) + i
			v := x[at] * byP
			if s.kind[bus] == network.PQ {
				v += x[at+SideBySide] * byQ
			}
			m[r] -= v / s.vm[r]
		}
	}
}

// Response overwrites changes of what the power flow was given, by bus as Sensitivity
// has them, with the change of the voltages that they lead to, in angle (rad) and
// magnitude (pu), by bus: it is Sensitivity's transpose. Linearise comes first. It does
// not allocate.
func (s *Solver) Response(angle, magnitude []float64) {
	x := s.lu.rhs
	for k, b := range s.unknown {
		x[2*k], x[2*k+1] = angle[b], magnitude[b]
		if s.kind[b] != network.PQ {
			x[2*k+1] /= s.vm[b]
		}
	}
	for _, k := range s.joints {
		r, bus, byP, byQ := s.joint(&s.pairs[k], k)
		at, change := 2*s.position[bus], magnitude[r]/s.vm[r]
		x[at] -= change * byP
		if s.kind[bus] == network.PQ {
			x[at+1] -= change * byQ
		}
	}
	s.lu.solve()
	for k, b := range s.unknown {
		angle[b], magnitude[b] = x[2*k], s.vm[b]*x[2*k+1]
	}
	for _, r := range s.net.References {
		angle[r] = 0
	}
}

// joint is the reference and the other bus of a pair with one, and the derivatives of
// the other's P and Q in the logarithm of the reference's magnitude.
func (s *Solver) joint(p *pair, k int32) (reference, bus int32, byP, byQ float64) {
	c, d := s.nn[k], s.h[k]
	if s.position[p.j] < 0 {
		return p.j, p.i, p.gij*c + p.bij*d, p.gij*d - p.bij*c
	}
	return p.i, p.j, p.gji*c - p.bji*d, -p.gji*d - p.bji*c
}

// Injection is the net power that a bus sends into branches and shunt at the
// voltages of the last solve, pu.
func (s *Solver) Injection(bus int) (p, q float64) { return s.p[bus], s.q[bus] }

// AddFlowGradient adds to a gradient in the voltages, by bus, that of a·P + b·Q of
// the power into a branch at its from end or its to end, at the voltages of the
// last solve.
func (s *Solver) AddFlowGradient(branch int, fromEnd bool, a, b float64, angle, magnitude []float64) {
	near, far, turn, byNear, byFar := s.flowGradient(branch, fromEnd, a, b)
	angle[near] += turn
	angle[far] -= turn
	magnitude[near] += byNear
	magnitude[far] += byFar
}

// FlowChange is the change of that power with changes of the voltages, by bus.
func (s *Solver) FlowChange(branch int, fromEnd bool, a, b float64, angle, magnitude []float64) float64 {
	near, far, turn, byNear, byFar := s.flowGradient(branch, fromEnd, a, b)
	return turn*(angle[near]-angle[far]) + byNear*magnitude[near] + byFar*magnitude[far]
}

// flowGradient has the derivatives of a·P + b·Q into a branch at one end in the angle
// across it and in the magnitudes.
func (s *Solver) flowGradient(branch int, fromEnd bool, a, b float64) (near, far int, turn, byNear, byFar float64) {
	t := endOf(s.net, s.admitting, branch, fromEnd)
	c := s.e[t.near]*s.e[t.far] + s.f[t.near]*s.f[t.far] // V·V·cos and V·V·sin of the angle
	d := s.f[t.near]*s.e[t.far] - s.e[t.near]*s.f[t.far] // across the branch
	return t.gradient(a, b, c, d, s.vm)
}

// SizeGradient has the derivatives of |S| into a branch of a network at one end, at voltages by bus, in the angle
// of the near end less that of the far one, and in the magnitudes. |S| is not to be zero.
func SizeGradient(n *network.Network, branch int, fromEnd bool, vm, va []float64) (near, far int, turn, byNear, byFar float64) {
	t := endOf(n, &n.Admittance, branch, fromEnd)
	sin, cos := math.Sincos(va[t.near] - va[t.far])
	v := vm[t.near]
	c, d := v*vm[t.far]*cos, v*vm[t.far]*sin
	p, q := v*v*t.gs+t.gm*c+t.bm*d, -v*v*t.bs+t.gm*d-t.bm*c
	size := math.Hypot(p, q)
	return t.gradient(p/size, q/size, c, d, vm)
}

// end is that of a branch: its buses, and the admittances of its own voltage and of the other.
type end struct {
	near, far      int
	gs, bs, gm, bm float64
}

func endOf(n *network.Network, y *network.Admittance, branch int, fromEnd bool) end {
	if fromEnd {
		return end{n.From[branch], n.To[branch], y.Gff[branch], y.Bff[branch], y.Gft[branch], y.Bft[branch]}
	}
	return end{n.To[branch], n.From[branch], y.Gtt[branch], y.Btt[branch], y.Gtf[branch], y.Btf[branch]}
}

// gradient is that of a·P + b·Q, where V·V·cos and V·V·sin of the angle across are c and d.
func (t *end) gradient(a, b, c, d float64, vm []float64) (near, far int, turn, byNear, byFar float64) {
	along, across := t.gm*c+t.bm*d, t.gm*d-t.bm*c // P and Q less their own V² terms
	v := vm[t.near]
	scale := a*along + b*across
	return t.near, t.far, b*along - a*across, 2*v*(a*t.gs-b*t.bs) + scale/v, scale / vm[t.far]
}

// AddInjectionGradient adds to a gradient in the voltages, by bus, that of a·P +
// b·Q of a bus's net injection (Injection).
func (s *Solver) AddInjectionGradient(bus int, a, b float64, angle, magnitude []float64) {
	n := s.net
	magnitude[bus] += 2 * s.vm[bus] * (a*n.Gs[bus] - b*n.Bs[bus])
	for _, k := range s.near[bus] {
		s.AddFlowGradient(int(k), n.From[k] == bus, a, b, angle, magnitude)
	}
}

// InjectionChange is the change of that injection with changes of the voltages, by bus.
func (s *Solver) InjectionChange(bus int, a, b float64, angle, magnitude []float64) float64 {
	n := s.net
	change := 2 * s.vm[bus] * (a*n.Gs[bus] - b*n.Bs[bus]) * magnitude[bus]
	for _, k := range s.near[bus] {
		change += s.FlowChange(int(k), n.From[k] == bus, a, b, angle, magnitude)
	}
	return change
}
