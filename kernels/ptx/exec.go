package ptx

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

const all = ^uint32(0)

// Order is how the lanes of a warp take turns.
type Order int

// Orders of lanes. A program without races gives the same result in each.
const (
	// Lockstep runs the lanes of a warp together, those at the smallest address first, so
	// that they come together again behind a branch.
	Lockstep Order = iota
	// Lanes runs one lane at a time, in an order that the seed draws, to where lanes have to
	// meet: a shuffle, a vote, a product of tensor cores or a barrier.
	Lanes
)

// Options say what a machine checks and counts. The zero value executes, finds what is out
// of bounds, misaligned, or waits for ever, and registers that are read unwritten.
type Options struct {
	Seed uint64 // of the orders of warps and lanes; 0: ascending
	// Errors draws the errors of approximate instructions and the order in which tensor cores
	// add; 0: none, and exact sums.
	Errors uint64
	Order  Order
	Shared bool // races in shared memory and shared words that are read unwritten
	Global bool // the same of global memory
	Count  bool // transactions and bank conflicts (instructions are counted always)
	// Tolerate lets a launch go on where something is found that is no fault: findings are
	// then only listed. Without it a finding is an error of the launch.
	Tolerate bool
	// Sample runs so many of the blocks along a grid's first extent, spread evenly, with all
	// behind them; 0: all. What counts say then stands for those blocks. Where blocks are rows
	// of a batch, kernels with blocks of different sizes run the same rows, if their number
	// and the sizes are powers of two.
	Sample int
}

// Machine is a device: memory, and what it found and counted. Its methods must not be called
// side by side.
type Machine struct {
	Memory  Memory
	options Options
	found   findings
	counts  map[string]*Counts
	stamp   uint32
}

// SetSample changes Options.Sample between launches.
func (m *Machine) SetSample(n int) { m.options.Sample = n }

// NewMachine makes a machine without anything in its memory.
func NewMachine(o Options) *Machine {
	m := &Machine{options: o, counts: map[string]*Counts{}}
	m.Memory.follow = o.Global
	return m
}

// Launch is the extent of a launch.
type Launch struct {
	Grid, Block [3]int
	Shared      int // bytes of dynamic shared memory
}

// run is one launch under way.
type run struct {
	machine *Machine
	kernel  *Kernel
	launch  Launch
	args    []byte
	atomics sync.Mutex
	shadows sync.Mutex
	stamp   uint32
	next    atomic.Int64
	stopped atomic.Bool
	mutex   sync.Mutex // of found
	found   findings
}

// Launch runs a kernel with its arguments as they lie in parameter memory (Kernel.Params).
// A fault is a *Fault, joined with a *FoundError where something was found before it;
// findings that are not tolerated are a *FoundError.
func (m *Machine) Launch(k *Kernel, l Launch, args []byte) error {
	blocks, threads := 1, 1
	for i := range 3 {
		l.Grid[i], l.Block[i] = max(l.Grid[i], 1), max(l.Block[i], 1)
		blocks *= l.Grid[i]
		threads *= l.Block[i]
	}
	if most := k.MaxThreads[0] * k.MaxThreads[1] * k.MaxThreads[2]; threads > 1024 || most > 0 && threads > most {
		return fmt.Errorf("kernel %s: a block of %d threads", k.Name, threads)
	}
	if len(args) != k.args {
		return fmt.Errorf("kernel %s: %d bytes of arguments, it takes %d", k.Name, len(args), k.args)
	}
	m.stamp++
	held := newBytes(len(args))
	copy(held, args)
	r := &run{machine: m, kernel: k, launch: l, args: held, stamp: m.stamp}
	ran := blocks / l.Grid[0] * min(l.Grid[0], cmp.Or(m.options.Sample, l.Grid[0]))
	workers := min(runtime.GOMAXPROCS(0), ran)
	results := make([]*worker, workers)
	faults := make([]*Fault, workers)
	var group sync.WaitGroup
	for i := range workers {
		results[i] = newWorker(r, (threads+31)/32)
		group.Go(func() { faults[i] = results[i].blocks(blocks, ran) })
	}
	group.Wait()
	c := m.counts[k.Name]
	if c == nil || c.kernel != k { // an image of another text may have the same entry
		c = newCounts(k)
		m.counts[k.Name] = c
	}
	c.add(r, results, blocks, ran, threads)
	for _, w := range results {
		w.release()
	}
	for _, f := range r.found.list {
		m.found.add(f)
	}
	for _, f := range faults {
		if f != nil {
			m.found.add(f.Finding)
			if len(r.found.list) > 0 {
				return errors.Join(f, &FoundError{r.found.list})
			}
			return f
		}
	}
	if len(r.found.list) > 0 && !m.options.Tolerate {
		return &FoundError{r.found.list}
	}
	return nil
}

// worker runs blocks on one goroutine.
type worker struct {
	run   *run
	block *block
	warps []*warp
	// Counts by instruction.
	count    []tally
	barriers uint64
}

// block is what the threads of a block share.
type block struct {
	index  [3]int
	linear int
	shared []byte
	cells  []cell // of the words of shared memory
	parts  parts
	stamp  uint32
	epoch  uint32 // barriers passed, from 1
}

// group is lanes of a warp that stand at one instruction.
type group struct {
	pc      int32
	mask    uint32
	waiting bool // for others, at an instruction that all execute together
}

type warp struct {
	registers  []uint64 // special registers, registers and constants, as Kernel has their places
	base       unsafe.Pointer
	predicates []uint32

	pc, limit int32
	active    uint32
	groups    []group
	live      uint32 // lanes that have not ended
	exists    uint32 // lanes that the block has
	mask      uint32 // lanes that the operation is for
	carry     uint32
	checks    uint8

	// Of registers by their index among Kernel.tracked: the lanes that hold something defined,
	// and the line, or below zero the register, that the rest comes of. The last of written
	// stands for all other registers.
	written      []uint32
	origin       []int32
	good         [4]uint32 // of the elements of an access
	from         int32
	shuffled     uint32 // lanes whose value of a shuffle is defined
	sources      [32]uint8
	localWritten []uint8

	worker  *worker
	run     *run
	block   *block
	kernel  *Kernel
	index   int // in the block
	local   []byte
	state   uint8
	arrived uint32 // predicate brought to a barrier
	random  uint64

	// Order of accesses: synchronisations of the warp so far, the last of all lanes, and, if
	// parts of it synchronised, what each lane knows of each.
	time, together uint32
	known          *[32][32]uint32

	result    [32]uint64 // of an operation that is not for all lanes
	addresses [32]uint64 // of an access, by lane
	places    [32]unsafe.Pointer
	last      *segment
	lastSlot  uint64
	order     []int
}

// at is where the lanes of a register lie.
func (w *warp) at(register int32) unsafe.Pointer { return unsafe.Add(w.base, register) }

// lanes are the lanes of a mask, ascending.
func lanes(mask uint32) iter.Seq[int] {
	return func(yield func(int) bool) {
		for m := mask; m != 0; m &= m - 1 {
			if !yield(bits.TrailingZeros32(m) & 31) {
				return
			}
		}
	}
}

const (
	running uint8 = iota
	atBarrier
	ended
)

const (
	checkShared = 1 << iota
	checkGlobal
	checkCount

	checkUnwritten = checkShared | checkGlobal
)

func newWorker(r *run, warps int) *worker {
	k := r.kernel
	w := &worker{run: r, count: make([]tally, len(k.code))}
	w.block = &block{shared: newBytes(k.dynamicAt + r.launch.Shared)}
	if r.launch.Shared == 0 {
		w.block.shared = w.block.shared[:k.Shared]
	}
	o := r.machine.options
	checks := uint8(bit(o.Shared)*checkShared | bit(o.Global)*checkGlobal | bit(o.Count)*checkCount)
	if o.Shared {
		w.block.cells = cellsOf((len(w.block.shared) + 3) / 4)
	}
	for i := range warps {
		v, _ := k.warps.Get().(*warp)
		if v == nil {
			v = &warp{kernel: k, registers: make([]uint64, k.registers/8+len(k.constants)), predicates: make([]uint32, k.predicates), local: newBytes(32 * k.Local)}
			copy(v.registers[k.registers/8:], k.constants)
			v.base = unsafe.Pointer(&v.registers[0])
			v.written, v.origin = make([]uint32, len(k.tracked)+1), make([]int32, len(k.tracked)+1)
			v.localWritten = make([]uint8, 32*((k.Local+3)/4))
		}
		v.worker, v.run, v.block, v.index, v.checks = w, r, w.block, i, checks
		v.last, v.lastSlot = nil, ^uint64(0)
		w.warps = append(w.warps, v)
	}
	return w
}

// stamps tells the runs of blocks apart, so that cells of an earlier one need no clearing.
var (
	stamps atomic.Uint32
	spare  sync.Pool // of *[]cell
)

func cellsOf(n int) []cell {
	if c, ok := spare.Get().(*[]cell); ok && cap(*c) >= n {
		return (*c)[:n]
	}
	return make([]cell, n)
}

func (w *worker) release() {
	if w.block.cells != nil {
		spare.Put(&w.block.cells)
	}
	for _, v := range w.warps {
		v.worker, v.run, v.block, v.last = nil, nil, nil, nil
		clear(v.places[:])
		v.kernel.warps.Put(v)
	}
}

// blocks runs blocks until none is left, ran of all of them.
func (w *worker) blocks(total, ran int) (fault *Fault) {
	defer func() {
		if r := recover(); r != nil {
			w.run.stopped.Store(true)
			f, ok := r.(*Fault)
			if !ok {
				panic(r)
			}
			fault = f
		}
	}()
	for !w.run.stopped.Load() {
		i := int(w.run.next.Add(1)) - 1
		if i >= ran {
			return nil
		}
		along := w.run.launch.Grid[0]
		every := int(int64(along) * int64(ran) / int64(total)) // of those along the first extent
		w.one(i%every*along/every + i/every*along)
	}
	return nil
}

// one runs a block: its warps by turns, each to the next barrier.
func (w *worker) one(linear int) {
	b, l := w.block, w.run.launch
	b.linear = linear
	b.index = [3]int{linear % l.Grid[0], linear / l.Grid[0] % l.Grid[1], linear / l.Grid[0] / l.Grid[1]}
	b.stamp = stamps.Add(1)
	b.epoch = 1
	for i := range b.shared {
		b.shared[i] = 0xff
	}
	for _, v := range w.warps {
		v.begin()
	}
	random := mix(w.run.machine.options.Seed ^ uint64(linear)<<20)
	order := make([]int, len(w.warps))
	for i := range order {
		order[i] = i
	}
	for {
		if w.run.machine.options.Seed != 0 {
			shuffle(order, &random)
		}
		var waiting []*warp
		for _, i := range order {
			v := w.warps[i]
			if v.state == running {
				v.execute()
			}
			if v.state == atBarrier {
				waiting = append(waiting, v)
			}
		}
		if len(waiting) == 0 {
			return
		}
		w.barriers++
		b.pass(waiting, len(w.warps))
	}
}

// pass lets the warps that wait at a barrier go on, of so many that the block has.
func (b *block) pass(waiting []*warp, warps int) {
	first := waiting[0]
	at := &first.kernel.code[first.pc]
	if len(waiting) < warps {
		first.find(FindBarrier, first.active, fmt.Sprintf("a barrier that %d of %d warps of the block do not reach: they have ended", warps-len(waiting), warps))
	}
	b.epoch++
	var or uint32
	for _, v := range waiting {
		or |= v.arrived
	}
	for _, v := range waiting {
		in := &v.kernel.code[v.pc]
		if in.reduce != at.reduce {
			v.fail(FaultBarrier, v.active, fmt.Sprintf("a barrier while other warps of the block wait at one of another kind, line %d", at.line))
		}
		if in.reduce {
			v.predicates[in.dst] = v.predicates[in.dst]&^v.active | -min(or, 1)&v.active
		}
		v.state = running
		v.time++
		v.together = v.time
		v.pc++
		v.split()
	}
}

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

// drawn lists the lanes of a mask, ascending or in an order that the seed draws.
func (w *warp) drawn(mask uint32) []int {
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
			of[uint32](w.at(int32(128 * i)))[lane] = uint32(v)
		}
	}
	w.live, w.active, w.pc, w.state = w.exists, w.exists, 0, running
	w.groups, w.limit = w.groups[:0], 1<<31-1
	w.time, w.together, w.known = 1, 1, nil
	w.random = mix(w.run.machine.options.Seed ^ uint64(b.linear)<<8 ^ uint64(w.index))
	clear(w.origin)
	for i := range w.written {
		w.written[i] = all
	}
	for _, r := range w.kernel.unwritten {
		w.written[r] = 0
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
func (w *warp) park(waiting bool) {
	if w.active == 0 {
		return
	}
	lanes := w.run.machine.options.Order == Lanes
	for i := range w.groups {
		if g := &w.groups[i]; g.pc == w.pc && (!lanes || waiting && g.waiting) {
			g.mask |= w.active
			g.waiting = false // who came may complete it
			w.active = 0
			return
		}
	}
	w.groups = append(w.groups, group{w.pc, w.active, waiting})
	w.active = 0
}

// choose takes the group that runs next; without any that can, the warp waits for ever.
func (w *warp) choose() {
	best := -1
	if w.run.machine.options.Order == Lanes {
		able := 0
		for i := range w.groups {
			if !w.groups[i].waiting {
				able++
				w.random = mix(w.random)
				if w.random%uint64(able) == 0 {
					best = i
				}
			}
		}
	} else {
		for i := range w.groups {
			if g := &w.groups[i]; !g.waiting && (best < 0 || g.pc < w.groups[best].pc) {
				best = i
			}
		}
	}
	if best < 0 {
		if len(w.groups) == 0 {
			w.state = ended
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
	in := &w.kernel.code[g.pc]
	others := ""
	for _, o := range w.groups[1:] {
		others += fmt.Sprintf(", lanes %08x at line %d", o.mask, w.kernel.code[o.pc].line)
	}
	w.pc = g.pc
	kind := FaultDivergence
	if in.kind == doBarrier {
		kind = FaultBarrier
	}
	w.fail(kind, g.mask, fmt.Sprintf("%s waits for lanes that never come: lanes %08x are there%s, %08x have ended", in.op, g.mask, others, w.exists&^w.live))
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
		in := &code[w.pc]
		mask := w.active
		if in.guard >= 0 {
			p := w.predicates[in.guard]
			if in.not {
				p = ^p
			}
			mask &= p
		}
		t := &count[w.pc]
		t.warps++
		t.lanes += uint64(bits.OnesCount32(mask))
		s := in.unsure
		if s != nil && !in.always && w.checks&checkUnwritten == 0 {
			s = nil
		}
		if s != nil && !(s.few && w.plainly(s, mask)) {
			w.follow(in, s, mask)
		}
		switch in.kind {
		case doLanes:
			if mask == 0 {
				break
			}
			to := w.at(in.dst)
			if mask != all {
				to = unsafe.Pointer(&w.result)
			}
			w.mask = mask
			in.apply(w, to, w.at(in.from[0]), w.at(in.from[1]), w.at(in.from[2]))
			if mask != all {
				w.merge(in, mask)
			}
		case doPredicate:
			p := in.holds(w)
			w.predicates[in.dst] = w.predicates[in.dst]&^mask | p&mask
		case doMasked:
			if mask != 0 {
				in.effect(w, mask)
				if s != nil && in.access != nil {
					w.loaded(in, s, mask)
				}
			}
		case doBranch:
			if mask == w.active {
				w.pc = in.target
			} else if mask != 0 {
				t.split++
				rest, pc := w.active&^mask, w.pc
				w.pc, w.active = in.target, mask
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
				w.groups[i].waiting = false
			}
			if w.active == 0 {
				w.choose()
				if w.state == ended {
					return
				}
				continue
			}
		case doTogether:
			if need := in.need(w) & w.live; need&^w.active != 0 {
				t.wait(mask)
				w.park(true)
				w.choose()
				continue
			}
			if mask != 0 {
				in.effect(w, mask)
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
			if in.holds != nil {
				w.arrived = in.holds(w) & w.active
			}
			w.state = atBarrier
			return
		}
		w.pc++
	}
}

// merge writes the lanes of a mask of a result.
func (w *warp) merge(in *instr, mask uint32) {
	switch in.size {
	case 2:
		merged[uint16](w, in, mask)
	case 4:
		merged[uint32](w, in, mask)
	default:
		merged[uint64](w, in, mask)
	}
}

func merged[T integer](w *warp, in *instr, mask uint32) {
	d, r := of[T](w.at(in.dst)), of[T](unsafe.Pointer(&w.result))
	for i := range lanes(mask) {
		d[i] = r[i]
	}
}

// lowest goes over to lanes that stand at a smaller address than the running ones.
func (w *warp) lowest() {
	for i := range w.groups {
		if g := &w.groups[i]; g.pc < w.pc && !g.waiting {
			w.park(false)
			w.choose()
			return
		}
	}
}
