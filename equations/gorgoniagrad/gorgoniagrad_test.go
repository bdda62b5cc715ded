package gorgoniagrad

import (
	"math"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/domain"
)

var toy = &domain.Spec{
	Name: "toy", Plan: 1,
	Measured:   []domain.Variable{{Name: "a"}, {Name: "b"}},
	Context:    []domain.Variable{{Name: "p"}},
	Action:     []domain.Variable{{Name: "u"}},
	Objectives: []domain.Variable{{Name: "J1"}, {Name: "J2"}},
}

// toyExpression is J1 = (a + p·u)², J2 = exp(−a)·u; b is unused on purpose.
func toyExpression(v *Variables) ([]*gorgonia.Node, error) {
	r := gorgonia.Must(gorgonia.Add(v.S(0), gorgonia.Must(gorgonia.HadamardProd(v.C(0), v.U(0)))))
	j1 := gorgonia.Must(gorgonia.Square(r))
	decay := gorgonia.Must(gorgonia.Exp(gorgonia.Must(gorgonia.Neg(v.S(0)))))
	return []*gorgonia.Node{j1, gorgonia.Must(gorgonia.HadamardProd(decay, v.U(0)))}, nil
}

func toyByHand(s, u, c, w []float64) (J, gs, gu []float64) {
	r, e := s[0]+c[0]*u[0], math.Exp(-s[0])
	return []float64{r * r, e * u[0]},
		[]float64{2*w[0]*r - w[1]*e*u[0], 0},
		[]float64{2*w[0]*r*c[0] + w[1]*e}
}

func near(t interface{ Fatalf(string, ...any) }, what string, got, want []float64, tol float64) {
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tol*(1+math.Abs(want[i]))) {
			t.Fatalf("%s[%d] = %v, want %v", what, i, got[i], want[i])
		}
	}
}

func TestGraphAgreesWithHandWrittenDerivatives(t *testing.T) {
	o, err := New(toy, toyExpression)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(-2, 2), 6, 6).Draw(t, "x")
		s, u, c, w := x[:2], x[2:3], x[3:4], x[4:]
		J, gs, gu := make([]float64, 2), make([]float64, 2), make([]float64, 1)
		o.Objectives(s, u, c, J)
		o.Gradient(s, u, c, w, gs, gu)
		wantJ, wantS, wantU := toyByHand(s, u, c, w)
		near(t, "J", J, wantJ, 1e-12)
		near(t, "gs", gs, wantS, 1e-12)
		near(t, "gu", gu, wantU, 1e-12)
	})
}

func TestBatchAgreesWithRowsForAnyNumberOfRows(t *testing.T) {
	o, err := New(toy, toyExpression)
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range []int{1, 63, 64, 65, 200} {
		b := domain.Batch{
			Rows: rows, SStride: 2, UStride: 1, CStride: 0, SigmaStride: 2, JStride: 2, GSStride: 2, GUStride: 1,
			S: make([]float32, 2*rows), U: make([]float32, rows), C: []float32{0.7}, Sigma: make([]float32, 2*rows),
			J: make([]float32, 2*rows), GS: make([]float32, 2*rows), GU: make([]float32, rows),
		}
		for i := range b.S {
			b.S[i] = float32(i%7) * 0.3
			b.Sigma[i] = float32(i%3) * 0.5
		}
		for i := range b.U {
			b.U[i] = float32(i%5) - 2
		}
		o.GradientBatch(b)
		for r := range rows {
			w := []float64{float64(b.Sigma[2*r]), float64(b.Sigma[2*r+1])}
			J, gs, gu := toyByHand([]float64{float64(b.S[2*r]), float64(b.S[2*r+1])}, []float64{float64(b.U[r])}, []float64{float64(b.C[0])}, w)
			near(t, "J", []float64{float64(b.J[2*r]), float64(b.J[2*r+1])}, J, 1e-6)
			near(t, "gs", []float64{float64(b.GS[2*r]), float64(b.GS[2*r+1])}, gs, 1e-6)
			near(t, "gu", []float64{float64(b.GU[r])}, gu, 1e-6)
		}
	}
}

// randomExpression draws an expression that shares nodes, uses one objective
// within another, and leaves variables unused: where a graph that reuses memory
// would go wrong.
func randomExpression(t *rapid.T) Expression {
	pick := rapid.IntRange(0, 1<<20)
	picks := rapid.SliceOfN(pick, 40, 40).Draw(t, "picks")
	count := rapid.IntRange(1, 9).Draw(t, "operations")
	return func(v *Variables) ([]*gorgonia.Node, error) {
		nodes := []*gorgonia.Node{v.S(0), v.S(1), v.U(0), v.C(0), v.Constant(0.5)}
		for i := range count {
			a, b := nodes[picks[3*i]%len(nodes)], nodes[picks[3*i+1]%len(nodes)]
			var n *gorgonia.Node
			switch picks[3*i+2] % 6 {
			case 0:
				n = gorgonia.Must(gorgonia.Add(a, b))
			case 1:
				n = gorgonia.Must(gorgonia.Sub(a, b))
			case 2:
				n = gorgonia.Must(gorgonia.HadamardProd(a, b))
			case 3:
				n = gorgonia.Must(gorgonia.Tanh(a))
			case 4:
				n = gorgonia.Must(gorgonia.Square(gorgonia.Must(gorgonia.Tanh(a))))
			case 5:
				n = gorgonia.Must(gorgonia.Exp(gorgonia.Must(gorgonia.Neg(gorgonia.Must(gorgonia.Square(a))))))
			}
			nodes = append(nodes, n)
		}
		// A variable is added so that an objective is never a mere constant.
		one := gorgonia.Must(gorgonia.Add(nodes[len(nodes)-1], nodes[picks[38]%4]))
		two := gorgonia.Must(gorgonia.HadamardProd(nodes[5+picks[39]%count], one))
		return []*gorgonia.Node{one, two}, nil
	}
}

func TestAnyExpressionsGradientsAgreeWithDifferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, err := New(toy, randomExpression(t))
		if err != nil {
			t.Fatal(err)
		}
		const rows = 5
		x := rapid.SliceOfN(rapid.Float64Range(-1.5, 1.5), 6*rows, 6*rows).Draw(t, "x")
		b := domain.Block{Rows: rows, S: x[:2*rows], U: x[2*rows : 3*rows], C: x[3*rows : 4*rows], Sigma: x[4*rows:],
			J: make([]float64, 2*rows), GS: make([]float64, 2*rows), GU: make([]float64, rows)}
		o.GradientBlock(b)
		J := make([]float64, 2*rows)
		o.GradientBlock(domain.Block{Rows: rows, S: b.S, U: b.U, C: b.C, J: J})
		near(t, "J of the graph of the objectives alone", J, b.J, 1e-12)
		for r := range rows {
			s, u, c, w := b.S[2*r:2*r+2], b.U[r:r+1], b.C[r:r+1], b.Sigma[2*r:2*r+2]
			one := make([]float64, 2)
			o.Objectives(s, u, c, one)
			near(t, "J", one, b.J[2*r:2*r+2], 1e-12)
			difference := func(x *float64) float64 {
				const h = 1e-5
				at := *x
				sum := 0.0
				for _, sign := range []float64{1, -1} {
					*x = at + sign*h
					o.Objectives(s, u, c, one)
					sum += sign * (w[0]*one[0] + w[1]*one[1])
				}
				*x = at
				return sum / (2 * h)
			}
			near(t, "gs", b.GS[2*r:2*r+2], []float64{difference(&s[0]), difference(&s[1])}, 1e-4)
			near(t, "gu", b.GU[r:r+1], []float64{difference(&u[0])}, 1e-4)
		}
	})
}

func TestNewRefusesAnExpressionOfAnotherSize(t *testing.T) {
	_, err := New(toy, func(v *Variables) ([]*gorgonia.Node, error) { return []*gorgonia.Node{v.S(0)}, nil })
	if err == nil || !strings.Contains(err.Error(), "1 objectives") {
		t.Fatalf("got %v", err)
	}
}
