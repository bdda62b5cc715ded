package secure

import (
	"slices"

	"github.com/gpc-engine/gpc/grid/internal/elimination"
	"github.com/gpc-engine/gpc/internal/lanes"
)

// columns write the program of a factorisation in lanes, column by column of blocks in the order of their elimination.
type columns struct {
	order           elimination.Order
	factor          *lanes.Builder
	diagonal, pivot lanes.Col
	negative        lanes.Ref
	w, l            []lanes.Col              // of those that are eliminated, as order.Below
	off             func(j, i int) lanes.Ref // the block of row j in column i
}

// tileNodes are the rows and columns of a tile: with eight lanes its blocks take 256 kB.
const tileNodes = 16

// write eliminates the columns in passes, the first of so many, the others of tileNodes. Blocks that are eliminated in a
// later pass, or never, wait for all columns of a pass. These then go over the blocks tile by tile: with a thousand
// set-points the blocks are more than a cache holds. The order in which a block is changed is that of the columns.
func (c *columns) write(first int) {
	inside, nodes := len(c.w), len(c.order.Below)
	for from, to := 0, first; from < inside; from, to = to, min(to+tileNodes, inside) {
		var across []int // columns that go beyond the pass
		for k := from; k < to; k++ {
			below := c.order.Below[k]
			c.factor.Pivot(c.diagonal[k], c.pivot[k], c.negative)
			if len(below) == 0 {
				continue
			}
			c.factor.Scale(c.l[k], c.w[k], c.pivot[k:k+1])
			c.update(k, span{from, nodes}, span{from, to}, c.off)
			if below[len(below)-1] >= to {
				across = append(across, k)
			}
		}
		for row := to; row < nodes; row += tileNodes {
			for column := to; column <= row; column += tileNodes {
				c.tile(across, row, column)
			}
		}
	}
}

// tile changes the blocks of a tile, which begins at a row and a column.
func (c *columns) tile(across []int, row, column int) {
	var known [tileNodes][tileNodes]lanes.Ref
	off := func(j, i int) lanes.Ref {
		block := &known[j-row][i-column]
		if *block == 0 {
			*block = c.off(j, i)
		}
		return *block
	}
	for _, k := range across {
		c.update(k, span{row, row + tileNodes}, span{column, column + tileNodes}, off)
	}
}

// update takes from the blocks in spans of rows and columns what an eliminated column changes.
func (c *columns) update(k int, rows, columns span, off func(j, i int) lanes.Ref) {
	below, w, l := c.order.Below[k], c.w[k], c.l[k]
	x0, x1 := rows.in(below)
	y0, y1 := columns.in(below)
	if d0, d1 := max(x0, y0), min(x1, y1); d0 < d1 {
		c.factor.Symmetric(c.diagonal.At(below[d0:d1]), w[d0:d1], l[d0:d1])
	}
	var to, ws, ls lanes.Col
	for x := x0; x < x1; x++ {
		for y := y0; y < min(x, y1); y++ {
			to, ws, ls = append(to, off(below[x], below[y])), append(ws, w[x]), append(ls, l[y])
		}
	}
	if len(to) > 0 {
		c.factor.Product(to, ws, ls)
	}
}

// span are numbers from one on that are less than another.
type span [2]int

// in is where an ascending list has the span's numbers.
func (s span) in(list []int) (from, to int) {
	from, _ = slices.BinarySearch(list, s[0])
	to, _ = slices.BinarySearch(list, s[1])
	return from, to
}
