package kernels_test

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/backendtest"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
)

// open gives the backend on the host shim, or on a GPU (shim.Device).
func open(t testing.TB, _ int) backend.Backend {
	t.Helper()
	context, err := driver.Open(shim.Device(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := kernels.New(context, kernels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestConformance(t *testing.T) { backendtest.Run(t, open) }
