// Package network is the per-unit, internally numbered view of the part of a
// MATPOWER case that is in service: what a power flow and an optimal power flow
// compute on.
//
// The central type is Network. Buses, generators and branches are numbered from
// 0 in the order of the case, out-of-service equipment and isolated buses left
// out; BusRow, GenRow and BranchRow lead back. The branch model is the manual's
// π equivalent with the tap at the from end (MATPOWER User's Manual §3.2):
// with y = 1/(r+jx), charging b and tap a = τ·exp(jφ),
//
//	Yff = (y + jb/2)/τ²    Yft = −y/conj(a)
//	Ytf = −y/a             Ytt =  y + jb/2
package network

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gpc-engine/gpc/grid/matpower"
)

// Kind says which quantities a power flow fixes at a bus.
type Kind uint8

// The kinds of a bus in service.
const (
	PQ    Kind = iota // P and Q given
	PV                // P and |V| given: at least one generator is in service here
	Slack             // |V| and angle given
)

// String is the usual name.
func (k Kind) String() string { return [...]string{"PQ", "PV", "slack"}[k] }

// Admittance holds the two-port admittance matrix of every branch, per unit, split into conductance G and
// susceptance B. The current into the from end is Yff·Vf + Yft·Vt, into the to end Ytf·Vf + Ytt·Vt. Each slice has
// one entry a branch.
type Admittance struct {
	Gff, Bff, Gft, Bft, Gtf, Btf, Gtt, Btt []float64
}

// NewAdmittance allocates the admittances of n branches.
func NewAdmittance(n int) *Admittance {
	s := make([]float64, 8*n)
	part := func(k int) []float64 { return s[k*n : (k+1)*n : (k+1)*n] }
	return &Admittance{part(0), part(1), part(2), part(3), part(4), part(5), part(6), part(7)}
}

// Parts are the slices, in the order of the fields.
func (y *Admittance) Parts() [8][]float64 {
	return [8][]float64{y.Gff, y.Bff, y.Gft, y.Bft, y.Gtf, y.Btf, y.Gtt, y.Btt}
}

// Open takes a branch out.
func (y *Admittance) Open(branch int) {
	for _, v := range y.Parts() {
		v[branch] = 0
	}
}

// Network is a case in per unit. It owns its slices; after New they are read-only to everyone who shares it.
type Network struct {
	Name    string
	BaseMVA float64

	// Buses.
	BusID           []int // number in the file
	BusName         []string
	BusRow          []int // row in Case.Bus
	Kind            []Kind
	Slack           int              // the first reference bus
	References      []int            // every reference bus, one or more an island
	MovedReferences []MovedReference // references of the file that another bus replaces
	Pd, Qd          []float64        // load, pu
	Gs, Bs          []float64        // shunt admittance, pu
	VMin, VMax      []float64        // pu
	Vm0, Va0        []float64        // the file's voltage, pu and rad

	// Generators.
	GenBus       []int // bus index
	GenName      []string
	GenRow       []int // row in Case.Gen
	PMin, PMax   []float64
	QMin, QMax   []float64
	Pg0, Qg0     []float64 // the file's output, pu
	Vg           []float64 // voltage set-point, pu
	Cost         []Cost    // $/h of pu active power; nil when the file has no costs
	ReactiveCost []Cost    // $/h of pu reactive power; nil when the file has none
	Ramp         []float64 // the file's ten-minute ramp, pu; 0 where the file has none
	DCLines      []DCLine  // whose ends are the last generators
	Curves       []Curve   // sides of capability curves

	// Branches.
	From, To       []int // bus index
	BranchName     []string
	BranchRow      []int // row in Case.Branch
	Rate           []float64
	AngMin, AngMax []float64 // rad, ∓Inf where there is no limit

	// Admittance is that of the file: branch factors all 1.
	Admittance

	Controls      []string // of the case
	notes         []string
	contradiction error         // of limits of generators
	changedTypes  []changedType // of islands without a reference
	shorted       int           // branches without impedance
	gs, bs        []float64     // series admittance
	charging      []float64     // half the charging susceptance
	tap, cosφ     []float64
	sinφ          []float64
}

// DCLine is a DC line between two generators: P of To = −(1 − Loss1)·P of From − Loss0, pu.
type DCLine struct {
	From, To     int // generators
	Loss0, Loss1 float64
}

// Terminals says of each generator whether it is the end of a DC line.
func (n *Network) Terminals() []bool {
	out := make([]bool, n.Gens())
	for _, d := range n.DCLines {
		out[d.From], out[d.To] = true, true
	}
	return out
}

// Buses is the number of buses in service.
func (n *Network) Buses() int { return len(n.BusID) }

// Gens is the number of generators in service.
func (n *Network) Gens() int { return len(n.GenBus) }

// Branches is the number of branches in service.
func (n *Network) Branches() int { return len(n.From) }

// WithUnitVoltages is the network with a fixed voltage at every bus with units, whatever the file's type of the bus.
// A dispatch has a set-point for each.
func (n *Network) WithUnitVoltages() *Network {
	copied := *n
	copied.Kind = slices.Clone(n.Kind)
	for _, bus := range n.GenBus {
		if copied.Kind[bus] == PQ {
			copied.Kind[bus] = PV
		}
	}
	return &copied
}

// Loads are the file's loads times a factor, pu by bus; the caller owns them.
func (n *Network) Loads(factor float64) (pd, qd []float64) {
	return floats.ScaleTo(make([]float64, n.Buses()), factor, n.Pd), floats.ScaleTo(make([]float64, n.Buses()), factor, n.Qd)
}

// MW is the sum of powers in pu.
func (n *Network) MW(powers []float64) (sum float64) {
	for _, p := range powers {
		sum += p * n.BaseMVA
	}
	return sum
}

// WithReference is the network with one reference, and a fixed voltage at every other bus with units.
func (n *Network) WithReference(bus int) *Network {
	copied := *n
	copied.Kind = make([]Kind, n.Buses())
	copied.Kind[bus], copied.Slack, copied.References = Slack, bus, []int{bus}
	return copied.WithUnitVoltages()
}

// ErrNoCost and ErrNotConvex are wrapped by RequireCosts.
var (
	ErrNoCost    = errors.New("no generator cost")
	ErrNotConvex = errors.New("a piecewise linear cost is not convex")
)

// RequireCosts reports why the file's costs and limits do not pose an optimal power flow. There are three reasons.
// The case has no gencost matrix (one with it has a cost for every generator). A piecewise linear cost is not
// convex, so that it is not the largest of its segments. The limits of a generator leave no value between them.
func (n *Network) RequireCosts() error {
	if n.Cost == nil {
		return fmt.Errorf("network %s: %w: the file has no mpc.gencost, and an optimal power flow needs one row a generator", n.Name, ErrNoCost)
	}
	for _, costs := range [][]Cost{n.Cost, n.ReactiveCost} {
		for g, c := range costs {
			if !c.Convex() {
				err := fmt.Errorf("generator %d at bus %d: %w: the slopes of its segments must not fall", n.GenRow[g]+1, n.BusID[n.GenBus[g]], ErrNotConvex)
				if c.line > 0 {
					return fmt.Errorf("network %s, line %d: %w", n.Name, c.line, err)
				}
				return fmt.Errorf("network %s, %w", n.Name, err)
			}
		}
	}
	return n.contradiction
}

// RequireLimits reports limits of a generator that leave no value between them.
func (n *Network) RequireLimits() error { return n.contradiction }

// MinReactance is the reactance (pu) of a branch of less impedance, or none. At 1 pu of current its ends differ by 1e-8 pu,
// and what flows through it is known to 1e-7 pu.
const MinReactance = 1e-8

// Curve is a side of a generator's capability curve: P·p + Q·q ≤ Bound of its powers, pu, with P² + Q² = 1.
type Curve struct {
	Gen         int
	P, Q, Bound float64
}

// addCurves adds the sides of a generator's capability curve, the lines through (Pc1, Qc1) and (Pc2, Qc2), that cut into
// the box of its limits. All zero is no curve.
func (n *Network) addCurves(gen int, g matpower.Gen) {
	if g.Pc1 == g.Pc2 {
		return
	}
	for _, side := range []struct{ sign, q1, q2, limit float64 }{{1, g.Qc1Max, g.Qc2Max, g.QMax}, {-1, g.Qc1Min, g.Qc2Min, g.QMin}} {
		slope := (side.q2 - side.q1) / (g.Pc2 - g.Pc1)
		line := func(p float64) float64 {
			if slope == 0 {
				return side.q1
			}
			return side.q1 + (p-g.Pc1)*slope
		}
		if min(side.sign*line(g.PMin), side.sign*line(g.PMax)) < side.sign*side.limit {
			scale := side.sign / math.Hypot(1, slope)
			n.Curves = append(n.Curves, Curve{gen, -slope * scale, scale, line(0) * scale / n.BaseMVA})
		}
	}
}

// RequireBoxes reports a capability curve or a DC line, for what takes the limits of each power of each generator alone.
func (n *Network) RequireBoxes() error {
	for _, d := range n.DCLines {
		return fmt.Errorf("network %s, the DC line from bus %d to bus %d is in service: DC lines cannot be honoured here", n.Name, n.BusID[n.GenBus[d.From]], n.BusID[n.GenBus[d.To]])
	}
	return n.RequireRectangles()
}

// RequireRectangles reports a capability curve, for what takes the limits of P and Q apart.
func (n *Network) RequireRectangles() error {
	for _, c := range n.Curves {
		return fmt.Errorf("network %s, generator %d at bus %d: a capability curve (Pc1, Pc2, Qc…) limits reactive power by active power, which cannot be honoured here: with Pc1 and Pc2 of 0 its limits are a rectangle", n.Name, n.GenRow[c.Gen]+1, n.BusID[n.GenBus[c.Gen]])
	}
	return nil
}

// RequireFreeDelivery reports a DC line whose to end has a cost of its own, for what takes that of the from end alone.
func (n *Network) RequireFreeDelivery() error {
	for _, d := range n.DCLines {
		if cost := n.Cost[d.To]; len(cost.Polynomial) > 1 || cost.PiecewiseLinear() {
			return fmt.Errorf("network %s: the to end of the DC line from bus %d to bus %d has a cost: give it to the from end", n.Name, n.BusID[n.GenBus[d.From]], n.BusID[n.GenBus[d.To]])
		}
	}
	return nil
}

// New takes the part of a case that is in service. It checks the case first
// (matpower.Case.Check) and returns that error.
func New(c *matpower.Case) (*Network, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	n := &Network{Name: c.Name, BaseMVA: c.BaseMVA, Controls: c.Controls, notes: c.Notes, contradiction: c.Contradiction()}
	types := c.Types()
	index := make(map[int]int, len(c.Bus))
	base := c.BaseMVA
	for row, b := range c.Bus {
		if types[row] != b.Type {
			n.changedTypes = append(n.changedTypes, changedType{b.ID, types[row]})
		}
		if types[row] == matpower.Isolated {
			continue
		}
		index[b.ID] = n.Buses()
		n.BusID, n.BusName = append(n.BusID, b.ID), append(n.BusName, b.Name)
		n.BusRow = append(n.BusRow, row)
		kind := PQ
		if types[row] == matpower.Reference {
			kind = Slack
			n.References = append(n.References, len(n.Kind))
		}
		n.Kind = append(n.Kind, kind)
		n.Pd, n.Qd = append(n.Pd, b.Pd/base), append(n.Qd, b.Qd/base)
		n.Gs, n.Bs = append(n.Gs, b.Gs/base), append(n.Bs, b.Bs/base)
		n.VMin, n.VMax = append(n.VMin, b.VMin), append(n.VMax, b.VMax)
		n.Vm0, n.Va0 = append(n.Vm0, cmp.Or(b.Vm, 1)), append(n.Va0, b.Va*math.Pi/180)
	}
	for row, g := range c.Gen {
		bus, ok := index[g.Bus]
		if !ok || !g.InService {
			continue
		}
		if g.DCLine > 0 {
			d := c.DCLine[g.DCLine-1]
			_, okF := index[d.From]
			_, okT := index[d.To]
			if !okF || !okT {
				continue
			}
			if k := len(n.GenBus); (len(c.Gen)-row)%2 == 0 { // its ends are neighbours, at the end of the rows
				n.DCLines = append(n.DCLines, DCLine{k, k + 1, d.Loss0 / base, d.Loss1})
			}
		}
		if g.Vg == 0 { // of a DC line that holds no voltage: what the bus's units hold
			g.Vg = n.Vm0[bus]
			if k := slices.Index(n.GenBus, bus); k >= 0 {
				g.Vg = n.Vg[k]
			}
		} else if n.Kind[bus] == PQ && (c.Bus[n.BusRow[bus]].Type == matpower.PV || g.DCLine > 0) {
			n.Kind[bus] = PV
		}
		n.addCurves(len(n.GenBus), g)
		n.GenBus, n.GenName = append(n.GenBus, bus), append(n.GenName, g.Name)
		n.GenRow = append(n.GenRow, row)
		n.PMin, n.PMax = append(n.PMin, g.PMin/base), append(n.PMax, g.PMax/base)
		n.QMin, n.QMax = append(n.QMin, g.QMin/base), append(n.QMax, g.QMax/base)
		n.Pg0, n.Qg0 = append(n.Pg0, g.Pg/base), append(n.Qg0, g.Qg/base)
		n.Vg = append(n.Vg, g.Vg)
		n.Ramp = append(n.Ramp, g.Ramp10/base)
		if c.HasCost {
			n.Cost = append(n.Cost, newCost(g.Cost, base))
		}
		if c.HasReactiveCost {
			n.ReactiveCost = append(n.ReactiveCost, newCost(g.ReactiveCost, base))
		}
	}
	for row, br := range c.Branch {
		f, okF := index[br.From]
		t, okT := index[br.To]
		if !br.InService || !okF || !okT {
			continue
		}
		n.From, n.To = append(n.From, f), append(n.To, t)
		n.BranchRow, n.BranchName = append(n.BranchRow, row), append(n.BranchName, br.Name)
		rate := math.Inf(1)
		if br.RateA > 0 {
			rate = br.RateA / base
		}
		n.Rate = append(n.Rate, rate)
		lo, hi := angleLimits(br.AngMin, br.AngMax)
		n.AngMin, n.AngMax = append(n.AngMin, lo), append(n.AngMax, hi)
		r, x := br.R, br.X
		if math.Hypot(r, x) < MinReactance {
			r, x = 0, MinReactance
			n.shorted++
		}
		z2 := r*r + x*x
		n.gs, n.bs = append(n.gs, r/z2), append(n.bs, -x/z2)
		n.charging = append(n.charging, br.B/2)
		n.tap = append(n.tap, cmp.Or(br.Tap, 1))
		sin, cos := math.Sincos(br.ShiftDeg * math.Pi / 180)
		n.cosφ, n.sinφ = append(n.cosφ, cos), append(n.sinφ, sin)
	}
	n.moveReferences()
	n.Slack = n.References[0]
	n.Admittance = *NewAdmittance(n.Branches())
	n.fill(nil, &n.Admittance)
	return n, nil
}

// Middle is the middle of two limits; where one is infinite the number next to 0.
func Middle(lo, hi float64) float64 {
	if hi-lo > math.MaxFloat64 {
		return min(max(lo, 0), hi)
	}
	return (lo + hi) / 2
}

// angleLimits converts limits in degrees to rad. (0, 0) is no limit, and −360 or less, 360 or more, is none on that
// side.
func angleLimits(lo, hi float64) (float64, float64) {
	l, h := math.Inf(-1), math.Inf(1)
	if lo == 0 && hi == 0 {
		return l, h
	}
	if lo > -360 {
		l = lo * math.Pi / 180
	}
	if hi < 360 {
		h = hi * math.Pi / 180
	}
	return l, h
}

// ScaleBranches writes into dst (NewAdmittance(n.Branches())) the admittances
// with each branch's series admittance multiplied by its factor. Charging and
// taps stay, and the diagonal entries follow, so that the bus admittance matrix
// built from dst stays that of a network. A nil factors is all ones. Factors
// are positive and finite, one a branch; dst is unchanged on error.
func (n *Network) ScaleBranches(factors []float64, dst *Admittance) error {
	if factors != nil && len(factors) != n.Branches() {
		return fmt.Errorf("network %s: %d branch factors for %d branches in service", n.Name, len(factors), n.Branches())
	}
	if len(dst.Gff) != n.Branches() {
		return fmt.Errorf("network %s: the admittance arrays hold %d branches, the network has %d", n.Name, len(dst.Gff), n.Branches())
	}
	for k, f := range factors {
		if !(f > 0 && f <= math.MaxFloat64) {
			return fmt.Errorf("network %s: branch factor %d is %g: want a positive finite number", n.Name, k, f)
		}
	}
	n.fill(factors, dst)
	return nil
}

func (n *Network) fill(factors []float64, y *Admittance) {
	for k := range n.From {
		g, b := n.gs[k], n.bs[k]
		if factors != nil {
			g, b = g*factors[k], b*factors[k]
		}
		t, c, s := n.tap[k], n.cosφ[k], n.sinφ[k]
		bb := b + n.charging[k]
		y.Gtt[k], y.Btt[k] = g, bb
		y.Gff[k], y.Bff[k] = g/(t*t), bb/(t*t)
		// −y/conj(a) = −(g+jb)(c+js)/τ and −y/a = −(g+jb)(c−js)/τ.
		y.Gft[k], y.Bft[k] = -(g*c-b*s)/t, -(g*s+b*c)/t
		y.Gtf[k], y.Btf[k] = -(g*c+b*s)/t, (g*s-b*c)/t
	}
}

// Adjusted is the network with other ratios and phase shifts (rad) of branches, and shunt susceptances (pu) of buses.
func (n *Network) Adjusted(ratios, shifts, shunts map[int]float64) *Network {
	m := *n
	for _, v := range []*[]float64{&m.tap, &m.cosφ, &m.sinφ, &m.Bs} {
		*v = slices.Clone(*v)
	}
	for branch, v := range ratios {
		m.tap[branch] = v
	}
	for branch, v := range shifts {
		m.sinφ[branch], m.cosφ[branch] = math.Sincos(v)
	}
	for bus, v := range shunts {
		m.Bs[bus] = v
	}
	m.Admittance = *NewAdmittance(n.Branches())
	m.fill(nil, &m.Admittance)
	return &m
}

// Ratio is the off-nominal ratio of a branch.
func (n *Network) Ratio(branch int) float64 { return n.tap[branch] }
