package opf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/tensor"
)

// episode is one closed-loop run. Its state is the
// one before a dispatch: the loads have changed, the set-points not yet.
type episode struct {
	system *System
	text   string // the case file
	scene  Scene
	chain  *Chain // nil in a replay until it is asked for
	noise  float64
	hidden bool
	// estimator finds the branch factors; nil: they are observed, or hidden.
	estimator *admittances
	rng       *rand.Rand
	ctx       context.Context // of the chain

	t       int
	c       []float64 // true context of step t
	s       []float64 // true state before the dispatch
	applied []float64 // set-points in force
	pg      []float64 // what the units gave last
	// For a stepper: the indicators of s where they are known, and in the uncertain case the
	// trajectory's admittances.
	delta      [objectives]float64
	indicated  bool
	admittance *network.Admittance
}

// Abilities implements domain.Able.
func (e *episode) Abilities() *domain.EpisodeAbilities {
	return &domain.EpisodeAbilities{Excluded: e.Excluded, Beyond: e.Beyond, Changes: []string{"load", "branch"}, Change: e.Change}
}

func newEpisode(l *Plant, scene Scene) (*episode, error) {
	y := l.system
	e := &episode{
		system: y, text: l.text, scene: scene, hidden: scene.Hidden, ctx: context.Background(), c: make([]float64, y.layout.context), s: make([]float64, 2*y.layout.buses),
		applied: append(append([]float64(nil), scene.Pg0...), scene.Vg0...), pg: append([]float64(nil), scene.Pg0...),
	}
	for i := range e.s[:y.layout.buses] {
		e.s[i] = 1
	}
	e.setContext(0)
	w := y.pool.Get().(*workspace)
	defer y.pool.Put(w)
	if !w.dispatch(e.s, e.c, e.applied) {
		return nil, errors.New("opf: the state before the first step has no power flow")
	}
	w.state(e.s)
	e.setContext(1)
	e.hold(w)
	return e, nil
}

// measured makes its measurements noisy as opt says, from the stream of the seed and the index.
func (e *episode) measured(seed uint64, index int, opt domain.EpisodeOptions) *episode {
	e.noise, e.ctx = opt.Noise, opt.Until()
	e.rng = rand.New(rand.NewPCG(seed^testStream, ^uint64(index)))
	return e
}

// setContext writes the context of a row of loads.
func (e *episode) setContext(row int) {
	l, base := &e.system.layout, e.system.Network.BaseMVA
	for k, i := range l.loadP {
		e.c[k] = e.scene.Pd[row][i] / base
	}
	for k, i := range l.loadQ {
		e.c[l.q+k] = e.scene.Qd[row][i] / base
	}
	copy(e.c[l.previous:], e.pg)
	if l.uncertain {
		copy(e.c[l.factors:], e.scene.Branch)
	}
}

// hold finds the state under the loads at hand with the set-points in force. Without a
// power flow it stays as it was.
func (e *episode) hold(w *workspace) {
	e.indicated = false
	if w.dispatch(e.s, e.c, e.applied) {
		w.state(e.s)
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
	if e.estimator != nil {
		e.estimate(c)
	}
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

// estimate writes what the flows of this state and of those before it say of the branch factors.
func (e *episode) estimate(c []float64) {
	if a := e.estimator; a.step != e.t { // once a step, however often it is observed
		a.update(a.measure(e.s, e.scene.Branch))
		a.step = e.t
	}
	e.estimator.write(c[e.system.layout.factors:][:e.system.layout.branches])
}

// Apply dispatches: the power flow of u to 1e-9 pu under the loads of this step,
// the reference unit taking up the mismatch. S is the state after it.
func (e *episode) Apply(u []float64) (domain.Outcome, error) {
	if err := e.refuses(u); err != nil {
		return domain.Outcome{}, err
	}
	y := e.system
	out := domain.Outcome{
		S: make([]float64, len(e.s)), J: make([]float64, objectives), Sigma: make([]float64, objectives), Named: make([]float64, y.layout.margins),
	}
	var delta [objectives]float64
	y.Indicators(e.s, u, e.c, delta[:])
	e.priority(delta[:], out.Sigma)
	w := y.pool.Get().(*workspace)
	defer y.pool.Put(w)
	if !w.dispatch(e.s, e.c, u) {
		return domain.Outcome{}, errors.New("the power flow of the set-points has no solution")
	}
	w.state(out.S)
	copy(out.Named, w.margin)
	if err := y.security.judge(w, out.Named[y.layout.marginAfter:]); err != nil {
		return domain.Outcome{}, err
	}
	out.Margin = slices.Min(out.Named)
	w.objectives(e.c, out.J)
	out.Cost = stageCost(out.J, e.scene.W)
	e.move(w.solution.Pg, u, out.S)
	e.hold(w)
	return out, nil
}

// refuses says why an action cannot be applied.
func (e *episode) refuses(u []float64) error {
	switch want := 2 * e.system.layout.gens; {
	case e.Done():
		return fmt.Errorf("the episode has ended after %d steps", Steps)
	case len(u) != want:
		return fmt.Errorf("action has %d components, want %d", len(u), want)
	case !tensor.Finite(u):
		return fmt.Errorf("action %v is not finite", u)
	}
	return nil
}

// priority writes σ of a stage, or the preference that scores it.
func (e *episode) priority(delta, sigma []float64) {
	semantic.Priority(delta, sigma)
	if e.scene.W != nil {
		copy(sigma, e.scene.W)
	}
}

// move takes a dispatch over, and the loads of the next step.
func (e *episode) move(pg, u, s []float64) {
	copy(e.pg, pg)
	copy(e.applied, u)
	copy(e.s, s)
	e.t++
	e.setContext(min(e.t+1, Steps))
}

// Oracle returns the cost of the exact chain and its set-points.
func (e *episode) Oracle() (float64, [][]float64, error) {
	if e.chain == nil {
		chain, err := e.system.runChain(e.ctx, &e.scene)
		if err != nil {
			return math.NaN(), nil, err
		}
		e.chain = chain
	}
	return e.chain.Cost, e.chain.Plan, nil
}
