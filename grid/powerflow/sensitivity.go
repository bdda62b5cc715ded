package powerflow

import (
	"math"

	"github.com/gpc-engine/gpc/grid/network"
)

// Sensitivities of a quantity h(θ, V) to the input of a power flow. F(θ, V) = 0 are the balances, J = ∂F/∂(θ, V), and
// Jᵀλ = ∂h/∂(θ, V). The entry of λ in the row of an injection is the derivative of h by that injection: one transposed
// solve gives all of them. The magnitude of a PV bus is an unknown here too, with the equation V = set-point, so that its
// row of λ is the derivative by the set-point. References are not part of the system. Their set-points act through the
// balances of their neighbours.

// Linearise factors the Jacobian at the voltages of the last solve. Later calls of Sensitivity and Response use it
// until the next Solve. It returns false where the Jacobian is singular.
func (s *Solver) Linearise() bool {
	s.factorKinds = s.factorKinds[:0]
	s.jacobian()
	return s.lu.factorise()
}

// LineariseAt is Linearise at the voltages and admittances of another solver of the topology (Clone), whose next
// solves do not change this linearisation.
func (s *Solver) LineariseAt(source *Solver) bool {
	if s != source {
		copy(s.kind, source.kind)
		copy(s.pairs, source.pairs)
		for _, v := range [][2][]float64{{s.gd, source.gd}, {s.bd, source.bd}, {s.e, source.e}, {s.f, source.f}, {s.p, source.p}, {s.q, source.q}, {s.vm, source.vm}, {s.h, source.h}, {s.nn, source.nn}} {
			copy(v[0], v[1])
		}
		s.admittance = source.admittance
	}
	return s.Linearise()
}

// Sensitivity overwrites the gradient of a quantity by the voltages, by bus, in angle (rad) and magnitude (pu), with
// its gradient by the input of the power flow, by bus:
//
//	angle      per pu of active power injected (generation minus load); 0 at a
//	           reference, which takes up the balance
//	magnitude  at a PQ bus per pu of reactive power injected, at the others per pu
//	           of the voltage set-point
//
// The quantity may depend on the voltages of references; only their angles are fixed. The caller adds other
// dependencies, such as the generation at a reference. Call Linearise first. It does not allocate.
func (s *Solver) Sensitivity(angle, magnitude []float64) {
	s.sensitivities([][]float64{angle}, [][]float64{magnitude}, s.all, s.all)
}

// Sensitivities is Sensitivity of up to RightHandSides quantities at once, at the buses with generators. The other
// entries are undefined.
func (s *Solver) Sensitivities(angle, magnitude [][]float64) {
	s.sensitivities(angle, magnitude, s.generators, s.closure)
}

// sensitivities computes them at positions and at references; back is the positions' closure.
func (s *Solver) sensitivities(angle, magnitude [][]float64, positions, back []int32) {
	x := s.rightHandSides
	clear(x)
	for i, a := range angle {
		m := magnitude[i]
		for b, k := range s.position {
			if k >= 0 && (a[b] != 0 || m[b] != 0) { // few entries are
				index := 2*RightHandSides*int(k) + i
				x[index], x[index+RightHandSides] = a[b], s.vm[b]*m[b]
			}
		}
	}
	s.lu.solveTransposed(x, back)
	for i, a := range angle {
		m := magnitude[i]
		for _, k := range positions {
			b, index := s.unknown[k], 2*RightHandSides*int(k)+i
			a[b], m[b] = x[index], x[index+RightHandSides]
			if s.kind[b] != network.PQ {
				m[b] /= s.vm[b]
			}
		}
		for _, r := range s.net.References {
			a[r] = 0
		}
		for _, k := range s.referencePairs {
			t := s.referencePair(&s.pairs[k], k)
			index := 2*RightHandSides*int(s.position[t.bus]) + i
			v := x[index] * t.dp
			if s.kind[t.bus] == network.PQ {
				v += x[index+RightHandSides] * t.dq
			}
			m[t.reference] -= v / s.vm[t.reference]
		}
	}
}

// Response is the transpose of Sensitivity. It overwrites changes of the input, by bus as in Sensitivity, with the
// resulting change of the voltages, in angle (rad) and magnitude (pu), by bus. Call Linearise first. It does not
// allocate.
func (s *Solver) Response(angle, magnitude []float64) {
	x := s.lu.rhs
	for k, b := range s.unknown {
		x[2*k], x[2*k+1] = angle[b], magnitude[b]
		if s.kind[b] != network.PQ {
			x[2*k+1] /= s.vm[b]
		}
	}
	for _, k := range s.referencePairs {
		t := s.referencePair(&s.pairs[k], k)
		index, change := 2*s.position[t.bus], magnitude[t.reference]/s.vm[t.reference]
		x[index] -= change * t.dp
		if s.kind[t.bus] == network.PQ {
			x[index+1] -= change * t.dq
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

// referenceBranch is a pair of a reference and another bus, with the derivatives of the other's P and Q by the logarithm
// of the reference's magnitude.
type referenceBranch struct {
	reference, bus int32
	dp, dq         float64
}

func (s *Solver) referencePair(p *pair, k int32) referenceBranch {
	c, d := s.nn[k], s.h[k]
	if s.position[p.j] < 0 {
		return referenceBranch{p.j, p.i, p.gij*c + p.bij*d, p.gij*d - p.bij*c}
	}
	return referenceBranch{p.i, p.j, p.gji*c - p.bji*d, -p.gji*d - p.bji*c}
}

// Injection is the net power from a bus into branches and shunt at the voltages of the last solve, pu.
func (s *Solver) Injection(bus int) (p, q float64) { return s.p[bus], s.q[bus] }

// AddFlowGradient adds the gradient of a·P + b·Q into a branch at its from or to end. The gradient is by the
// voltages, by bus, at the voltages of the last solve.
func (s *Solver) AddFlowGradient(branch int, fromEnd bool, a, b float64, angle, magnitude []float64) {
	g := s.flowGradient(branch, fromEnd, a, b)
	angle[g.Bus] += g.Angle
	angle[g.Remote] -= g.Angle
	magnitude[g.Bus] += g.Magnitude
	magnitude[g.Remote] += g.RemoteMagnitude
}

// FlowChange is the change of that power with changes of the voltages, by bus.
func (s *Solver) FlowChange(branch int, fromEnd bool, a, b float64, angle, magnitude []float64) float64 {
	g := s.flowGradient(branch, fromEnd, a, b)
	return g.Angle*(angle[g.Bus]-angle[g.Remote]) + g.Magnitude*magnitude[g.Bus] + g.RemoteMagnitude*magnitude[g.Remote]
}

// EndGradient is the gradient of a quantity at one end of a branch, by the angle of Bus minus that of Remote and by
// both magnitudes. Remote is the bus at the other end.
type EndGradient struct {
	Bus, Remote                       int
	Angle, Magnitude, RemoteMagnitude float64
}

// flowGradient is the gradient of a·P + b·Q into a branch at one end.
func (s *Solver) flowGradient(branch int, fromEnd bool, a, b float64) EndGradient {
	t := endOf(s.net, s.admittance, branch, fromEnd)
	c := s.e[t.bus]*s.e[t.remote] + s.f[t.bus]*s.f[t.remote] // V·V·cos and V·V·sin of the angle
	d := s.f[t.bus]*s.e[t.remote] - s.e[t.bus]*s.f[t.remote] // across the branch
	return t.gradient(a, b, c, d, s.vm)
}

// SizeGradient is the gradient of |S| into a branch of a network at one end, at voltages by bus. |S| must not be zero.
func SizeGradient(n *network.Network, branch int, fromEnd bool, vm, va []float64) EndGradient {
	t := endOf(n, &n.Admittance, branch, fromEnd)
	sin, cos := math.Sincos(va[t.bus] - va[t.remote])
	v := vm[t.bus]
	c, d := v*vm[t.remote]*cos, v*vm[t.remote]*sin
	p, q := v*v*t.gs+t.gm*c+t.bm*d, -v*v*t.bs+t.gm*d-t.bm*c
	size := math.Hypot(p, q)
	return t.gradient(p/size, q/size, c, d, vm)
}

// end is one end of a branch: its bus, the remote bus, and the self and mutual admittance.
type end struct {
	bus, remote    int
	gs, bs, gm, bm float64
}

func endOf(n *network.Network, y *network.Admittance, branch int, fromEnd bool) end {
	if fromEnd {
		return end{n.From[branch], n.To[branch], y.Gff[branch], y.Bff[branch], y.Gft[branch], y.Bft[branch]}
	}
	return end{n.To[branch], n.From[branch], y.Gtt[branch], y.Btt[branch], y.Gtf[branch], y.Btf[branch]}
}

// gradient is that of a·P + b·Q, with V·V·cos and V·V·sin of the angle across the branch as c and d.
func (t *end) gradient(a, b, c, d float64, vm []float64) EndGradient {
	active, reactive := t.gm*c+t.bm*d, t.gm*d-t.bm*c // P and Q without their own V² terms
	v := vm[t.bus]
	scale := a*active + b*reactive
	return EndGradient{
		Bus: t.bus, Remote: t.remote, Angle: b*active - a*reactive,
		Magnitude: 2*v*(a*t.gs-b*t.bs) + scale/v, RemoteMagnitude: scale / vm[t.remote],
	}
}

// AddInjectionGradient adds to a gradient by the voltages, by bus, that of a·P + b·Q of a bus's net injection
// (Injection).
func (s *Solver) AddInjectionGradient(bus int, a, b float64, angle, magnitude []float64) {
	n := s.net
	magnitude[bus] += 2 * s.vm[bus] * (a*n.Gs[bus] - b*n.Bs[bus])
	for _, k := range s.branchesAt[bus] {
		s.AddFlowGradient(int(k), n.From[k] == bus, a, b, angle, magnitude)
	}
}

// InjectionChange is the change of that injection with changes of the voltages, by bus.
func (s *Solver) InjectionChange(bus int, a, b float64, angle, magnitude []float64) float64 {
	n := s.net
	change := 2 * s.vm[bus] * (a*n.Gs[bus] - b*n.Bs[bus]) * magnitude[bus]
	for _, k := range s.branchesAt[bus] {
		change += s.FlowChange(int(k), n.From[k] == bus, a, b, angle, magnitude)
	}
	return change
}
