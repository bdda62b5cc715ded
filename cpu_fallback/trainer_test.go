package cpufallback

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/internal/testing/training"
)

// trainingShape is a random problem: widths chosen so that panels, tiles and
// chunks all have remainders.
type trainingShape struct {
	rows, nx, no, ns, nu, nz, hidden int
}

var smallShape = trainingShape{rows: 400, nx: 7, no: 9, ns: 5, nu: 3, nz: 6, hidden: 37}

func (s trainingShape) config(seed uint64) backend.TrainerConfig {
	rng := rand.New(rand.NewPCG(seed, 1))
	net := func(in, out int) []int { return []int{in, s.hidden, s.hidden, out} }
	cfg := testdomain.TrainingRun(rng, s.rows, 0.1, net(s.nx, s.nz), net(s.no, s.nz), net(s.nz, s.nu), net(s.nz, s.ns))
	cfg.Rollout.MetricLambda, cfg.Rollout.TopK, cfg.Rollout.LieGain = 1e-2, min(5, s.nz), 0.5
	cfg.Adam.Epsilon, cfg.MaxNeighbours = 1e-8, 3
	return cfg
}

// draw makes the arguments of one step.
func (s trainingShape) draw(seed uint64, batch, kappa int) (rows, neighbours []int32, kernel []float32) {
	rng := rand.New(rand.NewPCG(seed, 2))
	for _, r := range rng.Perm(s.rows)[:batch] {
		rows = append(rows, int32(r))
		for range kappa {
			neighbours = append(neighbours, int32(rng.IntN(s.rows)))
			kernel = append(kernel, float32(rng.Float64()))
		}
	}
	return rows, neighbours, kernel
}

func newTrainer(t testing.TB, opt Options, cfg backend.TrainerConfig) backend.Trainer {
	t.Helper()
	b := require.Get(New(opt))(t)
	t.Cleanup(func() { b.Close() })
	tr := require.Get(b.NewTrainer(cfg))(t)
	return tr
}

func referenceTrainer(t testing.TB, cfg backend.TrainerConfig) backend.Trainer {
	t.Helper()
	tr := require.Get(training.New().NewTrainer(cfg))(t)
	return tr
}

func eachISA(t *testing.T, f func(t *testing.T, opt Options)) {
	for _, l := range isa.Available() {
		t.Run(l.String(), func(t *testing.T) { f(t, Options{ISA: l.String()}) })
	}
}

// largestDifference is the largest |a − b| over all arrays whose names match,
// relative to the largest magnitude in its own array.
func largestDifference(t testing.TB, a, b backend.TrainerState, match func(string) bool) (worst float64, where string) {
	t.Helper()
	if len(a.Arrays) != len(b.Arrays) {
		t.Fatalf("%d arrays against %d", len(a.Arrays), len(b.Arrays))
	}
	for name, x := range a.Arrays {
		y, ok := b.Arrays[name]
		if !ok || len(x) != len(y) {
			t.Fatalf("array %s: %d entries against %d", name, len(x), len(y))
		}
		if !match(name) {
			continue
		}
		scale, diff := 0.0, 0.0
		for i := range x {
			scale = math.Max(scale, math.Abs(float64(y[i])))
			d := math.Abs(float64(x[i]) - float64(y[i]))
			if !(d <= diff) {
				diff = d
			}
		}
		if scale == 0 {
			scale = 1
		}
		if !(diff/scale <= worst) {
			worst, where = diff/scale, name
		}
	}
	return worst, where
}

func state(t testing.TB, tr backend.Trainer) backend.TrainerState {
	t.Helper()
	s := require.Get(tr.State())(t)
	return s
}

func sameBits(t testing.TB, what string, a, b backend.TrainerState) {
	t.Helper()
	if a.ManifoldSteps != b.ManifoldSteps || a.RolloutSteps != b.RolloutSteps || a.RolloutPrepared != b.RolloutPrepared {
		t.Fatalf("%s: counts %d, %d, %v against %d, %d, %v", what, a.ManifoldSteps, a.RolloutSteps, a.RolloutPrepared, b.ManifoldSteps, b.RolloutSteps, b.RolloutPrepared)
	}
	for name, x := range a.Arrays {
		for i, v := range x {
			if math.Float32bits(v) != math.Float32bits(b.Arrays[name][i]) {
				t.Fatalf("%s: %s[%d] is %v against %v", what, name, i, v, b.Arrays[name][i])
			}
		}
	}
}

func agree(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance*(1+math.Abs(b)) }

// Adam's first moment after one step is (1−β₁) times the gradient, which makes
// State a window on the gradient of every parameter.
func TestGradientOfEachManifoldTermIsTheReference(t *testing.T) {
	terms := map[string]backend.ManifoldLoss{
		"recon x":     {ReconX: 1},
		"action":      {Action: 1},
		"recon o":     {ReconO: 1},
		"consistency": {Consistency: 1, ConsistencyBeta: 0.3},
		"locality":    {Locality: 1},
		"isometry":    {Locality: 1, Isometry: true, IsometryAlpha: 0.8},
		"all":         smallShape.config(1).Manifold,
	}
	for name, weights := range terms {
		t.Run(name, func(t *testing.T) {
			eachISA(t, func(t *testing.T, opt Options) {
				cfg := smallShape.config(1)
				cfg.Manifold = weights
				got, want := newTrainer(t, opt, cfg), referenceTrainer(t, cfg)
				rows, neighbours, kernel := smallShape.draw(3, 131, 2)
				a := require.Get(got.ManifoldStep(rows, neighbours, kernel, 1e-3))(t)
				b := require.Get(want.ManifoldStep(rows, neighbours, kernel, 1e-3))(t)
				for _, l := range [][2]float64{{a.ReconX, b.ReconX}, {a.Action, b.Action}, {a.ReconO, b.ReconO}, {a.Consistency, b.Consistency}, {a.Locality, b.Locality}, {a.Total, b.Total}} {
					if !agree(l[0], l[1], 1e-5) {
						t.Errorf("losses %+v, reference %+v", a, b)
						break
					}
				}
				moment := func(n string) bool { return len(n) > 2 && n[len(n)-2:] == ".m" }
				if d, where := largestDifference(t, state(t, got), state(t, want), moment); !(d <= 2e-5) {
					t.Errorf("gradient of %s differs by %.2g of its largest entry", where, d)
				}
			})
		})
	}
}

func TestManyStepsFollowTheReference(t *testing.T) {
	eachISA(t, func(t *testing.T, opt Options) {
		cfg := smallShape.config(2)
		cfg.SpectralBound = 1.5
		got, want := newTrainer(t, opt, cfg), referenceTrainer(t, cfg)
		for step := range uint64(6) {
			rows, neighbours, kernel := smallShape.draw(10+step, 97+int(step), int(step%3))
			lr := float32(1e-3)
			a := require.Get(got.ManifoldStep(rows, neighbours, kernel, lr))(t)
			b := require.Get(want.ManifoldStep(rows, neighbours, kernel, lr))(t)
			if !agree(a.Total, b.Total, 1e-4) {
				t.Fatalf("step %d: total loss %v, reference %v", step, a.Total, b.Total)
			}
		}
		// Adam divides by the root of the second moment, so the first steps of a
		// parameter with a tiny gradient amplify its rounding: weights agree to a
		// fraction of one step, not to float32.
		all := func(n string) bool { return n[len(n)-2:] != ".v" }
		if d, where := largestDifference(t, state(t, got), state(t, want), all); !(d <= 2e-2) {
			t.Errorf("%s differs by %.2g of its largest entry", where, d)
		}
		weights := func(n string) bool { return n[len(n)-6:] == "weight" }
		if d, where := largestDifference(t, state(t, got), state(t, want), weights); !(d <= 2e-3) {
			t.Errorf("%s differs by %.2g of its largest entry", where, d)
		}
	})
}

func TestStepDoesNotDependOnThreads(t *testing.T) {
	shape := trainingShape{rows: 4000, nx: 12, no: 8, ns: 4, nu: 2, nz: 16, hidden: 64}
	run := func(threads int) backend.TrainerState {
		cfg := shape.config(3)
		cfg.SpectralBound = 2
		tr := newTrainer(t, Options{Threads: threads}, cfg)
		for step := range uint64(2) {
			// More than one micro-batch, with a remainder.
			rows, neighbours, kernel := shape.draw(step, 2*microRows+101, 1)
			if _, err := tr.ManifoldStep(rows, neighbours, kernel, 1e-3); err != nil {
				t.Fatal(err)
			}
		}
		require.OK(t, tr.PrepareRollout())
		rows := pairsOf(cfg.Data)
		if _, err := tr.RolloutStep(rows[:rolloutRows+50], 1e-3); err != nil {
			t.Fatal(err)
		}
		return state(t, tr)
	}
	one := run(1)
	for _, threads := range []int{2, 3, 7} {
		sameBits(t, fmt.Sprintf("1 against %d threads", threads), one, run(threads))
	}
}

func pairsOf(d backend.TrainingSet) []int32 {
	var rows []int32
	for i, n := range d.Next {
		if n >= 0 {
			rows = append(rows, int32(i))
		}
	}
	return rows
}

func TestRolloutFollowsTheReference(t *testing.T) {
	terms := map[string]func(*backend.RolloutLoss){
		"pointwise": func(l *backend.RolloutLoss) { l.Delta, l.Roll, l.Flow, l.Lie = 0, 0, 0, 0 },
		"delta":     func(l *backend.RolloutLoss) { l.Roll, l.Flow, l.Lie = 0, 0, 0 },
		"roll":      func(l *backend.RolloutLoss) { l.Delta, l.Flow, l.Lie = 0, 0, 0 },
		"flow":      func(l *backend.RolloutLoss) { l.Delta, l.Roll, l.Lie = 0, 0, 0 },
		"lie":       func(l *backend.RolloutLoss) { l.Delta, l.Roll, l.Flow = 0, 0, 0 },
		"all":       func(*backend.RolloutLoss) {},
		"no frame":  func(l *backend.RolloutLoss) { l.TopK = 0 },
	}
	for name, change := range terms {
		t.Run(name, func(t *testing.T) {
			eachISA(t, func(t *testing.T, opt Options) {
				cfg := smallShape.config(4)
				change(&cfg.Rollout)
				got, want := newTrainer(t, opt, cfg), referenceTrainer(t, cfg)
				for _, tr := range []backend.Trainer{got, want} {
					require.OK(t, tr.PrepareRollout())
				}
				rows := pairsOf(cfg.Data)[:150]
				a := require.Get(got.RolloutStep(rows, 1e-3))(t)
				b := require.Get(want.RolloutStep(rows, 1e-3))(t)
				for _, l := range [][2]float64{{a.Act, b.Act}, {a.ActNext, b.ActNext}, {a.Delta, b.Delta}, {a.Roll, b.Roll}, {a.Flow, b.Flow},
					{a.LieAct, b.LieAct}, {a.LieDelta, b.LieDelta}, {a.LieAnchor, b.LieAnchor}, {a.LieReg, b.LieReg}, {a.Total, b.Total}} {
					if !agree(l[0], l[1], 1e-4) {
						t.Fatalf("losses %+v\nreference %+v", a, b)
					}
				}
				moment := func(n string) bool { return n[len(n)-2:] == ".m" && n[:9] == "decoder_u" }
				if d, where := largestDifference(t, state(t, got), state(t, want), moment); !(d <= 1e-4) {
					t.Errorf("gradient of %s differs by %.2g of its largest entry", where, d)
				}
				frozen := func(n string) bool { return n[:9] != "decoder_u" }
				if d, where := largestDifference(t, state(t, got), state(t, want), frozen); d != 0 {
					t.Errorf("%s is frozen and changed", where)
				}
				if _, err := got.ManifoldStep(rows, nil, nil, 1e-3); err == nil {
					t.Error("ManifoldStep after PrepareRollout: no error")
				}
			})
		})
	}
}

func TestSpectralBoundIsKept(t *testing.T) {
	const bound = 0.9
	cfg := smallShape.config(5)
	cfg.SpectralBound = bound
	tr := newTrainer(t, Options{}, cfg)
	for step := range uint64(60) {
		rows, neighbours, kernel := smallShape.draw(step, 64, 1)
		if _, err := tr.ManifoldStep(rows, neighbours, kernel, 1e-3); err != nil {
			t.Fatal(err)
		}
	}
	nets := require.Get(tr.Networks())(t)
	for n, net := range nets.All() {
		for l, layer := range net.Layers {
			// A power iteration of its own, to convergence, from another start.
			u := make([]float64, layer.W.Rows)
			for i := range u {
				u[i] = 1 + float64(i%3)
			}
			sigma := 0.0
			for range 300 {
				v := make([]float64, layer.W.Cols)
				for o, c := range u {
					for i, w := range layer.W.Row(o) {
						v[i] += c * float64(w)
					}
				}
				scaleTo1(v)
				for o := range u {
					u[o] = 0
					for i, w := range layer.W.Row(o) {
						u[o] += v[i] * float64(w)
					}
				}
				sigma = scaleTo1(u)
			}
			// One iteration per update tracks the norm from below.
			if sigma > bound*1.02 {
				t.Errorf("%s layer %d has spectral norm %.4f, bound %v", backend.NetworkNames[n], l, sigma, bound)
			}
			if l == 1 && sigma < bound*0.98 {
				t.Errorf("%s layer %d has spectral norm %.4f: the bound %v does not bind, the test shows nothing", backend.NetworkNames[n], l, sigma, bound)
			}
		}
	}
}

func scaleTo1(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	n := math.Sqrt(sum)
	for i := range v {
		v[i] /= n
	}
	return n
}

func TestRestoreContinuesBitwise(t *testing.T) {
	cfg := smallShape.config(6)
	cfg.SpectralBound = 1.2
	steps := func(tr backend.Trainer, from, to uint64) {
		for s := from; s < to; s++ {
			rows, neighbours, kernel := smallShape.draw(s, 120, 2)
			if _, err := tr.ManifoldStep(rows, neighbours, kernel, 1e-3); err != nil {
				t.Fatal(err)
			}
		}
	}
	refine := func(tr backend.Trainer, from, to int) {
		for s := from; s < to; s++ {
			if _, err := tr.RolloutStep(pairsOf(cfg.Data)[s:s+90], 1e-3); err != nil {
				t.Fatal(err)
			}
		}
	}
	whole := newTrainer(t, Options{}, cfg)
	steps(whole, 0, 3)
	middle := state(t, whole)
	steps(whole, 3, 6)

	resumed := newTrainer(t, Options{}, cfg)
	require.OK(t, resumed.Restore(middle))
	steps(resumed, 3, 6)
	sameBits(t, "manifold", state(t, whole), state(t, resumed))

	require.OK(t, whole.PrepareRollout())
	refine(whole, 0, 2)
	middle = state(t, whole)
	refine(whole, 2, 4)
	resumed = newTrainer(t, Options{}, cfg)
	require.OK(t, resumed.Restore(middle))
	refine(resumed, 2, 4)
	sameBits(t, "rollout", state(t, whole), state(t, resumed))

	delete(middle.Arrays, "decoder_s.1.power")
	if err := resumed.Restore(middle); err == nil {
		t.Error("a state without decoder_s.1.power was taken")
	}
}

// The state of one backend continues on another: names and layouts agree.
func TestStateIsTheReferences(t *testing.T) {
	cfg := smallShape.config(7)
	a, b := newTrainer(t, Options{}, cfg), referenceTrainer(t, cfg)
	sameBits(t, "initial", state(t, a), state(t, b))
	rows, _, _ := smallShape.draw(1, 50, 0)
	if _, err := b.ManifoldStep(rows, nil, nil, 1e-3); err != nil {
		t.Fatal(err)
	}
	require.OK(t, a.Restore(state(t, b)))
	sameBits(t, "carried over", state(t, a), state(t, b))
	x := require.Get(a.ManifoldLoss(rows, nil, nil))(t)
	y := require.Get(b.ManifoldLoss(rows, nil, nil))(t)
	if !agree(x.Total, y.Total, 1e-5) {
		t.Errorf("loss %v after restoring, reference %v", x.Total, y.Total)
	}
}

func TestTrainerAllocatesNothingPerStep(t *testing.T) {
	cfg := smallShape.config(8)
	cfg.SpectralBound = 1
	tr := newTrainer(t, Options{Threads: 2}, cfg)
	rows, neighbours, kernel := smallShape.draw(1, 200, 2)
	if n := testing.AllocsPerRun(5, func() {
		if _, err := tr.ManifoldStep(rows, neighbours, kernel, 1e-3); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a manifold step allocates %v times", n)
	}
	require.OK(t, tr.PrepareRollout())
	pairs := pairsOf(cfg.Data)[:200]
	if n := testing.AllocsPerRun(5, func() {
		if _, err := tr.RolloutStep(pairs, 1e-3); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a rollout step allocates %v times", n)
	}
}
