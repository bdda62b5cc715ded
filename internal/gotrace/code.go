package gotrace

import (
	"golang.org/x/tools/go/ssa"
)

// code is a function with its values numbered.
type code struct {
	slots  int
	params []int
	free   []int
	blocks []block
	joins  []int // of each block: where the ways from it meet again, -1 at the function's end
}

type block struct {
	phis  []step
	steps []step
	preds []*ssa.BasicBlock
}

// step is an instruction with where its operands and result are.
type step struct {
	instruction ssa.Instruction
	args        []operand
	slot        int // -1: no result
}

// operand is a slot, or a value of the program text.
type operand struct {
	slot  int // -1: of
	value ssa.Value
	lit   value
}

// compiled numbers the values of a function.
func (x *machine) compiled(fn *ssa.Function) *code {
	if c := x.codes[fn]; c != nil {
		return c
	}
	c := &code{joins: joins(fn)}
	slot := map[ssa.Value]int{}
	number := func(v ssa.Value) int {
		slot[v] = c.slots
		c.slots++
		return c.slots - 1
	}
	for _, p := range fn.Params {
		c.params = append(c.params, number(p))
	}
	for _, p := range fn.FreeVars {
		c.free = append(c.free, number(p))
	}
	for _, b := range fn.Blocks {
		for _, in := range b.Instrs {
			if v, ok := in.(ssa.Value); ok {
				number(v)
			}
		}
	}
	for _, b := range fn.Blocks {
		var out block
		out.preds = b.Preds
		for _, in := range b.Instrs {
			s := step{instruction: in, slot: -1}
			if v, ok := in.(ssa.Value); ok {
				s.slot = slot[v]
			}
			for _, o := range in.Operands(nil) {
				arg := operand{slot: -1}
				switch v := (*o).(type) {
				case nil:
				case *ssa.Const:
					arg.lit = literal(v)
				case *ssa.Function:
					arg.lit = &closure{fn: v}
				case *ssa.Builtin:
					arg.lit = v
				case *ssa.Global:
					arg.value = v
				default:
					arg.slot = slot[v]
				}
				s.args = append(s.args, arg)
			}
			if _, ok := in.(*ssa.Phi); ok {
				out.phis = append(out.phis, s)
			} else {
				out.steps = append(out.steps, s)
			}
		}
		c.blocks = append(c.blocks, out)
	}
	x.codes[fn] = c
	return c
}

// joins are the immediate postdominators of a function's blocks, -1 for its end.
func joins(fn *ssa.Function) []int {
	n := len(fn.Blocks)
	postdominators := make([][]bool, n) // the postdominators of each
	for i, b := range fn.Blocks {
		postdominators[i] = make([]bool, n)
		for j := range n {
			postdominators[i][j] = len(b.Succs) > 0 || i == j
		}
	}
	for grows := true; grows; {
		grows = false
		for i := n - 1; i >= 0; i-- {
			if len(fn.Blocks[i].Succs) == 0 {
				continue
			}
			for j := range n {
				all := true
				for _, s := range fn.Blocks[i].Succs {
					all = all && postdominators[s.Index][j]
				}
				if v := all || i == j; v != postdominators[i][j] {
					postdominators[i][j], grows = v, true
				}
			}
		}
	}
	count := make([]int, n)
	for i := range n {
		for _, v := range postdominators[i] {
			if v {
				count[i]++
			}
		}
	}
	out := make([]int, n)
	for i := range n {
		out[i] = -1
		for j := range n { // the nearest is the one with the most of its own
			if i != j && postdominators[i][j] && (out[i] < 0 || count[j] > count[out[i]]) {
				out[i] = j
			}
		}
	}
	return out
}
