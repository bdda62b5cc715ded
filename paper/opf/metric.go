package opf

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/tensor"
)

// The projection measures a change of the set-points by what it costs: by the
// curvature of the generation cost along the power flow, losses included, at one
// middling operating point. Lowering all V_G together is nearly free in it, and
// shifting P_G between units of different cost is not; in the plain norm a line's
// overload that a little less reactive power would cure is cured by redispatch.

// Constants of the metric.
const (
	metricLevel   = 0.85 // load level of the operating point
	metricVoltage = 1.02 // pu, its V_G
	metricStep    = 1e-3 // pu, of the differences of the gradient
	// leastCurvature, relative to the mean curvature of the units' own costs, keeps
	// directions that cost nothing bounded.
	leastCurvature = 0.05
)

// metric is the inverse W of a positive definite form of n variables:
// diag(diagonal) + modes·modesᵀ.
type metric struct {
	rank     int
	diagonal []float64 // n
	modes    []float64 // rank a variable
}

func (m *metric) mode(j int) []float64 { return m.modes[j*m.rank : (j+1)*m.rank] }

// heavier is the metric in which a change of the variables from one on counts so many times.
func (m *metric) heavier(start int, factor float64) *metric {
	h := &metric{rank: m.rank, diagonal: slices.Clone(m.diagonal), modes: slices.Clone(m.modes)}
	for j := start; j < len(h.diagonal); j++ {
		h.diagonal[j] /= factor
		for i := range h.mode(j) {
			h.mode(j)[i] /= math.Sqrt(factor)
		}
	}
	return h
}

// dense is W, row-major.
func (m *metric) dense() []float64 {
	n := len(m.diagonal)
	w := make([]float64, n*n)
	for i := range n {
		for j := range n {
			w[i*n+j] = tensor.Dot(m.mode(i), m.mode(j))
		}
		w[i*n+i] += m.diagonal[i]
	}
	return w
}

// mostModes of a network whose metric is kept whole; of a larger one W's diagonal is
// (docs/contribute/notebook/experiments.md: nothing is gained by more, and every mode costs at every pivot).
const mostModes = 16

// newMetric returns the inverse of the metric, in the order of the projection's
// controls.
func newMetric(y *System) *metric {
	w := newWorkspace(y)
	p := w.projection
	n, l := y.Network, &y.layout
	k := len(p.control)
	s, c, u := make([]float64, 2*l.buses), make([]float64, l.context), make([]float64, 2*l.gens)
	copy(s, ones(l.buses))
	pd, qd := n.Loads(metricLevel)
	y.Context(c, pd, qd, n.Pg0, nil)
	demand := 0.0
	for _, v := range pd {
		demand += v
	}
	// Without a ramp: from the middle of every unit's range with all of it to move.
	free := &System{Network: n, Ramp: n.PMax, layout: y.layout}
	free.merit(demand*(1+lossShare), n.PMin, u[:l.gens])
	for g, b := range n.GenBus {
		u[l.gens+g] = math.Min(math.Max(metricVoltage, n.VMin[b]), n.VMax[b])
	}
	h := mat.NewSymDense(k, nil)
	curvature, units := 0.0, 0.0
	for g := range n.GenBus {
		_, _, second := n.Cost[g].At(u[g])
		curvature, units = curvature+math.Abs(second), units+1
	}
	floor := leastCurvature * math.Max(curvature/units, 1)
	solved := w.costCurvature(s, c, u, h)
	var eigen mat.EigenSym
	if !solved || !eigen.Factorize(h, true) {
		return &metric{diagonal: ones(k)} // no operating point to measure at: the plain norm
	}
	// In ascending order, so that what costs least comes first.
	values := eigen.Values(nil)
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	least := 1 / math.Max(values[k-1], floor)
	inverse := &metric{diagonal: slices.Repeat([]float64{least}, k)}
	if k-1 <= mostModes {
		inverse.rank = k - 1
	}
	inverse.modes = make([]float64, k*inverse.rank)
	for v, value := range values {
		share := 1/math.Max(value, floor) - least
		for j := range k {
			if v < inverse.rank {
				inverse.modes[j*inverse.rank+v] = math.Sqrt(share) * vectors.At(j, v)
			} else {
				inverse.diagonal[j] += share * vectors.At(j, v) * vectors.At(j, v)
			}
		}
	}
	return inverse
}

// costCurvature adds the second derivative of the generation cost in the controls, along
// the power flow, to h, by differences of the gradient; u is what it was in the end.
func (w *workspace) costCurvature(s, c, u []float64, h *mat.SymDense) bool {
	p := w.projection
	up, down := make([]float64, len(p.control)), make([]float64, len(p.control))
	solved := true
	for j, entry := range p.control {
		u[entry] += metricStep
		solved = w.costGradient(s, c, u, up) && solved
		u[entry] -= 2 * metricStep
		solved = w.costGradient(s, c, u, down) && solved
		u[entry] += metricStep
		for i := range p.control {
			// Each entry is seen twice, once from either side.
			h.SetSym(i, j, h.At(i, j)+0.5*(up[i]-down[i])/(2*metricStep))
		}
		h.SetSym(j, j, h.At(j, j)+0.5*(up[j]-down[j])/(2*metricStep))
	}
	return solved
}

// costGradient writes the derivative of the generation cost in each control,
// along the power flow.
func (w *workspace) costGradient(s, c, u, gradient []float64) bool {
	y, p := w.system, w.projection
	m, n, gens := &y.model, y.Network, y.layout.gens
	if !w.dispatch(s, c, u) {
		return false
	}
	if !w.linear.LineariseAt(w.solver) {
		return false
	}
	angle, vm := p.angle[:1], p.magnitude[:1]
	w.gradient(&limit{kind: slackPower, index: n.Slack}, angle[0], vm[0])
	w.linear.Sensitivities(angle, vm)
	_, price, _ := n.Cost[m.slackGen].At(w.solution.Pg[m.slackGen])
	for j, entry := range p.control {
		gradient[j] = price * w.sensitivity(entry, -1, angle[0], vm[0])
		if entry < gens {
			_, marginal, _ := n.Cost[entry].At(u[entry])
			gradient[j] += marginal
		}
	}
	return true
}
