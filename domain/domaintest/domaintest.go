// Package domaintest holds a domain to the contract of package domain. Call Run
// from the domain's own tests.
package domaintest

import (
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/images"
	"github.com/gpc-engine/gpc/kernels/shim"
)

// Run checks a case. It holds gradients to central differences, batched and blocked
// forms to rows, and projections to margins. It checks indicators, fallbacks and the
// solver's samples, and that the plant replays an episode bit for bit.
//
// Where the problem, or the one that its map is about, has functions on CUDA devices
// (domain.ProblemAbilities.Device), they are compared with its own methods, and their images have to be
// those of the sources as they are. The kernels of the module that the test lies in run
// on the host shim (kernels/shim), which needs a C++20 compiler: without one that part
// is skipped and says so, or fails where the environment has GPC_REQUIRE_SHIM=1. With
// GPC_TEST_GPU=1 they run on a GPU.
func Run(t *testing.T, c domain.Case) { backendtest.RunDomain(t, c, device) }

// device opens the backend that runs device functions, whose images have to be whole.
func device(t *testing.T, code domain.DeviceCode) backend.DeviceFunctions {
	t.Helper()
	d := shim.Device(t)
	set := require.Get(images.New(code.Images))(t)
	for _, function := range []string{"base", "gradient", "priority", "rollout"} {
		if kernel := "gpc_domain_" + function + "_" + code.Name; !slices.Contains(set.Kernels(), kernel) {
			t.Errorf("its images hold %v and not %s: does the .cu file list it with GPC_KERNEL?", set.Kernels(), kernel)
		}
	}
	if d.HostShim() { // the sources are here
		m := require.Get(images.Find("."))(t)
		if err := m.Check(); err != nil {
			t.Error(err)
		}
	}
	context := require.Get(driver.Open(d, 0))(t)
	b := require.Get(kernels.New(context, kernels.Options{}))(t)
	t.Cleanup(func() { require.OK(t, b.Close()) })
	return b
}
