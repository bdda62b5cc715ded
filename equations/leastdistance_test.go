package equations

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/tensor"
)

// The answer keeps every constraint, the active ones with equality, and is the sum of their
// normals times multipliers ≥ 0: the conditions of Karush, Kuhn and Tucker, which suffice here.
// Where constraints contradict one another the slack gives an answer.
func TestTheLeastDistanceIsOptimal(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	solved, contradictory := 0, 0
	for range 400 {
		variables := 1 + rng.IntN(6)
		q := newLeastDistance(variables, variables+rng.IntN(2*variables))
		for k := range q.constraints {
			for i := range variables {
				q.row(k)[i] = rng.NormFloat64()
			}
			q.row(k)[variables] = 0.1
			q.b[k] = rng.NormFloat64() - 0.2
		}
		slack := !q.solve(false)
		if slack {
			if contradictory++; !q.solve(true) {
				t.Fatal("no answer with a slack, which every constraint has")
			}
		}
		solved++
		n := variables
		if slack {
			n++
		}
		rest := make([]float64, n)
		copy(rest, q.x)
		for j, k := range q.active {
			if q.multipliers[j] < 0 {
				t.Errorf("multiplier %v", q.multipliers[j])
			}
			tensor.Axpy(-q.multipliers[j], q.row(k)[:n], rest)
			if v := tensor.Dot(q.row(k)[:n], q.x[:n]) - q.b[k]; math.Abs(v) > 1e-9 {
				t.Errorf("active constraint %d is off by %v", k, v)
			}
		}
		for i, v := range rest {
			if math.Abs(v) > 1e-9*(1+math.Abs(q.x[i])) {
				t.Errorf("x[%d] = %v is off the sum of the active normals by %v", i, q.x[i], v)
			}
		}
		for k := range q.constraints {
			if v := tensor.Dot(q.row(k)[:n], q.x[:n]) - q.b[k]; v < -1e-9 {
				t.Errorf("constraint %d is broken by %v", k, -v)
			}
		}
	}
	if solved == 0 || contradictory == 0 {
		t.Errorf("%d programs solved, %d contradict themselves: want some of both", solved-contradictory, contradictory)
	}
}
