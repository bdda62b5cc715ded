package opf

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
)

// flowModel is what every power flow of a System shares. Every bus with a unit
// holds its voltage; the others are PQ; the reference holds angle 0 and takes up
// the mismatch.
type flowModel struct {
	terms    terms
	solver   *powerflow.Solver // analysed once; every workspace computes in a clone
	unit     []int             // first unit at each bus, −1: none
	slackGen int
	leads    []bool           // whether a unit is the first at its bus: its V_G counts
	prepared *network.Network // as the solver has it
}

func newFlowModel(n *network.Network) (flowModel, error) {
	m := flowModel{unit: slices.Repeat([]int{-1}, n.Buses()), leads: make([]bool, n.Gens())}
	for g, b := range n.GenBus {
		if m.unit[b] < 0 {
			m.unit[b], m.leads[g] = g, true
		}
	}
	m.slackGen = m.unit[n.Slack]
	// A dispatch controls the voltage at every unit, also where the file calls the
	// bus PQ, and measures angles from the reference.
	prepared := *n
	prepared.Kind, prepared.Va0 = slices.Clone(n.Kind), make([]float64, n.Buses())
	for _, b := range n.GenBus {
		if prepared.Kind[b] == network.PQ {
			prepared.Kind[b] = network.PV
		}
	}
	m.prepared = &prepared
	var err error
	m.solver, err = powerflow.New(&prepared)
	return m, err
}

// flowIterations of Newton's method at most.
const flowIterations = 20

// workspace is what one call of a System computes in.
type workspace struct {
	system *System
	solver *powerflow.Solver
	// linear is the power flow linearised at one of solver's.
	linear *powerflow.Solver
	// solution holds voltages, from the reference's angle on, and what the units
	// give, the slack included; flows are those of its branches.
	solution   *powerflow.Solution
	flows      *network.Flows
	size       [2][]float64        // |S| of the rated branches at from and to ends
	y          *network.Admittance // of the uncertain case
	factors    []float64           // the branch factors that y holds
	pd, qd     []float64           // loads
	vg         []float64           // set-points by unit: those of the units that lead
	margin     []float64
	angle, vm  []float64 // gradient of a margin by bus: see powerflow.Sensitivity
	scored     []float64 // the solution as a state
	projection *projection
	// key is what solution and margin are the answer to: s, c, u.
	key    []float64
	cached bool
	solved bool
	// Of a secure dispatch: the power flows after outages, and whether all were solved here.
	outages     *outages
	checked     bool
	certificate *certificate
}

func newWorkspace(y *System) *workspace {
	n, m := y.Network, &y.model
	vector := func(k int) []float64 { return make([]float64, k) }
	w := &workspace{
		system: y, solver: m.solver.Clone(), solution: m.solver.NewSolution(), flows: network.NewFlows(n.Branches()),
		pd: vector(n.Buses()), qd: vector(n.Buses()), vg: vector(n.Gens()), margin: vector(y.layout.margins),
		angle: vector(n.Buses()), vm: vector(n.Buses()), scored: vector(2 * n.Buses()),
		key: vector(2*n.Buses() + y.layout.context + 2*n.Gens()), size: [2][]float64{vector(len(y.layout.rated)), vector(len(y.layout.rated))},
	}
	if y.layout.uncertain {
		w.y = network.NewAdmittance(n.Branches())
		w.factors = vector(n.Branches())
	}
	w.linear, w.projection = m.solver.Clone(), newProjection(y)
	return w
}

// setContext takes loads and branch factors.
func (w *workspace) setContext(c []float64) {
	w.system.loads(c, w.pd, w.qd)
	if b := w.system.branchFactors(c); b != nil {
		w.setFactors(b)
	}
}

func (w *workspace) setFactors(b []float64) {
	if slices.Equal(w.factors, b) {
		return
	}
	w.system.scaleBranches(b, w.factors, w.y)
	if err := w.solver.SetAdmittance(w.y); err != nil {
		panic("opf: " + err.Error())
	}
	copy(w.factors, b)
}

// scaleBranches writes the admittances under branch factors b, and in near the factors
// that were taken: what no network has, in an observation that cannot be right, is taken
// as the nearest that one could have.
func (y *System) scaleBranches(b, clamped []float64, dst *network.Admittance) {
	for k, v := range b {
		if !(v > 0.1) {
			v = 0.1
		}
		clamped[k] = math.Min(v, 10)
	}
	if err := y.Network.ScaleBranches(clamped, dst); err != nil {
		panic("opf: " + err.Error())
	}
}

// flow solves the power flow of set-points u. Set-points, loads or a start that no
// power flow has (not finite, a magnitude of zero) have no solution.
func (w *workspace) flow(start powerflow.Start, u []float64) bool {
	gens := w.system.layout.gens
	for g, b := range w.system.Network.GenBus {
		w.vg[g] = u[gens+w.system.model.unit[b]]
	}
	input := powerflow.Input{Pd: w.pd, Qd: w.qd, Pg: u[:gens], Vg: w.vg}
	err := w.solver.Solve(input, powerflow.Options{Start: start, MaxIterations: flowIterations}, w.solution)
	return err == nil && w.solution.Converged()
}

// dispatch solves the power flow of u under context c from the state s, or from
// a flat start where that fails, and fills in the units' outputs and all margins.
// The answer depends on (s, c, u) alone; asked again it is not computed again.
// Without a solution the margins are −1 and it reports false.
func (w *workspace) dispatch(s, c, u []float64) bool {
	if w.cached && w.sameKey(s, c, u) {
		return w.solved
	}
	w.remember(s, c, u)
	w.checked = false
	if w.outages != nil {
		w.outages.move()
	}
	w.setContext(c)
	nb := w.system.layout.buses
	copy(w.solution.Vm, s[:nb])
	for i, v := range s[nb : 2*nb] {
		w.solution.Va[i] = v - s[nb+w.system.Network.Slack]
	}
	w.solved = w.flow(powerflow.FromSolution, u) || w.flow(powerflow.Flat, u)
	if !w.solved {
		for k := range w.margin {
			w.margin[k] = -1
		}
		return false
	}
	w.solver.BranchFlows(w.solution, w.flows)
	for r, k := range w.system.layout.rated {
		w.size[0][r] = math.Sqrt(w.flows.Pf[k]*w.flows.Pf[k] + w.flows.Qf[k]*w.flows.Qf[k])
		w.size[1][r] = math.Sqrt(w.flows.Pt[k]*w.flows.Pt[k] + w.flows.Qt[k]*w.flows.Qt[k])
	}
	w.system.measure(w.solution.Pg, w.solution.Qg, w.solution.Vm, w.size, c[w.system.layout.previous:], w.margin)
	return true
}

// sameKey compares with the key; the reference unit's P_G, which the power flow
// does not read, is no part of it.
func (w *workspace) sameKey(s, c, u []float64) bool {
	index, slack := 0, len(s)+len(c)+w.system.model.slackGen
	for _, part := range [3][]float64{s, c, u} {
		for _, v := range part {
			if w.key[index] != v && index != slack {
				return false
			}
			index++
		}
	}
	return true
}

func (w *workspace) remember(s, c, u []float64) {
	index := copy(w.key, s)
	index += copy(w.key[index:], c)
	copy(w.key[index:], u)
	w.cached = true
}

// measure writes the margins where the units give pg and qg, the buses have magnitudes vm
// and the rated branches |S| at their two ends, after the previous outputs.
func (y *System) measure(pg, qg, vm []float64, size [2][]float64, previous, margin []float64) {
	n, l := y.Network, &y.layout
	room := func(v, lo, hi float64) float64 { return math.Min(v-lo, hi-v) }
	for g := range n.GenBus {
		margin[g] = room(pg[g], n.PMin[g], n.PMax[g])
		margin[l.marginQ+g] = math.Min(room(qg[g], n.QMin[g], n.QMax[g]), marginBound)
		margin[l.marginRamp+g] = y.Ramp[g] - math.Abs(pg[g]-previous[g])
	}
	for i, v := range vm {
		margin[l.marginV+i] = room(v, n.VMin[i], n.VMax[i])
	}
	for r, k := range l.rated {
		margin[l.marginS+r] = n.Rate[k] - math.Max(size[0][r], size[1][r])
	}
}

// marginBound bounds the margin of a limit that is infinite.
const marginBound = 1e6
