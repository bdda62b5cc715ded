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
	kind byte // 'r' register, 'i' 'f' 'd' numbers, 'a' address, 'v' vector, 's' special register, '_' sink
	not  bool
	reg  int32 // of 'r', or base of 'a'; −1: none
	pair int32
	imm  uint64 // number, or the fixed part of an address
	list []operand
	name string // of a special register
	// param says where a parameter space address lies: in the launch's arguments; a
	// device function's parameters are local memory.
	space space // generic: not known
}

// located is the address of a variable.
func located(at uint64, in space) operand {
	return operand{kind: 'i', imm: at, space: in, reg: -1, pair: -1}
}

// resolved is an instruction whose names are resolved, before it is compiled.
type resolved struct {
	line   int
	source source
	guard  int32
	not    bool
	op     string
	parts  []string
	args   []operand
	label  string // of a branch
	target int    // its index
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
	local   int
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
	at := 256
	m.address = map[string]uint64{}
	for _, name := range m.order {
		v := m.variables[name]
		if v.space == "shared" {
			continue
		}
		at = alignTo(at, v.align)
		m.address[name] = base + uint64(at)
		at += v.bytes
	}
	segment := newBytes(at)
	for _, name := range m.order {
		v := m.variables[name]
		if v.space == "shared" || v.init == nil {
			continue
		}
		to := segment[m.address[name]-base:]
		copy(to, v.init)
		for _, r := range v.refs {
			a, ok := m.address[r.symbol]
			if !ok {
				panic(&SyntaxError{m.Name, v.line, "initial value of " + name + ": no variable " + r.symbol})
			}
			a += uint64(r.offset)
			for i := range 8 {
				to[r.at+i] = byte(a >> (8 * i))
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
	in := &scope{map[string]operand{}, &scope{names: params}}
	for _, st := range f.body {
		switch {
		case st.scope > 0:
			in = &scope{map[string]operand{}, in}
		case st.scope < 0:
			if in = in.up; in == nil {
				l.fail(st, "a scope ends that has not begun")
			}
		case st.label != "":
			l.labels[st.label+suffix] = len(l.code)
		case st.regs != nil:
			for _, r := range st.regs {
				l.declare(in, r)
			}
		case st.vars != nil:
			for _, v := range st.vars {
				in.names[v.name] = l.variable(v)
			}
		case st.parts[0] == "call":
			l.call(in, st)
		case st.parts[0] == "ret" && end != "":
			l.append(in, st, resolved{op: "bra", parts: []string{"bra"}, label: end})
		case st.parts[0] == "bra":
			if len(st.args) != 1 || st.args[0].kind != 'r' {
				l.fail(st, "a branch to something other than one label")
			}
			l.append(in, st, resolved{op: st.op, parts: st.parts, label: st.args[0].name + suffix})
		default:
			i := resolved{op: st.op, parts: st.parts}
			for _, a := range st.args {
				i.args = append(i.args, l.operand(in, st, a))
			}
			l.append(in, st, i)
		}
	}
	l.labels["end"+suffix] = len(l.code)
}

func (l *lowering) append(in *scope, st statement, i resolved) {
	i.line, i.source, i.guard, i.not = st.line, st.source, -1, st.not
	if st.guard != "" {
		r, ok := in.register(st.guard)
		if !ok || l.regs[r].typ.kind != 'p' {
			l.fail(st, "guard %s is no predicate", st.guard)
		}
		i.guard = r
	}
	l.code = append(l.code, i)
}

func (l *lowering) declare(in *scope, r register) {
	for i := range max(r.count, 1) {
		name := r.name
		if r.count > 0 {
			name += strconv.Itoa(i)
		}
		in.names[name] = operand{kind: 'r', reg: int32(len(l.regs)), pair: -1}
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
		return o
	}
	panic(&SyntaxError{l.module.Name, v.line, "a variable of space " + v.space + " in a body"})
}

func (l *lowering) sharedVariable(v variable) operand {
	if v.extern {
		return located(dynamicShared, shared)
	}
	at, ok := l.offsets[v.name]
	if !ok {
		at = alignTo(l.shared, v.align)
		l.shared = at + v.bytes
		l.offsets[v.name] = at
	}
	return located(uint64(at), shared)
}

// dynamicShared stands for where dynamic shared memory begins until the static is known.
const dynamicShared = 1 << 40

// symbol is a register, or the address of a variable in its space.
func (l *lowering) symbol(in *scope, name string) (operand, bool) {
	o, ok := in.find(name)
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

func (l *lowering) operand(in *scope, st statement, a argument) operand {
	o := operand{kind: a.kind, not: a.not, reg: -1, pair: -1, imm: a.imm}
	switch a.kind {
	case 'v':
		for _, e := range a.list {
			o.list = append(o.list, l.operand(in, st, e))
		}
	case 'a':
		o.imm = uint64(a.off)
		if a.name == "" {
			break
		}
		s, ok := l.symbol(in, a.name)
		if !ok {
			l.fail(st, "no register or variable %s", a.name)
		}
		o.reg, o.space = s.reg, s.space
		o.imm += s.imm
	case 'r':
		s, ok := l.symbol(in, a.name)
		switch {
		case ok:
			o = s
			o.not = a.not
			o.imm += uint64(a.off)
		case slices.Contains(specials, a.name):
			o.kind, o.name = 's', a.name
		case a.name == "WARP_SZ":
			o.kind, o.imm = 'i', 32
		default:
			l.fail(st, "%s is no register, variable or special register of the subset", a.name)
		}
		if a.pair != "" && a.pair != "_" {
			if o.pair, ok = in.register(a.pair); !ok {
				l.fail(st, "no register %s", a.pair)
			}
		}
	}
	return o
}

// call puts the called body in place of the call. Parameters of device functions are
// variables of the caller in local memory.
func (l *lowering) call(in *scope, st statement) {
	if st.guard != "" {
		l.fail(st, "a call under a predicate is not of the subset")
	}
	args := st.args
	var results, given []argument
	if len(args) > 0 && args[0].kind == 'v' {
		results, args = args[0].list, args[1:]
	}
	if len(args) == 0 || args[0].kind != 'r' || len(args) > 2 {
		l.fail(st, "a call that names no function")
	}
	if len(args) == 2 {
		given = args[1].list
	}
	f := l.module.functions[args[0].name]
	if f == nil {
		l.fail(st, "no body of function %s", args[0].name)
	}
	if len(given) != len(f.params) || len(results) != len(f.results) {
		l.fail(st, "%s takes %d parameters and gives %d results, the call has %d and %d", f.name, len(f.params), len(f.results), len(given), len(results))
	}
	params := map[string]operand{}
	for i, v := range append(append([]variable{}, f.params...), f.results...) {
		a := append(append([]argument{}, given...), results...)[i]
		o, ok := in.find(a.name)
		if !ok || o.space != local {
			l.fail(st, "argument %s of a call is no .param variable", a.name)
		}
		params[v.name] = o
	}
	end := fmt.Sprintf("end#%d", l.serial+1)
	l.function(f, params, end)
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
		in := &l.code[i]
		for j := range in.args {
			fix(&in.args[j])
		}
		if in.label == "" {
			continue
		}
		t, ok := l.labels[in.label]
		if !ok {
			name, _, _ := strings.Cut(in.label, "#")
			panic(&SyntaxError{l.module.Name, in.line, "no label " + name})
		}
		in.target = t
	}
}

// results is how many of an instruction's arguments it writes: the first, or none.
func (in *resolved) results() int {
	switch in.parts[0] {
	case "st", "bra", "barrier", "ret", "exit", "red", "membar", "fence", "trap", "nanosleep", "prefetch", "prefetchu", "discard", "brkpt":
		return 0
	case "bar":
		if len(in.parts) > 1 && in.parts[1] == "red" {
			return 1
		}
		return 0
	}
	return min(1, len(in.args))
}

// ends tells whether control never goes on behind an instruction.
func (in *resolved) ends() bool {
	return in.guard < 0 && (in.parts[0] == "bra" || in.parts[0] == "ret" || in.parts[0] == "exit" || in.parts[0] == "trap")
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
func (in *resolved) uses(f func(r int32)) {
	if in.guard >= 0 {
		f(in.guard)
	}
	for i := in.results(); i < len(in.args); i++ {
		in.args[i].visit(f)
	}
}

func (in *resolved) defines(f func(r int32)) {
	if in.results() == 1 {
		in.args[0].visit(f)
	}
}
