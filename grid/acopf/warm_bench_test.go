package acopf

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
)

// Iterations of warm starts after loads have moved, each by itself, all together, or half and half.
// The folder of PGLib's files is GPC_PGLIB; without it case118 is the network.
func BenchmarkWarmLoads(b *testing.B) {
	names, nets := []string{"case118"}, map[string]*network.Network{}
	if folder := os.Getenv("GPC_PGLIB"); folder != "" {
		names = []string{"118_ieee", "500_goc", "1354_pegase", "2000_goc", "2869_pegase"}
		for _, name := range names {
			f, err := os.Open(filepath.Join(folder, "pglib_opf_case"+name+".m"))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			c, err := matpower.Read(name, f)
			if err != nil {
				b.Fatal(err)
			}
			if nets[name], err = network.New(c); err != nil {
				b.Fatal(err)
			}
		}
	} else {
		nets["case118"] = load(b, "case118")
	}
	const n, seed = 16, 4001
	for _, name := range names {
		net := nets[name]
		s, err := New(net, Options{Threads: 1, Dispatchable: network.DispatchablePlain})
		if err != nil {
			b.Fatal(err)
		}
		for _, together := range []float64{0, 1, 0.5} {
			for _, step := range []float64{0.001, 0.003, 0.01, 0.03, 0.1} {
				b.Run(fmt.Sprintf("%s/together=%g/by=%g", name, together, step), func(b *testing.B) {
					rng := rand.New(rand.NewPCG(seed, uint64(step*1e6)))
					from, problems := make([]Problem, n), make([]Problem, n)
					for i := range problems {
						from[i] = randomLoads(s, rng, 0.97-0.05*rng.Float64(), 0.05)
						all := 2*rng.Float64() - 1
						problems[i] = Problem{Pd: make([]float64, net.Buses()), Qd: make([]float64, net.Buses())}
						for k := range from[i].Pd {
							f := 1 + step*(together*all+(1-together)*(2*rng.Float64()-1))
							problems[i].Pd[k], problems[i].Qd[k] = f*from[i].Pd[k], f*from[i].Qd[k]
						}
					}
					start, results := make([]Result, n), make([]Result, n)
					if err := s.Solve(context.Background(), from, start); err != nil {
						b.Fatal(err)
					}
					for i := range problems {
						problems[i].Start = &start[i]
					}
					for b.Loop() {
						if err := s.Solve(context.Background(), problems, results); err != nil {
							b.Fatal(err)
						}
					}
					iterations, without := 0, 0
					for _, r := range results {
						iterations += r.Iterations
						if r.Status != Optimal {
							without++
						}
					}
					b.ReportMetric(float64(iterations)/n, "iterations")
					b.ReportMetric(float64(without), "notoptimal")
				})
			}
		}
	}
}
