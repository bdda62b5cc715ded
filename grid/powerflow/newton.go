package powerflow

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
)

// Solve runs a power flow and writes it to out, whose slices are reused where they have the network's size. A power
// flow that does not converge is no error: out.Status and Reason say so. The error is for options or input of the
// wrong shape, or values that are not numbers.
func (s *Solver) Solve(input Input, opt Options, out *Solution) error {
	if err := cmp.Or(opt.Validate(), opt.Slack.validate(s.net.Gens()), s.specify(input)); err != nil {
		return err
	}
	if opt.EnforceQ {
		if err := s.net.RequireLimits(); err != nil {
			return err
		}
	}
	if opt.Slack != nil {
		return s.distribute(input, opt, out)
	}
	if opt.Start == FromSolution {
		if err := s.fromSolution(out); err != nil {
			return err
		}
	}
	if opt.Start == FromSolution && opt.EnforceQ && opt.KeepLimits && len(out.AtLimit) == len(s.atLimit) {
		for b, side := range out.AtLimit {
			switch {
			case s.kind[b] != network.PV:
			case side > 0:
				s.toPQ(b, side, s.qhi[b])
			case side < 0:
				s.toPQ(b, side, s.qlo[b])
			}
		}
	}
	s.reset(out)
	s.start(opt.Start)
	out.Status = s.newton(opt, out)
	for opt.EnforceQ && out.Status == Converged && s.enforce(out, reactiveSlack) {
		out.Status = s.newton(opt, out)
	}
	if opt.Context != nil && opt.Context.Err() != nil {
		return fmt.Errorf("powerflow: %w", opt.Context.Err())
	}
	s.warm = out.Status == Converged
	copy(out.Vm, s.vm)
	copy(out.Va, s.va)
	copy(out.AtLimit, s.atLimit)
	s.Share(input, s.p, s.q, out.Pg, out.Qg)
	return nil
}

func pick(override, network []float64) []float64 {
	if override == nil {
		return network
	}
	return override
}

// specify checks the input and sets injections, set-points and kinds.
func (s *Solver) specify(input Input) error {
	n := s.net
	for _, c := range []struct {
		name   string
		values []float64
		want   int
	}{{"Pd", input.Pd, n.Buses()}, {"Qd", input.Qd, n.Buses()}, {"Pg", input.Pg, n.Gens()}, {"Vg", input.Vg, n.Gens()}} {
		if c.values == nil {
			continue
		}
		if len(c.values) != c.want {
			return fmt.Errorf("powerflow: %s has %d numbers, network %s wants %d", c.name, len(c.values), n.Name, c.want)
		}
		for k, v := range c.values {
			if v-v != 0 {
				return fmt.Errorf("powerflow: %s[%d] is %g: want a finite number", c.name, k, v)
			}
		}
	}
	pd, qd := pick(input.Pd, n.Pd), pick(input.Qd, n.Qd)
	pg, vg := pick(input.Pg, n.Pg0), pick(input.Vg, n.Vg)
	for b := range s.ps {
		s.ps[b], s.qs[b] = -pd[b], -qd[b]
	}
	copy(s.kind, n.Kind)
	clear(s.atLimit)
	clear(s.released)
	copy(s.vset, n.Vm0)
	for _, g := range s.outUnits {
		if b := n.GenBus[g]; len(s.gensAt[b]) == 0 && s.kind[b] == network.PV {
			s.kind[b] = network.PQ
		}
	}
	for g, b := range n.GenBus {
		if slices.Contains(s.outUnits, g) {
			continue
		}
		s.ps[b] += pg[g]
		if s.kind[b] == network.PQ {
			s.qs[b] += n.Qg0[g]
			continue
		}
		if vg[g] <= 0 {
			return fmt.Errorf("powerflow: the voltage set-point of generator %d is %g pu: want a positive one", g, vg[g])
		}
		s.vset[b] = vg[g]
	}
	return nil
}

// fromSolution takes the start from a solution.
func (s *Solver) fromSolution(out *Solution) error {
	if len(out.Vm) != len(s.vm) || len(out.Va) != len(s.va) {
		return fmt.Errorf("powerflow: a start with %d magnitudes and %d angles, network %s has %d buses", len(out.Vm), len(out.Va), s.net.Name, len(s.vm))
	}
	for b, v := range out.Vm {
		if !(v > 0) || v-v != 0 || out.Va[b]-out.Va[b] != 0 {
			return fmt.Errorf("powerflow: the start at bus %d is %g pu at %g rad: want a positive magnitude and a finite angle", s.net.BusID[b], v, out.Va[b])
		}
	}
	copy(s.vm, out.Vm)
	copy(s.va, out.Va)
	return nil
}

// start sets the voltages at the start. Angles of references are the file's.
func (s *Solver) start(start Start) {
	n := s.net
	switch {
	case start == FromSolution || start == Warm && s.warm:
	case start == Flat:
		for b := range s.vm {
			s.vm[b] = 1
		}
		s.Angles()
	default:
		copy(s.vm, n.Vm0)
		copy(s.va, n.Va0)
		if s.noAngles {
			s.Angles()
		}
	}
	for b, k := range s.kind {
		if k != network.PQ {
			s.vm[b] = s.vset[b]
		}
	}
	for _, r := range n.References {
		s.va[r] = n.Va0[r]
	}
	if start == FromSolution || start == Warm && s.warm {
		return
	}
	for _, tie := range s.ties {
		lead := slices.MaxFunc(tie, func(a, b int) int { return cmp.Compare(s.kind[a], s.kind[b]) })
		for _, b := range tie {
			if s.kind[b] != network.Slack {
				s.va[b] = s.va[lead]
			}
			if s.kind[b] == network.PQ {
				s.vm[b] = s.vm[lead]
			}
		}
	}
}

// Angles are those of a start without any, rad: the reference's, or with phase shifts those of a linear power flow of the
// last Solve's powers, without losses and with magnitudes of 1 pu; before any Solve of none. From equal angles a
// transformer of a vector group with 150° leads Newton's method to a low-voltage solution. The solver owns the slice.
func (s *Solver) Angles() []float64 {
	n := s.net
	copy(s.va, s.startAngles)
	if !s.shifted {
		return s.va
	}
	data, rhs := s.lu.data, s.lu.rhs
	clear(data)
	for k, b := range s.unknown {
		data[4*k+3], rhs[2*k], rhs[2*k+1] = 1, s.ps[b], 0
	}
	for k, start := range n.From {
		w, shift := n.Coupling(k), n.Shift(k)
		if math.IsInf(w, 0) {
			continue
		}
		for _, end := range [2][2]int{{start, n.To[k]}, {n.To[k], start}} {
			if i, j := s.position[end[0]], s.position[end[1]]; i >= 0 {
				data[4*i] += w
				rhs[2*i] += w * shift
				if j >= 0 {
					data[4*s.lu.find(i, j)] -= w
				} else {
					rhs[2*i] += w * s.va[end[1]]
				}
			}
			shift = -shift
		}
	}
	s.factorKinds = s.factorKinds[:0]
	if s.lu.factorise() {
		s.lu.solve()
		for k, b := range s.unknown {
			s.va[b] = rhs[2*k]
		}
	}
	return s.va
}

// evaluate computes the injections at the voltages, and the pairs' products for the Jacobian.
func (s *Solver) evaluate() {
	for b, v := range s.vm {
		sin, cos := math.Sincos(s.va[b])
		s.e[b], s.f[b] = v*cos, v*sin
	}
	s.inject()
}

// inject computes the injections at the voltages in rectangular form.
func (s *Solver) inject() {
	for b, v := range s.vm {
		s.p[b], s.q[b] = v*v*s.gd[b], -v*v*s.bd[b]
	}
	for k := range s.pairs {
		p := &s.pairs[k]
		i, j := p.i, p.j
		c := s.e[i]*s.e[j] + s.f[i]*s.f[j] // Vi·Vj·cos(θi − θj)
		d := s.f[i]*s.e[j] - s.e[i]*s.f[j] // Vi·Vj·sin(θi − θj)
		s.p[i] += p.gij*c + p.bij*d
		s.q[i] += p.gij*d - p.bij*c
		s.p[j] += p.gji*c - p.bji*d
		s.q[j] -= p.gji*d + p.bji*c
		s.h[k], s.nn[k] = d, c
	}
}

// mismatch writes the mismatches above a size as the right-hand side, and returns the largest one beyond rounding and its bus.
func (s *Solver) mismatch(size float64) (worst float64, bus int) {
	rhs, kind := s.lu.rhs, s.kind[:len(s.position)]
	ps, qs := s.ps[:len(kind)], s.qs[:len(kind)]
	p, q := s.p[:len(kind)], s.q[:len(kind)]
	for b, k := range s.position {
		if k < 0 {
			continue
		}
		dp, dq := ps[b]-p[b], qs[b]-q[b]
		if kind[b] != network.PQ {
			dq = 0
		}
		x := (*[2]float64)(rhs[2*k:])
		if math.Abs(dp) <= size && math.Abs(dq) <= size || s.fixed(int32(b)) {
			*x = [2]float64{}
			continue
		}
		*x = [2]float64{dp, dq}
		if m := max(math.Abs(dp), math.Abs(dq)); m > worst && m > s.rounding[b] || m != m {
			worst, bus = m, b
		}
	}
	return worst, bus
}

// jacobian writes ∂(P, Q)/∂(θ, V/V) at the voltages last evaluated: by blocks
//
//	⎡ ∂Pi/∂θj  Vj·∂Pi/∂Vj ⎤
//	⎣ ∂Qi/∂θj  Vj·∂Qi/∂Vj ⎦
//
// with the second row of a PV bus that of the identity.
func (s *Solver) jacobian() {
	data := s.lu.data
	clear(data[4*len(s.unknown):])
	for k, b := range s.unknown {
		v2 := s.vm[b] * s.vm[b]
		d := data[4*k : 4*k+4 : 4*k+4]
		d[0], d[1] = -s.q[b]-s.bd[b]*v2, s.p[b]+s.gd[b]*v2
		if s.kind[b] == network.PQ {
			d[2], d[3] = s.p[b]-s.gd[b]*v2, s.q[b]-s.bd[b]*v2
		} else {
			d[2], d[3] = 0, 1
		}
		if s.fixed(b) {
			d[0], d[1] = 1, 0
			d[2], d[3] = 0, 1
		}
	}
	for k := range s.pairs {
		p := &s.pairs[k]
		if p.block < 0 {
			continue
		}
		c, d := s.nn[k], s.h[k]
		if h, n := p.gij*d-p.bij*c, p.gij*c+p.bij*d; !s.fixed(p.i) {
			x := data[4*p.blockIJ : 4*p.blockIJ+4 : 4*p.blockIJ+4]
			x[0], x[1] = h, n
			if s.kind[p.i] == network.PQ {
				x[2], x[3] = -n, h
			}
		}
		if h, n := -p.gji*d-p.bji*c, p.gji*c-p.bji*d; !s.fixed(p.j) {
			x := data[4*p.block : 4*p.block+4 : 4*p.block+4]
			x[0], x[1] = h, n
			if s.kind[p.j] == network.PQ {
				x[2], x[3] = -n, h
			}
		}
	}
}

// fixed says whether the voltage of an unknown bus is: it is dead, or a further reference of Outages.Supplied.
func (s *Solver) fixed(bus int32) bool {
	return s.kind[bus] == network.Slack || s.dead != nil && s.dead[bus]
}

// Hopeless is the mismatch (pu) from which Newton's method does not recover: thousands of times any load.
const Hopeless = 1e6

// KeepFactors is the mismatch (pu) up to which factors serve the following iterations too. They are out of date by a
// step of at most that size, which leaves a ten-thousandth of it.
const KeepFactors = 1e-4

// newton iterates from the present voltages.
func (s *Solver) newton(opt Options, out *Solution) Status {
	tol, limit := cmp.Or(opt.Tolerance, DefaultTolerance), cmp.Or(opt.MaxIterations, DefaultIterations)
	factorMismatch := math.Inf(1) // of the present factors
	if opt.Factors && slices.Equal(s.kind, s.factorKinds) {
		factorMismatch = s.factorMismatch
	}
	for previous := math.Inf(1); ; previous = out.Mismatch {
		s.evaluate()
		out.Mismatch, out.MismatchBus = s.mismatch(0)
		switch {
		case out.Mismatch <= tol:
			return Converged
		case !(out.Mismatch < max(Hopeless, 0x1p50*s.rounding[out.MismatchBus])): // admittances times 1 pu
			return Diverged
		case out.Iterations == limit || opt.Context != nil && opt.Context.Err() != nil:
			return IterationLimit
		}
		if factorMismatch > KeepFactors || out.Mismatch > previous/2 {
			if !s.Linearise() {
				return Singular
			}
			factorMismatch = out.Mismatch
			s.factorMismatch, s.factorKinds = factorMismatch, append(s.factorKinds[:0], s.kind...)
			out.Factorisations++
		}
		s.lu.solve()
		out.Iterations++
		s.step()
	}
}

const (
	// MaxMagnitudeStep and MaxAngleStep bound the step of one iteration: a relative change of a voltage magnitude
	// and a change of an angle (rad). Newton's steps are far shorter near a solution. From a poor start a full one
	// can carry a voltage below zero.
	MaxMagnitudeStep = 0.3
	MaxAngleStep     = 1.5
)

// stepScale shortens the solution of the linear system, of a largest angle and a squared length, to the longest allowed step.
func (s *Solver) stepScale() (scale, angle, length float64) {
	x := s.lu.rhs
	var largest, squares [4]float64 // of angles and magnitudes at even and at odd positions
	k := 0
	if vectors {
		lengthsAVX2(x, &largest, &squares)
		k = len(x) &^ 3
	}
	for ; k < len(x); k++ {
		if size := math.Abs(x[k]); size > largest[k%4] {
			largest[k%4] = size
		}
		squares[k%4] += x[k] * x[k]
	}
	angle = max(largest[0], largest[2])
	return min(1, MaxAngleStep/angle, MaxMagnitudeStep/max(largest[1], largest[3])), angle, squares[0] + squares[1] + (squares[2] + squares[3])
}

// step adds the solution of the linear system to the voltages, shortened where it is too long.
func (s *Solver) step() {
	x := s.lu.rhs
	scale, _, _ := s.stepScale()
	for k, b := range s.unknown {
		s.va[b] += scale * x[2*k]
		s.vm[b] += scale * s.vm[b] * x[2*k+1]
	}
}

// Reason says in words how the solve ended, with the worst bus.
func (s *Solver) Reason(sol *Solution) string {
	bus := s.net.BusID[sol.MismatchBus]
	switch sol.Status {
	case Converged:
		return fmt.Sprintf("converged in %d iterations, largest mismatch %.2g pu", sol.Iterations, sol.Mismatch)
	case Singular:
		return fmt.Sprintf("the Jacobian is singular after %d iterations, with a mismatch of %.3g pu at bus %d: the load may be beyond what the network can carry", sol.Iterations, sol.Mismatch, bus)
	case Diverged:
		return fmt.Sprintf("diverged: a mismatch of %.3g pu at bus %d after %d iterations", sol.Mismatch, bus, sol.Iterations)
	}
	return fmt.Sprintf("not solved in %d iterations: a mismatch of %.3g pu is left at bus %d; the load may be beyond what the network can carry, or the start too far away", sol.Iterations, sol.Mismatch, bus)
}

// Remark says in a sentence that the converged solution of the last Solve is one of the equations to which Newton's
// method can converge but at which no network runs; "" for any other. Between such a solution and the usual one the
// determinant of the Jacobian changes its sign.
func (s *Solver) Remark(sol *Solution) string {
	const lowVoltage = 0.5 // pu, below which no network runs
	reason := ""
	if low := slices.Min(sol.Vm); low < lowVoltage {
		reason = fmt.Sprintf("the voltage of bus %d is %.3g pu", s.net.BusID[slices.Index(sol.Vm, low)], low)
	} else {
		s.evaluate()
		regular := s.Linearise()
		negative := s.lu.negative()
		s.start(Flat)
		s.evaluate()
		if s.warm = false; regular && s.Linearise() && s.lu.negative() != negative {
			reason = "the determinant of the Jacobian has the other sign than at a flat start"
		}
	}
	if reason != "" {
		reason += ": this is another solution of the equations than the one that a network runs at, of low voltage or wide angles; try another start"
	}
	return reason
}
