package opf

import (
	"context"
	"fmt"

	"github.com/gpc-engine/gpc/grid/acopf"
)

// totalWeights are those of J_total.
var totalWeights = [objectives]float64{1, 1, 1}

// stageCost is J_total, or under a preference what fixedWeights makes of it.
func stageCost(J, w []float64) float64 {
	sum := 0.0
	for i, v := range countedWeights(w) {
		sum += v * J[i]
	}
	return sum
}

// Chain is the exact solution of a trajectory, step by step: each step the
// optimum within the ramp of the chain's own last one, without tightening, to a
// KKT residual of 1e-6. It is the oracle of the gap.
type Chain struct {
	Pg0, Vg0   []float64   // set-points of the state before the first step
	Plan       [][]float64 // u of every step
	Cost       float64     // Σ of the stages
	LargestKKT float64
}

// chainError says at which step a trajectory has no exact solution; −1 is the
// state before.
type chainError struct {
	step   int
	reason string
}

func (e *chainError) Error() string {
	return fmt.Sprintf("opf: the exact solver finds step %d %s", e.step, e.reason)
}

// runChain solves a trajectory. A step without an exact solution is a
// *chainError.
func (y *System) runChain(ctx context.Context, scene *Scene) (*Chain, error) {
	chains, errs := y.runChains(ctx, []*Scene{scene})
	return chains[0], errs[0]
}

// runChains is runChain of trajectories side by side, each step of all of them together. What
// it says of one, to the bit, does not depend on the others.
func (y *System) runChains(ctx context.Context, scenes []*Scene) ([]*Chain, []error) {
	if y.security != nil {
		return y.runSecureChains(ctx, scenes)
	}
	chains, errs := make([]*Chain, len(scenes)), make([]error, len(scenes))
	fail := func(err error) ([]*Chain, []error) {
		for i := range errs {
			chains[i], errs[i] = nil, err
		}
		return chains, errs
	}
	n := y.Network
	results := [2][]acopf.Result{make([]acopf.Result, len(scenes)), make([]acopf.Result, len(scenes))}
	last, previous := make([]*acopf.Result, len(scenes)), make([][]float64, len(scenes))
	loads := make([]float64, 2*len(scenes)*n.Buses())
	var problems []acopf.Problem
	var numbers []int // the trajectory of each problem
	for i := range chains {
		chains[i] = &Chain{}
	}
	for row := range scenes[0].Pd {
		problems, numbers = problems[:0], numbers[:0]
		for i, scene := range scenes {
			if errs[i] != nil {
				continue
			}
			pd, qd := loads[2*i*n.Buses():][:n.Buses()], loads[(2*i+1)*n.Buses():][:n.Buses()]
			for b := range pd {
				pd[b], qd[b] = scene.Pd[row][b]/n.BaseMVA, scene.Qd[row][b]/n.BaseMVA
			}
			var factors []float64
			if y.layout.uncertain {
				factors = scene.Branch
			}
			problems = append(problems, y.problem(pd, qd, factors, previous[i], countedWeights(scene.W), acopf.Tightening{}, last[i]))
			numbers = append(numbers, i)
		}
		now := results[row%2][:len(problems)]
		if err := y.solve(ctx, problems, now); err != nil {
			return fail(err)
		}
		for k, i := range numbers {
			r := &now[k]
			if !usable(r) && problems[k].Start != nil {
				problems[k].Start = nil
				if err := y.solve(ctx, problems[k:k+1], now[k:k+1]); err != nil {
					return fail(err)
				}
			}
			if !usable(r) {
				chains[i], errs[i] = nil, &chainError{row - 1, r.Status.String()}
				continue
			}
			last[i], previous[i] = r, append(previous[i][:0], r.Pg...)
			u := make([]float64, 2*n.Gens())
			y.setPoints(r, u)
			chain := chains[i]
			if row == 0 {
				chain.Pg0, chain.Vg0 = u[:n.Gens():n.Gens()], u[n.Gens():]
				continue
			}
			chain.Plan = append(chain.Plan, u)
			chain.Cost += stageCost(r.J[:], scenes[i].W)
			chain.LargestKKT = max(chain.LargestKKT, r.KKT.Max())
		}
	}
	return chains, errs
}
