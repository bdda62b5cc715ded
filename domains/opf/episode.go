package opf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// episode is one closed-loop run. Its state is the
// one before a dispatch: the loads have changed, the set-points not yet.
type episode struct {
	system *System
	scene  Scene
	work   *workspace
	chain  *Chain // nil in a replay until it is asked for
	noise  float64
	hidden bool
	rng    *rand.Rand
	until  context.Context // of the chain

	t       int
	c       []float64 // true context of step t
	s       []float64 // true state before the dispatch
	applied []float64 // set-points in force
	pg      []float64 // what the units gave last
}

var (
	_ domain.Episode = (*episode)(nil)
	_ domain.Drawn   = (*episode)(nil)
)

func newEpisode(l *Plant, scene Scene) (*episode, error) {
	y := l.system
	e := &episode{
		system: y, scene: scene, until: context.Background(), work: newWorkspace(y), c: make([]float64, y.layout.context), s: make([]float64, 2*y.layout.buses),
		applied: append(append([]float64(nil), scene.Pg0...), scene.Vg0...), pg: append([]float64(nil), scene.Pg0...),
	}
	for i := range e.s[:y.layout.buses] {
		e.s[i] = 1
	}
	e.setContext(0)
	if !e.work.dispatch(e.s, e.c, e.applied) {
		return nil, errors.New("opf: the state before the first step has no power flow")
	}
	e.work.state(e.s)
	e.turn()
	return e, nil
}

// setContext writes the context of a row of loads.
func (e *episode) setContext(row int) {
	base := e.system.Network.BaseMVA
	w := e.work
	for i := range w.pd {
		w.pd[i], w.qd[i] = e.scene.Pd[row][i]/base, e.scene.Qd[row][i]/base
	}
	e.system.context(e.c, w.pd, w.qd, e.pg, e.scene.Branch)
}

// turn lets the loads of step t come while the set-points hold. Without a power
// flow the state stays as it was.
func (e *episode) turn() {
	e.setContext(min(e.t+1, Steps))
	if e.work.dispatch(e.s, e.c, e.applied) {
		e.work.state(e.s)
	}
}

func (e *episode) Scene() any        { return e.scene }
func (e *episode) Steps() int        { return Steps }
func (e *episode) Done() bool        { return e.t >= Steps }
func (e *episode) State(s []float64) { copy(s, e.s) }

// Excluded is how many trajectories were drawn before this one and had no oracle.
func (e *episode) Excluded() int { return len(e.scene.Excluded) }

// Observe writes the measured state, noisy where asked, and the context: loads
// and previous P_G exactly, the branch factors unless they are withheld. Each
// call draws fresh noise.
func (e *episode) Observe(s, c []float64) {
	copy(s, e.s)
	copy(c, e.c)
	if e.hidden {
		for k := range e.system.layout.branches {
			c[e.system.layout.factors+k] = 1
		}
	}
	if e.noise == 0 {
		return
	}
	slack := e.system.layout.buses + e.system.Network.Slack
	for i := range s {
		if i != slack {
			s[i] += e.noise * e.rng.NormFloat64()
		}
	}
}

// Apply dispatches: the power flow of u to 1e-9 pu under the loads of this step,
// the reference unit taking up the mismatch. S is the state after it.
func (e *episode) Apply(u []float64) (domain.Outcome, error) {
	y := e.system
	if e.Done() {
		return domain.Outcome{}, fmt.Errorf("the episode is over after %d steps", Steps)
	}
	if len(u) != 2*y.layout.gens {
		return domain.Outcome{}, fmt.Errorf("action has %d components, want %d", len(u), 2*y.layout.gens)
	}
	if !tensor.Finite(u) {
		return domain.Outcome{}, fmt.Errorf("action %v is not finite", u)
	}
	out := domain.Outcome{
		S: make([]float64, len(e.s)), J: make([]float64, objectives), Sigma: make([]float64, objectives), Named: make([]float64, y.layout.margins),
	}
	var delta [objectives]float64
	y.Indicators(e.s, u, e.c, delta[:])
	semantic.Priority(delta[:], out.Sigma)
	if e.scene.W != nil {
		copy(out.Sigma, e.scene.W)
	}
	if !e.work.dispatch(e.s, e.c, u) {
		return domain.Outcome{}, errors.New("the power flow of the set-points has no solution")
	}
	e.work.state(out.S)
	copy(out.Named, e.work.margin)
	out.Margin = e.work.smallest()
	e.work.objectives(e.c, out.J)
	out.Cost = stageCost(out.J, e.scene.W)
	copy(e.pg, e.work.solution.Pg)
	copy(e.applied, u)
	copy(e.s, out.S)
	e.t++
	e.turn()
	return out, nil
}

// Oracle returns the cost of the exact chain and its set-points.
func (e *episode) Oracle() (float64, [][]float64, error) {
	if e.chain == nil {
		chain, err := e.system.runChain(e.until, &e.scene)
		if err != nil {
			return math.NaN(), nil, err
		}
		e.chain = chain
	}
	return e.chain.Cost, e.chain.Plan, nil
}
