package engine

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

var (
	errLost  = errors.New("the device is lost")
	errShort = errors.New("memory is short")
)

// failing is a backend that fails at one of its calls, after spoiling what it had to
// write; if the error is errLost it fails at every later call too.
type failing struct {
	backend.Backend
	after int // calls that go well
	err   error
	calls int
	dead  bool
}

// behind is the outcome of a call of the backend that gave err: the caller's mistakes
// come first.
func (f *failing) behind(err error, spoil ...tensor.Matrix) error {
	if err != nil {
		return err
	}
	f.calls++
	if f.dead || f.calls == f.after+1 {
		f.dead = f.dead || f.err == errLost
		for _, s := range spoil {
			for i := range s.Rows {
				for j := range s.Row(i) {
					s.Row(i)[j] = float32(math.NaN())
				}
			}
		}
		if f.dead {
			return errLost
		}
		return f.err
	}
	return nil
}

func (f *failing) NewNet(mlp *model.MLP) (backend.Net, error) {
	if err := f.behind(nil); err != nil {
		return nil, err
	}
	n, err := f.Backend.NewNet(mlp)
	return failingNet{n, f}, err
}

func (f *failing) NewIndex(codes, decoded tensor.Matrix) (backend.Index, error) {
	if err := f.behind(nil); err != nil {
		return nil, err
	}
	i, err := f.Backend.NewIndex(codes, decoded)
	return failingIndex{i, f}, err
}

func (f *failing) NewStepper(cfg backend.StepperConfig) (backend.Stepper, error) {
	if err := f.behind(nil); err != nil {
		return nil, err
	}
	s, err := f.Backend.NewStepper(cfg)
	return failingStepper{s, f}, err
}

func (f *failing) NewTrainer(cfg backend.TrainerConfig) (backend.Trainer, error) {
	if err := f.behind(nil); err != nil {
		return nil, err
	}
	t, err := f.Backend.NewTrainer(cfg)
	return failingTrainer{t, f}, err
}

func (f *failing) EigTopK(g tensor.Matrix, n, k int, values, vectors tensor.Matrix) error {
	return errors.Join(f.behind(nil), f.Backend.EigTopK(g, n, k, values, vectors))
}

type failingNet struct {
	backend.Net
	f *failing
}

func (n failingNet) Forward(z, y tensor.Matrix) error {
	return n.f.behind(n.Net.Forward(z, y), y)
}

func (n failingNet) VJP(z, ybar, zbar tensor.Matrix) error {
	return n.f.behind(n.Net.VJP(z, ybar, zbar), zbar)
}

func (n failingNet) Jacobian(z, jac tensor.Matrix) error {
	return n.f.behind(n.Net.Jacobian(z, jac), jac)
}

func (n failingNet) Metric(z tensor.Matrix, lambda float32, g tensor.Matrix) error {
	return n.f.behind(n.Net.Metric(z, lambda, g), g)
}

type failingIndex struct {
	backend.Index
	f *failing
}

func (i failingIndex) Localize(x, zobs tensor.Matrix, tau []float32, neighbours int, out backend.LocalizeOutput) error {
	return i.f.behind(i.Index.Localize(x, zobs, tau, neighbours, out), out.Z)
}

func (i failingIndex) Nearest(z tensor.Matrix, k int, idx []int32, dist2 []float32) error {
	return i.f.behind(i.Index.Nearest(z, k, idx, dist2))
}

type failingStepper struct {
	backend.Stepper
	f *failing
}

func (s failingStepper) Step(in backend.StepInput, out backend.StepOutput) error {
	return s.f.behind(s.Stepper.Step(in, out), out.Z, out.U)
}

func (s failingStepper) Field(in backend.StepInput, f tensor.Matrix, energy []float32) error {
	return s.f.behind(s.Stepper.Field(in, f, energy), f)
}

func (s failingStepper) Decode(z, ctx, x tensor.Matrix, u, states tensor.Matrix) error {
	return s.f.behind(s.Stepper.Decode(z, ctx, x, u, states), u, states)
}

// failingTrainer makes an update and then says that it failed, as an asynchronous
// error does.
type failingTrainer struct {
	backend.Trainer
	f *failing
}

func (t failingTrainer) ManifoldStep(rows, neighbours []int32, kernel []float32, lr float32) (backend.ManifoldLosses, error) {
	l, err := t.Trainer.ManifoldStep(rows, neighbours, kernel, lr)
	return l, t.f.behind(err)
}

func (t failingTrainer) RolloutStep(rows []int32, lr float32) (backend.RolloutLosses, error) {
	l, err := t.Trainer.RolloutStep(rows, lr)
	return l, t.f.behind(err)
}

func (t failingTrainer) PrepareRollout() error {
	return t.f.behind(t.Trainer.PrepareRollout())
}

func (t failingTrainer) State() (backend.TrainerState, error) {
	s, err := t.Trainer.State()
	return s, t.f.behind(err)
}

func cpu(t testing.TB) backend.Backend {
	t.Helper()
	b := require.Get(cpufallback.New(cpufallback.Options{Threads: 1}))(t)
	return b
}

func over(t testing.TB, after int, err error) (*continuing, *failing) {
	f := &failing{Backend: cpu(t), after: after, err: err}
	return &continuing{
		first: f,
		open: func() (backend.Backend, error) {
			return cpufallback.New(cpufallback.Options{Threads: 1})
		},
		fault: func(err error) bool { return errors.Is(err, errLost) || errors.Is(err, errShort) },
		fatal: func(err error) bool { return errors.Is(err, errLost) },
	}, f
}

// The whole suite passes over a backend that is lost, or short of memory once, at
// its first, second, … call.
func TestConformanceAcrossAFault(t *testing.T) {
	for _, test := range []struct {
		name  string
		after int
		err   error
	}{{"lost at the third call", 2, errLost}, {"short of memory at the second call", 1, errShort}} {
		if testing.Short() && test.after != 1 {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			backendtest.Run(t, func(t testing.TB, threads int) backend.Backend {
				c, _ := over(t, test.after, test.err)
				return c
			})
		})
	}
}

// small is a training run of a few rows.
func small() backend.TrainerConfig {
	cfg := testdomain.TrainingRun(rand.New(rand.NewPCG(1, 2)), 24, 0, []int{5, 8, 3}, []int{4, 8, 3}, []int{3, 8, 2}, []int{3, 8, 3})
	cfg.SpectralBound, cfg.MaxNeighbours = 2, 2
	return cfg
}

// train makes manifold updates, prepares and makes rollout updates, and gives the
// state. In the midst it saves and restores. The rollout phase is along chains where
// there is a horizon.
func train(t testing.TB, b backend.Backend, horizon int) backend.TrainerState {
	t.Helper()
	check := func(err error) {
		t.Helper()
		require.OK(t, err)
	}
	cfg := small()
	cfg.Rollout.Horizon = horizon
	tr, err := b.NewTrainer(cfg)
	check(err)
	rng := rand.New(rand.NewPCG(3, 5))
	var pending []backend.ManifoldUpdate
	for step := range 70 {
		rows, neighbours, kernel := testdomain.ManifoldBatch(rng, 24, 6, 2)
		pending = append(pending, backend.ManifoldUpdate{Rows: rows, Neighbours: neighbours, Kernel: kernel, Rate: 1e-2})
		if len(pending) < 3 && step != 20 && step != 69 {
			continue
		}
		check(backend.ManifoldSteps(tr, pending, make([]backend.ManifoldLosses, len(pending))))
		pending = pending[:0]
		if step == 20 {
			s, err := tr.State()
			check(err)
			check(tr.Restore(s))
		}
	}
	check(tr.PrepareRollout())
	if horizon > 0 {
		check(tr.SetChain(backend.Chain{Z: testdomain.Matrix(rng, 24*horizon, 3), Weight: slices.Repeat([]float32{1.5}, 24*horizon)}))
	}
	for range 70 {
		_, err := tr.RolloutStep(testdomain.RolloutBatch(rng, 24, 6), 1e-2)
		check(err)
	}
	s, err := tr.State()
	check(err)
	return s
}

// A training run that loses its backend at any point ends bitwise where it would
// have ended without the loss.
func TestTrainingAcrossAFault(t *testing.T) {
	for _, horizon := range []int{0, 2} {
		trainAcrossFaults(t, horizon)
	}
}

func trainAcrossFaults(t *testing.T, horizon int) {
	want := train(t, cpu(t), horizon)
	for _, fault := range []error{errLost, errShort} {
		for _, after := range []int{0, 1, 7, 20, 21, 22, 23, 64, 71, 72, 73, 74, 85, 86, 87, 140, 143, 144} {
			c, f := over(t, after, fault)
			c.saveInterval = 64
			var notices []string
			c.notice = func(s string) { notices = append(notices, s) }
			got := train(t, c, horizon)
			if f.calls <= after {
				t.Fatalf("only %d calls, no fault after %d", f.calls, after)
			}
			if len(notices) != 1 || !strings.Contains(notices[0], "training") || !strings.Contains(notices[0], fault.Error()) {
				t.Errorf("%v after %d calls: notices %q", fault, after, notices)
			}
			if got.ManifoldSteps != want.ManifoldSteps || got.RolloutSteps != want.RolloutSteps || got.RolloutPrepared != want.RolloutPrepared {
				t.Errorf("%v after %d calls: %d and %d updates, want %d and %d", fault, after, got.ManifoldSteps, got.RolloutSteps, want.ManifoldSteps, want.RolloutSteps)
			}
			for name, values := range want.Arrays {
				if !slices.Equal(got.Arrays[name], values) {
					t.Errorf("%v after %d calls: %s differs", fault, after, name)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// A fault costs at most savedEvery updates made again, wherever it strikes: that is
// what the docs promise.
func TestAFaultRepeatsFewUpdates(t *testing.T) {
	most := 0
	for after := 1; after < 3*savedEvery; after += savedEvery/5 + 1 {
		c, _ := over(t, after, errLost)
		second := &failing{Backend: cpu(t), after: math.MaxInt}
		c.open = func() (backend.Backend, error) { return second, nil }
		tr := require.Get(c.NewTrainer(small()))(t)
		for step := 0; !tr.(*trainer).onSecond; step++ {
			if step > 3*savedEvery {
				t.Fatalf("no fault after %d calls", after)
			}
			if _, err := tr.ManifoldStep([]int32{1, 2, 3}, nil, nil, 1e-3); err != nil {
				t.Fatal(err)
			}
		}
		again := second.calls - 1 // it was made
		most = max(most, again)
		if again > savedEvery+1 { // and the update that failed
			t.Errorf("a fault after %d calls makes %d updates again, want at most %d and the one that failed", after, again-1, savedEvery)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if most < savedEvery/2 {
		t.Errorf("at most %d updates were made again: the places of the faults show nothing", most)
	}
}

// When the first backend ends, objects made before go on, new ones are made on the
// second, and it is said once. When one object alone is moved, others stay.
func TestOthersFollowOnlyALostBackend(t *testing.T) {
	for _, test := range []struct {
		err   error
		calls int // of the first backend, in all
	}{{errLost, 3}, {errShort, 5}} {
		c, f := over(t, 2, test.err)
		notices := 0
		c.notice = func(string) { notices++ }
		rng := rand.New(rand.NewPCG(3, 4))
		mlp := require.Get(model.NewMLP(rng, 3, 5, 2))(t)
		z, want := tensor.New(4, 3), tensor.New(4, 2)
		for i := range z.Data {
			z.Data[i] = rng.Float32()
		}
		forward := func(b backend.Backend, n backend.Net) tensor.Matrix {
			t.Helper()
			if n == nil {
				n = require.Get(b.NewNet(mlp))(t)
			}
			y := tensor.New(4, 2)
			require.OK(t, n.Forward(z, y))
			return y
		}
		want = forward(cpu(t), nil)
		first := require.Get(c.NewNet(mlp))(t)
		second := require.Get(c.NewNet(mlp))(t)
		original := mlp
		mlp = mlp.Clone()
		for i := range original.Layers[0].B { // the caller's network may change
			original.Layers[0].B[i] = 9
		}
		for i, n := range []backend.Net{first, second, first, nil} { // the fault is in the first of these
			if got := forward(c, n); !slices.Equal(got.Data, want.Data) {
				t.Errorf("%v: call %d gives %v, want %v", test.err, i, got.Data, want.Data)
			}
		}
		if notices != 1 {
			t.Errorf("%v: told %d times", test.err, notices)
		}
		if f.calls != test.calls+1 && test.err == errShort || f.calls != test.calls && test.err == errLost {
			t.Errorf("%v: %d calls of the first backend", test.err, f.calls)
		}
	}
}
