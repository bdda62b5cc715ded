package equations

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/domaintest"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A cart before a wall, which it reaches at speeds that one step does not brake.
func cartStep[T dual.Scalar](s, _, u, sNext, _ []T) {
	sNext[0], sNext[1] = s[0]+0.1*s[1]+0.005*u[0], s[1]+0.1*u[0]
}

func cartOf[T dual.Scalar](escape bool) Functions[T] {
	of := Functions[T]{
		Step:       cartStep[T],
		Objectives: func(_, _, u, n, j []T) { j[0], j[1] = (n[0]-1)*(n[0]-1), u[0]*u[0] },
		Margins:    func(_, _, _, n, m []T) { m[0] = 1 - n[0] },
	}
	if escape {
		of.Escape = func(s, _, u []T) { u[0] = -dual.Tanh(8 * s[1]) }
	}
	return of
}

func cart(escapeSteps int) System {
	return System{
		Name: "cart", State: []domain.Variable{{Name: "x"}, {Name: "v"}}, Action: []domain.Variable{{Name: "push", Lo: -1, Hi: 1}},
		Objectives: []domain.Variable{{Name: "distance"}, {Name: "effort"}}, Margins: []domain.Variable{{Name: "wall"}},
		Scenario: []domain.Variable{{Name: "x", Lo: -2, Hi: -1}}, Initial: func(p, s, _ []float64) { s[0], s[1] = p[0], 0 },
		Steps: 40, StepSeconds: 0.1, EscapeSteps: escapeSteps,
		Real: cartOf[float64](escapeSteps > 0), Dual: cartOf[complex128](escapeSteps > 0),
	}
}

// TestEscape: with it, a push that is always wanted stops before the wall; without, the cart
// hits it.
func TestEscape(t *testing.T) {
	for _, steps := range []int{0, 25} {
		p := require.Get(New(cart(steps)))(t)
		names := []string{}
		for _, m := range p.Spec().Margins {
			names = append(names, m.Name)
		}
		if len(names) != 1+steps || names[0] != "wall" || steps > 0 && (names[1] != "wall+1" || names[steps] != "wall+25") {
			t.Errorf("the margins are %v", names)
		}
		s, c, u, sNext, cNext, hit := []float64{-1.5, 0}, []float64{0}, []float64{0}, make([]float64, 2), make([]float64, 1), false
		for range 40 {
			u[0] = 1
			hit = !p.Project(s, c, u) || hit
			p.Step(s, c, u, sNext, cNext)
			copy(s, sNext)
			copy(c, cNext)
		}
		if hit != (steps == 0) || (s[0] > 1+1e-9) != (steps == 0) {
			t.Errorf("with %d steps of escape: hit %t, the cart is at %v", steps, hit, s)
		}
		if steps > 0 && s[0] < 0.9 {
			t.Errorf("the cart stops at %v, well before the wall", s)
		}
	}
	domaintest.Run(t, require.Get(cart(3).Case())(t))
}

func TestEscapeIsWhole(t *testing.T) {
	for _, spoil := range []func(y *System){
		func(y *System) { y.EscapeSteps = 0 },
		func(y *System) { y.EscapeSteps = -1 },
		func(y *System) { y.Dual.Escape = nil },
		func(y *System) { y.Real.Escape, y.Dual.Escape = nil, nil },
	} {
		y := cart(3)
		spoil(&y)
		if _, err := New(y); err == nil || !strings.Contains(err.Error(), "EscapeSteps") {
			t.Errorf("want an error about the escape, got %v", err)
		}
	}
	y := cart(3)
	y.Real.Escape = func(s, _, u []float64) {}
	if _, err := New(y); err == nil || !strings.Contains(err.Error(), "Escape does not write u[0]") {
		t.Errorf("want an error about what Escape does not write, got %v", err)
	}
}

// TestWhatIsRememberedIsRight: calls in any order, from several goroutines, give what a
// problem of its own gives; the zeros of two signs are two inputs.
func TestWhatIsRememberedIsRight(t *testing.T) {
	angle := func() System {
		y := cart(2)
		y.Initial = func(p, s, _ []float64) { s[0], s[1] = p[0], 0.5 }
		y.Real.Step = func(s, c, u, sNext, cNext []float64) {
			cartStep(s, c, u, sNext, cNext)
			sNext[1] += dual.Atan2(s[1], -1)
		}
		y.Dual.Step = func(s, c, u, sNext, cNext []complex128) {
			cartStep(s, c, u, sNext, cNext)
			sNext[1] += dual.Atan2(s[1], -1)
		}
		return y
	}
	p := require.Get(New(angle()))(t)
	inputs := [][]float64{{-1, 0, 0.5}, {-1, math.Copysign(0, -1), 0.5}, {-1, 0, 0.25}, {0, 0, 0.5}}
	values := func(p *Problem, x []float64, order int) []float64 {
		c, sNext, cNext, j, m, gs, gu := []float64{0}, make([]float64, 2), make([]float64, 1), make([]float64, 2), make([]float64, 3), make([]float64, 2), make([]float64, 1)
		calls := []func(){
			func() { p.Step(x[:2], c, x[2:], sNext, cNext) },
			func() { p.Objectives(x[:2], x[2:], c, j) },
			func() { p.Margins(x[:2], c, x[2:], m) },
			func() { p.Gradient(x[:2], x[2:], c, []float64{0.5, 0.5}, gs, gu) },
		}
		for i := range calls {
			calls[(i+order)%len(calls)]()
		}
		return slices.Concat(sNext, cNext, j, m, gs, gu)
	}
	var want [][]float64
	for _, x := range inputs {
		want = append(want, values(require.Get(New(angle()))(t), x, 0))
	}
	if want[0][1] == want[1][1] {
		t.Fatal("the zeros do not differ: the test is of nothing")
	}
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(worker)))
			for range 500 {
				k := rng.IntN(len(inputs))
				if got := values(p, inputs[k], rng.IntN(4)); !slices.Equal(got, want[k]) {
					t.Errorf("input %v gives %v, alone %v", inputs[k], got, want[k])
					return
				}
			}
		})
	}
	all.Wait()
}
