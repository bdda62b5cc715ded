package opf

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/acopf/laneflow"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/secure"
)

// Options of a System.
type Options struct {
	// Uncertain adds the branch factors to the context; without them they are 1.
	Uncertain bool
	// Ramp is each unit's largest change of P_G per dispatch step, pu; nil takes
	// RampShare of the larger of P_max and −P_min, at least RampFloor.
	Ramp []float64
	// Security, if not nil, adds limits after outages.
	Security *Security
	embedded bool // the network is one that is known to have a secure dispatch: its solver is made on first use
}

// System is the dispatch problem of one network. It is immutable and safe for
// concurrent use; what a call needs besides is in a pool of workspaces.
type System struct {
	Network *network.Network
	Ramp    []float64 // pu per step, one a unit
	spec    domain.Spec
	layout  layout
	model   flowModel
	pool    sync.Pool                     // *workspace
	exact   func() (*acopf.Solver, error) // of one thread a call, made on first use
	metric  func() *metric                // of the projection, made on first use
	inert   func() *metric                // of the steps of a descent
	lanes   func() *laneflow.Solver       // of steppers, made on first use; nil: this machine has none
	flat    []float64                     // state of a flat start
	device  func() domain.DeviceCode
	// fingerprint is FromText's.
	fingerprint     [32]byte
	opened          []int                  // branches: see opening
	answers         func() []domain.Sample // made on first use
	chart           func() *domain.Chart
	security        *security // nil: no outage has to be survived
	prepare         func()
	likelyWatch     atomic.Pointer[[]bool] // likelyOutages; nil before prepared
	nearLoadability func() bool
	first           func() *secure.Result // firstDispatch
}

// Abilities implements domain.Able.
func (y *System) Abilities() *domain.ProblemAbilities {
	abilities := &domain.ProblemAbilities{
		Derivatives: domain.Derivatives{Rows: y.GradientBatch}, Prepare: y.prepare, Fingerprint: y.Fingerprint, Remaining: y.Remaining,
		Score: y.Score, Weigh: y.Weigh, Best: y.Best, Answers: y.Answers, Polish: y.Polish, Admit: y.Admit,
		Chart: y.Chart, Operate: y.Operate, Device: y.Device,
	}
	if y.security != nil {
		abilities.Gap = y.gap
	}
	return abilities
}

// layout says where things stand in the vectors of a System.
type layout struct {
	buses, gens, branches int
	// loadP and loadQ are the buses whose load the context holds: those with a
	// load in the file. All other loads are zero throughout.
	loadP, loadQ []int
	// Offsets into the context.
	q, previous, factors int
	context              int
	uncertain            bool
	// Offsets into the margins: P_G, Q_G, V, |S|, ramp, after outages.
	marginQ, marginV, marginS, marginRamp, marginAfter, margins int
	rated                                                       []int // branches with a rating, in order
}

// NewSystem is the dispatch problem of a network called name. The network needs
// a cost for every generator, finite limits of P_G, and one reference bus with a
// generator.
func NewSystem(name, description string, n *network.Network, opt Options) (*System, error) {
	if err := checkNetwork(n); err != nil {
		return nil, err
	}
	y := &System{Network: n, Ramp: opt.Ramp}
	if y.Ramp == nil {
		y.Ramp = make([]float64, n.Gens())
		for i := range y.Ramp {
			y.Ramp[i] = max(RampShare*max(n.PMax[i], -n.PMin[i]), RampFloor)
		}
	}
	if len(y.Ramp) != n.Gens() {
		return nil, fmt.Errorf("opf: %d ramp limits for the %d units of %s", len(y.Ramp), n.Gens(), n.Name)
	}
	y.layout = newLayout(n, opt.Uncertain)
	if opt.Security != nil {
		if opt.Uncertain {
			return nil, errors.New("opf: a secure dispatch and uncertain branch factors exclude each other")
		}
		var err error
		if y.security, err = newSecurity(n, *opt.Security); err != nil {
			return nil, err
		}
		if !opt.embedded {
			if _, err := y.security.checker(); err != nil {
				return nil, err
			}
		}
		y.layout.margins += len(y.security.Outages)
	}
	y.flat = append(slices.Repeat([]float64{1}, y.layout.buses), make([]float64, y.layout.buses)...)
	var err error
	if y.model, err = newFlowModel(n); err != nil {
		return nil, err
	}
	if y.model.terms, err = newTerms(n, &y.layout); err != nil {
		return nil, err
	}
	y.exact = sync.OnceValues(func() (*acopf.Solver, error) { return acopf.New(n, acopf.Options{Threads: 1}) })
	y.pool.New = func() any { return newWorkspace(y) }
	y.metric = sync.OnceValue(func() *metric { return newMetric(y) })
	y.inert = sync.OnceValue(func() *metric { return y.metric().heavier(y.layout.gens-1, voltageInertia) })
	y.lanes = sync.OnceValue(func() *laneflow.Solver { return newLanes(y) })
	y.device = sync.OnceValue(func() domain.DeviceCode { return newDevice(y) })
	y.answers = sync.OnceValue(y.answerSamples)
	y.chart = sync.OnceValue(y.newChart)
	y.prepare, y.nearLoadability = sync.OnceFunc(y.prepared), sync.OnceValue(y.isLaden)
	y.first = sync.OnceValue(y.firstDispatch)
	y.spec = y.newSpec(name, description)
	return y, nil
}

// prepared is domain.ProblemAbilities.Prepare: what projections begin from, by power flows and exact dispatches.
func (y *System) prepared() {
	y.metric()
	if y.security == nil {
		return
	}
	y.security.flows() // an error is newOutages' to say
	likely := y.likelyOutages()
	y.likelyWatch.Store(&likely)
}

// checkNetwork says what a dispatch problem needs that a network may lack.
func checkNetwork(n *network.Network) error {
	if err := cmp.Or(n.RequireCosts(), n.RequireBoxes()); err != nil {
		return err
	}
	factors, _, err := n.PowerFactors(network.DispatchableByFile)
	if err != nil {
		return err
	}
	if len(factors) > 0 {
		return fmt.Errorf("opf: %s, generator %d at bus %d is a dispatchable load (PMIN < 0, PMAX = 0): this case cannot keep its constant power factor; set QMIN and QMAX to 0, or model it as a load",
			n.Name, n.GenRow[factors[0].Gen]+1, n.BusID[n.GenBus[factors[0].Gen]])
	}
	if len(n.References) != 1 {
		return fmt.Errorf("opf: %s has %d reference buses, want one: all buses in one connected network", n.Name, len(n.References))
	}
	slack := false
	for i, b := range n.GenBus {
		slack = slack || b == n.Slack
		if math.IsInf(n.PMin[i], 0) || math.IsInf(n.PMax[i], 0) || !(n.PMin[i] <= n.PMax[i]) {
			return fmt.Errorf("opf: the unit at bus %d of %s has P_G limits [%v, %v] pu, want finite ones in order", n.BusID[b], n.Name, n.PMin[i], n.PMax[i])
		}
	}
	if !slack {
		return fmt.Errorf("opf: bus %d, the reference of %s, has no unit", n.BusID[n.Slack], n.Name)
	}
	return nil
}

func newLayout(n *network.Network, uncertain bool) layout {
	l := layout{buses: n.Buses(), gens: n.Gens(), branches: n.Branches(), uncertain: uncertain}
	for i := range n.BusID {
		if n.Pd[i] != 0 {
			l.loadP = append(l.loadP, i)
		}
		if n.Qd[i] != 0 {
			l.loadQ = append(l.loadQ, i)
		}
	}
	l.q = len(l.loadP)
	l.previous = l.q + len(l.loadQ)
	l.factors = l.previous + l.gens
	l.context = l.factors
	if uncertain {
		l.context += l.branches
	}
	l.rated = rated(n)
	l.marginQ = l.gens
	l.marginV = 2 * l.gens
	l.marginS = l.marginV + l.buses
	l.marginRamp = l.marginS + len(l.rated)
	l.marginAfter = l.marginRamp + l.gens
	l.margins = l.marginAfter
	return l
}

// rated are the branches with a rating.
func rated(n *network.Network) (list []int) {
	for k, r := range n.Rate {
		if !math.IsInf(r, 1) {
			list = append(list, k)
		}
	}
	return list
}

// newSpec names every entry of the vectors.
func (y *System) newSpec(name, description string) domain.Spec {
	n, l := y.Network, &y.layout
	// One variable for each bus of a list, with its range by its place there and its bus.
	add := func(list *[]domain.Variable, prefix, unit string, buses []int, box func(k, bus int) (lo, hi float64)) {
		for k, i := range buses {
			v := domain.Variable{Name: prefix + strconv.Itoa(n.BusID[i]), Unit: unit}
			if box != nil {
				// What the file fixes has no box here; the projection's clip holds it.
				if lo, hi := box(k, i); lo < hi {
					v.Lo, v.Hi = lo, hi
				}
			}
			*list = append(*list, v)
		}
	}
	power := func(g, _ int) (lo, hi float64) { return n.PMin[g], n.PMax[g] }
	voltage := func(_, bus int) (lo, hi float64) { return n.VMin[bus], n.VMax[bus] }
	buses := make([]int, l.buses)
	for i := range buses {
		buses[i] = i
	}
	s := domain.Spec{
		Name: name, Description: strings.Join(append([]string{description}, n.Notes()...), "; "),
		Objectives: []domain.Variable{{Name: "thermal"}, {Name: "voltage", Unit: "pu²"}, {Name: "economic", Unit: "$/h"}},
		Plan:       1, Steps: Steps, StepSeconds: StepSeconds,
		Semantic:        semantic,
		MarginTolerance: MarginTolerance,
		Navigation:      navigation,
		Training:        trainingOf(l.gens, l.uncertain, y.security != nil),
	}
	add(&s.Measured, "V", "pu", buses, voltage)
	add(&s.Measured, "theta", "rad", buses, nil)
	for i := range s.Measured {
		s.Measured[i].Tolerance = stateTolerance
	}
	add(&s.Context, "Pd", "pu", l.loadP, nil)
	add(&s.Context, "Qd", "pu", l.loadQ, nil)
	add(&s.Context, "Pg_prev", "pu", n.GenBus, nil)
	if l.uncertain {
		for k := range n.From {
			s.Context = append(s.Context, domain.Variable{Name: fmt.Sprintf("b%d-%d", n.BusID[n.From[k]], n.BusID[n.To[k]])})
		}
	}
	add(&s.Action, "Pg", "pu", n.GenBus, power)
	add(&s.Action, "Vg", "pu", n.GenBus, voltage)
	limit := func(name string) {
		for i := range s.Margins {
			s.Margins[i].Limit = cmp.Or(s.Margins[i].Limit, name)
		}
	}
	add(&s.Margins, "Pg", "pu", n.GenBus, nil)
	limit("active power")
	add(&s.Margins, "Qg", "pu", n.GenBus, nil)
	limit("reactive power")
	add(&s.Margins, "V", "pu", buses, nil)
	limit("voltage")
	for _, k := range l.rated {
		s.Margins = append(s.Margins, domain.Variable{Name: fmt.Sprintf("S%d-%d", n.BusID[n.From[k]], n.BusID[n.To[k]]), Unit: "pu"})
	}
	limit("line flow")
	add(&s.Margins, "ramp", "pu", n.GenBus, nil)
	limit("ramp")
	s.Margins = append(s.Margins, y.marginsAfter()...)
	limit("after an outage")
	for _, list := range [][]domain.Variable{s.Context, s.Action, s.Margins} {
		number(list)
	}
	return s
}

// number tells parallel branches, and units of one bus, apart: of entries of one name the second
// becomes NAME#2, and so on in the order of the file.
func number(all []domain.Variable) {
	counts := map[string]int{}
	for i := range all {
		name := all[i].Name
		if counts[name]++; counts[name] > 1 {
			all[i].Name = fmt.Sprintf("%s#%d", name, counts[name])
		}
	}
}

// Spec implements domain.Problem.
func (y *System) Spec() *domain.Spec { return &y.spec }

// Fingerprint is domain.ProblemAbilities.Fingerprint: the SHA-256 of the case file, followed by the
// Options that are not their zero values.
func (y *System) Fingerprint() [32]byte { return y.fingerprint }

// loads writes the load of every bus that the context holds, pu.
func (y *System) loads(c, p, q []float64) {
	clear(p)
	clear(q)
	for k, i := range y.layout.loadP {
		p[i] = c[k]
	}
	for k, i := range y.layout.loadQ {
		q[i] = c[y.layout.q+k]
	}
}

// Context writes c from loads, previous P_G and branch factors (nil: ones).
func (y *System) Context(c, p, q, previous, factors []float64) {
	l := &y.layout
	for k, i := range l.loadP {
		c[k] = p[i]
	}
	for k, i := range l.loadQ {
		c[l.q+k] = q[i]
	}
	copy(c[l.previous:], previous)
	if l.uncertain {
		for k := range l.branches {
			c[l.factors+k] = 1
		}
		copy(c[l.factors:], factors)
	}
}

// branchFactors are those that the context holds, nil for all ones.
func (y *System) branchFactors(c []float64) []float64 {
	if !y.layout.uncertain {
		return nil
	}
	return c[y.layout.factors : y.layout.factors+y.layout.branches]
}
