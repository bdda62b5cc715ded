// Package networktest loads power networks for tests.
package networktest

import (
	"fmt"
	"math/rand/v2"
	"slices"
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

// Walk is a random walk of loads, pu by bus, from a factor of the network's loads. Every step moves by up to a
// share: half of it by each bus alone and half by all together. Steps are drawn back to the start.
func Walk(n *network.Network, level, share float64, steps int, rng *rand.Rand) (pd, qd [][]float64) {
	move := func(f float64) float64 { return f * (1 + share/2*(2*rng.Float64()-1) - 0.1*(f-1)) }
	factor, common := slices.Repeat([]float64{1}, n.Buses()), 1.0
	for range steps {
		p, q := n.Loads(level)
		for b, f := range factor {
			p[b] *= common * f
			q[b] *= common * f
		}
		pd, qd = append(pd, p), append(qd, q)
		common = move(common)
		for b, f := range factor {
			factor[b] = move(f)
		}
	}
	return pd, qd
}
