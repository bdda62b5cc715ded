package laneflow

import (
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// sharing is what a Solver of power flows after outages has besides. No bus takes up the balance: units
// give P + share·Δ within their limits, and Δ is the unknown in the place of the reference's angle. Every
// magnitude is an unknown. The row of one that is held says so, lane by lane.
type sharing struct {
	net   *network.Network
	share []float64
	hold  []int // buses with units
	units []int // with a share

	emergency, band float64

	free             lanes.Col // by bus of hold: 1 where its reactive power is given, 0 where its magnitude is held
	set              lanes.Col // and at what
	least, most      lanes.Col // its reactive limits
	side             lanes.Col // the one that it is at, −1 or +1; 0: none
	empty            lanes.Col // roomWithoutUnit where it has no unit, else 0
	beyond           lanes.Col // by how much a bus is beyond where it goes to a reactive limit or leaves one, at most
	excess           lanes.Col // sum of that, pu of reactive power
	vmin, vmax, rate lanes.Col // limits after an outage, by bus and by rated branch
	breach           lanes.Col // by how much one is broken, at most
	p, part, lo, hi  lanes.Col // by unit with a share: P, share and limits
	given            lanes.Col // by bus: injection that is to be
	slope            lanes.Col // by bus: its derivative in Δ
	delta            lanes.Col
	moved            [4]lanes.Col // by bus: see follow
	gradient         lanes.Col    // by unknown
	kept             [6]lanes.Col // entries of the Jacobian by pair: h, n, h′, n′, and by bus −slope and 1 − free
	masked, diagonal lanes.Col    // entries in rows of hold: four a pair, two a bus
}

// ForContingencies analyses a network for NewContingencies: share is by unit, what it takes of the power that is
// missing. rated are the branches with a rating, which a contingency multiplies by emergency; voltages may leave their
// limits by band, pu.
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
		if !slices.Contains(y.hold, b) {
			y.hold = append(y.hold, b)
		}
		if share[g] > 0 {
			y.units = append(y.units, g)
		}
	}
	slices.Sort(y.hold)
	return (&Solver{net: n, rated: rated, turning: true, sharing: y}).compile(level, width)
}

func (y *sharing) layOut(l *lanes.Layout, rated int) {
	buses := y.net.Buses()
	for _, c := range []*lanes.Col{&y.free, &y.set, &y.least, &y.most, &y.side, &y.empty} {
		*c = l.New(len(y.hold))
	}
	for _, c := range []*lanes.Col{&y.p, &y.part, &y.lo, &y.hi} {
		*c = l.New(len(y.units))
	}
	for i := range y.moved {
		y.moved[i] = l.New(buses)
	}
	y.given, y.slope, y.delta = l.New(buses), l.New(buses), l.New(1)
	y.vmin, y.vmax, y.rate = l.New(buses), l.New(buses), l.New(rated)
	y.beyond, y.excess, y.breach = l.New(1), l.New(1), l.New(1)
}

func (y *sharing) layOutFor(e *elimination, l *lanes.Layout) {
	pairs := len(e.solver.plan.pairs)
	y.gradient = l.New(e.size)
	y.kept = [6]lanes.Col{l.New(pairs), l.New(pairs), l.New(pairs), l.New(pairs), l.New(y.net.Buses()), l.New(len(y.hold))}
	y.masked, y.diagonal = l.New(4*pairs), l.New(2*len(y.hold))
}

// imbalance writes how far injections are from what they are to be, units' shares included, and of a held
// magnitude how far it is from its set-point.
func (y *sharing) imbalance(b *lanes.Builder, p *plan) {
	zero, one := p.constant(0), p.constant(1)
	b.Copy(y.given, p.ps)
	for i := range y.slope {
		b.Copy(y.slope[i:i+1], zero)
	}
	groups(len(y.units), func(lo, hi int) {
		var at []int
		for _, g := range y.units[lo:hi] {
			at = append(at, y.net.GenBus[g])
		}
		unlimited := b.FMA(y.part[lo:hi], y.delta, y.p[lo:hi])
		gives := b.Min(b.Max(unlimited, y.lo[lo:hi]), y.hi[lo:hi])
		b.SetAdd(y.given.At(at), y.given.At(at), gives)
		b.SetFMA(y.slope.At(at), y.part[lo:hi], b.Equal(gives, unlimited), y.slope.At(at))
	})
	b.SetSub(p.dp, y.given, p.p)
	b.SetSub(p.dq, p.qs, p.q)
	b.Copy(y.beyond, p.constant(-roomWithoutUnit))
	b.Copy(y.excess, zero)
	groups(len(y.hold), func(lo, hi int) {
		d, v, free := p.dq.At(y.hold[lo:hi]), p.vm.At(y.hold[lo:hi]), y.free[lo:hi]
		below := b.Sub(y.set[lo:hi], v)
		off := b.Div(below, v)
		// Where it gives what it gives, and where it is at a limit that lowers or raises its voltage.
		held := b.Min(b.Sub(b.Sub(zero, d), y.least[lo:hi]), b.Add(y.most[lo:hi], d))
		room := b.Choose(free, b.FMA(y.side[lo:hi], below, y.empty[lo:hi]), held)
		b.MaxNegProduct(y.beyond, room, one)
		// What reactive power, as near as makes no matter, is on the wrong side of a limit.
		b.AbsSum(y.excess, b.Min(b.Mul(room, b.Choose(free, b.Abs(p.bd.At(y.hold[lo:hi])), one)), zero))
		b.SetFMA(d, free, d, b.Mul(b.Sub(one, free), off))
	})
	for _, d := range []lanes.Col{p.dp, p.dq} {
		b.AbsMax(p.worst, d)
		b.AbsSum(p.sum, d)
	}
}

// follow moves every voltage as that before the outage has: by a factor of its magnitude, by its angle, and by the factor in
// rectangular form.
func (s *Solver) follow(b *lanes.Builder) {
	p, by := &s.plan, &s.sharing.moved
	groups(len(p.vm), func(lo, hi int) {
		vm, va, e, f := p.vm[lo:hi], p.va[lo:hi], p.e[lo:hi], p.f[lo:hi]
		b.SetMul(vm, vm, by[0][lo:hi])
		b.SetAdd(va, va, by[1][lo:hi])
		turned := b.FNMA(f, by[3][lo:hi], b.Mul(e, by[2][lo:hi]))
		b.SetFMA(f, e, by[3][lo:hi], b.Mul(f, by[2][lo:hi]))
		b.Copy(e, turned)
	})
}

// roomWithoutUnit, pu, is that to a reactive limit where there is none.
const roomWithoutUnit = 1e6

// margin writes by how much voltages or rated branches break a limit at most.
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
		c, d := p.across(b, i, j)
		from := p.size2(b, p.vm.At(i), c, d, p.gff[lo:hi], p.bff[lo:hi], p.gft[lo:hi], p.bft[lo:hi])
		to := p.size2(b, p.vm.At(j), c, b.Sub(zero, d), p.gtt[lo:hi], p.btt[lo:hi], p.gtf[lo:hi], p.btf[lo:hi])
		b.MaxNegProduct(y.breach, b.Sub(y.rate[lo:hi], b.Sqrt(b.Max(from, to))), one)
	})
}

// entries are elimination's of these unknowns, in cells that a later mismatch leaves alone.
func (y *sharing) entries(b *lanes.Builder, e *elimination, now map[[2]int]lanes.Ref) {
	p, slack := &e.solver.plan, y.net.Slack
	zero, one := p.constant(0), p.constant(1)
	for i, c := range []lanes.Col{p.h, p.n, p.ht, p.nt} {
		b.Copy(y.kept[i], c)
	}
	b.SetSub(y.kept[4], zero, y.slope)
	b.SetSub(y.kept[5], one, y.free)
	put := func(i int, magnitude int, j int, angle, log lanes.Ref) {
		row := e.at[magnitude][i]
		if j != slack {
			now[[2]int{row, e.at[0][j]}] = angle
		}
		now[[2]int{row, e.at[1][j]}] = log
	}
	for bus := range p.vm {
		d := &e.diagonal
		put(bus, 0, bus, d[0][bus], d[1][bus])
		i, held := slices.BinarySearch(y.hold, bus)
		if !held {
			put(bus, 1, bus, d[2][bus], d[3][bus])
			continue
		}
		free, own := y.free[i:i+1], y.diagonal[2*i:2*i+2]
		b.SetMul(own[:1], free, d[2][bus:bus+1])
		b.SetFMA(own[1:], free, d[3][bus:bus+1], y.kept[5][i:i+1])
		put(bus, 1, bus, own[0], own[1])
		now[[2]int{e.at[0][bus], e.at[0][slack]}] = y.kept[4][bus]
	}
	pairs := len(p.pairs)
	for k, pair := range p.pairs {
		for end := range 2 {
			i, j := pair[end], pair[1-end]
			h, n, negative := y.kept[2*end][k:k+1], y.kept[2*end+1][k:k+1], e.negative[end*pairs+k:end*pairs+k+1]
			put(i, 0, j, h[0], n[0])
			at, held := slices.BinarySearch(y.hold, i)
			if !held {
				put(i, 1, j, negative[0], h[0])
				continue
			}
			own := y.masked[4*k+2*end : 4*k+2*end+2]
			b.SetMul(own[:1], y.free[at:at+1], negative)
			b.SetMul(own[1:], y.free[at:at+1], h)
			put(i, 1, j, own[0], own[1])
		}
	}
}
