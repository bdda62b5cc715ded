//go:build linux && amd64 && !purego

package lanes

import (
	"fmt"
	"math"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/gpc-engine/gpc/internal/simd/isa"
)

// Native code is what a program of operations on single cells and rows becomes where the system lets a process write its own
// instructions: cells stay in registers for as long as they are needed, and no operation is looked up. It computes what the
// interpreter does, in the same order, bitwise.

// mostNative is the most operations of a program in native code. A longer one would leave the instruction cache.
const mostNative = 1 << 15

// native is the code of some programs, in memory that goes when no machine needs it.
type native struct {
	entry []uintptr // 0: the program is interpreted
	wide  bool
}

// newNative is nil where there is nothing for it.
func newNative(c *Compiled) *native {
	if c.level != isa.AVX512 && (c.level != isa.AVX2 || c.width != 4) {
		return nil
	}
	n := &native{wide: c.level == isa.AVX512, entry: make([]uintptr, len(c.codes))}
	var code []byte
	for i := range c.codes {
		if body := c.assemble(i); body != nil {
			n.entry[i] = uintptr(len(code)) + 1
			code = append(code, body...)
		}
	}
	if len(code) == 0 {
		return nil
	}
	memory, err := syscall.Mmap(-1, 0, len(code), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	copy(memory, code)
	if err := syscall.Mprotect(memory, syscall.PROT_READ|syscall.PROT_EXEC); err != nil {
		_ = syscall.Munmap(memory)
		return nil
	}
	base := uintptr(unsafe.Pointer(&memory[0]))
	for i, offset := range n.entry {
		if offset > 0 {
			n.entry[i] = base + offset - 1
		}
	}
	runtime.AddCleanup(n, func(m []byte) { _ = syscall.Munmap(m) }, memory)
	return n
}

// run runs a program; false where it is interpreted.
func (n *native) run(program int, cells []float64) bool {
	if n == nil || n.entry[program] == 0 {
		return false
	}
	if n.wide {
		callAVX512(n.entry[program], &cells[0])
	} else {
		callAVX2(n.entry[program], &cells[0])
	}
	runtime.KeepAlive(n)
	return true
}

// callAVX512 calls code at an address, with one, zero and −0 in registers 13, 14 and 15, and callAVX2 likewise.
//
//go:noescape
func callAVX512(code uintptr, cells *float64)

//go:noescape
func callAVX2(code uintptr, cells *float64)

// assemble is the native code of a program; nil where it has operations on blocks or is too long.
func (c *Compiled) assemble(program int) []byte {
	t := &translation{width: uint32(c.width)}
	for _, chunk := range c.codes[program] {
		if !t.add(chunk) {
			return nil
		}
	}
	a := &allocator{encoder: encoder{wide: c.level == isa.AVX512}, steps: t.steps, temporaries: c.temporaries[program]}
	return a.assemble()
}

// step is an operation on single cells, by number; d = f(a, b, c). Cells from scratch on have no place in memory.
type step struct {
	op           op
	d            uint32
	args         [3]uint32
	next         [3]int32 // of each operand's cell: the step that reads it after this one
	nextOfResult int32    // of d likewise
}

// What follows the number of the step that uses a cell next: a value that is never used again, or by other programs alone.
const (
	dead    = math.MaxInt32
	liveOut = math.MaxInt32 - 1
)

const (
	scratch = 1 << 30
	opZero  = opEnd // d = 0
)

var inputs = map[op]int{
	opZero: 0, opAdd: 2, opSub: 2, opMul: 2, opFMA: 3, opFNMA: 3, opDiv: 2, opMax: 2, opMin: 2, opSqrt: 1, opFloor: 1, opSelect: 3, opCopy: 1,
	opNeg: 1, opAbs: 1, opLess: 2, opAtMost: 2, opEqual: 2, opChoose: 3, opMaximum: 2, opMinimum: 2, opAnd: 2, opOr: 2, opShiftUp: 1, opShiftDown: 1,
}

// translation makes steps of a program.
type translation struct {
	width uint32
	steps []step
	fresh uint32
}

// add adds a chunk; false where it cannot.
func (t *translation) add(chunk []uint32) (ok bool) {
	ok = true
	forEachRun([][]uint32{chunk}, func(r run) {
		if ok = ok && t.run(r) && len(t.steps) <= mostNative; !ok {
			t.steps = nil
		}
	})
	return ok
}

func (t *translation) append(o op, d uint32, args ...uint32) {
	s := step{op: o, d: d}
	copy(s.args[:], args)
	t.steps = append(t.steps, s)
}

func (t *translation) run(r run) bool {
	o := r.op.plain()
	for i := 0; i < len(r.args) && len(t.steps) <= mostNative; i += r.op.words() {
		args, count := r.args[i:][:r.op.words()], 1
		if r.op >= stretch {
			count, args = int(args[0]), args[1:]
		}
		for k := range count {
			var cells [4]uint32
			for q, a := range args {
				cells[q] = a / t.width
				if r.op >= stretch {
					cells[q] += uint32(k * (r.row >> q & 1))
				}
			}
			if !o.onRow() && o != opRowSet && !t.single(o, r.head, cells) {
				return false
			}
		}
	}
	return t.rows(r)
}

// single adds an operation on single cells.
func (t *translation) single(o op, head []uint32, cells [4]uint32) bool {
	if n, ok := inputs[o]; ok {
		t.append(o, cells[0], cells[1:1+n]...)
		return true
	}
	if !reduces[o] {
		return false
	}
	d := head[0] / t.width
	x := scratch + t.fresh
	t.fresh++
	switch o {
	case opAbsMax:
		t.append(opAbs, x, cells[0])
		t.append(opMax, d, d, x)
	case opAbsSum:
		t.append(opAbs, x, cells[0])
		t.append(opAdd, d, d, x)
	case opDot:
		t.append(opFMA, d, cells[0], cells[1], d)
	case opMaxNegProduct:
		t.append(opMul, x, cells[0], cells[1])
		t.append(opNeg, x+1, x)
		t.fresh++
		t.append(opMax, d, d, x+1)
	}
	return true
}

// rows adds the operations on rows: of some cells the terms one after the other, then of the next.
func (t *translation) rows(r run) bool {
	const chunk = 8
	switch r.op {
	case opRowSet:
		for i := 0; i < len(r.args); i += operands[opRowSet] {
			for k := range r.args[i+counts] {
				t.append(opMul, r.args[i]/t.width+k, r.args[i+2]/t.width+k, r.args[i+1]/t.width)
			}
		}
	case opRow, opRowSum:
		d := r.head[0] / t.width
		if len(r.args)/2*r.row > mostNative {
			return false
		}
		for first := 0; first < r.row; first += chunk {
			last := min(r.row, first+chunk)
			if r.op == opRowSum {
				for k := first; k < last; k++ {
					t.append(opZero, d+uint32(k))
				}
			}
			for i := 0; i < len(r.args); i += 2 {
				for k := first; k < last; k++ {
					t.append(opFMA, d+uint32(k), r.args[i]/t.width, r.args[i+1]/t.width+uint32(k), d+uint32(k))
				}
			}
		}
	}
	return true
}

// allocator gives cells registers. What is used furthest from now leaves first.
type allocator struct {
	encoder
	steps       []step
	temporaries uint32           // cells from here on are of no use after the program
	registerOf  map[uint32]uint8 // register of a cell
	registers   [32]content
	free        []uint8
	pinned      uint32 // bits of registers that the step at work uses
}

// content is the cell in a register.
type content struct {
	cell  uint32
	full  bool
	dirty bool // memory does not have it
	next  int32
}

func (a *allocator) assemble() []byte {
	a.follow()
	a.registerOf = map[uint32]uint8{}
	for r := range a.count() {
		if r < firstConstant || r > lastConstant {
			a.free = append(a.free, uint8(r))
		}
	}
	for i := range a.steps {
		a.pinned = 0
		a.step(&a.steps[i], i)
	}
	for r := range a.registers {
		if h := &a.registers[r]; h.full && h.dirty && h.next == liveOut {
			a.store(uint8(r), h.cell)
		}
	}
	return append(a.code, 0xc5, 0xf8, 0x77, 0xc3) // VZEROUPPER, RET
}

// follow finds for each operand and each result the step that reads it next.
func (a *allocator) follow() {
	uses := map[uint32]int32{}
	use := func(cell uint32) int32 {
		if u, ok := uses[cell]; ok {
			return u
		}
		if cell >= a.temporaries {
			return dead
		}
		return liveOut
	}
	for i := len(a.steps) - 1; i >= 0; i-- {
		s := &a.steps[i]
		s.nextOfResult = use(s.d)
		uses[s.d] = dead
		n := inputs[s.op]
		for k := range n {
			s.next[k] = use(s.args[k])
		}
		for k := range n {
			uses[s.args[k]] = int32(i)
		}
	}
}

// take is a register for a cell.
func (a *allocator) take(cell uint32, next int32, dirty bool) uint8 {
	var r uint8
	if n := len(a.free); n > 0 {
		r, a.free = a.free[n-1], a.free[:n-1]
	} else {
		r = a.furthest()
		a.leave(r)
	}
	a.hold(r, cell, next, dirty)
	return r
}

func (a *allocator) hold(r uint8, cell uint32, next int32, dirty bool) {
	a.registers[r] = content{cell, true, dirty, next}
	a.registerOf[cell] = r
	a.pinned |= 1 << r
}

// furthest is the register to be given up.
func (a *allocator) furthest() uint8 {
	best, register := int32(-1), -1
	for r := range a.registers {
		if h := &a.registers[r]; h.full && a.pinned>>r&1 == 0 && h.next > best {
			best, register = h.next, r
		}
	}
	if register < 0 {
		panic(fmt.Sprintf("lanes: no register of %d is free", a.count()))
	}
	return uint8(register)
}

// leave writes a register that is given up to its cell, if it is still needed.
func (a *allocator) leave(r uint8) {
	h := &a.registers[r]
	if h.dirty && h.next != dead {
		a.store(r, h.cell)
	}
	delete(a.registerOf, h.cell)
	h.full = false
}

// release frees a register whose value is not needed.
func (a *allocator) release(r uint8) {
	delete(a.registerOf, a.registers[r].cell)
	a.registers[r].full = false
	a.free = append(a.free, r)
}

// reloadDistance is how soon a cell in memory has to be used again to be worth a register.
const reloadDistance = 200

// read is operand k of a step, in a register, or in memory where it may be.
func (a *allocator) read(s *step, i, k int, inMemory bool) source {
	cell, next := s.args[k], s.next[k]
	if r, ok := a.registerOf[cell]; ok {
		a.registers[r].next = next
		a.pinned |= 1 << r
		return source{register: r}
	}
	if inMemory && (next >= liveOut || next-int32(i) > reloadDistance) {
		return source{memory: true, cell: cell}
	}
	r := a.take(cell, next, false)
	a.load(r, cell)
	return source{register: r}
}

// releaseDead frees the registers of operands that are of no more use.
func (a *allocator) releaseDead(s *step) {
	for k := range inputs[s.op] {
		if r, ok := a.registerOf[s.args[k]]; ok && s.next[k] == dead {
			a.release(r)
		}
	}
}

// result is the register of what a step writes, after its operands' are free.
func (a *allocator) result(s *step) uint8 {
	a.releaseDead(s)
	return a.take(s.d, s.nextOfResult, true)
}

// become makes a register, of an operand of no more use, that of what the step writes.
func (a *allocator) become(r uint8, s *step) {
	delete(a.registerOf, a.registers[r].cell)
	a.releaseDead(s)
	a.hold(r, s.d, s.nextOfResult, true)
}

// temporary is a register for the step alone, until it is released.
func (a *allocator) temporary(n uint32) uint8 { return a.take(math.MaxUint32-n, dead, false) }

// step writes the instructions of step i.
func (a *allocator) step(s *step, i int) {
	switch s.op {
	case opZero:
		d := a.result(s)
		a.encode(xor, d, d, register(d))
	case opAdd, opSub, opMul, opDiv, opMax, opMin, opAnd, opOr:
		x, y := a.read(s, i, 0, false), a.read(s, i, 1, true)
		a.encode(binaries[s.op], a.result(s), x.register, y)
	case opSqrt, opFloor, opNeg, opAbs:
		a.unary(s, a.read(s, i, 0, true))
	case opShiftUp, opShiftDown:
		x := a.read(s, i, 0, a.wide)
		a.shift(a.result(s), x, s.op == opShiftUp)
	case opCopy:
		x := a.read(s, i, 0, true)
		switch {
		case x.memory:
			a.load(a.result(s), x.cell)
		case s.next[0] == dead:
			a.become(x.register, s)
		default:
			a.encode(move, a.result(s), 0, x)
		}
	case opFMA, opFNMA:
		a.fused(s, i)
	case opLess, opAtMost, opEqual:
		x, y := a.read(s, i, 0, false), a.read(s, i, 1, true)
		a.compared(s, x.register, y)
	case opSelect, opChoose:
		x, y, z := a.read(s, i, 0, false), a.read(s, i, 1, true), a.read(s, i, 2, false)
		predicate := uint8(lessThan)
		if s.op == opChoose {
			predicate = notEqual
		}
		mask := a.mask(predicate, x.register, register(zeroRegister))
		a.blend(a.result(s), z.register, y, mask)
		a.unmask(mask)
	case opMaximum, opMinimum:
		a.extreme(s, a.read(s, i, 0, false).register, a.read(s, i, 1, false).register)
	}
	if r, ok := a.registerOf[s.d]; ok && s.nextOfResult == dead {
		a.release(r)
	}
}

func (a *allocator) unary(s *step, x source) {
	d := a.result(s)
	switch s.op {
	case opSqrt:
		a.encode(sqrt, d, 0, x)
	case opFloor:
		a.encode(round, d, 0, x, roundDown)
	case opNeg:
		a.encode(xor, d, signRegister, x)
	case opAbs:
		a.encode(andNot, d, signRegister, x)
	}
}

// fused is d = ±a·b + c, in the register of an operand of no more use if there is one.
func (a *allocator) fused(s *step, i int) {
	f231, f213 := fma231, fma213
	if s.op == opFNMA {
		f231, f213 = fnma231, fnma213
	}
	x, y, z := a.read(s, i, 0, false), a.read(s, i, 1, true), a.read(s, i, 2, true)
	switch {
	case !z.memory && s.next[2] == dead:
		a.become(z.register, s)
		a.encode(f231, z.register, x.register, y)
	case s.next[0] == dead && !y.memory:
		a.become(x.register, s)
		a.encode(f213, x.register, y.register, z)
	case s.next[1] == dead && !y.memory:
		a.become(y.register, s)
		a.encode(f213, y.register, x.register, z)
	default:
		d := a.temporary(0)
		if z.memory {
			a.load(d, z.cell)
		} else {
			a.encode(move, d, 0, z)
		}
		a.encode(f231, d, x.register, y)
		a.become(d, s)
	}
}

// compared is d = 1 where a predicate holds, else 0.
func (a *allocator) compared(s *step, x uint8, y source) {
	predicate := map[op]uint8{opLess: lessThan, opAtMost: atMost, opEqual: equalTo}[s.op]
	if a.wide {
		a.encode(compareMask, maskRegister, x, y, predicate)
		a.encodeMasked(move, a.result(s), 0, register(oneRegister), true)
		return
	}
	d := a.result(s)
	a.encode(compare, d, x, y, predicate)
	a.encode(and, d, d, register(oneRegister))
}

// mask compares into a register of masks, or one of its own.
func (a *allocator) mask(predicate, x uint8, y source) uint8 {
	if a.wide {
		a.encode(compareMask, maskRegister, x, y, predicate)
		return maskRegister
	}
	m := a.temporary(0)
	a.encode(compare, m, x, y, predicate)
	return m
}

func (a *allocator) unmask(mask uint8) {
	if !a.wide {
		a.release(mask)
	}
}

// blend is d = y where the mask is set, else z.
func (a *allocator) blend(d, z uint8, y source, mask uint8) {
	if a.wide {
		a.encodeMasked(blendMasked, d, z, y, false)
	} else {
		a.encode(blendVector, d, z, y, mask<<4)
	}
}

// extreme is as the interpreter's.
func (a *allocator) extreme(s *step, x, y uint8) {
	extremum, join := maxOf, and
	if s.op == opMinimum {
		extremum, join = minOf, or
	}
	d, other := a.temporary(1), a.temporary(2)
	a.encode(extremum, d, x, register(y))
	a.encode(extremum, other, y, register(x))
	a.encode(join, d, d, register(other))
	a.encode(add, other, x, register(y))
	mask := a.mask(unordered, x, register(y))
	a.blend(d, d, register(other), mask)
	a.unmask(mask)
	a.release(other)
	a.become(d, s)
}
