package kernels_test

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
)

// open gives the backend on the host shim, or on a GPU (shim.Device).
func open(t testing.TB, _ int) backend.Backend {
	t.Helper()
	context := require.Get(driver.Open(shim.Device(t), 0))(t)
	b := require.Get(kernels.New(context, kernels.Options{}))(t)
	return b
}

func TestConformance(t *testing.T) { backendtest.Run(t, open) }
