package ptx

import (
	"fmt"
	"math/bits"
	"sync"
	"unsafe"
)

// Two accesses of one word by different threads, of which one writes, are a race unless
// something orders them: a barrier of the block, or one of the warp (bar.warp.sync) between
// lanes of one warp; between blocks of a launch nothing does. Shuffles and votes bring lanes
// together but order no memory, and lanes that execute one instruction together are not
// ordered by that either, as the PTX ISA document has it. Atomics race with other accesses
// alone. Threads that write what is there already, as several do who write the same value,
// are let off.
//
// Of each word of four bytes the last writer is kept, and the readers since: their lanes
// while they are of one warp, and whether there were several warps or blocks. A word that is
// accessed by parts is followed byte by byte. What is found is a race; one between a third
// access and two before it may hide behind another.

// cell is what is known of a word.
type cell struct {
	stamp          uint32 // of the block or launch that it is about
	wEpoch, rEpoch uint32 // barriers of the block passed; 0: no access
	wTime, rTime   uint32 // synchronisations of the warp
	wBlock, rBlock uint32
	rLanes         uint32
	wLine, rLine   int32
	wThread        uint16
	rWarp          uint8
	wBytes, rBytes uint8
	validBytes     uint8 // bytes of the word that have been, of shared memory
	flags          uint8
}

const (
	manyWarps uint8 = 1 << iota
	manyBlocks
	wAtomic
	rAtomic
	byParts // the bytes have cells of their own
)

// parts are the cells of the bytes of words.
type parts map[uint64]*[4]cell

// visit holds an access of a word, or of bytes of it, against those before it.
func (w *warp) visit(c *cell, p *parts, a *access, lane int, bytes uint8, word uint64, space space) {
	if bytes == 15 && c.flags&byParts == 0 {
		w.touch(c, a, lane, bytes, word<<2, space)
		return
	}
	if c.flags&byParts == 0 {
		if *p == nil {
			*p = parts{}
		}
		(*p)[word] = &[4]cell{*c, *c, *c, *c}
		c.flags |= byParts
	}
	entries := (*p)[word]
	for b := range entries {
		if bytes>>b&1 != 0 {
			w.touch(&entries[b], a, lane, 1<<b, word<<2, space)
		}
	}
}

// shadow is the cells of an allocation, made by pages as they are touched.
type shadow struct {
	pages []page
}

const pageWords = 1024

type page struct {
	mutex sync.Mutex
	cells []cell
	parts parts
}

// ordered tells whether an access of a lane of this warp at a time comes before what another
// lane does now.
func (w *warp) ordered(lane int, time uint32, now int) bool {
	return time < w.fullSync || w.clocks != nil && w.clocks[now][lane] >= time
}

// synchronise is a barrier of lanes of a warp.
func (w *warp) synchronise(mask uint32) {
	if mask == w.live {
		w.time++
		w.fullSync = w.time
		return
	}
	if w.clocks == nil {
		w.clocks = new([32][32]uint32)
	}
	var joint [32]uint32
	for i := range lanes(mask) {
		for j := range joint {
			joint[j] = max(joint[j], w.clocks[i][j])
		}
		joint[i] = w.time
	}
	for i := range lanes(mask) {
		w.clocks[i] = joint
	}
	w.time++
}

// observe follows an access of memory for what Options ask.
func (w *warp) observe(a *access, space space, mask uint32) {
	if w.checks&checkCount != 0 {
		w.transactions(a, space, mask)
	}
	switch {
	case space == local && w.checks&checkShared != 0:
		w.observeLocal(a, mask)
	case space == shared && w.checks&checkShared != 0:
		w.observeShared(a, mask)
	case space == global && w.checks&checkGlobal != 0:
		w.observeGlobal(a, mask)
	}
}

// part is the bytes that an access of n bytes at an address touches of a word.
func part(address uint64, n int) uint8 {
	if n >= 4 {
		return 15
	}
	return uint8(1<<n-1) << (address & 3)
}

func (w *warp) observeShared(a *access, mask uint32) {
	n := a.bytes()
	stamp := w.block.stamp
	whole := n&3 == 0 && !a.atomic
	for m := mask; m != 0; {
		i := bits.TrailingZeros32(m) & 31
		x := w.addresses[i]
		group := w.alike(a, i, x, m)
		m &^= group
		bytes := part(x, n)
		for word := x >> 2; word<<2 < x+uint64(n); word++ {
			c := &w.block.cells[word]
			if c.stamp != stamp {
				*c = cell{stamp: stamp}
			}
			if whole && w.plain(c, a, i, group) {
				e := element(a, x, word)
				switch {
				case !a.store && c.validBytes != 15:
					w.good[e] &^= group
				case a.store && w.good[e]&group != 0:
					c.validBytes = 15
				case a.store:
					c.validBytes = 0
				}
				continue
			}
			for i := range lanes(group) {
				w.mark(a, i, x, word, bytes, &c.validBytes)
				w.visit(c, &w.block.parts, a, i, bytes, word, shared)
			}
		}
	}
}

func (w *warp) observeGlobal(a *access, mask uint32) {
	if a.store {
		w.reportStored(mask)
	}
	n := a.bytes()
	stamp := w.run.stamp
	whole := n&3 == 0 && !a.atomic
	var s *segment
	var cells *shadow
	var current *page
	slot := ^uint64(0)
	for m := mask; m != 0; {
		i := bits.TrailingZeros32(m) & 31
		x := w.addresses[i]
		group := w.alike(a, i, x, m)
		m &^= group
		if x >= moduleBase {
			continue
		}
		if x>>slotBits != slot {
			slot = x >> slotBits
			s, _ = w.run.machine.Memory.find(x)
			cells = w.run.shadowOf(s)
		}
		position := offset(x)
		bytes := part(position, n)
		for word := position >> 2; word<<2 < position+uint64(n); word++ {
			if p := &cells.pages[word/pageWords]; p != current {
				if current != nil {
					current.mutex.Unlock()
				}
				current = p
				p.mutex.Lock()
				if p.cells == nil {
					p.cells = make([]cell, pageWords)
				}
			}
			// The page is held: blocks on other cores store other bytes of this word.
			if a.store {
				s.valid[word] |= bytes
			} else if bytes&^s.valid[word] != 0 {
				w.good[element(a, position, word)] &^= group
			}
			c := &current.cells[word%pageWords]
			if c.stamp != stamp {
				*c = cell{stamp: stamp}
			}
			if whole && w.plain(c, a, i, group) {
				continue
			}
			for i := range lanes(group) {
				w.visit(c, &current.parts, a, i, bytes, word, global)
			}
		}
	}
	if current != nil {
		current.mutex.Unlock()
	}
}

// alike gives lane i and the lanes behind it, without a gap, that load from the same address.
func (w *warp) alike(a *access, i int, x uint64, mask uint32) uint32 {
	lanes := uint32(1) << i
	if a.store {
		return lanes
	}
	for i++; i < 32 && mask>>i&1 != 0 && w.addresses[i] == x; i++ {
		lanes |= 1 << i
	}
	return lanes
}

// plain does for a whole word what touch does, where a glance shows that it is no race: what
// another thread wrote lies behind a barrier of this block or warp, and so, for one who writes,
// does what others read. It tells whether that was so.
func (w *warp) plain(c *cell, a *access, lane int, lanes uint32) bool {
	block, epoch := uint32(w.block.linear), w.block.epoch
	index, thread := uint8(w.index), uint16(32*w.index+lane)
	if c.flags&^(manyWarps|manyBlocks) != 0 || c.wEpoch != 0 && c.wBlock != block {
		return false
	}
	if c.wEpoch == epoch && (c.wThread>>5 != thread>>5 || c.wTime >= w.fullSync) && (c.wThread != thread || lanes != 1<<lane) {
		return false
	}
	if a.store {
		if c.rEpoch != 0 && (c.rBlock != block || c.flags&manyBlocks != 0) ||
			c.rEpoch == epoch && (c.flags != 0 || c.rWarp != index || c.rTime >= w.fullSync && c.rLanes != lanes) {
			return false
		}
		c.write(w, thread, 15)
		return true
	}
	if c.rTime == w.time && c.rEpoch == epoch && c.rBlock == block && c.rWarp == index { // as the reads of one loop
		c.rLanes |= lanes
		return true
	}
	c.read(w, lanes, 15)
	return true
}

// write and read note an access by lanes of a warp. Readers join those before of the same warp and time.
func (c *cell) write(w *warp, thread uint16, bytes uint8) {
	c.wEpoch, c.wTime, c.wBlock = w.block.epoch, w.time, uint32(w.block.linear)
	c.wThread, c.wLine, c.wBytes = thread, w.kernel.code[w.pc].line, bytes
	c.flags &^= wAtomic
}

func (c *cell) read(w *warp, lanes uint32, bytes uint8) {
	block, epoch, index := uint32(w.block.linear), w.block.epoch, uint8(w.index)
	switch {
	case c.rEpoch == 0:
		c.flags &^= manyWarps | manyBlocks | rAtomic
		c.rLanes = 0
	case c.rBlock != block:
		c.flags |= manyBlocks
	case c.rEpoch != epoch:
		c.flags &^= manyWarps
		c.rLanes = 0
	case c.rWarp != index:
		c.flags |= manyWarps
	case c.rTime != w.time:
		c.rLanes = 0
	}
	c.rEpoch, c.rTime, c.rBlock = epoch, w.time, block
	c.rWarp, c.rLine, c.rBytes = index, w.kernel.code[w.pc].line, bytes
	c.rLanes |= lanes
}

// shadowOf gives the cells of an allocation.
func (r *run) shadowOf(s *segment) *shadow {
	r.shadows.Lock()
	defer r.shadows.Unlock()
	if s.shadow == nil {
		s.shadow = &shadow{make([]page, (len(s.data)/4+pageWords)/pageWords)}
	}
	return s.shadow
}

// touch holds an access against those before it.
func (w *warp) touch(c *cell, a *access, lane int, bytes uint8, address uint64, space space) {
	thread := uint16(32*w.index + lane)
	block, epoch := uint32(w.block.linear), w.block.epoch
	if c.wEpoch != 0 && c.wBytes&bytes != 0 && !(a.atomic && c.flags&wAtomic != 0) {
		race := false
		switch {
		case c.wBlock != block:
			race = true
		case c.wThread == thread || c.wEpoch != epoch:
		case c.wThread>>5 == thread>>5:
			race = !w.ordered(int(c.wThread&31), c.wTime, lane)
		default:
			race = true
		}
		if race && (!a.store || !w.unchanged(a, lane, address, space)) {
			w.race(a, lane, address, space, "written", c.wLine, c.wBlock, int(c.wThread))
		}
	}
	if a.store && c.rEpoch != 0 && c.rBytes&bytes != 0 && !(a.atomic && c.flags&rAtomic != 0) {
		race, reader := false, int(c.rWarp)*32+bits.TrailingZeros32(c.rLanes)
		switch {
		case c.flags&manyBlocks != 0 || c.rBlock != block:
			race = true
		case c.rEpoch != epoch:
		case c.flags&manyWarps != 0 || c.rWarp != uint8(w.index):
			race = true
		default:
			for m := c.rLanes &^ (1 << lane); m != 0 && !race; m &= m - 1 {
				l := bits.TrailingZeros32(m)
				reader = int(c.rWarp)*32 + l
				race = !w.ordered(l, c.rTime, lane)
			}
		}
		if race && !w.unchanged(a, lane, address, space) {
			w.race(a, lane, address, space, "read", c.rLine, c.rBlock, reader)
		}
	}
	if a.store {
		c.write(w, thread, bytes)
	}
	if !a.atomic {
		if !a.store {
			c.read(w, 1<<lane, bytes)
			c.flags &^= rAtomic
		}
		return
	}
	c.flags |= wAtomic
	// Whether all readers that no barrier lies behind are atomics.
	atomics := c.rEpoch == 0 || c.flags&rAtomic != 0 || c.rEpoch != epoch && c.rBlock == block && c.flags&manyBlocks == 0
	c.read(w, 1<<lane, bytes)
	if atomics {
		c.flags |= rAtomic
	}
}

// unchanged tells whether a store writes what the word holds: nobody could see it.
func (w *warp) unchanged(a *access, lane int, address uint64, space space) bool {
	if a.atomic {
		return false
	}
	base := w.addresses[lane]
	if space == global {
		base = offset(base)
	}
	k := int(address) - int(base) // of the word in the access; below 0 for a part of a word
	for e, slot := range a.registers {
		offset := e * a.size
		if offset+a.size <= k || k >= 0 && offset >= k+4 {
			continue
		}
		stored := unsafe.Slice((*byte)(unsafe.Add(w.pointers[lane], offset)), a.size)
		if string(stored) != string(unsafe.Slice((*byte)(unsafe.Add(w.register(slot), lane*a.width)), a.size)) {
			return false
		}
	}
	return true
}

func (w *warp) race(a *access, lane int, address uint64, space space, earlier string, line int32, block uint32, thread int) {
	verb := "reads"
	if a.store {
		verb = "writes"
	}
	place := ""
	if space == global && block != uint32(w.block.linear) {
		place = fmt.Sprintf(" of block %d", block)
	}
	w.find(FindRace, 1<<lane, fmt.Sprintf("%s the word at offset %d of %s memory, %s at line %d by thread %d%s with nothing between that orders them",
		verb, address, spaceNames[space], earlier, line, thread, place))
}
