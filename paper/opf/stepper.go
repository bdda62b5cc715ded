package opf

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/acopf/laneflow"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
)

// newLanes analyses the network for steppers. An instruction set that cannot be had is an
// error of the exact solver's, which every scene is drawn with.
func newLanes(y *System) *laneflow.Solver {
	s, err := laneflow.New(y.model.prepared, y.layout.rated)
	if err != nil {
		return nil
	}
	return s
}

// Abilities implements domain.Able.
func (l *Plant) Abilities() *domain.PlantAbilities {
	return &domain.PlantAbilities{Draft: l.Draft, Stage: l.Stage, NewStepper: l.NewStepper, Prepare: l.Prepare}
}

// NewStepper is domain.PlantAbilities.NewStepper: the power flows of as many episodes as a vector
// has lanes are solved together. One that does not converge so is left to Episode.Apply.
func (l *Plant) NewStepper() domain.Stepper {
	if l.system.security != nil {
		return nil // outages are looked at one by one
	}
	lanes := l.system.lanes()
	if lanes == nil {
		return nil
	}
	y := l.system
	vector := func(n int) []float64 { return make([]float64, n) }
	t := &stepper{
		system: y, worker: lanes.NewWorker(), flow: y.model.solver.Clone(),
		pd: vector(y.layout.buses), qd: vector(y.layout.buses), p: vector(y.layout.buses), q: vector(y.layout.buses),
		vm: vector(y.layout.buses), va: vector(y.layout.buses), pg: vector(y.layout.gens), qg: vector(y.layout.gens),
		size: [2][]float64{vector(len(y.layout.rated)), vector(len(y.layout.rated))},
	}
	t.admittances = make([]*network.Admittance, t.worker.Lanes())
	t.solved = make([]bool, t.worker.Lanes())
	return t
}

// stepper implements domain.Stepper.
type stepper struct {
	system       *System
	worker       *laneflow.Worker
	flow         *powerflow.Solver     // for Share
	admittances  []*network.Admittance // that of each lane; nil: the network's own
	solved       []bool                // by lane: the dispatch has a solution here
	pd, qd, p, q []float64             // by bus
	vm, va       []float64
	pg, qg       []float64
	size         [2][]float64 // by rated branch
}

// Apply implements domain.Stepper.
func (t *stepper) Apply(episodes []domain.Episode, u [][]float64, outcomes []domain.Outcome, errs []error) {
	for lo, n := 0, t.worker.Lanes(); lo < len(episodes); lo += n {
		hi := min(lo+n, len(episodes))
		t.group(episodes[lo:hi], u[lo:hi], outcomes[lo:hi], errs[lo:hi])
	}
}

// group steps one episode in each lane.
func (t *stepper) group(episodes []domain.Episode, u [][]float64, outcomes []domain.Outcome, errs []error) {
	for lane, ep := range episodes {
		e := ep.(*episode)
		if errs[lane] = e.refuses(u[lane]); errs[lane] == nil {
			t.set(lane, e, u[lane])
		}
	}
	t.worker.Solve()
	t.worker.Flows(true)
	for lane, ep := range episodes {
		t.solved[lane] = false
		if errs[lane] != nil {
			outcomes[lane] = domain.Outcome{}
			continue
		}
		if t.solved[lane] = t.worker.Done(lane, t.vm, t.va, t.p, t.q); t.solved[lane] {
			t.take(lane, ep.(*episode), u[lane], &outcomes[lane])
		} else {
			outcomes[lane], errs[lane] = ep.Apply(u[lane])
		}
	}
	for lane, ep := range episodes {
		if e := ep.(*episode); t.solved[lane] {
			t.set(lane, e, e.applied)
		}
	}
	t.worker.Solve()
	t.worker.Flows(false)
	for lane, ep := range episodes {
		if t.solved[lane] {
			t.hold(lane, ep.(*episode))
		}
	}
}

// set gives a lane the power flow of set-points u under an episode's context, from its state.
func (t *stepper) set(lane int, e *episode, u []float64) {
	y, l := t.system, &t.system.layout
	y.loads(e.c, t.pd, t.qd)
	for b := range t.p {
		t.p[b], t.q[b] = -t.pd[b], -t.qd[b]
	}
	copy(t.vm, e.s[:l.buses])
	reference := e.s[l.buses+y.Network.Slack]
	for b, v := range e.s[l.buses:] {
		t.va[b] = v - reference
	}
	for g, b := range y.Network.GenBus {
		t.p[b] += u[g]
		t.vm[b] = u[l.gens+y.model.unit[b]]
	}
	if l.uncertain {
		if e.admittance == nil {
			e.admittance = network.NewAdmittance(l.branches)
			y.scaleBranches(e.scene.Branch, make([]float64, l.branches), e.admittance)
		}
		if t.admittances[lane] != e.admittance {
			t.admittances[lane] = e.admittance
			t.worker.SetAdmittance(lane, e.admittance)
		}
	}
	t.worker.Set(lane, t.p, t.q, t.vm, t.va)
}

// take writes the outcome of a lane's dispatch, whose solution is at hand, and moves the
// episode on.
func (t *stepper) take(lane int, e *episode, u []float64, out *domain.Outcome) {
	y := t.system
	vector := func(v []float64, n int) []float64 { return slices.Grow(v[:0], n)[:n] }
	out.S, out.J = vector(out.S, len(e.s)), vector(out.J, objectives)
	out.Sigma, out.Named = vector(out.Sigma, objectives), vector(out.Named, y.layout.margins)
	if !e.indicated {
		y.Indicators(e.s, u, e.c, e.delta[:])
	}
	e.priority(e.delta[:], out.Sigma)
	copy(out.S, t.vm)
	copy(out.S[len(t.vm):], t.va)
	y.loads(e.c, t.pd, t.qd)
	t.flow.Share(powerflow.Input{Pd: t.pd, Qd: t.qd, Pg: u[:y.layout.gens]}, t.p, t.q, t.pg, t.qg)
	t.worker.From(lane, t.size[0])
	t.worker.To(lane, t.size[1])
	y.measure(t.pg, t.qg, t.vm, t.size, e.c[y.layout.previous:], out.Named)
	out.Margin = slices.Min(out.Named)
	y.model.terms.score(t.size[0], t.vm, t.pg, out.J)
	out.Cost, out.Failed = stageCost(out.J, e.scene.W), false
	e.move(t.pg, u, out.S)
}

// hold is episode.hold by a lane's solution.
func (t *stepper) hold(lane int, e *episode) {
	y, buses := t.system, t.system.layout.buses
	if !t.worker.Done(lane, e.s[:buses], e.s[buses:], t.p, t.q) {
		w := y.pool.Get().(*workspace)
		defer y.pool.Put(w)
		e.hold(w)
		return
	}
	t.worker.From(lane, t.size[0])
	load := 0.0
	for r, s := range t.size[0] {
		load = math.Max(load, s*y.model.terms.inverseRate[r])
	}
	y.indicators(load, e.s, e.delta[:])
	e.indicated = true
}
