package opf

import (
	"context"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/secure"
)

// solveAll solves problems one after another, each from its plain optimum.
func (y *security) solveAll(ctx context.Context, problems []acopf.Problem, results []acopf.Result) error {
	for i := range problems {
		r, err := y.solve(ctx, problems[i], nil)
		if err != nil {
			return err
		}
		results[i] = optimum(r)
	}
	return nil
}

// runSecureChains is runChains of a secure dispatch: each step begins at the one before, with the outages
// that it remembers.
func (y *System) runSecureChains(ctx context.Context, scenes []*Scene) ([]*Chain, []error) {
	chains, errs := make([]*Chain, len(scenes)), make([]error, len(scenes))
	for i := range scenes {
		chains[i], errs[i] = y.runSecureChain(ctx, scenes[i])
	}
	return chains, errs
}

func (y *System) runSecureChain(ctx context.Context, scene *Scene) (*Chain, error) {
	n, chain := y.Network, &Chain{}
	var last *secure.Result
	var previous []float64
	for row := range scene.Pd {
		pd, qd := make([]float64, n.Buses()), make([]float64, n.Buses())
		for b := range pd {
			pd[b], qd[b] = scene.Pd[row][b]/n.BaseMVA, scene.Qd[row][b]/n.BaseMVA
		}
		problem := y.problem(pd, qd, nil, previous, countedWeights(scene.W), acopf.Tightening{}, nil)
		r, err := y.security.solve(ctx, problem, last)
		if err != nil {
			return nil, err
		}
		if r.Status != secure.Secure {
			return nil, &chainError{row - 1, "without a secure dispatch: " + r.Reason}
		}
		last, previous = r, slices.Clone(r.Pg)
		solution := optimum(r)
		u := make([]float64, 2*n.Gens())
		y.setPoints(&solution, u)
		if row == 0 {
			chain.Pg0, chain.Vg0 = u[:n.Gens():n.Gens()], u[n.Gens():]
			continue
		}
		chain.Plan = append(chain.Plan, u)
		chain.Cost += stageCost(r.J[:], scene.W)
		chain.LargestKKT = max(chain.LargestKKT, r.KKT.Max())
	}
	return chain, nil
}

// secureController solves every step, begun at the last with the outages that it remembers.
type secureController struct {
	system *System
	last   *secure.Result
}

func (m *secureController) Reset(domain.Episode) error {
	m.last = nil
	return nil
}

func (m *secureController) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	y := m.system
	problem := y.problemAt(s, c, pref, nil)
	y.Weigh(pref, problem.Objective.Weights[:])
	r, err := y.security.solve(context.Background(), problem, m.last)
	if err != nil {
		return domain.Decision{}, err
	}
	if r.Status != secure.Secure {
		m.last = nil
		y.Fallback(s, c, u)
		return domain.Decided(false), nil
	}
	m.last = r
	solution := optimum(r)
	y.setPoints(&solution, u)
	return domain.Decided(true), nil
}

// stepController moves the last dispatch by the steps of a descent, and onto the limits. Where that ends beyond one it is solved
// exactly.
type stepController struct {
	holdController
	work  *workspace // its own: power flows after outages begin where those of the decision before ended
	way   descent
	exact secureController
}

func newStepController(y *System) *stepController {
	y.prepare()
	y.nearLoadability() // of every decision
	return &stepController{holdController: holdController{system: y}, work: newWorkspace(y), way: descent{box: 1}, exact: secureController{system: y}}
}

func (m *stepController) Reset(e domain.Episode) error {
	m.work.outagesHere().follow(true)
	m.way = descent{box: 1}
	if err := m.exact.Reset(e); err != nil {
		return err
	}
	return m.holdController.Reset(e)
}

func (m *stepController) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	y := m.system
	m.begin(s, c, u)
	y.Weigh(pref, m.way.weights[:])
	y.clip(c, u)
	decision := domain.Decided(true)
	if !y.projectSecure(m.work, s, c, u, &m.way) {
		projected := slices.Clone(u)
		var err error
		if decision, err = m.exact.Decide(s, c, pref, u); err != nil {
			return decision, err
		}
		if !decision.Solved() {
			copy(u, projected)
		}
		m.way.watch = nil
	}
	m.last = append(m.last[:0], u...)
	return decision, nil
}

// judge writes the margins after outages at the dispatch of a workspace by power flows of package secure:
// what a decision is judged by shares no code with what it was projected by, but for power flows.
func (y *security) judge(w *workspace, margins []float64) error {
	if y == nil {
		return nil
	}
	s, err := y.checker()
	if err != nil {
		return err
	}
	checks, err := s.Check(context.Background(), w.pd, w.qd, w.solution.Pg, w.solution.Vm, w.solution.Va)
	if err != nil {
		return err
	}
	for i, c := range checks {
		if margins[i] = c.Margin; !c.Solved {
			margins[i] = -1
		}
	}
	return nil
}
