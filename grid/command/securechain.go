package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/gpc-engine/gpc/grid/secure"
	"github.com/gpc-engine/gpc/grid/series"
	"github.com/gpc-engine/gpc/internal/machine"
)

// secureChain is the output of gpc opf secure --loads.
type secureChain struct {
	Case    string            `json:"case"`     // name of the network
	Loads   string            `json:"loads"`    // file of the series
	Outages int               `json:"outages"`  // that every step has to survive
	LeftOut []results.Outage  `json:"left_out"` // branches that cut off a part of the network
	Steps   int               `json:"steps"`    // of the series
	Secure  int               `json:"secure"`   // steps with a secure dispatch
	Warm    int               `json:"warm"`     // of these found from the dispatch before
	WallMS  float64           `json:"wall_ms"`  // of all steps
	CPUMS   float64           `json:"cpu_ms"`   // processor time of all steps
	Chain   []secureChainStep `json:"chain"`
}

// secureChainStep is one step of a series.
type secureChainStep struct {
	Step       int      `json:"step"`            // from 0
	Time       string   `json:"time"`            // as the table has it
	Status     string   `json:"status"`          // secure, no secure point found, iteration limit, numerical or not solved
	Reason     string   `json:"reason"`          // why there is no secure dispatch; ""
	Objective  *float64 `json:"objective"`       // of the dispatch, $/h; null where there is none
	Plain      *float64 `json:"plain_objective"` // of the optimum without outages; null where there is none
	Remembered int      `json:"remembered"`      // outages that the optimisation looked at
	Rounds     int      `json:"rounds"`          // of constraint generation
	Iterations int      `json:"iterations"`      // of the interior point, in all rounds
	Warm       bool     `json:"warm"`            // whether the dispatch before served
	CPUMS      float64  `json:"cpu_ms"`          // processor time
}

// readLoads reads all steps of a table, and their times.
func readLoads(name, path string, n *network.Network) (steps []secure.Problem, times []string, err error) {
	source, err := series.Open(path, n)
	if err != nil {
		return nil, nil, cli.BadInputf("%s: %w", name, err)
	}
	defer source.Close()
	read, err := source.Next(math.MaxInt)
	if errors.Is(err, io.EOF) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, cli.BadInputf("%s: %w", name, err)
	}
	for k, pd := range read.Pd {
		steps = append(steps, secure.Problem{Pd: pd, Qd: read.Qd[k]})
	}
	return steps, read.Time, nil
}

// chain solves a series of loads, each step from the one before.
func (y *secureFlags) chain(ctx context.Context, a *cli.App, n *network.Network, loads string) (*secureChain, error) {
	s, err := y.solver(n)
	if err != nil {
		return nil, err
	}
	steps, times, err := readLoads("--loads", loads, n)
	if err != nil {
		return nil, err
	}
	out := &secureChain{Case: n.Name, Loads: filepath.Base(loads), Outages: len(results.Outages(n, s.Outages())), LeftOut: results.Outages(n, y.leftOut), Steps: len(steps), Chain: []secureChainStep{}}
	started, cpu := time.Now(), machine.CPUTime()
	previous, bar := cpu, a.Progress("steps")
	err = s.Chain(ctx, steps, func(k int, warm bool, r *secure.Result) error {
		current := machine.CPUTime()
		step := secureChainStep{Step: k, Time: times[k], Status: r.Status.String(), Reason: r.Reason, Remembered: len(results.Outages(n, r.Remembered)), Rounds: r.Rounds,
			Iterations: r.Iterations, Warm: warm, CPUMS: milliseconds(current - previous)}
		previous = current
		if r.Plain != 0 {
			step.Plain = &r.Plain
		}
		if r.Status == secure.Secure {
			step.Objective = &r.Objective
			out.Secure++
		}
		if warm {
			out.Warm++
		}
		out.Chain = append(out.Chain, step)
		bar(len(out.Chain), len(steps))
		return nil
	})
	if err != nil {
		return nil, gpc.BadInput(err)
	}
	out.WallMS, out.CPUMS = milliseconds(time.Since(started)), milliseconds(machine.CPUTime()-cpu)
	return out, nil
}

func (r *secureChain) print(w io.Writer) {
	fmt.Fprintf(w, "%s, %s: %d of %d steps secure against %s, %d of them from the dispatch before; %.0f ms of CPU\n", r.Case, r.Loads, r.Secure, r.Steps, count(r.Outages, "outage"), r.Warm, r.CPUMS)
	printLeftOut(w, len(r.LeftOut))
	rows := [][]string{{"step", "time", "status", "$/h", "without outages", "remembered", "iterations", "warm", "CPU ms"}}
	for _, s := range r.Chain {
		cost, plain := "", ""
		if s.Objective != nil {
			cost = fmt.Sprintf("%.4f", *s.Objective)
		}
		if s.Plain != nil {
			plain = fmt.Sprintf("%.4f", *s.Plain)
		}
		rows = append(rows, []string{fmt.Sprint(s.Step), s.Time, s.Status, cost, plain, fmt.Sprint(s.Remembered), fmt.Sprint(s.Iterations), fmt.Sprint(s.Warm), fmt.Sprintf("%.1f", s.CPUMS)})
	}
	cli.Table(w, rows)
	for _, s := range r.Chain {
		if s.Reason != "" {
			fmt.Fprintf(w, "step %d: %s\n", s.Step, s.Reason)
		}
	}
}
