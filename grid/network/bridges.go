package network

// Bridges says of every branch whether it alone connects its buses (R. E. Tarjan, Inf. Proc. Letters 2, 1974),
// without recursion.
func (n *Network) Bridges() []bool {
	adjacent := make([][]int32, n.Buses())
	for k, from := range n.From {
		adjacent[from] = append(adjacent[from], int32(k))
		adjacent[n.To[k]] = append(adjacent[n.To[k]], int32(k))
	}
	bridges := make([]bool, n.Branches())
	visited, low := make([]int, n.Buses()), make([]int, n.Buses())
	next := 0
	type visit struct{ bus, via, position int }
	for root := range adjacent {
		if visited[root] > 0 {
			continue
		}
		next++
		visited[root], low[root] = next, next
		stack := []visit{{root, -1, 0}}
		for len(stack) > 0 {
			v := &stack[len(stack)-1]
			if v.position < len(adjacent[v.bus]) {
				k := int(adjacent[v.bus][v.position])
				v.position++
				if k == v.via {
					continue
				}
				remote := n.From[k] + n.To[k] - v.bus
				if visited[remote] > 0 {
					low[v.bus] = min(low[v.bus], visited[remote])
					continue
				}
				next++
				visited[remote], low[remote] = next, next
				stack = append(stack, visit{remote, k, 0})
				continue
			}
			child := *v
			stack = stack[:len(stack)-1]
			if len(stack) > 0 {
				parent := stack[len(stack)-1].bus
				low[parent] = min(low[parent], low[child.bus])
				bridges[child.via] = low[child.bus] > visited[parent]
			}
		}
	}
	return bridges
}
