package gorgoniagrad

import (
	"fmt"

	"gonum.org/v1/gonum/graph"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// tape runs the part of a graph that given outputs need, one operation after
// another on the caller's goroutine. Gorgonia's own tape machine starts a
// goroutine behind a locked thread for each run and allocates every
// intermediate value again; here each keeps its memory, which no other shares.
type tape struct {
	values       []gorgonia.Value
	instructions []instruction
	arguments    []gorgonia.Value
}

type instruction struct {
	node      *gorgonia.Node
	inputs    []int // of values
	output    int
	prealloc  gorgonia.UsePreallocDoer // nil: the operation makes its own memory
	memory    gorgonia.Value
	invariant bool // depends on no variable: computed once
}

// newTape returns the tape of the outputs' ancestors, and the register of each
// output. variables are those whose values change between runs.
func newTape(g *gorgonia.ExprGraph, variables, outputs []*gorgonia.Node, rows int) (*tape, []int, error) {
	t := &tape{}
	registers := map[int64]int{}
	varies := map[int64]bool{}
	for _, n := range variables {
		varies[n.ID()] = true
	}
	var visit func(node graph.Node) error
	visit = func(node graph.Node) error {
		n := node.(*gorgonia.Node)
		id := n.ID()
		if _, done := registers[id]; done {
			return nil
		}
		var inputs []int
		for children := g.From(id); children != nil && children.Next(); {
			child := children.Node()
			if err := visit(child); err != nil {
				return err
			}
			inputs = append(inputs, registers[child.ID()])
			varies[id] = varies[id] || varies[child.ID()]
		}
		registers[id] = len(t.values)
		t.values = append(t.values, n.Value())
		if len(inputs) == 0 {
			if n.Value() == nil {
				return fmt.Errorf("node %v has no inputs and no value", n)
			}
			return nil
		}
		in := instruction{node: n, inputs: inputs, output: registers[id], invariant: !varies[id]}
		if doer, ok := n.Op().(gorgonia.UsePreallocDoer); ok && n.Shape().Eq(tensor.Shape{rows}) {
			in.prealloc = doer
			in.memory, _ = vector(rows)
		}
		t.instructions = append(t.instructions, in)
		return nil
	}
	at := make([]int, len(outputs))
	for i, n := range outputs {
		if err := visit(n); err != nil {
			return nil, nil, err
		}
		at[i] = registers[n.ID()]
	}
	// The first run computes what never changes; it does not run again.
	if err := t.run(); err != nil {
		return nil, nil, err
	}
	kept := t.instructions[:0]
	for _, in := range t.instructions {
		if !in.invariant {
			kept = append(kept, in)
		}
	}
	t.instructions = kept
	return t, at, nil
}

func (t *tape) run() error {
	for i := range t.instructions {
		in := &t.instructions[i]
		t.arguments = t.arguments[:0]
		for _, r := range in.inputs {
			t.arguments = append(t.arguments, t.values[r])
		}
		if in.prealloc != nil {
			if v, err := in.prealloc.UsePreallocDo(in.memory, t.arguments...); err == nil {
				t.values[in.output] = v
				continue
			}
			in.prealloc = nil // this operation does not take memory of this kind
		}
		v, err := in.node.Op().Do(t.arguments...)
		if err != nil {
			return fmt.Errorf("%v: %w", in.node, err)
		}
		t.values[in.output] = v
	}
	return nil
}

// column returns a register's values, one per row.
func (t *tape) column(register int) []float64 {
	switch d := t.values[register].Data().(type) {
	case []float64:
		return d
	case float64:
		return []float64{d}
	}
	panic(fmt.Sprintf("gorgoniagrad: an output holds %T", t.values[register].Data()))
}
