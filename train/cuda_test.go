//go:build linux && (amd64 || arm64)

package train

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
)

// cuda is the CUDA backend on the host shim.
func cuda(t testing.TB) backend.Backend {
	t.Helper()
	context, err := driver.Open(shim.Device(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := kernels.New(context, kernels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// Both phases with their evaluation on the CUDA backend: resumed runs are bitwise
// the uninterrupted one, and the losses of the first epochs are the reference's.
func TestTrainingOnCUDA(t *testing.T) {
	be := cuda(t)
	const scenarios = 8
	resumesBitwise(t, be, scenarios, []int{2, 7}, false)
	resumesBitwise(t, be, scenarios, []int{7}, true)
	got := trained(t, toyOptions(be, scenarios))
	want := trained(t, toyOptions(ref.New(), scenarios))
	for i, w := range want.History {
		g := got.History[i]
		for name, pair := range map[string][2]float64{
			"tau_geom": {g.TauGeom, w.TauGeom}, "delta_dec": {g.DeltaDecMean, w.DeltaDecMean}, "validation": {validationTotal(g), validationTotal(w)},
		} {
			if d := pair[0] - pair[1]; !(d < 1e-3*pair[1] && d > -1e-3*pair[1]) {
				t.Errorf("epoch %d: %s is %v, of the reference %v", i+1, name, pair[0], pair[1])
			}
		}
	}
}

func validationTotal(r EpochRecord) float64 {
	if r.Rollout != nil {
		return r.RolloutValidation.Total
	}
	return r.ManifoldValidation.Total
}
