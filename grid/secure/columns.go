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
	position, place []int       // by variable: of its node in that order, and its own in the node's block
	diagonal, pivot lanes.Col   // of the eliminated nodes
	w, l            []lanes.Col // of the same nodes, as order.Below
	to, ws, ls      lanes.Col   // reused by update
}

// newColumns orders nodes such that their elimination adds few blocks. The last of the eliminated ones and the border stay last.
func newColumns(l *layout, list [][]int, eliminated int) *columns {
	node, place := make([]int, l.variables), make([]int, l.variables)
	for k, variables := range list {
		for i, v := range variables {
			if v >= 0 {
				node[v], place[v] = k, i
			}
		}
	}
	var edges [][2]int
	for e, i := range l.row {
		edges = append(edges, [2]int{node[i], node[l.col[e]]})
	}
	var end []int
	for k := eliminated - 1; k < len(list); k++ {
		end = append(end, k)
	}
	c := &columns{order: elimination.MinimumDegree(len(list), edges, end), position: make([]int, l.variables), place: place}
	for v, k := range node {
		c.position[v] = c.order.Position[k]
	}
	return c
}

// allocate gives every block its cells.
func (c *columns) allocate(places *lanes.Layout, eliminated int) {
	c.diagonal, c.pivot = places.Blocks(eliminated), places.Blocks(eliminated)
	for _, below := range c.order.Below[:eliminated] { // blocks of a column are contiguous
		c.w, c.l = append(c.w, places.Blocks(len(below))), append(c.l, places.Blocks(len(below)))
	}
}

// cell is that of the matrix's entry of two variables.
func (c *columns) cell(i, j int) lanes.Ref {
	if c.position[i] < c.position[j] {
		i, j = j, i
	}
	row, column := c.place[i], c.place[j]
	if c.position[i] == c.position[j] {
		row, column = max(row, column), min(row, column)
	}
	return c.block(c.position[i], c.position[j]) + lanes.Ref(4*row+column)
}

// eliminate writes the elimination of all columns except the border's. It returns the columns with blocks in the
// border's rows.
func (c *columns) eliminate(b *lanes.Builder, negative lanes.Ref) (borderColumns []int) {
	eliminated := len(c.w)
	for k, below := range c.order.Below[:eliminated] {
		b.Pivot(c.diagonal[k], c.pivot[k], negative)
		if len(below) == 0 {
			continue
		}
		b.Scale(c.l[k], c.w[k], c.pivot[k:k+1])
		c.update(b, k, span{0, len(c.order.Below)}, span{0, eliminated}, c.block)
		if below[len(below)-1] >= eliminated {
			borderColumns = append(borderColumns, k)
		}
	}
	return borderColumns
}

// block is that of row j in the eliminated column i.
func (c *columns) block(j, i int) lanes.Ref {
	if j == i {
		return c.diagonal[j]
	}
	k, _ := slices.BinarySearch(c.order.Below[i], j)
	return c.w[i][k]
}

// substitute writes the solves with the lower factor, and with the diagonal and the upper one.
func (c *columns) substitute(forward, backward *lanes.Builder, rhs, solution lanes.Col) {
	blocks := func(vector lanes.Col, indices ...int) (out lanes.Col) {
		for _, k := range indices {
			out = append(out, vector[4*k])
		}
		return out
	}
	for k, l := range c.l {
		forward.Lower(rhs[4*k], c.pivot[k], solution[4*k])
		if len(l) > 0 {
			forward.Forward(blocks(rhs, c.order.Below[k]...), l, blocks(rhs, k))
		}
	}
	for k, l := range slices.Backward(c.l) {
		if len(l) > 0 {
			backward.Backward(blocks(solution, k), l, blocks(solution, c.order.Below[k]...))
		}
		backward.Upper(solution[4*k], c.pivot[k])
	}
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
