package ptx

import (
	"fmt"
	"math/bits"
	"slices"
)

// Registers of the text are many, each written once; those of a warp lie side by side for
// 32 lanes, so few should do. A register takes its slot from the first to the last
// instruction where it may still be read.
//
// A register that may be read before it is written has a slot of its own: those are live
// where the kernel begins. All others are written on every way to where they are read.
// A compiler moves an operation before the choice that drops its result, so that reading
// such a register is no fault by itself. What is computed from it is followed, a bit for
// each lane, to where it would have an effect: an address, a stored value, a branch, a
// shuffle or another instruction of several lanes.

type bitset []uint64

func (b bitset) has(i int32) bool { return b[i>>6]>>(i&63)&1 != 0 }
func (b bitset) set(i int32)      { b[i>>6] |= 1 << (i & 63) }
func (b bitset) clear(i int32)    { b[i>>6] &^= 1 << (i & 63) }
func (b bitset) each(f func(i int32)) {
	for w, v := range b {
		for ; v != 0; v &= v - 1 {
			f(int32(w<<6 + bits.TrailingZeros64(v)))
		}
	}
}

type blockOf struct {
	first, end int
	next       []int
	in, out    bitset
}

// blocks cuts the code where control joins and parts.
func blocks(code []inst) []blockOf {
	leader := make([]bool, len(code)+1)
	leader[0], leader[len(code)] = true, true
	for i := range code {
		if code[i].label != "" {
			leader[code[i].target], leader[i+1] = true, true
		} else if p := code[i].parts[0]; p == "ret" || p == "exit" || p == "trap" {
			leader[i+1] = true
		}
	}
	at := make([]int, len(code)+1)
	var list []blockOf
	for i := range code {
		if leader[i] {
			list = append(list, blockOf{first: i})
		}
		at[i] = len(list) - 1
		list[len(list)-1].end = i + 1
	}
	for b := range list {
		last := &code[list[b].end-1]
		if last.label != "" && last.target < len(code) {
			list[b].next = append(list[b].next, at[last.target])
		}
		if !last.ends() && list[b].end < len(code) {
			list[b].next = append(list[b].next, at[list[b].end])
		}
	}
	return list
}

// liveness finds the registers that are read behind the begin and the end of each block.
func liveness(code []inst, list []blockOf, registers int) {
	words := (registers + 63) / 64
	kill := make([]bitset, len(list))
	for b := range list {
		use, def := make(bitset, words), make(bitset, words)
		for i := list[b].end - 1; i >= list[b].first; i-- {
			in := &code[i]
			if in.guard < 0 { // under a predicate a write leaves lanes as they were
				in.defines(func(r int32) { def.set(r); use.clear(r) })
			}
			in.uses(func(r int32) { use.set(r) })
		}
		list[b].in, list[b].out, kill[b] = use, make(bitset, words), def
	}
	// Whatever is read in a block is in use already; kill bounds what comes from behind.
	for changed := true; changed; {
		changed = false
		for b := len(list) - 1; b >= 0; b-- {
			k := &list[b]
			for _, n := range k.next {
				for w, v := range list[n].in {
					if v&^k.out[w] != 0 {
						k.out[w] |= v
						changed = true
					}
				}
			}
			for w, v := range k.out {
				k.in[w] |= v &^ kill[b][w]
			}
		}
	}
}

// assign gives each register a slot in its file; first are those that may be read before
// they are written.
func assign(code []inst, regs []vreg) (slot []int32, counts [3]int, first []int32) {
	slot = make([]int32, len(regs))
	if len(code) == 0 {
		return slot, counts, nil
	}
	list := blocks(code)
	liveness(code, list, len(regs))
	begin, end := make([]int, len(regs)), make([]int, len(regs))
	for r := range regs {
		begin[r] = -1
	}
	touch := func(r int32, at int) {
		if begin[r] < 0 {
			begin[r], end[r] = at, at
		}
		begin[r], end[r] = min(begin[r], at), max(end[r], at)
	}
	for b := range list {
		k := &list[b]
		k.in.each(func(r int32) { touch(r, k.first) })
		k.out.each(func(r int32) { touch(r, k.end) })
		for i := k.first; i < k.end; i++ {
			code[i].uses(func(r int32) { touch(r, i) })
			code[i].defines(func(r int32) { touch(r, i) })
		}
	}
	own := make(bitset, (len(regs)+63)/64)
	list[0].in.each(func(r int32) { first = append(first, r); own.set(r) })
	order := make([]int32, 0, len(regs))
	for r := range regs {
		if begin[r] >= 0 {
			order = append(order, int32(r))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		if begin[a] != begin[b] {
			return begin[a] - begin[b]
		}
		return int(a - b)
	})
	type held struct {
		end  int
		slot int32
	}
	var busy [3][]held
	var free [3][]int32
	for _, r := range order {
		f := regs[r].file()
		if own.has(r) {
			slot[r] = int32(counts[f])
			counts[f]++
			continue
		}
		// What ends before this begins gives its slot back. One that ends where this
		// begins keeps it: an instruction may write before it has read all.
		kept := busy[f][:0]
		for _, h := range busy[f] {
			if h.end < begin[r] {
				free[f] = append(free[f], h.slot)
			} else {
				kept = append(kept, h)
			}
		}
		busy[f] = kept
		if n := len(free[f]); n > 0 {
			slot[r] = free[f][n-1]
			free[f] = free[f][:n-1]
		} else {
			slot[r] = int32(counts[f])
			counts[f]++
		}
		busy[f] = append(busy[f], held{end[r], slot[r]})
	}
	return slot, counts, first
}

// tainted lists the registers that may hold something computed from a register that was
// never written, those of first among them.
func tainted(code []inst, first []int32, registers int) []int32 {
	in := make(bitset, (registers+63)/64)
	list := append([]int32(nil), first...)
	for _, r := range first {
		in.set(r)
	}
	for changed := len(first) > 0; changed; {
		changed = false
		for i := range code {
			if code[i].parts[0] == "ld" || code[i].parts[0] == "atom" {
				continue
			}
			reads := false
			code[i].uses(func(r int32) { reads = reads || in.has(r) })
			if !reads {
				continue
			}
			code[i].defines(func(r int32) {
				if !in.has(r) {
					in.set(r)
					list = append(list, r)
					changed = true
				}
			})
		}
	}
	return list
}

// suspect is what an instruction does with registers of tainted, by their index in
// Kernel.checked and warp.written.
type suspect struct {
	reads, writes []int32
	guard         int32 // −1: not suspect
	effect        bool  // what it reads has one
	yes, no       int32 // of selp: what is chosen from, −1: not suspect
	by            func(w *warp) uint32
}

func (b *builder) suspects(in *inst) *suspect {
	s := &suspect{guard: -1, yes: -1, no: -1}
	if in.guard >= 0 {
		if i, ok := b.check[in.guard]; ok {
			s.guard = i
		}
	}
	list := func(into *[]int32, o *operand) {
		o.visit(func(r int32) {
			if i, ok := b.check[r]; ok {
				*into = append(*into, i)
			}
		})
	}
	from := in.results()
	for i := range in.args {
		switch {
		case i < from:
			list(&s.writes, &in.args[i])
		case in.parts[0] == "selp" && i < 3 && in.args[i].kind == 'r':
			if j, ok := b.check[in.args[i].reg]; ok && i == 1 {
				s.yes = j
			} else if ok {
				s.no = j
			}
		default:
			list(&s.reads, &in.args[i])
		}
	}
	if s.yes >= 0 || s.no >= 0 {
		s.by = b.sp(in.args[3])
	}
	switch in.parts[0] {
	case "ld", "ldu", "st", "atom", "red", "shfl", "vote", "mma", "bar", "match", "redux":
		s.effect = true
	}
	if s.reads == nil && s.writes == nil && s.guard < 0 && s.yes < 0 && s.no < 0 {
		return nil
	}
	return s
}

// follow passes on which lanes of registers hold something written, and reports others
// where they have an effect.
func (w *warp) follow(in *instr, mask uint32) {
	s := in.suspect
	if s.guard >= 0 {
		w.defined(in, s.guard, w.active)
	}
	good := all
	for _, r := range s.reads {
		if s.effect {
			w.defined(in, r, mask)
		} else {
			good &= w.written[r]
		}
	}
	if s.by != nil {
		p, yes, no := s.by(w), all, all
		if s.yes >= 0 {
			yes = w.written[s.yes]
		}
		if s.no >= 0 {
			no = w.written[s.no]
		}
		good &= p&yes | ^p&no
	}
	for _, d := range s.writes {
		w.written[d] = w.written[d]&^mask | good&mask
	}
}

func (w *warp) defined(in *instr, r int32, mask uint32) {
	if m := mask &^ w.written[r]; m != 0 {
		w.find(FindRegister, m, fmt.Sprintf("%s depends on register %s, which the lane has not written or computed from such a one", in.op, w.kernel.checked[r]))
	}
}
