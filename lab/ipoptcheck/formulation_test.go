package ipoptcheck

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
)

// everything is a network with all the formulation knows: ratings, angle
// limits, phase shifters, taps, shunts, piecewise linear and cubic and reactive
// costs.
func everything(t *testing.T) *network.Network {
	t.Helper()
	c := networktest.Case(t, "case14")
	for k := range c.Branch {
		if k%2 == 0 {
			c.Branch[k].RateA = 40
		}
		if k%5 == 0 {
			c.Branch[k].AngMin, c.Branch[k].AngMax = -10, 12
		}
	}
	c.Branch[3].ShiftDeg = 7
	c.Gen[1].Cost = matpower.Cost{Model: matpower.PiecewiseLinear, Points: []matpower.Point{{Power: 0, Cost: 0}, {Power: 30, Cost: 600}, {Power: 140, Cost: 5000}}}
	c.Gen[2].Cost = matpower.Cost{Model: matpower.Polynomial, Coefficients: []float64{1e-3, 0.02, 30, 4}}
	c.HasReactiveCost = true
	for g := range c.Gen {
		c.Gen[g].ReactiveCost = matpower.Cost{Model: matpower.Polynomial, Coefficients: []float64{0.01 * float64(g), 0, 0}}
	}
	c.Gen[4].ReactiveCost = matpower.Cost{Model: matpower.PiecewiseLinear, Points: []matpower.Point{{Power: -6, Cost: 6}, {Power: 0, Cost: 0}, {Power: 24, Cost: 48}}}
	return networktest.Of(t, c)
}

// TestDerivatives of objective, constraints and Lagrangian against central
// differences, at random points and multipliers.
func TestDerivatives(t *testing.T) {
	n := everything(t)
	rng := rand.New(rand.NewPCG(2, 9))
	factors := make([]float64, n.Branches())
	for k := range factors {
		factors[k] = math.Exp(0.1 * rng.NormFloat64())
	}
	for _, objective := range []acopf.Objective{{}, {Weights: [3]float64{0.5, 0.2, 0.3}, Ideal: [3]float64{0, 0, 5000}, Nadir: [3]float64{0.01, 0.02, 9000}}} {
		f, err := formulate(n, &acopf.Problem{Objective: objective, BranchFactors: factors})
		if err != nil {
			t.Fatal(err)
		}
		x := append([]float64(nil), f.x0...)
		for i := range x {
			x[i] += 0.1 * rng.NormFloat64()
		}
		m := len(f.glo)
		lambda := make([]float64, m)
		for i := range lambda {
			lambda[i] = rng.NormFloat64()
		}
		const factor, h = 0.7, 1e-6
		jacobian, hessian := make([]float64, len(f.jacobian.row)), make([]float64, len(f.hessian.row))
		f.visitJacobian(x, f.jacobian.fill(jacobian))
		f.visitHessian(x, factor, lambda, f.hessian.fill(hessian))
		gradient := make([]float64, len(x))
		f.gradient(x, gradient)
		dense := func(p *pattern, values []float64, rows int) [][]float64 {
			d := make([][]float64, rows)
			for i := range d {
				d[i] = make([]float64, len(x))
			}
			for k, r := range p.row {
				d[r][p.column[k]] += values[k]
			}
			return d
		}
		dj, dh := dense(&f.jacobian, jacobian, m), dense(&f.hessian, hessian, len(x))
		// The gradient of the Lagrangian at x.
		slope := func(out []float64) {
			f.gradient(x, out)
			for i := range out {
				out[i] *= factor
			}
			f.visitJacobian(x, func(row, column int, v float64) { out[column] += lambda[row] * v })
		}
		near := func(what string, i, j int, got, want, scale float64) {
			t.Helper()
			if !(math.Abs(got-want) <= 1e-6*(scale+math.Abs(want))) {
				t.Errorf("%s (%d, %d): %g, differences give %g", what, i, j, got, want)
			}
		}
		gUp, gDown := make([]float64, m), make([]float64, m)
		lUp, lDown := make([]float64, len(x)), make([]float64, len(x))
		for j := range x {
			middle := x[j]
			x[j] = middle + h
			up := f.objective(x)
			f.constraints(x, gUp)
			slope(lUp)
			x[j] = middle - h
			down := f.objective(x)
			f.constraints(x, gDown)
			slope(lDown)
			x[j] = middle
			near("objective", 0, j, gradient[j], (up-down)/(2*h), 1+0.01*math.Abs(up))
			for i := range m {
				near("constraint", i, j, dj[i][j], (gUp[i]-gDown[i])/(2*h), 1)
			}
			for i := j; i < len(x); i++ {
				// Differences of a number of this size carry its rounding divided by h.
				near("Lagrangian", i, j, dh[i][j], (lUp[i]-lDown[i])/(2*h), 1+0.01*math.Abs(lUp[i]))
				if i > j && dh[j][i] != 0 {
					t.Errorf("the upper triangle has an entry at (%d, %d)", j, i)
				}
			}
		}
	}
}
