package cpufallback

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/cpu_fallback/internal/ceiling"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// BenchmarkStep is the row `step` of the benchmarks: μ_R = 0, no localization.
// fraction counts the dense method's operations (StepFLOPs), of which this
// backend leaves out those of inactive units, carried-out-fraction only what is
// done; the ceiling is measured before and after.
func BenchmarkStep(b *testing.B) {
	for name, c := range map[string]stepCase{"opf": opfSize, "case-one": caseOneSize} {
		for _, level := range isa.Available() {
			for _, threads := range []int{1, 2} {
				for _, rows := range []int{1, 16, 192, 4096} {
					b.Run(fmt.Sprintf("%s/%s/threads=%d/batch=%d", name, level, threads, rows), func(b *testing.B) {
						rng := rand.New(rand.NewPCG(1, 2))
						cfg := c.config(b, rng)
						cfg.Problem = batchBowl{cfg.Problem.(*bowl)}
						in, out := c.input(rng, rows), outputs(cfg, rows)
						bk := open(b, level, threads)
						s := newStepper(b, bk, cfg)
						peak := ceiling.FMA(bk.pool, level)
						var times []time.Duration
						for b.Loop() {
							start := time.Now()
							require.OK(b, s.Step(in, out))
							times = append(times, time.Since(start))
						}
						peak = max(peak, ceiling.FMA(bk.pool, level))
						slices.Sort(times)
						median := times[len(times)/2].Seconds()
						rate := StepFLOPs(cfg) * float64(rows) / median
						carried := ActiveStepFLOPs(cfg, activeShare(s.(*stepper).netS, in.Z.Slice(0, min(rows, 64)))) * float64(rows) / median
						b.ReportMetric(median*1e6, "p50-µs")
						b.ReportMetric(times[0].Seconds()*1e6, "best-µs")
						b.ReportMetric(rate/1e9, "GFLOP/s")
						b.ReportMetric(peak/1e9, "peak-GFLOP/s")
						b.ReportMetric(rate/peak, "fraction")
						b.ReportMetric(carried/peak, "carried-out-fraction")
					})
				}
			}
		}
	}
}
