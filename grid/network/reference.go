package network

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/internal/unionfind"
)

// MovedReference is a reference bus of the file without a generator in service to take up the balance, and the bus
// that replaces it.
type MovedReference struct{ From, To int } // bus index

// Notes say in a sentence each where the network differs from the file.
func (n *Network) Notes() []string {
	var notes []string
	for _, m := range n.MovedReferences {
		notes = append(notes, fmt.Sprintf("bus %d, the reference of the file, has no generator in service: bus %d is the reference instead, the one with the most active power in its island", n.BusID[m.From], n.BusID[m.To]))
	}
	return notes
}

// moveReferences replaces the only reference of an island if it has no generator in service. The new one is the bus
// with the largest sum of P_max, the first of equals. An island without generators keeps its own.
func (n *Network) moveReferences() {
	island := n.Islands()
	references := map[int]int{}
	for _, r := range n.References {
		references[island[r]]++
	}
	for k, r := range n.References {
		if slices.Contains(n.GenBus, r) || references[island[r]] > 1 {
			continue
		}
		to := n.strongest(island, island[r])
		if to < 0 {
			continue
		}
		n.Kind[r], n.Kind[to], n.References[k] = PQ, Slack, to
		n.MovedReferences = append(n.MovedReferences, MovedReference{r, to})
	}
}

// strongest is the bus of an island with the largest sum of P_max, the first of equals; −1 without units.
func (n *Network) strongest(island []int, number int) int {
	power, to := make([]float64, n.Buses()), -1
	for g, b := range n.GenBus {
		power[b] += n.PMax[g]
	}
	for _, b := range n.GenBus {
		if island[b] == number && (to < 0 || power[b] > power[to] || power[b] == power[to] && b < to) {
			to = b
		}
	}
	return to
}

// Islands numbers the connected parts, by bus, by one of their buses.
func (n *Network) Islands() []int {
	parts := unionfind.New(n.Buses())
	for k, from := range n.From {
		parts.Join(from, n.To[k])
	}
	island := make([]int, len(parts))
	for b := range island {
		island[b] = parts.Root(b)
	}
	return island
}

// Angles are the angles of voltages without a flow, rad: from the references outwards, each bus's minus the phase
// shifts on the path. A bus without a path has the angle of the first reference.
func (n *Network) Angles() []float64 {
	adjacent := make([][]int, n.Buses())
	for k, from := range n.From {
		adjacent[from] = append(adjacent[from], k)
		adjacent[n.To[k]] = append(adjacent[n.To[k]], k)
	}
	angle, reached := slices.Repeat([]float64{n.Va0[n.Slack]}, n.Buses()), make([]bool, n.Buses())
	queue := slices.Clone(n.References)
	for _, r := range queue {
		angle[r], reached[r] = n.Va0[r], true
	}
	for len(queue) > 0 {
		b := queue[0]
		queue = queue[1:]
		for _, k := range adjacent[b] {
			to, shift := n.To[k], -n.Shift(k)
			if to == b {
				to, shift = n.From[k], -shift
			}
			if !reached[to] {
				angle[to], reached[to] = angle[b]+shift, true
				queue = append(queue, to)
			}
		}
	}
	return angle
}

// Shift is the phase shift of a branch, rad.
func (n *Network) Shift(branch int) float64 { return math.Atan2(n.sinφ[branch], n.cosφ[branch]) }

// Coupling is the susceptance of a branch in a linear power flow, 1/(x·tap), pu.
func (n *Network) Coupling(branch int) float64 {
	g, b := n.gs[branch], n.bs[branch]
	return -(g*g + b*b) / (b * n.tap[branch])
}
