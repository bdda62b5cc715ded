package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// fewRows are rows that kernels take eight a block on every device.
const fewRows = 4

// TestOneRowIsItsRowAmongFew takes forward and backward passes and metrics of rows
// alone and together, at widths where one way to share a product among threads ends and the next
// begins: the same bits, a NaN among the activations included.
func TestOneRowIsItsRowAmongFew(t *testing.T) {
	b := onAny(t)
	for _, widths := range [][]int{
		{3, 5, 2}, {8, 13, 16}, {9, 70, 17}, {16, 64, 65, 4}, {14, 300, 270, 130}, {17, 300, 12}, {32, 256, 256, 60}, {27, 40, 520, 30, 70}, {33, 100, 129}, {64, 257, 40, 16},
		{70, 20, 7}, {16, 12}, {40, 130}, {5, 520, 300},
	} {
		t.Run(fmt.Sprint(widths), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(len(widths)), uint64(widths[0])))
			mlp := require.Get(model.NewMLP(rng, widths...))(t)
			for _, l := range mlp.Layers {
				for i := range l.B {
					l.B[i] = float32(rng.NormFloat64())
				}
			}
			n, out := mlp.In(), mlp.Out()
			z, ybar := tensor.New(fewRows, n), tensor.New(fewRows, out)
			for _, m := range []tensor.Matrix{z, ybar} {
				for i := range m.Data {
					m.Data[i] = float32(rng.NormFloat64())
				}
			}
			z.Row(fewRows - 1)[0] = float32(math.NaN())
			net := require.Get(b.NewNet(mlp))(t)
			pass := func(z, ybar tensor.Matrix) (y, zbar tensor.Matrix) {
				y, zbar = tensor.New(z.Rows, out), tensor.New(z.Rows, n)
				require.OK(t, net.Forward(z, y))
				require.OK(t, net.VJP(z, ybar, zbar))
				return y, zbar
			}
			y, zbar := pass(z, ybar)
			g := tensor.New(fewRows, n*n)
			if n <= MaxLatent {
				require.OK(t, net.Metric(z, 0.1, g))
			}
			for i := range fewRows {
				ownY, ownZ := pass(z.Slice(i, i+1), ybar.Slice(i, i+1))
				if !sameBits(ownY.Data, y.Row(i)) || !sameBits(ownZ.Data, zbar.Row(i)) {
					t.Errorf("row %d alone: %v and %v, among others %v and %v", i, ownY.Data, ownZ.Data, y.Row(i), zbar.Row(i))
				}
				if n > MaxLatent {
					continue
				}
				own := tensor.New(1, n*n)
				require.OK(t, net.Metric(z.Slice(i, i+1), 0.1, own))
				if !sameBits(own.Data, g.Row(i)) {
					t.Errorf("row %d: the metric alone is %v, among others %v", i, own.Data, g.Row(i))
				}
				if poisoned := i == fewRows-1 && len(widths) > 2; poisoned != math.IsNaN(float64(own.Data[0])) {
					t.Errorf("row %d: the metric is %v", i, own.Data[0])
				}
			}
		})
	}
}

// sameBits compares numbers, of which one NaN is as another.
func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
	})
}

// TestStepOfOneState takes states alone and among others, with a problem and without
// one, with every part of the step and with rotations: the same bits, in one graph that
// copies nothing.
func TestStepOfOneState(t *testing.T) {
	cfg, in := integratorStep(t, fewRows)
	for name, change := range map[string]func(*backend.StepperConfig){
		"whole":     func(*backend.StepperConfig) {},
		"no lie":    func(c *backend.StepperConfig) { c.Params.LieGain = 0 },
		"rotations": func(c *backend.StepperConfig) { c.Params.Group = backend.Group{RotationBlocks: 2} },
		"no problem": func(c *backend.StepperConfig) {
			c.Problem = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			own, in := cfg, in
			change(&own)
			if own.Problem == nil {
				in.Ctx, in.Weights = tensor.Matrix{}, tensor.Matrix{}
			}
			library, b := metered(t, Options{})
			s := require.Get(b.NewStepper(own))(t)
			together := takeStep(t, s, own, in)
			field, energy := tensor.New(fewRows, own.DecoderS.In()), make([]float32, fewRows)
			require.OK(t, s.Field(in, field, energy))
			plans, states := tensor.New(fewRows, own.DecoderU.Out()), tensor.New(fewRows, own.DecoderS.Out())
			require.OK(t, s.Decode(in.Z, in.Ctx, in.X, plans, states))
			count := func() [4]int {
				return [4]int{library.Calls("cuMemcpyHtoDAsync_v2"), library.Calls("cuMemcpyDtoHAsync_v2"), library.Calls("cuMemcpyHtoD_v2"), library.Calls("cuMemcpyDtoH_v2")}
			}
			before := count()
			for i := range fewRows {
				row := func(m tensor.Matrix) tensor.Matrix {
					if m.Rows == 0 {
						return m
					}
					return m.Slice(i, i+1)
				}
				one := backend.StepInput{Z: row(in.Z), X: row(in.X), Ctx: row(in.Ctx), Weights: row(in.Weights)}
				alone := takeStep(t, s, own, one)
				if !sameBits(alone.z.Data, together.z.Row(i)) || !sameBits(alone.u.Data, together.u.Row(i)) || !sameBits(alone.energy, together.energy[i:i+1]) || alone.fallbacks[0] != together.fallbacks[i] {
					t.Errorf("row %d alone: %+v, among others %v, %v, %v", i, alone, together.z.Row(i), together.u.Row(i), together.energy[i])
				}
				f, e := tensor.New(1, field.Cols), make([]float32, 1)
				require.OK(t, s.Field(one, f, e))
				if !sameBits(f.Data, field.Row(i)) || !sameBits(e, energy[i:i+1]) {
					t.Errorf("row %d: the field alone is %v, among others %v", i, f.Data, field.Row(i))
				}
				u, x := tensor.New(1, plans.Cols), tensor.New(1, states.Cols)
				require.OK(t, s.Decode(one.Z, one.Ctx, one.X, u, x))
				if !sameBits(u.Data, plans.Row(i)) || !sameBits(x.Data, states.Row(i)) {
					t.Errorf("row %d decodes alone to %v, among others %v", i, u.Data, plans.Row(i))
				}
			}
			if after := count(); after != before {
				t.Errorf("steps of one state make copies: %v, before %v", after, before)
			}
		})
	}
}

// TestLaunchesOfOneState counts the launches of a step of one state, among them metric
// and eigenpairs beside the others, and takes it launch by launch.
func TestLaunchesOfOneState(t *testing.T) {
	cfg, in := integratorStep(t, 1)
	library, b := metered(t, Options{})
	want := takeStep(t, require.Get(b.NewStepper(cfg))(t), cfg, in)
	before := [2]int{library.Calls("kernel"), library.Calls("cuGraphLaunch")}
	takeStep(t, require.Get(b.NewStepper(cfg))(t), cfg, in)
	after := [2]int{library.Calls("kernel") - before[0], library.Calls("cuGraphLaunch") - before[1]}
	if after != [2]int{13, 1} {
		t.Errorf("%d launches in %d graphs, want 13 in one", after[0], after[1])
	}
	var s backend.Stepper
	var got stepped
	launches := require.Get(b.Trace(1, func() (err error) { s, err = b.NewStepper(cfg); return err }, func() error { got = takeStep(t, s, cfg, in); return nil }))(t)
	if len(launches) != 13 || !sameBits(got.z.Data, want.z.Data) || !sameBits(got.u.Data, want.u.Data) {
		t.Errorf("launch by launch the step is another, of %d launches", len(launches))
	}
	for _, v := range launches {
		if v.Kernel == "gpc_one_forward" && b.device.Name == driver.HostShimName && v.Grid != [2]int{1, 2} {
			t.Errorf("%s has %v blocks", v.Kernel, v.Grid)
		}
	}
}
