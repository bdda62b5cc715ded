//go:build linux && (amd64 || arm64)

package kernels

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/internal/testing/training"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/model"
)

// trainingProblem is a random problem whose widths leave remainders in every tile.
type trainingProblem struct {
	rows, nx, no, ns, nu, nz, hidden, batch, kappa int
	isometry                                       bool
}

var smallProblem = trainingProblem{rows: 60, nx: 70, no: 9, ns: 37, nu: 3, nz: 6, hidden: 45, batch: 300, kappa: 2}

func (p trainingProblem) config(seed uint64) backend.TrainerConfig {
	rng := rand.New(rand.NewPCG(seed, 1))
	cfg := testdomain.TrainingRun(rng, p.rows, 0.1, []int{p.nx, p.hidden, p.hidden, p.nz}, []int{p.no, p.hidden, p.nz},
		[]int{p.nz, p.hidden, p.hidden, p.nu}, []int{p.nz, p.hidden, p.ns})
	cfg.Manifold.Isometry, cfg.Rollout.TopK = p.isometry, min(5, p.nz)
	cfg.SpectralBound, cfg.MaxBatch, cfg.MaxNeighbours = 1.2, p.batch, p.kappa
	return cfg
}

// deep is a network of three layers, as all of the paper's are.
func (p trainingProblem) deep(in, out int) *model.MLP {
	return testdomain.Network(rand.New(rand.NewPCG(uint64(in), uint64(out))), 0, in, p.hidden, p.hidden, out)
}

func (p trainingProblem) manifoldRows(step int) (rows, neighbours []int32, kernel []float32) {
	return testdomain.ManifoldBatch(rand.New(rand.NewPCG(uint64(step), 2)), p.rows, p.batch, p.kappa)
}

func (p trainingProblem) rolloutRows(step int) []int32 {
	return testdomain.RolloutBatch(rand.New(rand.NewPCG(uint64(step), 3)), p.rows, p.batch)
}

func trainerOf(t testing.TB, b backend.Backend, cfg backend.TrainerConfig) backend.Trainer {
	t.Helper()
	trainer := require.Get(b.NewTrainer(cfg))(t)
	return trainer
}

// train makes some steps of both phases and returns all losses.
func (p trainingProblem) train(t testing.TB, trainer backend.Trainer, steps int) (losses []float64) {
	t.Helper()
	for step := range steps {
		rows, neighbours, kernel := p.manifoldRows(step)
		l := require.Get(trainer.ManifoldStep(rows, neighbours, kernel, 2e-3))(t)
		losses = append(losses, l.ReconX, l.Action, l.ReconO, l.Consistency, l.Locality, l.Total)
	}
	require.OK(t, trainer.PrepareRollout())
	for step := range steps {
		l := require.Get(trainer.RolloutStep(p.rolloutRows(step), 2e-3))(t)
		losses = append(losses, l.Act, l.ActNext, l.Delta, l.Roll, l.Flow, l.LieAct, l.LieDelta, l.LieAnchor, l.LieReg, l.Total)
	}
	return losses
}

func stateOf(t testing.TB, trainer backend.Trainer) backend.TrainerState {
	t.Helper()
	s := require.Get(trainer.State())(t)
	return s
}

// deviation is the largest difference of two lists, each relative to max(1, |b|).
func deviation(a, b []float64) float64 {
	worst := 0.0
	for i := range b {
		if d := math.Abs(a[i]-b[i]) / math.Max(1, math.Abs(b[i])); !(d <= worst) {
			worst = d
		}
	}
	return worst
}

// weightDeviation is the largest difference of two states' arrays.
func weightDeviation(a, b backend.TrainerState) float64 {
	worst := 0.0
	for name, values := range b.Arrays {
		for i, v := range values {
			if d := math.Abs(float64(a.Arrays[name][i]) - float64(v)); !(d <= worst) {
				worst = d
			}
		}
	}
	return worst
}

// A batch cut in micro-batches, the last of them short, is the same step as the
// reference's on the whole batch, in both forms of the locality term.
func TestMicroBatchesAddUp(t *testing.T) {
	for _, isometry := range []bool{false, true} {
		p := smallProblem
		p.batch, p.isometry = 270, isometry
		cfg := p.config(1)
		b := onAny(t)
		trainer := trainerOf(t, b, cfg).(*Trainer)
		trainer.micro = 128
		reference := trainerOf(t, training.New(), cfg)
		got, want := p.train(t, trainer, 1), p.train(t, reference, 1)
		if d := deviation(got, want); !(d < 2e-5) {
			t.Errorf("losses are off by %v", d)
		}
		if d := weightDeviation(stateOf(t, trainer), stateOf(t, reference)); !(d < 2e-5) {
			t.Errorf("arrays are off by %v", d)
		}
	}
}

// Whatever order warps and lanes run in, and in every run, training gives the same
// bits: no race, and no sum without an order.
func TestTrainingIsBitwiseRepeatable(t *testing.T) {
	p := smallProblem
	p.batch, p.hidden, p.nx = 150, 20, 20
	var first backend.TrainerState
	var losses []float64
	for i, order := range []uint64{0, 0, 1, 7} {
		l, b := metered(t, Options{})
		shim.SetOrder(l, order)
		trainer := trainerOf(t, b, p.config(2))
		trainer.(*Trainer).micro = 128
		got := p.train(t, trainer, 1)
		state := stateOf(t, trainer)
		if i == 0 {
			first, losses = state, got
			continue
		}
		if !slices.Equal(got, losses) {
			t.Errorf("order %d: other losses", order)
		}
		for name, values := range first.Arrays {
			if !slices.Equal(state.Arrays[name], values) {
				t.Errorf("order %d: %s differs", order, name)
			}
		}
	}
}

// The tile is chosen by the number of multiprocessors; no weight depends on it.
func TestTilesGiveTheSameWeights(t *testing.T) {
	p := smallProblem
	p.batch, p.hidden = 70, 70
	var states []backend.TrainerState
	var losses [][]float64
	for _, multiprocessors := range []int{1, 3, 132} {
		l := shim.NewMetered(shim.Device(t))
		l.SetAttribute(driver.Multiprocessors, multiprocessors)
		context := require.Get(driver.Open(l, 0))(t)
		b := require.Get(New(context, Options{}))(t)
		trainer := trainerOf(t, b, p.config(10)).(*Trainer)
		group := []trainProduct{{m: 130, n: 70}}
		tiledOverSamples(group, b.device.Multiprocessors, false)
		if want := []int32{shapeTall, shapeHalf, shapeQuarter}[len(states)]; group[0].shape != want {
			t.Errorf("%d multiprocessors: tile %d, want %d", multiprocessors, group[0].shape, want)
		}
		losses = append(losses, p.train(t, trainer, 1))
		states = append(states, stateOf(t, trainer))
		b.Close()
	}
	if d := deviation(losses[0], losses[1]); !(d < 1e-6) {
		t.Errorf("losses are off by %v", d)
	}
	for name, values := range states[0].Arrays {
		if !slices.Equal(states[1].Arrays[name], values) {
			t.Errorf("%s differs", name)
		}
	}
}

// What docs/contribute/cuda-training.md says of a step at the sizes of the OPF case.
func TestWorkOfOPFTraining(t *testing.T) {
	p := opfProblem
	p.rows, p.batch = 10, 4096
	cfg := p.opfConfig()
	if m, r := cfg.Initial.ManifoldFLOPs(p.kappa)/1e6, cfg.Initial.RolloutFLOPs()/1e6; math.Abs(m-3.23) > 0.005 || math.Abs(r-2.22) > 0.005 {
		t.Errorf("%.3f and %.3f MFLOP per sample", m, r)
	}
	trainer := &Trainer{backend: &Backend{device: driver.Device{Multiprocessors: 132}}, cfg: cfg, layout: newTrainLayout(cfg), micro: p.batch}
	if bytes := 4 * trainer.layout.placeGradients(p.batch, p.kappa); bytes/1_000_000 != 20 {
		t.Errorf("%d bytes of partial gradients", bytes)
	}
	if bytes := 4 * trainer.layout.spaceFloats(p.batch, p.kappa); bytes/1_000_000 != 107 {
		t.Errorf("%d bytes of activations and deltas", bytes)
	}
	grids := func(plan func(*planner)) (list []int) {
		pl := &planner{t: trainer}
		plan(pl)
		for _, l := range pl.plan.launches {
			list = append(list, l.grid)
		}
		return list
	}
	manifold := grids(func(pl *planner) { pl.manifold(planKey{rows: p.batch, kappa: p.kappa, train: true}) })
	if want := []int{384, 384, 192, 384, 384, 384, 384, 384, 192, 512, 5, 288, 168, 6, 384, 384, 368, 205, 6}; !slices.Equal(manifold, want) {
		t.Errorf("blocks of phase 1: %v, want %v", manifold, want)
	}
	rollout := grids(func(pl *planner) { pl.rollout(planKey{rollout: true, rows: p.batch, train: true}) })
	if want := []int{512, 640, 640, 320, 512, 9, 640, 640, 192, 78, 3}; !slices.Equal(rollout, want) {
		t.Errorf("blocks of phase 2: %v, want %v", rollout, want)
	}
}

// A gradient has more blocks the smaller its splits, and no layer more partial sums for a
// smaller batch.
func TestSplitsOfAGradient(t *testing.T) {
	l := trainLayer{in: 256, out: 256}
	for k, want := range map[int]int{1: 1, 128: 1, 512: 4, 1024: 8, 4096: 8, 8192: 16, 1 << 20: 16} {
		if got := l.splits(k); got != want {
			t.Errorf("%d samples: %d splits, want %d", k, got, want)
		}
	}
	for k := 1; k < 10000; k++ {
		if l.splits(k) > l.splits(k+1) {
			t.Fatalf("%d samples have %d splits, one more %d: there is no room for the first", k, l.splits(k), l.splits(k+1))
		}
	}
}

// Networks of one layer, and of so many that a launch has more entries than a warp
// has lanes.
func TestDepths(t *testing.T) {
	p := trainingProblem{rows: 20, nx: 5, no: 3, ns: 4, nu: 2, nz: 3, hidden: 6, batch: 7, kappa: 1}
	net := func(in, out, layers int) *model.MLP {
		widths := []int{in}
		for range layers - 1 {
			widths = append(widths, p.hidden)
		}
		return testdomain.Network(rand.New(rand.NewPCG(uint64(in), uint64(layers))), 0, append(widths, out)...)
	}
	for _, layers := range [][4]int{{1, 1, 1, 1}, {1, 4, 2, 1}, {9, 9, 9, 9}} {
		cfg := p.config(11)
		cfg.Initial = backend.Networks{
			EncoderX: net(p.nx, p.nz, layers[0]), EncoderO: net(p.no, p.nz, layers[1]),
			DecoderU: net(p.nz, p.nu, layers[2]), DecoderS: net(p.nz, p.ns, layers[3]),
		}
		b := onAny(t)
		trainer, reference := trainerOf(t, b, cfg), trainerOf(t, training.New(), cfg)
		got, want := p.train(t, trainer, 2), p.train(t, reference, 2)
		if d := deviation(got, want); !(d < 2e-5) {
			t.Errorf("%v layers: losses are off by %v", layers, d)
		}
		if d := weightDeviation(stateOf(t, trainer), stateOf(t, reference)); !(d < 2e-5) {
			t.Errorf("%v layers: arrays are off by %v", layers, d)
		}
	}
}

// Memory that is short makes the micro-batch smaller, not the step another.
func TestShortMemoryCutsTheBatch(t *testing.T) {
	p := smallProblem
	p.batch, p.kappa, p.hidden, p.nx, p.ns = 2000, 1, 17, 9, 5
	cfg := p.config(3)
	b := onAny(t)
	plenty := trainerOf(t, b, cfg).(*Trainer)
	need := 4 * plenty.layout.spaceFloats(plenty.micro, p.kappa)
	want := p.train(t, plenty, 1)
	require.OK(t, b.Close())
	l, b := metered(t, Options{})
	l.SetMemory(need)
	short := trainerOf(t, b, cfg).(*Trainer)
	if plenty.micro != 2048 || short.micro >= plenty.micro {
		t.Fatalf("micro-batches of %d rows, with little memory of %d", plenty.micro, short.micro)
	}
	if d := deviation(p.train(t, short, 1), want); !(d < 1e-5) {
		t.Errorf("losses are off by %v", d)
	}
	l.SetMemory(1 << 16)
	var none *driver.MemoryError
	if _, err := b.NewTrainer(cfg); !errors.As(err, &none) {
		t.Errorf("a device without room: %v, want a *driver.MemoryError", err)
	}
}

// A fault in any call or kernel of a step is an error of that call or the next,
// never a crash; after it every call says that the context is lost.
func TestFaultsSurface(t *testing.T) {
	p := smallProblem
	p.rows, p.batch, p.hidden = 20, 10, 8
	cfg := p.config(4)
	rows, neighbours, kernel := p.manifoldRows(0)
	symbols := []string{"cuMemAlloc_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemsetD8Async",
		"cuLaunchKernel", "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuEventRecord",
		"cuEventSynchronize", "cuStreamSynchronize", "gpc_train_forward", "gpc_train_backward", "gpc_train_latent", "gpc_train_losses",
		"gpc_train_gradient", "gpc_train_adam", "gpc_train_spectral", "gpc_train_rollout_latents", "gpc_train_rollout_loss", "gpc_train_lie"}
	run := func(b *Backend) error {
		trainer, err := b.NewTrainer(cfg)
		if err != nil {
			return err
		}
		for range 2 {
			if _, err := trainer.ManifoldStep(rows, neighbours, kernel, 1e-3); err != nil {
				return err
			}
		}
		if err := trainer.PrepareRollout(); err != nil {
			return err
		}
		for range 2 {
			if _, err := trainer.RolloutStep(p.rolloutRows(0), 1e-3); err != nil {
				return err
			}
		}
		state, err := trainer.State()
		if err != nil {
			return err
		}
		return trainer.Restore(state)
	}
	l, b := onShim(t, Options{})
	l.Reset()
	require.OK(t, run(b))
	calls := map[string]int{}
	for _, s := range symbols {
		if calls[s] = l.Calls(s); calls[s] == 0 {
			t.Errorf("%s is never called; the list of this test is out of date", s)
		}
	}
	const illegalAddress = 700
	for _, symbol := range symbols {
		for n := 1; n <= calls[symbol]; n += max(1, calls[symbol]-1) {
			l, b := onShim(t, Options{})
			l.Fail(symbol, n, illegalAddress)
			var lost *driver.LostError
			if err := run(b); !errors.As(err, &lost) {
				t.Errorf("%s failing at call %d: %v, want a *driver.LostError", symbol, n, err)
			}
			if err := run(b); !errors.As(err, &lost) {
				t.Errorf("after %s failed at call %d: %v, want a *driver.LostError", symbol, n, err)
			}
			b.Close()
		}
	}
}

// Plans are kept for the sizes last used, and what a trainer held is given back
// when nobody holds it.
func TestPlansAreBoundedAndMemoryIsReturned(t *testing.T) {
	p := smallProblem
	p.rows, p.batch, p.hidden = 40, 30, 8
	l, b := metered(t, Options{})
	before := l.Allocations()
	func() {
		trainer := trainerOf(t, b, p.config(5)).(*Trainer)
		rows, _, _ := p.manifoldRows(0)
		want := map[int]backend.ManifoldLosses{}
		for round := range 2 {
			for n := 1; n <= maxPlans+3; n++ {
				loss := require.Get(trainer.ManifoldLoss(rows[:n], nil, nil))(t)
				if round == 0 {
					want[n] = loss
				} else if loss != want[n] {
					t.Errorf("%d rows: %+v, and %+v before", n, loss, want[n])
				}
			}
		}
		if plans := trainer.memory.plans; len(plans.values) != maxPlans || len(plans.order) != maxPlans {
			t.Errorf("%d plans, %d in order, want %d", len(plans.values), len(plans.order), maxPlans)
		}
	}()
	require.Until(t, "what the trainer has allocated is gone with it", func() bool {
		runtime.GC()
		require.OK(t, b.execute(func(*driver.Thread) error { return nil }))
		return l.Allocations() <= before
	})
}

// The TF32 option is another arithmetic, near that of float32.
func TestTF32TrainsNearFloat32(t *testing.T) {
	p := smallProblem
	p.batch, p.hidden, p.nx = 20, 24, 20
	cfg := p.config(6)
	b := onAny(t)
	want := p.train(t, trainerOf(t, b, cfg), 1)
	b.Close()
	_, b = metered(t, Options{TF32: true})
	d := deviation(p.train(t, trainerOf(t, b, cfg), 1), want)
	t.Logf("largest deviation of a loss: %.2g", d)
	if !(d > 1e-6 && d < 5e-3) {
		t.Errorf("losses are off by %v, want what rounding to 11 bits does", d)
	}
}

// Sizes that the kernels do not take are refused by name.
func TestTrainerRefusesWhatIsTooWide(t *testing.T) {
	b := onAny(t)
	for _, p := range []trainingProblem{
		{rows: 20, nx: 3, no: 3, ns: 2, nu: 2, nz: MaxLatent + 1, hidden: 8, batch: 4},
		{rows: 20, nx: 3, no: 3, ns: 2, nu: 2, nz: 4, hidden: MaxWidth + 1, batch: 4},
	} {
		if _, err := b.NewTrainer(p.config(7)); err == nil {
			t.Errorf("latent %d, hidden %d: no error", p.nz, p.hidden)
		}
	}
}

// The widest networks, and the largest latent, that are taken.
func TestWidestNetworks(t *testing.T) {
	p := trainingProblem{rows: 20, nx: 5, no: 3, ns: 2, nu: 2, nz: MaxLatent, hidden: MaxWidth, batch: 3, kappa: 1}
	if testing.Short() {
		p.hidden = 300
	}
	cfg := p.config(8)
	b := onAny(t)
	trainer, reference := trainerOf(t, b, cfg), trainerOf(t, training.New(), cfg)
	got, want := p.train(t, trainer, 1), p.train(t, reference, 1)
	if d := deviation(got, want); !(d < 2e-5) {
		t.Errorf("losses are off by %v", d)
	}
	if d := weightDeviation(stateOf(t, trainer), stateOf(t, reference)); !(d < 2e-5) {
		t.Errorf("arrays are off by %v", d)
	}
}

// Updates that are queued one behind the other, of several sizes and in several calls of the
// device, make the networks and losses of as many steps, to the bit. One that is refused
// lets none be made.
func TestASequenceIsItsUpdates(t *testing.T) {
	p := smallProblem
	cfg := p.config(4)
	b := onAny(t)
	one, many := trainerOf(t, b, cfg), trainerOf(t, b, cfg).(*Trainer)
	many.slots = 3
	var updates []backend.ManifoldUpdate
	var want []backend.ManifoldLosses
	for i := range 11 {
		rows, neighbours, kernel := p.manifoldRows(i)
		if i%4 == 3 {
			rows, neighbours, kernel = rows[:5], neighbours[:5*p.kappa], kernel[:5*p.kappa]
		}
		u := backend.ManifoldUpdate{Rows: rows, Neighbours: neighbours, Kernel: kernel, Rate: float32(1e-3 / float64(1+i))}
		updates = append(updates, u)
		want = append(want, require.Get(one.ManifoldStep(u.Rows, u.Neighbours, u.Kernel, u.Rate))(t))
	}
	bad := append(slices.Clone(updates[:2]), backend.ManifoldUpdate{Rows: []int32{int32(p.rows)}})
	got := make([]backend.ManifoldLosses, len(updates))
	if err := many.ManifoldSteps(bad, got); err == nil || stateOf(t, many).ManifoldSteps != 0 {
		t.Errorf("a row that is not there: error %v", err)
	}
	require.OK(t, many.ManifoldSteps(updates, got))
	if !slices.Equal(got, want) {
		t.Errorf("losses %v, want %v", got, want)
	}
	if d := weightDeviation(stateOf(t, many), stateOf(t, one)); d != 0 {
		t.Errorf("arrays are off by %v", d)
	}
}

// The launches of a step, which the headers of the plans state: a step costs two
// graph launches and one wait however many kernels it has.
func TestLaunchesOfAStep(t *testing.T) {
	p := smallProblem
	p.rows, p.batch, p.hidden = 40, 20, 8
	cfg := p.config(9)
	cfg.Initial.EncoderO, cfg.Initial.DecoderS = p.deep(p.no, p.nz), p.deep(p.nz, p.ns)
	l, b := metered(t, Options{})
	trainer := trainerOf(t, b, cfg)
	settle := func() {
		require.OK(t, b.execute(func(th *driver.Thread) error { return th.Wait(b.stream) }))
	}
	calls := []string{"cuGraphLaunch", "cuEventRecord", "cuEventSynchronize", "cuLaunchKernel", "cuMemAlloc_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2"}
	wantCalls := []int{2, 1, 1, 0, 0, 0, 0}
	count := func(what string, want int, step func() error) {
		t.Helper()
		// The first is launched kernel by kernel, the second captured.
		for use := range 3 {
			settle()
			before := l.Calls("kernel")
			var made []int
			for _, c := range calls {
				made = append(made, -l.Calls(c))
			}
			require.OK(t, step())
			if use < 2 {
				continue
			}
			for i, c := range calls {
				made[i] += l.Calls(c)
			}
			settle()
			if got := l.Calls("kernel") - before; got != want || !slices.Equal(made, wantCalls) {
				t.Errorf("%s: %d kernels, driver calls %v of %v; want %d and %v", what, got, made, calls, want, wantCalls)
			}
		}
	}
	rows, neighbours, kernel := p.manifoldRows(0)
	count("a step of the manifold", 19, func() error { _, err := trainer.ManifoldStep(rows, neighbours, kernel, 1e-3); return err })
	wantCalls = []int{4, 0, 0, 0, 0, 0, 0} // and one wait for the stream
	updates := slices.Repeat([]backend.ManifoldUpdate{{Rows: rows, Neighbours: neighbours, Kernel: kernel, Rate: 1e-3}}, 4)
	count("a sequence of four", 4*19, func() error {
		waits := l.Calls("cuStreamSynchronize")
		err := trainer.(*Trainer).ManifoldSteps(updates, make([]backend.ManifoldLosses, 4))
		if n := l.Calls("cuStreamSynchronize") - waits; n != 1 {
			t.Errorf("a sequence waits %d times", n)
		}
		return err
	})
	wantCalls = []int{2, 1, 1, 0, 0, 0, 0}
	require.OK(t, trainer.PrepareRollout())
	count("a step of the rollout", 11, func() error { _, err := trainer.RolloutStep(p.rolloutRows(0), 1e-3); return err })
}
