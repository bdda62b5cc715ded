package equations

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/ocp"
)

// slide is driven to a target. Its margin is the room below 2. A length of one metre is the number k.
func slide[T dual.Scalar](k, target float64) Functions[T] {
	number := dual.Const[T]
	return Functions[T]{
		Step: func(s, _, u, sNext, _ []T) { sNext[0] = s[0] + number(0.2)*u[0] },
		Objectives: func(_, _, u, sNext, j []T) {
			x, v := sNext[0]*number(1/k)-number(target), u[0]*number(1/k)
			j[0] = x*x + number(0.001)*v*v
		},
		Margins: func(_, _, _, sNext, m []T) { m[0] = number(2*k) - sNext[0] },
	}
}

func slideSystem(k, target float64, priority int) System {
	return System{
		Name: "slide", State: []domain.Variable{{Name: "x"}}, Action: []domain.Variable{{Name: "v", Lo: -k, Hi: k}}, Objectives: []domain.Variable{{Name: "j"}},
		Margins: []domain.Variable{{Name: "top"}}, Scenario: []domain.Variable{{Name: "x", Lo: -0.2 * k, Hi: 0.2 * k}}, StateScale: []float64{k},
		Initial: func(p, s, _ []float64) { s[0] = p[0] }, Steps: 30, StepSeconds: 0.2, Real: slide[float64](k, target), Dual: slide[complex128](k, target),
		Soft: []Soft{{Margin: "top", Linear: 20 / k, Quadratic: 5 / (k * k), Priority: priority}},
	}
}

// planOf is the optimal plan of a system from a state, without context but the clock.
func planOf(t *testing.T, y System, x float64) *ocp.Trajectory {
	t.Helper()
	c := require.Get(y.Case())(t)
	return require.Get(c.Solver.(*ocp.Solver).Minimise([]float64{x}, []float64{0}, y.Steps, domain.Preference{W: []float64{1}}, domain.WeightedSum, 1))(t)
}

// A soft limit that the optimum without it keeps does not move the optimum, at any priority and in any unit.
func TestSoftLimitsWithRoomMoveNothing(t *testing.T) {
	for priority := range maxPriority + 1 {
		for _, k := range []float64{1e-6, 1e-3, 1, 1e3, 1e6} {
			y := slideSystem(k, 1, priority)
			got := planOf(t, y, 0.1*k)
			y.Soft, y.Margins, y.Real.Margins, y.Dual.Margins = nil, nil, nil, nil
			want := planOf(t, y, 0.1*k)
			for i, u := range got.U {
				if math.Abs(u[0]-want.U[i][0]) > 1e-6*k {
					t.Fatalf("priority %d, %v to a metre: action %d is %v, without the limit %v", priority, k, i, u[0], want.U[i][0])
				}
			}
			if x := got.S[len(got.S)-1][0]; math.Abs(x-k) > 1e-4*k {
				t.Errorf("priority %d, %v to a metre: it settles at %v, want the target %v", priority, k, x, k)
			}
		}
	}
}

// A soft limit that is in the way is kept to a hundredth of its size where its price suffices, and one that is exceeded
// at the start is come back to as fast as possible; the solver finds both at every priority and in every unit.
func TestSoftLimitsInTheWay(t *testing.T) {
	for priority := range maxPriority + 1 {
		for _, k := range []float64{1e-6, 1e-3, 1, 1e3, 1e6} {
			for _, start := range []float64{0.1, 2.7} {
				found := planOf(t, slideSystem(k, 3, priority), start*k)
				for i, s := range found.S[1:] {
					x := s[0] / k
					if reachable := max(2, start-0.2*float64(i+1)); x > reachable+1e-5 || start < 2 && i > 12 && x < 2-2e-2 {
						t.Errorf("priority %d, %v to a metre, from %v: x is %v m after %d decisions", priority, k, start, x, i+1)
					}
				}
			}
		}
	}
}

// The penalty is exact beyond the reach of the smoothing; within, it is convex and has the derivatives that it says.
func TestSoftPenalty(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	for priority := range maxPriority + 1 {
		price := math.Pow(priorityStep, float64(priority))
		l := softLimit{linear: 3 * price, quadratic: 2 * price, reach: 0.01 * math.Exp(8*rng.NormFloat64()), width: smoothingWidth / math.Sqrt(price)}
		for range 1000 {
			size := l.reach * math.Exp(5*rng.NormFloat64())
			m := math.Copysign(size, rng.Float64()-0.5)
			got, excess := softPenalty(numbers[float64]{}, l, m), math.Max(0, -m)
			want := l.linear*excess + l.quadratic*excess*excess
			switch {
			case size >= l.reach && math.Abs(got-want) > 1e-12*want:
				t.Fatalf("priority %d: the penalty at a margin of %v is %v, want %v", priority, m, got, want)
			case got < want*(1-1e-12) || got > softPenalty(numbers[float64]{}, l, 0.0)*(1+1e-12) && m > 0:
				t.Fatalf("priority %d: the penalty at a margin of %v is %v, want %v to %v", priority, m, got, want, softPenalty(numbers[float64]{}, l, 0.0))
			}
			h := 1e-4 * (size + l.reach*l.width)
			below, above := softPenalty(numbers[float64]{}, l, m-h), softPenalty(numbers[float64]{}, l, m+h)
			slope := dual.Derivative(softPenalty(numbers[complex128]{}, l, complex(m, dual.Step)))
			if difference := (above - below) / (2 * h); math.Abs(slope-difference) > 1e-4*(l.linear+l.quadratic*size) {
				t.Fatalf("priority %d: the slope at a margin of %v is %v, by differences %v", priority, m, slope, difference)
			}
			if above+below < 2*got*(1-1e-12) {
				t.Fatalf("priority %d: the penalty is not convex at a margin of %v", priority, m)
			}
		}
		if at := dual.Derivative(softPenalty(numbers[complex128]{}, softLimit{linear: 1, reach: l.reach, width: l.width}, complex(0, dual.Step))); math.Abs(at+0.5) > 1e-12 {
			t.Errorf("priority %d: the slope at the limit is %v, want −1/2", priority, at)
		}
	}
}

// The bend of a penalty, however narrow, is no corner that a solver would round again, and wider.
func TestSoftPenaltyIsNoCorner(t *testing.T) {
	for priority := range maxPriority + 1 {
		for _, reach := range []float64{1e-6, 0.02, 1, 1e6} {
			price := math.Pow(priorityStep, float64(priority))
			l := softLimit{linear: 20 * price / reach, quadratic: 5 * price / (reach * reach), reach: reach, width: smoothingWidth / math.Sqrt(price)}
			b := program.NewBuilder("f", program.Argument{Name: "m", Size: 1})
			m := b.In(0)[0]
			one := b.Apply(program.Sub, b.Apply(program.Mul, m, b.Const(1/reach)), b.Const(3.7))
			f := b.Function([]program.Argument{{Name: "j", Size: 1}}, []program.Value{b.Apply(program.Add, b.Apply(program.Mul, one, one), softPenalty(instructions{b}, l, m))})
			draw := func(rng *rand.Rand, _ bool) []float64 { return []float64{100 * reach * rng.NormFloat64()} }
			if f.Corners(draw, []bool{true}, false) != nil {
				t.Errorf("priority %d, reach %g: a corner is found", priority, reach)
			}
		}
	}
}

// The smoothing has the unit of the margin: its range, or its size one decision after the starts.
func TestSmoothingHasTheUnitOfTheMargin(t *testing.T) {
	var reach []float64
	for _, k := range []float64{1e-6, 1, 1e6} {
		for _, ranged := range []bool{false, true} {
			y := slideSystem(k, 1, 0)
			if ranged {
				y.Margins[0].Lo, y.Margins[0].Hi = -k, 3*k
			}
			reach = append(reach, require.Get(New(y))(t).declared.soft[0].reach/k)
		}
	}
	for i, v := range reach {
		if math.Abs(v-reach[i%2]) > 1e-12 || math.Abs(reach[i%2]-[]float64{0.02, 0.04}[i%2]) > 1e-3 {
			t.Errorf("reaches of %v metres in units of three sizes, without a range and with one", fmt.Sprint(slices.Clone(reach)))
			break
		}
	}
}
