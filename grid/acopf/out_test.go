package acopf

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/networktest"
)

// The optimum without a branch or unit is that of the case without it, whatever is out in the
// problems beside it.
func TestWhatIsOutIsAsIfItWereNotInTheCase(t *testing.T) {
	for _, name := range []string{"case14", "case30", "case39"} {
		n := networktest.Load(t, name)
		s := newTestSolver(t, n, Options{})
		var problems []Problem
		var cases []*matpower.Case
		add := func(out Out, change func(c *matpower.Case)) {
			c := networktest.Case(t, name)
			change(c)
			problems, cases = append(problems, Problem{Out: out}), append(cases, c)
		}
		for k := 0; k < n.Branches(); k += 3 {
			add(Out{Branches: []int{k}}, func(c *matpower.Case) { c.Branch[n.BranchRow[k]].InService = false })
		}
		for g, bus := range n.GenBus {
			if bus != n.Slack {
				add(Out{Units: []int{g}}, func(c *matpower.Case) { c.Gen[n.GenRow[g]].InService = false })
			}
		}
		results := make([]Result, len(problems))
		if err := s.Solve(context.Background(), problems, results); err != nil {
			t.Fatal(err)
		}
		compared := 0
		for i := range results {
			if !connected(cases[i]) {
				continue // a case without it has no buses that hang together
			}
			one := newTestSolver(t, networktest.Of(t, cases[i]), Options{})
			want := make([]Result, 1)
			if err := one.Solve(context.Background(), make([]Problem, 1), want); err != nil {
				t.Fatal(err)
			}
			if results[i].Status != want[0].Status {
				t.Errorf("%s without %+v: %v, of the case without it %v", name, problems[i].Out, results[i].Status, want[0].Status)
				continue
			}
			if want[0].Status == Optimal {
				compared++
				if d := math.Abs(results[i].Objective-want[0].Objective) / want[0].Objective; d > 1e-6 {
					t.Errorf("%s without %+v: %.6f, of the case without it %.6f", name, problems[i].Out, results[i].Objective, want[0].Objective)
				}
			}
		}
		if compared < len(results)/2 {
			t.Errorf("%s: %d of %d compared", name, compared, len(results))
		}
	}
}

// connected says whether every bus of a case hangs together by branches in service.
func connected(c *matpower.Case) bool {
	group := map[int]int{}
	for _, b := range c.Bus {
		group[b.ID] = b.ID
	}
	for range c.Bus {
		for _, b := range c.Branch {
			if b.InService {
				least := min(group[b.From], group[b.To])
				group[b.From], group[b.To] = least, least
			}
		}
	}
	for _, b := range c.Bus {
		if group[b.ID] != group[c.Bus[0].ID] {
			return false
		}
	}
	return true
}

func TestWhatCannotBeOutIsRefused(t *testing.T) {
	s := newTestSolver(t, networktest.Load(t, "case9"), Options{})
	for _, out := range []Out{{Branches: []int{9}}, {Units: []int{-1}}, {Units: []int{3}}} {
		err := s.Solve(context.Background(), []Problem{{Out: out}}, make([]Result, 1))
		if err == nil || !strings.Contains(err.Error(), "want an index of 0 to") {
			t.Errorf("%s: %v", fmt.Sprint(out), err)
		}
	}
}
