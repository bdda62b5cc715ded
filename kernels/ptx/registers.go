package ptx

import (
	"math/bits"
	"slices"
)

// Registers of the text are many, each written once; those of a warp lie side by side for
// 32 lanes, so few should do. A register takes its slot from the first to the last
// instruction where it may still be read.
//
// A register that may be read before it is written has a slot of its own: those are live
// where the kernel begins. All others are written on every way to where they are read.

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
