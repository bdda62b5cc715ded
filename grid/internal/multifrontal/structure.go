// Package multifrontal factors sparse symmetric indefinite matrices A = LDLᵀ with pivots that
// are chosen by size: the KKT matrices of an interior point whose elimination in a fixed order
// loses too many digits.
//
// The central type is Factor, which works on a Structure: an elimination order of blocks and the
// pattern that it leaves. Each supernode is a dense front; pivots of order one and two are taken
// inside it where they are stable, and a variable without such a pivot is delayed to the parent
// front (I. S. Duff, J. K. Reid, ACM Trans. Math. Software 9, 1983). The signs of the pivots are
// the matrix's inertia. No operation is fused, so that results are the same everywhere.
package multifrontal

import (
	"math"
	"slices"
)

// Structure is the part of a factorisation that does not change with the numbers.
type Structure struct {
	n      int
	row    []int32 // of each entry, row ≥ column in the order of elimination
	col    []int32
	fronts []front
	order  []int32 // of the fronts: children before their parent, and right before it what they are made of
	stack  int     // numbers that wait at once in that order, without delayed variables
	border int     // variables that stay, the last ones
	most   int     // largest front without delayed variables
}

// front is a supernode.
type front struct {
	vars     []int32 // eliminated here unless delayed, ascending
	below    []int32 // what else they meet, ascending
	parent   int     // −1 for a root
	children []int32
	entries  []int32 // of the matrix, those with their column in vars
	stays    bool    // vars are the border
}

// Zeros that a merged front may hold: it saves assembly and gives pivots more partners.
const (
	mergeSize  = 32  // fronts up to this size are merged with little thought
	mergeShare = 0.3 // the share of zeros that is not too much otherwise
)

// Analyse takes an elimination order of blocks, 0 to len(size)−1, of size[k] variables, which are
// numbered in that order, and the blocks below the diagonal of each block's column in the factor,
// ascending. row and col, which are kept, are the places of the matrix's entries, each place once,
// row ≥ col. Of a block's variables, those from the inner-th on meet only blocks that the block's
// own column has; only the first inner ones are met by blocks before it.
func Analyse(size []int, inner int, below [][]int, row, col []int32) *Structure {
	return AnalyseBordered(size, slices.Repeat([]int{inner}, len(size)), below, 0, row, col)
}

// AnalyseBordered is Analyse with a number of inner variables for each block, and with so many
// blocks at the end that are not eliminated: the border. Their lists in below are not read. A
// factorisation leaves their Schur complement.
func AnalyseBordered(size, inner []int, below [][]int, border int, row, col []int32) *Structure {
	blocks := len(below)
	inside := blocks - border
	start := make([]int32, blocks+1)
	for k, n := range size {
		start[k+1] = start[k] + int32(n)
	}
	s := &Structure{n: int(start[blocks]), row: row, col: col}
	blockOf := make([]int, s.n)
	for k := range blocks {
		for v := start[k]; v < start[k+1]; v++ {
			blockOf[v] = k
		}
	}
	// A block joins its parent's front where that adds few zeros. groups[k] lists the blocks of
	// the front that ends with k.
	groups := make([][]int, blocks)
	of := make([]int, blocks) // the last block of a block's front
	for k := range blocks {
		if k >= inside { // the border is one front
			of[k] = blocks - 1
			groups[blocks-1] = append(groups[blocks-1], k)
			continue
		}
		groups[k] = append(groups[k], k)
		of[k] = k
		if len(below[k]) == 0 || below[k][0] >= inside {
			continue
		}
		p := below[k][0]
		own, rest, into := len(groups[k]), len(below[k]), len(below[p])+1
		zeros := own * (into - rest)
		whole := (own + 1) * (own + into)
		if zeros == 0 || inner[k]*(own+into) <= mergeSize || float64(zeros) <= mergeShare*float64(whole) && own < 8 && len(groups[p]) < 8 {
			groups[p] = append(groups[p], groups[k]...)
			groups[k] = nil
		}
	}
	index := make([]int, blocks)
	for k := range blocks {
		if groups[k] == nil {
			continue
		}
		slices.Sort(groups[k])
		f := front{parent: -1, stays: k >= inside}
		for _, b := range groups[k] {
			of[b] = k
			for v := start[b]; v < start[b+1]; v++ {
				f.vars = append(f.vars, v)
			}
		}
		if f.stays {
			s.border = len(f.vars)
		} else {
			for _, b := range below[k] {
				for r := range inner[b] {
					f.below = append(f.below, start[b]+int32(r))
				}
			}
		}
		index[k] = len(s.fronts)
		s.fronts = append(s.fronts, f)
		s.most = max(s.most, len(f.vars)+len(f.below))
	}
	for k := range blocks {
		if k < inside && groups[k] != nil && len(below[k]) > 0 {
			f, p := index[k], index[of[below[k][0]]]
			s.fronts[f].parent = p
			s.fronts[p].children = append(s.fronts[p].children, int32(f))
		}
	}
	for e := range row {
		f := index[of[blockOf[col[e]]]]
		s.fronts[f].entries = append(s.fronts[f].entries, int32(e))
	}
	s.traverse()
	return s
}

// traverse finds an order of the fronts in which little waits: subtrees one after another, those
// first that need much more than they leave (J. W. H. Liu, ACM Trans. Math. Software 12, 1986).
func (s *Structure) traverse() {
	leaves, most := make([]int, len(s.fronts)), make([]int, len(s.fronts))
	byNeed := make([][]int32, len(s.fronts))
	for k := range s.fronts { // children have smaller numbers
		f := &s.fronts[k]
		n := len(f.below)
		if f.stays {
			n = len(f.vars)
		}
		leaves[k] = n * n
		byNeed[k] = slices.Clone(f.children)
		slices.SortStableFunc(byNeed[k], func(a, b int32) int { return most[b] - leaves[b] - (most[a] - leaves[a]) })
		wait := 0
		for _, c := range byNeed[k] {
			most[k] = max(most[k], wait+most[c])
			wait += leaves[c]
		}
		most[k] = max(most[k], leaves[k])
	}
	var visit func(k int32)
	visit = func(k int32) {
		for _, c := range byNeed[k] {
			visit(c)
		}
		s.order = append(s.order, k)
	}
	for k, f := range s.fronts {
		if f.parent < 0 { // the border is the last; what it leaves stays
			visit(int32(k))
			s.stack = max(s.stack, most[k])
		}
	}
}

// Residual writes r = b − A·x, and the sum of the magnitudes that each row of it adds up.
func (s *Structure) Residual(values, x, b, r, magnitude []float64) {
	copy(r, b)
	for i, v := range b {
		magnitude[i] = math.Abs(v)
	}
	for e, a := range values {
		i, j := s.row[e], s.col[e]
		p := float64(a * x[j])
		r[i] -= p
		magnitude[i] += math.Abs(p)
		if i != j {
			q := float64(a * x[i])
			r[j] -= q
			magnitude[j] += math.Abs(q)
		}
	}
}

// Multiply writes y = A·x for the entries' values.
func (s *Structure) Multiply(values, x, y []float64) {
	clear(y)
	for e, a := range values {
		i, j := s.row[e], s.col[e]
		y[i] += float64(a * x[j])
		if i != j {
			y[j] += float64(a * x[i])
		}
	}
}
