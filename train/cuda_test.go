//go:build linux && (amd64 || arm64)

package train

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/training"
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
	want := trained(t, toyOptions(training.New(), scenarios))
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

// A device that is lost in an epoch ends the run with an error that names it. Nothing is written but the checkpoint of before, from which
// a new run goes on to the same bits.
func TestTrainingGoesOnAfterALostDevice(t *testing.T) {
	const scenarios = 8
	d := shim.Device(t)
	open := func() backend.Backend {
		b := require.Get(kernels.New(require.Get(driver.Open(d, 0))(t), kernels.Options{}))(t)
		t.Cleanup(func() { b.Close() })
		return b
	}
	l, ok := d.(*shim.Library)
	if !ok {
		t.Skip("a GPU is not lost on demand")
	}
	opt := toyOptions(open(), scenarios)
	want := modelBytes(t, trained(t, opt).Model)
	opt.Checkpoint = filepath.Join(t.TempDir(), "run.checkpoint")
	opt.interval = time.Nanosecond
	at := 0
	_, err := Run(t.Context(), opt, func(p Progress) {
		if at++; at == 5 {
			l.FailOn(0, "gpc_train_gradient", 1, 700)
		}
	})
	var lost *driver.LostError
	if !errors.As(err, &lost) {
		t.Fatalf("the device lost in an epoch: %v", err)
	}
	opt.Resume, opt.Backend = true, open()
	first := 0
	resumed, err := Run(t.Context(), opt, func(p Progress) {
		if first == 0 && p.Note == "" {
			first = p.Step
		}
	})
	require.OK(t, err)
	if first < 2 {
		t.Errorf("resumed at update %d: nothing of the run before is left", first)
	}
	if !bytes.Equal(modelBytes(t, resumed.Model), want) {
		t.Error("resumed after a loss: another model")
	}
}

func validationTotal(r EpochRecord) float64 {
	if r.Rollout != nil {
		return r.RolloutValidation.Total
	}
	return r.ManifoldValidation.Total
}
