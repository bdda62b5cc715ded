package ptx

import (
	"math/bits"
	"slices"
	"strings"
)

// tally counts one instruction of a kernel.
type tally struct {
	warps, lanes, split, transactions, minimal uint64
}

// wait takes back the count of an instruction that has to be begun again.
func (t *tally) wait(mask uint32) {
	t.warps--
	t.lanes -= uint64(bits.OnesCount32(mask))
}

// transactions counts what an access of a warp costs: of shared memory the cycles in which
// its banks serve it, of global memory the sectors of 32 bytes that it touches; beside them
// the least that as many bytes need.
func (w *warp) transactions(a *access, space space, mask uint32) {
	t := &w.worker.count[w.pc]
	n := a.bytes()
	switch space {
	case shared:
		t.transactions += uint64(requests(&w.addresses, mask, n, !a.store))
		t.minimal += uint64(max(1, (distinct(&w.addresses, mask, 0)*max(n, 4)+127)/128))
	case global:
		t.transactions += uint64(distinct(&w.addresses, mask, 5)) // no lane reaches into a second sector
		t.minimal += uint64((distinct(&w.addresses, mask, 0)*n + 31) / 32)
	default:
		t.transactions++
		t.minimal++
	}
}

// distinct counts the different addresses, without their lowest bits.
func distinct(addr *[32]uint64, mask uint32, lowest int) (count int) {
	// A table of 64 places, twice what it can hold: a number stands at its hash or behind it.
	var table [64]uint64
	var occupied uint64
	last := ^uint64(0)
	for m := mask; m != 0; m &= m - 1 {
		x := addr[bits.TrailingZeros32(m)&31] >> lowest
		if x == last {
			continue
		}
		last = x
		slot := x * 0x9e3779b97f4a7c15 >> 58
		for occupied>>slot&1 != 0 && table[slot] != x {
			slot = (slot + 1) & 63
		}
		if occupied>>slot&1 == 0 {
			occupied |= 1 << slot
			table[slot] = x
			count++
		}
	}
	return count
}

// requests is the cycles that banks of 4 bytes take to serve an access. Accesses of 8 or 16
// bytes a lane are served for half a warp or a quarter at a time, two of these together where
// a load's lanes l and l ^ 1, or l and l ^ 2, read the same address throughout: the rule of
// kernels/include/banks.cuh.
func requests(addr *[32]uint64, mask uint32, n int, load bool) int {
	width := max(n/4, 1)
	batch := 32 / width
	if width > 1 && load {
		one, two := true, true
		for i := range lanes(mask) {
			one = one && (mask>>(i^1)&1 == 0 || addr[i] == addr[i^1])
			two = two && (mask>>(i^2)&1 == 0 || addr[i] == addr[i^2])
		}
		if one || two {
			batch *= 2
		}
	}
	cycles := 0
	for start := 0; start < 32; start += batch {
		part := mask
		if batch < 32 {
			part = mask >> start & (1<<batch - 1) << start
		}
		cycles += busiest(addr, part, width)
	}
	return cycles
}

// busiest is the most different words that lanes access in one bank; banks are as wide as an
// access, width words.
func busiest(addr *[32]uint64, mask uint32, width int) int {
	var words [32]uint64 // the first word of each bank
	var occupied uint32
	var more [32]uint64 // all further ones
	var count [32]int
	further, most := more[:0], 0
	for m := mask; m != 0; m &= m - 1 {
		word := addr[bits.TrailingZeros32(m)&31] >> 2
		bank := int(word) / width % (32 / width) & 31
		switch {
		case occupied>>bank&1 == 0:
			occupied |= 1 << bank
			words[bank] = word
		case words[bank] == word || slices.Contains(further, word):
			continue
		default:
			further = append(further, word)
		}
		count[bank]++
		most = max(most, count[bank])
	}
	return most
}

// Counts are what launches of a kernel did.
type Counts struct {
	Kernel   string
	Launches int
	Blocks   uint64 // of the launches
	Threads  int    // of a block, of the last launch
	Shared   int    // bytes of shared memory of a block, of the last launch
	Barriers uint64 // of blocks
	// Chain is the longest way through a block: between two barriers the instructions of the warp that has the most, added up.
	Chain uint64
	Local int // bytes that a thread has in local memory

	// Instructions of warps and of lanes by class.
	Warps, Lanes        [classes]uint64
	Branches, Divergent uint64 // branches of warps, and those at which lanes part
	Spaces              map[string]Space

	kernel  *Kernel
	tallies []tally
}

// Space is the accesses of one kind of memory.
type Space struct {
	Bytes uint64 // of all lanes
	// Transactions are cycles of the banks of shared memory, sectors of 32 bytes of global
	// memory; Minimal the least that the same bytes need. Both are 0 unless counted.
	Transactions, Minimal uint64
}

func newCounts(k *Kernel) *Counts {
	return &Counts{Kernel: k.Name, Local: k.Local, Spaces: map[string]Space{}, kernel: k, tallies: make([]tally, len(k.code))}
}

// add takes in what workers counted.
func (c *Counts) add(r *run, workers []*worker, blocks, threads int) {
	c.Launches++
	c.Blocks += uint64(blocks)
	c.Threads, c.Shared = threads, r.kernel.dynamicAt+r.launch.Shared
	for _, w := range workers {
		c.Barriers += w.barriers
		c.Chain = max(c.Chain, w.chain)
		for i := range w.count {
			t, o := &c.tallies[i], &w.count[i]
			t.warps += o.warps
			t.lanes += o.lanes
			t.split += o.split
			t.transactions += o.transactions
			t.minimal += o.minimal
		}
	}
}

// sum makes the totals of what was counted by instruction.
func (c *Counts) sum() {
	c.Warps, c.Lanes = [classes]uint64{}, [classes]uint64{}
	c.Branches, c.Divergent = 0, 0
	c.Spaces = map[string]Space{}
	for i := range c.tallies {
		t, instruction := &c.tallies[i], &c.kernel.code[i]
		c.Warps[instruction.class] += t.warps
		c.Lanes[instruction.class] += t.lanes
		if instruction.kind == doBranch {
			c.Branches += t.warps
			c.Divergent += t.split
		}
		if instruction.access == nil {
			continue
		}
		name := instruction.class.String()
		s := c.Spaces[name]
		s.Bytes += t.lanes * uint64(instruction.access.bytes())
		s.Transactions += t.transactions
		s.Minimal += t.minimal
		c.Spaces[name] = s
	}
}

// Counts gives what the machine counted, by kernel.
func (m *Machine) Counts() []*Counts {
	var list []*Counts
	for _, c := range m.counts {
		c.sum()
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *Counts) int { return strings.Compare(a.Kernel, b.Kernel) })
	return list
}
