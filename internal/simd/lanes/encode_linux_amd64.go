//go:build linux && amd64 && !purego

package lanes

import little "encoding/binary"

// instruction is an opcode in one of the maps, all with the prefix 66.
type instruction struct {
	table, code uint8
	narrow      bool // VEX.W is 0
}

var (
	load        = instruction{table: 1, code: 0x10}
	store       = instruction{table: 1, code: 0x11}
	move        = instruction{table: 1, code: 0x28}
	sqrt        = instruction{table: 1, code: 0x51}
	and         = instruction{table: 1, code: 0x54}
	andNot      = instruction{table: 1, code: 0x55}
	or          = instruction{table: 1, code: 0x56}
	xor         = instruction{table: 1, code: 0x57}
	add         = instruction{table: 1, code: 0x58}
	minOf       = instruction{table: 1, code: 0x5d}
	maxOf       = instruction{table: 1, code: 0x5f}
	compare     = instruction{table: 1, code: 0xc2}
	shift       = instruction{table: 1, code: 0x73}
	fma213      = instruction{table: 2, code: 0xa8}
	fnma213     = instruction{table: 2, code: 0xac}
	fma231      = instruction{table: 2, code: 0xb8}
	fnma231     = instruction{table: 2, code: 0xbc}
	round       = instruction{table: 3, code: 0x09}
	compareMask = compare
	blendMasked = instruction{table: 2, code: 0x65}
	blendVector = instruction{table: 3, code: 0x4b, narrow: true}
)

var binaries = map[op]instruction{
	opAdd: add, opMul: {table: 1, code: 0x59}, opSub: {table: 1, code: 0x5c}, opDiv: {table: 1, code: 0x5e}, opMin: minOf, opMax: maxOf, opAnd: and, opOr: or,
}

// Predicates of comparisons, and the rounding of a floor.
const (
	equalTo   = 0x00
	unordered = 0x03
	notEqual  = 0x04
	lessThan  = 0x11
	atMost    = 0x12
	roundDown = 0x09
)

// Registers that keep their value, and that of masks.
const (
	oneRegister, zeroRegister, signRegister = 13, 14, 15
	firstConstant, lastConstant             = oneRegister, signRegister
	maskRegister                            = 1
)

// source is an operand: a register or a cell.
type source struct {
	register uint8
	memory   bool
	cell     uint32
}

func register(r uint8) source { return source{register: r} }

// encoder writes instructions on registers of eight numbers (EVEX) or of four (VEX). RDI is where the cells are.
type encoder struct {
	wide bool
	code []byte
}

// count is the number of registers.
func (e *encoder) count() int {
	if e.wide {
		return 32
	}
	return 16
}

func (e *encoder) load(r uint8, cell uint32) { e.encode(load, r, 0, source{memory: true, cell: cell}) }
func (e *encoder) store(r uint8, cell uint32) {
	e.encode(store, r, 0, source{memory: true, cell: cell})
}

// shift is by 52 places. The register that is written stands where others have their first operand.
func (e *encoder) shift(d uint8, x source, up bool) {
	direction := uint8(2)
	if up {
		direction = 6
	}
	e.encode(shift, direction, d, x, 52)
}

// encode writes d = f(a, b).
func (e *encoder) encode(i instruction, d, a uint8, b source, immediate ...uint8) {
	e.write(i, d, a, b, 0, false, immediate)
}

// encodeMasked is encode where the mask is set; elsewhere d is 0, or what the instruction makes it.
func (e *encoder) encodeMasked(i instruction, d, a uint8, b source, zeroing bool) {
	e.write(i, d, a, b, maskRegister, zeroing, nil)
}

func (e *encoder) write(i instruction, d, a uint8, b source, mask uint8, zeroing bool, immediate []uint8) {
	// Bits that name registers beyond eight stand inverted.
	inverted := func(r uint8, bit int) uint8 { return ^r >> bit & 1 }
	r, x, base := inverted(d, 3), uint8(1), uint8(1)
	if !b.memory {
		x, base = inverted(b.register, 4), inverted(b.register, 3)
	}
	w := uint8(1)
	if i.narrow {
		w = 0
	}
	v := ^a & 15
	if e.wide {
		e.code = append(e.code, 0x62, r<<7|x<<6|base<<5|inverted(d, 4)<<4|i.table, w<<7|v<<3|1<<2|1, bit(zeroing)<<7|2<<5|inverted(a, 4)<<3|mask, i.code)
	} else {
		e.code = append(e.code, 0xc4, r<<7|1<<6|base<<5|i.table, w<<7|v<<3|1<<2|1, i.code)
	}
	low := d & 7 << 3
	const rdi = 7
	if !b.memory {
		e.code = append(e.code, 0xc0|low|b.register&7)
	} else {
		bytes := int32(32)
		if e.wide {
			bytes = 64
		}
		if e.wide && b.cell < 128 { // offsets of one byte count registers
			e.code = append(e.code, 0x40|low|rdi, uint8(b.cell))
		} else {
			e.code = little.LittleEndian.AppendUint32(append(e.code, 0x80|low|rdi), b.cell*uint32(bytes))
		}
	}
	e.code = append(e.code, immediate...)
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
