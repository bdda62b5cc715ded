package device_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/ptx"
	"github.com/gpc-engine/gpc/kernels/ptx/device"
)

// opened is a context of the interpreter with the kernel of the sum of vectors.
func opened(t *testing.T) (*device.Device, *driver.Context, []byte) {
	t.Helper()
	d := device.New(ptx.Options{Shared: true, Global: true, Count: true})
	c := require.Get(driver.Open(d, 0))(t)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, c, require.Get(os.ReadFile("../testdata/vectorAdd.ptx"))(t)
}

// A graph with two branches, copies and fills runs each time that it is launched, and what
// it did is counted.
func TestGraph(t *testing.T) {
	d, c, text := opened(t)
	const n = 1000
	err := c.Do(func(th *driver.Thread) error {
		m := require.Get(th.LoadModule("vectorAdd", text))(t)
		k := require.Get(th.Kernel(m, "vectorAdd"))(t)
		main, side := require.Get(th.NewStream())(t), require.Get(th.NewStream())(t)
		forked, joined := require.Get(th.NewEvent())(t), require.Get(th.NewEvent())(t)
		host := require.Get(th.AllocHost(4 * n))(t)
		var at [4]driver.Pointer
		for i := range at {
			at[i] = require.Get(th.Alloc(4 * n))(t)
		}
		in := driver.HostSlice[float32](host, 0, n)
		add := func(a, b, to driver.Pointer, s driver.Stream) error {
			return th.Launch(k, driver.Launch{Grid: driver.Dim{X: 4}, Block: driver.Dim{X: 256}, Stream: s},
				driver.Address(a), driver.Address(b), driver.Address(to), driver.Int32(n))
		}
		g, err := th.Capture(main, func() error {
			return errors.Join(
				th.UploadAsync(at[0], host, 0, 4*n, main),
				th.Record(forked, main), th.WaitFor(side, forked),
				add(at[0], at[0], at[1], main), // 2x
				th.Fill32Async(at[2], 0x3f800000, n, side),
				add(at[0], at[2], at[2], side), // x + 1
				th.Record(joined, side), th.WaitFor(main, joined),
				add(at[1], at[2], at[3], main), // 3x + 1
			)
		})
		if err != nil {
			return err
		}
		for round := range 2 {
			for i := range in {
				in[i] = float32(i + round)
			}
			if err := th.LaunchGraph(g, main); err != nil {
				return err
			}
			out := make([]float32, n)
			if err := driver.Download(th, out, at[3]); err != nil {
				return err
			}
			for i, v := range out {
				if want := float32(3*(i+round) + 1); v != want {
					t.Fatalf("round %d, element %d: %v, want %v", round, i, v, want)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if list := d.Counts(); len(list) != 1 || list[0].Launches != 6 || list[0].Blocks != 24 || len(d.Findings()) != 0 {
		t.Errorf("%d kernels, findings %v", len(list), d.Findings())
	}
	d.Forget()
	if len(d.Counts()) != 0 {
		t.Error("counts are there after Forget")
	}
}

// A capture whose branch does not come back has no graph, a wait inside one ends it, and the
// stream is usable again.
func TestCapturesThatFail(t *testing.T) {
	_, c, _ := opened(t)
	err := c.Do(func(th *driver.Thread) error {
		main, side := require.Get(th.NewStream())(t), require.Get(th.NewStream())(t)
		forked := require.Get(th.NewEvent())(t)
		p := require.Get(th.Alloc(64))(t)
		for code, f := range map[int]func() error{
			904: func() error {
				return errors.Join(th.ZeroAsync(p, 64, main), th.Record(forked, main), th.WaitFor(side, forked), th.ZeroAsync(p, 64, side))
			},
			901: func() error { _ = th.Wait(main); return nil },
		} {
			var call *driver.CallError
			if _, err := th.Capture(main, f); !errors.As(err, &call) || call.Code != code {
				t.Errorf("%v, want code %d", err, code)
			}
		}
		_, err := th.Capture(main, func() error { return th.ZeroAsync(p, 64, main) })
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// What a kernel does wrong ends the context, as on a GPU, and the error says what and where.
func TestFaultsEndTheContext(t *testing.T) {
	for what, f := range map[string]struct {
		bytes int
		code  int
		says  string
	}{"too short": {3996, 700, "(vectorAdd.cu:4)"}, "freed": {0, 700, "no live allocation"}} {
		_, c, text := opened(t)
		err := c.Do(func(th *driver.Thread) error {
			k := require.Get(th.Kernel(require.Get(th.LoadModule("vectorAdd", text))(t), "vectorAdd"))(t)
			a, b := require.Get(th.Alloc(4000))(t), require.Get(th.Alloc(max(f.bytes, 8)))(t)
			if err := th.ZeroAsync(a, 4000, 0); err != nil {
				return err
			}
			if f.bytes == 0 {
				if err := th.Free(b); err != nil {
					return err
				}
			}
			if err := th.Launch(k, driver.Launch{Grid: driver.Dim{X: 4}, Block: driver.Dim{X: 256}}, driver.Address(a), driver.Address(a), driver.Address(b), driver.Int32(1000)); err != nil {
				return err
			}
			return th.Synchronize()
		})
		var lost *driver.LostError
		var call *driver.CallError
		if !errors.As(err, &lost) || !errors.As(err, &call) || call.Code != f.code || !strings.Contains(err.Error(), f.says) || c.Lost() == nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What a driver refuses is refused: wrong images, arguments and memory.
func TestRefusals(t *testing.T) {
	d, c, text := opened(t)
	d.SetMemory(1 << 20)
	err := c.Do(func(th *driver.Thread) error {
		var image *driver.ImageError
		for name, bad := range map[string]string{"cubin": "\x7fELF", "text": "hello", "unknown": strings.Replace(string(text), "add.f32", "add.f16", 1)} {
			m, err := th.LoadModule(name, []byte(bad))
			if err == nil {
				_, err = th.Kernel(m, "vectorAdd")
			}
			if !errors.As(err, &image) {
				t.Errorf("%s: %v", name, err)
			}
		}
		m := require.Get(th.LoadModule("vectorAdd", text))(t)
		if _, err := th.Kernel(m, "nothing"); !errors.As(err, &image) {
			t.Errorf("a kernel that is not there: %v", err)
		}
		k := require.Get(th.Kernel(m, "vectorAdd"))(t)
		p := require.Get(th.Alloc(1000))(t)
		if err := th.Launch(k, driver.Launch{}, driver.Address(p)); err == nil || !strings.Contains(err.Error(), "takes 4") {
			t.Errorf("one argument: %v", err)
		}
		var memory *driver.MemoryError
		if _, err := th.Alloc(1 << 20); !errors.As(err, &memory) || memory.Free != 1<<20-1000 {
			t.Errorf("too much memory: %v", err)
		}
		if err := driver.Upload(th, p, make([]float32, 251)); err == nil {
			t.Error("a copy that leaves its allocation was made")
		}
		return th.Free(p)
	})
	if err != nil {
		t.Error(err)
	}
}

func TestParseOptions(t *testing.T) {
	o := require.Get(device.ParseOptions("shared,count,lanes,seed=7"))(t)
	if o != (ptx.Options{Shared: true, Count: true, Order: ptx.Lanes, Seed: 7}) {
		t.Errorf("%+v", o)
	}
	for _, bad := range []string{"", "share", "seed", "seed=x", "shared=1", "seed=-1"} {
		if _, err := device.ParseOptions(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
