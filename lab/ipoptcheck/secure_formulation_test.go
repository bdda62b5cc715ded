//go:build ipopt

package ipoptcheck

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/secure"
)

// secured is the security-constrained optimal power flow of package secure, written apart from it:
// after each outage a whole formulation of the network without what is out, and the
// complementarities of limits as products that are at most slackness,
//
//	P + share·Δ − P' = a − b,   0 ≤ a,  a·(P_max − P') ≤ slackness,   0 ≤ b,  b·(P' − P_min) ≤ slackness
//	V − V' = c − d,             0 ≤ c,  c·(ΣQ_max − ΣQ') ≤ slackness, 0 ≤ d,  d·(ΣQ' − ΣQ_min) ≤ slackness
//
// with ' for what there is after the outage.
type secured struct {
	shape
	base  *formulation
	after []afterOutage
}

// slackness bounds the products.
const slackness = 1e-9

// afterOutage are the variables and constraints of one outage, from positions x and g on.
type afterOutage struct {
	*formulation
	x, g   int
	delta  int
	shares []sharing
	holds  []holding
}

// sharing is a unit before (its number there) and after.
type sharing struct {
	before, after int
	share         float64
	a, b          int // variables, −1 for a unit that keeps its power
	lo, hi        float64
}

// holding is a bus that holds its voltage, with the units that do so after the outage.
type holding struct {
	bus    int
	units  []int
	c, d   int
	lo, hi float64
}

// formulateSecure formulates the problem with some outages. share are participation factors, by unit.
func formulateSecure(n *network.Network, pd, qd []float64, outages []secure.Outage, emergency, band float64, share []float64) (*secured, error) {
	base, err := formulate(n, &acopf.Problem{Pd: pd, Qd: qd})
	if err != nil {
		return nil, err
	}
	s := &secured{base: base}
	s.x0, s.xlo, s.xhi = slices.Clone(base.x0), slices.Clone(base.xlo), slices.Clone(base.xhi)
	s.glo, s.ghi = slices.Clone(base.glo), slices.Clone(base.ghi)
	for _, o := range outages {
		if err := s.add(n, pd, qd, o, emergency, band, share); err != nil {
			return nil, err
		}
	}
	s.visitJacobian(nil, func(row, column int, _ float64) { s.jacobian.add(row, column) })
	s.visitHessian(nil, 0, nil, func(row, column int, _ float64) { s.hessian.add(row, column) })
	return s, nil
}

func without[T any](list []T, at int) []T { return slices.Delete(slices.Clone(list), at, at+1) }

func (s *secured) add(n *network.Network, pd, qd []float64, o secure.Outage, emergency, band float64, share []float64) error {
	m := *n
	m.Admittance = *network.NewAdmittance(n.Branches())
	m.Rate, m.AngMin, m.AngMax = slices.Clone(n.Rate), slices.Clone(n.AngMin), slices.Clone(n.AngMax)
	m.VMin, m.VMax = slices.Clone(n.VMin), slices.Clone(n.VMax)
	for k := range m.Rate {
		m.Rate[k] *= emergency
		m.AngMin[k], m.AngMax[k] = math.Inf(-1), math.Inf(1)
	}
	for b := range m.VMin {
		m.VMin[b] -= band
		m.VMax[b] += band
	}
	place := make([]int, n.Gens()) // after the outage
	for g := range place {
		place[g] = g
	}
	if u := o.Unit; u >= 0 {
		m.GenBus, m.GenRow, m.Cost = without(n.GenBus, u), without(n.GenRow, u), without(n.Cost, u)
		m.PMin, m.PMax, m.QMin, m.QMax = without(n.PMin, u), without(n.PMax, u), without(n.QMin, u), without(n.QMax, u)
		place[u] = -1
		for g := u + 1; g < len(place); g++ {
			place[g] = g - 1
		}
	}
	if o.Branch >= 0 {
		m.Rate[o.Branch] = math.Inf(1)
	}
	f, err := formulate(&m, &acopf.Problem{Pd: pd, Qd: qd})
	if err != nil {
		return err
	}
	f.cost = 0
	if k := o.Branch; k >= 0 {
		for _, v := range [][]float64{f.y.Gff, f.y.Bff, f.y.Gft, f.y.Bft, f.y.Gtf, f.y.Btf, f.y.Gtt, f.y.Btt} {
			v[k] = 0
		}
	}
	c := afterOutage{formulation: f, x: len(s.x0), g: len(s.glo)}
	s.x0, s.xlo, s.xhi = append(s.x0, f.x0...), append(s.xlo, f.xlo...), append(s.xhi, f.xhi...)
	s.glo, s.ghi = append(s.glo, f.glo...), append(s.ghi, f.ghi...)
	variable := func(lo, hi float64) int {
		s.x0, s.xlo, s.xhi = append(s.x0, max(lo, min(0, hi))), append(s.xlo, lo), append(s.xhi, hi)
		return len(s.x0) - 1
	}
	equation := func() { s.glo, s.ghi = append(s.glo, 0), append(s.ghi, 0) }
	product := func() { s.glo, s.ghi = append(s.glo, -unbounded), append(s.ghi, slackness) }
	c.delta = variable(-1e3, 1e3)
	for g, p := range place {
		if p < 0 {
			continue
		}
		u := sharing{before: g, after: p, share: share[g], a: -1, b: -1, lo: n.PMin[g], hi: n.PMax[g]}
		if u.hi == u.lo { // given before and after
			continue
		}
		equation()
		if u.share > 0 {
			u.a, u.b = variable(0, unbounded), variable(0, unbounded)
			product()
			product()
		}
		c.shares = append(c.shares, u)
	}
	units := map[int][]int{}
	for g, b := range m.GenBus {
		units[b] = append(units[b], g)
	}
	for b := range n.BusID {
		if len(units[b]) == 0 {
			continue
		}
		h := holding{bus: b, units: units[b], c: variable(0, unbounded), d: variable(0, unbounded)}
		for _, g := range h.units {
			h.lo, h.hi = h.lo+m.QMin[g], h.hi+m.QMax[g]
		}
		equation()
		product()
		product()
		c.holds = append(c.holds, h)
	}
	s.after = append(s.after, c)
	return nil
}

// begin takes a dispatch for every state's start.
func (s *secured) begin(r *secure.Result) {
	put := func(f *formulation, from int, unit func(g int) int) {
		for b := range r.Vm {
			s.x0[from+f.angle(b)], s.x0[from+f.magnitude(b)] = r.Va[b], r.Vm[b]
		}
		for g := range r.Pg {
			if k := unit(g); k >= 0 {
				s.x0[from+f.active(k)], s.x0[from+f.reactive(k)] = r.Pg[g], r.Qg[g]
			}
		}
	}
	put(s.base, 0, func(g int) int { return g })
	for i := range s.after {
		c := &s.after[i]
		after := map[int]int{}
		for _, u := range c.shares {
			after[u.before] = u.after
		}
		put(c.formulation, c.x, func(g int) int {
			if k, ok := after[g]; ok {
				return k
			}
			return -1
		})
	}
}

func (s *secured) objective(x []float64) float64 { return s.base.objective(x) }

func (s *secured) gradient(x, out []float64) {
	clear(out)
	s.base.gradient(x, out[:len(s.base.x0)])
}

func (c *afterOutage) own(x []float64) []float64 { return x[c.x : c.x+len(c.x0)] }

func (c *afterOutage) reactives(h *holding, x []float64) (sum float64) {
	for _, g := range h.units {
		sum += x[c.x+c.reactive(g)]
	}
	return sum
}

func (s *secured) constraints(x, out []float64) {
	s.base.constraints(x[:len(s.base.x0)], out[:len(s.base.glo)])
	for i := range s.after {
		c := &s.after[i]
		c.constraints(c.own(x), out[c.g:c.g+len(c.glo)])
		at := c.g + len(c.glo)
		for _, u := range c.shares {
			p := x[c.x+c.active(u.after)]
			out[at] = x[s.base.active(u.before)] - p
			if u.a < 0 {
				at++
				continue
			}
			out[at] += u.share*x[c.delta] - x[u.a] + x[u.b]
			out[at+1], out[at+2] = x[u.a]*(u.hi-p), x[u.b]*(p-u.lo)
			at += 3
		}
		for k := range c.holds {
			h := &c.holds[k]
			q := c.reactives(h, x)
			out[at] = x[s.base.magnitude(h.bus)] - x[c.x+c.magnitude(h.bus)] - x[h.c] + x[h.d]
			out[at+1], out[at+2] = x[h.c]*(h.hi-q), x[h.d]*(q-h.lo)
			at += 3
		}
	}
}

func (s *secured) visitJacobian(x []float64, add func(row, column int, value float64)) {
	part := func(from, n int) []float64 {
		if x == nil {
			return nil
		}
		return x[from : from+n]
	}
	value := func(v int) float64 {
		if x == nil {
			return 0
		}
		return x[v]
	}
	s.base.visitJacobian(part(0, len(s.base.x0)), add)
	for i := range s.after {
		c := &s.after[i]
		c.visitJacobian(part(c.x, len(c.x0)), func(row, column int, v float64) { add(c.g+row, c.x+column, v) })
		at := c.g + len(c.glo)
		for _, u := range c.shares {
			p := c.x + c.active(u.after)
			add(at, s.base.active(u.before), 1)
			add(at, p, -1)
			if u.a < 0 {
				at++
				continue
			}
			add(at, c.delta, u.share)
			add(at, u.a, -1)
			add(at, u.b, 1)
			add(at+1, u.a, u.hi-value(p))
			add(at+1, p, -value(u.a))
			add(at+2, u.b, value(p)-u.lo)
			add(at+2, p, value(u.b))
			at += 3
		}
		for k := range c.holds {
			h := &c.holds[k]
			q := 0.0
			if x != nil {
				q = c.reactives(h, x)
			}
			add(at, s.base.magnitude(h.bus), 1)
			add(at, c.x+c.magnitude(h.bus), -1)
			add(at, h.c, -1)
			add(at, h.d, 1)
			add(at+1, h.c, h.hi-q)
			add(at+2, h.d, q-h.lo)
			for _, g := range h.units {
				add(at+1, c.x+c.reactive(g), -value(h.c))
				add(at+2, c.x+c.reactive(g), value(h.d))
			}
			at += 3
		}
	}
}

func (s *secured) visitHessian(x []float64, factor float64, lambda []float64, add func(row, column int, value float64)) {
	part := func(v []float64, from, n int) []float64 {
		if v == nil {
			return nil
		}
		return v[from : from+n]
	}
	of := func(row int) float64 {
		if lambda == nil {
			return 0
		}
		return lambda[row]
	}
	s.base.visitHessian(part(x, 0, len(s.base.x0)), factor, part(lambda, 0, len(s.base.glo)), add)
	lower := func(i, j int, v float64) { add(max(i, j), min(i, j), v) }
	for i := range s.after {
		c := &s.after[i]
		c.visitHessian(part(x, c.x, len(c.x0)), 0, part(lambda, c.g, len(c.glo)), func(row, column int, v float64) { add(c.x+row, c.x+column, v) })
		at := c.g + len(c.glo)
		for _, u := range c.shares {
			if u.a < 0 {
				at++
				continue
			}
			p := c.x + c.active(u.after)
			lower(u.a, p, -of(at+1))
			lower(u.b, p, of(at+2))
			at += 3
		}
		for k := range c.holds {
			h := &c.holds[k]
			for _, g := range h.units {
				lower(h.c, c.x+c.reactive(g), -of(at+1))
				lower(h.d, c.x+c.reactive(g), of(at+2))
			}
			at += 3
		}
	}
}

// newSecure formulates the security-constrained problem with some outages and these participation
// factors, which sum to one. It begins at a dispatch, if there is one: the voltages and powers before
// any outage.
func newSecure(n *network.Network, pd, qd []float64, outages []secure.Outage, emergency, band float64, share []float64, start *secure.Result) (*Program, error) {
	s, err := formulateSecure(n, pd, qd, outages, emergency, band, share)
	if err != nil {
		return nil, err
	}
	if start != nil {
		s.begin(start)
	}
	return newProgram(s.base, s, Exact)
}
