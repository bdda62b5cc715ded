//go:build linux && (amd64 || arm64)

package driver_test

import (
	"errors"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
)

// A metered driver counts what the shim counts, graphs' kernels included.
func TestMeteredCountsAsTheShimDoes(t *testing.T) {
	l := shim.OpenFiles(t, testKernels)
	m := shim.NewMetered(l)
	c := require.Get(driver.Open(m, 0))(t)
	for range 2 {
		require.OK(t, c.Do(workload))
	}
	for _, symbol := range []string{
		"cuCtxCreate_v2", "cuMemAlloc_v2", "cuMemHostAlloc", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuEventRecord",
		"cuEventSynchronize", "cuLaunchKernel", "cuStreamBeginCapture_v2", "cuGraphInstantiateWithFlags", "cuGraphLaunch", "kernel", "gpc_test_sum",
	} {
		if n := m.Calls(symbol); n == 0 || n != l.Calls(symbol) {
			t.Errorf("%s: %d calls, the shim counts %d", symbol, n, l.Calls(symbol))
		}
	}
	held := make([]driver.Pointer, 3)
	require.OK(t, c.Do(func(th *driver.Thread) (err error) {
		for i := range held {
			if held[i], err = th.Alloc(1000); err != nil {
				return err
			}
		}
		return th.Free(held[0])
	}))
	if n := m.Allocations(); n != 2 || n != l.Allocations() || m.Used() != 2000 {
		t.Errorf("%d allocations of %d bytes, the shim counts %d", n, m.Used(), l.Allocations())
	}
	require.OK(t, c.Close())
	if n := m.Allocations(); n != 0 {
		t.Errorf("%d allocations outlive their context", n)
	}
}

// A device can be given less memory, and other attributes, than it has.
func TestMeteredGivesLess(t *testing.T) {
	m := shim.NewMetered(shim.OpenFiles(t, testKernels))
	m.SetMemory(1 << 20)
	m.SetAttribute(driver.Multiprocessors, 7)
	m.SetAttribute(driver.Major, 12)
	c := require.Get(driver.Open(m, 0))(t)
	defer c.Close()
	if d := c.Device(); d.Memory != 1<<20 || d.Multiprocessors != 7 || d.ISA() != "sm_120" {
		t.Errorf("%+v", d)
	}
	err := c.Do(func(th *driver.Thread) error {
		p, err := th.Alloc(600 << 10)
		if err != nil {
			return err
		}
		if free, total, err := th.MemoryInfo(); err != nil || free != 424<<10 || total != 1<<20 {
			t.Errorf("%d of %d bytes are free, %v", free, total, err)
		}
		var short *driver.MemoryError
		if _, err := th.Alloc(600 << 10); !errors.As(err, &short) || short.Free != 424<<10 {
			t.Errorf("beyond the bound: %v", err)
		}
		require.OK(t, th.Free(p))
		p, err = th.Alloc(600 << 10)
		return errors.Join(err, th.Free(p))
	})
	require.OK(t, err)
}
