package command

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/lab/scaling"
)

// Operations are the laboratory's own of bench: dispatch.
func Operations() []bench.Operation { return []bench.Operation{dispatchOperation()} }

func openNetwork(name string) (*network.Network, error) {
	c, err := cases.Read(name)
	if err != nil {
		return nil, err
	}
	return network.New(c)
}

// networksBySize are the networks of the axis of buses.
var networksBySize = map[int]string{9: "case9", 14: "case14", 30: "case30", 39: "case39", 57: "pglib_opf_case57_ieee", 118: "case118", 300: "pglib_opf_case300_ieee"}

// buses is the axis of the cost of optimal power flow.
func buses() scaling.Axis {
	return scaling.Axis{
		Name: "buses", What: "an AC optimal power flow from a flat start on one thread; case9, 14, 30, 39 and 118 of MATPOWER, 57 and 300 of PGLib-OPF",
		Values: slices.Sorted(maps.Keys(networksBySize)),
		Measure: func(ctx context.Context, r *bench.Runner, buses int) ([]float64, float64, error) {
			net, err := openNetwork(networksBySize[buses])
			if err != nil {
				return nil, 0, err
			}
			s, err := acopf.New(net, acopf.Options{Threads: 1})
			if err != nil {
				return nil, 0, err
			}
			problems, results := make([]acopf.Problem, 1), make([]acopf.Result, 1)
			us, err := r.Time(ctx, func() error { return s.Solve(ctx, problems, results) })
			if err == nil && results[0].Status != acopf.Optimal {
				err = fmt.Errorf("%s: %v", net.Name, results[0].Status)
			}
			return us, float64(results[0].Iterations) * s.IterationFlops(), err
		},
	}
}
