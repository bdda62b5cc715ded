package elimination

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Elimination keeps every bus once, the held ones last, and its columns hold the
// fill of every earlier column.
func TestEliminationIsAnOrderWithItsFill(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 25).Draw(rt, "buses")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		var edges [][2]int
		for range rng.IntN(3 * n) {
			edges = append(edges, [2]int{rng.IntN(n), rng.IntN(n)})
		}
		last := rng.Perm(n)[:rng.IntN(n)]
		e := MinimumDegree(n, edges, last)
		seen := map[int]bool{}
		for k, i := range e.Order {
			seen[i] = true
			if e.Position[i] != k {
				rt.Fatalf("bus %d is %d-th and placed at %d", i, k, e.Position[i])
			}
		}
		if len(seen) != n || len(e.Order) != n {
			rt.Fatalf("%d buses, %d of them different, want %d", len(e.Order), len(seen), n)
		}
		for k, i := range last {
			if e.Order[n-len(last)+k] != i {
				rt.Fatalf("held bus %d is not at its place", i)
			}
		}
		if want := slowly(n, edges, last); !slices.Equal(e.Order, want) {
			rt.Fatalf("the order is %v, want %v", e.Order, want)
		}
		has := func(row, col int) bool {
			for _, j := range e.Below[col] {
				if j == row {
					return true
				}
			}
			return false
		}
		for _, edge := range edges {
			a, b := e.Position[edge[0]], e.Position[edge[1]]
			if a != b && !has(max(a, b), min(a, b)) {
				rt.Fatalf("edge (%d, %d) is missing", a, b)
			}
		}
		for col, below := range e.Below {
			for x, i := range below {
				if i <= col {
					rt.Fatalf("column %d has row %d", col, i)
				}
				for _, j := range below[:x] {
					if !has(i, j) {
						rt.Fatalf("fill (%d, %d) of column %d is missing", i, j, col)
					}
				}
			}
		}
	})
}

// slowly is minimum degree as its definition says.
func slowly(n int, edges [][2]int, last []int) (order []int) {
	meets, since := make([]map[int]bool, n), make([]int, n) // since when a bus has its neighbours
	for i := range meets {
		meets[i], since[i] = map[int]bool{}, -i
	}
	for _, e := range edges {
		if e[0] != e[1] {
			meets[e[0]][e[1]], meets[e[1]][e[0]] = true, true
		}
	}
	for clock := 1; len(order) < n-len(last); {
		best := -1
		for i := range n {
			if !slices.Contains(order, i) && !slices.Contains(last, i) && (best < 0 || len(meets[i]) < len(meets[best]) || len(meets[i]) == len(meets[best]) && since[i] > since[best]) {
				best = i
			}
		}
		for i := range n {
			if !meets[best][i] {
				continue
			}
			since[i] = clock
			clock++
			delete(meets[i], best)
			for j := range meets[best] {
				if i != j {
					meets[i][j] = true
				}
			}
		}
		order = append(order, best)
	}
	return append(order, last...)
}
