// Package gorgoniagrad lets a problem state its objectives once, as a Gorgonia
// expression graph, and get their gradients from it: the alternative to writing
// Objectives and Gradient of domain.Problem by hand.
//
// The central type is Graph. Embed a *Graph in a problem and three of
// its methods are done: Objectives, Gradient and GradientBatch. The graph is
// built for a fixed number of rows, every variable being a vector with one entry
// per row, so one run of Gorgonia's tape machine serves a whole block of latents.
package gorgoniagrad

import (
	"fmt"
	"sync"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/gpc-engine/gpc/domain"
)

// blockRows is the number of rows of the batched graph: large enough that the
// tape machine's cost per instruction is spread, small enough to stay in cache.
const blockRows = 64

// Variables are the inputs of an expression. Every node is a float64 vector
// with one entry per row; combine them with elementwise operations only.
type Variables struct {
	rows    int
	s, u, c []*gorgonia.Node
}

// S, U and C are component i of the state, the action and the context.
func (v *Variables) S(i int) *gorgonia.Node { return v.s[i] }
func (v *Variables) U(i int) *gorgonia.Node { return v.u[i] }
func (v *Variables) C(i int) *gorgonia.Node { return v.c[i] }

// Constant is the same number in every row.
func (v *Variables) Constant(x float64) *gorgonia.Node {
	data := make([]float64, v.rows)
	for i := range data {
		data[i] = x
	}
	return gorgonia.NewConstant(tensor.New(tensor.WithShape(v.rows), tensor.WithBacking(data)))
}

// Expression builds the objectives J from the variables: one node per
// objective, in the order of Spec.Objectives.
type Expression func(v *Variables) ([]*gorgonia.Node, error)

// Graph evaluates an expression and its gradients. It is safe for
// concurrent use.
type Graph struct {
	ns, nu, nc, m int
	single, block sync.Pool // of *program
}

// New compiles the expression for a problem of the given Spec. It fails when
// the expression does, when it gives another number of objectives than the
// Spec, or when an objective is not one number per row.
func New(spec *domain.Spec, e Expression) (*Graph, error) {
	o := &Graph{ns: spec.MeasuredSize(), nu: spec.ActionSize(), nc: spec.ContextSize(), m: spec.ObjectiveSize()}
	for _, kind := range []struct {
		pool *sync.Pool
		rows int
	}{{&o.single, 1}, {&o.block, blockRows}} {
		first, err := o.compile(e, kind.rows)
		if err != nil {
			return nil, fmt.Errorf("gorgoniagrad: case %s: %w", spec.Name, err)
		}
		kind.pool.Put(first)
		kind.pool.New = func() any {
			p, err := o.compile(e, kind.rows)
			if err != nil {
				panic(fmt.Sprintf("gorgoniagrad: an expression that compiled before failed: %v", err))
			}
			return p
		}
	}
	return o, nil
}

// program is one compiled graph with its tape machine and the memory of its
// inputs. It is used by one goroutine at a time.
type program struct {
	rows            int
	machine         gorgonia.VM
	s, u, c, weight [][]float64 // backing of each input vector
	objective       []*gorgonia.Node
	gs, gu          []*gorgonia.Node
}

func (o *Graph) compile(e Expression, rows int) (*program, error) {
	g := gorgonia.NewGraph()
	p := &program{rows: rows}
	input := func(name string, n int) (nodes []*gorgonia.Node, backing [][]float64) {
		for i := range n {
			data := make([]float64, rows)
			v := tensor.New(tensor.WithShape(rows), tensor.WithBacking(data))
			nodes = append(nodes, gorgonia.NewVector(g, tensor.Float64, gorgonia.WithShape(rows), gorgonia.WithName(fmt.Sprintf("%s%d", name, i)), gorgonia.WithValue(v)))
			backing = append(backing, data)
		}
		return nodes, backing
	}
	v := &Variables{rows: rows}
	var weights []*gorgonia.Node
	v.s, p.s = input("s", o.ns)
	v.u, p.u = input("u", o.nu)
	v.c, p.c = input("c", o.nc)
	weights, p.weight = input("w", o.m)

	objective, err := e(v)
	if err != nil {
		return nil, err
	}
	if len(objective) != o.m {
		return nil, fmt.Errorf("the expression gives %d objectives, the Spec names %d", len(objective), o.m)
	}
	p.objective = objective
	// Rows are independent, so the gradient of the sum over rows holds each row's
	// own gradient. Zero times every variable makes the sum depend on all of
	// them, whatever the expression uses.
	total, err := gorgonia.HadamardProd(weights[0], objective[0])
	if err != nil {
		return nil, fmt.Errorf("objective 1: %w", err)
	}
	for i := 1; i < o.m; i++ {
		term, err := gorgonia.HadamardProd(weights[i], objective[i])
		if err != nil {
			return nil, fmt.Errorf("objective %d: %w", i+1, err)
		}
		if total, err = gorgonia.Add(total, term); err != nil {
			return nil, fmt.Errorf("objective %d: %w", i+1, err)
		}
	}
	zero := v.Constant(0)
	wanted := append(append([]*gorgonia.Node{}, v.s...), v.u...)
	for _, n := range wanted {
		term, err := gorgonia.HadamardProd(zero, n)
		if err != nil {
			return nil, err
		}
		if total, err = gorgonia.Add(total, term); err != nil {
			return nil, err
		}
	}
	sum, err := gorgonia.Sum(total)
	if err != nil {
		return nil, err
	}
	grads, err := gorgonia.Grad(sum, wanted...)
	if err != nil {
		return nil, fmt.Errorf("differentiating: %w", err)
	}
	p.gs, p.gu = grads[:o.ns], grads[o.ns:]
	p.machine = gorgonia.NewTapeMachine(g)
	return p, nil
}

func (p *program) run() {
	if err := p.machine.RunAll(); err != nil {
		panic(fmt.Sprintf("gorgoniagrad: running a compiled expression: %v", err))
	}
	p.machine.Reset()
}

// column returns the values of a node, one per row.
func column(n *gorgonia.Node) []float64 {
	switch d := n.Value().Data().(type) {
	case []float64:
		return d
	case float64:
		return []float64{d}
	}
	panic(fmt.Sprintf("gorgoniagrad: node %v holds %T", n, n.Value().Data()))
}

func set(dst [][]float64, row int, src []float64) {
	for i := range dst {
		dst[i][row] = src[i]
	}
}

// Objectives writes J(s, u; c); see domain.Problem.
func (o *Graph) Objectives(s, u, c, J []float64) {
	p := o.single.Get().(*program)
	defer o.single.Put(p)
	set(p.s, 0, s)
	set(p.u, 0, u)
	set(p.c, 0, c)
	p.run()
	for i, n := range p.objective {
		J[i] = column(n)[0]
	}
}

// Gradient writes ∂(σᵀJ)/∂s and ∂(σᵀJ)/∂u; see domain.Problem.
func (o *Graph) Gradient(s, u, c, sigma, gs, gu []float64) {
	p := o.single.Get().(*program)
	defer o.single.Put(p)
	set(p.s, 0, s)
	set(p.u, 0, u)
	set(p.c, 0, c)
	set(p.weight, 0, sigma)
	p.run()
	for i, n := range p.gs {
		gs[i] = column(n)[0]
	}
	for i, n := range p.gu {
		gu[i] = column(n)[0]
	}
}

// GradientBatch evaluates blocks of rows in one run each; see
// domain.BatchGradient.
func (o *Graph) GradientBatch(b domain.Batch) {
	p := o.block.Get().(*program)
	defer o.block.Put(p)
	for from := 0; from < b.Rows; from += p.rows {
		n := min(p.rows, b.Rows-from)
		for r := range p.rows {
			// The last block is filled up with its first row.
			row := from
			if r < n {
				row = from + r
			}
			scatter(p.s, r, b.S, row*b.SStride)
			scatter(p.u, r, b.U, row*b.UStride)
			scatter(p.c, r, b.C, row*b.CStride)
			scatter(p.weight, r, b.Sigma, row*b.SigmaStride)
		}
		p.run()
		if b.J != nil {
			gather(b.J, from, b.JStride, n, p.objective)
		}
		gather(b.GS, from, b.GSStride, n, p.gs)
		gather(b.GU, from, b.GUStride, n, p.gu)
	}
}

func scatter(dst [][]float64, row int, src []float32, at int) {
	for i := range dst {
		dst[i][row] = float64(src[at+i])
	}
}

func gather(dst []float32, from, stride, n int, nodes []*gorgonia.Node) {
	for i, node := range nodes {
		v := column(node)
		for r := range n {
			dst[(from+r)*stride+i] = float32(v[r])
		}
	}
}
