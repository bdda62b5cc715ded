package kernels

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/tensor"
)

// TestAMillionLatents takes 2²⁰ latents and three more through a network: as many
// launches as there are chunks, the last of three rows, and every row where it belongs.
func TestAMillionLatents(t *testing.T) {
	library, b := metered(t, Options{})
	rng := rand.New(rand.NewPCG(33, 34))
	const rows = 1<<20 + 3
	layer := linear(2, 1, func() float32 { return float32(rng.NormFloat64()) })
	z, y := tensor.New(rows, 2), tensor.New(rows, 1)
	for i := range rows {
		z.Row(i)[0], z.Row(i)[1] = float32(i%1021), float32(i/1021)
	}
	n := require.Get(b.NewNet(layer))(t)
	before := library.Calls("kernel")
	require.OK(t, n.Forward(z, y))
	if launches := library.Calls("kernel") - before; launches != ceil(rows, mostRows) {
		t.Errorf("%d launches, want %d", launches, ceil(rows, mostRows))
	}
	w, bias := layer.Layers[0].W.Row(0), float64(layer.Layers[0].B[0])
	for i := range rows {
		first, second := float64(w[0])*float64(z.Row(i)[0]), float64(w[1])*float64(z.Row(i)[1])
		if off := math.Abs(float64(y.Row(i)[0]) - (first + second + bias)); !(off <= 1e-6*(math.Abs(first)+math.Abs(second)+math.Abs(bias))) {
			t.Fatalf("row %d: %v, want %v", i, y.Row(i)[0], first+second+bias)
		}
	}
}

// TestStepInChunks makes a stepper for a million latents on a device that has memory for
// few: a batch of more than that is the same step.
func TestStepInChunks(t *testing.T) {
	const rows = 150
	cfg, in := integratorStep(t, rows)
	library, b := metered(t, Options{})
	cfg.MaxBatch = 1 << 20
	library.SetMemory(4 << 20)
	s := require.Get(b.NewStepper(cfg))(t).(*Stepper)
	if c := s.buffers.capacity; c >= 1<<16 || c < 32 {
		t.Errorf("room for %d rows in 4 MiB", c)
	}
	s.buffers.capacity = 64 // of which the batch takes three
	got, want := takeStep(t, s, cfg, in), takeStep(t, require.Get(ref.New().NewStepper(cfg))(t), cfg, in)
	off := 0
	for i := range rows {
		if backendtest.Near(wide32(got.z.Row(i)), wide32(want.z.Row(i)), 1e-4) != nil || backendtest.Near(wide32(got.u.Row(i)), wide32(want.u.Row(i)), 1e-4) != nil {
			off++
		}
	}
	if off > rows/10 { // of which some are at a kink
		t.Errorf("%d of %d rows differ from the reference", off, rows)
	}
}
