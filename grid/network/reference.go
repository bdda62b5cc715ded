package network

import (
	"fmt"

	"github.com/gpc-engine/gpc/grid/internal/unionfind"
)

// Moved is a reference bus of the file without a generator in service, so that
// nothing takes up the balance there, and the bus that stands in for it.
type Moved struct{ From, To int } // bus index

// Notes say in a sentence each where the network is not as the file has it.
func (n *Network) Notes() []string {
	var notes []string
	for _, m := range n.Moved {
		notes = append(notes, fmt.Sprintf("bus %d, the reference of the file, has no generator in service: bus %d is the reference instead, the one with the most active power in its island", n.BusID[m.From], n.BusID[m.To]))
	}
	return notes
}

// moveReferences gives every island whose only reference has no generator in service
// another: the bus with the largest sum of P_max, the first of equals. An island
// without any generator keeps its own.
func (n *Network) moveReferences() {
	power, has := make([]float64, n.Buses()), make([]bool, n.Buses())
	for g, b := range n.GenBus {
		power[b] += n.PMax[g]
		has[b] = true
	}
	island := n.islands()
	references := map[int]int{}
	for _, r := range n.References {
		references[island[r]]++
	}
	for k, r := range n.References {
		if has[r] || references[island[r]] > 1 {
			continue
		}
		to := -1
		for b := range has {
			if has[b] && island[b] == island[r] && (to < 0 || power[b] > power[to]) {
				to = b
			}
		}
		if to < 0 {
			continue
		}
		n.Kind[r], n.Kind[to], n.References[k] = PQ, Slack, to
		n.Moved = append(n.Moved, Moved{r, to})
	}
}

// islands numbers the connected parts by one of their buses.
func (n *Network) islands() []int {
	parts := unionfind.New(n.Buses())
	for k, from := range n.From {
		parts.Join(from, n.To[k])
	}
	of := make([]int, len(parts))
	for b := range of {
		of[b] = parts.Root(b)
	}
	return of
}
