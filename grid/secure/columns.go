package secure

import (
	"slices"

	"github.com/gpc-engine/gpc/grid/internal/elimination"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// columns write the programs of a factorisation in lanes, column by column of blocks in the order of their elimination.
type columns struct {
	order           elimination.Order
	diagonal, pivot lanes.Col // of those that are eliminated
	negative        lanes.Ref
	w, l            []lanes.Col              // of these, as order.Below
	off             func(j, i int) lanes.Ref // the block of row j in column i, which is eliminated
	to, ws, ls      lanes.Col                // memory of an update
}

// eliminate writes the elimination of all columns but the border's, and returns those that meet the border.
func (c *columns) eliminate(b *lanes.Builder) (across []int) {
	inside := len(c.w)
	for k, below := range c.order.Below[:inside] {
		b.Pivot(c.diagonal[k], c.pivot[k], c.negative)
		if len(below) == 0 {
			continue
		}
		b.Scale(c.l[k], c.w[k], c.pivot[k:k+1])
		c.update(b, k, span{0, len(c.order.Below)}, span{0, inside}, c.inside)
		if below[len(below)-1] >= inside {
			across = append(across, k)
		}
	}
	return across
}

func (c *columns) inside(j, i int) lanes.Ref {
	if j == i {
		return c.diagonal[j]
	}
	return c.off(j, i)
}

// The border's Schur complement is found in tiles of tileNodes rows and columns of blocks. All have the same cells in turn, which
// are added up over the lanes before the next: with a thousand set-points and eight lanes all blocks would be 33 MB. Within a
// tile, squares of squareNodes stay in the nearest cache, for tileNodes eliminated columns after one another.
const tileNodes, squareNodes = 16, 4

// tile is a part of the border's Schur complement.
type tile struct {
	row, column int      // of its first block, from the border's first on
	blocks      [][2]int // rows and columns in it of those that are not zero
}

// tiles writes a program for each tile, whose blocks stand at a cell from which on there are tileNodes².
func (c *columns) tiles(across []int, cells *lanes.Layout, first lanes.Ref) (list []tile, programs []*lanes.Program) {
	inside, nodes := len(c.w), len(c.order.Below)
	for row := inside; row < nodes; row += tileNodes {
		for column := inside; column <= row; column += tileNodes {
			var touched [tileNodes][tileNodes]bool
			block := func(j, i int) lanes.Ref {
				touched[j-row][i-column] = true
				return blockOfTile(first, j-row, i-column)
			}
			b := lanes.NewBuilder(cells)
			for some := range slices.Chunk(across, tileNodes) {
				for y := row; y < row+tileNodes; y += squareNodes {
					for x := column; x < column+tileNodes && x <= y; x += squareNodes {
						for _, k := range some {
							c.update(b, k, span{y, y + squareNodes}, span{x, x + squareNodes}, block)
						}
					}
				}
			}
			t := tile{row: row - inside, column: column - inside}
			for y := range tileNodes {
				for x := range tileNodes {
					if touched[y][x] {
						t.blocks = append(t.blocks, [2]int{y, x})
					}
				}
			}
			list, programs = append(list, t), append(programs, b.Program())
		}
	}
	return list, programs
}

// blockOfTile is the first cell of a block of a tile.
func blockOfTile(first lanes.Ref, row, column int) lanes.Ref {
	return first + lanes.Ref(lanes.BlockCells*(tileNodes*row+column))
}

// update takes from the blocks in spans of rows and columns what an eliminated column changes.
func (c *columns) update(b *lanes.Builder, k int, rows, columns span, block func(j, i int) lanes.Ref) {
	below, w, l := c.order.Below[k], c.w[k], c.l[k]
	x0, x1 := rows.in(below)
	y0, y1 := columns.in(below)
	to, ws, ls := c.to[:0], c.ws[:0], c.ls[:0]
	if d0, d1 := max(x0, y0), min(x1, y1); d0 < d1 {
		for _, j := range below[d0:d1] {
			to = append(to, block(j, j))
		}
		b.Symmetric(to, w[d0:d1], l[d0:d1])
	}
	to = to[:0]
	for x := x0; x < x1; x++ {
		for y := y0; y < min(x, y1); y++ {
			to, ws, ls = append(to, block(below[x], below[y])), append(ws, w[x]), append(ls, l[y])
		}
	}
	if len(to) > 0 {
		b.Product(to, ws, ls)
	}
	c.to, c.ws, c.ls = to, ws, ls
}

// span are numbers from one on that are less than another.
type span [2]int

// in is where an ascending list has the span's numbers.
func (s span) in(list []int) (from, to int) {
	from, _ = slices.BinarySearch(list, s[0])
	to, _ = slices.BinarySearch(list, s[1])
	return from, to
}
