// Package networktest loads power networks for tests.
package networktest

import (
	"fmt"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
)

// Case is a case that comes with the program, for the test to change.
func Case(t testing.TB, name string) *matpower.Case {
	t.Helper()
	c, err := cases.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Of is the network of a case.
func Of(t testing.TB, c *matpower.Case) *network.Network {
	t.Helper()
	n, err := network.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Load is the network of a case that comes with the program.
func Load(t testing.TB, name string) *network.Network {
	t.Helper()
	return Of(t, Case(t, name))
}

// numberStep is the difference of bus numbers between one copy and the next.
const numberStep = 1000

// Copies is a network of any size: several copies of a case with one reference bus. Branches tie each copy to the one
// before, from a bus of that one to a bus of its own.
func Copies(t testing.TB, c *matpower.Case, copies int, ties ...matpower.Branch) *network.Network {
	t.Helper()
	joined := &matpower.Case{Name: fmt.Sprintf("%d × %s", copies, c.Name), BaseMVA: c.BaseMVA, HasCost: c.HasCost}
	for k := range copies {
		shift := k * numberStep
		for _, b := range c.Bus {
			if b.Type == matpower.Reference && k > 0 {
				b.Type = matpower.PV
			}
			b.ID += shift
			joined.Bus = append(joined.Bus, b)
		}
		for _, g := range c.Gen {
			g.Bus += shift
			joined.Gen = append(joined.Gen, g)
		}
		for _, l := range c.Branch {
			l.From, l.To = l.From+shift, l.To+shift
			joined.Branch = append(joined.Branch, l)
		}
		if k == 0 {
			continue
		}
		for _, tie := range ties {
			tie.From, tie.To = tie.From+shift-numberStep, tie.To+shift
			joined.Branch = append(joined.Branch, tie)
		}
	}
	return Of(t, joined)
}
