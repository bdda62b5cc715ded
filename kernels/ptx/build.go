package ptx

import (
	"fmt"
	"math"
	"strings"
)

type (
	v32 = [32]uint32
	v64 = [32]uint64
)

// Kinds of instructions, by what the loop of warp.run does with them.
const (
	do32       uint8 = iota // f32 fills 32 lanes of a register of up to 32 bits
	do64                    // f64 those of 64 bits
	doPred                  // fp gives the bits of a predicate
	doAny                   // fx does all, for the lanes of a mask
	doBranch                // to target
	doExit                  // the lanes end
	doTogether              // fx, once all lanes of need have come
	doBarrier               // the block's barrier
)

// instr is an instruction as a warp executes it.
type instr struct {
	kind    uint8
	not     bool // of the guard
	class   Class
	access  *access // of memory, nil: none
	guard   int32   // slot of a predicate, −1: none
	dst     int32
	target  int32
	line    int32
	f32     func(w *warp, d *v32)
	f64     func(w *warp, d *v64)
	fp      func(w *warp) uint32
	fx      func(w *warp, mask uint32)
	need    func(w *warp) uint32
	pred    func(w *warp) uint32 // of a barrier with a reduction
	reduce  bool                 // of a barrier: or
	suspect *suspect             // of registers that may hold what was never written
	tracked *suspect             // and of what may have been read of memory that was not
	moves   func(w *warp, s *suspect, mask uint32)
	op      string
	source  source
	value   func(w *warp, element, lane int) uint64 // of a store
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
	Registers  [3]int // slots in use at most: predicates, 32 bits, 64 bits

	code      []instr
	args      int // bytes
	const32   []uint32
	const64   []uint64
	checked   []string // registers that may hold what was never written
	tracked   []string // and those that memory may bring such
	dynamicAt int      // where dynamic shared memory begins
}

// Param is one parameter of a kernel.
type Param struct {
	Offset, Size int
	Kind         byte // 'f' a float, 's' bytes, 0 an integer or address
}

// Entries lists the entry points.
func (m *Module) Entries() []string { return append([]string(nil), m.entries...) }

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
	if err := m.place(); err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*SyntaxError)
			if !ok {
				panic(r)
			}
			k, err = nil, e
		}
	}()
	k = &Kernel{Name: name, Module: m, MaxThreads: f.maxTid}
	params := map[string]operand{}
	for _, v := range f.params {
		at := alignTo(k.args, v.align)
		params[v.name] = operand{kind: 'i', imm: uint64(at), space: 'p'}
		p := Param{Offset: at, Size: v.bytes}
		if v.typ.kind == 'f' && v.bytes == v.typ.size {
			p.Kind = 'f'
		} else if v.bytes != v.typ.size {
			p.Kind = 's'
		}
		k.Params = append(k.Params, p)
		k.args = at + v.bytes
	}
	l := &lowering{module: m, labels: map[string]int{}, offsets: map[string]int{}}
	l.function(f, params, "")
	l.resolve()
	k.Shared, k.Local, k.dynamicAt = l.shared, alignTo(l.local, 16), alignTo(l.shared, 16)
	slots, counts, first := assign(l.code, l.regs)
	k.Registers = counts
	b := &builder{kernel: k, regs: l.regs, slot: slots, base: counts, index32: map[uint32]int{}, index64: map[uint64]int{}, check: map[int32]int32{}, track: map[int32]int32{}}
	for _, r := range tainted(l.code, first, len(l.regs), false) {
		b.check[r] = int32(len(k.checked))
		k.checked = append(k.checked, l.regs[r].name)
	}
	for _, r := range tainted(l.code, first, len(l.regs), true) {
		b.track[r] = int32(len(k.tracked))
		k.tracked = append(k.tracked, l.regs[r].name)
	}
	k.code = make([]instr, 0, len(l.code)+1)
	for i := range l.code {
		k.code = append(k.code, b.build(&l.code[i]))
	}
	last := instr{kind: doExit, guard: -1, op: "ret", class: ClassControl}
	if n := len(k.code); n > 0 {
		last.line, last.source = k.code[n-1].line, k.code[n-1].source
	}
	k.code = append(k.code, last)
	k.const32, k.const64 = b.const32, b.const64
	m.kernels[name] = k
	return k, nil
}

// builder compiles instructions to functions over slots.
type builder struct {
	kernel  *Kernel
	regs    []vreg
	slot    []int32
	base    [3]int
	const32 []uint32
	const64 []uint64
	index32 map[uint32]int
	index64 map[uint64]int
	check   map[int32]int32 // index among Kernel.checked
	track   map[int32]int32
	in      *inst
}

func (b *builder) fail(format string, a ...any) {
	panic(&SyntaxError{b.kernel.Module.Name, b.in.line, fmt.Sprintf(format, a...)})
}

func (b *builder) unknown() { b.fail("%s is not of the subset", b.in.op) }

// number is an immediate operand as bits of a type.
func (b *builder) number(o operand, t typ) uint64 {
	switch {
	case o.kind == 'd' && t.size == 4:
		return uint64(math.Float32bits(float32(math.Float64frombits(o.imm))))
	case o.kind == 'f' && t.size == 8:
		return math.Float64bits(float64(math.Float32frombits(uint32(o.imm))))
	case o.kind == 'i' && t.kind == 'f':
		if t.size == 4 {
			return uint64(math.Float32bits(float32(int64(o.imm))))
		}
		return math.Float64bits(float64(int64(o.imm)))
	}
	return o.imm
}

// s32, s64 and sp give the slots of operands of up to 32 bits, of 64, and of predicates.
func (b *builder) s32(o operand, t typ) int {
	switch o.kind {
	case 'i', 'f', 'd':
		v := uint32(b.number(o, t))
		if t.size == 2 {
			v &= 0xffff
		}
		at, ok := b.index32[v]
		if !ok {
			at = b.base[1] + len(b.const32)
			b.index32[v] = at
			b.const32 = append(b.const32, v)
		}
		return at
	case 'r':
		if b.regs[o.reg].file() != 1 {
			b.fail("%s: register %s is of another width", b.in.op, b.regs[o.reg].name)
		}
		return int(b.slot[o.reg])
	}
	b.fail("%s: an operand that is neither register nor number", b.in.op)
	return 0
}

func (b *builder) s64(o operand, t typ) int {
	switch o.kind {
	case 'i', 'f', 'd':
		v := b.number(o, t)
		at, ok := b.index64[v]
		if !ok {
			at = b.base[2] + len(b.const64)
			b.index64[v] = at
			b.const64 = append(b.const64, v)
		}
		return at
	case 'r':
		if b.regs[o.reg].file() != 2 {
			b.fail("%s: register %s is of another width", b.in.op, b.regs[o.reg].name)
		}
		return int(b.slot[o.reg])
	}
	b.fail("%s: an operand that is neither register nor number", b.in.op)
	return 0
}

// sp gives a predicate as a function, since it may be negated or a number.
func (b *builder) sp(o operand) func(w *warp) uint32 {
	if o.kind == 'i' {
		var v uint32
		if o.imm != 0 {
			v = ^v
		}
		return func(*warp) uint32 { return v }
	}
	if o.kind != 'r' || b.regs[o.reg].file() != 0 {
		b.fail("%s: an operand that is no predicate", b.in.op)
	}
	s := b.slot[o.reg]
	if o.not {
		return func(w *warp) uint32 { return ^w.pred[s] }
	}
	return func(w *warp) uint32 { return w.pred[s] }
}

func (b *builder) dst(o operand, file int) int32 {
	if o.kind != 'r' || b.regs[o.reg].file() != file {
		b.fail("%s: its result has another width", b.in.op)
	}
	return b.slot[o.reg]
}

func (b *builder) has(modifier string) bool {
	for _, p := range b.in.parts[1:] {
		if p == modifier {
			return true
		}
	}
	return false
}

// only fails for a modifier that is not among those known.
func (b *builder) only(known ...string) {
	for _, p := range b.in.parts[1:] {
		if _, ok := typeOf(p); !ok && !strings.Contains(" "+strings.Join(known, " ")+" ", " "+p+" ") {
			b.unknown()
		}
	}
}

func (b *builder) arity(n int) {
	if len(b.in.args) != n {
		b.fail("%s has %d operands, %d are due", b.in.op, len(b.in.args), n)
	}
}

// last is the type that an opcode ends with.
func (b *builder) last() typ {
	t, ok := typeOf(b.in.parts[len(b.in.parts)-1])
	if !ok {
		b.unknown()
	}
	return t
}

func (b *builder) build(in *inst) instr {
	b.in = in
	out := instr{guard: -1, not: in.not, line: int32(in.line), op: in.op, source: in.source}
	if in.guard >= 0 {
		out.guard = b.slot[in.guard]
	}
	out.suspect, out.tracked = b.suspects(in, b.check), b.suspects(in, b.track)
	switch in.parts[0] {
	case "bra":
		out.kind, out.class, out.target = doBranch, ClassControl, int32(in.target)
	case "ret", "exit":
		out.kind, out.class = doExit, ClassControl
	case "trap":
		out.kind, out.class = doAny, ClassControl
		out.fx = func(w *warp, mask uint32) { w.fail(FaultTrap, mask, "trap") }
	case "ld", "ldu", "st", "atom", "red":
		b.memory(&out)
	case "mov":
		b.move(&out)
	case "cvt":
		b.convert(&out)
	case "cvta":
		b.address(&out)
	case "setp":
		b.compare(&out)
	case "selp":
		b.selected(&out)
	case "shfl", "vote", "mma", "bar", "barrier", "membar", "fence":
		b.together(&out)
	default:
		b.arithmetic(&out)
	}
	return out
}
