package network

import "slices"

// Bridges says of every branch whether it alone connects its buses.
func (n *Network) Bridges() []bool {
	bridges := make([]bool, n.Branches())
	for k, side := range n.BridgeSides() {
		bridges[k] = side != nil
	}
	return bridges
}

// BranchesAt are the branches at each bus.
func (n *Network) BranchesAt() [][]int32 {
	counts, all, branches := make([]int, n.Buses()), make([]int32, 2*n.Branches()), make([][]int32, n.Buses())
	for k, from := range n.From {
		counts[from]++
		counts[n.To[k]]++
	}
	for b, count := range counts {
		branches[b], all = all[:0:count], all[count:]
	}
	for k, from := range n.From {
		branches[from], branches[n.To[k]] = append(branches[from], int32(k)), append(branches[n.To[k]], int32(k))
	}
	return branches
}

// BridgeSides are, of every branch that alone connects its buses, those that it connects with their island's first reference. They
// are nil of the others (R. E. Tarjan, Inf. Proc. Letters 2, 1974).
func (n *Network) BridgeSides() [][]int {
	adjacent := n.BranchesAt()
	sides := make([][]int, n.Branches())
	order := make([]int, 0, n.Buses()) // of the first visits
	visited, low := make([]int, n.Buses()), make([]int, n.Buses())
	type visit struct{ bus, branch, position int }
	var stack []visit
	enter := func(bus, branch int) {
		order = append(order, bus)
		visited[bus], low[bus] = len(order), len(order)
		stack = append(stack, visit{bus, branch, 0})
	}
	for i := range len(n.References) + len(adjacent) {
		root := i - len(n.References)
		if root < 0 {
			root = n.References[i]
		}
		if visited[root] == 0 {
			enter(root, -1)
		}
		for len(stack) > 0 {
			v := &stack[len(stack)-1]
			if v.position < len(adjacent[v.bus]) {
				k := int(adjacent[v.bus][v.position])
				v.position++
				switch remote := n.From[k] + n.To[k] - v.bus; {
				case k == v.branch:
				case visited[remote] > 0:
					low[v.bus] = min(low[v.bus], visited[remote])
				default:
					enter(remote, k)
				}
				continue
			}
			child := *v
			stack = stack[:len(stack)-1]
			if len(stack) > 0 {
				parent := stack[len(stack)-1].bus
				low[parent] = min(low[parent], low[child.bus])
				if low[child.bus] > visited[parent] {
					sides[child.branch] = slices.Clip(order[visited[child.bus]-1:])
				}
			}
		}
	}
	return sides
}
