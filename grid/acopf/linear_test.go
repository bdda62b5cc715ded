package acopf

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// dense is the KKT matrix of the bus blocks, in the order of elimination.
func (p *probe) dense() *mat.SymDense {
	pl := p.plan
	k := mat.NewSymDense(4*pl.nb, nil)
	for i, first := range pl.diag {
		for r := range 4 {
			for c := range r + 1 {
				k.SetSym(4*i+r, 4*i+c, p.m.Get(first+lanes.Ref(4*r+c), 0))
			}
		}
	}
	for n, pair := range pl.pairs {
		for r := range 4 {
			for c := range 4 {
				k.SetSym(4*pair[0]+r, 4*pair[1]+c, p.m.Get(pl.offDiag[n]+lanes.Ref(4*r+c), 0))
			}
		}
	}
	return k
}

// The block factorisation solves what gonum's dense one solves and has the
// inertia of the eigenvalues; a correction brings it nearer.
func TestFactorAgainstDense(t *testing.T) {
	for _, name := range []string{"case9", "case30", "features"} {
		for seed := range uint64(5) {
			p := newProbe(t, name, Options{}, seed)
			pl := p.plan
			p.m.Set(pl.shift[0], 0, 0.1)
			p.m.Set(pl.rho[0], 0, 0.1)
			for _, program := range []int{programEvaluate, programGradient, programAssemble} {
				p.m.Run(program)
			}
			units := 0.0
			for _, d := range append(p.get(pl.du2), p.get(pl.kyy)...) {
				if d < 0 {
					units++
				}
			}
			k := p.dense()
			p.m.Run(programFactor)
			for _, program := range []int{programPredictor, programGather, programSolve} {
				p.m.Run(program)
			}
			var eigen mat.EigenSym
			if !eigen.Factorize(k, false) {
				t.Fatal("no eigenvalues")
			}
			want := units
			for _, v := range eigen.Values(nil) {
				if v < 0 {
					want++
				}
			}
			if got := p.m.Get(pl.negative[0], 0); got != want {
				t.Errorf("%s %d: %v negative eigenvalues, dense has %v", name, seed, got, want)
			}
			rhs := mat.NewVecDense(4*pl.nb, p.get(pl.rhs))
			var x mat.VecDense
			if err := x.SolveVec(k, rhs); err != nil {
				t.Fatal(err)
			}
			distance := func() float64 {
				d := 0.0
				for i, v := range p.get(pl.sol) {
					d = max(d, math.Abs(v-x.AtVec(i)))
				}
				return d / mat.Norm(&x, math.Inf(1))
			}
			if d := distance(); !(d <= 1e-7) {
				t.Errorf("%s %d: the solution is off by %g", name, seed, d)
			}
			p.m.Run(programResidual)
			if got, bound := p.m.Get(pl.maxRes[0], 0), 1e-7*p.m.Get(pl.maxRhs[0], 0); !(got <= bound) {
				t.Errorf("%s %d: residual %g, want at most %g", name, seed, got, bound)
			}
			p.m.Set(pl.refine[0], 0, -1)
			p.m.Run(programSolve)
			p.m.Run(programCorrect)
			if d := distance(); !(d <= 1e-9) {
				t.Errorf("%s %d: the corrected solution is off by %g", name, seed, d)
			}
		}
	}
}
