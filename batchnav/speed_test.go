package batchnav_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper/integrator"
	"github.com/gpc-engine/gpc/tensor"
)

// caseOne is Case 1 with networks of its size and random weights, and codes that
// are E_x of states met by episodes, so that localization sees data of the right
// dimension.
func caseOne(t testing.TB, b backend.Backend, codes int) (domain.Case, *model.Model, []batchnav.Observation) {
	t.Helper()
	c := integrator.Convex()
	spec := c.Problem.Spec()
	rng := rand.New(rand.NewPCG(1, 1))
	const nz, hidden = 16, 256
	m := testdomain.Untrained(rng, spec, nz, 0, hidden, hidden)
	m.Calibration.TauGeom = 1e-4
	var observations []batchnav.Observation
	input := tensor.New(codes, spec.ObservationSize())
	decoded := tensor.New(codes, spec.MeasuredSize())
	for i := range codes {
		s := []float64{-4 + 8*rng.Float64(), -1 + 2*rng.Float64(), 2 * rng.Float64(), -0.5 + rng.Float64()}
		cx := []float64{rng.Float64() - 0.5, rng.Float64() - 0.5, 0.5 * rng.Float64(), 0.06 + 0.08*rng.Float64(), rng.Float64()}
		tensor.Narrow(input.Row(i), append(append([]float64{}, s...), cx...))
		tensor.Narrow(decoded.Row(i), s)
		if len(observations) < 512 && i%7 == 0 {
			for j := range s {
				s[j] += 0.01 * rng.NormFloat64()
			}
			observations = append(observations, batchnav.Observation{S: s, C: cx, Preference: adaptive})
		}
	}
	net := require.Get(b.NewNet(m.EncoderX))(t)
	m.Codes, m.CodesDecoded = tensor.New(codes, nz), decoded
	require.OK(t, net.Forward(input, m.Codes))
	return c, m, observations
}

func cpu(t testing.TB) backend.Backend {
	t.Helper()
	b := require.Get(cpufallback.New(cpufallback.Options{Threads: 1}))(t)
	t.Cleanup(func() { b.Close() })
	return b
}

// After the longest look-aheads a decision on the CPU backend does not allocate, whatever
// the method, a rescue included.
func TestDecideDoesNotAllocate(t *testing.T) {
	b := cpu(t)
	c, m, obs := caseOne(t, b, 500)
	obs = obs[:50]
	m.DecoderUManifold = m.DecoderU
	for _, v := range batchnav.Methods(c.Problem, true) {
		name := v.Name
		opt := require.Get(batchnav.OptionsFor(name))(t)
		opt.Search.Candidates = min(opt.Search.Candidates, 40) // three rounds
		opt.Guard = &domain.Guard{Noise: 1e-3}
		nav := require.Get(batchnav.NewNavigator(b, m, c.Problem, opt))(t)
		i := 0
		decide := func() {
			o := &obs[i%len(obs)]
			i++
			if _, err := nav.Decide(o.S, o.C, o.Preference); err != nil {
				t.Fatal(err)
			}
		}
		for range obs {
			decide()
		}
		if n := testing.AllocsPerRun(len(obs), decide); n != 0 {
			t.Errorf("%s allocates %v times a decision", name, n)
		}
	}
}

// BenchmarkDecide is one decision in Case 1 on one thread among 20 000 codes,
// with its median and parts.
func BenchmarkDecide(bench *testing.B) {
	b := cpu(bench)
	c, m, obs := caseOne(bench, b, 20000)
	for _, name := range []string{"navigator", "navigator-no-retraction", "direct"} {
		bench.Run(name, func(bench *testing.B) {
			opt, err := batchnav.OptionsFor(name)
			if err != nil {
				bench.Fatal(err)
			}
			nav, err := batchnav.NewNavigator(b, m, c.Problem, opt)
			if err != nil {
				bench.Fatal(err)
			}
			var total, localize, step, project []time.Duration
			bench.ReportAllocs()
			for i := range bench.N {
				o := &obs[i%len(obs)]
				d, err := nav.Decide(o.S, o.C, o.Preference)
				if err != nil {
					bench.Fatal(err)
				}
				total = append(total, d.Times.Total())
				localize, step, project = append(localize, d.Times.Localize), append(step, d.Times.Step), append(project, d.Times.Project)
			}
			median := func(v []time.Duration) float64 {
				slices.Sort(v)
				return float64(v[len(v)/2].Nanoseconds()) / 1e3
			}
			bench.ReportMetric(median(total), "p50-µs")
			bench.ReportMetric(median(localize), "localize-µs")
			bench.ReportMetric(median(step), "step-µs")
			bench.ReportMetric(median(project), "project-µs")
		})
	}
}

// BenchmarkRefine is one refinement of 4096 candidates in Case 1 over the whole
// episode, on one thread.
func BenchmarkRefine(bench *testing.B) {
	b := cpu(bench)
	c, m, obs := caseOne(bench, b, 20000)
	r, err := batchnav.NewRefiner(b, m, c.Problem, batchnav.Options{}, 4096)
	if err != nil {
		bench.Fatal(err)
	}
	for _, horizon := range []int{1, 20} {
		bench.Run(map[int]string{1: "look-ahead-1", 20: "look-ahead-20"}[horizon], func(bench *testing.B) {
			var latency batchnav.RefineLatency
			for i := range bench.N {
				got, err := r.Refine(context.Background(), obs[i%len(obs)], batchnav.RefineOptions{Candidates: 4096, FlowSteps: 3, Seed: 1, LookAhead: horizon})
				if err != nil {
					bench.Fatal(err)
				}
				latency = got.Latency
			}
			bench.ReportMetric(latency.Localize, "localize-µs")
			bench.ReportMetric(latency.Candidates, "candidates-µs")
			bench.ReportMetric(latency.Flow, "flow-µs")
			bench.ReportMetric(latency.Evaluate, "evaluate-µs")
		})
	}
}
