//go:build linux && (amd64 || arm64)

package kernels

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper/integrator"
	"github.com/gpc-engine/gpc/paper/opf"
)

// BenchmarkDecide takes decisions of 4096 loops of a bundled map, each with an observation of
// its own, and reports the median of a whole call and the medians of its launches, added up by
// kernel.
func BenchmarkDecide(b *testing.B) {
	const rows = 4096
	for _, c := range []struct {
		name  string
		of    domain.Case
		codes int
	}{{"integrator-convex", integrator.Convex(), 20_000}, {"opf30", opf.Thirty(), 10_000}} {
		b.Run(c.name, func(b *testing.B) {
			be, m := onDevice(b, Options{}), bundledModel(b, c.name, c.codes)
			all, decisions := observations(b, c.of, rows), make([]batchnav.Decision, rows)
			var loops *batchnav.Batch
			start := func() (err error) {
				loops, err = batchnav.NewBatch(be, m, c.of.Problem, batchnav.Options{}, rows)
				return err
			}
			decide := func() error { return loops.Decide(all, decisions) }
			require.OK(b, start())
			require.OK(b, decide())
			var took []float64
			for b.Loop() {
				began := time.Now()
				require.OK(b, decide())
				took = append(took, float64(time.Since(began).Nanoseconds())/1e3)
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2], "call-µs")
			sum, by := 0.0, map[string]float64{}
			for _, l := range require.Get(be.Trace(20, start, decide))(b) {
				if slices.Sort(l.Times); len(l.Times) == 0 { // on the host shim
					continue
				}
				sum, by[l.Kernel] = sum+l.Times[len(l.Times)/2], by[l.Kernel]+l.Times[len(l.Times)/2]
			}
			b.ReportMetric(sum, "launches-µs")
			for kernel, us := range by {
				b.ReportMetric(us, kernel+"-µs")
			}
		})
	}
}

// observations are observations of the first steps of episodes, each state moved a little.
func observations(b *testing.B, c domain.Case, rows int) []batchnav.Observation {
	const episodes = 16
	rng, spec, pref := rand.New(rand.NewPCG(75, 76)), c.Problem.Spec(), domain.Preference{Adaptive: true}
	all := make([]batchnav.Observation, rows)
	for i := range all {
		all[i] = batchnav.Observation{S: make([]float64, spec.MeasuredSize()), C: make([]float64, spec.ContextSize()), Preference: pref}
		if i < episodes {
			require.Get(c.Plant.Episode(1, i, domain.EpisodeOptions{Preference: pref, Context: context.Background()}))(b).Observe(all[i].S, all[i].C)
			continue
		}
		copy(all[i].C, all[i%episodes].C)
		for j, v := range all[i%episodes].S {
			all[i].S[j] = v + 1e-2*rng.NormFloat64()
		}
	}
	return all
}
