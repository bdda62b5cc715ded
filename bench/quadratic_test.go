package bench

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	cuda "github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
)

// A step of each of Shapes with the device functions of kernels/quadratic.cu is that of the
// reference with the problem's Go methods, up to float32.
func TestQuadraticOnTheDevice(t *testing.T) {
	context := require.Get(driver.Open(shim.Device(t), 0))(t)
	device := require.Get(cuda.New(context, cuda.Options{}))(t)
	t.Cleanup(func() { require.OK(t, device.Close()) })
	for _, name := range []string{"size:integrator", "size:opf30"} {
		s := require.Get(shapeOf(name, nil))(t)
		step := func(b backend.Backend) (backend.StepInput, backend.StepOutput) {
			r := &Runner{b: b, opt: Options{Seed: 5}}
			st, err := r.stepper(s, 3)
			require.OK(t, err)
			return st.in, st.out
		}
		from, want := step(ref.New())
		_, got := step(device)
		for i, v := range want.U.Data {
			if d := math.Abs(float64(got.U.Data[i] - v)); !(d <= 1e-4) {
				t.Errorf("%s: entry %d of the actions is %g on the device, %g in the reference", name, i, got.U.Data[i], v)
			}
		}
		moved := 0.0
		for i, v := range want.Z.Data {
			moved = max(moved, math.Abs(float64(v-from.Z.Data[i])))
			if d := math.Abs(float64(got.Z.Data[i] - v)); !(d <= 1e-4) {
				t.Errorf("%s: entry %d of the latents is %g on the device, %g in the reference", name, i, got.Z.Data[i], v)
			}
		}
		if moved < 1e-2 {
			t.Errorf("%s: the step moves latents by %g at most, too little to tell a wrong gradient", name, moved)
		}
	}
}
