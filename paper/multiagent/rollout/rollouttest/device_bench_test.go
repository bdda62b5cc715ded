package rollouttest_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout/rollouttest"
)

// BenchmarkDevice is one call on a GPU, GPC_TEST_GPU=1, copies included: roll-outs
// with and without derivatives, and with limits. The time of the host shim says nothing, so it is left out.
func BenchmarkDevice(b *testing.B) {
	if os.Getenv("GPC_TEST_GPU") != "1" {
		b.Skip("this benchmark is of a GPU: GPC_TEST_GPU=1")
	}
	v := onDevice(b)
	rng := rand.New(rand.NewPCG(1, 2))
	straight := &rollout.Ending{Goal: [2]float64{3, -2}, Stage: 0.7, Stride: 0.24, Detour: 20, Scale: 1}
	for _, o := range []rollouttest.Problem{
		rollouttest.Joint(rng, "joint", 6, 15, 8),
		rollouttest.Single(rng, "single", 20, 40, straight),
	} {
		for _, candidates := range []int{4096, 65536} {
			plans, err := v.Plans(o.Problem, candidates)
			if err != nil {
				b.Fatal(err)
			}
			drawn := o.Draw(rand.New(rand.NewPCG(3, 4)), candidates)
			plans = plans[:copy(plans, drawn)]
			results, slopes := make([]rollout.Result, rollout.Blocks(candidates)), make([]float32, len(plans))
			for _, c := range []struct {
				name string
				call func() error
			}{
				{"cost", func() error { return v.Evaluate(o.Problem, nil, plans, candidates, results, nil) }},
				{"gradient", func() error { return v.Evaluate(o.Problem, nil, plans, candidates, results, slopes) }},
				{"limited", func() error { return v.Evaluate(o.Problem, o.Bounds, plans, candidates, results, nil) }},
			} {
				b.Run(fmt.Sprintf("%s-%s-%d", o.Name, c.name, candidates), func(b *testing.B) {
					for b.Loop() {
						if err := c.call(); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(candidates), "ns/candidate")
				})
			}
		}
	}
}
