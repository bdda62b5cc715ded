package opf

import (
	"slices"

	"github.com/gpc-engine/gpc/grid/powerflow"
)

// Places in the constants, as device_network.cuh names them.
const (
	packNumbers = iota
	packThermalThreshold
	packVoltageDeadband
	packEconomicIndicator
	packLossShare
	packFlatSlope
	packMeritHalvings
	packFlowTolerance
	packKeepFactors
	packHopeless
	packAngleStep
	packMagnitudeStep
	packFlowIterations
	packMarginBound
	packMarginTolerance
	packRounds
	packPatience
	packLeastProgress
	packContradiction
	packEnough
	packPivots
	packVoltageGuard
	packPowerGuard
	packVoltageReach
	packPowerReach
	packElasticity
	packProgramTolerance
	packFrozen
	packFrozenMost
	packConstants
)

// devicePack collects what the device functions read: constants first and tables of
// numbers behind them, then sizes, where each table begins, and tables of indices.
type devicePack struct {
	system          *System
	pattern         *devicePattern
	projection      *projection // on the host
	diagonalPlaces  []int32     // places of ∂(P, Q)/∂(θ, V) of each bus
	pairs           [][]int32   // branchPairs
	pairAt          []int32
	numbers, tables []float64 // tables are those of numbers
	sizes           []int32
	offsets         []int32 // of the tables, in the order of device_network.cuh
	indices         []int32
	fast, slow      int  // float64 of a row in flight: without the least change, of it
	response        int  // float64 of the response to the set-points
	fastResponse    bool // the response is among the fast ones
	limits          int  // rows that a least change has at most
}

func (p *devicePack) size(v ...int) {
	for _, n := range v {
		p.sizes = append(p.sizes, int32(n))
	}
}

func (p *devicePack) floats(v ...[]float64) {
	for _, t := range v {
		p.offsets = append(p.offsets, int32(packConstants+len(p.tables)))
		p.tables = append(p.tables, t...)
	}
}

// ints appends a table; its place is completed by finish, when the length of the
// head is known.
func (p *devicePack) ints(v ...[]int32) {
	for _, t := range v {
		p.offsets = append(p.offsets, int32(len(p.indices)))
		p.indices = append(p.indices, t...)
	}
}

// Sizes that finish fills in, and how many tables hold numbers.
const (
	packFastShared    = 20
	packResponse      = 21
	packWorkspace     = 22
	packSizes         = 23
	packTablesOfFloat = 13
)

// finish puts the parts together.
func (p *devicePack) finish(fastShared bool, workspace int) (constants []float64, indices []int32) {
	if len(p.sizes) != packSizes || len(p.numbers) != packConstants {
		panic("opf: the packed network has another layout than its device functions")
	}
	if fastShared {
		p.sizes[packFastShared] = 1
	}
	if p.fastResponse {
		p.sizes[packResponse] = 1
	}
	p.sizes[packWorkspace] = int32(workspace)
	head := int32(len(p.sizes) + len(p.offsets))
	for i := packTablesOfFloat; i < len(p.offsets); i++ {
		p.offsets[i] += head
	}
	if last := len(p.offsets) - 1; p.offsets[last]%2 != 0 { // the tasks are read two words at once
		p.indices = slices.Insert(p.indices, int(p.offsets[last]-head), 0)
		p.offsets[last]++
	}
	constants = slices.Concat(p.numbers, p.tables)
	constants[packNumbers] = float64(len(constants))
	return constants, slices.Concat(p.sizes, p.offsets, p.indices)
}

func narrow(v []int) []int32 {
	out := make([]int32, len(v))
	for i, x := range v {
		out[i] = int32(x)
	}
	return out
}

// lists packs lists of lists: where each begins, and all of them.
func lists(v [][]int32) (start, all []int32) {
	start = make([]int32, 0, len(v)+1)
	for _, list := range v {
		start = append(start, int32(len(all)))
		all = append(all, list...)
	}
	return append(start, int32(len(all))), all
}

// newDevicePack finds the pattern of the power flow, and from it what a row needs.
func newDevicePack(y *System) *devicePack {
	l := &y.layout
	p := &devicePack{system: y, pattern: newDevicePattern(y), projection: newProjection(y)}
	for i := range l.buses {
		p.diagonalPlaces = append(p.diagonalPlaces, p.pattern.block(i, i)...)
	}
	p.pairs, p.pairAt = p.branchPairs()
	p.pattern.close()
	// Every limit has two sides, but a branch one at each end; a bus has a unit that
	// leads or a voltage that is unknown.
	p.limits = 2 * (1 + l.buses + len(l.rated))
	k := len(p.projection.control)
	p.slow = 4*k + k*p.limits + 3*p.limits + 3*deviceActive + deviceActive*k + 2*triangle(deviceActive) + (deviceActive+2*k+2*p.limits+1)/2
	// The response takes the place of what a power flow needs.
	p.fast = 6*l.buses + 4*l.branches + int(p.pattern.all) + 4*l.gens
	p.response = (p.pattern.n + 1 + l.gens) * k
	flow := 4*l.buses + l.margins
	if p.fastResponse = 8*(p.fast+max(flow, p.response)) <= deviceNear; p.fastResponse {
		p.fast += max(flow, p.response)
	} else {
		p.fast, p.slow = p.fast+flow, p.slow+p.response
	}
	return p
}

// pack writes the network as device_network.cuh reads it.
func (p *devicePack) pack() {
	y, f, host := p.system, p.pattern, p.projection
	n, l, m := y.Network, &y.layout, &y.model
	program := newDeviceProgram(f)
	p.numbers = []float64{
		0, ThermalThreshold, VoltageDeadband, economicIndicator, lossShare, flatSlope, meritHalvings,
		powerflow.DefaultTolerance, powerflow.KeepFactors, powerflow.Hopeless, powerflow.MaxAngleStep, powerflow.MaxMagnitudeStep, flowIterations, marginBound,
		MarginTolerance, projectionRounds, patience, leastProgress, contradiction, host.tolerance, devicePivots, voltageGuard, powerGuard, voltageReach, powerReach, elasticity, programTolerance, host.frozen, frozenMost,
	}
	factors := -1
	if l.uncertain {
		factors = l.factors
	}
	p.size(l.buses, l.gens, l.branches, len(l.rated), l.context, len(l.loadP), l.previous, factors, f.n, int(f.all), int(f.inverse), len(host.control), len(p.pairs), p.limits,
		n.Slack, m.slackGen, program.factor, program.forward, program.backward, len(program.tasks), 0, 0, 0)

	costs, costStart, costCount := y.packCosts()
	rate := make([]float64, len(l.rated))
	for r, k := range l.rated {
		rate[r] = n.Rate[k]
	}
	p.floats(y.packBranches(), rate, n.Gs, n.Bs, n.VMin, n.VMax, n.PMin, n.PMax, n.QMin, n.QMax, y.Ramp, costs, y.metric().dense())

	ratedOf := slices.Repeat([]int32{-1}, l.branches)
	for r, k := range l.rated {
		ratedOf[k] = int32(r)
	}
	p.ints(narrow(n.From), narrow(n.To), narrow(l.rated), ratedOf, loadsOf(l.loadP, 0, l.buses), loadsOf(l.loadQ, l.q, l.buses), narrow(f.angle), narrow(f.size))
	ends := make([][]int32, l.buses)
	for k, bus := range n.From {
		ends[bus] = append(ends[bus], int32(2*k))
		ends[n.To[k]] = append(ends[n.To[k]], int32(2*k+1))
	}
	p.ints(lists(ends))
	p.ints(p.diagonalPlaces)
	p.ints(lists(p.pairs))
	p.ints(p.pairAt)
	unitsAt := make([][]int32, l.buses)
	for g, b := range n.GenBus {
		unitsAt[b] = append(unitsAt[b], int32(g))
	}
	lead := make([]int32, l.gens)
	for g, v := range m.leads {
		if v {
			lead[g] = 1
		}
	}
	p.ints(narrow(n.GenBus), lead, narrow(m.unit))
	p.ints(lists(unitsAt))
	p.ints(costStart, costCount, narrow(host.control))
	for _, columns := range [][][]columnEntry{f.columns, f.outputs} {
		rows, entries := make([][]int32, len(columns)), make([][]int32, len(columns))
		for k, column := range columns {
			for _, e := range column {
				rows[k], entries[k] = append(rows[k], e.row), append(entries[k], e.place)
			}
		}
		start, row := lists(rows)
		_, places := lists(entries)
		p.ints(start, row, places)
	}
	p.ints(program.start, program.pack())
}

// loadsOf gives for every bus the place of its load in the context, −1 for none.
func loadsOf(loads []int, first, buses int) []int32 {
	places := slices.Repeat([]int32{-1}, buses)
	for k, i := range loads {
		places[i] = int32(first + k)
	}
	return places
}

// packBranches has ten columns with a number a branch: Yff, Yft, Ytf, Ytt as conductance and
// susceptance of the series part, which the branch factor multiplies, with the
// charging of Bff and Btt, which it does not, behind each.
func (y *System) packBranches() []float64 {
	n, l := y.Network, &y.layout
	y2, err := admittancesAtTwo(n)
	if err != nil {
		panic("opf: " + err.Error()) // NewSystem made the same
	}
	v := make([]float64, 10*l.branches)
	for k := range n.From {
		from, to := y2.Bff[k]-n.Bff[k], y2.Btt[k]-n.Btt[k]
		for i, x := range [10]float64{n.Gff[k], from, n.Bff[k] - from, n.Gft[k], n.Bft[k], n.Gtf[k], n.Btf[k], n.Gtt[k], to, n.Btt[k] - to} {
			v[i*l.branches+k] = x
		}
	}
	return v
}

// packCosts has the coefficients of every polynomial, the constant first, or the
// corners of every piecewise linear cost, powers then values; a count is that of the
// coefficients, or minus that of the corners.
func (y *System) packCosts() (numbers []float64, start, count []int32) {
	for _, c := range y.Network.Cost {
		start = append(start, int32(len(numbers)))
		if c.PiecewiseLinear() {
			numbers = append(append(numbers, c.Power...), c.Value...)
			count = append(count, int32(-len(c.Power)))
			continue
		}
		numbers = append(numbers, c.Polynomial...)
		count = append(count, int32(len(c.Polynomial)))
	}
	return numbers, start, count
}

// branchPairs lists, for every two buses with a branch between them, the branches,
// twice their number and 1 more where one leads the other way than the first; and the
// eight places of the derivatives of one bus's P and Q in the other's θ and V.
func (p *devicePack) branchPairs() (pairs [][]int32, places []int32) {
	n := p.system.Network
	place := map[[2]int]int{}
	for k, f := range n.From {
		t := n.To[k]
		if g, ok := place[[2]int{f, t}]; ok {
			pairs[g] = append(pairs[g], int32(2*k))
			continue
		}
		if g, ok := place[[2]int{t, f}]; ok {
			pairs[g] = append(pairs[g], int32(2*k+1))
			continue
		}
		place[[2]int{f, t}] = len(pairs)
		pairs = append(pairs, []int32{int32(2 * k)})
		places = append(append(places, p.pattern.block(f, t)...), p.pattern.block(t, f)...)
	}
	return pairs, places
}
