package secure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
)

// walk are problems at the loads of network.Walk.
func walk(n *network.Network, level, by float64, steps int, seed uint64) []Problem {
	list := make([]Problem, steps)
	pd, qd := networktest.Walk(n, level, by, steps, rand.New(rand.NewPCG(39, seed)))
	for k := range list {
		list[k].Pd, list[k].Qd = pd[k], qd[k]
	}
	return list
}

// cpu is the time that all threads of the process have worked, in seconds.
func cpu(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + 1e-6*float64(u.Utime.Usec+u.Stime.Usec)
}

// chainLimit is the CPU time, s, after which a chain ends before its last step.
const chainLimit = 60

// CPU time and iterations of a chain of loads that move by a share at every step, cold and warm. GPC_CASE is a
// file, in place of a case that comes with the program, GPC_LEVEL its level and GPC_STEPS the chain's length.
// GPC_OUTAGES is a file of the outages, in place of those of every branch that leaves no island: where nothing survives an
// outage there is no chain.
func BenchmarkChain(b *testing.B) {
	n, level, steps := networktest.Load(b, "pglib_opf_case118_ieee"), 0.9, 40
	number := func(name string, otherwise float64) float64 {
		if text := os.Getenv(name); text != "" {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				b.Fatal(err)
			}
			return x
		}
		return otherwise
	}
	open := func(path string) *os.File {
		f, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { f.Close() })
		return f
	}
	if path := os.Getenv("GPC_CASE"); path != "" {
		c, err := matpower.Read(filepath.Base(path), open(path))
		if err != nil {
			b.Fatal(err)
		}
		n = networktest.Of(b, c)
	}
	level, steps = number("GPC_LEVEL", level), int(number("GPC_STEPS", float64(steps)))
	opt := DefaultOptions()
	opt.Outages, opt.Threads = Branches(n), 1
	if path := os.Getenv("GPC_OUTAGES"); path != "" {
		opt.Outages = nil
		err := EachLine(path, open(path), func(line string) error {
			o, err := ParseOutage(n, line)
			opt.Outages = append(opt.Outages, o)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, by := range []float64{0.001, 0.01, 0.03} {
		b.Run(fmt.Sprintf("%s/by=%g", n.Name, by), func(b *testing.B) {
			problems := walk(n, level, by, steps, 1)
			for b.Loop() {
				ctx, stop := context.WithCancel(context.Background())
				began := cpu(b)
				opt.Trace = func(Iterate) {
					if cpu(b) > began+chainLimit {
						stop()
					}
				}
				s, err := New(n, opt)
				if err != nil {
					b.Fatal(err)
				}
				var iterations, times []float64
				solved, warmed, last := 0, 0, cpu(b)
				err = s.Chain(ctx, problems, func(k int, warm bool, r *Result) error {
					now := cpu(b)
					if k == 0 {
						b.ReportMetric(now-last, "cold-cpu-s")
						b.ReportMetric(float64(r.Iterations), "cold-iterations")
					}
					if r.Status == Secure {
						solved++
					}
					if warm {
						warmed++
						iterations = append(iterations, float64(r.Iterations))
						times = append(times, 1e3*(now-last))
					}
					last = cpu(b)
					return nil
				})
				stop()
				if err != nil && !errors.Is(err, context.Canceled) {
					b.Fatal(err)
				}
				at := func(list []float64, share float64) float64 {
					if len(list) == 0 {
						return math.NaN()
					}
					slices.Sort(list)
					return list[int(share*float64(len(list)-1)+0.5)]
				}
				b.ReportMetric(float64(len(opt.Outages)), "outages")
				b.ReportMetric(float64(solved), "solved")
				b.ReportMetric(float64(steps), "steps")
				b.ReportMetric(float64(warmed), "warm")
				b.ReportMetric(at(iterations, 0.5), "iterations")
				b.ReportMetric(at(iterations, 1), "most")
				b.ReportMetric(at(times, 0.5), "cpu-ms")
				b.ReportMetric(at(times, 0.99), "cpu-p99-ms")
			}
		})
	}
}
