package opf

import (
	"context"
	"fmt"

	"github.com/gpc-engine/gpc/domains/opf/acopf"
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
	x, err := y.exacts.get()
	if err != nil {
		return nil, err
	}
	defer y.exacts.put(x)
	n := y.Network
	weights := countedWeights(scene.W)
	var factors []float64
	if y.layout.uncertain {
		factors = scene.Branch
	}
	chain := &Chain{}
	pd, qd := make([]float64, n.Buses()), make([]float64, n.Buses())
	var results [2]acopf.Result
	var last *acopf.Result
	var previous []float64
	for row := range scene.Pd {
		for i := range pd {
			pd[i], qd[i] = scene.Pd[row][i]/n.BaseMVA, scene.Qd[row][i]/n.BaseMVA
		}
		now := results[row%2 : row%2+1]
		problem := y.problem(pd, qd, factors, previous, weights, acopf.Tightening{}, last)
		r := &now[0]
		if ok, err := x.solveOne(ctx, problem, now); err != nil {
			return nil, err
		} else if !ok {
			return nil, &chainError{row - 1, r.Status.String()}
		}
		last, previous = r, append(previous[:0], r.Pg...)
		u := make([]float64, 2*n.Gens())
		y.setPoints(r, u)
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
