//go:build linux && (amd64 || arm64)

package shim_test

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/images"
	"github.com/gpc-engine/gpc/kernels/shim"
)

const testKernels = "kernels/shim/testdata/sum.cu"

// open gives a context on the shim with the test kernels, and a stream.
func open(t *testing.T) (*shim.Library, *driver.Context) {
	t.Helper()
	l := shim.OpenFiles(t, testKernels)
	ctx := require.Get(driver.Open(l, 0))(t)
	t.Cleanup(func() {
		ctx.Close()
		if n := l.Allocations(); n != 0 {
			t.Errorf("%d allocations outlive their context", n)
		}
	})
	return l, ctx
}

func kernel(t *testing.T, th *driver.Thread, name string) *driver.Kernel {
	t.Helper()
	m := require.Get(th.LoadModule("test", driver.HostShimImage))(t)
	return require.Get(th.Kernel(m, name))(t)
}

func device[T driver.Element](t *testing.T, th *driver.Thread, values []T) driver.Pointer {
	t.Helper()
	p := require.Get(th.Alloc(len(values) * 8))(t)
	require.OK(t, driver.Upload(th, p, values))
	return p
}

func TestSumUsesSharedMemoryAndShuffles(t *testing.T) {
	l, ctx := open(t)
	for _, order := range []uint64{0, 1, 7} {
		l.SetOrder(order)
		for _, threads := range []int{32, 64, 256, 992, 1024} {
			const blocks = 3
			n := threads*blocks - threads/2
			a, b, want := make([]float32, n), make([]float32, n), make([]float64, blocks)
			for i := range a {
				a[i], b[i] = float32(i%17)-8, float32(i%5)
				want[i/threads] += float64(a[i]) + float64(b[i])
			}
			require.OK(t, ctx.Do(func(th *driver.Thread) error {
				k := kernel(t, th, "gpc_test_sum")
				out, pa, pb := device(t, th, make([]float32, blocks)), device(t, th, a), device(t, th, b)
				require.OK(t, th.Launch(k, driver.Launch{Grid: driver.Dim{X: blocks}, Block: driver.Dim{X: threads}, Shared: 4 * ((threads + 31) / 32)},
					driver.Address(out), driver.Address(pa), driver.Address(pb), driver.Int32(n)))
				got := make([]float32, blocks)
				require.OK(t, driver.Download(th, got, out))
				for i := range got {
					if float64(got[i]) != want[i] {
						t.Errorf("%d threads, order %d: block %d sums to %v, want %v", threads, order, i, got[i], want[i])
					}
				}
				for _, p := range []driver.Pointer{out, pa, pb} {
					require.OK(t, th.Free(p))
				}
				return nil
			}))
		}
	}
}

func TestTransposeThroughAStaticTile(t *testing.T) {
	_, ctx := open(t)
	const n = 50
	in, got := make([]float32, n*n), make([]float32, n*n)
	for i := range in {
		in[i] = float32(i)
	}
	require.OK(t, ctx.Do(func(th *driver.Thread) error {
		out, p := device(t, th, got), device(t, th, in)
		require.OK(t, th.Launch(kernel(t, th, "gpc_test_transpose"), driver.Launch{Grid: driver.Dim{X: 2, Y: 2}, Block: driver.Dim{X: 32, Y: 32}},
			driver.Address(out), driver.Address(p), driver.Int32(n)))
		return driver.Download(th, got, out)
	}))
	for y := range n {
		for x := range n {
			if got[x*n+y] != in[y*n+x] {
				t.Fatalf("entry %d,%d is %v, want %v", x, y, got[x*n+y], in[y*n+x])
			}
		}
	}
}

func TestWarpOperations(t *testing.T) {
	l, ctx := open(t)
	for _, order := range []uint64{0, 1, 3} {
		l.SetOrder(order)
		const threads = 64
		got := make([]int32, 8*threads)
		require.OK(t, ctx.Do(func(th *driver.Thread) error {
			p := device(t, th, got)
			require.OK(t, th.Launch(kernel(t, th, "gpc_test_lanes"), driver.Launch{Block: driver.Dim{X: threads}}, driver.Address(p)))
			return driver.Download(th, got, p)
		}))
		ballot := uint32(0)
		for i := 0; i < 32; i += 3 {
			ballot |= 1 << i
		}
		for i := range threads {
			lane := i % 32
			down, up := lane+4, lane-4
			if down > 31 {
				down = lane
			}
			if up < 0 {
				up = lane
			}
			half := lane ^ 1
			if lane >= 16 {
				half = min(lane+1, 31)
			}
			for row, want := range []int{5, lane ^ 3, down, up, lane&^7 + 1, int(int32(ballot)), half, 1} {
				if int(got[row*threads+i]) != want {
					t.Errorf("order %d, operation %d, lane %d: %d, want %d", order, row, lane, got[row*threads+i], want)
				}
			}
		}
	}
}

func TestIntegerAtomics(t *testing.T) {
	_, ctx := open(t)
	require.OK(t, ctx.Do(func(th *driver.Thread) error {
		count, least := device(t, th, []uint32{5}), device(t, th, []uint64{math.MaxUint64})
		require.OK(t, th.Launch(kernel(t, th, "gpc_test_count"), driver.Launch{Grid: driver.Dim{X: 4}, Block: driver.Dim{X: 96}},
			driver.Address(count), driver.Address(least), driver.Float32(2)))
		c, m := make([]uint32, 1), make([]uint64, 1)
		require.OK(t, driver.Download(th, c, count))
		require.OK(t, driver.Download(th, m, least))
		if c[0] != 5+2*4*96 || m[0] != 1000-2*(4*96-1) {
			t.Errorf("count %d, least %d", c[0], m[0])
		}
		return nil
	}))
}

// A captured graph reads its inputs anew at each launch, and nothing on a stream
// happens before it is waited for.
func TestGraphReplaysWithNewInputs(t *testing.T) {
	_, ctx := open(t)
	const n = 64
	require.OK(t, ctx.Do(func(th *driver.Thread) error {
		k := kernel(t, th, "gpc_test_sum")
		in := require.Get(th.AllocHost(4 * n))(t)
		result := require.Get(th.AllocHost(4))(t)
		a, b, out := device(t, th, make([]float32, n)), device(t, th, make([]float32, n)), device(t, th, []float32{0})
		s := require.Get(th.NewStream())(t)
		g := require.Get(th.Capture(s, func() error {
			if err := th.UploadAsync(a, in, 0, 4*n, s); err != nil {
				return err
			}
			if err := th.Launch(k, driver.Launch{Block: driver.Dim{X: n}, Shared: 8, Stream: s},
				driver.Address(out), driver.Address(a), driver.Address(b), driver.Int32(n)); err != nil {
				return err
			}
			return th.DownloadAsync(result, 0, out, 4, s)
		}))(t)
		values, sum := driver.HostSlice[float32](in, 0, n), driver.HostSlice[float32](result, 0, 1)
		for round := 1; round <= 3; round++ {
			for i := range values {
				values[i] = float32(round)
			}
			before := sum[0]
			require.OK(t, th.LaunchGraph(g, s))
			if sum[0] != before && !math.IsNaN(float64(before)) {
				t.Error("the graph ran before it was waited for")
			}
			require.OK(t, th.Wait(s))
			if sum[0] != float32(round*n) {
				t.Errorf("round %d: %v, want %d", round, sum[0], round*n)
			}
		}
		return th.DestroyGraph(g)
	}))
}

// A kernel reads and writes pinned memory where the device finds it, without a copy.
func TestKernelsReachPinnedMemory(t *testing.T) {
	_, ctx := open(t)
	const n = 64
	require.OK(t, ctx.Do(func(th *driver.Thread) error {
		in, out := require.Get(th.AllocHost(8*n))(t), require.Get(th.AllocHost(4))(t)
		values, sum := driver.HostSlice[float32](in, 0, 2*n), driver.HostSlice[float32](out, 0, 1)
		for i := range values {
			values[i] = float32(i)
		}
		if err := th.Launch(kernel(t, th, "gpc_test_sum"), driver.Launch{Block: driver.Dim{X: n}, Shared: 8},
			driver.Address(out.Device()), driver.Address(in.Device()), driver.Address(in.Device().Offset(4*n)), driver.Int32(n)); err != nil {
			return err
		}
		if !math.IsNaN(float64(sum[0])) {
			t.Error("the kernel ran before it was waited for")
		}
		if err := th.Synchronize(); err != nil {
			return err
		}
		if want := float32(n * (2*n - 1)); sum[0] != want {
			t.Errorf("%v, want %v", sum[0], want)
		}
		return errors.Join(th.FreeHost(in), th.FreeHost(out))
	}))
}

// Each mistake of a kernel is reported, ends the context, and names what happened.
func TestMistakesOfKernelsAreFound(t *testing.T) {
	findMistakes(t, map[int]string{1: "outside an allocation", 2: "outside an allocation", 3: "dynamic shared memory", 4: "never reach"})
}

// The checked build also finds what leaves no trace around allocations.
func TestCheckedBuild(t *testing.T) {
	t.Setenv("GPC_SHIM_CHECK", "1")
	findMistakes(t, map[int]string{5: "testdata/sum.cu:71: misaligned", 6: "testdata/sum.cu:72: array index 65 out of bounds", 9: "blocks 1 and 0 of a kernel both touch byte 0 of an allocation of 256 bytes"})
	_, ctx := open(t)
	require.OK(t, ctx.Do(func(th *driver.Thread) error {
		p := device(t, th, make([]uint32, 32))
		require.OK(t, th.Launch(kernel(t, th, "gpc_test_fault"), driver.Launch{Grid: driver.Dim{X: 3}, Block: driver.Dim{X: 32}, Shared: 128},
			driver.Address(p), driver.Int32(32), driver.Int32(10), driver.Struct(&struct{ A, B int32 }{})))
		return th.Synchronize()
	}))
}

// The checked build holds the accesses of a graph's nodes against each other: two
// branches that write the same bytes, or of which one writes what the other copies,
// are a mistake even where their order happens to be right.
func TestCheckedBuildFindsConflictsInGraphs(t *testing.T) {
	t.Setenv("GPC_SHIM_CHECK", "1")
	for _, c := range []struct {
		name  string
		apart int // between what the two branches write, in bytes
		copy  bool
		join  bool // the second waits for the first
		want  string
	}{
		{"branches of their own", 256, false, false, ""},
		{"the same bytes", 0, false, false, "nodes 0 (gpc_test_fault) and 1 (gpc_test_fault)"},
		{"an overlap of one number", 124, false, false, "byte 124 of an allocation of 1024"},
		{"a copy of what the other writes", 0, true, false, "nodes 0 (gpc_test_fault) and 1 (cuMemcpyDtoDAsync_v2)"},
		{"one after the other", 0, false, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, ctx := open(t)
			err := ctx.Do(func(th *driver.Thread) error {
				k := kernel(t, th, "gpc_test_fault")
				p := require.Get(th.Alloc(1024))(t)
				main, side := require.Get(th.NewStream())(t), require.Get(th.NewStream())(t)
				fork, done := require.Get(th.NewEvent())(t), require.Get(th.NewEvent())(t)
				write := func(at driver.Pointer, s driver.Stream) error {
					return th.Launch(k, driver.Launch{Block: driver.Dim{X: 32}, Shared: 128, Stream: s},
						driver.Address(at), driver.Int32(32), driver.Int32(0), driver.Struct(&struct {
							A float32
							B int32
						}{1, 2}))
				}
				g, err := th.Capture(main, func() error {
					other := func() error {
						if c.copy {
							return th.CopyAsync(p.Offset(512), p, 128, main)
						}
						return write(p.Offset(c.apart), main)
					}
					steps := []func() error{
						func() error { return th.Record(fork, main) },
						func() error { return th.WaitFor(side, fork) },
						func() error { return write(p, side) },
						func() error { return th.Record(done, side) },
						func() error { return th.WaitFor(main, done) },
						other,
					}
					if !c.join {
						steps[4], steps[5] = steps[5], steps[4]
					}
					for _, step := range steps {
						if err := step(); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					return err
				}
				if err := th.LaunchGraph(g, main); err != nil {
					return err
				}
				return th.Wait(main)
			})
			if c.want == "" {
				require.OK(t, err)
			} else if err == nil || !strings.Contains(l.Message(), c.want) {
				t.Errorf("%v, message %q, want one with %q", err, l.Message(), c.want)
			}
		})
	}
}

// A branch that does not come back to the stream that captures ends the capture with
// an error.
func TestUnjoinedBranch(t *testing.T) {
	_, ctx := open(t)
	err := ctx.Do(func(th *driver.Thread) error {
		main, side := require.Get(th.NewStream())(t), require.Get(th.NewStream())(t)
		fork := require.Get(th.NewEvent())(t)
		p := require.Get(th.Alloc(64))(t)
		_, err := th.Capture(main, func() error {
			return errors.Join(th.Record(fork, main), th.WaitFor(side, fork), th.ZeroAsync(p, 64, side))
		})
		return err
	})
	var call *driver.CallError
	if !errors.As(err, &call) || call.Code != 904 {
		t.Errorf("%v, want error 904, an unjoined capture", err)
	}
}

// What only tests see is not in the stand-in, and so it is taken for a GPU's driver: it
// loads the images that one would, and runs.
func TestStandInIsTakenForADriver(t *testing.T) {
	shim.OpenFiles(t, testKernels) // skips where there is no compiler
	m := require.Get(images.Find("."))(t)
	path := require.Get(shim.StandIn(m, []string{filepath.Join(m.Root, testKernels)}))(t)
	d := require.Get(driver.Load(path))(t)
	if d.HostShim() {
		t.Error("the stand-in says that it is the shim")
	}
	ctx := require.Get(driver.Open(d, 0))(t)
	defer ctx.Close()
	require.OK(t, ctx.Do(func(th *driver.Thread) error {
		if _, err := th.LoadModule("test", driver.HostShimImage[:3]); err == nil {
			t.Error("an image that is none is loaded")
		}
		module := require.Get(th.LoadModule("test", []byte("//\n// PTX")))(t)
		k := require.Get(th.Kernel(module, "gpc_test_sum"))(t)
		out, a := device(t, th, []float32{0}), device(t, th, slices.Repeat([]float32{1}, 64))
		require.OK(t, th.Launch(k, driver.Launch{Block: driver.Dim{X: 64}, Shared: 8}, driver.Address(out), driver.Address(a), driver.Address(a), driver.Int32(64)))
		got := make([]float32, 1)
		if err := driver.Download(th, got, out); err != nil || got[0] != 128 {
			t.Errorf("the sum is %v, %v", got[0], err)
		}
		return nil
	}))
}

func findMistakes(t *testing.T, mistakes map[int]string) {
	t.Helper()
	for which, want := range mistakes {
		l, ctx := open(t)
		err := ctx.Do(func(th *driver.Thread) error {
			n := 64
			p := require.Get(th.Alloc(4 * n))(t)
			pair := struct {
				A float32
				B int32
			}{2, 3}
			require.OK(t, th.Launch(kernel(t, th, "gpc_test_fault"), driver.Launch{Grid: driver.Dim{X: 2}, Block: driver.Dim{X: 32}, Shared: 4 * n},
				driver.Address(p), driver.Int32(n), driver.Int32(which), driver.Struct(&pair)))
			return th.Synchronize()
		})
		var lost *driver.LostError
		if !errors.As(err, &lost) || !strings.Contains(l.Message(), want) {
			t.Errorf("mistake %d: %v, message %q, want one with %q", which, err, l.Message(), want)
		}
		if ctx.Lost() == nil {
			t.Errorf("mistake %d left the context usable", which)
		}
		require.OK(t, ctx.Close())
	}
}

func TestStructureByValueAndPoison(t *testing.T) {
	l, ctx := open(t)
	pair := struct {
		A float32
		B int32
	}{2.5, 4}
	run := func(which int) []float32 {
		got := make([]float32, 32)
		require.OK(t, ctx.Do(func(th *driver.Thread) error {
			p := device(t, th, got)
			require.OK(t, th.Launch(kernel(t, th, "gpc_test_fault"), driver.Launch{Block: driver.Dim{X: 32}, Shared: 128},
				driver.Address(p), driver.Int32(32), driver.Int32(which), driver.Struct(&pair)))
			return driver.Download(th, got, p)
		}))
		return got
	}
	if got := run(0); got[31] != 10 {
		t.Errorf("a structure's fields multiply to %v, want 10", got[31])
	}
	if got := run(7); !math.IsNaN(float64(got[3])) {
		t.Errorf("shared memory that nobody wrote reads %v, want NaN", got[3])
	}
	first := run(8)
	l.SetOrder(1)
	if again := run(8); first[0] == again[0] {
		t.Errorf("a race gives %v in both orders", again[0])
	}
}
