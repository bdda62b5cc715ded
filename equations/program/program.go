// Package program holds equations as data: straight-line functions of float64. They are evaluated, differentiated
// exactly, and stored in one file, whatever language they were written in.
//
// The central type is Function: operations in the order of computation, each on inputs, constants or earlier
// operations. A Builder makes one, and merges equal operations. Its derivatives are functions again (Jacobian,
// Gradient, Hessian), so their sparsity is known exactly. Program names several functions and their shared vectors;
// docs/reference/program.md describes its file and every convention.
package program

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Value names a number in a function: an input, in the order of the arguments, or an operation after them.
type Value int32

// node is one operation.
type node struct {
	op    Op
	arg   [3]Value
	value float64 // of Const
}

// Argument is a vector that a function reads or writes.
type Argument struct {
	Name string
	Size int
	// Vector, optional, is the name of the Program's vector that names the entries; "of" in a file.
	Vector string
}

// Function computes outputs from inputs. It is immutable and may be shared by goroutines.
type Function struct {
	name    string
	in, out []Argument
	inputs  int
	nodes   []node
	results []Value
	works   sync.Pool // of *[]float64
}

// Name is the function's.
func (f *Function) Name() string { return f.name }

// Inputs are the arguments that Evaluate reads, concatenated.
func (f *Function) Inputs() []Argument { return slices.Clone(f.in) }

// Outputs are the arguments that Evaluate writes.
func (f *Function) Outputs() []Argument { return slices.Clone(f.out) }

// Operations is the number of operations without constants.
func (f *Function) Operations() int {
	n := 0
	for _, o := range f.nodes {
		if o.op != Const {
			n++
		}
	}
	return n
}

// Result is entry i of the outputs.
func (f *Function) Result(i int) Value { return f.results[i] }

// Results is the number of entries of the outputs.
func (f *Function) Results() int { return len(f.results) }

// Entries is the number of entries of the inputs.
func (f *Function) Entries() int { return f.inputs }

// Operation describes a value: Input with its entry, Const with its number, or an operation with its operands.
func (f *Function) Operation(v Value) (op Op, operands []Value, constant float64) {
	if int(v) < f.inputs {
		return Input, nil, 0
	}
	n := f.nodes[int(v)-f.inputs]
	return n.op, slices.Clone(n.arg[:n.op.Arity()]), n.value
}

// Values is the number of values: entries of the inputs, constants and operations.
func (f *Function) Values() int { return f.inputs + len(f.nodes) }

// Find is the range of the entries of the input with that name.
func (f *Function) Find(input string) (from, to int, ok bool) {
	for _, a := range f.in {
		if a.Name == input {
			return from, from + a.Size, true
		}
		from += a.Size
	}
	return 0, 0, false
}

// Evaluate writes the outputs, [Results], for the inputs, [Entries], both concatenated. It is the specification:
// every operation rounds by itself, as package math does. in and out may overlap.
func (f *Function) Evaluate(in, out []float64) {
	if len(in) != f.inputs || len(out) != len(f.results) {
		panic(fmt.Sprintf("program: function %q reads %d numbers and writes %d, want %d and %d", f.name, len(in), len(out), f.inputs, len(f.results)))
	}
	work, _ := f.works.Get().(*[]float64)
	if work == nil {
		w := make([]float64, f.inputs+len(f.nodes))
		work = &w
	}
	w := *work
	copy(w, in)
	for i := range f.nodes {
		n := &f.nodes[i]
		if n.op == Const {
			w[f.inputs+i] = n.value
			continue
		}
		w[f.inputs+i] = compute(n.op, w[n.arg[0]], w[n.arg[1]], w[n.arg[2]])
	}
	for i, v := range f.results {
		out[i] = w[v]
	}
	f.works.Put(work)
}

// Vector names the entries of the arguments of that kind.
type Vector struct {
	Name    string
	Entries []string
}

// Program holds the functions of one system.
type Program struct {
	Name      string
	Vectors   []Vector
	Functions []*Function
}

// Function is the function of that name, nil if there is none.
func (p *Program) Function(name string) *Function {
	for _, f := range p.Functions {
		if f.name == name {
			return f
		}
	}
	return nil
}

// Bounds of a program, about a hundred times those of known systems.
const (
	maxName      = 256     // bytes
	maxVectors   = 64      // of a program
	maxFunctions = 64      // of a program
	maxArguments = 64      // of a function, in and out each
	maxSize      = 1 << 16 // entries of a vector, and of all inputs or outputs of a function
	maxNodes     = 1 << 20 // of a function
	maxBytes     = 1 << 26 // of a file
)

// Validate reports an invalid program by the name of the function or vector.
func (p *Program) Validate() error {
	if err := checkName(p.Name); err != nil {
		return fmt.Errorf("name %w", err)
	}
	if len(p.Vectors) > maxVectors {
		return fmt.Errorf("vectors has %d entries, want at most %d", len(p.Vectors), maxVectors)
	}
	sizes := map[string]int{}
	for i, v := range p.Vectors {
		if err := v.validate(); err != nil {
			return fmt.Errorf("vectors[%d]%w", i, err)
		}
		if _, duplicate := sizes[v.Name]; duplicate {
			return fmt.Errorf("vectors[%d].name %q appears twice", i, v.Name)
		}
		sizes[v.Name] = len(v.Entries)
	}
	if len(p.Functions) > maxFunctions {
		return fmt.Errorf("functions has %d entries, want at most %d", len(p.Functions), maxFunctions)
	}
	for i, f := range p.Functions {
		if f == nil {
			return fmt.Errorf("functions[%d] is nil", i)
		}
		if err := f.validate(sizes); err != nil {
			return fmt.Errorf("functions[%d] (%.64q): %w", i, f.name, err)
		}
		if slices.ContainsFunc(p.Functions[:i], func(g *Function) bool { return g.name == f.name }) {
			return fmt.Errorf("functions[%d].name %q appears twice", i, f.name)
		}
	}
	return nil
}

// validate returns errors that begin with the field.
func (v *Vector) validate() error {
	if err := checkName(v.Name); err != nil {
		return fmt.Errorf(".name %w", err)
	}
	if len(v.Entries) > maxSize {
		return fmt.Errorf(".entries has %d entries, want at most %d", len(v.Entries), maxSize)
	}
	names := make(map[string]bool, len(v.Entries))
	for i, name := range v.Entries {
		if err := checkName(name); err != nil {
			return fmt.Errorf(".entries[%d] %w", i, err)
		}
		if names[name] {
			return fmt.Errorf(".entries[%d] %q appears twice", i, name)
		}
		names[name] = true
	}
	return nil
}

// validate checks what a file may have wrong; sizes are those of the vectors.
func (f *Function) validate(sizes map[string]int) error {
	if err := checkName(f.name); err != nil {
		return fmt.Errorf("name %w", err)
	}
	inputs, err := checkArguments("inputs", f.in, sizes)
	if err != nil {
		return err
	}
	outputs, err := checkArguments("outputs", f.out, sizes)
	if err != nil {
		return err
	}
	if inputs != f.inputs {
		return fmt.Errorf("inputs have %d entries in all, the code takes %d", f.inputs, inputs)
	}
	if outputs != len(f.results) {
		return fmt.Errorf("results has %d entries, want %d, one for each entry of the outputs", len(f.results), outputs)
	}
	if len(f.nodes) > maxNodes {
		return fmt.Errorf("code has %d entries, want at most %d", len(f.nodes), maxNodes)
	}
	for i, n := range f.nodes {
		if n.op == Input || n.op >= opCount {
			return fmt.Errorf("code[%d] is not an operation", i)
		}
		for k := range n.op.Arity() {
			if v := n.arg[k]; v < 0 || int(v) >= inputs+i {
				return fmt.Errorf("code[%d] (%s): operand %d is value %d, want one of the %d values before it", i, n.op, k+1, v, inputs+i)
			}
		}
	}
	for i, v := range f.results {
		if v < 0 || int(v) >= inputs+len(f.nodes) {
			return fmt.Errorf("results[%d] is value %d, want one of the %d values of the function", i, v, inputs+len(f.nodes))
		}
	}
	return nil
}

func checkArguments(field string, list []Argument, sizes map[string]int) (total int, err error) {
	if len(list) > maxArguments {
		return 0, fmt.Errorf("%s has %d entries, want at most %d", field, len(list), maxArguments)
	}
	for i, a := range list {
		if err := checkName(a.Name); err != nil {
			return 0, fmt.Errorf("%s[%d].name %w", field, i, err)
		}
		if slices.ContainsFunc(list[:i], func(b Argument) bool { return b.Name == a.Name }) {
			return 0, fmt.Errorf("%s[%d].name %q appears twice", field, i, a.Name)
		}
		if a.Size < 0 || a.Size > maxSize {
			return 0, fmt.Errorf("%s[%d].size is %d, want 0 to %d", field, i, a.Size, maxSize)
		}
		if a.Vector != "" {
			n, ok := sizes[a.Vector]
			if !ok {
				return 0, fmt.Errorf("%s[%d].of is %.64q, want the name of one of vectors", field, i, a.Vector)
			}
			if n != a.Size {
				return 0, fmt.Errorf("%s[%d].size is %d, the vector %q has %d entries", field, i, a.Size, a.Vector, n)
			}
		}
		total += a.Size
	}
	if total > maxSize {
		return 0, fmt.Errorf("%s have %d entries together, want at most %d", field, total, maxSize)
	}
	return total, nil
}

// checkName accepts names that every reader writes the same way.
func checkName(s string) error {
	switch {
	case s == "":
		return errors.New("is empty")
	case len(s) > maxName:
		return fmt.Errorf("has %d bytes, want at most %d", len(s), maxName)
	case !utf8.ValidString(s):
		return fmt.Errorf("%.64q is not UTF-8", s)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("%.64q has the character %U, which does not print", s, r)
		}
	}
	return nil
}
