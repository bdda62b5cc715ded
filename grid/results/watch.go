package results

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
)

// withLimits is a network with the limits of voltages and ratings after an outage.
func withLimits(n *network.Network, emergency, band float64) *network.Network {
	after := *n
	after.VMin, after.VMax, after.Rate = slices.Clone(n.VMin), slices.Clone(n.VMax), slices.Clone(n.Rate)
	floats.AddConst(-band, after.VMin)
	floats.AddConst(band, after.VMax)
	floats.Scale(emergency, after.Rate)
	return &after
}

// securityWatch measures a solution against the limits of voltages, ratings and units. Limits are numbered V lower, V
// upper by bus, then |S| from and to by branch. P lower, P upper, Q lower and Q upper by unit follow.
type securityWatch struct {
	n       *network.Network
	p       Point
	kinds   []limitKind // of the last point that is measured; nil until they are needed
	loading *powerflow.Loading
	loaded  []int32 // of use
	// branches and outUnits are out.
	branches, outUnits []int
	excesses           []float64 // of the last solution that is measured, of the limits that it reaches
	// extreme is the largest excess over each limit after any outage, and outage the number of that outage.
	extreme  []float64
	outage   []int
	floor    []float64 // excesses below it are of no interest
	extremes []int     // limits with others

	violated []violation // of use
}

// violation is a limit that is broken more than in the base.
type violation struct {
	limit    int
	severity float64
}

func newSecurityWatch(n *network.Network, loading *powerflow.Loading) *securityWatch {
	w := &securityWatch{n: n, p: Point{net: n, Flows: network.NewFlows(n.Branches())}, loading: loading, loaded: make([]int32, n.Branches())}
	w.excesses = slices.Repeat([]float64{math.Inf(-1)}, w.count())
	w.extreme, w.floor, w.outage = make([]float64, w.count()), make([]float64, w.count()), make([]int, w.count())
	w.reset()
	return w
}

// reset forgets the extremes.
func (w *securityWatch) reset() {
	for i := range w.extreme {
		w.extreme[i], w.floor[i], w.outage[i] = math.Inf(-1), -math.MaxFloat64, 0
	}
}

// thresholds are what limits are broken by more than after an outage, where that counts: more than in the base.
func (w *securityWatch) thresholds(base *powerflow.Solution) []float64 {
	w.measure(base, nil, nil)
	out := slices.Clone(w.excesses)
	for k, excess := range out {
		more := minViolation
		if k >= 2*(w.n.Buses()+w.n.Branches()) && excess > minViolation {
			more = minUnitChange / w.severity(k, 1)
		}
		out[k] = max(minViolation, max(excess, 0)+more)
	}
	return out
}

func (w *securityWatch) count() int { return 2*(w.n.Buses()+w.n.Branches()) + 4*w.n.Gens() }

// rounded is a square, but for rounding.
const rounded = 1 - 1e-15

// measure writes the excesses over the limits that a solution reaches, pu: those of at least the floor. They are −Inf for what is
// out or without supply, and for units without Pg. v are its voltages in rectangular form, nil where they are not known.
func (w *securityWatch) measure(sol *powerflow.Solution, v [][2]float64, dark []int) (extremes []int) {
	n, f, lowest := w.n, w.p.Flows, math.Inf(-1)
	nb, nl, ng := n.Buses(), n.Branches(), n.Gens()
	vm, va, pg, qg := sol.Vm, sol.Va, sol.Pg, sol.Qg
	if len(w.p.Vm) == 0 || &vm[0] != &w.p.Vm[0] || (pg == nil) != (w.p.Pg == nil) { // another solution's
		w.p.Vm, w.p.Va = vm, va
		w.p.Pg, w.p.Qg, w.kinds = pg, qg, nil
	}
	extremes = w.extremes[:0]
	excess, floor := w.excesses, w.floor
	if v == nil {
		v = powerflow.Rectangular(vm, va)
	}
	lower, upper := n.VMin[:len(vm)], n.VMax[:len(vm)]
	lowFloor, highFloor := floor[:len(vm)], floor[nb:][:len(vm)]
	for b, vm := range vm {
		if low, high := lower[b]-vm, vm-upper[b]; low >= lowFloor[b] || high >= highFloor[b] {
			excess[b], excess[nb+b] = low, high
			extremes = append(extremes, b, nb+b)
		}
	}
	y, first := &n.Admittance, 2*nb
	for _, k := range w.loading.Above(w.loaded, v, n.Rate, floor[first:], floor[first+nl:]) {
		k, rate := int(k), n.Rate[k]
		from, to := &v[n.From[k]], &v[n.To[k]]
		c, d := from[0]*to[0]+from[1]*to[1], from[1]*to[0]-from[0]*to[1] // V·V·cos and V·V·sin of the angle
		f2, t2 := from[0]*from[0]+from[1]*from[1], to[0]*to[0]+to[1]*to[1]
		pf, qf := f2*y.Gff[k]+y.Gft[k]*c+y.Bft[k]*d, -f2*y.Bff[k]+y.Gft[k]*d-y.Bft[k]*c
		pt, qt := t2*y.Gtt[k]+y.Gtf[k]*c-y.Btf[k]*d, -t2*y.Btt[k]-y.Gtf[k]*d-y.Btf[k]*c
		sf, st := pf*pf+qf*qf, pt*pt+qt*qt
		lf, lt := rate+floor[2*nb+k], rate+floor[2*nb+nl+k]
		if lf < 0 || lt < 0 || sf >= lf*lf*rounded || st >= lt*lt*rounded {
			f.Pf[k], f.Qf[k] = pf, qf
			f.Pt[k], f.Qt[k] = pt, qt
			excess[2*nb+k], excess[2*nb+nl+k] = math.Sqrt(sf)-rate, math.Sqrt(st)-rate
			extremes = append(extremes, 2*nb+k, 2*nb+nl+k)
		}
	}
	for _, k := range w.branches {
		excess[2*nb+k], excess[2*nb+nl+k] = lowest, lowest
	}
	units := 2 * (nb + nl)
	for k, c := range [4]struct {
		sign          float64
		bound, values []float64
	}{{1, n.PMin, pg}, {-1, n.PMax, pg}, {1, n.QMin, qg}, {-1, n.QMax, qg}} {
		first := units + k*ng
		bound, floor := c.bound[:len(c.values)], floor[first:][:len(c.values)]
		for g, v := range c.values {
			if x := c.sign * (bound[g] - v); x >= floor[g] {
				excess[first+g] = x
				extremes = append(extremes, first+g)
			}
		}
	}
	out := w.outUnits
	for _, b := range dark {
		excess[b], excess[nb+b] = lowest, lowest
		for g, bus := range n.GenBus {
			if bus == b {
				out = append(slices.Clip(out), g)
			}
		}
	}
	for _, g := range out {
		for k := range 4 {
			excess[units+k*ng+g] = lowest
		}
	}
	w.extremes = extremes
	return extremes
}

// keep keeps the excess over a limit after an outage that is the largest so far; the first of equals.
func (w *securityWatch) keep(limit int, excess float64, outage int) {
	if x := w.extreme[limit]; excess > x || excess == x && outage < w.outage[limit] {
		w.extreme[limit], w.outage[limit] = excess, outage
	}
}

func (w *securityWatch) broken(i int, excess float64) Broken {
	kind := 0
	if w.kinds == nil {
		all := w.p.kinds()
		w.kinds = slices.Concat(all[:2], all[6:8], all[2:6])
	}
	for ; i >= w.kinds[kind].count; kind++ {
		i -= w.kinds[kind].count
	}
	return Broken{w.kinds[kind].limit(i), excess * w.kinds[kind].unit}
}

// severity of an excess: as a share of the rating, or of a unit's finite limit that is farther from 0, and of voltages tenfold.
func (w *securityWatch) severity(i int, excess float64) float64 {
	n, nb, nl := w.n, w.n.Buses(), w.n.Branches()
	unit, ng, size := i-2*(nb+nl), n.Gens(), 0.01
	switch {
	case i < 2*nb:
		return voltageSeverity * excess
	case unit < 0:
		return excess / max(n.Rate[(i-2*nb)%nl], 1e-9)
	}
	bounds := [2][2][]float64{{n.PMin, n.PMax}, {n.QMin, n.QMax}}[unit/ng/2]
	for _, bound := range bounds {
		if x := math.Abs(bound[unit%ng]); !math.IsInf(x, 1) {
			size = max(size, x)
		}
	}
	return excess / size
}
