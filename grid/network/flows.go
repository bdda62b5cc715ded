package network

import "math"

// Flows are the complex powers into every branch at both its ends, per unit.
type Flows struct {
	Pf, Qf, Pt, Qt []float64
}

// NewFlows allocates the flows of n branches.
func NewFlows(n int) *Flows {
	s := make([]float64, 4*n)
	return &Flows{s[:n:n], s[n : 2*n : 2*n], s[2*n : 3*n : 3*n], s[3*n:]}
}

// BranchFlows writes the flows at the voltages vm (pu) and va (rad), one entry
// a bus, with the admittances y (&n.Admittance, or what ScaleBranches wrote).
// It does not allocate.
func (n *Network) BranchFlows(y *Admittance, vm, va []float64, dst *Flows) {
	for k, f := range n.From {
		t := n.To[k]
		sin, cos := math.Sincos(va[f] - va[t])
		vv := vm[f] * vm[t]
		vf2, vt2 := vm[f]*vm[f], vm[t]*vm[t]
		dst.Pf[k] = vf2*y.Gff[k] + vv*(y.Gft[k]*cos+y.Bft[k]*sin)
		dst.Qf[k] = -vf2*y.Bff[k] + vv*(y.Gft[k]*sin-y.Bft[k]*cos)
		dst.Pt[k] = vt2*y.Gtt[k] + vv*(y.Gtf[k]*cos-y.Btf[k]*sin)
		dst.Qt[k] = -vt2*y.Btt[k] - vv*(y.Gtf[k]*sin+y.Btf[k]*cos)
	}
}

// Injections writes the net power from each bus into branches and shunt, per unit: generation minus load where the
// network balances. It does not allocate.
func (n *Network) Injections(y *Admittance, vm, va, p, q []float64) {
	for i := range n.BusID {
		v2 := vm[i] * vm[i]
		p[i], q[i] = v2*n.Gs[i], -v2*n.Bs[i]
	}
	for k, f := range n.From {
		t := n.To[k]
		sin, cos := math.Sincos(va[f] - va[t])
		vv := vm[f] * vm[t]
		vf2, vt2 := vm[f]*vm[f], vm[t]*vm[t]
		p[f] += vf2*y.Gff[k] + vv*(y.Gft[k]*cos+y.Bft[k]*sin)
		q[f] += -vf2*y.Bff[k] + vv*(y.Gft[k]*sin-y.Bft[k]*cos)
		p[t] += vt2*y.Gtt[k] + vv*(y.Gtf[k]*cos-y.Btf[k]*sin)
		q[t] += -vt2*y.Btt[k] - vv*(y.Gtf[k]*sin+y.Btf[k]*cos)
	}
}

// Rounding writes what rounding leaves of each bus's balance, pu: four units in the last place of its admittances. It is 0
// up to 1e-9, which only branches of next to no impedance pass.
func (n *Network) Rounding(y *Admittance, out []float64) []float64 {
	const unit = 0x1p-52
	clear(out)
	for k, start := range n.From {
		out[start] += 4 * unit * (math.Hypot(y.Gff[k], y.Bff[k]) + math.Hypot(y.Gft[k], y.Bft[k]))
		out[n.To[k]] += 4 * unit * (math.Hypot(y.Gtt[k], y.Btt[k]) + math.Hypot(y.Gtf[k], y.Btf[k]))
	}
	for b, v := range out {
		if v <= 1e-9 {
			out[b] = 0
		}
	}
	return out
}

// Reach bounds |S|, and |I| at 1 pu, at both ends of a branch while its voltages are within their limits, pu;
// infinite where these are.
func (n *Network) Reach(branch int) float64 {
	f, t := n.VMax[n.From[branch]], n.VMax[n.To[branch]]
	current := func(gf, bf, gt, bt float64) float64 { return math.Hypot(gf, bf)*f + math.Hypot(gt, bt)*t }
	from := current(n.Gff[branch], n.Bff[branch], n.Gft[branch], n.Bft[branch])
	to := current(n.Gtf[branch], n.Btf[branch], n.Gtt[branch], n.Btt[branch])
	return max(from*max(1, f), to*max(1, t))
}
