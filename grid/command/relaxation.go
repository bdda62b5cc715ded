package command

import (
	"fmt"
	"io"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/results"
)

// printLeast prints a least relaxation.
func printLeast(w io.Writer, y *results.LeastRelaxation) {
	switch {
	case y.Status != acopf.Optimal.String():
		fmt.Fprintf(w, "no least relaxation of its limits was found: %s after %d iterations\n", y.Status, y.Iterations)
		return
	case len(y.Limits) == 0:
		fmt.Fprintln(w, "a point that keeps every limit exists: it is the optimum that was not found")
		return
	}
	fmt.Fprintln(w, "least relaxation with which all other limits can be kept:")
	rows := [][]string{{"limit", "at", "gives", "to", "from", "unit"}}
	for _, l := range y.Limits {
		name, bound := l.Kind, fmt.Sprintf("%.4f", l.Bound)
		switch l.Kind {
		case "p_balance", "q_balance":
			name, bound = "load not met", ""
			if l.Value < 0 {
				name = "power without use"
			}
		}
		rows = append(rows, []string{name, l.Where(), fmt.Sprintf("%.4f", l.Excess), fmt.Sprintf("%.4f", l.Value), bound, l.Unit})
	}
	cli.Table(w, rows)
	if *y.Shortfall > 0 {
		fmt.Fprintf(w, "%.4f MW are missing\n", *y.Shortfall)
	}
}
