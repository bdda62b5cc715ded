package network

// Bridges says of every branch whether its buses hang together by it alone (R. E. Tarjan, Inf.
// Proc. Letters 2, 1974), without recursion.
func (n *Network) Bridges() []bool {
	near := make([][]int32, n.Buses())
	for k, from := range n.From {
		near[from] = append(near[from], int32(k))
		near[n.To[k]] = append(near[n.To[k]], int32(k))
	}
	found := make([]bool, n.Branches())
	seen, low := make([]int, n.Buses()), make([]int, n.Buses())
	next := 0
	type visit struct{ bus, by, at int }
	for root := range near {
		if seen[root] > 0 {
			continue
		}
		next++
		seen[root], low[root] = next, next
		stack := []visit{{root, -1, 0}}
		for len(stack) > 0 {
			v := &stack[len(stack)-1]
			if v.at < len(near[v.bus]) {
				k := int(near[v.bus][v.at])
				v.at++
				if k == v.by {
					continue
				}
				other := n.From[k] + n.To[k] - v.bus
				if seen[other] > 0 {
					low[v.bus] = min(low[v.bus], seen[other])
					continue
				}
				next++
				seen[other], low[other] = next, next
				stack = append(stack, visit{other, k, 0})
				continue
			}
			done := *v
			stack = stack[:len(stack)-1]
			if len(stack) > 0 {
				above := stack[len(stack)-1].bus
				low[above] = min(low[above], low[done.bus])
				found[done.by] = low[done.bus] > seen[above]
			}
		}
	}
	return found
}
