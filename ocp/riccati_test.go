package ocp

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/tensor"
)

// stages is a random quadratic program with the sizes of a riccati.
type stages struct {
	r                        riccati
	h, f, lin, b, end, endLn []float64
}

func randomStages(rng *rand.Rand, steps, nu, nX int, free bool, curvature float64) *stages {
	s := new(stages)
	s.r.resize(make([]bool, steps), nu, nX, free)
	d := nu + nX
	normal := func(n int) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = rng.NormFloat64()
		}
		return out
	}
	square := func(n int, shift float64) []float64 {
		g := normal(n * n)
		out := make([]float64, n*n)
		for i := range n {
			for j := range n {
				out[i*n+j] = tensor.DotInOrder(g[i*n:(i+1)*n], g[j*n:(j+1)*n])
			}
			out[i*n+i] += shift
		}
		return out
	}
	s.h = make([]float64, 0, steps*d*d)
	for range steps {
		s.h = append(s.h, square(d, curvature)...)
	}
	s.f, s.lin, s.b = normal(steps*nX*d), normal(steps*d), normal(steps*nX)
	s.end, s.endLn = square(nX, 1), normal(nX)
	copy(s.r.P[steps*nX*nX:], s.end)
	copy(s.r.p[steps*nX:], s.endLn)
	return s
}

// dense is the program over all of υ_0, [τ], υ_1, ξ_1 … ξ_N at once: its Hessian,
// linear terms, and equations A x = −b; columns maps (stage, column) to a variable.
func (s *stages) dense() (h, a *mat.Dense, lin, b *mat.VecDense, column func(t, col int) int) {
	r := &s.r
	steps, nu, nX, d := r.steps, r.nu, r.nX, r.d
	places, n := make([]int, (steps+1)*d), 0
	for i := range places {
		t, col := i/d, i%d
		switch {
		case col < nu && t < steps && r.blocked[t]:
			places[i] = places[i-d]
		case t == steps && col < nu, t == 0 && col >= nu && !(r.lastFree && col == d-1):
			places[i] = -1
		default:
			places[i] = n
			n++
		}
	}
	m := steps * nX
	column = func(t, col int) int { return places[t*d+col] }
	h, a, lin, b = mat.NewDense(n, n, nil), mat.NewDense(m, n, nil), mat.NewVecDense(n, nil), mat.NewVecDense(m, nil)
	for t := range steps + 1 {
		for i := range d {
			ci := column(t, i)
			if ci < 0 || t == steps && i < nu {
				continue
			}
			if t == steps {
				lin.SetVec(ci, s.endLn[i-nu])
			} else {
				lin.SetVec(ci, lin.AtVec(ci)+s.lin[t*d+i])
			}
			for j := range d {
				cj := column(t, j)
				switch {
				case cj < 0 || t == steps && j < nu:
				case t == steps:
					h.Set(ci, cj, s.end[(i-nu)*nX+j-nu])
				default:
					h.Set(ci, cj, h.At(ci, cj)+s.h[(t*d+max(i, j))*d+min(i, j)])
				}
			}
			if t == steps {
				continue
			}
			for k := range nX {
				a.Set(t*nX+k, ci, s.f[(t*nX+k)*d+i])
			}
		}
	}
	for i := range m {
		b.SetVec(i, s.b[i])
		a.Set(i, column(i/nX+1, nu+i%nX), -1)
	}
	return h, a, lin, b, column
}

// block gives stages of every other program the action of the stage before.
func (s *stages) block(rng *rand.Rand, trial int) {
	for t := range s.r.blocked {
		s.r.blocked[t] = t > 0 && trial%2 == 0 && rng.IntN(2) == 0
	}
}

func TestRiccatiSolvesTheDenseConditions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for trial := range 60 {
		steps, nu, nX, free := 1+rng.IntN(6), 1+rng.IntN(3), 1+rng.IntN(4), trial%3 == 0
		s := randomStages(rng, steps, nu, nX, free, 0.1)
		s.block(rng, trial)
		if !s.r.factor(s.h, s.f, 0, 0) {
			t.Fatalf("trial %d: a positive definite program does not factor", trial)
		}
		d := s.r.d
		w, last, lambda := make([]float64, steps*d), make([]float64, nX), make([]float64, (steps+1)*nX)
		s.r.solve(s.lin, s.f, s.b, w, last, lambda)
		h, a, lin, b, column := s.dense()
		n, m := lin.Len(), b.Len()
		kkt, rhs := mat.NewDense(n+m, n+m, nil), mat.NewVecDense(n+m, nil)
		kkt.Slice(0, n, 0, n).(*mat.Dense).Copy(h)
		kkt.Slice(n, n+m, 0, n).(*mat.Dense).Copy(a)
		kkt.Slice(0, n, n, n+m).(*mat.Dense).Copy(a.T())
		for i := range n {
			rhs.SetVec(i, -lin.AtVec(i))
		}
		for i := range m {
			rhs.SetVec(n+i, -b.AtVec(i))
		}
		var want mat.VecDense
		if err := want.SolveVec(kkt, rhs); err != nil {
			t.Fatal(err)
		}
		near := func(what string, got, want float64) {
			if !(math.Abs(got-want) < 1e-7*(1+math.Abs(want))) {
				t.Errorf("trial %d: %s is %v, the dense conditions say %v", trial, what, got, want)
			}
		}
		for stage := range steps + 1 {
			for col := range d {
				c := column(stage, col)
				switch {
				case stage == steps && col >= s.r.nu:
					near("ξ_N", last[col-s.r.nu], want.AtVec(c))
				case stage < steps && c >= 0:
					near("w", w[stage*d+col], want.AtVec(c))
				}
			}
		}
		for i := range m {
			near("λ", lambda[nX+i], want.AtVec(n+i))
		}
	}
}

// The factorisation succeeds exactly where the Hessian is positive definite on the
// null space of the dynamics.
func TestRiccatiTellsTheInertia(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	seen := map[bool]int{}
	for trial := range 200 {
		steps, nu, nX := 1+rng.IntN(4), 1+rng.IntN(3), 1+rng.IntN(3)
		s := randomStages(rng, steps, nu, nX, trial%2 == 0, -1.5*rng.Float64())
		s.block(rng, trial/2)
		h, a, _, _, _ := s.dense()
		n, m := h.RawMatrix().Cols, a.RawMatrix().Rows
		var svd mat.SVD
		svd.Factorize(a, mat.SVDFull)
		var v mat.Dense
		svd.VTo(&v)
		z := v.Slice(0, n, m, n)
		var hz, reduced mat.Dense
		hz.Mul(h, z)
		reduced.Mul(z.T(), &hz)
		sym := mat.NewSymDense(n-m, nil)
		for i := range n - m {
			for j := range i + 1 {
				sym.SetSym(i, j, (reduced.At(i, j)+reduced.At(j, i))/2)
			}
		}
		var eig mat.EigenSym
		eig.Factorize(sym, false)
		least := eig.Values(nil)[0]
		if math.Abs(least) < 1e-6 {
			continue
		}
		seen[least > 0]++
		if got := s.r.factor(s.h, s.f, 0, 0); got != (least > 0) {
			t.Errorf("trial %d: factored is %v at a least curvature of %v", trial, got, least)
		}
	}
	if seen[true] < 20 || seen[false] < 20 {
		t.Errorf("definite and indefinite programs: %v: the test is too easy", seen)
	}
}

// A reflected block has its eigenvectors and the magnitudes of its eigenvalues.
func TestReflect(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for n := 1; n < 9; n++ {
		var r riccati
		r.resize(make([]bool, 1), n, 2, false)
		block := mat.NewSymDense(n, nil)
		for i := range n {
			for j := range i + 1 {
				v := rng.NormFloat64()
				block.SetSym(i, j, v)
				r.m[i*r.d+j] = v
			}
		}
		r.reflect()
		var eig mat.EigenSym
		eig.Factorize(block, true)
		var q, want mat.Dense
		eig.VectorsTo(&q)
		values := eig.Values(nil)
		for i, v := range values {
			values[i] = math.Abs(v)
		}
		want.Product(&q, mat.NewDiagDense(n, values), q.T())
		for i := range n {
			for j := range i + 1 {
				if got := r.m[i*r.d+j]; !(math.Abs(got-want.At(i, j)) < 1e-12) {
					t.Errorf("%d: entry (%d, %d) is %v, want %v", n, i, j, got, want.At(i, j))
				}
			}
		}
	}
}

// So many stages are reflected as are allowed, and what was definite is left alone.
func TestReflections(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	mended := 0
	for range 200 {
		s := randomStages(rng, 5, 2, 3, false, -0.4)
		definite := s.r.factor(s.h, s.f, 0, 0)
		l := slices.Clone(s.r.l)
		one := s.r.factor(s.h, s.f, 0, 1)
		if definite && (!one || !slices.Equal(l, s.r.l)) {
			t.Fatal("a definite program is reflected")
		}
		if one && !definite {
			mended++
		}
		if !s.r.factor(s.h, s.f, 0, 5) {
			t.Fatal("a program of 5 stages is not definite when each may be reflected")
		}
	}
	if mended == 0 {
		t.Error("no program is mended by the reflection of a stage: the test is too easy")
	}
}

func TestAShiftMakesAStepDefinite(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for range 20 {
		s := randomStages(rng, 5, 2, 3, true, -3)
		if s.r.factor(s.h, s.f, 0, 0) {
			continue
		}
		if !s.r.factor(s.h, s.f, 1e6, 0) {
			t.Error("a large shift does not make the step definite")
		}
	}
}

// No shift makes up for negative curvature near the largest number, and the search for one ends.
func TestNoShiftIsFoundForTheLargestCurvature(t *testing.T) {
	q := newProgram(testdomain.Pole{}, []float64{1, 1, 0.3, 1})
	p := newIPM(q)
	q.setWeights(false, []float64{0.5, 0.5})
	p.opt = ipmOptions{tolerance: 1e-5, iterations: 3, mu: firstBarrier}
	p.setInitialState([]float64{0.1, 0, 0.05, 0}, []float64{0, 0}, 5)
	clear(p.cur.v)
	if !p.start(false, nil) {
		t.Fatal("the start is not finite")
	}
	q.differentiate(p.cur)
	p.objectiveScale, p.mu, p.rho = p.scale(), 1, firstPenalty
	p.computeSlacks(p.cur.g, p.slacks.s, p.slacks.v)
	p.adjoint(p.objectiveScale)
	q.hessian(p.cur, 0, p.objectiveScale, p.z, p.lambda)
	p.assemble()
	for i := range p.h {
		p.h[i] = -1e308
	}
	if p.factor() {
		t.Error("it is factored")
	}
}

// The work of an iteration is proportional to the horizon.
func TestWorkGrowsWithTheHorizon(t *testing.T) {
	work := func(steps int) (flops, evaluations float64) {
		q := newProgram(testdomain.Pole{}, []float64{1, 1, 0.3, 1})
		p := newIPM(q)
		q.setWeights(false, []float64{0.5, 0.5})
		p.opt = ipmOptions{tolerance: 1e-5, iterations: 3, mu: firstBarrier}
		p.setInitialState([]float64{0.1, 0, 0.05, 0}, []float64{0, 0}, steps)
		clear(p.cur.v)
		if !p.start(false, nil) {
			t.Fatal("the start is not finite")
		}
		p.rho = firstPenalty
		q.differentiate(p.cur)
		p.objectiveScale, p.mu = p.scale(), 1
		p.computeSlacks(p.cur.g, p.slacks.s, p.slacks.v)
		for i := range p.z {
			p.z[i] = p.mu / p.slacks.s[i]
		}
		for i := range p.zl {
			p.zl[i], p.zu[i] = 1, 1
		}
		p.adjoint(p.objectiveScale)
		f, e := p.r.flops, q.evaluations
		q.hessian(p.cur, 0, p.objectiveScale, p.z, p.lambda)
		q.differentiate(p.cur)
		p.assemble()
		if !p.r.factor(p.h, q.next, 1e6, 0) {
			t.Fatal("not definite")
		}
		copy(p.defect, p.cur.defect)
		p.solve()
		return float64(p.r.flops - f), float64(q.evaluations - e)
	}
	f1, e1 := work(20)
	f2, e2 := work(40)
	f4, e4 := work(80)
	for _, r := range []float64{(f4 - f2) / (f2 - f1), (e4 - e2) / (e2 - e1)} {
		if math.Abs(r-2) > 0.05 {
			t.Errorf("twice as many further stages are %v times the work, want 2", r)
		}
	}
}
