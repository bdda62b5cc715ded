package ptx

import (
	"fmt"
	"math"
	"math/bits"
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
	data    []byte
	written []byte // for each word, of which bytes; nil: not followed
	shadow  *shadow
}

// Memory is the memory of a device. Its methods must not run beside a launch.
type Memory struct {
	slots  []*segment // of slot i at address (i+1) << slotBits
	follow bool       // of what has been written
	used   int
}

// Alloc gives n bytes, which hold NaN bytes that count as never written.
func (m *Memory) Alloc(n int) uint64 {
	s := &segment{data: newBytes(n)}
	for i := range s.data {
		s.data[i] = 0xff
	}
	if m.follow {
		s.written = make([]byte, (n+3)/4)
	}
	m.slots = append(m.slots, s)
	m.used += n
	return uint64(len(m.slots))<<slotBits + first
}

// Free ends an allocation. An address that is none is false.
func (m *Memory) Free(address uint64) bool {
	i := address>>slotBits - 1
	if address&(1<<slotBits-1) != first || i >= uint64(len(m.slots)) || m.slots[i] == nil {
		return false
	}
	m.used -= len(m.slots[i].data)
	m.slots[i] = nil
	return true
}

// Bytes is the memory from an address on, n bytes that lie in one allocation. written says
// that the caller is going to write them.
func (m *Memory) Bytes(address uint64, n int, written bool) ([]byte, error) {
	s, off := m.find(address)
	if s == nil || off > uint64(len(s.data)) || uint64(n) > uint64(len(s.data))-off {
		return nil, fmt.Errorf("%d bytes at %#x lie in no allocation", n, address)
	}
	if written && s.written != nil {
		for at := off; at < off+uint64(n); {
			if at&3 == 0 && off+uint64(n)-at >= 4 {
				s.written[at>>2] = 15
				at += 4
			} else {
				s.written[at>>2] |= 1 << (at & 3)
				at++
			}
		}
	}
	return s.data[off : off+uint64(n) : off+uint64(n)], nil
}

// Lives tells whether an address lies in or right behind a live allocation.
func (m *Memory) Lives(address uint64) bool {
	s, off := m.find(address)
	return s != nil && off <= uint64(len(s.data))
}

// find gives the allocation that an address names and the offset in it.
func (m *Memory) find(address uint64) (*segment, uint64) {
	i := address >> slotBits
	off := address&(1<<slotBits-1) - first
	if i-1 < uint64(len(m.slots)) {
		return m.slots[i-1], off
	}
	if v, ok := segments.Load(i); ok {
		return &segment{data: v.([]byte)}, off + first
	}
	return nil, 0
}

// access is what an instruction does with memory.
type access struct {
	space  byte // 's' shared, 'g' global, 'l' local, 'p' parameters, 'x' generic
	store  bool
	atomic bool
	size   int // bytes of an element
	count  int // elements
	base   int32
	wide   bool // the base register has 64 bits
	offset uint64
}

func (a *access) bytes() int { return a.size * a.count }

// memory compiles loads, stores and atomics.
func (b *builder) memory(out *instr) {
	in := b.in
	op := in.parts[0]
	t := b.last()
	a := &access{size: t.size, count: 1, space: 'x', base: -1}
	spaces := 0
	for _, p := range in.parts[1 : len(in.parts)-1] {
		switch p {
		case "global", "shared", "local", "param", "const":
			a.space = map[string]byte{"global": 'g', "shared": 's', "local": 'l', "param": 'p', "const": 'g'}[p]
			spaces++
		case "v2":
			a.count = 2
		case "v4":
			a.count = 4
		case "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "volatile", "weak", "relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "sys",
			"L1::no_allocate", "L2::128B", "L2::256B", "L2::64B":
		case "add", "min", "max", "and", "or", "xor", "exch", "cas":
			if op != "atom" && op != "red" {
				b.unknown()
			}
		default:
			b.unknown()
		}
	}
	if spaces > 1 || t.kind == 'p' || t.kind == 'f' && t.size == 2 {
		b.unknown()
	}
	at := 1
	if op == "st" || op == "red" {
		at = 0
	}
	if len(in.args) <= at || in.args[at].kind != 'a' {
		b.fail("%s: its address is none", in.op)
	}
	where := in.args[at]
	a.offset = where.imm
	if where.reg >= 0 {
		f := b.regs[where.reg].file()
		if f == 0 {
			b.fail("%s: its address is a predicate", in.op)
		}
		a.base, a.wide = b.slot[where.reg], f == 2
	}
	switch {
	case a.space == 'p' && where.space == 'l':
		a.space = 'l'
	case a.space == 'p' && (where.space != 'p' && where.reg < 0 || op == "st"), a.space != 'p' && where.space == 'p':
		b.fail("%s: a parameter's address in another space", in.op)
	case a.space == 'x' && where.space != 0:
		a.space = where.space
	}
	out.access, out.kind = a, doAny
	switch a.space {
	case 's':
		out.class = ClassShared
	case 'l':
		out.class = ClassLocal
	case 'p':
		out.class = ClassParameter
	default:
		out.class = ClassGlobal
	}
	switch op {
	case "ld", "ldu":
		b.arity(2)
		b.load(out, a, t)
	case "st":
		b.arity(2)
		b.storing(out, a, t)
	default:
		b.atomics(out, a, t)
	}
}

func elements(o operand) []operand {
	if o.kind == 'v' {
		return o.list
	}
	return []operand{o}
}

func (b *builder) load(out *instr, a *access, t typ) {
	list := elements(b.in.args[0])
	if len(list) != a.count {
		b.fail("%s into %d registers", b.in.op, len(list))
	}
	into, wide := make([]int32, a.count), make([]bool, a.count)
	for i, o := range list {
		if o.kind == '_' {
			into[i] = -1
			continue
		}
		wide[i] = b.regs[o.reg].file() == 2
		file := 1
		if wide[i] {
			file = 2
		} else if t.size == 8 {
			b.fail("%s into a register of fewer bits", b.in.op)
		}
		into[i] = b.dst(o, file)
	}
	keep := ^uint32(0)
	if o := list[0]; o.kind == 'r' && b.regs[o.reg].typ.size == 2 {
		keep = 0xffff
	}
	if t.size == 4 && !wide[0] && (a.count == 1 || !wide[1]) {
		out.fx = func(w *warp, mask uint32) {
			w.locate(a, mask)
			for k, slot := range into {
				if slot < 0 {
					continue
				}
				d := &w.r32[slot]
				if mask == all {
					for i := range d {
						d[i] = *(*uint32)(unsafe.Add(w.at[i], 4*k))
					}
					continue
				}
				for m := mask; m != 0; m &= m - 1 {
					i := bits.TrailingZeros32(m) & 31
					d[i] = *(*uint32)(unsafe.Add(w.at[i], 4*k))
				}
			}
		}
		return
	}
	out.fx = func(w *warp, mask uint32) {
		w.locate(a, mask)
		for k, slot := range into {
			if slot < 0 {
				continue
			}
			for m := mask; m != 0; m &= m - 1 {
				i := bits.TrailingZeros32(m) & 31
				p := unsafe.Add(w.at[i], t.size*k)
				var v uint64
				switch t.size {
				case 1:
					v = uint64(*(*uint8)(p))
				case 2:
					v = uint64(*(*uint16)(p))
				case 4:
					v = uint64(*(*uint32)(p))
				default:
					v = *(*uint64)(p)
				}
				if t.kind == 's' {
					v = extend(v, t)
				}
				if wide[k] {
					w.r64[slot][i] = v
				} else {
					w.r32[slot][i] = uint32(v) & keep
				}
			}
		}
	}
}

func (b *builder) storing(out *instr, a *access, t typ) {
	a.store = true
	list := elements(b.in.args[1])
	if len(list) != a.count {
		b.fail("%s of %d registers", b.in.op, len(list))
	}
	from, wide := make([]int, a.count), make([]bool, a.count)
	for i, o := range list {
		wide[i] = t.size == 8
		if o.kind == 'r' {
			wide[i] = b.regs[o.reg].file() == 2
			if t.size == 8 && !wide[i] {
				b.fail("%s of a register of fewer bits", b.in.op)
			}
		}
		if wide[i] {
			from[i] = b.s64(o, t)
		} else {
			from[i] = b.s32(o, t)
		}
	}
	out.value = func(w *warp, element, lane int) uint64 {
		if wide[element] {
			return w.r64[from[element]][lane]
		}
		return uint64(w.r32[from[element]][lane])
	}
	out.fx = func(w *warp, mask uint32) {
		w.locate(a, mask)
		for k, slot := range from {
			if t.size == 4 && !wide[k] {
				s := &w.r32[slot]
				for m := mask; m != 0; m &= m - 1 {
					i := bits.TrailingZeros32(m) & 31
					*(*uint32)(unsafe.Add(w.at[i], 4*k)) = s[i]
				}
				continue
			}
			for m := mask; m != 0; m &= m - 1 {
				i := bits.TrailingZeros32(m) & 31
				p := unsafe.Add(w.at[i], t.size*k)
				var v uint64
				if wide[k] {
					v = w.r64[slot][i]
				} else {
					v = uint64(w.r32[slot][i])
				}
				switch t.size {
				case 1:
					*(*uint8)(p) = uint8(v)
				case 2:
					*(*uint16)(p) = uint16(v)
				case 4:
					*(*uint32)(p) = uint32(v)
				default:
					*(*uint64)(p) = v
				}
			}
		}
	}
}

// combined are the integer operations of atomics.
var combined = map[string]func(old, v, c uint64) uint64{
	"add":  func(old, v, _ uint64) uint64 { return old + v },
	"min":  func(old, v, _ uint64) uint64 { return min(old, v) },
	"max":  func(old, v, _ uint64) uint64 { return max(old, v) },
	"and":  func(old, v, _ uint64) uint64 { return old & v },
	"or":   func(old, v, _ uint64) uint64 { return old | v },
	"xor":  func(old, v, _ uint64) uint64 { return old ^ v },
	"exch": func(_, v, _ uint64) uint64 { return v },
	"cas": func(old, v, c uint64) uint64 {
		if old == v {
			return c
		}
		return old
	},
}

// atomics compiles atom and red on 32-bit integers and, to add, numbers; lanes come one after
// the other, in an order that the seed draws.
func (b *builder) atomics(out *instr, a *access, t typ) {
	in := b.in
	a.store, a.atomic = true, true
	at, d := 0, int32(-1)
	if in.parts[0] == "atom" {
		at, d = 1, b.dst(in.args[0], 1)
	}
	var op string
	for _, p := range in.parts[1:] {
		if combined[p] != nil {
			op = p
		}
	}
	f := combined[op]
	n := map[bool]int{false: 1, true: 2}[op == "cas"]
	if f == nil || len(in.args) != at+1+n || t.size != 4 || a.count != 1 || t.kind == 's' && (op == "min" || op == "max") || t.kind == 'f' && op != "add" {
		b.unknown()
	}
	if t.kind == 'f' {
		f = func(old, v, _ uint64) uint64 {
			return uint64(math.Float32bits(math.Float32frombits(uint32(old)) + math.Float32frombits(uint32(v))))
		}
	}
	x, y := b.s32(in.args[at+1], t), b.s32(in.args[at+n], t)
	out.fx = func(w *warp, mask uint32) {
		w.run.atomics.Lock()
		defer w.run.atomics.Unlock()
		w.locate(a, mask)
		for _, i := range w.drawn(mask) {
			p := (*uint32)(w.at[i])
			old := *p
			*p = uint32(f(uint64(old), uint64(w.r32[x][i]), uint64(w.r32[y][i])))
			if d >= 0 {
				w.r32[d][i] = old
			}
		}
	}
}

// locate finds, for the lanes of a mask, the memory that an access means, w.at, and reports
// what is out of bounds, misaligned, unwritten or a race.
func (w *warp) locate(a *access, mask uint32) {
	addr := &w.addr
	switch {
	case a.base < 0:
		for i := range addr {
			addr[i] = a.offset
		}
	case a.wide:
		p := &w.r64[a.base]
		for i := range addr {
			addr[i] = p[i] + a.offset
		}
	default:
		p := &w.r32[a.base]
		for i := range addr {
			addr[i] = uint64(p[i]) + a.offset
		}
	}
	n := uint64(a.bytes())
	space := a.space
	if space == 'x' {
		// A warp's generic addresses nearly always lie in one space.
		space = w.spaceOf(addr[bits.TrailingZeros32(mask)&31])
		for m := mask; m != 0; m &= m - 1 {
			if w.spaceOf(addr[bits.TrailingZeros32(m)&31]) != space {
				w.mixed(a, mask)
				return
			}
		}
		base := uint64(0)
		switch space {
		case 's':
			base = sharedWindow
		case 'l':
			base = localWindow
		}
		if base != 0 {
			for i := range addr {
				addr[i] -= base
			}
		}
	}
	w.bounded(a, space, mask, n)
	if w.checks != 0 {
		w.observe(a, space, mask)
	}
}

func (w *warp) spaceOf(address uint64) byte {
	switch {
	case address >= windowsEnd:
		return 'g'
	case address >= localWindow:
		return 'l'
	case address >= sharedWindow:
		return 's'
	}
	return 'g'
}

// mixed locates generic addresses of more than one space, lane by lane.
func (w *warp) mixed(a *access, mask uint32) {
	addr := w.addr
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		space := w.spaceOf(addr[i])
		switch space {
		case 's':
			w.addr[i] = addr[i] - sharedWindow
		case 'l':
			w.addr[i] = addr[i] - localWindow
		}
		w.bounded(a, space, 1<<i, uint64(a.bytes()))
		if w.checks != 0 {
			w.observe(a, space, 1<<i)
		}
	}
}

// bounded checks bounds and alignment, and sets w.at.
func (w *warp) bounded(a *access, space byte, mask uint32, n uint64) {
	addr := &w.addr
	switch space {
	case 's':
		size := uint64(len(w.block.shared))
		for m := mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			x := addr[i]
			if x > size || size-x < n || x&(n-1) != 0 {
				w.outside(a, space, i, size)
			}
			w.at[i] = unsafe.Pointer(&w.block.shared[x])
		}
	case 'l':
		size := uint64(w.kernel.Local)
		for m := mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			x := addr[i]
			if x > size || size-x < n || x&(n-1) != 0 {
				w.outside(a, space, i, size)
			}
			w.at[i] = unsafe.Pointer(&w.local[uint64(i)*size+x])
		}
	case 'p':
		size := uint64(len(w.run.args))
		for m := mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			x := addr[i]
			if x > size || size-x < n || x&(n-1) != 0 {
				w.outside(a, space, i, size)
			}
			w.at[i] = unsafe.Pointer(&w.run.args[x])
		}
	default:
		for m := mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			x := addr[i]
			if x>>slotBits != w.lastSlot {
				w.last, _ = w.run.machine.Memory.find(x)
				w.lastSlot = x >> slotBits
			}
			s := w.last
			if s == nil {
				w.outside(a, space, i, 0)
			}
			off := x & (1<<slotBits - 1)
			if x < moduleBase {
				off -= first
			}
			size := uint64(len(s.data))
			if off > size || size-off < n || x&(n-1) != 0 {
				w.outside(a, space, i, size)
			}
			w.at[i] = unsafe.Pointer(&s.data[off])
		}
	}
}

var spaceNames = map[byte]string{'s': "shared", 'l': "local", 'p': "parameter", 'g': "global"}

// outside ends the launch at an access that no memory is for.
func (w *warp) outside(a *access, space byte, lane int, size uint64) {
	x, n := w.addr[lane], uint64(a.bytes())
	what := "read"
	if a.store {
		what = "write"
	}
	off := x
	if space == 'g' && x < moduleBase {
		off = x&(1<<slotBits-1) - first
	}
	if x&(n-1) != 0 {
		w.fail(FaultMisaligned, 1<<lane, fmt.Sprintf("a %s of %d bytes of %s memory at address %#x, which is not a multiple", what, n, spaceNames[space], x))
	}
	if space == 'g' && w.last == nil {
		w.fail(FaultBounds, 1<<lane, fmt.Sprintf("a %s of %d bytes at address %#x, where no live allocation is", what, n, x))
	}
	w.fail(FaultBounds, 1<<lane, fmt.Sprintf("a %s of %d bytes at offset %d of %s memory of %d bytes", what, n, int64(off), spaceNames[space], size))
}
