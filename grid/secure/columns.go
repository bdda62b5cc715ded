package secure

import (
	"slices"

	"github.com/gpc-engine/gpc/grid/internal/elimination"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// columns writes the programs of a factorisation in lanes, one column of blocks after another in the order of
// elimination.
type columns struct {
	order           elimination.Order
	diagonal, pivot lanes.Col // of the eliminated nodes
	negative        lanes.Ref
	w, l            []lanes.Col              // of the same nodes, as order.Below
	offDiagonal     func(j, i int) lanes.Ref // the block of row j in the eliminated column i
	to, ws, ls      lanes.Col                // reused by update
}

// eliminate writes the elimination of all columns except the border's. It returns the columns with blocks in the
// border's rows.
func (c *columns) eliminate(b *lanes.Builder) (borderColumns []int) {
	eliminated := len(c.w)
	for k, below := range c.order.Below[:eliminated] {
		b.Pivot(c.diagonal[k], c.pivot[k], c.negative)
		if len(below) == 0 {
			continue
		}
		b.Scale(c.l[k], c.w[k], c.pivot[k:k+1])
		c.update(b, k, span{0, len(c.order.Below)}, span{0, eliminated}, c.interiorBlock)
		if below[len(below)-1] >= eliminated {
			borderColumns = append(borderColumns, k)
		}
	}
	return borderColumns
}

func (c *columns) interiorBlock(j, i int) lanes.Ref {
	if j == i {
		return c.diagonal[j]
	}
	return c.offDiagonal(j, i)
}

// The border's Schur complement is computed in tiles of tileNodes rows and columns of blocks. All tiles reuse the
// same cells, whose lanes are summed before the next tile. With a thousand set-points and eight lanes all blocks
// together would take 33 MB. Squares of squareNodes within a tile stay in the first-level cache while tileNodes
// columns are applied.
const tileNodes, squareNodes = 16, 4

// tile is a part of the border's Schur complement.
type tile struct {
	row, column int      // of its first block, in blocks of the border
	blocks      [][2]int // rows and columns within it of the blocks that are not zero
}

// tiles writes one program a tile. The blocks of a tile occupy tileNodes² blocks from the cell first on.
func (c *columns) tiles(borderColumns []int, cells *lanes.Layout, first lanes.Ref) (list []tile, programs []*lanes.Program) {
	eliminated, nodes := len(c.w), len(c.order.Below)
	for row := eliminated; row < nodes; row += tileNodes {
		for column := eliminated; column <= row; column += tileNodes {
			var touched [tileNodes][tileNodes]bool
			block := func(j, i int) lanes.Ref {
				touched[j-row][i-column] = true
				return blockOfTile(first, j-row, i-column)
			}
			b := lanes.NewBuilder(cells)
			for chunk := range slices.Chunk(borderColumns, tileNodes) {
				for y := row; y < row+tileNodes; y += squareNodes {
					for x := column; x < column+tileNodes && x <= y; x += squareNodes {
						for _, k := range chunk {
							c.update(b, k, span{y, y + squareNodes}, span{x, x + squareNodes}, block)
						}
					}
				}
			}
			t := tile{row: row - eliminated, column: column - eliminated}
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

// update subtracts the contribution of an eliminated column from the blocks in these rows and columns.
func (c *columns) update(b *lanes.Builder, k int, rows, columns span, block func(j, i int) lanes.Ref) {
	below, w, l := c.order.Below[k], c.w[k], c.l[k]
	x0, x1 := rows.locate(below)
	y0, y1 := columns.locate(below)
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

// span is the half-open range [s[0], s[1]).
type span [2]int

// locate returns the part of an ascending list that lies in the span.
func (s span) locate(list []int) (from, to int) {
	from, _ = slices.BinarySearch(list, s[0])
	to, _ = slices.BinarySearch(list, s[1])
	return from, to
}
