package ptx

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"
	"unsafe"
)

// Addresses. An allocation has a segment of 2^36 bytes to itself and begins 256 bytes into
// it, so that an address names its allocation and what lies beside is none. Shared and
// local memory have windows below, where generic addresses reach them.
const (
	slotBits     = 36
	first        = 256 // of an allocation, in its segment
	sharedWindow = 1 << 24
	localWindow  = 2 << 24
	windowsEnd   = 3 << 24
	moduleBase   = 1 << 62
)

// space is a kind of memory.
type space uint8

const (
	generic space = iota // an address says which
	global
	shared
	local
	parameter
)

var (
	spaceNames   = [...]string{generic: "generic", global: "global", shared: "shared", local: "local", parameter: "param"}
	spaceClasses = [...]Class{generic: ClassGlobal, global: ClassGlobal, shared: ClassShared, local: ClassLocal, parameter: ClassParameter}
	windows      = [...]uint64{shared: sharedWindow, local: localWindow, parameter: 0} // where their generic addresses begin
)

// segments are the variables of modules, by the upper bits of their addresses.
var segments sync.Map

var compiling sync.Mutex

// newBytes gives zeroed memory aligned to eight bytes.
func newBytes(n int) []byte {
	words := make([]uint64, (n+7)/8+1)
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))[:n]
}

// segment is one allocation.
type segment struct {
	data   []byte
	valid  []byte // for each word, of which bytes; nil: not followed
	shadow *shadow
}

// Memory is the memory of a device. Its methods must not run beside a launch.
type Memory struct {
	slots  []*segment // of slot i at address (i+1) << slotBits
	follow bool       // of what has been written
}

// Alloc gives n bytes, which hold NaN bytes that count as never written.
func (m *Memory) Alloc(n int) uint64 {
	s := &segment{data: newBytes(n)}
	for i := range s.data {
		s.data[i] = 0xff
	}
	if m.follow {
		s.valid = make([]byte, (n+3)/4)
	}
	m.slots = append(m.slots, s)
	return uint64(len(m.slots))<<slotBits + first
}

// Free ends an allocation. An address that is none is false.
func (m *Memory) Free(address uint64) bool {
	i := address>>slotBits - 1
	if address&(1<<slotBits-1) != first || i >= uint64(len(m.slots)) || m.slots[i] == nil {
		return false
	}
	m.slots[i] = nil
	return true
}

// Bytes is the memory from an address on, n bytes that lie in one allocation. written says
// that the caller is going to write them.
func (m *Memory) Bytes(address uint64, n int, writes bool) ([]byte, error) {
	s, offset := m.find(address)
	if s == nil || offset > uint64(len(s.data)) || uint64(n) > uint64(len(s.data))-offset {
		return nil, fmt.Errorf("%d bytes at %#x lie in no allocation", n, address)
	}
	if writes && s.valid != nil {
		for position := offset; position < offset+uint64(n); {
			if position&3 == 0 && offset+uint64(n)-position >= 4 {
				s.valid[position>>2] = 15
				position += 4
			} else {
				s.valid[position>>2] |= 1 << (position & 3)
				position++
			}
		}
	}
	return s.data[offset : offset+uint64(n) : offset+uint64(n)], nil
}

// find gives the allocation that an address names and the offset in it.
func (m *Memory) find(address uint64) (*segment, uint64) {
	i := address >> slotBits
	offset := address&(1<<slotBits-1) - first
	if i-1 < uint64(len(m.slots)) {
		return m.slots[i-1], offset
	}
	if v, ok := segments.Load(i); ok {
		return &segment{data: v.([]byte)}, offset + first
	}
	return nil, 0
}

// access is what an instruction does with memory.
type access struct {
	space     space
	store     bool
	atomic    bool
	size      int // bytes of an element
	count     int // elements
	base      int32
	wide      bool // the base register has 64 bits
	offset    uint64
	registers []int32 // of the elements, loaded into or stored; −1: left out
	width     int     // bytes of these registers
}

func (a *access) bytes() int { return a.size * a.count }

// cached are the modifiers of accesses that change nothing here: each access is executed at once.
var cached = []string{"nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "volatile", "weak", "relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "sys",
	"L1::no_allocate", "L2::128B", "L2::256B", "L2::64B"}

// memory compiles loads, stores and atomics.
func (b *builder) memory(out *instr) {
	in := b.instruction
	t := b.last()
	a := &access{size: t.size, count: 1, base: -1}
	operation := ""
	for _, p := range in.parts[1 : len(in.parts)-1] {
		declared := space(slices.Index(spaceNames[:], p))
		switch {
		case p == "const":
			declared = global
			fallthrough
		case slices.Contains(spaceNames[1:], p):
			if a.space != generic {
				b.unknown()
			}
			a.space = declared
		case p == "v2":
			a.count = 2
		case p == "v4":
			a.count = 4
		case combined[p] != nil && (in.parts[0] == "atom" || in.parts[0] == "red"):
			operation = p
		case !slices.Contains(cached, p):
			b.unknown()
		}
	}
	if t.kind == 'p' || t.kind == 'f' && t.size == 2 {
		b.unknown()
	}
	index := in.results()
	if len(in.args) <= index || in.args[index].kind != 'a' {
		b.fail("its address is none")
	}
	address := in.args[index]
	a.offset = address.imm
	if address.reg >= 0 {
		width := b.regs[address.reg].width()
		if width < 4 {
			b.fail("its address is a register of too few bits")
		}
		a.base, a.wide = b.slot[address.reg], width == 8
	}
	switch {
	case a.space == parameter && address.space == local:
		a.space = local
	case a.space == parameter && (address.space != parameter && address.reg < 0 || in.parts[0] == "st"), a.space != parameter && address.space == parameter:
		b.fail("a parameter's address in another space")
	case a.space == generic && address.space != generic:
		a.space = address.space
	}
	out.access, out.kind, out.class = a, doMasked, spaceClasses[a.space]
	switch in.parts[0] {
	case "ld", "ldu":
		b.arity(2)
		b.load(out, a, t)
	case "st":
		b.arity(2)
		b.store(out, a, t)
	default:
		b.atomics(out, a, t, operation)
	}
}

func elements(o operand) []operand {
	if o.kind == 'v' {
		return o.list
	}
	return []operand{o}
}

// transferred finds the registers of an access's elements, which are all of one width.
func (b *builder) transferred(a *access, t typ, list []operand) {
	if len(list) != a.count {
		b.fail("%d registers, %d are due", len(list), a.count)
	}
	for _, o := range list {
		if o.kind == 'r' {
			a.width = b.width(o, t)
		}
	}
	if a.width == 0 {
		a.width = max(t.size, 2)
	} else if a.width < t.size {
		b.fail("a register of fewer bits")
	}
	for _, o := range list {
		switch {
		case o.kind == '_' && !a.store:
			a.registers = append(a.registers, -1)
		case o.kind == 'r':
			a.registers = append(a.registers, b.register(o, a.width))
		case a.store:
			b.operand(o, t) // what is no number either
			a.registers = append(a.registers, b.numbered(number64(o, t), a.width))
		default:
			b.fail("its result is no register")
		}
	}
}

// mover moves an element of an access that lies so many bytes into it between memory, at w.at, and a register.
type mover func(w *warp, register unsafe.Pointer, offset int, mask uint32)

func loading[M integer | int8 | uint8]() {
	loaders[typeFor[M]()] = map[int]mover{2: loaded[uint16, M], 4: loaded[uint32, M], 8: loaded[uint64, M]}
}

func loaded[R integer, M integer | int8 | uint8](w *warp, register unsafe.Pointer, offset int, mask uint32) {
	d := vector[R](register)
	if mask == all {
		for i := range d {
			d[i] = R(*(*M)(unsafe.Add(w.pointers[i], offset)))
		}
		return
	}
	for i := range lanes(mask) {
		d[i] = R(*(*M)(unsafe.Add(w.pointers[i], offset)))
	}
}

func (b *builder) load(out *instr, a *access, t typ) {
	b.transferred(a, t, elements(b.instruction.args[0]))
	if t.kind != 's' {
		t.kind = 'u'
	}
	out.effect = a.transfer(loaders[t][a.width])
}

// transfer moves the elements of an access.
func (a *access) transfer(move mover) func(w *warp, mask uint32) {
	return func(w *warp, mask uint32) {
		w.locate(a, mask)
		for k, slot := range a.registers {
			if slot >= 0 {
				move(w, w.register(slot), k*a.size, mask)
			}
		}
	}
}

// storers move the lower bytes of registers into memory, by the bytes there.
var storers = map[int]func(width int) mover{1: stored[uint8], 2: stored[uint16], 4: stored[uint32], 8: stored[uint64]}

func stored[M any](width int) mover {
	return func(w *warp, register unsafe.Pointer, offset int, mask uint32) {
		for m := mask; m != 0; m &= m - 1 { // an iterator is not inlined here
			i := bits.TrailingZeros32(m) & 31
			*(*M)(unsafe.Add(w.pointers[i], offset)) = *(*M)(unsafe.Add(register, i*width))
		}
	}
}

func (b *builder) store(out *instr, a *access, t typ) {
	a.store = true
	b.transferred(a, t, elements(b.instruction.args[1]))
	out.effect = a.transfer(storers[t.size](a.width))
}

// combined are the operations of atomics on 32 bits without a sign.
var combined = map[string]func(old, v, c uint32) uint32{
	"add":  func(old, v, _ uint32) uint32 { return old + v },
	"min":  func(old, v, _ uint32) uint32 { return min(old, v) },
	"max":  func(old, v, _ uint32) uint32 { return max(old, v) },
	"and":  func(old, v, _ uint32) uint32 { return old & v },
	"or":   func(old, v, _ uint32) uint32 { return old | v },
	"xor":  func(old, v, _ uint32) uint32 { return old ^ v },
	"exch": func(_, v, _ uint32) uint32 { return v },
	"cas": func(old, v, c uint32) uint32 {
		if old == v {
			return c
		}
		return old
	},
}

// combinedAs are those that differ by type.
var combinedAs = map[string]func(old, v, c uint32) uint32{
	"min.s32": func(old, v, _ uint32) uint32 { return uint32(min(int32(old), int32(v))) },
	"max.s32": func(old, v, _ uint32) uint32 { return uint32(max(int32(old), int32(v))) },
	"add.f32": func(old, v, _ uint32) uint32 {
		return math.Float32bits(math.Float32frombits(old) + math.Float32frombits(v))
	},
}

// atomics compiles atom and red on 32 bits; lanes come one after the other, in an order that the seed draws.
func (b *builder) atomics(out *instr, a *access, t typ, operation string) {
	in := b.instruction
	a.store, a.atomic = true, true
	f, ok := combinedAs[operation+"."+t.String()]
	if !ok && (t.kind != 'f' || operation == "exch") {
		f = combined[operation]
	}
	index := in.results() + 1
	operands := 1 + int(bit(operation == "cas"))
	if f == nil || len(in.args) != index+operands || t.size != 4 || a.count != 1 {
		b.unknown()
	}
	d := int32(-1)
	if in.results() == 1 && in.args[0].kind != '_' {
		d = b.register(in.args[0], 4)
	}
	x, y := b.operand(in.args[index], t), b.operand(in.args[index+operands-1], t)
	out.effect = func(w *warp, mask uint32) {
		w.run.atomics.Lock()
		defer w.run.atomics.Unlock()
		w.locate(a, mask)
		p, q := vector[uint32](w.register(x)), vector[uint32](w.register(y))
		for _, i := range w.laneOrder(mask) {
			dst := (*uint32)(w.pointers[i])
			old := *dst
			*dst = f(old, p[i], q[i])
			if d >= 0 {
				vector[uint32](w.register(d))[i] = old
			}
		}
	}
}

// locate finds, for the lanes of a mask, the memory that an access means, w.pointers, and reports what is out of bounds,
// misaligned, unwritten or a race.
func (w *warp) locate(a *access, mask uint32) {
	addr := &w.addresses
	switch {
	case a.base < 0:
		for i := range addr {
			addr[i] = a.offset
		}
	case a.wide:
		p := vector[uint64](w.register(a.base))
		for i := range addr {
			addr[i] = p[i] + a.offset
		}
	default:
		p := vector[uint32](w.register(a.base))
		for i := range addr {
			addr[i] = uint64(p[i]) + a.offset
		}
	}
	if a.space != generic {
		w.reach(a, a.space, mask)
		return
	}
	for rest := mask; rest != 0; { // nearly always one round: a warp's addresses lie in one space
		space := spaceOf(addr[bits.TrailingZeros32(rest)])
		var group uint32
		for i := range lanes(rest) {
			if spaceOf(addr[i]) == space {
				group |= 1 << i
				addr[i] -= windows[space]
			}
		}
		w.reach(a, space, group)
		rest &^= group
	}
}

// spaceOf is the space that a generic address lies in.
func spaceOf(address uint64) space {
	switch {
	case address >= windowsEnd || address < sharedWindow:
		return global
	case address >= localWindow:
		return local
	}
	return shared
}

// reach checks the bounds and alignment of addresses in a space, sets w.pointers, and follows the access.
func (w *warp) reach(a *access, space space, mask uint32) {
	n := uint64(a.bytes())
	addr := &w.addresses
	if space == global {
		for i := range lanes(mask) {
			x := addr[i]
			if x>>slotBits != w.lastSlot {
				w.last, _ = w.run.machine.Memory.find(x)
				w.lastSlot = x >> slotBits
			}
			s := w.last
			if s == nil {
				w.outOfBounds(a, space, i, 0)
			}
			position := offset(x)
			if size := uint64(len(s.data)); position > size || size-position < n || x&(n-1) != 0 {
				w.outOfBounds(a, space, i, size)
			}
			w.pointers[i] = unsafe.Pointer(&s.data[position])
		}
	} else {
		data, size, stride := w.block.shared, len(w.block.shared), 0
		switch space {
		case local:
			data, size, stride = w.local, w.kernel.Local, w.kernel.Local
		case parameter:
			data, size = w.run.args, len(w.run.args)
		}
		for i := range lanes(mask) {
			x := addr[i]
			if size := uint64(size); x > size || size-x < n || x&(n-1) != 0 {
				w.outOfBounds(a, space, i, size)
			}
			w.pointers[i] = unsafe.Pointer(&data[uint64(i*stride)+x])
		}
	}
	if w.checks != 0 {
		w.observe(a, space, mask)
	}
}

// offset is where in its allocation a global address lies.
func offset(address uint64) uint64 {
	if address >= moduleBase {
		return address & (1<<slotBits - 1)
	}
	return address&(1<<slotBits-1) - first
}

// outOfBounds ends the launch at an access that no memory is for.
func (w *warp) outOfBounds(a *access, space space, lane int, size uint64) {
	x, n := w.addresses[lane], uint64(a.bytes())
	verb := "read"
	if a.store {
		verb = "write"
	}
	position := x
	if space == global {
		position = offset(x)
	}
	switch {
	case x&(n-1) != 0:
		w.fail(FaultMisaligned, 1<<lane, fmt.Sprintf("a %s of %d bytes of %s memory at address %#x, which is not a multiple", verb, n, spaceNames[space], x))
	case space == global && w.last == nil:
		w.fail(FaultBounds, 1<<lane, fmt.Sprintf("a %s of %d bytes at address %#x, where no live allocation is", verb, n, x))
	}
	w.fail(FaultBounds, 1<<lane, fmt.Sprintf("a %s of %d bytes at offset %d of %s memory of %d bytes", verb, n, int64(position), spaceNames[space], size))
}
