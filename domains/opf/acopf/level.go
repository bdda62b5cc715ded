package acopf

import "math"

// Between neighbours with different limits the middles of their limits may be so far apart,
// beside the impedance between them, that the flat start has flows beyond all load:
// from there the interior point does not find its way. Magnitudes and angles are then
// levelled along such branches.

const (
	// stiffFlow times all load is more than the flows of a network add up to; those of a
	// flat start that do make it a stiff one.
	stiffFlow = 5
	// levelAdmittance, pu: branches with at least this are levelled along.
	levelAdmittance = 10
	// anchor, pu, is the weight of the middle of a bus's limits beside the admittances
	// of its branches; of the angle of the flat start it is a tenth.
	anchor = 1
	// levelMargin is how near a limit a magnitude may be levelled, as a share of the range.
	levelMargin = 0.1
	levelSweeps = 100
)

// stiff says whether the flows of a lane's flat start add up to more than stiffFlow times
// the load.
func (w *worker) stiff(l int) bool {
	p, m := w.plan, w.m
	load, flow := 0.0, 0.0
	for i := range p.nb {
		load += math.Abs(m.Get(p.pd[i], l))
	}
	for k := range p.nl {
		f, t := m.Get(p.v[p.net.From[k]], l), m.Get(p.v[p.net.To[k]], l)
		active := f * (m.Get(p.gff[k], l)*f + m.Get(p.gft[k], l)*t)
		reactive := f * (m.Get(p.bff[k], l)*f + m.Get(p.bft[k], l)*t)
		flow += math.Hypot(active, reactive)
	}
	return flow > stiffFlow*load
}

// level takes the voltages of a lane's flat start to those that leave little current in
// branches without load: the least squares of V_f/V_t − τ and θ_f − θ_t − φ weighted by
// admittances, by Gauss and Seidel's sweeps within the limits.
func (w *worker) level(l int) {
	p, m := w.plan, w.m
	type end struct {
		to             int
		y, ratio, turn float64 // V wants ratio times the other's, θ the other's and turn
	}
	ends := make([][]end, p.nb)
	for k := range p.nl {
		gft, bft, gtf, btf := m.Get(p.gft[k], l), m.Get(p.bft[k], l), m.Get(p.gtf[k], l), m.Get(p.btf[k], l)
		y := math.Hypot(gft, bft)
		if y < levelAdmittance {
			continue
		}
		f, t := p.net.From[k], p.net.To[k]
		ratio := math.Sqrt(math.Hypot(m.Get(p.gtt[k], l), m.Get(p.btt[k], l)) / math.Hypot(m.Get(p.gff[k], l), m.Get(p.bff[k], l)))
		turn := math.Atan2(bft*gtf-gft*btf, gft*gtf+bft*btf) / 2
		ends[f] = append(ends[f], end{t, y, ratio, turn})
		ends[t] = append(ends[t], end{f, y * ratio * ratio, 1 / ratio, -turn})
	}
	flat := p.net.Va0[p.net.Slack]
	for range levelSweeps {
		for i := range p.nb {
			lo, hi := m.Get(p.vLo[i], l), m.Get(p.vHi[i], l)
			v, th, weight := anchor*(lo+hi)/2, anchor/10.0*flat, 0.0
			for _, e := range ends[i] {
				v += e.y * e.ratio * m.Get(p.v[e.to], l)
				th += e.y * (m.Get(p.th[e.to], l) + e.turn)
				weight += e.y
			}
			margin := levelMargin * (hi - lo)
			m.Set(p.v[i], l, min(max(v/(weight+anchor), lo+margin), hi-margin))
			m.Set(p.th[i], l, th/(weight+anchor/10.0))
		}
	}
}
