package ocp

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"gonum.org/v1/gonum/mat"
)

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

// Slopes that are kept between residuals are those of the iterate: after any number of steps, warm ones too, and where a solve goes on from another.
func TestKeptSlopesAreThoseOfTheIterate(t *testing.T) {
	made := func() *ipm {
		p := newIPM(newProgram(testdomain.Pole{}, []float64{1, 1, 0.3, 1}))
		p.q.setWeights(false, []float64{0.3, 0.7})
		return p
	}
	at := []float64{0.4, 0, 0.3, 0.2, 0, 0}
	var p *ipm
	for iterations := range 2 * warmIterations {
		p = made()
		p.opt = ipmOptions{tolerance: 1e-9, iterations: iterations, mu: firstBarrier, warm: true}
		p.setInitialState(at[:4], at[4:], 20)
		clear(p.cur.v)
		if !p.start(true, nil) {
			t.Fatal("the start is not finite")
		}
		r, _ := p.minimise()
		p.slopesValid = false
		if kkt, elastic, violation := p.residual(0); r.kkt != kkt || r.elasticKKT != elastic || r.violation != violation {
			t.Errorf("after %d iterations the residuals are %v, %v and %v, want %v, %v and %v", iterations, r.kkt, r.elasticKKT, r.violation, kkt, elastic, violation)
		}
	}
	var barriers [2]float64
	for i := range barriers {
		q := made()
		q.opt = p.opt
		q.setInitialState(at[:4], at[4:], 20)
		q.start(true, nil)
		for k := range q.slopes {
			q.slopes[k] = 1e3
		}
		q.slopesValid = i == 1 // of a solve before
		if !q.warmStart(p, 1, at, 19, true) {
			t.Fatal("the solve does not go on")
		}
		barriers[i] = q.mu
	}
	if barriers[0] != barriers[1] {
		t.Errorf("the barrier begins at %v, want %v", barriers[1], barriers[0])
	}
}

// hill is a cart whose cost is its position above a level, which nearly cancels over a plan.
type hill struct {
	cart
	level float64
}

func (p hill) Objectives(s, u, c, J []float64) { J[0], J[1] = 10*(s[0]-p.level), 0 }
func (hill) Gradient(s, u, c, sigma, gs, gu []float64) {
	gs[0], gs[1], gu[0] = 10*sigma[0], 0, 0
}

// A reference is an optimum however small its cost is beside its derivatives: what every limit's product leaves of the
// cost adds up over a plan.
func TestAReferenceOfSmallCostIsAnOptimum(t *testing.T) {
	p := hill{cart: cart{force: 1, speed: 100, steps: 40}}
	total, s := 0.0, []float64{1, 0.5}
	for range p.steps { // full force backwards
		total += 10 * s[0]
		s = []float64{s[0] + cartDt*s[1], s[1] - cartDt}
	}
	p.level = (total - 2) / 10 / float64(p.steps)
	axes := []domain.Variable{{Name: "x", Lo: -2, Hi: 2}, {Name: "v", Lo: -1, Hi: 1}}
	solver, err := New(p, axes, func(q, s, c []float64) { copy(s, q) }, Options{})
	if err != nil {
		t.Fatal(err)
	}
	cost, _, err := solver.Oracle(t.Context(), []float64{1, 0.5}, nil, p.steps, domain.Preference{W: []float64{0.5, 0.5}})
	if err != nil || !(math.Abs(cost-1) < 1e-6) {
		t.Errorf("cost %v, %v, want 1", cost, err)
	}
}
