// Package gorgoniagrad lets a problem state its objectives once, as a Gorgonia
// expression graph, and get their gradients from it: the alternative to writing
// Objectives and Gradient of domain.Problem by hand.
//
// The central type is Graph. Embed a *Graph in a problem and two of its
// methods are done, Objectives and Gradient; Derivatives goes into its abilities. An
// operation of Gorgonia costs some tenths of a microsecond whatever it computes,
// so the graph is built for a few fixed numbers of rows, every variable being a
// vector with one entry per row, and one run serves a whole block of points.
// Where no gradient is wanted, a graph of the objectives alone runs.
package gorgoniagrad

import (
	"fmt"
	"slices"
	"sync"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/gpc-engine/gpc/domain"
)

// widths are the rows of the compiled graphs, ascending: one for a single point,
// then blocks, the widest still small enough for its vectors to stay in cache. A
// block of another size runs in the next larger graph.
var widths = [...]int{1, 64, 512}

// Variables are the inputs of an expression. Every node is a float64 vector
// with one entry per row; combine them with elementwise operations only, so that
// no row depends on another.
type Variables struct {
	graph   *gorgonia.ExprGraph
	rows    int
	s, u, c []*gorgonia.Node
}

// S, U and C are component i of the state, the action and the context.
func (v *Variables) S(i int) *gorgonia.Node { return v.s[i] }
func (v *Variables) U(i int) *gorgonia.Node { return v.u[i] }
func (v *Variables) C(i int) *gorgonia.Node { return v.c[i] }

// Constant is the same number in every row.
func (v *Variables) Constant(x float64) *gorgonia.Node {
	return gorgonia.NewConstant(tensor.New(tensor.WithShape(v.rows), tensor.WithBacking(slices.Repeat([]float64{x}, v.rows))), gorgonia.In(v.graph))
}

// Expression builds the objectives J from the variables: one node per
// objective, in the order of Spec.Objectives.
type Expression func(v *Variables) ([]*gorgonia.Node, error)

// Graph evaluates an expression and its gradients. It is safe for concurrent
// use.
type Graph struct {
	ns, nu, nc, m    int
	values, gradient [len(widths)]sync.Pool // of *program
}

// New compiles the expression for a problem of the given Spec. It fails when
// the expression does, when it gives another number of objectives than the
// Spec, or when an objective is not one number per row.
func New(spec *domain.Spec, e Expression) (*Graph, error) {
	o := &Graph{ns: spec.MeasuredSize(), nu: spec.ActionSize(), nc: spec.ContextSize(), m: spec.ObjectiveSize()}
	for i, rows := range widths {
		for pool, gradient := range map[*sync.Pool]bool{&o.values[i]: false, &o.gradient[i]: true} {
			first, err := o.compile(e, rows, gradient)
			if err != nil {
				return nil, fmt.Errorf("gorgoniagrad: case %s: %w", spec.Name, err)
			}
			pool.Put(first)
			pool.New = func() any {
				p, err := o.compile(e, rows, gradient)
				if err != nil {
					panic(fmt.Sprintf("gorgoniagrad: an expression that compiled before failed: %v", err))
				}
				return p
			}
		}
	}
	return o, nil
}

// program is one compiled graph with the memory of its inputs, one column of
// rows each. It is used by one goroutine at a time.
type program struct {
	rows            int
	tape            *tape
	s, u, c, weight [][]float64
	objective       []int // registers of the tape
	gs, gu          []int // of zero where the objectives do not depend on the variable
	zero            []float64
}

// zero stands for the register of a gradient that is zero everywhere.
const zero = -1

func vector(rows int) (v *tensor.Dense, data []float64) {
	data = make([]float64, rows)
	return tensor.New(tensor.WithShape(rows), tensor.WithBacking(data)), data
}

func (o *Graph) compile(e Expression, rows int, gradient bool) (*program, error) {
	g := gorgonia.NewGraph()
	p := &program{rows: rows}
	input := func(name string, n int) (nodes []*gorgonia.Node, columns [][]float64) {
		for i := range n {
			v, data := vector(rows)
			nodes = append(nodes, gorgonia.NewVector(g, tensor.Float64, gorgonia.WithShape(rows), gorgonia.WithName(fmt.Sprintf("%s%d", name, i)), gorgonia.WithValue(v)))
			columns = append(columns, data)
		}
		return nodes, columns
	}
	v := &Variables{graph: g, rows: rows}
	v.s, p.s = input("s", o.ns)
	v.u, p.u = input("u", o.nu)
	v.c, p.c = input("c", o.nc)
	objective, err := e(v)
	if err != nil {
		return nil, err
	}
	if len(objective) != o.m {
		return nil, fmt.Errorf("the expression gives %d objectives, the Spec names %d", len(objective), o.m)
	}
	for i, n := range objective {
		if n == nil || n.Graph() != g || !n.Shape().Eq(tensor.Shape{rows}) {
			return nil, fmt.Errorf("objective %d is %v, want a vector with one entry per row of the variables' graph", i+1, n)
		}
	}
	variables := slices.Concat(v.s, v.u, v.c)
	wanted, place := objective, make([]int, o.ns+o.nu)
	if gradient {
		var weights, gradients []*gorgonia.Node
		weights, p.weight = input("w", o.m)
		variables = append(variables, weights...)
		if gradients, place, err = differentiate(g, objective, weights, slices.Concat(v.s, v.u)); err != nil {
			return nil, err
		}
		wanted = append(slices.Clone(objective), gradients...)
	}
	var registers []int
	if p.tape, registers, err = newTape(g, variables, wanted, rows); err != nil {
		return nil, err
	}
	p.objective = registers[:o.m]
	if gradient {
		p.zero = make([]float64, rows)
		for i, at := range place {
			if at != zero {
				place[i] = registers[o.m+at]
			}
		}
		p.gs, p.gu = place[:o.ns], place[o.ns:]
	}
	return p, nil
}

// differentiate adds the gradients of the weighted sum of the objectives to the
// graph. It returns them, and for each variable the place of its gradient among
// them, or zero.
func differentiate(g *gorgonia.ExprGraph, objective, weights, variables []*gorgonia.Node) (gradients []*gorgonia.Node, place []int, err error) {
	// Rows are independent, so the gradient of the sum over rows holds each row's
	// own gradient.
	var total *gorgonia.Node
	for i, n := range objective {
		term, err := gorgonia.HadamardProd(weights[i], n)
		if err == nil && total != nil {
			term, err = gorgonia.Add(total, term)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("objective %d: %w", i+1, err)
		}
		total = term
	}
	sum, err := gorgonia.Sum(total)
	if err != nil {
		return nil, nil, err
	}
	// Gorgonia refuses to differentiate by a variable that the sum does not
	// depend on.
	used := map[int64]bool{}
	var walk func(id int64)
	walk = func(id int64) {
		if used[id] {
			return
		}
		used[id] = true
		for next := g.From(id); next.Next(); {
			walk(next.Node().ID())
		}
	}
	walk(sum.ID())
	var wanted []*gorgonia.Node
	for _, n := range variables {
		if !used[n.ID()] {
			place = append(place, zero)
			continue
		}
		place = append(place, len(wanted))
		wanted = append(wanted, n)
	}
	if len(wanted) == 0 {
		return nil, place, nil
	}
	if gradients, err = gorgonia.Grad(sum, wanted...); err != nil {
		return nil, nil, fmt.Errorf("differentiating: %w", err)
	}
	return gradients, place, nil
}

// array is a row-major matrix of a caller, its rows stride elements apart; no
// data: not wanted.
type array[F float32 | float64] struct {
	data   []F
	stride int
}

// load copies n rows from row from on into the columns, and fills what is left
// of each with its first row.
func load[F float32 | float64](dst [][]float64, src array[F], from, n int) {
	for i, column := range dst {
		at := from*src.stride + i
		for r := range n {
			column[r] = float64(src.data[at])
			at += src.stride
		}
		for r := n; r < len(column); r++ {
			column[r] = column[0]
		}
	}
}

// store copies n rows of the registers' columns to row from on.
func store[F float32 | float64](dst array[F], p *program, registers []int, from, n int) {
	if dst.data == nil {
		return
	}
	for i, register := range registers {
		column := p.zero
		if register != zero {
			column = p.tape.column(register)
		}
		at := from*dst.stride + i
		for _, v := range column[:n] {
			dst.data[at] = F(v)
			at += dst.stride
		}
	}
}

// evaluate runs all rows through the graphs; the objectives alone where gs and
// gu are not wanted.
func evaluate[F float32 | float64](o *Graph, rows int, s, u, c, sigma, J, gs, gu array[F]) {
	pools, gradient := &o.values, gs.data != nil || gu.data != nil
	if gradient {
		pools = &o.gradient
	}
	for from := 0; from < rows; {
		kind := 0
		for kind < len(widths)-1 && widths[kind] < rows-from {
			kind++
		}
		n := min(widths[kind], rows-from)
		p := pools[kind].Get().(*program)
		load(p.s, s, from, n)
		load(p.u, u, from, n)
		load(p.c, c, from, n)
		if gradient {
			load(p.weight, sigma, from, n)
		}
		if err := p.tape.run(); err != nil {
			panic(fmt.Sprintf("gorgoniagrad: running a compiled expression: %v", err))
		}
		store(J, p, p.objective, from, n)
		store(gs, p, p.gs, from, n)
		store(gu, p, p.gu, from, n)
		pools[kind].Put(p)
		from += n
	}
}

// Objectives writes J(s, u; c); see domain.Problem.
func (o *Graph) Objectives(s, u, c, J []float64) {
	o.GradientBlock(domain.Block{Rows: 1, S: s, U: u, C: c, J: J})
}

// Gradient writes ∂(σᵀJ)/∂s and ∂(σᵀJ)/∂u; see domain.Problem.
func (o *Graph) Gradient(s, u, c, sigma, gs, gu []float64) {
	o.GradientBlock(domain.Block{Rows: 1, S: s, U: u, C: c, Sigma: sigma, GS: gs, GU: gu})
}

// Derivatives are of ProblemAbilities of a problem with the graph.
func (o *Graph) Derivatives() domain.Derivatives {
	return domain.Derivatives{Rows: o.GradientBatch, Block: o.GradientBlock}
}

// GradientBlock evaluates many float64 points; see domain.Derivatives.Block.
func (o *Graph) GradientBlock(b domain.Block) {
	at := func(data []float64, width int) array[float64] { return array[float64]{data, width} }
	evaluate(o, b.Rows, at(b.S, o.ns), at(b.U, o.nu), at(b.C, o.nc), at(b.Sigma, o.m), at(b.J, o.m), at(b.GS, o.ns), at(b.GU, o.nu))
}

// GradientBatch evaluates a float32 batch; see domain.Derivatives.Rows.
func (o *Graph) GradientBatch(b domain.Batch) {
	at := func(data []float32, stride int) array[float32] { return array[float32]{data, stride} }
	evaluate(o, b.Rows, at(b.S, b.SStride), at(b.U, b.UStride), at(b.C, b.CStride), at(b.Sigma, b.SigmaStride), at(b.J, b.JStride), at(b.GS, b.GSStride), at(b.GU, b.GUStride))
}
