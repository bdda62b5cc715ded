package command

import (
	"context"
	"flag"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/paper/opf"
)

// Decisions of the timing of dispatches. Chains are shorter from manyBuses on, where an exact chain takes long.
const (
	dispatchChains    = 3
	dispatchSteps     = 20
	dispatchStepsMany = 6
	manyBuses         = 1000
)

// dispatchOperation is dispatch of bench, with its flags for the network.
func dispatchOperation() bench.Operation {
	flags := flag.NewFlagSet("dispatch", flag.ContinueOnError)
	file := flags.String("network", "case30.m", "MATPOWER `file` of dispatch, or the name of a network that comes with the program")
	regime := flags.String("network-loads", opf.RegimeEnvelope, "`regime` of dispatch's test loads, NAME or NAME:LO:HI")
	return bench.Operation{Name: "dispatch", Once: true, OnRequest: true, Flags: flags, Measure: func(ctx context.Context, r *bench.Runner, _ bench.Shape) error {
		return dispatches(ctx, r, *file, *regime)
	}}
}

// dispatches times the exact solver, cold and warm, and the projection of dispatches from several places. The
// decisions are along exact chains of test loads; on one thread, one decision a call.
func dispatches(ctx context.Context, r *bench.Runner, file, regime string) error {
	c, err := opf.FromFile(opf.FilePrefix + file)
	if err != nil {
		return gpc.BadInput(err)
	}
	y := c.Problem.(*opf.System)
	steps := dispatchSteps
	if y.Network.Buses() >= manyBuses {
		steps = dispatchStepsMany
	}
	s, err := acopf.New(y.Network, acopf.Options{Threads: 1})
	if err != nil {
		return err
	}
	all, err := exactSteps(ctx, y, s, regime, r.Seed(), steps)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return gpc.BadInput(err)
	}
	row := func(way, outcome string, call func(d *exactStep) error) error {
		res := bench.Result{
			Op: "dispatch, " + way, Case: y.Spec().Name, Size: fmt.Sprintf("%d buses, %s", y.Network.Buses(), regime), Outcome: outcome,
			Backend: "cpu", ISA: s.ISA(), Precision: "fp64", Threads: 1, Batch: 1,
		}
		next := 0
		return r.Measure(ctx, res, 0, 0, func() error {
			next++
			return call(&all[(next-1)%len(all)])
		})
	}
	results := make([]acopf.Result, 1)
	for _, way := range []struct {
		name string
		warm bool
	}{{"exact, cold", false}, {"exact, warm", true}} {
		exact := func(d *exactStep) error {
			problem := d.problem
			if !way.warm {
				problem.Start = nil
			}
			return s.Solve(ctx, []acopf.Problem{problem}, results)
		}
		optimal := 0
		for i := range all {
			if err := exact(&all[i]); err != nil {
				return err
			}
			if results[0].Status == acopf.Optimal {
				optimal++
			}
		}
		if err := row(way.name, fmt.Sprintf("%d/%d optimal", optimal, len(all)), exact); err != nil {
			return err
		}
	}
	for kind, name := range dispatchNames {
		u := make([]float64, len(all[0].start[kind]))
		feasible, cost, optimum := 0, 0.0, 0.0
		for i := range all {
			d := &all[i]
			copy(u, d.start[kind])
			y.Project(d.s, d.c, u)
			stageCost, ok := stageCost(y, d, u)
			if ok {
				feasible++
			}
			cost, optimum = cost+stageCost, optimum+d.cost
		}
		outcome := fmt.Sprintf("%d/%d keep the limits, %s %% above the optimum", feasible, len(all), significant(100*(cost-optimum)/optimum))
		if err := row("projection of "+name, outcome, func(d *exactStep) error {
			copy(u, d.start[kind])
			y.Project(d.s, d.c, u)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// significant is a percentage to two digits, without an exponent.
func significant(v float64) string {
	digits := 0
	if v != 0 {
		digits = max(0, 1-int(math.Floor(math.Log10(math.Abs(v)))))
	}
	return fmt.Sprintf("%.*f", digits, v)
}
