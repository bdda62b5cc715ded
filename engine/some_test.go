package engine

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper/integrator"
)

// Where a device keeps the latents, the loops that do not decide are on hold: some decide as
// on the CPU, and go back to where they were saved.
func TestSomeLoopsDecideOnADevice(t *testing.T) {
	onShim(t)
	e, _, err := Open(Options{Backend: "cuda", Threads: 1})
	require.OK(t, err)
	defer e.Close()
	problem := integrator.Convex().Problem
	nav := problem.Spec().Navigation
	nav.Smoothing = 0.4
	loops := func(b backend.Backend) *batchnav.Batch {
		return require.Get(batchnav.NewBatch(b, convexMap(t), problem, batchnav.Options{Navigation: &nav}, 3))(t)
	}
	device, host := loops(e), loops(cpu(t))
	if !device.OnDevice() || host.OnDevice() {
		t.Fatalf("latents on the device: %v, of the CPU: %v", device.OnDevice(), host.OnDevice())
	}
	rng := rand.New(rand.NewPCG(3, 1))
	observed := func(n int) []batchnav.Observation {
		obs := make([]batchnav.Observation, n)
		for i := range obs {
			s := []float64{-2.2, 0.1, 1.2, -0.1}
			for j := range s {
				s[j] += 0.1 * rng.NormFloat64()
			}
			obs[i] = batchnav.Observation{S: s, C: []float64{0.9, 0.1, 0.15, 0.1, 0.2}, Preference: domain.Preference{Adaptive: true}}
		}
		return obs
	}
	var saved batchnav.Saved
	for step := range 8 {
		which := rng.Perm(3)[:1+rng.IntN(3)]
		require.OK(t, device.Save(which, &saved))
		require.OK(t, device.DecideSome(which, observed(len(which)), make([]batchnav.Decision, len(which)))) // something else
		require.OK(t, device.Restore(&saved))
		obs, got, want := observed(len(which)), make([]batchnav.Decision, len(which)), make([]batchnav.Decision, len(which))
		require.OK(t, device.DecideSome(which, obs, got))
		require.OK(t, host.DecideSome(which, obs, want))
		for i := range want {
			for j, u := range want[i].U {
				if d := math.Abs(got[i].U[j] - u); !(d <= 1e-3) {
					t.Errorf("step %d: loop %d of %v decides %v, on the CPU %v", step, which[i], which, got[i].U, want[i].U)
				}
			}
		}
	}
}
