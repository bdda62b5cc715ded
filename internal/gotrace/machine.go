package gotrace

import (
	"errors"
	"fmt"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/gpc-engine/gpc/equations/program"
)

// Bounds of what is run: beyond them a loop or recursion is taken for one that does not end.
const (
	maxSteps = 200e6
	maxDepth = 500
	maxForks = 200     // branches on numbers, each within an arm of the one before
	maxTrace = 1 << 20 // operations of a function
)

// machine runs functions.
type machine struct {
	p           *Package
	builder     *program.Builder // nil: numbers do not depend on inputs yet
	globals     map[*ssa.Global]*value
	initialized map[*ssa.Package]bool
	codes       map[*ssa.Function]*code
	frames      []*frame
	steps       int
	// Within an arm of a branch, what was written is undone and merged at its end.
	forks        int
	undo         []overwrite
	initialising int
}

type overwrite struct {
	cell *value
	old  value
}

type frame struct {
	fn          *ssa.Function
	code        *code
	slots       []value
	instruction ssa.Instruction
	defers      []func()
}

// run calls f, and turns what cannot be followed into an error.
func (x *machine) run(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *Error:
			err = p
		case error: // of this package's own: a case that it forgot
			var e *Error
			if inner := x.run(func() { x.fail("this is not followed (%v)", p) }); !errors.As(inner, &e) {
				panic(p)
			}
			err = e
		default:
			panic(p)
		}
		x.frames = x.frames[:0]
		for _, w := range slices.Backward(x.undo) { // of an arm that was not finished
			*w.cell = w.old
		}
		x.undo, x.forks, x.initialising = nil, 0, 0
	}()
	f()
	return nil
}

// fail ends the run with an error at the instruction that runs.
func (x *machine) fail(format string, a ...any) { x.failAt(token.Position{}, format, a...) }

// failAt is fail at a place, if it is one.
func (x *machine) failAt(position token.Position, format string, a ...any) {
	e := &Error{Pos: position, Msg: fmt.Sprintf(format, a...)}
	for i := len(x.frames) - 1; i >= 0; i-- {
		f := x.frames[i]
		e.In = append(e.In, f.fn.Name())
		if !e.Pos.IsValid() && f.instruction != nil {
			e.Pos = x.position(f.instruction)
		}
	}
	if len(e.In) > 4 {
		e.In = e.In[:4]
	}
	panic(e)
}

// position is that of an instruction, or of what is nearest before it.
func (x *machine) position(instruction ssa.Instruction) token.Position {
	files := x.p.prog.Fset
	if branch, ok := instruction.(*ssa.If); ok && branch.Cond.Pos().IsValid() {
		return files.Position(branch.Cond.Pos())
	}
	if instruction.Pos().IsValid() {
		return files.Position(instruction.Pos())
	}
	best := token.NoPos
	for _, other := range instruction.Block().Instrs {
		if other.Pos().IsValid() {
			best = other.Pos()
		}
		for _, o := range other.Operands(nil) {
			if *o != nil && (*o).Pos().IsValid() && !best.IsValid() {
				best = (*o).Pos()
			}
		}
		if other == instruction {
			break
		}
	}
	return files.Position(best)
}

// place is where the innermost function is.
func (x *machine) place() token.Position {
	for i := len(x.frames) - 1; i >= 0; i-- {
		if f := x.frames[i]; f.instruction != nil {
			if p := x.position(f.instruction); p.IsValid() {
				return p
			}
		}
	}
	return token.Position{}
}

// operand's value.
func (x *machine) arg(f *frame, o *operand) value {
	switch {
	case o.slot >= 0:
		return f.slots[o.slot]
	case o.value != nil:
		return x.global(o.value.(*ssa.Global))
	}
	return o.lit
}

// global is a variable of a package, which is initialised before its first use.
func (x *machine) global(g *ssa.Global) *value {
	if cell, ok := x.globals[g]; ok {
		return cell
	}
	if !x.initialized[g.Pkg] {
		x.initialized[g.Pkg] = true
		begin := g.Pkg.Func("init")
		sourced := begin != nil && begin.Blocks != nil
		for _, m := range g.Pkg.Members {
			if h, ok := m.(*ssa.Global); ok {
				cell := new(value)
				if *cell = zero(h.Type().(*types.Pointer).Elem()); !sourced {
					*cell = unknown{reason: "the variable " + h.RelString(nil) + ", of a package whose source is not here,"}
				}
				x.globals[h] = cell
			}
		}
		if sourced {
			forks, undo := x.forks, x.undo
			x.forks, x.undo = 0, nil
			x.initialising++
			x.call(&closure{fn: begin}, nil)
			x.initialising--
			x.forks, x.undo = forks, undo
		}
	}
	cell, ok := x.globals[g]
	if !ok {
		cell = new(value)
		*cell = zero(g.Type().(*types.Pointer).Elem())
		x.globals[g] = cell
	}
	return cell
}

func (x *machine) store(cell *value, v value) {
	if x.forks > 0 {
		x.undo = append(x.undo, overwrite{cell, *cell})
	}
	*cell = v
}

// assign stores entry by entry, so that pointers into *at stay good.
func (x *machine) assign(cell *value, v value) {
	assignAll := func(to, from []value) {
		for i := range from {
			x.assign(&to[i], from[i])
		}
	}
	switch v := v.(type) {
	case fields:
		if w, ok := (*cell).(fields); ok {
			assignAll(w, v)
			return
		}
	case array:
		if w, ok := (*cell).(array); ok {
			assignAll(w, v)
			return
		}
	}
	x.store(cell, copied(v))
}

// call runs a function.
func (x *machine) call(c *closure, args []value) value {
	if c == nil || c.fn == nil {
		x.fail("call of a nil function")
	}
	if v, ok := x.operation(c.fn, args); ok {
		return v
	}
	fn := c.fn
	if fn.Blocks == nil {
		return x.unfollowed(fn, args)
	}
	if len(x.frames) > maxDepth {
		x.fail("more than %d calls within one another: a recursion whose end depends on a number?", maxDepth)
	}
	code := x.compiled(fn)
	f := &frame{fn: fn, code: code, slots: make([]value, code.slots)}
	for i, s := range code.params {
		f.slots[s] = args[i]
	}
	for i, s := range code.free {
		f.slots[s] = c.free[i]
	}
	x.frames = append(x.frames, f)
	_, result, _ := x.blocks(f, 0, nil, nil, -1)
	x.frames = x.frames[:len(x.frames)-1]
	return result
}

// blocks runs from block b, come to from prev, or with the phis given, to the beginning of block stop, whose
// phis it returns, or to the function's end.
func (x *machine) blocks(f *frame, b int, prev *ssa.BasicBlock, phis []value, stop int) (joined []value, result value, returned bool) {
	for {
		code := &f.code.blocks[b]
		if phis == nil {
			phis = x.phis(f, code, prev)
			if b == stop && prev != nil {
				return phis, nil, false
			}
		}
		for i, s := range code.phis {
			f.slots[s.slot] = phis[i]
		}
		phis = nil
		next := -1
	steps:
		for i := range code.steps {
			s := &code.steps[i]
			f.instruction = s.instruction
			if x.steps++; x.steps > maxSteps {
				x.fail("more than %g steps: a loop whose end depends on a number?", float64(maxSteps))
			}
			switch instruction := s.instruction.(type) {
			case *ssa.Jump:
				next = instruction.Block().Succs[0].Index
				break steps
			case *ssa.Return:
				switch len(s.args) {
				case 0:
					return nil, nil, true
				case 1:
					return nil, copied(x.arg(f, &s.args[0])), true
				}
				all := make(tuple, len(s.args))
				for k := range s.args {
					all[k] = copied(x.arg(f, &s.args[k]))
				}
				return nil, all, true
			case *ssa.If:
				succs := instruction.Block().Succs
				switch c := x.arg(f, &s.args[0]).(type) {
				case bool:
					next = succs[1].Index
					if c {
						next = succs[0].Index
					}
				case unknown:
					x.fail("a branch on %s", c.reason)
				case truth:
					join := f.code.joins[b]
					merged, result := x.fork(f, c, instruction, join)
					if join < 0 {
						return nil, result, true
					}
					if join == stop {
						return merged, nil, false
					}
					phis, next = merged, join
				default:
					x.fail("a branch on %s", kind(c))
				}
				break steps
			case *ssa.Panic:
				if x.forks > 0 {
					x.fail("a panic that a branch on a number may lead to")
				}
				x.fail("a panic")
			default:
				x.instruction(f, s)
			}
		}
		prev = f.fn.Blocks[b]
		b = next
	}
}

// phis are the values that a block begins with, come to from prev.
func (x *machine) phis(f *frame, b *block, prev *ssa.BasicBlock) []value {
	values := make([]value, len(b.phis))
	if len(values) == 0 {
		return values
	}
	for k, p := range b.preds {
		if p == prev {
			for i := range b.phis {
				values[i] = x.arg(f, &b.phis[i].args[k])
			}
			return values
		}
	}
	x.fail("a block without the one before it")
	return nil
}

// fork runs both arms of a branch to where they meet, and selects what they leave.
func (x *machine) fork(f *frame, c truth, branch *ssa.If, join int) (phis []value, result value) {
	if x.forks >= maxForks {
		x.fail("%d branches on numbers within one another: a loop whose end depends on a number?", maxForks)
	}
	type arm struct {
		phis   []value
		result value
		wrote  map[*value]value
	}
	var arms [2]arm
	var order []*value
	previous := map[*value]value{}
	slots, defers := f.slots, f.defers
	for i := range arms {
		f.slots = append([]value{}, slots...)
		f.defers = append([]func(){}, defers...)
		mark := len(x.undo)
		x.forks++
		joined, result, returned := x.blocks(f, branch.Block().Succs[i].Index, branch.Block(), nil, join)
		x.forks--
		if join >= 0 && returned {
			x.fail("a function that ends in one arm of a branch on a number and goes on in the other")
		}
		a := arm{joined, result, map[*value]value{}}
		for _, w := range x.undo[mark:] {
			a.wrote[w.cell] = *w.cell
		}
		for k := len(x.undo) - 1; k >= mark; k-- {
			*x.undo[k].cell = x.undo[k].old
		}
		for _, w := range x.undo[mark:] {
			if _, ok := previous[w.cell]; !ok {
				previous[w.cell] = *w.cell
				order = append(order, w.cell)
			}
		}
		x.undo = x.undo[:mark]
		arms[i] = a
	}
	f.slots, f.defers, f.instruction = slots, defers, branch
	for _, cell := range order {
		v := [2]value{previous[cell], previous[cell]}
		for i := range arms {
			if w, ok := arms[i].wrote[cell]; ok {
				v[i] = w
			}
		}
		x.store(cell, x.merge(c, v[0], v[1]))
	}
	if join < 0 {
		return nil, x.merge(c, arms[0].result, arms[1].result)
	}
	phis = make([]value, len(arms[0].phis))
	for i := range phis {
		phis[i] = x.merge(c, arms[0].phis[i], arms[1].phis[i])
	}
	return phis, nil
}
