package rollout

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/gpc-engine/gpc/internal/simd/isa"
)

// tolerance of float32 results relative to their size: 40 steps accumulate about
// 10⁻⁶ in positions, times slopes of margins below 10² per metre.
const tolerance = 2e-4

// sample is a problem of one robot, another's path and discs, in float64; scored
// draws which terms act.
type sample struct {
	steps, count int
	plan         []float64
	goal, discs  []float64
	motion       Motion[float64]
	penalty      Penalty[float64]
	other        []float64
}

func draw(rng *rand.Rand, steps, count int, exp bool) *sample {
	s := &sample{steps: steps, count: count, plan: make([]float64, PlanSize(steps)), goal: make([]float64, steps), discs: make([]float64, steps*count*DiscFields), other: make([]float64, PathSize(steps))}
	for i := range s.plan {
		s.plan[i] = rng.Float64()*4 - 2
	}
	for k := range s.goal {
		s.goal[k] = rng.Float64()
	}
	for i := range s.discs {
		s.discs[i] = rng.NormFloat64() * 2
		if i%DiscFields == 2 {
			s.discs[i] = 0.3 + rng.Float64()
		}
	}
	for i := range s.other {
		s.other[i] = rng.NormFloat64() * 2
	}
	theta := rng.Float64()*6 - 3
	m := &s.motion
	m.X, m.Y = Repeat(rng.NormFloat64()), Repeat(rng.NormFloat64())
	m.Cos, m.Sin, m.V = Repeat(math.Cos(theta)), Repeat(math.Sin(theta)), Repeat(rng.Float64()*1.7-0.5)
	m.A, m.Omega = Repeat(rng.Float64()), Repeat(-rng.Float64())
	m.Dt, m.VLo, m.VHi = Repeat(0.2), Repeat(-0.5), Repeat(1.2)
	m.GoalX, m.GoalY = Repeat(3.0), Repeat(-2.0)
	m.Effort, m.Smooth = Repeat(0.3), Repeat(0.2)
	s.penalty = Penalty[float64]{Square: Repeat(20.0), Buffer: Repeat(0.6), Knee: Repeat(0.5), Hard: Repeat(0.02)}
	if exp {
		s.penalty.Exp = Repeat(4.0)
	}
	return s
}

// result is all that the kernels write.
type result[T real] struct {
	path            []T
	cost, low, safe Vector[T]
	grad, otherGrad []T
	out             []T
}

// run64 is the reference: the twins in float64.
func run64(s *sample) *result[float64] {
	r := &result[float64]{path: make([]float64, PathSize(s.steps)), grad: make([]float64, 2*s.steps*Lanes), otherGrad: make([]float64, 2*s.steps*Lanes), out: make([]float64, PlanSize(s.steps))}
	r.low, r.safe = Repeat[float64](Reach), Repeat(float64(s.steps))
	trackTwin(s.plan, r.path, s.goal, s.steps, &s.motion, &r.cost)
	discsTwin(r.path, s.discs, s.count, s.steps, &s.penalty, &r.cost, &r.low, &r.safe, r.grad)
	pairTwin(r.path, s.other, 0.9, s.steps, &s.penalty, &r.cost, &r.low, &r.safe, r.grad, r.otherGrad)
	backTwin(s.plan, r.path, r.grad, s.goal, s.steps, &s.motion, r.out)
	return r
}

func narrow(v []float64) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
	}
	return out
}

func narrowVector(v Vector[float64]) (out Vector[float32]) {
	for i, x := range v {
		out[i] = float32(x)
	}
	return out
}

func narrowMotion(m *Motion[float64]) *Motion[float32] {
	return &Motion[float32]{narrowVector(m.X), narrowVector(m.Y), narrowVector(m.Cos), narrowVector(m.Sin), narrowVector(m.V), narrowVector(m.A), narrowVector(m.Omega),
		narrowVector(m.Dt), narrowVector(m.VLo), narrowVector(m.VHi), narrowVector(m.GoalX), narrowVector(m.GoalY), narrowVector(m.Effort), narrowVector(m.Smooth)}
}

// run32 is one engine; without derivatives it leaves grads and out nil.
func run32(e *Engine, s *sample, wanted bool) *result[float32] {
	r := &result[float32]{path: make([]float32, PathSize(s.steps))}
	if wanted {
		r.grad, r.otherGrad, r.out = make([]float32, 2*s.steps*Lanes), make([]float32, 2*s.steps*Lanes), make([]float32, PlanSize(s.steps))
	}
	r.low, r.safe = Repeat[float32](Reach), Repeat(float32(s.steps))
	plan, goal, motion := narrow(s.plan), narrow(s.goal), narrowMotion(&s.motion)
	p := &Penalty[float32]{narrowVector(s.penalty.Exp), narrowVector(s.penalty.Square), narrowVector(s.penalty.Buffer), narrowVector(s.penalty.Knee), narrowVector(s.penalty.Hard)}
	e.Track(plan, r.path, goal, s.steps, motion, &r.cost)
	e.Discs(r.path, narrow(s.discs), s.count, s.steps, p, &r.cost, &r.low, &r.safe, r.grad)
	e.Pair(r.path, narrow(s.other), 0.9, s.steps, p, &r.cost, &r.low, &r.safe, r.grad, r.otherGrad)
	if wanted {
		e.Back(plan, r.path, r.grad, goal, s.steps, motion, r.out)
	}
	return r
}

func close(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	size := 1.0
	for _, v := range want {
		size = math.Max(size, math.Abs(v))
	}
	for i, w := range want {
		if d := math.Abs(float64(got[i]) - w); !(d <= tolerance*size) {
			t.Fatalf("%s[%d] is %v, in float64 %v (size %v)", what, i, got[i], w, size)
		}
	}
}

// Every instruction set computes what the twin computes in float64, with and
// without derivatives, for any number of steps and discs.
func TestKernelsAgreeWithFloat64(t *testing.T) {
	for _, level := range isa.Available() {
		t.Run(level.String(), func(t *testing.T) {
			e := On(level)
			rng := rand.New(rand.NewPCG(4, 5))
			for _, steps := range []int{0, 1, 2, 8, 40} {
				for _, count := range []int{0, 1, 15, 20} {
					for _, exp := range []bool{false, true} {
						s := draw(rng, steps, count, exp)
						want, got, plain := run64(s), run32(e, s, true), run32(e, s, false)
						what := fmt.Sprintf("%d steps, %d discs, exp %v: ", steps, count, exp)
						close(t, what+"path", got.path, want.path)
						close(t, what+"cost", got.cost[:], want.cost[:])
						close(t, what+"low", got.low[:], want.low[:])
						close(t, what+"safe", got.safe[:], want.safe[:])
						close(t, what+"grad", got.grad, want.grad)
						close(t, what+"other grad", got.otherGrad, want.otherGrad)
						close(t, what+"out", got.out, want.out)
						if plain.cost != got.cost || plain.low != got.low || plain.safe != got.safe {
							close(t, what+"cost without derivatives", plain.cost[:], want.cost[:])
							close(t, what+"low without derivatives", plain.low[:], want.low[:])
							close(t, what+"safe without derivatives", plain.safe[:], want.safe[:])
						}
					}
				}
			}
		})
	}
}

// The reverse mode of the twin is the derivative of its cost.
func TestTwinGradientIsTheDerivative(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 7))
	for trial := range 6 {
		s := draw(rng, 8, 4, trial%2 == 0)
		want := run64(s)
		size := 1.0
		for _, v := range want.out {
			size = math.Max(size, math.Abs(v))
		}
		const step = 1e-6
		for i := range s.plan {
			at := s.plan[i]
			l := i % Lanes
			s.plan[i] = at + step
			up := run64(s).cost[l]
			s.plan[i] = at - step
			down := run64(s).cost[l]
			s.plan[i] = at
			if d := (up - down) / (2 * step); math.Abs(d-want.out[i]) > 1e-5*size {
				t.Fatalf("trial %d: derivative %d is %v, central difference %v", trial, i, want.out[i], d)
			}
		}
	}
}

// Limited plans keep box and slew bounds, and a plan that keeps them is unchanged.
func TestLimit(t *testing.T) {
	b := &Bounds[float32]{Previous: [2]float32{0.5, -1.5}, Lo: [2]float32{-2, -2}, Hi: [2]float32{2, 2}, Slew: [2]float32{1, 0.5}}
	for _, level := range isa.Available() {
		e := On(level)
		rng := rand.New(rand.NewPCG(8, 9))
		const steps = 40
		plan := make([]float32, PlanSize(steps))
		for i := range plan {
			plan[i] = float32(3 * rng.NormFloat64())
		}
		want := append([]float32{}, plan...)
		limitTwin(want, steps, b)
		e.Limit(plan, steps, b)
		for i, v := range plan {
			if v != want[i] {
				t.Fatalf("%s: entry %d is %v, the twin has %v", level, i, v, want[i])
			}
			f := i / Lanes % PlanFields
			before := b.Previous[f]
			if i >= PlanFields*Lanes {
				before = plan[i-PlanFields*Lanes]
			}
			if v < b.Lo[f] || v > b.Hi[f] || math.Abs(float64(v-before)) > float64(b.Slew[f])+1e-6 {
				t.Fatalf("%s: entry %d is %v after %v", level, i, v, before)
			}
		}
		again := append([]float32{}, plan...)
		e.Limit(again, steps, b)
		for i := range plan {
			if plan[i] != again[i] {
				t.Fatalf("%s: limiting a limited plan changes entry %d", level, i)
			}
		}
	}
}

func TestEnvironmentChoosesTheEngine(t *testing.T) {
	t.Setenv(isa.Environment, "generic")
	e, err := New()
	if err != nil || e.Level() != isa.Generic {
		t.Fatalf("engine %v, error %v, want generic", e, err)
	}
	t.Setenv(isa.Environment, "no such set")
	if _, err := New(); err == nil {
		t.Fatal("an unknown instruction set is accepted")
	}
	os.Unsetenv(isa.Environment)
}

// joint is a problem of the largest size: six robots, fifteen obstacles, H 8.
func joint(rng *rand.Rand) (*Joint, []float32) {
	const robots, count, steps = 6, 15, 8
	j := &Joint{Steps: steps, Count: count, Penalty: Penalty[float32]{Exp: Repeat[float32](0.03), Square: Repeat[float32](260), Knee: Repeat[float32](NoKnee)}}
	for i := range robots {
		r := Robot{X: 6 * rng.NormFloat64(), Y: 6 * rng.NormFloat64(), Theta: rng.NormFloat64(), V: 0.5, Goal: [2]float64{5, 5}}
		j.Robots = append(j.Robots, r.Motion(0.2, -0.5, 1.2, 0.01, 0.01))
		j.Goal = append(j.Goal, []float32{1, 1, 1, 1, 1, 1, 1, 5})
		discs := make([]float32, steps*count*DiscFields)
		for k := range discs {
			discs[k] = float32(6 * rng.NormFloat64())
			if k%DiscFields == 2 {
				discs[k] = 1
			}
		}
		j.Discs = append(j.Discs, discs)
		j.Pair = append(j.Pair, []float32{0.8, 0.8, 0.8, 0.8, 0.8}[:i])
	}
	plans := make([]float32, robots*PlanSize(steps))
	for i := range plans {
		plans[i] = float32(rng.NormFloat64())
	}
	return j, plans
}

// BenchmarkJoint is the exact roll-out, cost and margins of joint candidates:
// six robots, fifteen obstacles, H 8. ns/candidate is per core.
func BenchmarkJoint(b *testing.B) {
	for _, level := range isa.Available() {
		for _, gradient := range []bool{false, true} {
			name := level.String()
			if gradient {
				name += "-gradient"
			}
			b.Run(name, func(b *testing.B) {
				j, plans := joint(rand.New(rand.NewPCG(1, 1)))
				e, w := On(level), NewWorkspace(6, 8)
				var out []float32
				if gradient {
					out = make([]float32, len(plans))
				}
				var r Result
				for b.Loop() {
					e.Evaluate(j, plans, w, &r, out)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/Lanes, "ns/candidate")
			})
		}
	}
}

// BenchmarkSingle is the block-coordinate form: one robot's plan of 40 steps
// against twenty discs per step.
func BenchmarkSingle(b *testing.B) {
	for _, level := range isa.Available() {
		for _, gradient := range []bool{false, true} {
			name := level.String()
			if gradient {
				name += "-gradient"
			}
			b.Run(name, func(b *testing.B) {
				const steps, count = 40, 20
				rng := rand.New(rand.NewPCG(1, 1))
				s := draw(rng, steps, count, false)
				single := &Joint{Steps: steps, Robots: []Motion[float32]{*narrowMotion(&s.motion)}, Goal: [][]float32{narrow(s.goal)}, Discs: [][]float32{narrow(s.discs)}, Count: count, Pair: [][]float32{nil},
					Penalty: Penalty[float32]{Square: Repeat[float32](150), Buffer: Repeat[float32](0.4), Knee: Repeat[float32](NoKnee), Hard: Repeat[float32](0.02)}}
				e, w, plan := On(level), NewWorkspace(1, steps), narrow(s.plan)
				var out []float32
				if gradient {
					out = make([]float32, len(plan))
				}
				var r Result
				for b.Loop() {
					e.Evaluate(single, plan, w, &r, out)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/Lanes, "ns/candidate")
			})
		}
	}
}
