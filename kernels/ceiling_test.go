package kernels_test

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
)

// Ceilings are finite positive rates, 0 where memory is short, and leave nothing on the
// device.
func TestCeilings(t *testing.T) {
	const memory = 16 << 20 // the triad takes three of 64 parts
	library := shim.NewMetered(shim.Device(t))
	library.SetMemory(memory)
	context := require.Get(driver.Open(library, 0))(t)
	b := require.Get(kernels.New(context, kernels.Options{}))(t)
	defer b.Close()
	before := library.Allocations()
	for name, measure := range map[string]func() float64{"multiply-adds": b.PeakFMA, "bandwidth": b.PeakBandwidth} {
		if rate := measure(); !(rate > 1e6 && rate < 1e15) {
			t.Errorf("%s: %g a second", name, rate)
		}
		library.SetMemory(1)
		if rate := measure(); rate != 0 {
			t.Errorf("%s without memory: %g a second", name, rate)
		}
		library.SetMemory(memory)
	}
	if after := library.Allocations(); after != before {
		t.Errorf("%d allocations before, %d after", before, after)
	}
}
