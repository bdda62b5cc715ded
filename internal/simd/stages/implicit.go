package stages

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// Radau IIA of two stages and order 3: nodes 1/3 and 1 (Hairer and Wanner, Solving Ordinary Differential Equations II, table
// IV.5.5). Its second stage is the result.
var radau = [2][2]float64{{5. / 12, -1. / 12}, {3. / 4, 1. / 4}}

// Newton's method ends where a step is newtonTolerance of 1 + |stage|, of which the square is rounding, or after newtonRounds.
const (
	newtonTolerance = 1e-9
	newtonRounds    = 40
)

// collocation is a substep's: its stages, their matrix I − h(A ⊗ ∂f) there, and the directions of the stages.
type collocation struct {
	stages     lanes.Col // both, one after the other
	matrix     []lanes.Col
	rows       []lanes.Ref
	directions [2][]direction // of the stages with c and u
}

// collocate writes implicit steps. The stages are solved for by Newton's method; each lane ends it by itself. Their directions follow by the
// implicit function theorem, and so do the multipliers of their equations, with which the second derivatives of the ode count.
func (x *maker) collocate(y System, block *block, first, second *shared) []part {
	n := x.sizes
	h := y.Span / float64(y.Substeps)
	steps := make([]*collocation, y.Substeps)
	start, startDirections := block.s, block.inputs[:n.S]
	for k := range steps {
		steps[k] = x.newton(block, first, start, h)
		start = steps[k].stages[n.S:]
		if !x.plain {
			x.directStages(block, first, steps[k], startDirections, h)
			startDirections = steps[k].directions[1][:n.S]
		}
	}
	x.run(x.glue(func(b *lanes.Builder) {
		b.Copy(block.next, start)
		for i, r := range block.nextBy {
			if !x.plain {
				b.RowSet(r, x.constants.Of(1), startDirections[i].row, n.N)
			}
		}
	}))
	if x.forwardOnly() {
		return nil
	}
	var back []part
	for k, step := range slices.Backward(steps) {
		back = append(back, x.backThrough(block, step, second, h, k == 0)...)
	}
	return back
}

// newton writes the solution of a substep's equations from the state at its beginning.
func (x *maker) newton(block *block, first *shared, start lanes.Col, h float64) *collocation {
	s, m := x.sizes.S, 2*x.sizes.S
	step := &collocation{stages: x.layout.New(m)}
	for range m {
		step.matrix = append(step.matrix, x.layout.New(m))
	}
	r, active, size := x.layout.New(m), x.layout.New(1), x.layout.New(1)
	value := func(v float64) lanes.Col { return lanes.Col{x.constants.Of(v)} }
	x.run(x.glue(func(b *lanes.Builder) {
		copyCells(b, first.in[s:], slices.Concat(block.c, block.u))
		b.Copy(step.stages[:s], start)
		b.Copy(step.stages[s:], start)
		b.Copy(active, value(1))
	}))
	evaluate := x.evaluate(first, step, h, func(b *lanes.Builder, j int) {
		if j == 0 {
			b.SetSub(r[:s], start, step.stages[:s])
			b.SetSub(r[s:], start, step.stages[s:])
		}
		for i := range 2 {
			b.SetFMA(r[i*s:(i+1)*s], first.out[:s], value(h*radau[i][j]), r[i*s:(i+1)*s])
		}
	})
	right := make([]lanes.Col, m)
	for i := range right {
		right[i] = r[i : i+1]
	}
	round := slices.Concat(parts(evaluate...), x.solve(step.matrix, right))
	x.linear = append(x.linear, part{repeat: append(round, part{program: x.glue(func(b *lanes.Builder) {
		updated := b.Add(step.stages, r)
		ratio := b.Div(b.Abs(r), b.Add(value(1), b.Abs(updated)))
		largest := ratio[:1]
		for i := range m {
			largest = b.Maximum(largest, ratio[i:i+1])
		}
		b.SetChoose(step.stages, active, updated, step.stages)
		b.SetChoose(size, active, largest, size)
		b.SetChoose(active, active, b.Less(value(newtonTolerance), largest), value(0))
	})}), while: active[0], most: newtonRounds})
	x.run(x.glue(func(b *lanes.Builder) {
		b.SetChoose(step.stages, b.AtMost(size, value(newtonTolerance)), step.stages, value(math.NaN()))
	}))
	return step
}

// evaluate writes the ode at both stages, their matrix, and what else is wanted there.
func (x *maker) evaluate(first *shared, step *collocation, h float64, extra func(b *lanes.Builder, stage int)) (programs []int) {
	s := x.sizes.S
	for j := range 2 {
		programs = append(programs, x.glue(func(b *lanes.Builder) {
			b.Copy(first.in[:s], step.stages[j*s:(j+1)*s])
		}), first.program, x.glue(func(b *lanes.Builder) {
			for i := range 2 {
				for r := range s {
					b.Copy(step.matrix[i*s+r][j*s:(j+1)*s], lanes.Col{x.constants.Of(0)})
				}
				if i == j {
					for r := range s {
						b.Copy(step.matrix[i*s+r][j*s+r:j*s+r+1], lanes.Col{x.constants.Of(1)})
					}
				}
				for _, e := range first.matrix {
					if e.col < s {
						dst := step.matrix[i*s+e.row][j*s+e.col : j*s+e.col+1]
						b.SetFMA(dst, lanes.Col{e.cell}, lanes.Col{x.constants.Of(-h * radau[i][j])}, dst)
					}
				}
			}
			extra(b, j)
		}))
	}
	return programs
}

// worstFactor is the largest sum of the factors of an elimination without pivoting whose result is taken: rounding grows by no more.
const worstFactor = 1e3

// solve writes matrix·X = right, X in the place of right, for every lane by itself. Both are rows of cells, those of the matrix are
// lost. A lane whose pivots are too small in the order of the rows is solved again with partial pivoting.
func (x *maker) solve(matrix, right []lanes.Col) []part {
	copies := func(rows []lanes.Col) (copied []lanes.Col) {
		for _, r := range rows {
			copied = append(copied, x.layout.New(len(r)))
		}
		return copied
	}
	matrixCopy, rightCopy, bad := copies(matrix), copies(right), x.layout.New(1)
	quick := x.glue(func(b *lanes.Builder) {
		for i := range matrix {
			copyCells(b, matrixCopy[i], matrix[i])
			copyCells(b, rightCopy[i], right[i])
		}
		b.Copy(bad, lanes.Col{x.constants.Of(0)})
		x.eliminate(b, matrix, right, false, bad)
		fine := b.AtMost(bad, lanes.Col{x.constants.Of(worstFactor)})
		b.SetChoose(bad, fine, lanes.Col{x.constants.Of(0)}, lanes.Col{x.constants.Of(1)})
	})
	pivoted := x.glue(func(b *lanes.Builder) {
		x.eliminate(b, matrixCopy, rightCopy, true, nil)
		for i, r := range right {
			if len(r) > 0 {
				b.SetChoose(r, bad, rightCopy[i], r)
			}
		}
		b.Copy(bad, lanes.Col{x.constants.Of(0)})
	})
	return []part{{program: quick}, {repeat: []part{{program: pivoted}}, while: bad[0], most: 1}}
}

// eliminate is Gauss's elimination in place, with partial pivoting or adding up the sizes of its factors. Equal operations stand behind one
// another.
func (x *maker) eliminate(b *lanes.Builder, matrix, right []lanes.Col, pivoting bool, factors lanes.Col) {
	m := len(matrix)
	inverses := make([]lanes.Col, m)
	subtract := func(row lanes.Col, factor lanes.Col, pivotRow lanes.Col) {
		if len(row) > 0 {
			b.SetFNMA(row, factor, pivotRow, row)
		}
	}
	for k := range m {
		if pivoting {
			x.pivot(b, matrix, right, k)
		}
		inverses[k] = b.Div(lanes.Col{x.constants.Of(1)}, matrix[k][k:k+1])
		column := make(lanes.Col, m-k-1)
		for i := range column {
			column[i] = matrix[k+1+i][k]
		}
		if len(column) == 0 {
			continue
		}
		ratios := b.Mul(column, inverses[k])
		if !pivoting {
			b.AbsSum(factors, ratios)
		}
		for i := range column {
			subtract(matrix[k+1+i][k+1:], ratios[i:i+1], matrix[k][k+1:])
			subtract(right[k+1+i], ratios[i:i+1], right[k])
		}
	}
	for k, inverse := range inverses {
		if len(right[k]) > 0 {
			b.SetMul(right[k], right[k], inverse)
		}
		if k+1 < m {
			b.SetMul(matrix[k][k+1:], matrix[k][k+1:], inverse)
		}
	}
	for k := m - 1; k > 0; k-- {
		for i := range k {
			subtract(right[i], matrix[i][k:k+1], right[k])
		}
	}
}

// pivot brings the row with the largest entry in column k of those from k on to its place.
func (x *maker) pivot(b *lanes.Builder, matrix, right []lanes.Col, k int) {
	for i := k + 1; i < len(matrix); i++ {
		larger := b.Less(b.Abs(matrix[k][k:k+1]), b.Abs(matrix[i][k:k+1]))
		for _, rows := range [2][2]lanes.Col{{matrix[k][k:], matrix[i][k:]}, {right[k], right[i]}} {
			if len(rows[0]) > 0 {
				swapped := b.Choose(larger, rows[1], rows[0])
				b.SetChoose(rows[1], larger, rows[0], rows[1])
				b.Copy(rows[0], swapped)
			}
		}
	}
}

// cells are those of a row.
func cells(first lanes.Ref, n int) lanes.Col {
	c := make(lanes.Col, n)
	for i := range c {
		c[i] = first + lanes.Ref(i)
	}
	return c
}

// directStages writes the matrix at the solution and the directions of the stages.
func (x *maker) directStages(block *block, first *shared, step *collocation, start []direction, h float64) {
	n := x.sizes
	s, m := n.S, 2*n.S
	step.rows = x.rows(m)
	scratch := x.rows(s)
	// The inputs that are held through the step: the states of a stage are solved for.
	inputs := slices.Concat(slices.Repeat([]direction{{constant: true}}, s), block.inputs[s:])
	x.run(x.evaluate(first, step, h, func(b *lanes.Builder, j int) {
		if j == 0 {
			for i := range m {
				x.combine(b, step.rows[i], []term{{x.constants.Of(1), start[i%s]}})
			}
		}
		products := x.product(b, scratch, first.matrix, inputs)
		for i := range m {
			b.Row(step.rows[i], x.constants.Of(h*radau[i/s][j]), products[i%s], n.N)
		}
	})...)
	copied := make([]lanes.Col, m) // the matrix is needed on the way back
	for i := range copied {
		copied[i] = x.layout.New(m)
	}
	right := make([]lanes.Col, m)
	for i, r := range step.rows {
		right[i] = cells(r, n.N)
	}
	x.run(x.glue(func(b *lanes.Builder) {
		for i := range m {
			b.Copy(copied[i], step.matrix[i])
		}
	}))
	x.linear = append(x.linear, x.solve(copied, right)...)
	for j := range 2 {
		for _, r := range step.rows[j*s : (j+1)*s] {
			step.directions[j] = append(step.directions[j], direction{row: r})
		}
		step.directions[j] = append(step.directions[j], block.inputs[s:]...)
	}
}

// backThrough writes the way back through a substep: at.toNext, the adjoint of the state after it, becomes that of the state before
// it, which the first one adds to the adjoints of the block's inputs.
func (x *maker) backThrough(block *block, step *collocation, second *shared, h float64, begins bool) (back []part) {
	n := x.sizes
	s, m := n.S, 2*n.S
	multipliers := x.layout.New(m)
	transposed := make([]lanes.Col, m)
	for i := range transposed {
		transposed[i] = x.layout.New(m)
	}
	right := make([]lanes.Col, m)
	for i := range right {
		right[i] = multipliers[i : i+1]
	}
	back = append(back, part{program: x.glue(func(b *lanes.Builder) {
		for i := range m {
			for k := range m {
				b.Copy(transposed[i][k:k+1], step.matrix[k][i:i+1])
			}
		}
		b.Copy(multipliers[:s], lanes.Col{x.constants.Of(0)})
		b.Copy(multipliers[s:], block.toNext)
	})})
	back = append(append(back, x.solve(transposed, right)...), part{program: x.glue(func(b *lanes.Builder) {
		b.SetAdd(block.toNext, multipliers[:s], multipliers[s:])
		if begins {
			b.SetAdd(block.toIn[:s], block.toIn[:s], block.toNext)
		}
	})})
	weights := second.in[s+n.C+n.U:]
	for j := range 2 {
		back = append(back, parts(x.glue(func(b *lanes.Builder) {
			copyCells(b, second.in[:s+n.C+n.U], slices.Concat(step.stages[j*s:(j+1)*s], block.c, block.u))
			b.SetMul(weights, multipliers[:s], lanes.Col{x.constants.Of(h * radau[0][j])})
			b.SetFMA(weights, multipliers[s:], lanes.Col{x.constants.Of(h * radau[1][j])}, weights)
		}), second.program, x.glue(func(b *lanes.Builder) {
			x.curve(b, second.matrix, step.directions[j])
			second.addGradient(b, block.toIn[s:], s)
		}))...)
	}
	return back
}
