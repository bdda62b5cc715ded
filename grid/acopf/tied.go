package acopf

import (
	"fmt"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// tie is a unit that follows another: its power is ratio·power + constant. A load that keeps its power factor has one
// variable, its P, and a DC line has one, P of its from end. In the KKT matrix it is one column with 1 in the balance of
// the lead and the ratio in that of the follower. Its elimination leaves −[1 r; r r²]/d there. The limits of the
// lead are those of both.
type tie struct {
	lead, follow    int
	ratio, constant float64
}

// addTies lists the units that follow others.
func (p *plan) addTies(d network.Dispatchable) error {
	factors, _, err := p.net.PowerFactors(d)
	if err != nil {
		return err
	}
	p.follows = make([]bool, 2*p.ng)
	for _, t := range factors {
		p.ties = append(p.ties, tie{t.Gen, p.ng + t.Gen, t.Ratio, 0})
	}
	for _, d := range p.net.DCLines {
		p.ties = append(p.ties, tie{d.From, d.To, d.Loss1 - 1, -d.Loss0})
	}
	for _, t := range p.ties {
		if cost, ok := p.unitCost(t.follow); ok && cost.PiecewiseLinear() {
			g := t.follow % p.ng
			return fmt.Errorf("network %s, generator %d at bus %d: a load of constant power factor with a piecewise linear cost of reactive power cannot be honoured",
				p.net.Name, p.net.GenRow[g]+1, p.net.BusID[p.net.GenBus[g]])
		}
		p.follows[t.follow] = true
	}
	return nil
}

// cell is the cell of a unit's balance in a pair of columns by bus.
func (p *plan) cell(unit int, active, reactive lanes.Col) lanes.Col {
	bus := p.unitBus[unit]
	return p.balance(unit, active, reactive)[bus : bus+1]
}
