package opf

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/network"
)

// real is float64 for solvers and plants, float32 for batches of the engine.
type real interface{ float32 | float64 }

// terms are the numbers of the objectives, one entry a rated branch, bus or
// unit.
//
//	J₁ = Σ_ℓ max(0, |S_ℓ|/S_ℓ^max − τ)⁴   ℓ the rated branches, |S| at the from end
//	J₂ = Σ_i max(0, |V_i − 1| − δ_dead)²
//	J₃ = Σ_g cost_g(P_g)                    $/h
type terms struct {
	from, to []int
	// The from end's admittance is fixed + b·series, b the branch factor.
	gffFixed, bffFixed, gffSeries, bffSeries []float64
	gft, bft                                 []float64 // for b = 1; proportional to b
	inverseRate                              []float64
	factor                                   []int // position of b in the context, −1: 1
	cost                                     []network.Cost
	buses                                    int
}

// admittancesAtTwo are the admittances at branch factors of 2: less those of the file they
// are what a factor multiplies.
func admittancesAtTwo(n *network.Network) (*network.Admittance, error) {
	y := network.NewAdmittance(n.Branches())
	return y, n.ScaleBranches(slices.Repeat([]float64{2}, n.Branches()), y)
}

func newTerms(n *network.Network, l *layout) (terms, error) {
	y2, err := admittancesAtTwo(n)
	if err != nil {
		return terms{}, err
	}
	t := terms{buses: l.buses, cost: n.Cost}
	for _, k := range l.rated {
		t.from, t.to = append(t.from, n.From[k]), append(t.to, n.To[k])
		g, b := y2.Gff[k]-n.Gff[k], y2.Bff[k]-n.Bff[k]
		t.gffSeries, t.bffSeries = append(t.gffSeries, g), append(t.bffSeries, b)
		t.gffFixed, t.bffFixed = append(t.gffFixed, n.Gff[k]-g), append(t.bffFixed, n.Bff[k]-b)
		t.gft, t.bft = append(t.gft, n.Gft[k]), append(t.bft, n.Bft[k])
		t.inverseRate = append(t.inverseRate, 1/n.Rate[k])
		index := -1
		if l.uncertain {
			index = l.factors + k
		}
		t.factor = append(t.factor, index)
	}
	return t, nil
}

// flow is |S|/S^max at the from end of a branch with its derivatives in V_f, V_t
// and θ_f − θ_t; these are zero below τ, where no objective needs them.
type flow struct{ load, vf, vt, angle float64 }

// fromFlow is that of rated branch k. It computes in float64 whatever the type of
// s: a short line's admittance times the rounding of a float32 voltage would be
// the size of what is above τ.
func fromFlow[T real](t *terms, k int, s, c []T) flow {
	f, o := t.from[k], t.to[k]
	b := 1.0
	if index := t.factor[k]; index >= 0 {
		b = float64(c[index])
	}
	sin, cos := math.Sincos(float64(s[t.buses+f]) - float64(s[t.buses+o]))
	vf, vt := float64(s[f]), float64(s[o])
	gff, bff := t.gffFixed[k]+b*t.gffSeries[k], t.bffFixed[k]+b*t.bffSeries[k]
	inPhase, quadrature := b*(t.gft[k]*cos+t.bft[k]*sin), b*(t.gft[k]*sin-t.bft[k]*cos)
	p, q := vf*(vf*gff+vt*inPhase), vf*(vt*quadrature-vf*bff)
	size := math.Sqrt(p*p + q*q)
	out := flow{load: size * t.inverseRate[k]}
	if out.load <= ThermalThreshold {
		return out
	}
	scale := t.inverseRate[k] / size
	p, q = p*scale, q*scale
	out.vf = p*(2*vf*gff+vt*inPhase) + q*(vt*quadrature-2*vf*bff)
	out.vt = vf * (p*inPhase + q*quadrature)
	out.angle = vf * vt * (q*inPhase - p*quadrature)
	return out
}

// evaluate writes J; gs and gu, where not nil, the gradient of σᵀJ.
func evaluate[T real](t *terms, s, u, c, sigma, J, gs, gu []T) {
	var j [objectives]float64
	gradient := gs != nil
	var w [objectives]float64
	if gradient {
		clear(gs)
		clear(gu)
		for i, v := range sigma {
			w[i] = float64(v)
		}
	}
	for k := range t.from {
		line := fromFlow(t, k, s, c)
		excess := line.load - ThermalThreshold
		if excess <= 0 {
			continue
		}
		cube := excess * excess * excess
		j[thermal] += excess * cube
		if gradient {
			slope, f, o := 4*w[thermal]*cube, t.from[k], t.to[k]
			gs[f] += T(slope * line.vf)
			gs[o] += T(slope * line.vt)
			gs[t.buses+f] += T(slope * line.angle)
			gs[t.buses+o] -= T(slope * line.angle)
		}
	}
	for i := range t.buses {
		v := float64(s[i]) - 1
		d := math.Abs(v) - VoltageDeadband
		if d <= 0 {
			continue
		}
		j[voltage] += d * d
		if gradient {
			gs[i] += T(math.Copysign(2*w[voltage]*d, v))
		}
	}
	for g := range t.cost {
		value, slope, _ := t.cost[g].At(float64(u[g]))
		j[economic] += value
		if gradient {
			gu[g] = T(w[economic] * slope)
		}
	}
	if J != nil {
		for i, v := range j {
			J[i] = T(v)
		}
	}
}

// score writes J where |S| of the rated branches at their from ends, the magnitudes and
// the units' outputs are at hand.
func (t *terms) score(size, vm, pg, J []float64) {
	clear(J)
	for k, s := range size {
		if excess := s*t.inverseRate[k] - ThermalThreshold; excess > 0 {
			J[thermal] += excess * excess * excess * excess
		}
	}
	for _, v := range vm {
		if d := math.Abs(v-1) - VoltageDeadband; d > 0 {
			J[voltage] += d * d
		}
	}
	for g := range t.cost {
		value, _, _ := t.cost[g].At(pg[g])
		J[economic] += value
	}
}

// Objectives writes J₁ and J₂ of the state s and J₃ of the action u: the paper's
// J(s, u), with no power flow between. What a dispatch really leads to is Score's.
func (y *System) Objectives(s, u, c, J []float64) {
	evaluate(&y.model.terms, s, u, c, nil, J, nil, nil)
}

// Gradient writes the derivatives of σᵀJ in s and u.
func (y *System) Gradient(s, u, c, sigma, gs, gu []float64) {
	evaluate(&y.model.terms, s, u, c, sigma, nil, gs, gu)
}

// GradientBatch is domain.Derivatives.Rows with the same formulas, the sums
// in float32.
func (y *System) GradientBatch(b domain.Batch) {
	ns, nu, t := 2*y.layout.buses, 2*y.layout.gens, &y.model.terms
	for i := range b.Rows {
		var J []float32
		if b.J != nil {
			J = b.J[i*b.JStride:][:objectives]
		}
		evaluate(t, b.S[i*b.SStride:][:ns], b.U[i*b.UStride:][:nu], b.C[i*b.CStride:][:y.layout.context],
			b.Sigma[i*b.SigmaStride:][:objectives], J, b.GS[i*b.GSStride:][:ns], b.GU[i*b.GUStride:][:nu])
	}
}

// economicIndicator is δ_e: a constant background drive (paper, appendix).
const economicIndicator = 0.1

// semantic holds k, ε and ρ of the priority σ; docs/explain/opf.md says why.
var semantic = domain.Semantic{K: []float64{1, 0.8, 8.75}, Epsilon: []float64{0.05, 0.05, 0.05}, Rho: 1}

// Indicators writes δ of the state s: the largest branch loading at a from end,
// clipped to 1; the largest deviation of a bus voltage from the middle of its own
// limits, in half widths of them, clipped to 1; and the constant δ_e.
func (y *System) Indicators(s, u, c, delta []float64) {
	load := 0.0
	for k := range y.model.terms.from {
		load = math.Max(load, fromFlow(&y.model.terms, k, s, c).load)
	}
	y.indicators(load, s, delta)
}

// indicators writes δ where the largest loading is at hand.
func (y *System) indicators(load float64, s, delta []float64) {
	n, deviation := y.Network, 0.0
	for i := range n.BusID {
		if half := (n.VMax[i] - n.VMin[i]) / 2; half > 0 {
			deviation = math.Max(deviation, math.Abs(s[i]-(n.VMax[i]+n.VMin[i])/2)/half)
		}
	}
	delta[thermal] = math.Min(load, 1)
	delta[voltage] = math.Min(deviation, 1)
	delta[economic] = economicIndicator
}
