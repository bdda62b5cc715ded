package ocp

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

func TestDerivativesAgainstDifferences(t *testing.T) {
	for problem, is := range map[string]domain.Problem{"by hand": tanks{}, "dual": dualTanks{}, "dual, sized": sizedTanks{}, "by stages": stagedTanks{}} {
		for name, p := range testPrograms(is) {
			q := p.q
			name = problem + ", " + name
			if !q.differentiate(p.cur) {
				t.Errorf("%s: a component moves that is not among %v", name, q.active)
			}
			if want := []int{0, 1, 3, 4}; !slices.Equal(q.active, want) {
				t.Errorf("%s: components %v move, want %v: the reference is constant", name, q.active, want)
			}
			const h = 1e-5
			for _, x := range variables(q, p.cur) {
				at := *x.at
				var f [2]float64
				var g, defect [2][]float64
				for side, sign := range []float64{1, -1} {
					*x.at = at + sign*h*x.unit
					q.evaluate(p.cur, false)
					f[side], g[side], defect[side] = p.cur.f, slices.Clone(p.cur.g), slices.Clone(p.cur.defect)
				}
				*x.at = at
				agree := func(what string, got, plus, minus float64) {
					if want := (plus - minus) / (2 * h); !(math.Abs(got-want) < 1e-7) {
						t.Errorf("%s: %s of column %d, stage %d, is %v, differences say %v", name, what, x.col, x.t, got, want)
					}
				}
				var df float64
				if x.t < q.steps {
					df = q.objective[x.t*q.d+x.col]
				}
				if q.tau && x.t == 0 && x.col == q.d-1 {
					df += q.tauCost
				}
				agree("∂f", df, f[0], f[1])
				for i := range p.cur.g {
					var dg float64
					if k := i - q.steps*q.nm; k >= 0 && x.t == q.steps {
						dg = q.totalSlopes[k*q.nX+x.col-q.nu]
					} else if k < 0 && i/q.nm == x.t {
						dg = q.margins[i*q.d+x.col]
					}
					agree("∂g", dg, g[0][i], g[1][i])
				}
				for i := range p.cur.defect {
					var dd float64
					stage, row := i/q.nX, i%q.nX
					if stage == x.t {
						dd = q.next[i*q.d+x.col]
					}
					if stage == x.t-1 && row == x.col-q.nu {
						dd--
					}
					agree("∂ the defect", dd, defect[0][i], defect[1][i])
				}
			}
		}
	}
}

func TestHessianAgainstDifferences(t *testing.T) {
	for problem, is := range map[string]domain.Problem{"by hand": tanks{}, "dual": dualTanks{}, "dual, sized": sizedTanks{}, "by stages": stagedTanks{}} {
		for name, p := range testPrograms(is) {
			q := p.q
			const scale, h = 1.7, 1e-4
			q.differentiate(p.cur)
			q.hessian(p.cur, 0, scale, p.z, p.lambda)
			got := slices.Clone(q.h)
			for _, x := range variables(q, p.cur) {
				if x.t == q.steps {
					continue
				}
				at := *x.at
				var sides [2][]float64
				for side, sign := range []float64{1, -1} {
					*x.at = at + sign*h*x.unit
					q.evaluate(p.cur, false)
					q.differentiate(p.cur)
					q.gradient(x.t, scale, q.stageDuals(x.t, p.z), p.lambda, q.slope)
					sides[side] = slices.Clone(q.slope)
				}
				*x.at = at
				for col := range x.col + 1 {
					want := (sides[0][col] - sides[1][col]) / (2 * h)
					// Second differences: rounding 1e-16/1e-8, truncation 1e-8.
					if v := got[(x.t*q.d+x.col)*q.d+col]; !(math.Abs(v-want) < 1e-5) {
						t.Errorf("%s, %s: ∂²L of columns %d and %d, stage %d, is %v, differences say %v", problem, name, x.col, col, x.t, v, want)
					}
				}
			}
		}
	}
}

// blockTanks is tanks with a GradientBlock of its own arithmetic: expanded
// squares, so that it agrees to rounding and not bitwise.
type blockTanks struct {
	tanks
	calls, rows *int
}

func (p blockTanks) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Derivatives: domain.Derivatives{Block: p.GradientBlock}}
}

func (p blockTanks) GradientBlock(b domain.Block) {
	*p.calls++
	*p.rows += b.Rows
	for r := range b.Rows {
		s, u, c := b.S[2*r:2*r+2], b.U[2*r:2*r+2], b.C[3*r:3*r+3]
		if b.J != nil {
			b.J[2*r] = s[1]*s[1] - 2*s[1]*c[0] + c[0]*c[0]
			b.J[2*r+1] = 0.05*(u[0]*u[0]+u[1]*u[1]) + u[0]*u[0] - 2*u[0]*c[1] + c[1]*c[1] + u[1]*u[1] - 2*u[1]*c[2] + c[2]*c[2]
		}
		if b.GS != nil {
			p.Gradient(s, u, c, b.Sigma[2*r:2*r+2], b.GS[2*r:2*r+2], b.GU[2*r:2*r+2])
		}
	}
}

func (blockTanks) Objectives(s, u, c, J []float64) { panic("a problem with blocks is asked for a row") }

func TestBlocksGiveTheDerivativesOfRows(t *testing.T) {
	var calls, points int
	inRows, inBlocks := testPrograms(tanks{}), testPrograms(blockTanks{calls: &calls, rows: &points})
	for name, rows := range inRows {
		evaluate := func(p *ipm) []float64 {
			q := p.q
			q.evaluate(p.cur, false)
			q.differentiate(p.cur)
			q.hessian(p.cur, 0, 1.3, p.z, p.lambda)
			h := slices.Clone(q.h)
			// Rounding of 1e-16 over the square of the second difference's step is
			// 1e-8; all else is exact to rounding over the first difference's step.
			for i := range h {
				h[i] *= 1e-3
			}
			return slices.Concat([]float64{p.cur.f}, p.cur.g, p.cur.defect, q.objective, q.next, q.margins, h)
		}
		want := evaluate(rows)
		calls, points = 0, 0
		got := evaluate(inBlocks[name])
		for i := range want {
			if !(math.Abs(got[i]-want[i]) < 1e-9) {
				t.Errorf("%s: value %d is %v in blocks, %v row by row", name, i, got[i], want[i])
			}
		}
		// Objectives, gradients, differences in the context, second differences.
		if calls != 4 {
			t.Errorf("%s: %d calls for one evaluation of %d points, want 4", name, calls, points)
		}
	}
}

func TestBlocksSolveToTheTrajectoryOfRows(t *testing.T) {
	var calls, points int
	rows := newTanks(Options{Tolerance: 1e-8})
	blocks, err := New(blockTanks{calls: &calls, rows: &points}, rows.axes, rows.initial, Options{Tolerance: 1e-8})
	if err != nil {
		t.Fatal(err)
	}
	s0, c0 := []float64{0.2, 0.3}, []float64{0.7, 0.4, 0.1}
	want := minimise(t, rows, s0, c0, 30, domain.Preference{Adaptive: true}, domain.WeightedSum)
	got := minimise(t, blocks, s0, c0, 30, domain.Preference{Adaptive: true}, domain.WeightedSum)
	if got.Iterations != want.Iterations || !(math.Abs(got.Cost-want.Cost) < 1e-9) {
		t.Errorf("cost %v in %d iterations, row by row %v in %d", got.Cost, got.Iterations, want.Cost, want.Iterations)
	}
	for i := range want.U {
		for j := range want.U[i] {
			if !(math.Abs(got.U[i][j]-want.U[i][j]) < 1e-6) {
				t.Errorf("step %d: pump %d is %v, row by row %v", i, j, got.U[i][j], want.U[i][j])
			}
		}
	}
	if mean := float64(points) / float64(calls); mean < 100 {
		t.Errorf("%d calls for %d points", calls, points)
	}
}

func TestDualNumbersAndDifferencesHaveOneOptimum(t *testing.T) {
	a, b := newPole(testdomain.Pole{}, Options{Tolerance: 1e-7}), newPole(poleByDifferences{testdomain.Pole{}}, Options{Tolerance: 1e-7})
	rng := rand.New(rand.NewPCG(991, 2))
	for i := range 6 {
		s, c := testdomain.PoleStart(rng)
		pref := domain.Preference{Adaptive: i%2 == 0}
		if !pref.Adaptive {
			pref.W = []float64{0.3, 0.7}
		}
		x, y := minimise(t, a, s, c, testdomain.PoleSteps, pref, ""), minimise(t, b, s, c, testdomain.PoleSteps, pref, "")
		if !(math.Abs(x.Cost-y.Cost) < 1e-7*y.Cost) {
			t.Errorf("start %d: cost %v by dual numbers, %v by differences", i, x.Cost, y.Cost)
		}
	}
}
