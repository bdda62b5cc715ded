package shooting

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/offline"
)

// testPrograms are ready for their derivatives at a point off the dynamics: every
// kind of objective and constraint.
func testPrograms(problem domain.Problem) map[string]*ipm {
	out := map[string]*ipm{}
	for name, configure := range map[string]func(*program){
		"fixed":     func(q *program) { q.weigh(false, []float64{0.7, 0.3}) },
		"adaptive":  func(q *program) { q.weigh(true, nil) },
		"chebyshev": func(q *program) { q.chebyshev([]float64{0.4, 0.6}, []float64{0.1, 0.2}, []float64{1, 0.5}) },
		"epsilon":   func(q *program) { q.epsilonConstraint([]float64{0.4, 0.6}, []float64{0.1, 0.2}, []float64{1, 0.5}) },
	} {
		p := newIPM(newProgram(problem, []float64{0.5, 1}))
		configure(p.q)
		p.place([]float64{0.5, 0.4}, []float64{0.6, 0.4, 0.1}, 6)
		rng := rand.New(rand.NewPCG(3, 1))
		for i := range p.cur.v {
			p.cur.v[i] = 1.6*rng.Float64() - 0.8
		}
		if !p.begin(false) {
			panic("the start is not finite")
		}
		for _, x := range variables(p.q, p.cur) {
			*x.at += 0.05 * x.unit * rng.NormFloat64()
		}
		for i := range p.z {
			p.z[i] = rng.Float64()
		}
		for i := range p.lambda {
			p.lambda[i] = rng.NormFloat64()
		}
		// The last stage's dynamics have no equation.
		clear(p.lambda[p.q.steps*p.q.nX:][:p.q.na])
		p.q.evaluate(p.cur, false)
		out[name] = p
	}
	return out
}

// variable is one that the program optimises, of stage t and column col.
type variable struct {
	at     *float64
	unit   float64
	t, col int
}

func variables(q *program, p *point) (out []variable) {
	for t := range q.steps + 1 {
		for j := range q.nu {
			if t < q.steps {
				out = append(out, variable{&p.v[t*q.nu+j], 1, t, j})
			}
		}
		if t > 0 && t < q.steps {
			for i, a := range q.active {
				out = append(out, variable{&p.x[t*q.nx+a], q.scale[a], t, q.nu + i})
			}
		}
		for k := range q.naug {
			if t > 0 || q.tau && k == q.naug-1 {
				out = append(out, variable{&p.y[t*q.naug+k], 1, t, q.nu + q.na + k})
			}
		}
	}
	return out
}

func minimise(t *testing.T, s *Solver, state, ctx []float64, steps int, pref domain.Preference, how domain.Scalarization) *Trajectory {
	t.Helper()
	best, err := s.Minimise(state, ctx, steps, pref, how, 1)
	if err != nil {
		t.Fatal(err)
	}
	return best
}

func TestDerivativesAgainstDifferences(t *testing.T) {
	for problem, is := range map[string]domain.Problem{"by hand": tanks{}, "dual": dualTanks{}} {
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
						dg = q.ends[k*q.nX+x.col-q.nu]
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
	for problem, is := range map[string]domain.Problem{"by hand": tanks{}, "dual": dualTanks{}} {
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
					q.gradient(x.t, scale, q.ofStage(x.t, p.z), p.lambda, q.slope)
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
	var calls, asked int
	inRows, inBlocks := testPrograms(tanks{}), testPrograms(blockTanks{calls: &calls, rows: &asked})
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
		calls, asked = 0, 0
		got := evaluate(inBlocks[name])
		for i := range want {
			if !(math.Abs(got[i]-want[i]) < 1e-9) {
				t.Errorf("%s: value %d is %v in blocks, %v row by row", name, i, got[i], want[i])
			}
		}
		// Objectives, gradients, differences in the context, second differences.
		if calls != 4 {
			t.Errorf("%s: %d calls for one evaluation of %d points, want 4", name, calls, asked)
		}
	}
}

func TestBlocksSolveToTheTrajectoryOfRows(t *testing.T) {
	var calls, asked int
	rows := newTanks(Options{Tolerance: 1e-8})
	blocks, err := New(blockTanks{calls: &calls, rows: &asked}, rows.axes, rows.initial, Options{Tolerance: 1e-8})
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
	if mean := float64(asked) / float64(calls); mean < 100 {
		t.Errorf("%d calls for %d points", calls, asked)
	}
}

func TestSlacksKeepTheBarrierConditions(t *testing.T) {
	for _, mu := range []float64{0.1, 1e-4, 1e-9} {
		for _, rho := range []float64{1, 1e3, 1e6} {
			for _, g := range []float64{-1e3, -1, -1e-6, 0, 1e-12, 1e-3, 1, 1e4} {
				p := &ipm{mu: mu, rho: rho}
				var s, v [1]float64
				p.slacks([]float64{g}, s[:], v[:])
				if !(s[0] > 0 && v[0] > 0) {
					t.Fatalf("μ %v, ρ %v, g %v: s %v, v %v", mu, rho, g, s[0], v[0])
				}
				if e := math.Abs(mu/s[0]+mu/v[0]-rho) / rho; !(e < 1e-9) {
					t.Errorf("μ %v, ρ %v, g %v: μ/s + μ/v misses ρ by %v", mu, rho, g, e)
				}
				if e := math.Abs(s[0] - v[0] - g); !(e <= 1e-9*math.Max(math.Max(s[0], v[0]), mu/rho)) {
					t.Errorf("μ %v, ρ %v, g %v: s − v misses g by %v", mu, rho, g, e)
				}
			}
		}
	}
}

// quadratic returns H and c of the cart's condensed cost ½uᵀHu + cᵀu + const.
func (p cart) quadratic(s0 []float64, w []float64) (*mat.SymDense, *mat.VecDense) {
	n := p.steps
	h := mat.NewSymDense(n, nil)
	c := mat.NewVecDense(n, nil)
	for t := range n {
		// x_t = x0 + t·dt·v0 + Σ_{k<t} dt²(t−1−k)u_k, v_t = v0 + Σ_{k<t} dt·u_k
		gx, gv := make([]float64, n), make([]float64, n)
		for k := range t {
			gx[k], gv[k] = cartDt*cartDt*float64(t-1-k), cartDt
		}
		x, v := s0[0]+float64(t)*cartDt*s0[1], s0[1]
		for a := range n {
			c.SetVec(a, c.AtVec(a)+2*w[0]*(x*gx[a]+0.5*v*gv[a]))
			for b := range a + 1 {
				h.SetSym(a, b, h.At(a, b)+2*w[0]*(gx[a]*gx[b]+0.5*gv[a]*gv[b]))
			}
		}
		h.SetSym(t, t, h.At(t, t)+2*w[1])
	}
	return h, c
}

func TestUnconstrainedLinearQuadraticOptimum(t *testing.T) {
	p := cart{force: 100, speed: 100, steps: 20}
	for _, w := range [][]float64{{0.5, 0.5}, {0.99, 0.01}, {0.05, 0.95}} {
		s0 := []float64{1.5, -0.4}
		got := minimise(t, newCart(p, Options{Tolerance: 1e-8}), s0, nil, 20, domain.Preference{W: w}, domain.WeightedSum)
		h, c := p.quadratic(s0, w)
		var chol mat.Cholesky
		if !chol.Factorize(h) {
			t.Fatal("the reference Hessian is not positive definite")
		}
		want := mat.NewVecDense(20, nil)
		if err := chol.SolveVecTo(want, c); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			if d := math.Abs(got.U[i][0] + want.AtVec(i)); !(d < 1e-5) {
				t.Errorf("w %v: u%d is %v, the closed form says %v", w, i, got.U[i][0], -want.AtVec(i))
			}
		}
	}
}

// boxOptimum minimises ½uᵀHu + cᵀu in a box by exact coordinate descent.
func boxOptimum(h *mat.SymDense, c *mat.VecDense, bound float64) []float64 {
	n := c.Len()
	u := make([]float64, n)
	for range 20000 {
		change := 0.0
		for i := range n {
			r := c.AtVec(i)
			for j := range n {
				if j != i {
					r += h.At(i, j) * u[j]
				}
			}
			next := math.Max(-bound, math.Min(bound, -r/h.At(i, i)))
			change = math.Max(change, math.Abs(next-u[i]))
			u[i] = next
		}
		if change < 1e-13 {
			break
		}
	}
	return u
}

func TestBoxConstrainedOptimum(t *testing.T) {
	p := cart{force: 0.7, speed: 100, steps: 20}
	s0, w := []float64{2, 1}, []float64{0.9, 0.1}
	got := minimise(t, newCart(p, Options{Tolerance: 1e-8}), s0, nil, 20, domain.Preference{W: w}, domain.WeightedSum)
	h, c := p.quadratic(s0, w)
	active := 0
	for i, want := range boxOptimum(h, c, 0.7) {
		if math.Abs(want) == 0.7 {
			active++
		}
		// A multiplier of 1e-4 of the largest derivative leaves its action 1e-4 free
		// at a complementarity of 1e-8.
		if d := math.Abs(got.U[i][0] - want); !(d < 1e-4) {
			t.Errorf("u%d is %v, coordinate descent says %v", i, got.U[i][0], want)
		}
	}
	if active < 3 {
		t.Errorf("the bound binds in %d steps only: the test is too easy", active)
	}
}

// The optimality conditions of a margin-constrained solution are checked from
// outside: multipliers are fitted by least squares to derivatives of the cost.
func TestMarginConstrainedOptimum(t *testing.T) {
	p := cart{force: 5, speed: 0.5, steps: 15}
	s0, w := []float64{-2, 0}, []float64{0.95, 0.05}
	got := minimise(t, newCart(p, Options{Tolerance: 1e-8}), s0, nil, 15, domain.Preference{W: w}, domain.WeightedSum)
	h, c := p.quadratic(s0, w)
	u := mat.NewVecDense(15, nil)
	for i := range 15 {
		u.SetVec(i, got.U[i][0])
	}
	gradient := mat.NewVecDense(15, nil)
	gradient.MulVec(h, u)
	gradient.AddVec(gradient, c)
	var tight []int
	for i, m := range got.Margins {
		if m[0] < -1e-8 {
			t.Errorf("margin %d is %v", i, m[0])
		}
		if m[0] < 1e-5 {
			tight = append(tight, i)
		}
	}
	if len(tight) < 3 {
		t.Fatalf("the speed limit binds in %d steps only: the test is too easy", len(tight))
	}
	// ∇f = Σ z_i ∇m_i with ∂m_i/∂u_k = −dt for k ≤ i.
	a := mat.NewDense(15, len(tight), nil)
	for col, i := range tight {
		for k := range i + 1 {
			a.Set(k, col, -cartDt)
		}
	}
	var z mat.VecDense
	if err := z.SolveVec(a, gradient); err != nil {
		t.Fatal(err)
	}
	var r mat.VecDense
	r.MulVec(a, &z)
	r.SubVec(gradient, &r)
	if norm := mat.Norm(&r, math.Inf(1)); !(norm < 1e-4) {
		t.Errorf("the cost's gradient is not in the cone of the binding margins: residual %v", norm)
	}
	for i := range z.Len() {
		if z.AtVec(i) < -1e-5 {
			t.Errorf("multiplier %d is %v", i, z.AtVec(i))
		}
	}
}

func TestInfeasibleAndNotConverged(t *testing.T) {
	p := cart{force: 1, speed: 0.5, steps: 10}
	// One step changes the speed by at most 0.2: 1 − 0.2 > 0.5 cannot be kept.
	solver := newCart(p, Options{Starts: 2})
	if _, err := solver.Solve(0, []float64{0, 1}, domain.Preference{W: []float64{0.5, 0.5}}, domain.WeightedSum, 1); !errors.Is(err, domain.ErrInfeasible) {
		t.Errorf("an infeasible scenario gives %v", err)
	}
	if _, err := solver.Solve(0, []float64{0, 0.69}, domain.Preference{W: []float64{0.5, 0.5}}, domain.WeightedSum, 1); err != nil {
		t.Errorf("a barely feasible scenario gives %v", err)
	}
	// From far beyond the limit the violation, not the objective, decides.
	if _, err := solver.Solve(0, []float64{1000, 0.4}, domain.Preference{W: []float64{1, 0}}, domain.WeightedSum, 1); err != nil {
		t.Errorf("a distant start gives %v", err)
	}
	short := newTanks(Options{Iterations: 2})
	if _, err := short.Solve(0, []float64{0.5, 0.4, 0.6}, domain.Preference{Adaptive: true}, domain.WeightedSum, 1); !errors.Is(err, domain.ErrNotConverged) {
		t.Errorf("two iterations give %v", err)
	}
	adaptive := domain.Preference{Adaptive: true}
	for _, c := range []struct {
		want string
		pref domain.Preference
		how  domain.Scalarization
	}{
		{"sum to", domain.Preference{W: []float64{1, 1}}, domain.WeightedSum},
		{"no fixed weights", adaptive, domain.Chebyshev},
		{"unknown scalarization", domain.Preference{W: []float64{1, 0}}, "x"},
	} {
		if _, err := solver.Solve(0, []float64{0, 0}, c.pref, c.how, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, want %q", err, c.want)
		}
	}
	for _, bad := range []Options{{Horizon: 1000000}, {Keep: 40}, {Starts: -1}, {Tolerance: 2}, {StateScale: []float64{1}}, {StateScale: []float64{1, 0}}, {PerturbScale: -1}, {Perturbed: -1}, {Follow: -1}} {
		if _, err := New(tanks{}, nil, func(p, s, c []float64) {}, bad); err == nil {
			t.Errorf("the options %+v were accepted", bad)
		}
	}
}

func TestSamplesAreStepsOfOneTrajectory(t *testing.T) {
	solver := newTanks(Options{Perturbed: 3, Tolerance: 1e-7})
	pref := domain.Preference{Adaptive: true}
	p := []float64{0.5, 0.3, 0.7}
	samples, err := solver.Solve(4, p, pref, domain.WeightedSum, 11)
	if err != nil {
		t.Fatal(err)
	}
	again, err := solver.Solve(4, p, pref, domain.WeightedSum, 11)
	if err != nil || !reflect.DeepEqual(samples, again) {
		t.Errorf("the same call gives other samples, %v", err)
	}
	if n := 29 + 3 - int(solver.Counts().PerturbedDropped)/2; len(samples) != n {
		t.Fatalf("%d samples, want %d", len(samples), n)
	}
	problem := tanks{}
	spec := problem.Spec()
	for i, s := range samples {
		if s.KKT > 1e-7 || s.Scenario != 4 || len(s.U) != 4 || !s.Preference.Adaptive {
			t.Errorf("sample %d is %+v", i, s)
		}
		delta, sigma, j := make([]float64, 2), make([]float64, 2), make([]float64, 2)
		problem.Indicators(s.S, s.U[:2], s.C, delta)
		spec.Semantic.Priority(delta, sigma)
		problem.Objectives(s.S, s.U[:2], s.C, j)
		if !reflect.DeepEqual(sigma, s.Sigma) || !reflect.DeepEqual(j, s.J) {
			t.Errorf("sample %d has σ %v, J %v, want %v, %v", i, s.Sigma, s.J, sigma, j)
		}
		base := make([]float64, 4)
		problem.Base(s.S, s.C, base)
		for k := range base {
			if s.Target[k] != s.U[k]-base[k] {
				t.Errorf("sample %d has target %v for the plan %v from %v", i, s.Target, s.U, base)
			}
		}
		if s.Perturbed != (i >= 29) || s.Perturbed != (s.Trajectory > 0) {
			t.Errorf("sample %d is number %d of trajectory %d, perturbed %v", i, s.Step, s.Trajectory, s.Perturbed)
		}
		if s.Perturbed || i == 0 {
			continue
		}
		before := samples[i-1]
		sn, cn := make([]float64, 2), make([]float64, 3)
		problem.Step(before.S, before.C, before.U[:2], sn, cn)
		if s.Step != i || !reflect.DeepEqual(sn, s.S) || !reflect.DeepEqual(cn, s.C) || before.U[2] != s.U[0] {
			t.Errorf("sample %d does not follow sample %d", i, i-1)
		}
	}
}

// What follows a perturbed state's first step are samples too; those of one step are among them.
func TestPerturbedSolutionsAreFollowed(t *testing.T) {
	const follow = 4
	pref, p := domain.Preference{Adaptive: true}, []float64{0.5, 0.3, 0.7}
	solve := func(follow int) []domain.Sample {
		samples, err := newTanks(Options{Perturbed: 3, Tolerance: 1e-7, Follow: follow}).Solve(4, p, pref, domain.WeightedSum, 11)
		if err != nil {
			t.Fatal(err)
		}
		return samples
	}
	var firsts, before []domain.Sample
	rows := 0
	for _, s := range solve(follow) {
		if len(before) > 0 && s.Perturbed && before[0].Trajectory == s.Trajectory {
			rows++
			sn, cn := make([]float64, 2), make([]float64, 3)
			tanks{}.Step(before[0].S, before[0].C, before[0].U[:2], sn, cn)
			if s.Step != before[0].Step+1 || !reflect.DeepEqual(sn, s.S) || !reflect.DeepEqual(cn, s.C) || before[0].U[2] != s.U[0] {
				t.Errorf("step %d of trajectory %d does not follow the one before", s.Step, s.Trajectory)
			}
		} else {
			firsts = append(firsts, s)
		}
		before = nil
		if s.Perturbed {
			before = []domain.Sample{s}
		}
	}
	if want := solve(0); !reflect.DeepEqual(firsts, want) || rows < follow-1 {
		t.Errorf("%d samples that follow none and %d that follow one, want the %d of a solver that follows none, and more", len(firsts), rows, len(want))
	}
}

// A tail of an optimal trajectory is optimal for the remaining horizon
// (Bellman), so solving again from its middle changes nothing.
func TestTailsAreOptimal(t *testing.T) {
	solver := newTanks(Options{Tolerance: 1e-8})
	pref := domain.Preference{Adaptive: true}
	whole := minimise(t, solver, []float64{0.2, 0.3}, []float64{0.7, 0.4, 0.1}, 30, pref, domain.WeightedSum)
	tail := minimise(t, solver, whole.S[12], whole.C[12], 18, pref, domain.WeightedSum)
	for i, u := range tail.U {
		for j := range u {
			if d := math.Abs(u[j] - whole.U[12+i][j]); !(d < 1e-4) {
				t.Errorf("step %d: pump %d is %v, the whole trajectory has %v", 12+i, j, u[j], whole.U[12+i][j])
			}
		}
	}
}

func TestScalarizations(t *testing.T) {
	solver := newTanks(Options{Tolerance: 1e-6})
	s0, c0 := []float64{0.2, 0.3}, []float64{0.7, 0.4, 0.1}
	task := task{solver: solver, state: s0, ctx: c0, steps: 20}
	ideal, spread, _, err := task.payoff()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range [][]float64{{0.5, 0.5}, {0.8, 0.2}, {0.25, 0.75}} {
		pref := domain.Preference{W: w}
		got := minimise(t, solver, s0, c0, 20, pref, domain.Chebyshev)
		cost := got.Total()
		a, b := w[0]*(cost[0]-ideal[0])/spread[0], w[1]*(cost[1]-ideal[1])/spread[1]
		// On a connected front both weighted distances are equal at the optimum.
		if !(math.Abs(a-b) < 1e-4) {
			t.Errorf("w %v: weighted distances %v and %v differ", w, a, b)
		}
		// A weighted sum cannot be better in both objectives.
		sum := minimise(t, solver, s0, c0, 20, pref, domain.WeightedSum)
		if o := sum.Total(); o[0] < cost[0]-1e-6 && o[1] < cost[1]-1e-6 {
			t.Errorf("w %v: %v is dominated by %v", w, cost, o)
		}
		if w[0]*sum.Total()[0]+w[1]*sum.Total()[1] > w[0]*cost[0]+w[1]*cost[1]+1e-6 {
			t.Errorf("w %v: the weighted sum's own minimum %v is above that of %v", w, sum.Total(), cost)
		}
		got = minimise(t, solver, s0, c0, 20, pref, domain.EpsilonConstraint)
		bounded := 1
		if w[1] > w[0] {
			bounded = 0
		}
		limit := ideal[bounded] + (1-w[bounded])*spread[bounded]
		if v := got.Total()[bounded]; !(math.Abs(v-limit) < 1e-4*spread[bounded]) {
			t.Errorf("w %v: objective %d is %v, its bound %v", w, bounded, v, limit)
		}
	}
}

func TestMultiStartIsNeverWorse(t *testing.T) {
	one, four := newTanks(Options{}), newTanks(Options{Starts: 4})
	rng := rand.New(rand.NewPCG(2, 2))
	for range 5 {
		s0, c0 := []float64{0.1 + 0.8*rng.Float64(), 0.1 + 0.7*rng.Float64()}, []float64{0.2 + 0.6*rng.Float64(), 0.4, 0.1}
		a := minimise(t, one, s0, c0, 30, domain.Preference{Adaptive: true}, domain.WeightedSum)
		b := minimise(t, four, s0, c0, 30, domain.Preference{Adaptive: true}, domain.WeightedSum)
		if b.Cost > a.Cost {
			t.Errorf("four starts cost %v, one %v", b.Cost, a.Cost)
		}
	}
}

// Every scenario of the tanks' box must converge, in few iterations; the time
// of a solve is BenchmarkTanks.
func TestTanksConverge(t *testing.T) {
	solver := newTanks(Options{})
	rng := rand.New(rand.NewPCG(7, 7))
	scenarios := 40
	if testing.Short() {
		scenarios = 6
	}
	for i := range scenarios {
		p := []float64{0.1 + 0.8*rng.Float64(), 0.1 + 0.7*rng.Float64(), 0.2 + 0.65*rng.Float64()}
		pref := domain.Preference{Adaptive: true}
		if i%2 == 1 {
			w := rng.Float64()
			pref = domain.Preference{W: []float64{w, 1 - w}}
		}
		if _, err := solver.Solve(i, p, pref, domain.WeightedSum, 1); err != nil {
			t.Errorf("scenario %v, %+v: %v", p, pref, err)
		}
	}
	c := solver.Counts()
	if mean := float64(c.Iterations) / float64(c.Starts); mean > 25 {
		t.Errorf("a solve takes %.1f iterations", mean)
	}
}

func TestGeneratesADataset(t *testing.T) {
	var hashes []string
	for _, threads := range []int{1, 3} {
		dir := t.TempDir()
		counters, err := offline.Generate(context.Background(), domain.Case{Problem: tanks{}, Solver: newTanks(Options{Perturbed: 1})}, offline.Options{
			Scenarios: 6, Adaptive: true, Weights: offline.Weights{Count: 1}, Seed: 3, OutDir: dir, Threads: threads, Chunk: 4,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if counters.Retained != 6 || counters.Samples < 6*2*29 {
			t.Errorf("counters are %+v", counters)
		}
		d, err := offline.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Check(tanks{}), d.Verify()); err != nil {
			t.Error(err)
		}
		hashes = append(hashes, d.Hash())
	}
	if hashes[0] != hashes[1] {
		t.Error("one and three threads make different datasets")
	}
}

func BenchmarkTanks(b *testing.B) {
	solver := newTanks(Options{})
	for i := range b.N {
		p := []float64{0.1 + 0.8*math.Mod(0.618*float64(i), 1), 0.1 + 0.7*math.Mod(0.414*float64(i), 1), 0.2 + 0.65*math.Mod(0.732*float64(i), 1)}
		if _, err := solver.Solve(0, p, domain.Preference{Adaptive: true}, domain.WeightedSum, 1); err != nil {
			b.Fatal(err)
		}
	}
}

// losing is a cart that is lost below some position.
type losing struct {
	cart
	below float64
}

func (p losing) Failed(s, _ []float64) bool { return s[0] < p.below }

// A way through a lost state is none, however cheap.
func TestNoOptimumLeadsThroughALostState(t *testing.T) {
	for below, want := range map[float64]error{0.5: domain.ErrInfeasible, -3: nil} {
		p := losing{cart{force: 5, speed: 10, steps: 12}, below}
		s, err := New(p, nil, func(_, s, _ []float64) { s[0] = 1 }, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Minimise([]float64{1, 0}, nil, 12, domain.Preference{Adaptive: true}, domain.WeightedSum, 1); !errors.Is(err, want) {
			t.Errorf("lost below %g: %v, want %v", below, err, want)
		}
	}
}
