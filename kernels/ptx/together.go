package ptx

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/x448/float16"
)

// members compiles the mask of lanes that an instruction names; it is the same for all.
func (b *builder) members(o operand) func(w *warp) uint32 {
	s := b.operand(o, typ{'u', 4})
	return func(w *warp) uint32 {
		v := of[uint32](w.at(s))
		need := v[bits.TrailingZeros32(w.active)&31]
		if w.active&^need != 0 {
			w.fail(FaultDivergence, w.active&^need, fmt.Sprintf("lanes %08x execute an instruction of lanes %08x, which they are not among", w.active, need))
		}
		for i := range lanes(w.active) {
			if v[i] != need {
				w.fail(FaultDivergence, 1<<i, fmt.Sprintf("lanes that execute it together name different lanes, %08x and %08x", need, v[i]))
			}
		}
		return need
	}
}

// vote compiles vote.sync.
func (b *builder) vote(out *instr) {
	b.arity(3)
	b.only("sync", "all", "any", "ballot")
	if !b.has("sync") {
		b.unknown()
	}
	args := b.in.args
	out.kind, out.class, out.need = doTogether, ClassShuffle, b.members(args[2])
	p := b.predicate(args[1])
	if b.has("ballot") {
		d := b.register(args[0], 4)
		out.effect = func(w *warp, mask uint32) {
			v, r := p(w)&mask, of[uint32](w.at(d))
			for i := range lanes(mask) {
				r[i] = v
			}
		}
		return
	}
	d, every := b.register(args[0], 0), b.has("all")
	if !every && !b.has("any") {
		b.unknown()
	}
	out.effect = func(w *warp, mask uint32) {
		v := p(w) & mask
		w.predicates[d] &^= mask
		if every && v == mask || !every && v != 0 {
			w.predicates[d] |= mask
		}
	}
}

// barrier compiles barriers of the warp, and barrier 0 of the whole block.
func (b *builder) barrier(out *instr) {
	args := b.in.args
	out.class = ClassBarrier
	if b.has("warp") {
		b.arity(1)
		out.kind = doTogether
		out.need = b.members(args[0])
		out.effect = func(w *warp, mask uint32) { w.synchronise(mask) }
		return
	}
	b.only("sync", "red", "aligned", "cta", "or")
	out.kind = doBarrier
	if b.in.parts[0] == "barrier" && !b.has("aligned") || !b.has("sync") && !b.has("red") {
		b.unknown()
	}
	at := 0
	if b.has("red") {
		at = 1
		if len(args) < 3 {
			b.unknown()
		}
		out.holds = b.predicate(args[len(args)-1])
		args = args[:len(args)-1]
		if !b.has("or") {
			b.unknown()
		}
		out.reduce, out.dst = true, b.register(args[0], 0)
	}
	if len(args) != at+1 || args[at].kind != 'i' || args[at].imm != 0 {
		b.fail("a barrier other than barrier 0 of all threads is not of the subset")
	}
}

// partners give the lane that a lane reads in a shuffle; of idx that is the lane of the segment which is named.
var partners = map[string]func(lane, by, named uint32) uint32{
	"up":   func(lane, by, _ uint32) uint32 { return lane - by },
	"down": func(lane, by, _ uint32) uint32 { return lane + by },
	"bfly": func(lane, by, _ uint32) uint32 { return lane ^ by },
	"idx":  func(_, _, named uint32) uint32 { return named },
}

// shuffle compiles shfl.sync.
func (b *builder) shuffle(out *instr) {
	b.arity(5)
	b.only("sync", "up", "down", "bfly", "idx")
	in := b.in
	if !b.has("sync") || len(in.parts) != 4 {
		b.unknown()
	}
	u := typ{'u', 4}
	d, p := b.register(in.args[0], 4), int32(-1)
	if in.args[0].pair >= 0 {
		p = b.slot[in.args[0].pair]
	}
	x, y, z := b.operand(in.args[1], u), b.operand(in.args[2], u), b.operand(in.args[3], u)
	out.kind, out.class = doTogether, ClassShuffle
	out.need, out.moves = b.members(in.args[4]), movesShuffle
	partner, up := partners[in.parts[2]], b.has("up")
	if partner == nil {
		b.unknown()
	}
	out.effect = func(w *warp, mask uint32) {
		v, to := *of[uint32](w.at(x)), of[uint32](w.at(d))
		distances, bounds := of[uint32](w.at(y)), of[uint32](w.at(z))
		var within uint32
		for i := range lanes(mask) {
			by, c, lane := distances[i]&31, bounds[i], uint32(i)
			segment := c >> 8 & 31
			least := lane & segment
			most := least | c&31&^segment
			j := partner(lane, by, least|by&^segment)
			if !up && j <= most || up && int32(j) >= int32(most) {
				within |= 1 << i
			} else {
				j = lane
			}
			if mask>>(j&31)&1 == 0 {
				w.find(FindShuffle, 1<<i, fmt.Sprintf("lane %d reads lane %d, which does not take part", i, j))
			}
			w.sources[i] = uint8(j & 31)
			to[i] = v[j&31]
		}
		if p >= 0 {
			w.predicates[p] = w.predicates[p]&^mask | within
		}
	}
}

// mma compiles mma.sync.aligned.m16n8k8 of TF32, of whose operands the 13 low bits are not looked
// at, and m16n8k16 of half precision. The sum of the products and the addend is taken exactly, up to float64's rounding,
// and rounded once to float32; what order and rounding a device takes is not documented. With
// Options.Errors the terms are added in float32, one after the other, in an order drawn from it.
func (b *builder) mma(out *instr) {
	each := 1 // numbers in a register
	switch b.in.op {
	case "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32":
	case "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32":
		each = 2
	default:
		b.unknown()
	}
	b.arity(4)
	out.kind, out.class = doTogether, ClassTensor
	fragment := func(k, n int) (s [4]int32) {
		list := elements(b.in.args[k])
		if len(list) != n {
			b.fail("a fragment of %d registers, %d are due", len(list), n)
		}
		kind := byte('f')
		if each == 2 && (k == 1 || k == 2) {
			kind = 'b'
		}
		for i, e := range list {
			s[i] = b.operand(e, typ{kind, 4})
		}
		return s
	}
	for _, e := range elements(b.in.args[0]) {
		b.register(e, 4)
	}
	d, x, y, z := fragment(0, 4), fragment(1, 4), fragment(2, 2), fragment(3, 4)
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
		depth := 8 * each
		var A [16][16]float64
		var B [8][16]float64 // [column][k]
		var C [16][8]float32
		// A lane's numbers lie in row and column lane/4, and in the columns or rows of its place among four.
		for lane := range 32 {
			group, member := lane>>2, lane&3
			for i := range 4 {
				C[group+i>>1*8][2*member+i&1] = of[float32](w.at(z[i]))[lane]
				for n := range each {
					A[group+i&1*8][each*(member+i>>1*4)+n] = factor(w, x[i], lane, each, n)
					if i < 2 {
						B[group][each*(member+4*i)+n] = factor(w, y[i], lane, each, n)
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
				of[float32](w.at(d[i]))[lane] = C[group+i>>1*8][2*member+i&1]
			}
		}
	}
}

// factor is number n of the `each` that an operand of a tensor product holds in a register: half precision, or the upper 19 bits of a
// float32.
func factor(w *warp, register int32, lane, each, n int) float64 {
	v := of[uint32](w.at(register))[lane]
	if each == 2 {
		return float64(float16.Frombits(uint16(v >> (16 * n))).Float32())
	}
	return float64(math.Float32frombits(v &^ 0x1fff))
}
