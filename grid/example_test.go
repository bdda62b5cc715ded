package grid_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
)

// open is a network of the library's own; a file is read by matpower.Read.
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
