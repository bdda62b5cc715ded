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

func (b bitset) contains(i int32) bool { return b[i>>6]>>(i&63)&1 != 0 }
func (b bitset) set(i int32)           { b[i>>6] |= 1 << (i & 63) }
func (b bitset) clear(i int32)         { b[i>>6] &^= 1 << (i & 63) }
func (b bitset) forEach(f func(i int32)) {
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
func blocks(code []resolved) []blockOf {
	leader := make([]bool, len(code)+1)
	leader[0], leader[len(code)] = true, true
	for i := range code {
		if code[i].label != "" {
			leader[code[i].target], leader[i+1] = true, true
		} else if p := code[i].parts[0]; p == "ret" || p == "exit" || p == "trap" {
			leader[i+1] = true
		}
	}
	numbers := make([]int, len(code)+1)
	var list []blockOf
	for i := range code {
		if leader[i] {
			list = append(list, blockOf{first: i})
		}
		numbers[i] = len(list) - 1
		list[len(list)-1].end = i + 1
	}
	for b := range list {
		last := &code[list[b].end-1]
		if last.label != "" && last.target < len(code) {
			list[b].next = append(list[b].next, numbers[last.target])
		}
		if !last.ends() && list[b].end < len(code) {
			list[b].next = append(list[b].next, numbers[list[b].end])
		}
	}
	return list
}

// liveness finds the registers that are read behind the begin and the end of each block.
func liveness(code []resolved, list []blockOf, registers int) {
	words := (registers + 63) / 64
	kill := make([]bitset, len(list))
	for b := range list {
		use, def := make(bitset, words), make(bitset, words)
		for i := list[b].end - 1; i >= list[b].first; i-- {
			instruction := &code[i]
			if instruction.guard < 0 { // under a predicate a write leaves lanes as they were
				instruction.defines(func(r int32) { def.set(r); use.clear(r) })
			}
			instruction.uses(func(r int32) { use.set(r) })
		}
		list[b].in, list[b].out, kill[b] = use, make(bitset, words), def
	}
	// Whatever is read in a block is in use already; kill bounds what comes from behind.
	for grows := true; grows; {
		grows = false
		for b := len(list) - 1; b >= 0; b-- {
			k := &list[b]
			for _, n := range k.next {
				for w, v := range list[n].in {
					if v&^k.out[w] != 0 {
						k.out[w] |= v
						grows = true
					}
				}
			}
			for w, v := range k.out {
				k.in[w] |= v &^ kill[b][w]
			}
		}
	}
}

// assign gives each register its place, and the kernel the size of all; first are those that may be read before they
// are written. Special registers come first, then registers of 16, 32 and 64 bits.
func assign(code []resolved, regs []vreg, k *Kernel) (place []int32, first []int32) {
	place = make([]int32, len(regs))
	k.registers = 128 * len(specials)
	if len(code) == 0 {
		return place, nil
	}
	list := blocks(code)
	liveness(code, list, len(regs))
	begin, end := make([]int, len(regs)), make([]int, len(regs))
	for r := range regs {
		begin[r] = -1
	}
	touch := func(r int32, position int) {
		if begin[r] < 0 {
			begin[r], end[r] = position, position
		}
		begin[r], end[r] = min(begin[r], position), max(end[r], position)
	}
	for b := range list {
		k := &list[b]
		k.in.forEach(func(r int32) { touch(r, k.first) })
		k.out.forEach(func(r int32) { touch(r, k.end) })
		for i := k.first; i < k.end; i++ {
			code[i].uses(func(r int32) { touch(r, i) })
			code[i].defines(func(r int32) { touch(r, i) })
		}
	}
	entry := list[0].in
	entry.forEach(func(r int32) { first = append(first, r) })
	var order []int32
	for r := range regs {
		if begin[r] >= 0 {
			order = append(order, int32(r))
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return begin[a] - begin[b] })
	type interval struct {
		end  int
		slot int32
	}
	type file struct {
		busy  []interval
		free  []int32
		count int32
	}
	files := map[int]*file{0: {}, 2: {}, 4: {}, 8: {}} // by their registers' bytes
	for _, r := range order {
		f := files[regs[r].width()]
		// What ends before this begins gives its slot back. One that ends where this
		// begins keeps it: an instruction may write before it has read all.
		if !entry.contains(r) {
			f.busy = slices.DeleteFunc(f.busy, func(h interval) bool {
				if h.end < begin[r] {
					f.free = append(f.free, h.slot)
				}
				return h.end < begin[r]
			})
		}
		if n := len(f.free); n > 0 && !entry.contains(r) {
			place[r], f.free = f.free[n-1], f.free[:n-1]
		} else {
			place[r] = f.count
			f.count++
		}
		if !entry.contains(r) {
			f.busy = append(f.busy, interval{end[r], place[r]})
		}
	}
	k.predicates = int(files[0].count)
	base := map[int]int32{}
	for _, size := range []int{2, 4, 8} {
		base[size] = int32(k.registers)
		k.registers += 32 * size * int(files[size].count)
	}
	for _, r := range order {
		if size := regs[r].width(); size > 0 {
			place[r] = base[size] + 32*int32(size)*place[r]
		}
	}
	return place, first
}
