package ptx

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/x448/float16"
)

// members compiles the mask of lanes that an instruction names: it is the same for all.
func (b *builder) members(o operand) func(w *warp) uint32 {
	s := b.operand(o, typ{'u', 4})
	return func(w *warp) uint32 {
		v := vector[uint32](w.register(s))
		need := v[bits.TrailingZeros32(w.active)&31]
		w.sameMembers(w.active, w.active, need, v)
		return need
	}
}

// segments compiles the masks of a shuffle: those of parts of the warp may be different ones.
func (b *builder) segments(o operand) func(w *warp) uint32 {
	s := b.operand(o, typ{'u', 4})
	return func(w *warp) (need uint32) {
		v := vector[uint32](w.register(s))
		for i := range lanes(w.active) {
			if need>>i&1 == 0 {
				w.sameMembers(1<<i, w.active&v[i], v[i], v)
			}
			need |= v[i]
		}
		return need
	}
}

// sameMembers fails where a lane of the subset is not among the members, or one of a group names others.
func (w *warp) sameMembers(subset, group, members uint32, masks *[32]uint32) {
	if subset&^members != 0 {
		w.fail(FaultDivergence, subset&^members, fmt.Sprintf("lanes %08x execute an instruction of lanes %08x, which they are not among", w.active, members))
	}
	for i := range lanes(group) {
		if masks[i] != members {
			w.fail(FaultDivergence, 1<<i, fmt.Sprintf("lanes that execute it together name different lanes, %08x and %08x", members, masks[i]))
		}
	}
}

// vote compiles vote.sync.
func (b *builder) vote(out *instr) {
	b.arity(3)
	b.allow("sync", "all", "any", "ballot")
	if !b.hasModifier("sync") {
		b.unknown()
	}
	args := b.instruction.args
	out.kind, out.class, out.need = doTogether, ClassShuffle, b.members(args[2])
	p := b.predicate(args[1])
	if b.hasModifier("ballot") {
		d := b.register(args[0], 4)
		out.effect = func(w *warp, mask uint32) {
			v, r := p(w)&mask, vector[uint32](w.register(d))
			for i := range lanes(mask) {
				r[i] = v
			}
		}
		return
	}
	d, unanimous := b.register(args[0], 0), b.hasModifier("all")
	if !unanimous && !b.hasModifier("any") {
		b.unknown()
	}
	out.effect = func(w *warp, mask uint32) {
		v := p(w) & mask
		w.predicates[d] &^= mask
		if unanimous && v == mask || !unanimous && v != 0 {
			w.predicates[d] |= mask
		}
	}
}

// barrier compiles barriers of the warp, and barrier 0 of the whole block.
func (b *builder) barrier(out *instr) {
	args := b.instruction.args
	out.class = ClassBarrier
	if b.hasModifier("warp") {
		b.arity(1)
		out.kind = doTogether
		out.need = b.members(args[0])
		out.effect = func(w *warp, mask uint32) { w.synchronise(mask) }
		return
	}
	b.allow("sync", "red", "aligned", "cta", "or")
	out.kind = doBarrier
	if b.instruction.parts[0] == "barrier" && !b.hasModifier("aligned") || !b.hasModifier("sync") && !b.hasModifier("red") {
		b.unknown()
	}
	index := 0
	if b.hasModifier("red") {
		index = 1
		if len(args) < 3 {
			b.unknown()
		}
		out.holds = b.predicate(args[len(args)-1])
		args = args[:len(args)-1]
		if !b.hasModifier("or") {
			b.unknown()
		}
		out.reduce, out.dst = true, b.register(args[0], 0)
	}
	if len(args) != index+1 || args[index].kind != 'i' || args[index].imm != 0 {
		b.fail("a barrier other than barrier 0 of all threads is not of the subset")
	}
}

// partners give the lane that a lane reads in a shuffle; of idx that is the lane of the segment which is named.
var partners = map[string]func(lane, distance, target uint32) uint32{
	"up":   func(lane, distance, _ uint32) uint32 { return lane - distance },
	"down": func(lane, distance, _ uint32) uint32 { return lane + distance },
	"bfly": func(lane, distance, _ uint32) uint32 { return lane ^ distance },
	"idx":  func(_, _, target uint32) uint32 { return target },
}

// shuffle compiles shfl.sync.
func (b *builder) shuffle(out *instr) {
	b.arity(5)
	b.allow("sync", "up", "down", "bfly", "idx")
	in := b.instruction
	if !b.hasModifier("sync") || len(in.parts) != 4 {
		b.unknown()
	}
	u := typ{'u', 4}
	d, p := b.register(in.args[0], 4), int32(-1)
	if in.args[0].pair >= 0 {
		p = b.slot[in.args[0].pair]
	}
	x, y, z := b.operand(in.args[1], u), b.operand(in.args[2], u), b.operand(in.args[3], u)
	out.kind, out.class = doTogether, ClassShuffle
	out.need, out.moves = b.segments(in.args[4]), movesShuffle
	masks := b.operand(in.args[4], u)
	partner, up := partners[in.parts[2]], b.hasModifier("up")
	if partner == nil {
		b.unknown()
	}
	out.effect = func(w *warp, mask uint32) {
		v, dst := *vector[uint32](w.register(x)), vector[uint32](w.register(d))
		distances, bounds, members := vector[uint32](w.register(y)), vector[uint32](w.register(z)), vector[uint32](w.register(masks))
		var valid uint32
		for i := range lanes(mask) {
			distance, c, lane := distances[i]&31, bounds[i], uint32(i)
			segment := c >> 8 & 31
			least := lane & segment
			most := least | c&31&^segment
			j := partner(lane, distance, least|distance&^segment)
			if !up && j <= most || up && int32(j) >= int32(most) {
				valid |= 1 << i
			} else {
				j = lane
			}
			if mask&members[i]>>(j&31)&1 == 0 {
				w.find(FindShuffle, 1<<i, fmt.Sprintf("lane %d reads lane %d, which does not take part", i, j))
			}
			w.sources[i] = uint8(j & 31)
			dst[i] = v[j&31]
		}
		if p >= 0 {
			w.predicates[p] = w.predicates[p]&^mask | valid
		}
	}
}

// mma compiles mma.sync.aligned.m16n8k8 of TF32, of whose operands the 13 low bits are not looked
// at, and m16n8k16 of half precision. The sum of the products and the addend is taken exactly, up to float64's rounding,
// and rounded once to float32; what order and rounding a device takes is not documented. With
// Options.Errors the terms are added in float32, one after the other, in an order drawn from it.
func (b *builder) mma(out *instr) {
	perRegister := 1 // numbers in a register
	switch b.instruction.op {
	case "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32":
	case "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32":
		perRegister = 2
	default:
		b.unknown()
	}
	b.arity(4)
	out.kind, out.class = doTogether, ClassTensor
	fragment := func(k, n int) (s [4]int32) {
		list := elements(b.instruction.args[k])
		if len(list) != n {
			b.fail("a fragment of %d registers, %d are due", len(list), n)
		}
		kind := byte('f')
		if perRegister == 2 && (k == 1 || k == 2) {
			kind = 'b'
		}
		for i, e := range list {
			s[i] = b.operand(e, typ{kind, 4})
		}
		return s
	}
	for _, e := range elements(b.instruction.args[0]) {
		b.register(e, 4)
	}
	d, x := fragment(0, 4), fragment(1, 4)
	y, z := fragment(2, 2), fragment(3, 4)
	out.moves = movesProduct
	out.need = func(w *warp) uint32 {
		if w.live != all {
			w.fail(FaultDivergence, w.active, fmt.Sprintf("a product of a whole warp of which only lanes %08x are there", w.live))
		}
		return all
	}
	out.effect = func(w *warp, mask uint32) {
		if mask != all {
			w.fail(FaultDivergence, mask, "a product of a whole warp under a predicate that differs between lanes")
		}
		depth := 8 * perRegister
		var A [16][16]float64
		var B [8][16]float64 // [column][k]
		var C [16][8]float32
		// A lane's numbers lie in row and column lane/4, and in the columns or rows of its place among four.
		for lane := range 32 {
			group, member := lane>>2, lane&3
			for i := range 4 {
				C[group+i>>1*8][2*member+i&1] = vector[float32](w.register(z[i]))[lane]
				for n := range perRegister {
					A[group+i&1*8][perRegister*(member+i>>1*4)+n] = factor(w, x[i], lane, perRegister, n)
					if i < 2 {
						B[group][perRegister*(member+4*i)+n] = factor(w, y[i], lane, perRegister, n)
					}
				}
			}
		}
		if seed := w.run.machine.options.Errors; seed != 0 {
			order, random := make([]int, depth+1), mix(seed^uint64(w.pc))
			for k := range order {
				order[k] = k
			}
			shuffle(order, &random)
			for i := range C {
				for j := range C[i] {
					var sum float32
					for _, k := range order {
						if k == depth {
							sum += C[i][j]
						} else {
							sum = float32(float64(sum) + A[i][k]*B[j][k])
						}
					}
					C[i][j] = sum
				}
			}
		} else {
			for i := range C {
				for j := range C[i] {
					s := float64(C[i][j])
					for k := range depth {
						s += A[i][k] * B[j][k]
					}
					C[i][j] = float32(s)
				}
			}
		}
		for lane := range 32 {
			group, member := lane>>2, lane&3
			for i := range 4 {
				vector[float32](w.register(d[i]))[lane] = C[group+i>>1*8][2*member+i&1]
			}
		}
	}
}

// factor is number n of the `each` that an operand of a tensor product holds in a register: half precision, or the upper 19 bits of a
// float32.
func factor(w *warp, register int32, lane, perRegister, n int) float64 {
	v := vector[uint32](w.register(register))[lane]
	if perRegister == 2 {
		return float64(float16.Frombits(uint16(v >> (16 * n))).Float32())
	}
	return float64(math.Float32frombits(v &^ 0x1fff))
}
