package stages

import (
	"slices"

	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
	"github.com/gpc-engine/gpc/internal/simd/lanes/programs"
)

// Function is a function with its first derivatives, and the second ones of a weighted sum, at several points at once.
type Function struct {
	code          *Code
	first, second *shared
	results, n    int
	columns       []int // of each input, its direction; −1: none
}

// NewFunction makes the code for directions by, entries of the inputs; without any it has Values alone.
func NewFunction(f *program.Function, variables []int) *Function {
	k := &Function{code: &Code{}, results: f.Results(), n: len(variables)}
	k.code.constants, k.code.rounding = programs.NewConstants(&k.code.layout), k.code.layout.New(1)[0]
	x := &maker{Code: k.code}
	for a := range f.Entries() {
		k.columns = append(k.columns, slices.Index(variables, a))
	}
	ascending := append([]int{}, variables...) // not nil, which would be all
	slices.Sort(ascending)
	k.first = x.slopes(f, ascending)
	if len(variables) > 0 {
		k.second = x.second(f, ascending)
	}
	for _, b := range x.builders {
		k.code.programs = append(k.code.programs, b.Program())
	}
	return k
}

// Compile readies the code for an instruction set and number of lanes.
func (k *Function) Compile(level isa.Level, width int) (*lanes.Compiled, error) {
	return lanes.Native(level, width, k.code.programs...)
}

// FunctionMachine evaluates as many points as it has lanes. It is for one goroutine at a time.
type FunctionMachine struct {
	code    *Function
	machine *lanes.Machine
}

// NewMachine is one of that code.
func (k *Function) NewMachine(compiled *lanes.Compiled) *FunctionMachine {
	m := lanes.NewMachine(compiled)
	k.code.constants.Fill(m)
	return &FunctionMachine{k, m}
}

// Lanes is how many points it evaluates at once.
func (m *FunctionMachine) Lanes() int { return m.machine.Lanes() }

// Round sets the input program.Rounding.
func (m *FunctionMachine) Round(factor float64) { m.machine.SetAll(m.code.code.rounding, factor) }

// Set writes n points into a lane each; the last fills the other lanes.
func (m *FunctionMachine) Set(n int, inputs []float64) {
	width := len(m.code.first.in)
	m.machine.ScatterRows(m.code.first.in[0], inputs, width, width, n)
	if second := m.code.second; second != nil {
		m.machine.ScatterRows(second.in[0], inputs, width, width, n)
	}
}

// Weigh writes the weights of a lane's outputs for Curvature.
func (m *FunctionMachine) Weigh(lane int, weights []float64) {
	inputs := m.code.second.in
	m.machine.Scatter(inputs[len(inputs)-m.code.results], lane, weights)
}

// Linearise evaluates the points of all lanes with their first derivatives.
func (m *FunctionMachine) Linearise() { m.machine.Run(m.code.first.program) }

// Curvature evaluates the second derivatives of weightsᵀ·outputs at the points of all lanes.
func (m *FunctionMachine) Curvature() { m.machine.Run(m.code.second.program) }

// Values are the outputs of the first n lanes after Linearise.
func (m *FunctionMachine) Values(n int, out []float64) {
	width := len(m.code.first.out)
	m.machine.GatherRows(out, width, width, n, m.code.first.out[0])
}

// Slopes are the first derivatives of a lane after Linearise, [outputs][directions].
func (m *FunctionMachine) Slopes(lane int, out []float64) {
	clear(out)
	for _, e := range m.code.first.matrix {
		out[e.row*m.code.n+m.code.columns[e.col]] = m.machine.Get(e.cell, lane)
	}
}

// Hessian writes the lower triangle of a lane's second derivatives into h, [directions][directions].
func (m *FunctionMachine) Hessian(lane int, h []float64) {
	clear(h)
	for _, e := range m.code.second.matrix {
		r, c := m.code.columns[e.row], m.code.columns[e.col]
		h[max(r, c)*m.code.n+min(r, c)] = m.machine.Get(e.cell, lane)
	}
}
