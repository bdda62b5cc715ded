//go:build linux && (amd64 || arm64)

package train

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
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

// Two devices make the map that two devices make, stopped and resumed too. One that is lost
// in an epoch ends the run with an error that names it; nothing is written but the checkpoint
// of before, from which a new run goes on to the same bits, and which one device alone does
// not take for its own.
func TestTrainingOnTwoDevices(t *testing.T) {
	const scenarios = 8
	d := shim.Device(t)
	two := func() backend.Backend {
		var members []*kernels.Backend
		for _, ordinal := range shim.Devices(t, d, 2) {
			context := require.Get(driver.Open(d, ordinal))(t)
			members = append(members, require.Get(kernels.New(context, kernels.Options{}))(t))
		}
		g := require.Get(kernels.NewGroup(members...))(t)
		t.Cleanup(func() { g.Close() })
		return g
	}
	resumesBitwise(t, two(), scenarios, []int{7}, false)
	opt := toyOptions(two(), scenarios)
	want := modelBytes(t, trained(t, opt).Model)
	opt.Checkpoint = filepath.Join(t.TempDir(), "run.checkpoint")
	l, ok := d.(*shim.Library)
	if !ok {
		return // a GPU is not lost on demand
	}
	opt.interval = time.Nanosecond
	at := 0
	_, err := Run(t.Context(), opt, func(p Progress) {
		if at++; at == 5 {
			l.FailOn(1, "gpc_train_gradient", 1, 700)
		}
	})
	if err == nil || !strings.Contains(err.Error(), "device 1: ") {
		t.Fatalf("device 1 lost in an epoch: %v", err)
	}
	opt.Resume = true
	opt.Backend = cuda(t)
	if _, err := Run(t.Context(), opt, nil); err == nil || !strings.Contains(err.Error(), "on 2 devices") {
		t.Errorf("a checkpoint of two devices on one: %v", err)
	}
	opt.Backend = two()
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
		t.Error("resumed behind a loss: another model")
	}
}

func validationTotal(r EpochRecord) float64 {
	if r.Rollout != nil {
		return r.RolloutValidation.Total
	}
	return r.ManifoldValidation.Total
}
