package network

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/internal/unionfind"
	"github.com/gpc-engine/gpc/grid/matpower"
)

// MovedReference is a reference bus of the file without a generator in service to take up the balance, and the bus
// that replaces it.
type MovedReference struct{ From, To int } // bus index

// changedType is the type that a bus of an island without a reference gets.
type changedType struct {
	id   int
	kind matpower.BusType
}

// Notes say in a sentence each where the network differs from the file.
func (n *Network) Notes() []string {
	notes := append([]string{}, n.notes...)
	for _, m := range n.MovedReferences {
		notes = append(notes, fmt.Sprintf("bus %d, the reference of the file, has no generator in service: bus %d is the reference instead, the one with the most active power in its island", n.BusID[m.From], n.BusID[m.To]))
	}
	for _, t := range n.changedTypes {
		if t.kind == matpower.Reference {
			notes = append(notes, fmt.Sprintf("bus %d is the reference of an island without one", t.id))
		} else {
			notes = append(notes, fmt.Sprintf("bus %d is not connected, has no load and is left out", t.id))
		}
	}
	if n.shorted > 0 {
		notes = append(notes, fmt.Sprintf("branches of less impedance than %g pu, or none, have this reactance: %d", MinReactance, n.shorted))
	}
	return notes
}

// moveReferences replaces the only reference of an island if it has no generator in service. The new one is the bus
// with the largest sum of P_max, the first of equals. An island without generators keeps its own.
func (n *Network) moveReferences() {
	power, hasUnit := make([]float64, n.Buses()), make([]bool, n.Buses())
	terminals := n.Terminals()
	for g, b := range n.GenBus {
		if !terminals[g] {
			power[b] += n.PMax[g]
			hasUnit[b] = true
		}
	}
	island := n.Islands()
	references := map[int]int{}
	for _, r := range n.References {
		references[island[r]]++
	}
	for k, r := range n.References {
		if hasUnit[r] || references[island[r]] > 1 {
			continue
		}
		bus := -1
		for b := range hasUnit {
			if hasUnit[b] && island[b] == island[r] && (bus < 0 || power[b] > power[bus]) {
				bus = b
			}
		}
		if bus < 0 {
			continue
		}
		n.Kind[r], n.Kind[bus], n.References[k] = PQ, Slack, bus
		n.MovedReferences = append(n.MovedReferences, MovedReference{r, bus})
	}
}

// OneReference is the network with the first reference of each island. The others hold their voltage alone.
func (n *Network) OneReference() *Network {
	copied, island := *n, n.Islands()
	copied.Kind, copied.References = slices.Clone(n.Kind), nil
	for _, r := range n.References {
		if slices.ContainsFunc(copied.References, func(b int) bool { return island[b] == island[r] }) {
			copied.Kind[r] = PV
		} else {
			copied.References = append(copied.References, r)
		}
	}
	return &copied
}

// Islands numbers the parts that are connected without some branches, by bus, by one of their buses.
func (n *Network) Islands(out ...int) []int {
	return n.parts(func(k int) bool { return !slices.Contains(out, k) })
}

// parts are those that some branches connect.
func (n *Network) parts(connects func(branch int) bool) []int {
	parts := unionfind.New(n.Buses())
	for k, from := range n.From {
		if connects(k) {
			parts.Join(from, n.To[k])
		}
	}
	island := make([]int, len(parts))
	for b := range island {
		island[b] = parts.Root(b)
	}
	return island
}

// Ties are the buses that branches of next to no impedance join, two or more each. A power flow starts them at one voltage: the
// square of a difference, times such an admittance, is more power than Newton's method gets rid of.
func (n *Network) Ties() [][]int {
	const admittance = 1e4 // pu
	ties := make([][]int, n.Buses())
	for b, part := range n.parts(func(k int) bool {
		return math.Hypot(n.Gft[k], n.Bft[k]) > admittance && n.Shift(k) == 0 && n.tap[k] == 1
	}) {
		ties[part] = append(ties[part], b)
	}
	return slices.DeleteFunc(ties, func(tie []int) bool { return len(tie) < 2 })
}

// Shift is the phase shift of a branch, rad.
func (n *Network) Shift(branch int) float64 { return math.Atan2(n.sinφ[branch], n.cosφ[branch]) }

// StartAngles are those of a flat start, rad: an island's first reference's. Where a branch has the shift of a vector group,
// 30° or more, they follow the shifts from bus to bus. No branch begins with such a difference then.
func (n *Network) StartAngles() []float64 {
	angles := make([]float64, n.Buses())
	branches, grouped := n.BranchesAt(), false
	for k := range n.From {
		grouped = grouped || math.Abs(n.Shift(k)) > 29*math.Pi/180
	}
	visited := make([]bool, n.Buses())
	for _, r := range n.References {
		angles[r] = n.Va0[r]
		if visited[r] {
			continue
		}
		visited[r] = true
		for queue := []int{r}; len(queue) > 0; queue = queue[1:] {
			bus := queue[0]
			for _, k := range branches[bus] {
				other, shift := n.From[k]+n.To[k]-bus, 0.0
				if grouped && other == n.To[k] {
					shift = -n.Shift(int(k))
				} else if grouped {
					shift = n.Shift(int(k))
				}
				if !visited[other] {
					angles[other], visited[other] = angles[bus]+shift, true
					queue = append(queue, other)
				}
			}
		}
	}
	return angles
}

// Coupling is the susceptance of a branch in a linear power flow, 1/(x·tap), pu.
func (n *Network) Coupling(branch int) float64 {
	g, b := n.gs[branch], n.bs[branch]
	return -(g*g + b*b) / (b * n.tap[branch])
}
