package ptx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// operand is an argument with its names resolved.
type operand struct {
	kind    byte // 'r' register, 'i' 'f' 'd' numbers, 'a' address, 'v' vector, 's' special register, '_' sink
	negated bool
	reg     int32 // of 'r', or base of 'a'; −1: none
	pair    int32
	imm     uint64 // number, or the fixed part of an address
	list    []operand
	name    string // of a special register
	// param says where a parameter space address lies: in the launch's arguments; a
	// device function's parameters are local memory.
	space space // generic: not known
}

// located is the address of a variable.
func located(address uint64, space space) operand {
	return operand{kind: 'i', imm: address, space: space, reg: -1, pair: -1}
}

// resolved is an instruction whose names are resolved, before it is compiled.
type resolved struct {
	line    int
	source  source
	guard   int32
	negated bool
	op      string
	parts   []string
	args    []operand
	label   string // of a branch
	target  int    // its index
}

// vreg is a register as written.
type vreg struct {
	name string
	typ  typ
}

// width is the bytes of a lane of a register: 2, 4 or 8, and 0 for a predicate.
func (v vreg) width() int {
	if v.typ.kind == 'p' {
		return 0
	}
	return max(v.typ.size, 2)
}

// lowering turns a kernel's body, with the functions it calls in place of their calls,
// into one list of instructions over numbered registers.
type lowering struct {
	module  *Module
	code    []resolved
	regs    []vreg
	labels  map[string]int
	shared  int            // static bytes
	offsets map[string]int // of shared variables
	local   int            // bytes of the variables in scope
	deepest int            // most of them at once
	depth   int
	serial  int
}

// scope is what names mean in a part of a body: registers and variables.
type scope struct {
	names map[string]operand
	up    *scope
}

func (s *scope) find(name string) (operand, bool) {
	for ; s != nil; s = s.up {
		if o, ok := s.names[name]; ok {
			return o, true
		}
	}
	return operand{}, false
}

// register finds a register.
func (s *scope) register(name string) (int32, bool) {
	o, ok := s.find(name)
	return o.reg, ok && o.kind == 'r'
}

func alignTo(n, align int) int { return (n + align - 1) / max(align, 1) * max(align, 1) }

// modules counts those whose variables have been placed; each has a segment of addresses.
var modules atomic.Uint64

// place gives the variables of the module their addresses and contents.
func (m *Module) place() {
	if m.segment != nil {
		return
	}
	base := moduleBase + modules.Add(1)<<slotBits
	offset := 256
	m.address = map[string]uint64{}
	for _, name := range m.order {
		v := m.variables[name]
		if v.space == "shared" {
			continue
		}
		offset = alignTo(offset, v.align)
		m.address[name] = base + uint64(offset)
		offset += v.bytes
	}
	segment := newBytes(offset)
	for _, name := range m.order {
		v := m.variables[name]
		if v.space == "shared" || v.init == nil {
			continue
		}
		dst := segment[m.address[name]-base:]
		copy(dst, v.init)
		for _, r := range v.refs {
			a, ok := m.address[r.symbol]
			if !ok {
				panic(&SyntaxError{m.Name, v.line, "initial value of " + name + ": no variable " + r.symbol})
			}
			a += uint64(r.offset)
			for i := range 8 {
				dst[r.position+i] = byte(a >> (8 * i))
			}
		}
	}
	m.segment = segment
	segments.Store(base>>slotBits, segment)
}

func (l *lowering) fail(st statement, format string, a ...any) {
	panic(&SyntaxError{l.module.Name, st.line, fmt.Sprintf(format, a...)})
}

// function appends a body. params are where its parameters and results lie.
func (l *lowering) function(f *function, params map[string]operand, end string) {
	if l.depth++; l.depth > 64 {
		panic(&SyntaxError{l.module.Name, f.line, "calls of " + f.name + " do not end: recursion is not of the subset"})
	}
	defer func() { l.depth-- }()
	l.serial++
	suffix := "#" + strconv.Itoa(l.serial)
	names := &scope{map[string]operand{}, &scope{names: params}}
	for _, st := range f.body {
		switch {
		case st.scope > 0:
			names = &scope{map[string]operand{}, names}
		case st.scope < 0:
			if names = names.up; names == nil {
				l.fail(st, "a scope ends that has not begun")
			}
		case st.label != "":
			l.labels[st.label+suffix] = len(l.code)
		case st.regs != nil:
			for _, r := range st.regs {
				l.declare(names, r)
			}
		case st.vars != nil:
			for _, v := range st.vars {
				names.names[v.name] = l.variable(v)
			}
		case st.parts[0] == "call":
			l.call(names, st)
		case st.parts[0] == "ret" && end != "":
			l.append(names, st, resolved{op: "bra", parts: []string{"bra"}, label: end})
		case st.parts[0] == "bra":
			if len(st.args) != 1 || st.args[0].kind != 'r' {
				l.fail(st, "a branch to something other than one label")
			}
			l.append(names, st, resolved{op: st.op, parts: st.parts, label: st.args[0].name + suffix})
		default:
			i := resolved{op: st.op, parts: st.parts}
			for _, a := range st.args {
				i.args = append(i.args, l.operand(names, st, a))
			}
			l.append(names, st, i)
		}
	}
	l.labels["end"+suffix] = len(l.code)
}

func (l *lowering) append(names *scope, st statement, i resolved) {
	i.line, i.source = st.line, st.source
	i.guard, i.negated = -1, st.negated
	if st.guard != "" {
		r, ok := names.register(st.guard)
		if !ok || l.regs[r].typ.kind != 'p' {
			l.fail(st, "guard %s is no predicate", st.guard)
		}
		i.guard = r
	}
	l.code = append(l.code, i)
}

func (l *lowering) declare(names *scope, r register) {
	for i := range max(r.count, 1) {
		name := r.name
		if r.count > 0 {
			name += strconv.Itoa(i)
		}
		names.names[name] = operand{kind: 'r', reg: int32(len(l.regs)), pair: -1}
		l.regs = append(l.regs, vreg{name, r.typ})
	}
}

// variable places a variable of a body.
func (l *lowering) variable(v variable) operand {
	switch v.space {
	case "shared":
		return l.sharedVariable(v)
	case "local", "param":
		l.local = alignTo(l.local, max(v.align, 8))
		o := located(uint64(l.local), local)
		l.local += v.bytes
		l.deepest = max(l.deepest, l.local)
		return o
	}
	panic(&SyntaxError{l.module.Name, v.line, "a variable of space " + v.space + " in a body"})
}

func (l *lowering) sharedVariable(v variable) operand {
	if v.extern {
		return located(dynamicShared, shared)
	}
	offset, ok := l.offsets[v.name]
	if !ok {
		offset = alignTo(l.shared, v.align)
		l.shared = offset + v.bytes
		l.offsets[v.name] = offset
	}
	return located(uint64(offset), shared)
}

// dynamicShared stands for where dynamic shared memory begins until the static is known.
const dynamicShared = 1 << 40

// symbol is a register, or the address of a variable in its space.
func (l *lowering) symbol(names *scope, name string) (operand, bool) {
	o, ok := names.find(name)
	v := l.module.variables[name]
	switch {
	case ok || v == nil:
		return o, ok
	case v.space == "shared":
		return l.sharedVariable(*v), true
	}
	return located(l.module.address[name], global), true
}

var specials = []string{"%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z",
	"%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid", "%warpid", "%nwarpid", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt"}

func (l *lowering) operand(names *scope, st statement, a argument) operand {
	o := operand{kind: a.kind, negated: a.negated, reg: -1, pair: -1, imm: a.imm}
	switch a.kind {
	case 'v':
		for _, e := range a.list {
			o.list = append(o.list, l.operand(names, st, e))
		}
	case 'a':
		o.imm = uint64(a.offset)
		if a.name == "" {
			break
		}
		s, ok := l.symbol(names, a.name)
		if !ok {
			l.fail(st, "no register or variable %s", a.name)
		}
		o.reg, o.space = s.reg, s.space
		o.imm += s.imm
	case 'r':
		s, ok := l.symbol(names, a.name)
		switch {
		case ok:
			o = s
			o.negated = a.negated
			o.imm += uint64(a.offset)
		case slices.Contains(specials, a.name):
			o.kind, o.name = 's', a.name
		case a.name == "WARP_SZ":
			o.kind, o.imm = 'i', 32
		default:
			l.fail(st, "%s is no register, variable or special register of the subset", a.name)
		}
		if a.pair != "" && a.pair != "_" {
			if o.pair, ok = names.register(a.pair); !ok {
				l.fail(st, "no register %s", a.pair)
			}
		}
	}
	return o
}

// call puts the called body in place of the call. Parameters of device functions are
// variables of the caller in local memory.
func (l *lowering) call(names *scope, st statement) {
	if st.guard != "" {
		l.fail(st, "a call under a predicate is not of the subset")
	}
	args := st.args
	var results, arguments []argument
	if len(args) > 0 && args[0].kind == 'v' {
		results, args = args[0].list, args[1:]
	}
	if len(args) == 0 || args[0].kind != 'r' || len(args) > 2 {
		l.fail(st, "a call that names no function")
	}
	if len(args) == 2 {
		arguments = args[1].list
	}
	f := l.module.functions[args[0].name]
	if f == nil {
		l.fail(st, "no body of function %s", args[0].name)
	}
	if len(arguments) != len(f.params) || len(results) != len(f.results) {
		l.fail(st, "%s takes %d parameters and gives %d results, the call has %d and %d", f.name, len(f.params), len(f.results), len(arguments), len(results))
	}
	params := map[string]operand{}
	for i, v := range append(append([]variable{}, f.params...), f.results...) {
		a := append(append([]argument{}, arguments...), results...)[i]
		o, ok := names.find(a.name)
		if !ok || o.space != local {
			l.fail(st, "argument %s of a call is no .param variable", a.name)
		}
		params[v.name] = o
	}
	end, frame := fmt.Sprintf("end#%d", l.serial+1), l.local
	l.function(f, params, end)
	l.local = frame
}

// resolve finds the targets of branches and where dynamic shared memory begins.
func (l *lowering) resolve() {
	start := uint64(alignTo(l.shared, 16))
	var fix func(o *operand)
	fix = func(o *operand) {
		if o.space == shared && o.imm >= dynamicShared {
			o.imm += start - dynamicShared
		}
		for i := range o.list {
			fix(&o.list[i])
		}
	}
	for i := range l.code {
		instruction := &l.code[i]
		for j := range instruction.args {
			fix(&instruction.args[j])
		}
		if instruction.label == "" {
			continue
		}
		t, ok := l.labels[instruction.label]
		if !ok {
			name, _, _ := strings.Cut(instruction.label, "#")
			panic(&SyntaxError{l.module.Name, instruction.line, "no label " + name})
		}
		instruction.target = t
	}
}

// results is how many of an instruction's arguments it writes: the first, or none.
func (instruction *resolved) results() int {
	switch instruction.parts[0] {
	case "st", "bra", "barrier", "ret", "exit", "red", "membar", "fence", "trap", "nanosleep", "prefetch", "prefetchu", "discard", "brkpt":
		return 0
	case "bar":
		if len(instruction.parts) > 1 && instruction.parts[1] == "red" {
			return 1
		}
		return 0
	}
	return min(1, len(instruction.args))
}

// ends tells whether control never goes on behind an instruction.
func (instruction *resolved) ends() bool {
	return instruction.guard < 0 && (instruction.parts[0] == "bra" || instruction.parts[0] == "ret" || instruction.parts[0] == "exit" || instruction.parts[0] == "trap")
}

func (o *operand) visit(f func(r int32)) {
	if o.reg >= 0 && (o.kind == 'r' || o.kind == 'a') {
		f(o.reg)
	}
	if o.kind == 'r' && o.pair >= 0 {
		f(o.pair)
	}
	for i := range o.list {
		o.list[i].visit(f)
	}
}

// uses and defines call f with the registers that an instruction reads and writes.
func (instruction *resolved) uses(f func(r int32)) {
	if instruction.guard >= 0 {
		f(instruction.guard)
	}
	for i := instruction.results(); i < len(instruction.args); i++ {
		instruction.args[i].visit(f)
	}
}

func (instruction *resolved) defines(f func(r int32)) {
	if instruction.results() == 1 {
		instruction.args[0].visit(f)
	}
}
