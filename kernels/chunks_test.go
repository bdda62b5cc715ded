package kernels

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/tensor"
)

// TestSearchOfEveryCount asks for every number of neighbours that one pass finds, and one
// more: its lists lie in shared memory, of which the kernel has some of its own, and at 23
// and 24 the two together are what is more than a block has without opt-in.
func TestSearchOfEveryCount(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	const count, size, rows = 150, 5, 3
	codes, query := tensor.New(count, size), tensor.New(rows, size)
	for _, m := range []tensor.Matrix{codes, query} {
		for i := range m.Data {
			m.Data[i] = float32(rng.NormFloat64())
		}
	}
	nearest := make([][]int32, rows)
	for r := range nearest {
		distance := func(i int32) (sum float64) {
			for j, v := range codes.Row(int(i)) {
				d := float64(v) - float64(query.Row(r)[j])
				sum += d * d
			}
			return sum
		}
		for i := range int32(count) {
			nearest[r] = append(nearest[r], i)
		}
		slices.SortFunc(nearest[r], func(a, b int32) int { return cmp.Or(cmp.Compare(distance(a), distance(b)), cmp.Compare(a, b)) })
	}
	for _, tf32 := range []bool{false, true} {
		_, b := metered(t, Options{TF32: tf32})
		index := require.Get(b.NewIndex(codes, tensor.New(count, 1)))(t)
		for k := 1; k <= searchPass+1; k++ {
			found, distance := make([]int32, rows*k), make([]float32, rows*k)
			if err := index.Nearest(query, k, found, distance); err != nil {
				t.Errorf("TF32 %v, %d neighbours: %v", tf32, k, err)
				continue
			}
			for r := range rows {
				if got := found[r*k : (r+1)*k]; !slices.Equal(got, nearest[r][:k]) {
					t.Errorf("TF32 %v, %d neighbours of query %d: %v, want %v", tf32, k, r, got, nearest[r][:k])
				}
			}
		}
	}
}

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
