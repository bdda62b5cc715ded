package opf

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/tensor"
)

// Standard deviations of what a control centre measures, pu: the magnitude of every voltage, and P and Q at both ends of every
// branch. They are those of the examples of A. Abur and A. Gómez Expósito, "Power System State Estimation" (2004).
const (
	voltageDeviation = 0.004
	flowDeviation    = 0.008
)

// flowStream separates what is measured of flows from every other draw of an episode.
const flowStream = 0x666c_6f77_735f_7365 // "flows_se"

// Bounds of Gauss and Newton's method.
const (
	estimateIterations = 20
	estimateTolerance  = 1e-8 // of a step, pu and rad
)

// admittances estimates the branch factors of one episode, which nobody tells it, by the state estimation of power systems: voltages
// and factors x of each step are those of the least weighted squares
//
//	Σ ((z − h(x))/deviation)² + (b − b̂)ᵀ Λ (b − b̂)
//
// of what is measured, z. b̂ and Λ are the factors and their information by the steps before: of what they are drawn from at first, then
// the part of the least squares that the voltages leave.
type admittances struct {
	net         *network.Network
	rng         *rand.Rand
	factors     []float64 // b̂
	information *mat.SymDense
	vm, va      []float64 // of the step before, where the next begins
	y, slope    *network.Admittance
	flows       *network.Flows
	h           *mat.SymDense // half the Hessian, of vm, va and b
	g           *mat.VecDense
	step        int // that was taken last
}

func newAdmittances(n *network.Network, seed uint64, index int) *admittances {
	size := 2*n.Buses() + n.Branches()
	a := &admittances{
		net: n, rng: rand.New(rand.NewPCG(seed^flowStream, uint64(index))), factors: ones(n.Branches()), information: mat.NewSymDense(n.Branches(), nil),
		vm: ones(n.Buses()), va: make([]float64, n.Buses()), y: network.NewAdmittance(n.Branches()), slope: network.NewAdmittance(n.Branches()),
		flows: network.NewFlows(n.Branches()), h: mat.NewSymDense(size, nil), g: mat.NewVecDense(size, nil), step: -1,
	}
	for k := range n.Branches() {
		a.information.SetSym(k, k, 1/(BranchSigma*BranchSigma))
	}
	a.scale(slices.Repeat([]float64{2}, n.Branches()), a.slope)
	source := n.Admittance.Parts()
	for i, part := range a.slope.Parts() {
		tensor.Axpy(-1, source[i], part) // admittances are linear in the factors
	}
	return a
}

// scale writes the admittances of factors, which are above zero.
func (a *admittances) scale(factors []float64, dst *network.Admittance) {
	if err := a.net.ScaleBranches(factors, dst); err != nil {
		panic("opf: " + err.Error())
	}
}

// flowTerms are of branch k, P and Q from and P and Q to: v² t[0] + vf vt (t[1] cos θ + t[2] sin θ), v being of its own end.
func flowTerms(y *network.Admittance, k int) [4][3]float64 {
	return [4][3]float64{
		{y.Gff[k], y.Gft[k], y.Bft[k]}, {-y.Bff[k], -y.Bft[k], y.Gft[k]},
		{y.Gtt[k], y.Gtf[k], -y.Btf[k]}, {-y.Btt[k], -y.Btf[k], -y.Gtf[k]},
	}
}

// measure draws what is measured at a state (vm, va) of the network of the factors: magnitudes, then the four flows of each branch.
func (a *admittances) measure(s, factors []float64) []float64 {
	n := a.net
	vm, va := s[:n.Buses()], s[n.Buses():]
	a.scale(factors, a.y)
	n.BranchFlows(a.y, vm, va, a.flows)
	z := slices.Clone(vm)
	for i := range z {
		z[i] += voltageDeviation * a.rng.NormFloat64()
	}
	for k := range n.Branches() {
		for _, v := range [...]float64{a.flows.Pf[k], a.flows.Qf[k], a.flows.Pt[k], a.flows.Qt[k]} {
			z = append(z, v+flowDeviation*a.rng.NormFloat64())
		}
	}
	return z
}

// update takes the measurements of a step into factors and information, and reports whether there is an estimate by them; else all is
// as it was.
func (a *admittances) update(z []float64) bool {
	nb := a.net.Buses()
	vm, va, factors := slices.Clone(a.vm), slices.Clone(a.va), slices.Clone(a.factors)
	var step mat.VecDense
	for range estimateIterations {
		a.assemble(z, vm, va, factors)
		var c mat.Cholesky
		if !c.Factorize(a.h) || c.SolveVecTo(&step, a.g) != nil {
			return false
		}
		largest := 0.0
		for i := range a.g.Len() {
			v := step.AtVec(i)
			largest = math.Max(largest, math.Abs(v))
			switch {
			case i < nb:
				vm[i] += v
			case i < 2*nb:
				va[i-nb] += v
			default:
				factors[i-2*nb] += v
			}
		}
		if !(slices.Min(factors) > 0.1) || !(largest < 10) {
			return false
		}
		if largest < estimateTolerance {
			a.vm, a.va, a.factors = vm, va, factors
			return a.marginalise()
		}
	}
	return false
}

// assemble writes half the Hessian of Gauss and Newton, and the negative half gradient.
func (a *admittances) assemble(z, vm, va, factors []float64) {
	n := a.net
	nb := n.Buses()
	a.scale(factors, a.y)
	a.h.Zero()
	a.g.Zero()
	for i, v := range vm {
		a.add([]int{i}, []float64{1}, z[i]-v, voltageDeviation)
	}
	a.h.SetSym(nb+n.Slack, nb+n.Slack, 1) // whose angle is given
	for k, f := range n.From {
		t := n.To[k]
		sin, cos := math.Sincos(va[f] - va[t])
		now, slopes := flowTerms(a.y, k), flowTerms(a.slope, k)
		for r, x := range now {
			bus, ends := [2]int{f, t}[r/2], x[1]*cos+x[2]*sin
			turn := vm[f] * vm[t] * (x[2]*cos - x[1]*sin)
			value := func(x [3]float64) float64 {
				return vm[bus]*vm[bus]*x[0] + vm[f]*vm[t]*(x[1]*cos+x[2]*sin)
			}
			d := []float64{vm[t] * ends, vm[f] * ends, turn, -turn, value(slopes[r])}
			d[r/2] += 2 * vm[bus] * x[0]
			a.add([]int{f, t, nb + f, nb + t, 2*nb + k}, d, z[nb+4*k+r]-value(x), flowDeviation)
		}
	}
	for i := range factors {
		for j, c := range factors {
			v := a.information.At(i, j)
			a.g.SetVec(2*nb+i, a.g.AtVec(2*nb+i)+v*(a.factors[j]-c))
			if j >= i {
				a.h.SetSym(2*nb+i, 2*nb+j, a.h.At(2*nb+i, 2*nb+j)+v)
			}
		}
	}
}

// add adds a measurement with its derivatives in some entries; the angle of the slack has none.
func (a *admittances) add(entries []int, d []float64, residual, deviation float64) {
	weight := 1 / (deviation * deviation)
	slack := a.net.Buses() + a.net.Slack
	for i, p := range entries {
		if p == slack {
			continue
		}
		a.g.SetVec(p, a.g.AtVec(p)+weight*d[i]*residual)
		for j, q := range entries {
			if q >= p && q != slack {
				a.h.SetSym(p, q, a.h.At(p, q)+weight*d[i]*d[j])
			}
		}
	}
}

// marginalise makes the information that of the factors alone, the voltages of the step being left free.
func (a *admittances) marginalise() bool {
	nv, nl := 2*a.net.Buses(), a.net.Branches()
	var c mat.Cholesky
	if !c.Factorize(a.h.SliceSym(0, nv)) {
		return false
	}
	cross := mat.NewDense(nv, nl, nil)
	for i := range nv {
		for k := range nl {
			cross.Set(i, k, a.h.At(i, nv+k))
		}
	}
	var solved, less mat.Dense
	if c.SolveTo(&solved, cross) != nil {
		return false
	}
	less.Mul(cross.T(), &solved)
	for i := range nl {
		for j := i; j < nl; j++ {
			a.information.SetSym(i, j, a.h.At(nv+i, nv+j)-(less.At(i, j)+less.At(j, i))/2)
		}
	}
	return true
}

// write writes the factors, within what they are drawn from.
func (a *admittances) write(dst []float64) {
	for k, b := range a.factors {
		dst[k] = math.Max(1-BranchRange, math.Min(1+BranchRange, b))
	}
}
