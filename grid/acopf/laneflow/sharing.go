package laneflow

import (
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// sharing is the part of a Solver for power flows after outages. No bus takes up the balance: units generate P +
// share·Δ within their limits. Δ is the unknown that replaces the reference's angle. Every magnitude is an unknown,
// with a row that fixes it where it is at a set-point, lane by lane.
type sharing struct {
	net      *network.Network
	share    []float64
	genBuses []int // buses with units
	units    []int // with a share

	emergency, band float64

	free                     lanes.Col // by genBuses: 1 at a PQ bus, 0 at a PV bus
	setPoint                 lanes.Col // by genBuses: voltage
	qmin, qmax               lanes.Col // by genBuses: reactive limits
	limitSide                lanes.Col // by genBuses: at the lower (−1) or upper (+1) limit; 0: at none
	noUnit                   lanes.Col // by genBuses: roomWithoutUnit where no unit is left, else 0
	switchExcess             lanes.Col // largest excess over a point where a bus switches between PV and PQ
	reactiveExcess           lanes.Col // sum of these, pu of reactive power
	vmin, vmax, rate         lanes.Col // limits after an outage, by bus and by rated branch
	breach                   lanes.Col // largest violation of these
	p, participation, lo, hi lanes.Col // by unit with a share: P, share and limits
	injection                lanes.Col // by bus: specified active injection with the shared power
	slope                    lanes.Col // by bus: its derivative in Δ
	delta                    lanes.Col
	shift                    [4]lanes.Col // by bus: see shiftVoltages
	gradient                 lanes.Col    // by unknown
	savedEntries             [6]lanes.Col // entries of the Jacobian by pair: h, n, h′, n′, and by bus −slope and 1 − free
	genBusEntries, diagonal  lanes.Col    // entries in rows of genBuses: four a pair, two a bus
}

// ForContingencies analyses a network for NewContingencies. share is each unit's part of the missing power. rated
// are the branches with a rating, which a contingency multiplies by emergency. Voltages may exceed their limits by
// band, pu.
func ForContingencies(n *network.Network, share []float64, rated []int, emergency, band float64) (*Solver, error) {
	level, err := isa.Choose()
	if err != nil {
		return nil, err
	}
	return forContingencies(n, share, rated, emergency, band, level, lanes.Widths(level)[0])
}

func forContingencies(n *network.Network, share []float64, rated []int, emergency, band float64, level isa.Level, width int) (*Solver, error) {
	y := &sharing{net: n, share: share, emergency: emergency, band: band}
	for g, b := range n.GenBus {
		if !slices.Contains(y.genBuses, b) {
			y.genBuses = append(y.genBuses, b)
		}
		if share[g] > 0 {
			y.units = append(y.units, g)
		}
	}
	slices.Sort(y.genBuses)
	return (&Solver{net: n, rated: rated, rotating: true, sharing: y}).compile(level, width)
}

func (y *sharing) allocate(l *lanes.Layout, rated int) {
	buses := y.net.Buses()
	for _, c := range []*lanes.Col{&y.free, &y.setPoint, &y.qmin, &y.qmax, &y.limitSide, &y.noUnit} {
		*c = l.New(len(y.genBuses))
	}
	for _, c := range []*lanes.Col{&y.p, &y.participation, &y.lo, &y.hi} {
		*c = l.New(len(y.units))
	}
	for i := range y.shift {
		y.shift[i] = l.New(buses)
	}
	y.injection, y.slope, y.delta = l.New(buses), l.New(buses), l.New(1)
	y.vmin, y.vmax, y.rate = l.New(buses), l.New(buses), l.New(rated)
	y.switchExcess, y.reactiveExcess, y.breach = l.New(1), l.New(1), l.New(1)
}

func (y *sharing) allocateEntries(e *elimination, l *lanes.Layout) {
	pairs := len(e.solver.plan.pairs)
	y.gradient = l.New(e.size)
	y.savedEntries = [6]lanes.Col{l.New(pairs), l.New(pairs), l.New(pairs), l.New(pairs), l.New(y.net.Buses()), l.New(len(y.genBuses))}
	y.genBusEntries, y.diagonal = l.New(4*pairs), l.New(2*len(y.genBuses))
}

// imbalance writes the mismatch of injections, units' shares included, and the error of fixed magnitudes.
func (y *sharing) imbalance(b *lanes.Builder, p *plan) {
	zero, one := p.constant(0), p.constant(1)
	b.Copy(y.injection, p.ps)
	for i := range y.slope {
		b.Copy(y.slope[i:i+1], zero)
	}
	groups(len(y.units), func(lo, hi int) {
		var buses []int
		for _, g := range y.units[lo:hi] {
			buses = append(buses, y.net.GenBus[g])
		}
		unlimited := b.FMA(y.participation[lo:hi], y.delta, y.p[lo:hi])
		output := b.Min(b.Max(unlimited, y.lo[lo:hi]), y.hi[lo:hi])
		b.SetAdd(y.injection.At(buses), y.injection.At(buses), output)
		b.SetFMA(y.slope.At(buses), y.participation[lo:hi], b.Equal(output, unlimited), y.slope.At(buses))
	})
	b.SetSub(p.dp, y.injection, p.p)
	b.SetSub(p.dq, p.qs, p.q)
	b.Copy(y.switchExcess, p.constant(-roomWithoutUnit))
	b.Copy(y.reactiveExcess, zero)
	groups(len(y.genBuses), func(lo, hi int) {
		d, v, free := p.dq.At(y.genBuses[lo:hi]), p.vm.At(y.genBuses[lo:hi]), y.free[lo:hi]
		below := b.Sub(y.setPoint[lo:hi], v)
		setPointError := b.Div(below, v)
		// A PV bus switches at its reactive limits, a PQ bus at its set-point.
		switchRoom := b.Min(b.Sub(b.Sub(zero, d), y.qmin[lo:hi]), b.Add(y.qmax[lo:hi], d))
		room := b.Choose(free, b.FMA(y.limitSide[lo:hi], below, y.noUnit[lo:hi]), switchRoom)
		b.MaxNegProduct(y.switchExcess, room, one)
		// Reactive power beyond limits, approximately.
		b.AbsSum(y.reactiveExcess, b.Min(b.Mul(room, b.Choose(free, b.Abs(p.bd.At(y.genBuses[lo:hi])), one)), zero))
		b.SetFMA(d, free, d, b.Mul(b.Sub(one, free), setPointError))
	})
	for _, d := range []lanes.Col{p.dp, p.dq} {
		b.AbsMax(p.worst, d)
		b.AbsSum(p.sum, d)
	}
}

// shiftVoltages shifts every voltage as that before the outage: by a factor of its magnitude, by its angle, and by
// the complex factor in rectangular form.
func (s *Solver) shiftVoltages(b *lanes.Builder) {
	p, shift := &s.plan, &s.sharing.shift
	groups(len(p.vm), func(lo, hi int) {
		vm, va := p.vm[lo:hi], p.va[lo:hi]
		e, f := p.e[lo:hi], p.f[lo:hi]
		b.SetMul(vm, vm, shift[0][lo:hi])
		b.SetAdd(va, va, shift[1][lo:hi])
		turned := b.FNMA(f, shift[3][lo:hi], b.Mul(e, shift[2][lo:hi]))
		b.SetFMA(f, e, shift[3][lo:hi], b.Mul(f, shift[2][lo:hi]))
		b.Copy(e, turned)
	})
}

// roomWithoutUnit (pu) is the distance to a reactive limit where there is none.
const roomWithoutUnit = 1e6

// margin writes the largest violation of a voltage limit or rating.
func (s *Solver) margin(b *lanes.Builder) {
	p, y, n := &s.plan, s.sharing, s.net
	one, zero := p.constant(1), p.constant(0)
	b.Copy(y.breach, p.constant(-roomWithoutUnit))
	groups(len(p.vm), func(lo, hi int) {
		v := p.vm[lo:hi]
		b.MaxNegProduct(y.breach, b.Min(b.Sub(v, y.vmin[lo:hi]), b.Sub(y.vmax[lo:hi], v)), one)
	})
	groups(len(s.rated), func(lo, hi int) {
		var i, j []int
		for _, k := range s.rated[lo:hi] {
			i, j = append(i, n.From[k]), append(j, n.To[k])
		}
		c, d := p.rectangularProducts(b, i, j)
		from := p.squaredFlow(b, p.vm.At(i), c, d, p.gff[lo:hi], p.bff[lo:hi], p.gft[lo:hi], p.bft[lo:hi])
		to := p.squaredFlow(b, p.vm.At(j), c, b.Sub(zero, d), p.gtt[lo:hi], p.btt[lo:hi], p.gtf[lo:hi], p.btf[lo:hi])
		b.MaxNegProduct(y.breach, b.Sub(y.rate[lo:hi], b.Sqrt(b.Max(from, to))), one)
	})
}

// entries are the Jacobian's entries of these unknowns, in cells that a later mismatch does not overwrite.
func (y *sharing) entries(b *lanes.Builder, e *elimination, current map[[2]int]lanes.Ref) {
	p, slack := &e.solver.plan, y.net.Slack
	zero, one := p.constant(0), p.constant(1)
	for i, c := range []lanes.Col{p.h, p.n, p.ht, p.nt} {
		b.Copy(y.savedEntries[i], c)
	}
	b.SetSub(y.savedEntries[4], zero, y.slope)
	b.SetSub(y.savedEntries[5], one, y.free)
	put := func(i int, magnitude int, j int, angle, log lanes.Ref) {
		row := e.unknown[magnitude][i]
		if j != slack {
			current[[2]int{row, e.unknown[0][j]}] = angle
		}
		current[[2]int{row, e.unknown[1][j]}] = log
	}
	for bus := range p.vm {
		d := &e.diagonal
		put(bus, 0, bus, d[0][bus], d[1][bus])
		i, isGenBus := slices.BinarySearch(y.genBuses, bus)
		if !isGenBus {
			put(bus, 1, bus, d[2][bus], d[3][bus])
			continue
		}
		free, masked := y.free[i:i+1], y.diagonal[2*i:2*i+2]
		b.SetMul(masked[:1], free, d[2][bus:bus+1])
		b.SetFMA(masked[1:], free, d[3][bus:bus+1], y.savedEntries[5][i:i+1])
		put(bus, 1, bus, masked[0], masked[1])
		current[[2]int{e.unknown[0][bus], e.unknown[0][slack]}] = y.savedEntries[4][bus]
	}
	pairs := len(p.pairs)
	for k, pair := range p.pairs {
		for end := range 2 {
			i, j := pair[end], pair[1-end]
			h, n, negative := y.savedEntries[2*end][k:k+1], y.savedEntries[2*end+1][k:k+1], e.negative[end*pairs+k:end*pairs+k+1]
			put(i, 0, j, h[0], n[0])
			genBus, isGenBus := slices.BinarySearch(y.genBuses, i)
			if !isGenBus {
				put(i, 1, j, negative[0], h[0])
				continue
			}
			masked := y.genBusEntries[4*k+2*end : 4*k+2*end+2]
			b.SetMul(masked[:1], y.free[genBus:genBus+1], negative)
			b.SetMul(masked[1:], y.free[genBus:genBus+1], h)
			put(i, 1, j, masked[0], masked[1])
		}
	}
}
