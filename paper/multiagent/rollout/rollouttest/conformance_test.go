package rollouttest_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout/rollouttest"
)

// evaluators are all there are on this machine: every instruction set and the CUDA
// kernels, on the host shim or, with GPC_TEST_GPU=1, on a GPU.
func evaluators(t testing.TB) map[string]rollout.Evaluator {
	all := map[string]rollout.Evaluator{"cuda": onDevice(t)}
	for _, level := range isa.Available() {
		all[level.String()] = rollout.NewProcessor(rollout.On(level))
	}
	return all
}

func onDevice(t testing.TB) *rollout.Device {
	t.Helper()
	return on(t, shim.Device(t))
}

func on(t testing.TB, d driver.Driver) *rollout.Device {
	t.Helper()
	context := require.Get(driver.Open(d, 0))(t)
	b := require.Get(kernels.New(context, kernels.Options{}))(t)
	t.Cleanup(func() { require.OK(t, b.Close()) })
	v, err := rollout.NewDevice(b)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestConformance holds every evaluator to the float64 reference: all sizes of
// batches, with and without derivatives, candidates that are not numbers among them,
// no discs, fifteen, bodies on each other.
func TestConformance(t *testing.T) {
	all := evaluators(t)
	for _, o := range rollouttest.Problems() {
		for _, candidates := range []int{1, 2, 15, 16, 17, 1000} {
			if testing.Short() && candidates == 1000 {
				candidates = 100
			}
			plans := o.Draw(rand.New(rand.NewPCG(uint64(candidates), 9)), candidates)
			size := len(plans) / rollout.Blocks(candidates)
			if candidates > 2 { // some are not numbers, each in one entry
				for i := 1; i < candidates; i += 13 {
					at := i/rollout.Lanes*size + i*7%(size/rollout.Lanes)*rollout.Lanes + i%rollout.Lanes
					plans[at] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[i%3]
				}
			}
			want, exact := rollout.Reference(o.Problem, widen(plans), candidates)
			for name, v := range all {
				got, slopes := make([]rollout.Result, rollout.Blocks(candidates)), make([]float32, len(plans))
				if err := v.Evaluate(o.Problem, nil, plans, candidates, got, slopes); err != nil {
					t.Fatalf("%s, %s, %d candidates: %v", name, o.Name, candidates, err)
				}
				if err := rollouttest.Compare(got, slopes, want, exact, candidates); err != nil {
					t.Errorf("%s, %s, %d candidates with derivatives: %v", name, o.Name, candidates, err)
				}
				if err := v.Evaluate(o.Problem, nil, plans, candidates, got, nil); err != nil {
					t.Fatal(err)
				}
				if err := rollouttest.Compare(got, nil, want, exact, candidates); err != nil {
					t.Errorf("%s, %s, %d candidates: %v", name, o.Name, candidates, err)
				}
			}
		}
	}
}

// The derivatives of the reference are those of its cost.
func TestReferenceGradientIsTheDerivative(t *testing.T) {
	for _, o := range rollouttest.Problems() {
		if o.Name == "coincident bodies" || o.Name == "40 steps, ending on a grid" {
			continue // no derivative there, and one of the continuous problem
		}
		plans := widen(o.Draw(rand.New(rand.NewPCG(31, 1)), 3))
		_, exact := rollout.Reference(o.Problem, plans, 3)
		rng := rand.New(rand.NewPCG(32, 1))
		const step = 1e-6
		for range 40 {
			l := rng.IntN(3)
			e := rng.IntN(len(plans)/rollout.Lanes)*rollout.Lanes + l
			at := plans[e]
			plans[e] = at + step
			up, _ := rollout.Reference(o.Problem, plans, 3)
			plans[e] = at - step
			down, _ := rollout.Reference(o.Problem, plans, 3)
			plans[e] = at
			d := (up[0].Cost[l] - down[0].Cost[l]) / (2 * step)
			if math.Abs(d-exact[e]) > 1e-5*max(1, math.Abs(up[0].Cost[l])) {
				t.Errorf("%s: derivative %d is %v, central difference %v", o.Name, e, exact[e], d)
			}
		}
	}
}

// TestLimitsAgree holds the limits of every evaluator to the plain Go, bit for bit, and
// what is then scored to the reference.
func TestLimitsAgree(t *testing.T) {
	all := evaluators(t)
	for _, o := range rollouttest.Problems() {
		for _, candidates := range []int{1, 15, 17, 300} {
			drawn := o.Draw(rand.New(rand.NewPCG(uint64(candidates), 3)), candidates)
			for i := range drawn {
				drawn[i] *= 3 // beyond the bounds
			}
			if candidates > 1 {
				drawn[0] = float32(math.NaN())
			}
			limited, results := append([]float32(nil), drawn...), make([]rollout.Result, rollout.Blocks(candidates))
			if err := rollout.NewProcessor(rollout.On(isa.Generic)).Evaluate(o.Problem, o.Bounds, limited, candidates, results, nil); err != nil {
				t.Fatal(err)
			}
			want, exact := rollout.Reference(o.Problem, widen(limited), candidates)
			for name, v := range all {
				where := fmt.Sprintf("%s, %s, %d candidates", name, o.Name, candidates)
				plans := append([]float32(nil), drawn...)
				if err := v.Evaluate(o.Problem, o.Bounds, plans, candidates, results, nil); err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				for i, x := range plans {
					after := i%rollout.Lanes == 0 && limited[i] != limited[i] // the NaN of candidate 0, or later
					if x != limited[i] && !(after && (i > 0 || x != x)) {
						t.Fatalf("%s: entry %d is limited to %v, want %v", where, i, x, limited[i])
					}
				}
				if err := rollouttest.Compare(results, nil, want, exact, candidates); err != nil {
					t.Errorf("%s: %v", where, err)
				}
			}
		}
	}
}

func widen(v []float32) []float64 {
	w := make([]float64, len(v))
	for i, x := range v {
		w[i] = float64(x)
	}
	return w
}
