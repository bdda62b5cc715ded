// Package multifrontal factors sparse symmetric indefinite matrices A = LDLᵀ with pivots chosen by size. It serves
// the KKT matrices of an interior point for which a fixed order of elimination loses too many digits.
//
// The central type is Factor, which works on a Structure: an elimination order of blocks and its fill pattern. Each
// supernode is a dense front. Pivots of order one and two are taken inside it where they are stable. A variable
// without a stable pivot is delayed to the parent front (I. S. Duff, J. K. Reid, ACM Trans. Math. Software 9, 1983).
// The signs of the pivots are the matrix's inertia. No operation is fused, so that results are the same everywhere.
package multifrontal

import (
	"math"
	"slices"
)

// Structure is the part of a factorisation that does not depend on the values.
type Structure struct {
	n            int
	row          []int32 // of each entry, row ≥ column in the order of elimination
	col          []int32
	fronts       []front
	order        []int32 // of the fronts: children directly before their parent
	stack        int     // stack size in that order, without delayed variables
	border       int     // count of border variables, which are last
	largestFront int     // its size, without delayed variables
}

// front is a supernode.
type front struct {
	vars     []int32 // eliminated here unless delayed, ascending
	below    []int32 // other variables in their columns, ascending
	parent   int     // −1 for a root
	children []int32
	entries  []int32 // of the matrix, those with their column in vars
	border   bool    // vars are the border
}

const (
	// Merged fronts hold zeros, but save assembly and give pivots more partners. Fronts up to mergeSize are always
	// merged, larger ones up to a share of mergeShare zeros.
	mergeSize  = 32
	mergeShare = 0.3
)

// Analyse takes an elimination order of blocks, 0 to len(size)−1, of size[k] variables, which are numbered in that
// order. below lists the blocks below the diagonal of each block's column in the factor, ascending. row and col,
// which are kept, are the places of the matrix's entries, each place once, row ≥ col. Only the first inner variables
// of a block have entries in columns of earlier blocks.
func Analyse(size []int, inner int, below [][]int, row, col []int32) *Structure {
	return AnalyseBordered(size, slices.Repeat([]int{inner}, len(size)), below, 0, row, col)
}

// AnalyseBordered is Analyse with a number of inner variables for each block and a border: the last blocks, which
// are not eliminated and whose lists in below are not read. A factorisation leaves their Schur complement.
func AnalyseBordered(size, inner []int, below [][]int, border int, row, col []int32) *Structure {
	blocks := len(below)
	eliminated := blocks - border
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
	frontOf := make([]int, blocks) // the last block of a block's front
	for k := range blocks {
		if k >= eliminated { // the border is one front
			frontOf[k] = blocks - 1
			groups[blocks-1] = append(groups[blocks-1], k)
			continue
		}
		groups[k] = append(groups[k], k)
		frontOf[k] = k
		if len(below[k]) == 0 || below[k][0] >= eliminated {
			continue
		}
		p := below[k][0]
		blocksMerged, belowOwn, belowParent := len(groups[k]), len(below[k]), len(below[p])+1
		zeros := blocksMerged * (belowParent - belowOwn)
		total := (blocksMerged + 1) * (blocksMerged + belowParent)
		if zeros == 0 || inner[k]*(blocksMerged+belowParent) <= mergeSize || float64(zeros) <= mergeShare*float64(total) && blocksMerged < 8 && len(groups[p]) < 8 {
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
		f := front{parent: -1, border: k >= eliminated}
		for _, b := range groups[k] {
			frontOf[b] = k
			for v := start[b]; v < start[b+1]; v++ {
				f.vars = append(f.vars, v)
			}
		}
		if f.border {
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
		s.largestFront = max(s.largestFront, len(f.vars)+len(f.below))
	}
	for k := range blocks {
		if k < eliminated && groups[k] != nil && len(below[k]) > 0 {
			f, p := index[k], index[frontOf[below[k][0]]]
			s.fronts[f].parent = p
			s.fronts[p].children = append(s.fronts[p].children, int32(f))
		}
	}
	for e := range row {
		f := index[frontOf[blockOf[col[e]]]]
		s.fronts[f].entries = append(s.fronts[f].entries, int32(e))
	}
	s.traverse()
	return s
}

// traverse orders the fronts for a small stack: subtrees one after another, first those that need much more than
// they leave (J. W. H. Liu, ACM Trans. Math. Software 12, 1986).
func (s *Structure) traverse() {
	leaves, peak := make([]int, len(s.fronts)), make([]int, len(s.fronts))
	byNeed := make([][]int32, len(s.fronts))
	for k := range s.fronts { // children have smaller numbers
		f := &s.fronts[k]
		n := len(f.below)
		if f.border {
			n = len(f.vars)
		}
		leaves[k] = n * n
		byNeed[k] = slices.Clone(f.children)
		slices.SortStableFunc(byNeed[k], func(a, b int32) int { return peak[b] - leaves[b] - (peak[a] - leaves[a]) })
		wait := 0
		for _, c := range byNeed[k] {
			peak[k] = max(peak[k], wait+peak[c])
			wait += leaves[c]
		}
		peak[k] = max(peak[k], leaves[k])
	}
	var visit func(k int32)
	visit = func(k int32) {
		for _, c := range byNeed[k] {
			visit(c)
		}
		s.order = append(s.order, k)
	}
	for k, f := range s.fronts {
		if f.parent < 0 { // the border is last; its contribution stays
			visit(int32(k))
			s.stack = max(s.stack, peak[k])
		}
	}
}

// Residual writes r = b − A·x and the sum of magnitudes in each row.
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
