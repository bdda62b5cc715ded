package rollout

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/internal/isa"
	cuda "github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
)

// problem is a prediction problem with candidates, for every evaluator.
type problem struct {
	name   string
	p      Problem
	bounds []Bounds[float32]
	spread float64 // of the actions
}

// evaluators are all there are on this machine: every instruction set and the CUDA
// kernels, on the host shim or, with GPC_TEST_GPU=1, on a GPU.
func evaluators(t testing.TB) map[string]Evaluator {
	all := map[string]Evaluator{"cuda": onDevice(t)}
	for _, level := range isa.Available() {
		all[level.String()] = NewProcessor(On(level))
	}
	return all
}

func onDevice(t testing.TB) *Device {
	t.Helper()
	context, err := driver.Open(shim.Device(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := cuda.New(context, cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	v, err := NewDevice(b)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var testBounds = Bounds[float32]{Previous: [2]float32{0.3, -0.4}, Lo: [2]float32{-2, -2}, Hi: [2]float32{2, 2}, Slew: [2]float32{1, 1}}

// testJoint draws a joint problem of robots among discs, dense enough that every kind
// of margin is small somewhere. With hard margins of 0.02 m.
func testJoint(rng *rand.Rand, name string, robots, count, steps int) problem {
	j := &Joint{Steps: steps, Count: count, Penalty: Penalty[float32]{
		Exp: Repeat[float32](0.04), Square: Repeat[float32](80), Knee: Repeat[float32](NoKnee), Hard: Repeat[float32](0.02),
	}}
	o := problem{name: name, p: j, spread: 1}
	for i := range robots {
		r := Robot{X: 5 * rng.NormFloat64(), Y: 5 * rng.NormFloat64(), Theta: 6*rng.Float64() - 3, V: 1.7*rng.Float64() - 0.5, Goal: [2]float64{4 * rng.NormFloat64(), 4}, Previous: [2]float64{0.1, -0.2}}
		j.Robots = append(j.Robots, r.Motion(0.2, -0.5, 1.2, 0.01, 0.02))
		goal := make([]float32, steps)
		for k := range goal {
			goal[k] = rng.Float32()
		}
		j.Goal = append(j.Goal, goal)
		j.Discs = append(j.Discs, testDiscs(rng, count, steps))
		pairs := make([]float32, i)
		for k := range pairs {
			pairs[k] = 0.6 + 0.3*rng.Float32()
		}
		j.Pair = append(j.Pair, pairs)
		o.bounds = append(o.bounds, testBounds)
	}
	return o
}

func testDiscs(rng *rand.Rand, count, steps int) []float32 {
	discs := make([]float32, steps*count*DiscFields)
	for i := range discs {
		discs[i] = float32(5 * rng.NormFloat64())
		if i%DiscFields == 2 {
			discs[i] = 0.6 + 0.9*rng.Float32()
		}
	}
	return discs
}

func testSingle(rng *rand.Rand, name string, count, steps int, ending *Ending) problem {
	r := Robot{X: rng.NormFloat64(), Y: rng.NormFloat64(), Theta: 6*rng.Float64() - 3, V: 0.6, Goal: [2]float64{3, -2}}
	s := &Single{
		Steps: steps, Robot: r.Motion(0.2, -0.5, 1.2, 0.03, 0.02), Count: count, Goal: make([]float32, steps), Discs: testDiscs(rng, count, steps), Ending: ending,
		Penalty: Penalty[float32]{Square: Repeat[float32](60), Buffer: Repeat[float32](0.42), Knee: Repeat[float32](0.07), Hard: Repeat[float32](0.02)},
	}
	for k := range s.Goal {
		s.Goal[k] = 0.7
	}
	return problem{name: name, p: s, bounds: []Bounds[float32]{testBounds}, spread: 0.7}
}

// testGrid is a cost-to-go around a wall with a gap, blocked points included.
func testGrid() *Grid {
	g := &Grid{X0: -8, Y0: -8, Cell: 0.2, NX: 81, NY: 81, Rate: make([]float32, 81*81), Value: make([]float32, 81*81)}
	for i := range g.Value {
		x, y := g.X0+float64(i%g.NX)*g.Cell, g.Y0+float64(i/g.NX)*g.Cell
		d := math.Hypot(x-3, y+2)
		g.Rate[i], g.Value[i] = float32(0.2+0.3*d*d), float32(0.2*d+0.1*d*d*d+math.Sin(2*x)*math.Cos(y))
		if math.Hypot(x-1, y+1) < 0.7 {
			g.Rate[i], g.Value[i] = float32(math.Inf(1)), float32(math.Inf(1))
		}
	}
	return g
}

// problems are those of every shape that the engine meets, and the degenerate ones.
func problems() []problem {
	rng := rand.New(rand.NewPCG(21, 22))
	straight := &Ending{Goal: [2]float64{3, -2}, Stage: 0.7, Stride: 0.24, Detour: 20}
	guided := &Ending{Goal: [2]float64{3, -2}, Stage: 0.7, Stride: 0.24, Detour: 20, Grid: testGrid()}
	all := []problem{
		testJoint(rng, "6 robots, 15 discs", 6, 15, 8),
		testJoint(rng, "6 robots, no discs", 6, 0, 8),
		testJoint(rng, "1 robot, no discs", 1, 0, 8),
		testJoint(rng, "3 robots, 1 step", 3, 4, 1),
		testSingle(rng, "40 steps, 20 discs", 20, 40, nil),
		testSingle(rng, "40 steps, straight ending", 15, 40, straight),
		testSingle(rng, "40 steps, ending on a grid", 15, 40, guided),
		testSingle(rng, "40 steps, no discs", 0, 40, straight),
	}
	// Robots on each other, and on a disc's centre: the distance is zero throughout.
	same := testJoint(rng, "coincident bodies", 3, 2, 8)
	same.spread = 0
	j := same.p.(*Joint)
	for i := range j.Robots {
		j.Robots[i], j.Goal[i], j.Discs[i] = j.Robots[0], j.Goal[0], j.Discs[0]
		j.Robots[i].V = Vector[float32]{}
		for k := 0; k < len(j.Discs[i]); k += 2 * DiscFields {
			j.Discs[i][k], j.Discs[i][k+1] = j.Robots[i].X[0], j.Robots[i].Y[0]
		}
	}
	return append(all, same)
}

// draw fills candidates, lane by lane.
func (o *problem) draw(rng *rand.Rand, candidates int) []float32 {
	robots, steps, _ := o.p.shape()
	plans := make([]float32, blocks(candidates)*robots*PlanSize(steps))
	for i := range plans {
		plans[i] = float32(o.spread * rng.NormFloat64())
	}
	return plans
}

// Tolerances of float32 results against float64, absolute below 1 and relative to
// the size above; docs/numerics.md has the reasons.
const (
	costTolerance   = 1e-4
	marginTolerance = 1e-4 // m
	slopeTolerance  = 5e-4 // of the candidate's largest derivative
)

// compare holds results to the reference. Leading safe steps may differ where the
// margin that decides is within the tolerance of Hard, which no problem here has.
func compare(got []Result, slopes []float32, want []Scores[float64], exact []float64, candidates int) error {
	size := len(exact) / len(want)
	for i := range candidates {
		g, w, l := &got[i/Lanes], &want[i/Lanes], i%Lanes
		if math.IsNaN(w.Cost[l]) {
			if g.Cost[l] == g.Cost[l] || g.Low[l] == g.Low[l] || g.Safe[l] != 0 {
				return fmt.Errorf("candidate %d is not a number; it gets cost %v, margin %v and %v safe steps", i, g.Cost[l], g.Low[l], g.Safe[l])
			}
			continue
		}
		if d := math.Abs(float64(g.Cost[l]) - w.Cost[l]); !(d <= costTolerance*max(1, math.Abs(w.Cost[l]))) {
			return fmt.Errorf("candidate %d: cost %v, in float64 %v", i, g.Cost[l], w.Cost[l])
		}
		if d := math.Abs(float64(g.Low[l]) - w.Low[l]); !(d <= marginTolerance) {
			return fmt.Errorf("candidate %d: margin %v, in float64 %v", i, g.Low[l], w.Low[l])
		}
		for kind := range MarginKinds {
			if d := math.Abs(float64(g.Kinds[kind][l]) - w.Kinds[kind][l]); !(d <= marginTolerance) {
				return fmt.Errorf("candidate %d: margin of kind %d %v, in float64 %v", i, kind, g.Kinds[kind][l], w.Kinds[kind][l])
			}
		}
		if float64(g.Safe[l]) != w.Safe[l] {
			return fmt.Errorf("candidate %d: %v safe steps, in float64 %v", i, g.Safe[l], w.Safe[l])
		}
		if slopes == nil {
			continue
		}
		largest := 1.0
		for e := l; e < size; e += Lanes {
			largest = max(largest, math.Abs(exact[i/Lanes*size+e]))
		}
		for e := l; e < size; e += Lanes {
			at := i/Lanes*size + e
			if d := math.Abs(float64(slopes[at]) - exact[at]); !(d <= slopeTolerance*largest) {
				return fmt.Errorf("candidate %d, entry %d: derivative %v, in float64 %v (largest %v)", i, e, slopes[at], exact[at], largest)
			}
		}
	}
	return nil
}

// TestConformance holds every evaluator to the float64 reference: all sizes of
// batches, with and without derivatives, candidates that are not numbers among them,
// no discs, fifteen, bodies on each other.
func TestConformance(t *testing.T) {
	all := evaluators(t)
	for _, o := range problems() {
		for _, candidates := range []int{1, 2, 15, 16, 17, 1000} {
			if testing.Short() && candidates == 1000 {
				candidates = 100
			}
			plans := o.draw(rand.New(rand.NewPCG(uint64(candidates), 9)), candidates)
			size := len(plans) / blocks(candidates)
			if candidates > 2 { // some are not numbers, each in one entry
				for i := 1; i < candidates; i += 13 {
					at := i/Lanes*size + i*7%(size/Lanes)*Lanes + i%Lanes
					plans[at] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[i%3]
				}
			}
			want, exact := Reference(o.p, widen(plans), candidates)
			for name, v := range all {
				got, slopes := make([]Result, blocks(candidates)), make([]float32, len(plans))
				if err := v.Evaluate(o.p, plans, candidates, got, slopes); err != nil {
					t.Fatalf("%s, %s, %d candidates: %v", name, o.name, candidates, err)
				}
				if err := compare(got, slopes, want, exact, candidates); err != nil {
					t.Errorf("%s, %s, %d candidates with derivatives: %v", name, o.name, candidates, err)
				}
				if err := v.Evaluate(o.p, plans, candidates, got, nil); err != nil {
					t.Fatal(err)
				}
				if err := compare(got, nil, want, exact, candidates); err != nil {
					t.Errorf("%s, %s, %d candidates: %v", name, o.name, candidates, err)
				}
			}
		}
	}
}

// The derivatives of the reference are those of its cost.
func TestReferenceGradientIsTheDerivative(t *testing.T) {
	for _, o := range problems() {
		if o.name == "coincident bodies" || o.name == "40 steps, ending on a grid" {
			continue // no derivative there, and one of the continuous problem
		}
		plans := widen(o.draw(rand.New(rand.NewPCG(31, 1)), 3))
		_, exact := Reference(o.p, plans, 3)
		rng := rand.New(rand.NewPCG(32, 1))
		const step = 1e-6
		for range 40 {
			l := rng.IntN(3)
			e := rng.IntN(len(plans)/Lanes)*Lanes + l
			at := plans[e]
			plans[e] = at + step
			up, _ := Reference(o.p, plans, 3)
			plans[e] = at - step
			down, _ := Reference(o.p, plans, 3)
			plans[e] = at
			d := (up[0].Cost[l] - down[0].Cost[l]) / (2 * step)
			if math.Abs(d-exact[e]) > 1e-5*max(1, math.Abs(up[0].Cost[l])) {
				t.Errorf("%s: derivative %d is %v, central difference %v", o.name, e, exact[e], d)
			}
		}
	}
}

// TestBestAgrees holds limits and choice of every evaluator to the plain Go: the
// same plan wins, and where costs agree to rounding one of them.
func TestBestAgrees(t *testing.T) {
	all := evaluators(t)
	for _, o := range problems() {
		for _, candidates := range []int{1, 15, 17, 300} {
			drawn := o.draw(rand.New(rand.NewPCG(uint64(candidates), 3)), candidates)
			for i := range drawn {
				drawn[i] *= 3 // beyond the bounds
			}
			if candidates > 1 {
				drawn[0] = float32(math.NaN())
			}
			limited := append([]float32(nil), drawn...)
			generic := NewProcessor(On(isa.Generic))
			if err := generic.Limit(o.p, o.bounds, limited, candidates); err != nil {
				t.Fatal(err)
			}
			want, err := generic.Best(o.p, o.bounds, append([]float32(nil), limited...), candidates)
			if err != nil {
				t.Fatal(err)
			}
			for name, v := range all {
				where := fmt.Sprintf("%s, %s, %d candidates", name, o.name, candidates)
				plans := append([]float32(nil), drawn...)
				if err := v.Limit(o.p, o.bounds, plans, candidates); err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				for i, x := range plans {
					after := i%Lanes == 0 && limited[i] != limited[i] // the NaN of candidate 0, or later
					if x != limited[i] && !(after && (i > 0 || x != x)) {
						t.Fatalf("%s: entry %d is limited to %v, want %v", where, i, x, limited[i])
					}
				}
				got, err := v.Best(o.p, o.bounds, append([]float32(nil), drawn...), candidates)
				if err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				if got.Safe != want.Safe || got.Whole != want.Whole || math.Abs(float64(got.Cost-want.Cost)) > costTolerance*max(1, math.Abs(float64(want.Cost))) {
					t.Errorf("%s: chose %+v, want %+v", where, got, want)
				}
				if got.Index == want.Index {
					for e, x := range got.Plan {
						if x != want.Plan[e] {
							t.Fatalf("%s: entry %d of the chosen plan is %v, want %v", where, e, x, want.Plan[e])
						}
					}
				} else if o.name != "coincident bodies" && math.Abs(float64(got.Cost-want.Cost)) > 1e-6*math.Abs(float64(want.Cost)) {
					t.Errorf("%s: candidate %d of cost %v, want %d of %v", where, got.Index, got.Cost, want.Index, want.Cost)
				}
			}
		}
	}
}

// TestNoCandidateHasACost: then none is chosen.
func TestNoCandidateHasACost(t *testing.T) {
	o := problems()[0]
	for name, v := range evaluators(t) {
		plans := o.draw(rand.New(rand.NewPCG(1, 2)), 20)
		for i := range plans {
			plans[i] = float32(math.NaN())
		}
		got, err := v.Best(o.p, o.bounds, plans, 20)
		if err != nil {
			t.Fatal(err)
		}
		if got.Index != -1 || got.Plan != nil || got.Whole != 0 {
			t.Errorf("%s: chose %+v of candidates without a cost", name, got)
		}
	}
}
