package opf

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// randomProgram has strictly convex steps, rows of one step and of two, some of which
// contradict the boxes.
func randomProgram(rng *rand.Rand, n, steps, rows int) *horizonProgram {
	p := newHorizonProgram(n, steps)
	p.price = 50
	for k := range steps {
		root := make([]float64, n*n)
		for i := range root {
			root[i] = rng.NormFloat64()
		}
		h := p.hessian[k*n*n:]
		for a := range n {
			for b := range n {
				for i := range n {
					h[a*n+b] += root[i*n+a] * root[i*n+b]
				}
			}
			h[a*n+a] += 0.1
		}
	}
	for j := range p.gradient {
		p.gradient[j] = 3 * rng.NormFloat64()
		p.lo[j], p.hi[j] = -0.1-rng.Float64(), 0.1+rng.Float64()
	}
	vector := func() []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	for i := range rows {
		r := elasticRow{step: rng.IntN(steps), sign: 1 - 2*float64(i%2), current: vector(), bound: 0.4 * rng.NormFloat64()}
		if r.step > 0 && i%3 == 0 {
			r.previous = vector()
		}
		p.rows = append(p.rows, r)
	}
	return p
}

// The answer meets the conditions of optimality, which for a convex program are enough:
// stationary, inside its boxes, every multiplier of the right sign and complementary; the
// multiplier of a row that is broken is the price.
func TestHorizonProgramIsOptimal(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for trial := range 60 {
		n, steps := 1+rng.IntN(9), 1+rng.IntN(5)
		rows := rng.IntN(12 * steps)
		p := randomProgram(rng, n, steps, rows)
		name := fmt.Sprintf("trial %d: %d variables, %d steps, %d rows", trial, n, steps, rows)
		if !p.solve() {
			t.Fatalf("%s: no answer", name)
		}
		left := make([]float64, n*steps)
		for j := range left {
			k := j / n
			left[j] = p.gradient[j] - p.below[j] + p.above[j]
			for i := range n {
				left[j] += p.hessian[j*n+i] * p.x[k*n+i]
			}
			if p.x[j] < p.lo[j] || p.x[j] > p.hi[j] || p.below[j] < 0 || p.above[j] < 0 {
				t.Fatalf("%s: variable %d is %v in [%v, %v], multipliers %v and %v", name, j, p.x[j], p.lo[j], p.hi[j], p.below[j], p.above[j])
			}
			if slack := math.Max(p.below[j]*(p.x[j]-p.lo[j]), p.above[j]*(p.hi[j]-p.x[j])); slack > 1e-7 {
				t.Fatalf("%s: variable %d is not complementary: %v", name, j, slack)
			}
		}
		for i := range p.rows {
			r, z := &p.rows[i], p.state[i].z
			at := r.step * n
			value := -r.bound
			for a := range n {
				value += r.sign * r.current[a] * p.x[at+a]
				left[at+a] -= z * r.sign * r.current[a]
				if r.previous != nil {
					value += r.sign * r.previous[a] * p.x[at-n+a]
					left[at-n+a] -= z * r.sign * r.previous[a]
				}
			}
			if z < 0 || z > p.price {
				t.Fatalf("%s: row %d has the multiplier %v, want 0 to %v", name, i, z, p.price)
			}
			if value > 1e-6 && z > 1e-5 || value < -1e-6 && z < p.price-1e-5 {
				t.Fatalf("%s: row %d leaves %v at the multiplier %v of at most %v", name, i, value, z, p.price)
			}
		}
		for j, v := range left {
			if math.Abs(v) > 1e-6 {
				t.Fatalf("%s: not stationary in variable %d: %v", name, j, v)
			}
		}
	}
}
