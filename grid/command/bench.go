package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/machine"
)

// Loads of the optimal power flow rows.
const (
	// minLoad and maxLoad are factors on the file's loads, as the data set of Case 3 samples them.
	minLoad, maxLoad = 0.6, 1.4
	maxFeasibleLoad  = 0.98 // case30 has an optimum up to about 1.05
	loadSpread       = 0.05 // standard deviation by bus
	opfBatch         = 64
)

// Operations are the operations opf and opf-sweep of gpc bench.
func Operations() []bench.Operation {
	loads := 500
	flags := flag.NewFlagSet("opf-sweep", flag.ContinueOnError)
	flags.Func("loads", "`loads` of opf-sweep, each solved with 50 weights (default 500; the data set of Case 3 attempts 5000)", func(text string) (err error) {
		if loads, err = strconv.Atoi(text); err != nil || loads < 1 || loads > 1_000_000 {
			return errors.New("want 1 to 1000000")
		}
		return nil
	})
	return []bench.Operation{
		{Name: "opf", Once: true, Measure: optimalFlows},
		{Name: "opf-sweep", Once: true, Flags: flags, Measure: func(ctx context.Context, r *bench.Runner, _ bench.Shape) error {
			return sweep(ctx, r, loads)
		}},
	}
}

func openNetwork(name string) (*network.Network, error) {
	c, err := cases.Read(name)
	if err != nil {
		return nil, err
	}
	return network.New(c)
}

// optimalFlows solves case30, case39 and case118 on one thread from a flat start. It also solves a batch of case30
// under feasible loads, on one and on all threads.
func optimalFlows(ctx context.Context, r *bench.Runner, _ bench.Shape) error {
	for _, name := range []string{"case30", "case39", "case118"} {
		net, err := openNetwork(name)
		if err != nil {
			return err
		}
		if err := row(ctx, r, net, 1, make([]acopf.Problem, 1)); err != nil {
			return err
		}
	}
	net, err := openNetwork("case30")
	if err != nil {
		return err
	}
	rng := r.Rand()
	problems := make([]acopf.Problem, opfBatch)
	for i := range problems {
		problems[i].Pd, problems[i].Qd = sampleLoads(rng, net, minLoad+(maxFeasibleLoad-minLoad)*rng.Float64())
	}
	if err := row(ctx, r, net, 1, problems); err != nil {
		return err
	}
	if r.Threads() > 1 {
		return row(ctx, r, net, r.Threads(), problems)
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

// row is the solution of problems on some threads; its ceiling is their share of half
// the float32 peak.
func row(ctx context.Context, r *bench.Runner, net *network.Network, threads int, problems []acopf.Problem) error {
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
	res := result("opf", net, s, threads, len(problems))
	res.Outcome = fmt.Sprintf("%.1f iterations, %d of %d optimal", float64(iterations)/float64(len(results)), optimal, len(results))
	return r.Measure(ctx, res, float64(iterations)*s.IterationFlops(), float64(threads)/float64(r.Threads())/2, func() error {
		return s.Solve(ctx, problems, results)
	})
}

func result(op string, net *network.Network, s *acopf.Solver, threads, batch int) bench.Result {
	return bench.Result{Op: op, Case: net.Name, Size: fmt.Sprintf("%d buses", net.Buses()), Backend: "cpu", ISA: s.ISA(), Precision: "fp64", Threads: threads, Batch: batch}
}

// sweep repeats the attempts of the data set of Case 3: loads at a level drawn from the whole range, each solved for
// 50 preferences in a chain of warm starts. An infeasible load is found at its first preference. The row is one
// call, with the number of attempts as its batch.
func sweep(ctx context.Context, r *bench.Runner, loads int) error {
	net, err := openNetwork("case30")
	if err != nil {
		return err
	}
	s, err := acopf.New(net, acopf.Options{Threads: r.Threads()})
	if err != nil {
		return err
	}
	ideal, nadir, err := s.PayoffTable(ctx, acopf.Problem{})
	if err != nil {
		return err
	}
	const chunk = 250 // chains in memory at a time
	preferences := acopf.Preferences()
	rng := r.Rand()
	chains := make([]acopf.Chain, min(chunk, loads))
	results := make([]acopf.Result, len(chains)*len(preferences))
	problems := make([]acopf.Problem, len(results))
	var count [5]int
	iterations := 0
	start := time.Now()
	for first := 0; first < loads; first += chunk {
		batch := chains[:min(chunk, loads-first)]
		for c := range batch {
			pd, qd := sampleLoads(rng, net, minLoad+(maxLoad-minLoad)*rng.Float64())
			offset := c * len(preferences)
			batch[c] = acopf.Chain{Problems: problems[offset : offset+len(preferences)], Results: results[offset : offset+len(preferences)], Sweep: true}
			for i, w := range preferences {
				batch[c].Problems[i] = acopf.Problem{Pd: pd, Qd: qd, Objective: acopf.Objective{Weights: w, Ideal: ideal, Nadir: nadir}}
			}
		}
		if err := s.SolveChains(ctx, batch); err != nil {
			return err
		}
		for c := range batch {
			for i := range batch[c].Results {
				count[batch[c].Results[i].Status]++
				iterations += batch[c].Results[i].Iterations
			}
		}
	}
	us := machine.Microseconds(time.Since(start))
	attempts := loads * len(preferences)
	res := result("opf-sweep", net, s, r.Threads(), attempts)
	res.Size = fmt.Sprintf("%d loads × %d", loads, len(preferences))
	res.Outcome = fmt.Sprintf("%d optimal, %d infeasible, %d neither; %.1f iterations each",
		count[acopf.Optimal], count[acopf.Infeasible], attempts-count[acopf.Optimal]-count[acopf.Infeasible], float64(iterations)/float64(attempts))
	r.Add(res, []float64{us}, float64(iterations)*s.IterationFlops(), r.Peak()/2)
	return nil
}
