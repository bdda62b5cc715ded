package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/gpc-engine/gpc/domains/opf/acopf"
	"github.com/gpc-engine/gpc/domains/opf/network"
	"github.com/gpc-engine/gpc/matpower/cases"
)

// Loads of the optimal power flow rows.
const (
	loadLeast, loadGreatest = 0.6, 1.4 // × the file's, as the data set of Case 3 samples them
	feasibleGreatest        = 0.98     // case30 has an optimum up to about 1.05
	loadSpread              = 0.05     // standard deviation by bus
	opfBatch                = 64
)

func openNetwork(name string) (*network.Network, error) {
	c, err := cases.Read(name)
	if err != nil {
		return nil, err
	}
	return network.New(c)
}

// opf solves case30, case39 and case118 alone on one thread from a flat start,
// and a batch of case30 under loads that have an optimum on one and on all threads.
func (r *runner) opf(ctx context.Context, _ Shape) error {
	for _, name := range []string{"case30", "case39", "case118"} {
		net, err := openNetwork(name)
		if err != nil {
			return err
		}
		if err := r.opfRow(ctx, "opf", net, 1, make([]acopf.Problem, 1)); err != nil {
			return err
		}
	}
	net, err := openNetwork("case30")
	if err != nil {
		return err
	}
	rng := r.rng()
	problems := make([]acopf.Problem, opfBatch)
	for i := range problems {
		problems[i].Pd, problems[i].Qd = sampleLoads(rng, net, loadLeast+(feasibleGreatest-loadLeast)*rng.Float64())
	}
	if err := r.opfRow(ctx, "opf", net, 1, problems); err != nil {
		return err
	}
	if r.d.Threads > 1 {
		return r.opfRow(ctx, "opf", net, r.d.Threads, problems)
	}
	return nil
}

func sampleLoads(rng *rand.Rand, net *network.Network, level float64) (pd, qd []float64) {
	pd, qd = make([]float64, net.Buses()), make([]float64, net.Buses())
	for b := range pd {
		pd[b] = net.Pd[b] * level * (1 + loadSpread*rng.NormFloat64())
		qd[b] = net.Qd[b] * level * (1 + loadSpread*rng.NormFloat64())
	}
	return pd, qd
}

func (r *runner) opfRow(ctx context.Context, op string, net *network.Network, threads int, problems []acopf.Problem) error {
	s, err := acopf.New(net, acopf.Options{Threads: threads})
	if err != nil {
		return err
	}
	results := make([]acopf.Result, len(problems))
	if err := s.Solve(ctx, problems, results); err != nil {
		return err
	}
	iterations, optimal := 0, 0
	for i := range results {
		iterations += results[i].Iterations
		if results[i].Status == acopf.Optimal {
			optimal++
		}
	}
	size := fmt.Sprintf("%.1f iterations, %d of %d optimal", float64(iterations)/float64(len(results)), optimal, len(results))
	return r.doubleRow(ctx, op, net.Name, size, s.ISA(), threads, len(problems), float64(iterations)*s.IterationFlops(), func() error {
		return s.Solve(ctx, problems, results)
	})
}

// doubleRow is row for float64 on some of the threads; the ceiling is that share
// of half the float32 peak.
func (r *runner) doubleRow(ctx context.Context, op, name, size, set string, threads, batch int, flops float64, f func() error) error {
	peak := math.NaN()
	if r.ceiling != nil {
		peak = r.ceiling()
	}
	us, err := latencies(ctx, r.opt.Budget, f)
	if err != nil {
		return err
	}
	if r.ceiling != nil {
		peak = math.Max(peak, r.ceiling())
	}
	if math.IsNaN(peak) {
		flops = 0
	}
	res := Result{Op: op, Case: name, Backend: "cpu", ISA: set, Precision: "fp64", Threads: threads, Batch: batch, Size: size}
	res.finish(us, flops, peak/1e9/2*float64(threads)/float64(r.d.Threads))
	r.results = append(r.results, res)
	if r.opt.Report != nil {
		r.opt.Report(res)
	}
	return nil
}

// opfSweep attempts what the data set of Case 3 attempts: loads at a level drawn
// from the whole range, each solved for 50 preferences in a chain of warm starts.
// A load without a feasible point is found at its first preference. The row is one
// call, with the number of attempts as its batch.
func (r *runner) opfSweep(ctx context.Context, _ Shape) error {
	net, err := openNetwork("case30")
	if err != nil {
		return err
	}
	s, err := acopf.New(net, acopf.Options{Threads: r.d.Threads})
	if err != nil {
		return err
	}
	ideal, nadir, err := s.PayoffTable(ctx, acopf.Problem{})
	if err != nil {
		return err
	}
	loads := r.opt.Loads
	if loads == 0 {
		loads = 500
	}
	const chunk = 250 // chains in memory at a time
	preferences := acopf.Preferences()
	rng := r.rng()
	chains := make([]acopf.Chain, min(chunk, loads))
	results := make([]acopf.Result, len(chains)*len(preferences))
	problems := make([]acopf.Problem, len(results))
	var count [5]int
	iterations := 0
	start := time.Now()
	for done := 0; done < loads; done += chunk {
		now := chains[:min(chunk, loads-done)]
		for c := range now {
			pd, qd := sampleLoads(rng, net, loadLeast+(loadGreatest-loadLeast)*rng.Float64())
			at := c * len(preferences)
			now[c] = acopf.Chain{Problems: problems[at : at+len(preferences)], Results: results[at : at+len(preferences)], Sweep: true}
			for i, w := range preferences {
				now[c].Problems[i] = acopf.Problem{Pd: pd, Qd: qd, Objective: acopf.Objective{Weights: w, Ideal: ideal, Nadir: nadir}}
			}
		}
		if err := s.SolveChains(ctx, now); err != nil {
			return err
		}
		for c := range now {
			for i := range now[c].Results {
				count[now[c].Results[i].Status]++
				iterations += now[c].Results[i].Iterations
			}
		}
	}
	us := float64(time.Since(start).Nanoseconds()) / 1e3
	attempts := loads * len(preferences)
	size := fmt.Sprintf("%d loads × %d: %d optimal, %d infeasible, %d neither; %.1f iterations each", loads, len(preferences),
		count[acopf.Optimal], count[acopf.Infeasible], attempts-count[acopf.Optimal]-count[acopf.Infeasible], float64(iterations)/float64(attempts))
	res := Result{Op: "opf-sweep", Case: net.Name, Backend: "cpu", ISA: s.ISA(), Precision: "fp64", Threads: r.d.Threads, Batch: attempts, Size: size}
	flops, peak := 0.0, math.NaN()
	if r.ceiling != nil {
		flops, peak = float64(iterations)*s.IterationFlops(), r.ceiling()/1e9/2
	}
	res.finish([]float64{us}, flops, peak)
	r.results = append(r.results, res)
	if r.opt.Report != nil {
		r.opt.Report(res)
	}
	return nil
}
