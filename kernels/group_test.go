package kernels

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper/integrator"
	"github.com/gpc-engine/gpc/tensor"
)

// together gives a group on n devices.
func together(t testing.TB, d driver.Driver, n int, o Options) *Group {
	t.Helper()
	var members []*Backend
	for _, ordinal := range shim.Devices(t, d, n) {
		members = append(members, require.Get(New(require.Get(driver.Open(d, ordinal))(t), o))(t))
	}
	g := require.Get(NewGroup(members...))(t)
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// bits compare results to the last one, NaN with NaN.
func bits[T float32 | float64](values []T) (all []uint64) {
	for _, v := range values {
		all = append(all, math.Float64bits(float64(v)))
	}
	return all
}

// perOperation gives what networks, eigenpairs, search and steps make of so many rows.
func perOperation(t testing.TB, b backend.Backend, rows int) (out [][]uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(41, uint64(rows)))
	random := func(cols int) tensor.Matrix {
		m := tensor.New(rows, cols)
		for i := range m.Data {
			m.Data[i] = float32(rng.NormFloat64())
		}
		return m
	}
	give := func(m ...tensor.Matrix) {
		for _, v := range m {
			out = append(out, bits(v.Data))
		}
	}
	mlp := require.Get(model.NewMLP(rng, 16, 70, 65, 4))(t)
	net := require.Get(b.NewNet(mlp))(t)
	z, bar := random(16), random(4)
	y, zbar, jac, metric := tensor.New(rows, 4), tensor.New(rows, 16), tensor.New(rows, 64), tensor.New(rows, 256)
	require.OK(t, net.Forward(z, y))
	require.OK(t, net.VJP(z, bar, zbar))
	require.OK(t, net.Jacobian(z, jac))
	require.OK(t, net.Metric(z, 0.1, metric))
	values, vectors := tensor.New(rows, 3), tensor.New(rows, 48)
	require.OK(t, b.EigTopK(metric, 16, 3, values, vectors))
	give(y, zbar, jac, metric, values, vectors)

	m := integratorModel(t, 200)
	decoded := tensor.New(m.Codes.Rows, m.DecoderS.Out())
	require.OK(t, m.DecoderS.Forward(m.Codes, decoded))
	index := require.Get(b.NewIndex(m.Codes, decoded))(t)
	near := backend.LocalizeOutput{Z: tensor.New(rows, 16), Nearest: make([]int32, rows), Residual: make([]float32, rows), Consistent: make([]bool, rows)}
	tau := slices.Repeat([]float32{0.5}, rows)
	require.OK(t, index.Localize(random(4), z, tau, 5, near))
	found, distance := make([]int32, 7*rows), make([]float32, 7*rows)
	require.OK(t, index.Nearest(z, 7, found, distance))
	give(near.Z)
	out = append(out, bits(near.Residual), bits(distance))
	for i := range rows {
		near.Residual[i] = float32(near.Nearest[i])
		distance[i] = float32(found[i])
	}
	out = append(out, bits(near.Residual), bits(distance))

	cfg, in := integratorStep(t, rows)
	split := cfg
	split.Problem = hidden{cfg.Problem}
	for _, c := range []backend.StepperConfig{cfg, split} {
		c.MaxBatch = max(1, rows-2) // the last rows are a chunk of their own
		s := require.Get(b.NewStepper(c))(t)
		r := takeStep(t, s, c, in)
		f, energy, u, states := tensor.New(rows, in.Z.Cols), make([]float32, rows), tensor.New(rows, c.DecoderU.Out()), tensor.New(rows, in.X.Cols)
		require.OK(t, s.Field(in, f, energy))
		require.OK(t, s.Decode(in.Z, in.Ctx, in.X, u, states))
		give(r.z, r.u, f, u, states)
		out = append(out, bits(r.energy), bits(energy))
	}
	return out
}

// A row is the same bits whatever the number of devices that its batch is dealt out to;
// on the shim, with one multiprocessor, batches of five rows and more take other tiles
// than their parts would.
func TestRowsAreThoseOfOneDevice(t *testing.T) {
	for _, o := range []Options{{}, {TF32: true}} {
		_, one := metered(t, o)
		g := together(t, shim.Device(t), 3, o)
		batches := []int{1, 2, 5, 9, 40}
		if brief() { // fewer rows than devices, and more
			batches = []int{2, 9}
		}
		for _, rows := range batches {
			want, got := perOperation(t, one, rows), perOperation(t, g, rows)
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Errorf("TF32 %v, %d rows: result %d is another on three devices", o.TF32, rows, i)
				}
			}
		}
	}
}

// Closed loops, whose latents stay on the devices, decide as on one.
func TestLoopsAreThoseOfOneDevice(t *testing.T) {
	one, g := onAny(t), together(t, shim.Device(t), 2, Options{})
	for _, loops := range []int{1, 7, 35} {
		want, got := drive(t, one, batchnav.Options{}, loops, 6), drive(t, g, batchnav.Options{}, loops, 6)
		for i := range want {
			if w, g := fmt.Sprintf("%+v", want[i]), fmt.Sprintf("%+v", got[i]); w != g {
				t.Fatalf("%d loops, decision %d: %s\nwant %s", loops, i, g, w)
			}
		}
	}
	cfg := loopsConfig(t, 5)
	l := require.Get(g.NewLoops(cfg))(t)
	z, back := tensor.New(5, cfg.Step.DecoderS.In()), tensor.New(5, cfg.Step.DecoderS.In())
	for i := range z.Data {
		z.Data[i] = float32(i)
	}
	require.OK(t, l.SetLatents(z))
	require.OK(t, l.Latents(back))
	if !slices.Equal(z.Data, back.Data) {
		t.Errorf("latents %v come back as %v", z.Data, back.Data)
	}
}

// Refinements, with their rounds along roll-outs, choose the same candidate and say the
// same of all, ties included.
func TestRefinementIsThatOfOneDevice(t *testing.T) {
	m := integratorModel(t, 60)
	one, g := onAny(t), together(t, shim.Device(t), 3, Options{})
	fixed := domain.Preference{W: []float64{0.3, 0.7}}
	var want []string
	for _, b := range []backend.Backend{one, g} {
		r := require.Get(batchnav.NewRefiner(b, m, integrator.Convex().Problem, batchnav.Options{}, 20))(t)
		var said []string
		for i, opt := range []batchnav.RefineOptions{
			{Candidates: 20, FlowSteps: 1, Seed: 3, LookAhead: 3},
			{Candidates: 20, FlowSteps: 2, Seed: 4, LookAhead: 2, Previous: m.Codes.Row(7), Mixture: batchnav.Mixture{Neighbours: 0.2, Preference: 0.3, Previous: 0.3}},
			{Candidates: 2, Seed: 4, LookAhead: 1},
			{Candidates: 1, Seed: 4, LookAhead: 1},
			{Candidates: 20, Seed: 5, LookAhead: 1, NoProjection: true},
		} {
			obs := batchnav.Observation{S: []float64{-1.4, -0.4, 1.5, 0.2}, C: []float64{0.4, 0.6, 0.2, 0.1, 0.3}, Preference: domain.Preference{Adaptive: true}}
			if i%2 == 1 {
				obs.Preference = fixed
			}
			result := require.Get(r.Refine(context.Background(), obs, opt))(t)
			result.Latency = batchnav.Refinement{}.Latency
			said = append(said, fmt.Sprintf("%+v", *result))
		}
		if want == nil {
			want = said
		}
		for i, s := range said {
			if s != want[i] {
				t.Errorf("refinement %d: %s\nwant %s", i, s, want[i])
			}
		}
	}
}

// Rounds of a search score every candidate as one device does.
func TestRoundsAreThoseOfOneDevice(t *testing.T) {
	one, g := onAny(t), together(t, shim.Device(t), 2, Options{})
	cfg := roundConfig(t, 11)
	single, several := require.Get(one.NewRollouts(cfg))(t), require.Get(g.NewRollouts(cfg))(t)
	for _, rows := range []int{11, 3, 1} {
		in, out := drawnRound(&cfg, rows, 4)
		require.OK(t, single.Score(in, out))
		want := all(out)
		require.OK(t, several.Score(in, out))
		if !slices.Equal(all(out), want) {
			t.Errorf("%d candidates: another round on two devices", rows)
		}
	}
}

// bothPhases takes a trainer through both phases, with a batch of fewer rows than devices.
func (p trainingProblem) bothPhases(t testing.TB, trainer backend.Trainer) (losses []float64, state backend.TrainerState) {
	t.Helper()
	few := require.Get(trainer.ManifoldStep([]int32{3, 4}, nil, nil, 2e-3))(t)
	losses = p.train(t, trainer, 2)
	evaluated := require.Get(trainer.RolloutLoss(p.rolloutRows(7)))(t)
	return append(losses, few.Total, evaluated.Total), stateOf(t, trainer)
}

// Training on several devices is the same bits at every run on so many, in whatever order
// warps and lanes run and whether devices read each other's memory or the driver goes by
// way of the host; the reference's and one device's to rounding; and every device holds
// the same networks.
func TestTrainingTogetherIsBitwiseRepeatable(t *testing.T) {
	p := smallProblem
	p.batch, p.hidden, p.nx = 70, 20, 20
	cfg := p.config(12)
	wantLosses, want := p.bothPhases(t, trainerOf(t, ref.New(), cfg))
	for _, devices := range []int{2, 3} {
		var losses []float64
		var state backend.TrainerState
		for i, order := range []uint64{0, 0, 7} {
			d := shim.Device(t)
			shim.SetOrder(d, order)
			if l, ok := d.(*shim.Library); ok && i == 1 {
				l.SetAttribute(shim.PeerAccess, 0)
			}
			g := together(t, d, devices, Options{})
			trainer := trainerOf(t, g, cfg).(*groupTrainer)
			gotLosses, got := p.bothPhases(t, trainer)
			for m, member := range trainer.members {
				own := stateOf(t, member)
				for name, values := range got.Arrays {
					if !slices.Equal(own.Arrays[name], values) {
						t.Errorf("%d devices: %s differs on device %d", devices, name, m)
					}
				}
			}
			if i == 0 {
				losses, state = gotLosses, got
				if d := deviation(losses, wantLosses); !(d < 2e-5) {
					t.Errorf("%d devices: losses are off by %v", devices, d)
				}
				if d := weightDeviation(got, want); !(d < 2e-5) {
					t.Errorf("%d devices: arrays are off by %v", devices, d)
				}
				continue
			}
			if !slices.Equal(gotLosses, losses) {
				t.Errorf("%d devices, order %d: other losses", devices, order)
			}
			for name, values := range state.Arrays {
				if !slices.Equal(got.Arrays[name], values) {
					t.Errorf("%d devices, order %d: %s differs", devices, order, name)
				}
			}
		}
	}
}

// A state goes from several devices to one and back, and what follows is the same bits as
// without the way.
func TestStatesOfSeveralDevicesAreThoseOfOne(t *testing.T) {
	p := smallProblem
	p.batch, p.hidden, p.nx = 30, 12, 12
	cfg := p.config(13)
	one, g := onAny(t), together(t, shim.Device(t), 2, Options{})
	step := func(trainer backend.Trainer) {
		rows, neighbours, kernel := p.manifoldRows(0)
		require.Get(trainer.ManifoldStep(rows, neighbours, kernel, 2e-3))(t)
	}
	whole, half, between := trainerOf(t, g, cfg), trainerOf(t, g, cfg), trainerOf(t, one, cfg)
	step(whole)
	step(whole)
	step(half)
	require.OK(t, between.Restore(stateOf(t, half)))
	again := trainerOf(t, g, cfg)
	require.OK(t, again.Restore(stateOf(t, between)))
	step(again)
	want, got := stateOf(t, whole), stateOf(t, again)
	for name, values := range want.Arrays {
		if !slices.Equal(got.Arrays[name], values) {
			t.Errorf("%s differs", name)
		}
	}
	if got.ManifoldSteps != want.ManifoldSteps {
		t.Errorf("%d steps, want %d", got.ManifoldSteps, want.ManifoldSteps)
	}
}

// An index that nobody holds but the search that runs keeps its codes until the search is
// done, however often memory is collected.
func TestSearchKeepsItsCodes(t *testing.T) {
	g := together(t, shim.Device(t), 2, Options{})
	rng := rand.New(rand.NewPCG(51, 52))
	const rows = 8
	codes, z := tensor.New(200, 8), tensor.New(rows, 8)
	for i := range codes.Data {
		codes.Data[i] = float32(rng.NormFloat64())
	}
	var wait sync.WaitGroup
	defer wait.Wait()
	done := make(chan struct{})
	defer close(done)
	wait.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				runtime.GC()
			}
		}
	})
	for range 60 {
		near := backend.LocalizeOutput{Z: tensor.New(rows, 8)}
		require.OK(t, require.Get(g.NewIndex(codes, tensor.New(200, 4)))(t).Localize(tensor.New(rows, 4), z, slices.Repeat([]float32{1}, rows), 3, near))
		if !tensor.Finite(near.Z.Data) {
			t.Fatal("codes are gone while they are searched")
		}
	}
}

// What crosses between devices in an update: each copies the gradient of every other.
func TestWhatCrossesBetweenDevices(t *testing.T) {
	p := smallProblem
	p.rows, p.batch, p.hidden = 40, 20, 8
	d := shim.NewMetered(shim.Device(t))
	g := together(t, d, 3, Options{})
	trainer := trainerOf(t, g, p.config(14))
	rows, neighbours, kernel := p.manifoldRows(0)
	before := d.Calls("cuMemcpyPeerAsync")
	require.Get(trainer.ManifoldStep(rows, neighbours, kernel, 1e-3))(t)
	require.Get(trainer.ManifoldLoss(rows, neighbours, kernel))(t)
	if n := d.Calls("cuMemcpyPeerAsync") - before; n != 3*2 {
		t.Errorf("an update on three devices makes %d copies between them, want 6", n)
	}
}

// Devices of two kinds would give other bits by how rows are dealt out.
func TestDevicesOfTwoKindsAreRefused(t *testing.T) {
	d := shim.NewMetered(shim.Device(t))
	ordinals := shim.Devices(t, d, 2)
	first := require.Get(New(require.Get(driver.Open(d, ordinals[0]))(t), Options{}))(t)
	defer first.Close()
	d.SetAttribute(driver.Multiprocessors, first.device.Multiprocessors+1)
	second := require.Get(New(require.Get(driver.Open(d, ordinals[1]))(t), Options{}))(t)
	defer second.Close()
	if _, err := NewGroup(first, second); err == nil || !strings.Contains(err.Error(), "of one kind") {
		t.Errorf("%v, want a refusal", err)
	}
}

// TestFaultsOfSeveralDevices loses one of two devices in the midst of every kind of work:
// the error names it, and a trainer gives out nothing that only a part of an update went
// into. The other device is lost with it only where it may be reading what the lost one
// holds.
func TestFaultsOfSeveralDevices(t *testing.T) {
	l := shim.Open(t)
	const illegalAddress = 700
	p := smallProblem
	p.rows, p.batch, p.hidden = 20, 10, 8
	training := p.config(15)
	rows, neighbours, kernel := p.manifoldRows(0)
	step, in := integratorStep(t, 12)
	loops, refining, round := loopsConfig(t, 6), mapOf(t, integratorModel(t, 20), integrator.Convex().Problem, 8), roundConfig(t, 8)
	works := []struct {
		name  string
		fails []string // calls of device 1
		work  func(g *Group, lose func()) error
	}{
		{"a batch", []string{"cuGraphLaunch", "gpc_step_end", "cuStreamSynchronize"}, func(g *Group, lose func()) error {
			s := require.Get(g.NewStepper(step))(t)
			takeStep(t, s, step, in)
			lose()
			u := tensor.New(12, step.DecoderU.Out())
			return s.Step(in, backend.StepOutput{U: u})
		}},
		{"closed loops", []string{"cuGraphLaunch", "gpc_loop_settle"}, func(g *Group, lose func()) error {
			l := require.Get(g.NewLoops(loops))(t)
			call, out := loopsCall(loops)
			require.OK(t, l.Decide(call, out))
			lose()
			return l.Decide(call, out)
		}},
		{"a refinement", []string{"cuGraphLaunch", "gpc_step_end"}, func(g *Group, lose func()) error {
			r := require.Get(g.NewRefiner(refining))(t)
			call := backend.RefineInput{
				S: []float64{-2.2, 0.1, 1.2, -0.1}, C: []float64{0.9, 0.1, 0.15, 0.1, 0.2}, Preference: domain.Preference{Adaptive: true}, Tau: 1,
				Candidates: 8, FlowSteps: 1, LookAhead: 2, NoiseScales: []float64{0.1},
				Preferences: func(int, []float64) {},
			}
			require.Get(r.Refine(call))(t)
			lose()
			_, err := r.Refine(call)
			return err
		}},
		{"a round of a search", []string{"cuGraphLaunch", "gpc_domain_policy_integrator_8x2"}, func(g *Group, lose func()) error {
			r := require.Get(g.NewRollouts(round))(t)
			lose()
			return r.Score(drawnRound(&round, 8, 2))
		}},
		{"training", []string{"gpc_train_gradient", "gpc_train_sum", "cuMemcpyPeerAsync", "gpc_train_adam", "cuGraphLaunch"}, func(g *Group, lose func()) error {
			trainer := trainerOf(t, g, training)
			for range 2 {
				require.Get(trainer.ManifoldStep(rows, neighbours, kernel, 1e-3))(t)
			}
			require.Get(trainer.State())(t)
			lose()
			_, err := trainer.ManifoldStep(rows, neighbours, kernel, 1e-3)
			if _, again := trainer.State(); again == nil {
				t.Error("a state is given out behind a fault")
			} else if err == nil { // of an update that nothing waits for
				err = again
			}
			if _, again := trainer.Networks(); again == nil {
				t.Error("networks are given out behind a fault")
			}
			return err
		}},
	}
	for _, w := range works {
		for _, symbol := range w.fails {
			t.Run(w.name+", "+symbol, func(t *testing.T) {
				l.Reset()
				g := together(t, l, 2, Options{})
				err := w.work(g, func() { l.FailOn(1, symbol, 1, illegalAddress) })
				var lost *driver.LostError
				if !errors.As(err, &lost) || !strings.Contains(err.Error(), "device 1: ") {
					t.Fatalf("%v, want a lost device 1", err)
				}
				reads := symbol == "cuMemcpyPeerAsync" // whose order on two devices is nobody's
				if named, gone := strings.Contains(err.Error(), "device 0: "), g.members[0].context.Lost() != nil; named != gone || gone && !reads {
					t.Errorf("%v; the other device is lost: %v", err, gone)
				}
			})
		}
	}
}
