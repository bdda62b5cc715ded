package grid_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/series"
)

// open is a network of the library's own.
func open(name string) *network.Network {
	c, err := cases.Read(name)
	if err != nil {
		log.Fatal(err)
	}
	n, err := network.New(c)
	if err != nil {
		log.Fatal(err)
	}
	return n
}

// The cheapest dispatch within all limits, and what a MWh costs at a bus.
func Example_optimalPowerFlow() {
	n := open("case118")
	solver, err := acopf.New(n, acopf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	problems, results := []acopf.Problem{{}}, make([]acopf.Result, 1)
	if err := solver.Solve(context.Background(), problems, results); err != nil {
		log.Fatal(err)
	}
	r := &results[0]
	fmt.Printf("%s, %.2f $/h, %.2f $/MWh at bus %d\n", r.Status, r.Objective, r.LambdaP[0]/n.BaseMVA, n.BusID[0])
	// Output: optimal, 129660.69 $/h, 40.53 $/MWh at bus 1
}

// Many loads at once: eight problems share the lanes of a vector, the rest the cores.
func Example_manyLoads() {
	n := open("case30")
	solver, err := acopf.New(n, acopf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	problems := make([]acopf.Problem, 64)
	for k := range problems {
		scale := 0.8 + 0.2*float64(k)/float64(len(problems)-1)
		problems[k].Pd = make([]float64, len(n.Pd))
		for i, load := range n.Pd {
			problems[k].Pd[i] = scale * load
		}
	}
	results := make([]acopf.Result, len(problems))
	if err := solver.Solve(context.Background(), problems, results); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s at 80 %% of the load, %s at all of it\n", results[0].Status, results[63].Status)
	// Output: optimal at 80 % of the load, optimal at all of it
}

// The voltages that generation and loads lead to.
func Example_powerFlow() {
	n := open("case14")
	solver, err := powerflow.New(n)
	if err != nil {
		log.Fatal(err)
	}
	var out powerflow.Solution
	if err := solver.Solve(powerflow.Input{}, powerflow.Options{Start: powerflow.Flat, EnforceQ: true}, &out); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, largest mismatch below 1e-9 pu: %t\n", out.Status, out.Mismatch < 1e-9)
	// Output: converged, largest mismatch below 1e-9 pu: true
}

// Every single outage of a branch, by the factors of the whole network where they serve.
func Example_outages() {
	n := open("case30")
	solver, err := powerflow.New(n)
	if err != nil {
		log.Fatal(err)
	}
	var base, out powerflow.Solution
	if err := solver.Solve(powerflow.Input{}, powerflow.Options{}, &base); err != nil {
		log.Fatal(err)
	}
	outages, err := solver.NewOutages(powerflow.Input{}, powerflow.Options{}, &base)
	if err != nil {
		log.Fatal(err)
	}
	islands, solved := 0, 0
	for branch := range n.Branches() {
		o, err := outages.Branch(branch, &out)
		if err != nil {
			log.Fatal(err)
		}
		if len(o.Islanded) > 0 {
			islands++
		}
		if o.Solution.Converged() {
			solved++
		}
	}
	fmt.Printf("%d of %d converge, %d cut buses off\n", solved, n.Branches(), islands)
	// Output: 41 of 41 converge, 3 cut buses off
}

// A case file is read by matpower.Read and put in per unit by network.New; here the file is a string.
func Example_readACase() {
	const file = `function mpc = two
mpc.version = '2';
mpc.baseMVA = 100;
% bus type Pd Qd Gs Bs area Vm Va baseKV zone Vmax Vmin
mpc.bus = [
 1 3  0  0 0 0 1 1 0 110 1 1.1 0.9;
 2 1 50 10 0 0 1 1 0 110 1 1.1 0.9;
];
% bus Pg Qg Qmax Qmin Vg mBase status Pmax Pmin
mpc.gen = [ 1 0 0 50 -50 1 100 1 100 0 ];
% from to r x b rateA rateB rateC ratio angle status
mpc.branch = [ 1 2 0.01 0.1 0 80 0 0 0 0 1 ];
mpc.gencost = [ 2 0 0 2 20 0 ];
`
	c, err := matpower.Read("two.m", strings.NewReader(file))
	if err != nil {
		log.Fatal(err)
	}
	n, err := network.New(c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d buses, load %.0f MW, rating %.1f pu\n", n.Name, n.Buses(), n.Pd[1]*n.BaseMVA, n.Rate[0])
	// Output: two: 2 buses, load 50 MW, rating 0.8 pu
}

// A series of loads from a table: each step begins at the optimum of the step before.
func Example_seriesOfLoads() {
	dir, err := os.MkdirTemp("", "gpc-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "loads.csv")
	if err := os.WriteFile(path, []byte("time,scale\n00:00,0.80\n00:05,0.81\n00:10,0.82\n"), 0o644); err != nil {
		log.Fatal(err)
	}
	n := open("case30")
	loads, err := series.Open(path, n)
	if err != nil {
		log.Fatal(err)
	}
	defer loads.Close()
	flows, err := acopf.New(n, acopf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	solver, err := series.NewSolver(flows, 1)
	if err != nil {
		log.Fatal(err)
	}
	steps, err := loads.Next(100)
	if err != nil {
		log.Fatal(err)
	}
	results := make([]acopf.Result, steps.Len())
	if err := solver.Solve(context.Background(), steps, results); err != nil {
		log.Fatal(err)
	}
	for k, r := range results {
		fmt.Printf("%s: %.1f MW, %s at %.2f $/h\n", steps.Time[k], steps.LoadMW(n, k), r.Status, r.Objective)
	}
	// Output:
	// 00:00: 151.4 MW, optimal at 432.03 $/h
	// 00:05: 153.3 MW, optimal at 438.91 $/h
	// 00:10: 155.1 MW, optimal at 445.81 $/h
}
