package opf

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// counted is what a dispatch is counted by.
func counted(y *System, s, c, u []float64) float64 {
	J, m := make([]float64, objectives), make([]float64, y.layout.margins)
	y.Score(s, c, u, J, m)
	return stageCost(J, nil)
}

// The bound of a decision is no less than what it costs above the exact secure optimum, and small at the optimum.
func TestGapBoundsWhatADecisionCostsAboveTheOptimum(t *testing.T) {
	y := Secure().Problem.(*System)
	rng := rand.New(rand.NewPCG(21, 4))
	for _, levels := range [][2]float64{{0.74, 0.76}, {0.885, 0.89}} {
		s, c, best := secureAt(t, y, levels[0], levels[1])
		u, result := make([]float64, 2*y.layout.gens), optimum(best)
		y.setPoints(&result, u)
		least := counted(y, s, c, u)
		if gap := y.gap(s, c, adaptive.Preference, u); !(gap >= 0 && gap < 5e-4) {
			t.Errorf("level %v: %v at the optimum", levels[1], gap)
		}
		for _, size := range []float64{0.01, 0.1} {
			v := slices.Clone(u)
			for g := range y.layout.gens {
				v[g] += size * rng.NormFloat64()
				v[y.layout.gens+g] += size / 4 * rng.NormFloat64()
			}
			if !y.Project(s, c, v) {
				t.Fatalf("level %v: a dispatch %v away is not projected", levels[1], size)
			}
			above := counted(y, s, c, v)/least - 1
			if gap := y.gap(s, c, adaptive.Preference, v); !(gap > above-1e-6 && gap < 50*above+1e-3) {
				t.Errorf("level %v, %v away: bound %v, above by %v", levels[1], size, gap, above)
			}
		}
		if u[0] = y.Network.PMin[0]; !math.IsInf(y.gap(s, c, adaptive.Preference, u), 1) { // beyond the ramp
			t.Errorf("level %v: a dispatch that breaks a limit has a bound", levels[1])
		}
	}
}

// The slopes of what a dispatch is counted by are its derivatives along the power flow.
func TestSlopesAreDerivatives(t *testing.T) {
	y := Secure().Problem.(*System)
	s, c, u := dispatchNear(t, y, 0.93)
	w := newWorkspace(y)
	weights := [objectives]float64{3e4, 2e4, 1}
	value := func() float64 {
		if !w.dispatch(s, c, u) {
			t.Fatal("no power flow")
		}
		var J [objectives]float64
		w.objectives(c, J[:])
		return weights[0]*J[0] + weights[1]*J[1] + weights[2]*J[2]
	}
	value()
	w.linear.LineariseAt(w.solver)
	w.certificate = newCertificate(w)
	w.slopes(c, weights)
	total := slices.Clone(w.certificate.total)
	for j, at := range w.projection.control {
		const step = 1e-4
		keep := u[at]
		u[at] = keep + step
		up := value()
		u[at] = keep - step
		down := value()
		u[at] = keep
		if want := (up - down) / (2 * step); math.Abs(total[j]-want) > 1e-3*(10+math.Abs(want)) {
			t.Errorf("control %d: %v, differences say %v", at, total[j], want)
		}
	}
}

// Without limits leastCost is the minimum of its quadratic; with them no feasible point near is less.
func TestLeastCostIsLeast(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 11))
	const n = 6
	for range 50 {
		m := &metric{rank: 2, diagonal: make([]float64, n), modes: make([]float64, 2*n)}
		for j := range n {
			m.diagonal[j], m.modes[2*j], m.modes[2*j+1] = 0.1+rng.Float64(), rng.NormFloat64(), rng.NormFloat64()
		}
		p := leastCost{leastChange: newLeastChange(n)}
		p.metric, p.slack = m, 1e-9
		p.reset()
		slope := make([]float64, n)
		for j := range n {
			p.lo[j], p.hi[j], slope[j] = -0.5, 0.5, rng.NormFloat64()
		}
		p.begin(slope)
		var rows [][]float64
		for range 2 {
			row := p.add(-0.1)
			for j := range row {
				row[j] = rng.NormFloat64()
			}
			rows = append(rows, slices.Clone(row))
			p.complete()
		}
		p.solve(0, 1e-12)
		var inverse mat.Dense
		require.OK(t, inverse.Inverse(mat.NewDense(n, n, m.dense())))
		cost := func(x []float64) (sum float64) {
			for i := range x {
				sum += slope[i] * x[i]
				for j := range x {
					sum += x[i] * inverse.At(i, j) * x[j] / 2
				}
			}
			return sum
		}
		keeps := func(x []float64, slack float64) bool {
			for j, v := range x {
				if lo, hi := p.box(j); v < lo-slack || v > hi+slack || math.Abs(lo+0.5)+math.Abs(hi-0.5) > 1e-9 {
					return false
				}
			}
			for k, row := range rows {
				sum := 0.0
				for j, v := range row {
					sum += v * x[j]
				}
				if sum < -0.1-slack || math.Abs(p.boundOf(k)+0.1) > 1e-9 {
					return false
				}
			}
			return true
		}
		if !keeps(p.x, 1e-7) {
			t.Fatalf("%v breaks a limit", p.x)
		}
		for range 500 {
			x := slices.Clone(p.x)
			for j := range x {
				x[j] += 0.05 * rng.NormFloat64()
			}
			if keeps(x, 0) && cost(x) < cost(p.x)-1e-7 {
				t.Fatalf("%v costs %v, %v costs %v", x, cost(x), p.x, cost(p.x))
			}
		}
	}
}

// A program that begins at what another one held, or at anything, has the answer of one that begins at nothing.
func TestLeastCostGoesOnFromWhatIsHeld(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 3))
	const n, rows = 20, 8
	for range 40 {
		m := &metric{diagonal: make([]float64, n)}
		slope, coefficients := make([]float64, n), make([]float64, rows*n)
		for j := range n {
			m.diagonal[j], slope[j] = 1+rng.Float64(), rng.NormFloat64()
		}
		for i := range coefficients {
			coefficients[i] = rng.NormFloat64()
		}
		program := func(shift float64) *leastCost {
			p := &leastCost{leastChange: newLeastChange(n)}
			p.metric, p.slack = m, 1e-7
			p.reset()
			moved := slices.Clone(slope)
			for j := range n {
				p.lo[j], p.hi[j] = -0.5, 0.5
				moved[j] += shift * float64(j%3-1)
			}
			p.begin(moved)
			for k := range rows {
				copy(p.add(-0.1), coefficients[k*n:(k+1)*n])
				p.complete()
			}
			return p
		}
		want, other := program(0), program(0.01)
		want.solve(0, 1e-12)
		other.solve(0, 1e-12)
		random := program(0)
		for j := range random.side {
			random.side[j] = int8(rng.IntN(3) - 1)
		}
		for k := range random.binds {
			random.binds[k] = rng.IntN(2) == 0
		}
		for name, from := range map[string]*leastCost{"another's": other, "random": random} {
			got := program(0)
			copy(got.side, from.side)
			copy(got.binds, from.binds)
			got.nearby = true
			got.solve(0, 1e-12)
			for j, x := range got.x {
				if math.Abs(x-want.x[j]) > 1e-6 {
					t.Fatalf("from %s constraints: x[%d] is %v, want %v", name, j, x, want.x[j])
				}
			}
		}
	}
}
