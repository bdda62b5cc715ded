package ptx

import (
	"fmt"
	"math/bits"
	"unsafe"
)

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func shuffle(list []int, random *uint64) {
	for i := len(list) - 1; i > 0; i-- {
		*random = mix(*random)
		j := int(*random % uint64(i+1))
		list[i], list[j] = list[j], list[i]
	}
}

// laneOrder lists the lanes of a mask, ascending or in an order that the seed draws.
func (w *warp) laneOrder(mask uint32) []int {
	w.order = w.order[:0]
	for i := range lanes(mask) {
		w.order = append(w.order, i)
	}
	if w.run.machine.options.Seed != 0 {
		shuffle(w.order, &w.random)
	}
	return w.order
}

// begin sets a warp to the begin of the kernel for a block.
func (w *warp) begin() {
	l, b := w.run.launch, w.block
	threads := l.Block[0] * l.Block[1] * l.Block[2]
	w.exists = 0
	for lane := range 32 {
		t := 32*w.index + lane
		if t < threads {
			w.exists |= 1 << lane
		}
		values := [...]int{t % l.Block[0], t / l.Block[0] % l.Block[1], t / l.Block[0] / l.Block[1], l.Block[0], l.Block[1], l.Block[2],
			b.index[0], b.index[1], b.index[2], l.Grid[0], l.Grid[1], l.Grid[2], lane, w.index, len(w.worker.warps),
			1 << lane, 2<<lane - 1, 1<<lane - 1, int(all << lane), int(all<<lane) &^ (1 << lane)}
		for i, v := range values {
			vector[uint32](w.register(int32(128 * i)))[lane] = uint32(v)
		}
	}
	w.live, w.active = w.exists, w.exists
	w.pc, w.state = 0, running
	w.groups, w.limit = w.groups[:0], 1<<31-1
	w.time, w.fullSync, w.clocks = 1, 1, nil
	w.random = mix(w.run.machine.options.Seed ^ uint64(b.linear)<<8 ^ uint64(w.index))
	clear(w.origin)
	for i := range w.valid {
		w.valid[i] = all
	}
	for _, r := range w.kernel.unwritten {
		w.valid[r] = 0
	}
	clear(w.localWritten)
	w.shuffled, w.good = all, [4]uint32{all, all, all, all}
	for i := range w.local {
		w.local[i] = 0xff
	}
	w.split()
}

// split parts the lanes that run together where each is to run alone.
func (w *warp) split() {
	if w.run.machine.options.Order != Lanes || bits.OnesCount32(w.active) < 2 {
		return
	}
	for i := range lanes(w.active) {
		w.groups = append(w.groups, group{w.pc, 1 << i, false})
	}
	w.active = 0
	w.choose()
}

// park puts the running lanes among the groups, with those that stand at the same place.
func (w *warp) park(blocked bool) {
	if w.active == 0 {
		return
	}
	lanes := w.run.machine.options.Order == Lanes
	for i := range w.groups {
		if g := &w.groups[i]; g.pc == w.pc && (!lanes || blocked && g.blocked) {
			g.mask |= w.active
			g.blocked = false // who came may complete it
			w.active = 0
			return
		}
	}
	w.groups = append(w.groups, group{w.pc, w.active, blocked})
	w.active = 0
}

// choose takes the group that runs next; without any that can, the warp waits for ever.
func (w *warp) choose() {
	best := -1
	if w.run.machine.options.Order == Lanes {
		able := 0
		for i := range w.groups {
			if !w.groups[i].blocked {
				able++
				w.random = mix(w.random)
				if w.random%uint64(able) == 0 {
					best = i
				}
			}
		}
	} else {
		for i := range w.groups {
			if g := &w.groups[i]; !g.blocked && (best < 0 || g.pc < w.groups[best].pc) {
				best = i
			}
		}
	}
	if best < 0 {
		if len(w.groups) == 0 {
			w.state = finished
			return
		}
		w.stuck()
	}
	g := w.groups[best]
	w.groups[best] = w.groups[len(w.groups)-1]
	w.groups = w.groups[:len(w.groups)-1]
	w.pc, w.active = g.pc, g.mask
	w.bound()
}

// bound finds how far the running lanes go before others stand where they are.
func (w *warp) bound() {
	w.limit = 1<<31 - 1
	if w.run.machine.options.Order == Lanes {
		return
	}
	for i := range w.groups {
		if g := &w.groups[i]; g.pc > w.pc {
			w.limit = min(w.limit, g.pc)
		} else if g.pc == w.pc {
			w.limit = w.pc
		}
	}
}

// stuck ends the launch: lanes wait for others that never come.
func (w *warp) stuck() {
	g := w.groups[0]
	instruction := &w.kernel.code[g.pc]
	rest := ""
	for _, o := range w.groups[1:] {
		rest += fmt.Sprintf(", lanes %08x at line %d", o.mask, w.kernel.code[o.pc].line)
	}
	w.pc = g.pc
	kind := FaultDivergence
	if instruction.kind == doBarrier {
		kind = FaultBarrier
	}
	w.fail(kind, g.mask, fmt.Sprintf("%s waits for lanes that never come: lanes %08x are there%s, %08x have ended", instruction.op, g.mask, rest, w.exists&^w.live))
}

// execute runs the warp until it ends or waits at a barrier of the block.
func (w *warp) execute() {
	code := w.kernel.code
	count := w.worker.count
	if w.active == 0 && w.state == running {
		w.choose()
		if w.state != running {
			return
		}
	}
	for {
		if w.pc >= w.limit {
			w.park(false)
			w.choose()
		}
		instruction := &code[w.pc]
		mask := w.active
		if instruction.guard >= 0 {
			p := w.predicates[instruction.guard]
			if instruction.negated {
				p = ^p
			}
			mask &= p
		}
		t := &count[w.pc]
		t.warps++
		w.executed++
		t.lanes += uint64(bits.OnesCount32(mask))
		s := instruction.unsure
		if s != nil && !instruction.always && w.checks&checkUnwritten == 0 {
			s = nil
		}
		if s != nil && !(s.few && w.plainly(s, mask)) {
			w.follow(instruction, s, mask)
		}
		switch instruction.kind {
		case doLanes:
			if mask == 0 {
				break
			}
			dst := w.register(instruction.dst)
			if mask != all {
				dst = unsafe.Pointer(&w.result)
			}
			w.mask = mask
			instruction.apply(w, dst, w.register(instruction.operands[0]), w.register(instruction.operands[1]), w.register(instruction.operands[2]))
			if mask != all {
				w.merge(instruction, mask)
			}
		case doPredicate:
			p := instruction.holds(w)
			w.predicates[instruction.dst] = w.predicates[instruction.dst]&^mask | p&mask
		case doMasked:
			if mask != 0 {
				instruction.effect(w, mask)
				if s != nil && instruction.access != nil {
					w.loaded(instruction, s, mask)
				}
			}
		case doBranch:
			if mask == w.active {
				w.pc = instruction.target
			} else if mask != 0 {
				t.split++
				rest, pc := w.active&^mask, w.pc
				w.pc, w.active = instruction.target, mask
				w.park(false)
				w.pc, w.active = pc+1, rest
			} else {
				w.pc++
			}
			if len(w.groups) > 0 {
				w.bound()
				if w.run.machine.options.Order == Lockstep {
					w.lowest()
				}
			}
			continue
		case doExit:
			w.live &^= mask
			w.active &^= mask
			for i := range w.groups { // whom they waited for may be none of those left
				w.groups[i].blocked = false
			}
			if w.active == 0 {
				w.choose()
				if w.state == finished {
					return
				}
				continue
			}
		case doTogether:
			if need := instruction.need(w) & w.live; need&^w.active != 0 {
				t.wait(mask)
				w.park(true)
				w.choose()
				continue
			}
			if mask != 0 {
				instruction.effect(w, mask)
				if s != nil && w.shuffled != all {
					w.spread(s, mask)
				}
			}
			if w.run.machine.options.Order == Lanes {
				w.pc++
				w.split()
				continue
			}
		case doBarrier:
			if w.live&^w.active != 0 {
				t.wait(mask)
				w.park(true)
				w.choose()
				continue
			}
			if w.live != w.exists {
				w.find(FindBarrier, w.active, fmt.Sprintf("a barrier that lanes %08x of the warp do not reach: they have ended", w.exists&^w.live))
			}
			if mask != w.active {
				w.find(FindBarrier, w.active, "a barrier under a predicate that differs between lanes")
			}
			w.arrived = 0
			if instruction.holds != nil {
				w.arrived = instruction.holds(w) & w.active
			}
			w.state = atBarrier
			return
		}
		w.pc++
	}
}

// merge writes the lanes of a mask of a result.
func (w *warp) merge(instruction *instr, mask uint32) {
	switch instruction.size {
	case 2:
		merged[uint16](w, instruction, mask)
	case 4:
		merged[uint32](w, instruction, mask)
	default:
		merged[uint64](w, instruction, mask)
	}
}

func merged[T integer](w *warp, instruction *instr, mask uint32) {
	d, r := vector[T](w.register(instruction.dst)), vector[T](unsafe.Pointer(&w.result))
	for i := range lanes(mask) {
		d[i] = r[i]
	}
}

// lowest goes over to lanes that stand at a smaller address than the running ones.
func (w *warp) lowest() {
	for i := range w.groups {
		if g := &w.groups[i]; g.pc < w.pc && !g.blocked {
			w.park(false)
			w.choose()
			return
		}
	}
}
