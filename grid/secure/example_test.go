package secure_test

import (
	"context"
	"fmt"

	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/secure"
)

// Candidates are ranked by what they have left after their worst outage.
func ExampleSolver_Screen() {
	c, err := cases.Read("case9")
	if err != nil {
		panic(err)
	}
	n, err := network.New(c)
	if err != nil {
		panic(err)
	}
	s, err := secure.New(n, secure.DefaultOptions())
	if err != nil {
		panic(err)
	}
	candidates := []secure.Candidate{{Pg: []float64{0.9, 1.34, 0.94}, Vm: n.Vm0}, {Pg: []float64{0.4, 2.6, 0.18}, Vm: n.Vm0}}
	found, err := s.Screen(context.Background(), secure.Problem{}, candidates, secure.ScreenOptions{Audit: 1})
	if err != nil {
		panic(err)
	}
	for i, m := range found.Margins {
		fmt.Printf("candidate %d: %.2f left after the outage of branch %d or unit %d\n", i, m.Least, m.Branch, m.Unit)
	}
	fmt.Println(found.Missed, "missed")
	// Output:
	// candidate 0: -0.58 left after the outage of branch 8 or unit -1
	// candidate 1: -0.68 left after the outage of branch 8 or unit -1
	// 0 missed
}
