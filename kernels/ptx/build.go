package ptx

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"unsafe"
)

// Kinds of instructions, by what warp.execute does with them.
const (
	doLanes     uint8 = iota // apply fills the lanes of a register
	doPredicate              // holds gives the bits of a predicate
	doMasked                 // effect does all, for the lanes of a mask
	doBranch                 // to target
	doExit                   // the lanes end
	doTogether               // effect, once all lanes of need have come
	doBarrier                // the block's barrier
)

// instr is an instruction as a warp executes it. A register is named by where it lies in warp.registers, a predicate
// by its index in warp.predicates.
type instr struct {
	kind     uint8
	size     uint8 // bytes of a lane of the result
	negated  bool  // of the guard
	reduce   bool  // of a barrier: or
	always   bool  // suspect is followed without checks of memory too
	class    Class
	guard    int32 // a predicate, −1: none
	dst      int32
	target   int32
	line     int32
	operands [3]int32 // operands of apply
	apply    operation
	holds    func(w *warp) uint32
	effect   func(w *warp, mask uint32)
	need     func(w *warp) uint32
	access   *access  // of memory, nil: none
	unsure   *suspect // its registers that may hold what was never written, nil: none
	moves    func(w *warp, s *suspect, mask uint32)
	op       string
	source   source
}

// Class is a kind of instruction as counts tell them.
type Class uint8

// Classes of instructions.
const (
	ClassFloat32 Class = iota
	ClassFloat64
	ClassInteger
	ClassConvert
	ClassMove
	ClassCompare
	ClassControl
	ClassShared
	ClassGlobal
	ClassLocal
	ClassParameter
	ClassShuffle
	ClassBarrier
	ClassTensor
	ClassSpecial // approximations, roots and divisions
	classes
)

var classNames = [classes]string{"float32", "float64", "integer", "convert", "move", "compare", "control", "shared", "global", "local", "parameter", "shuffle", "barrier", "tensor", "special"}

func (c Class) String() string { return classNames[c] }

// Kernel is an entry compiled for execution.
type Kernel struct {
	Name       string
	Module     *Module
	Params     []Param
	Shared     int    // static bytes of shared memory
	Local      int    // bytes a thread
	MaxThreads [3]int // of .maxntid; 0: not said

	code       []instr
	args       int       // bytes
	predicates int       // registers of them
	registers  int       // bytes of a warp's special registers and registers; constants lie behind
	constants  []uint64  // the bytes behind
	tracked    []string  // registers that may hold what was never written
	unwritten  []int32   // those of tracked that hold it from the begin
	dynamicAt  int       // where dynamic shared memory begins
	warps      sync.Pool // of *warp, for the next launch
}

// Param is one parameter of a kernel.
type Param struct {
	Offset, Size int
	Kind         byte // 'f' a float, 's' bytes, 0 an integer or address
}

// Bounds of the document on a thread's local memory, and of any device on a block's static shared memory.
const (
	mostLocal  = 512 << 10
	mostShared = 256 << 10
)

// Entries lists the entry points.
func (m *Module) Entries() []string { return slices.Clone(m.entries) }

// Kernel compiles an entry, once. What the subset lacks is a *SyntaxError.
func (m *Module) Kernel(name string) (k *Kernel, err error) {
	compiling.Lock()
	defer compiling.Unlock()
	if k := m.kernels[name]; k != nil {
		return k, nil
	}
	f := m.functions[name]
	if f == nil || !f.entry {
		return nil, fmt.Errorf("%s has no entry %s", m.Name, name)
	}
	defer caught(&err)
	m.place()
	k = &Kernel{Name: name, Module: m, MaxThreads: f.maxTid}
	params := map[string]operand{}
	for _, v := range f.params {
		offset := alignTo(k.args, v.align)
		params[v.name] = located(uint64(offset), parameter)
		p := Param{Offset: offset, Size: v.bytes}
		if v.typ.kind == 'f' && v.bytes == v.typ.size {
			p.Kind = 'f'
		} else if v.bytes != v.typ.size {
			p.Kind = 's'
		}
		k.Params = append(k.Params, p)
		k.args = offset + v.bytes
	}
	l := &lowering{module: m, labels: map[string]int{}, offsets: map[string]int{}}
	l.function(f, params, "")
	l.resolve()
	if l.deepest > mostLocal || l.shared > mostShared {
		return nil, fmt.Errorf("%s: entry %s takes %d bytes of local memory a thread and %d of shared memory: at most %d and %d are executed", m.Name, name, l.deepest, l.shared, mostLocal, mostShared)
	}
	k.Shared, k.Local, k.dynamicAt = l.shared, alignTo(l.deepest, 16), alignTo(l.shared, 16)
	b := &builder{kernel: k, regs: l.regs, constant: map[constant]int32{}, track: map[int32]int32{}}
	var first []int32
	b.slot, first = assign(l.code, l.regs, k)
	b.check = tainted(l.code, first, len(l.regs), false)
	tainted(l.code, first, len(l.regs), true).forEach(func(r int32) {
		b.track[r] = int32(len(k.tracked))
		k.tracked = append(k.tracked, l.regs[r].name)
	})
	for _, r := range first {
		k.unwritten = append(k.unwritten, b.track[r])
	}
	for i := range l.code {
		k.code = append(k.code, b.build(&l.code[i]))
	}
	last := instr{kind: doExit, guard: -1, op: "ret", class: ClassControl}
	if n := len(k.code); n > 0 {
		last.line, last.source = k.code[n-1].line, k.code[n-1].source
	}
	k.code = append(k.code, last)
	m.kernels[name] = k
	return k, nil
}

// caught turns a panic with a *SyntaxError into an error.
func caught(err *error) {
	if r := recover(); r != nil {
		e, ok := r.(*SyntaxError)
		if !ok {
			panic(r)
		}
		*err = e
	}
}

// builder compiles instructions.
type builder struct {
	kernel      *Kernel
	regs        []vreg
	slot        []int32
	constant    map[constant]int32
	track       map[int32]int32 // its index in Kernel.tracked
	check       bitset          // registers that may hold what was never written, were all memory written
	instruction *resolved
}

// constant is a number that all lanes hold.
type constant struct {
	bits uint64
	size int
}

func (b *builder) fail(format string, a ...any) {
	panic(&SyntaxError{b.kernel.Module.Name, b.instruction.line, b.instruction.op + ": " + fmt.Sprintf(format, a...)})
}

func (b *builder) unknown() { b.fail("the instruction is not of the subset") }

// number64 is an immediate operand as bits of a type.
func number64(o operand, t typ) uint64 {
	switch {
	case o.kind == 'd' && t.size == 4:
		return uint64(math.Float32bits(float32(math.Float64frombits(o.imm))))
	case o.kind == 'f' && t.size == 8:
		return math.Float64bits(float64(math.Float32frombits(uint32(o.imm))))
	case o.kind == 'i' && t.kind == 'f':
		return number64(operand{kind: 'd', imm: math.Float64bits(float64(int64(o.imm)))}, t)
	}
	return o.imm
}

// numbered is where a number lies that all lanes hold.
func (b *builder) numbered(bits uint64, size int) int32 {
	c := constant{bits << (64 - 8*size) >> (64 - 8*size), size}
	offset, ok := b.constant[c]
	if !ok {
		k := b.kernel
		offset = int32(k.registers + 8*len(k.constants))
		b.constant[c] = offset
		k.constants = append(k.constants, make([]uint64, 4*size)...)
		for lane := range 32 {
			store(unsafe.Add(unsafe.Pointer(&k.constants[len(k.constants)-4*size]), lane*size), size, c.bits)
		}
	}
	return offset
}

// operand is where an operand of a type lies.
func (b *builder) operand(o operand, t typ) int32 {
	switch o.kind {
	case 'i', 'f', 'd':
		return b.numbered(number64(o, t), t.size)
	case 's':
		if t.size == 4 {
			return int32(128 * slices.Index(specials, o.name))
		}
	case 'r':
		return b.register(o, t.size)
	}
	b.fail("an operand that is neither a register nor a number of %d bits", 8*t.size)
	return 0
}

// register is where a register of so many bytes lies.
func (b *builder) register(o operand, size int) int32 {
	if o.kind != 'r' {
		b.fail("an operand that is no register")
	}
	if r := b.regs[o.reg]; r.width() != size {
		b.fail("register %s is of another width than %d bits", r.name, 8*size)
	}
	return b.slot[o.reg]
}

// width is the bytes of an operand's register, or those of a type where it is a number.
func (b *builder) width(o operand, t typ) int {
	if o.kind == 'r' {
		return b.regs[o.reg].width()
	}
	return max(t.size, 2)
}

// predicate gives a predicate as a function, since it may be negated or a number.
func (b *builder) predicate(o operand) func(w *warp) uint32 {
	if o.kind == 'i' {
		v := -bit(o.imm != 0)
		return func(*warp) uint32 { return v }
	}
	s := b.register(o, 0)
	if o.negated {
		return func(w *warp) uint32 { return ^w.predicates[s] }
	}
	return func(w *warp) uint32 { return w.predicates[s] }
}

func (b *builder) hasModifier(modifier string) bool {
	return slices.Contains(b.instruction.parts[1:], modifier)
}

// allow fails for a modifier that is neither a type nor among those known.
func (b *builder) allow(allowed ...string) {
	for _, p := range b.instruction.parts[1:] {
		if _, ok := typeOf(p); !ok && !slices.Contains(allowed, p) {
			b.unknown()
		}
	}
}

func (b *builder) arity(n int) {
	if len(b.instruction.args) != n {
		b.fail("%d operands, %d are due", len(b.instruction.args), n)
	}
}

// last is the type that an opcode ends with, behind its name.
func (b *builder) last() typ {
	n := len(b.instruction.parts) - 1
	t, ok := typeOf(b.instruction.parts[n])
	if !ok || n == 0 {
		b.unknown()
	}
	return t
}

// compilers are for what the table of semantics cannot describe.
var compilers = map[string]func(b *builder, out *instr){
	"bra": (*builder).control, "ret": (*builder).control, "exit": (*builder).control, "trap": (*builder).control,
	"membar": (*builder).control, "fence": (*builder).control, "bar": (*builder).barrier, "barrier": (*builder).barrier,
	"ld": (*builder).memory, "ldu": (*builder).memory, "st": (*builder).memory, "atom": (*builder).memory, "red": (*builder).memory,
	"mov": (*builder).move, "cvt": (*builder).convert, "cvta": (*builder).address, "setp": (*builder).compare, "selp": (*builder).selected,
	"bfi": (*builder).insert, "shfl": (*builder).shuffle, "vote": (*builder).vote, "mma": (*builder).mma,
}

// build compiles an instruction.
func (b *builder) build(in *resolved) instr {
	b.instruction = in
	out := instr{guard: -1, negated: in.negated, line: int32(in.line), op: in.op, source: in.source}
	if in.guard >= 0 {
		out.guard = b.slot[in.guard]
	}
	out.unsure, out.always = b.suspects(in)
	switch compile := compilers[in.parts[0]]; {
	case compile != nil:
		compile(b, &out)
	case b.last().kind == 'p':
		b.logic(&out)
	default:
		b.arithmetic(&out, in.args)
	}
	return out
}

// control compiles what moves no data.
func (b *builder) control(out *instr) {
	out.class = ClassControl
	switch b.instruction.parts[0] {
	case "bra":
		out.kind, out.target = doBranch, int32(b.instruction.target)
	case "ret", "exit":
		out.kind = doExit
	case "trap":
		out.kind = doMasked
		out.effect = func(w *warp, mask uint32) { w.fail(FaultTrap, mask, "trap") }
	default: // the machine executes memory accesses in order
		out.kind, out.class = doMasked, ClassBarrier
		out.effect = func(*warp, uint32) {}
	}
}

// key is an opcode as semantics names it; of float32 also whether subnormal numbers are flushed to zero and the
// result is bounded to 0 to 1.
func (instruction *resolved) key() (key string, flushes, saturates bool) {
	n := len(instruction.parts) - 1
	t, _ := typeOf(instruction.parts[n])
	key = instruction.parts[0]
	for _, p := range instruction.parts[1:n] {
		switch {
		case p == "rn" && t.kind == 'f':
		case p == "ftz" && t == typ{'f', 4}:
			flushes = true
		case p == "sat" && t == typ{'f', 4}:
			saturates = true
		default:
			key += "." + p
		}
	}
	if t.kind == 'b' {
		t.kind = 'u'
	}
	return key + "." + t.String(), flushes, saturates
}

// arithmetic compiles what the table of semantics has: the first of args is the result.
func (b *builder) arithmetic(out *instr, args []operand) {
	key, flushes, saturates := b.instruction.key()
	s, ok := semantics[key]
	if !ok || len(args) == 0 {
		b.unknown()
	}
	if len(args) != 1+len(s.sources) {
		b.fail("%d operands, %d are due", len(args), 1+len(s.sources))
	}
	if flushes {
		s.apply = flushed(s.apply)
	}
	if saturates {
		s.apply = saturated(s.apply)
	}
	b.lanes(out, s, args)
}

// lanes compiles an operation: the first of args is the result.
func (b *builder) lanes(out *instr, s semantic, args []operand) {
	out.kind, out.class, out.apply = doLanes, s.class, s.apply
	out.size, out.dst = uint8(s.result.size), b.register(args[0], s.result.size)
	for i := range out.operands {
		if i < len(s.sources) {
			out.operands[i] = b.operand(args[i+1], s.sources[i])
		} else {
			out.operands[i] = b.numbered(0, 8)
		}
	}
}

// store writes the lower bytes of a number.
func store(dst unsafe.Pointer, size int, v uint64) {
	switch size {
	case 1:
		*(*uint8)(dst) = uint8(v)
	case 2:
		*(*uint16)(dst) = uint16(v)
	case 4:
		*(*uint32)(dst) = uint32(v)
	default:
		*(*uint64)(dst) = v
	}
}
