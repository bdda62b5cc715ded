package ptx

import (
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
}

// Machine is a device: memory, and what it found and counted. Its methods must not be called
// side by side.
type Machine struct {
	Memory   Memory
	options  Options
	findings findings
	counts   map[string]*Counts
	stamp    uint32
}

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
	machine  *Machine
	kernel   *Kernel
	launch   Launch
	args     []byte
	atomics  sync.Mutex
	shadows  sync.Mutex
	stamp    uint32
	next     atomic.Int64
	stopped  atomic.Bool
	mutex    sync.Mutex // of found
	findings findings
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
	arguments := newBytes(len(args))
	copy(arguments, args)
	r := &run{machine: m, kernel: k, launch: l, args: arguments, stamp: m.stamp}
	workers := min(runtime.GOMAXPROCS(0), blocks)
	results := make([]*worker, workers)
	faults := make([]*Fault, workers)
	var group sync.WaitGroup
	for i := range workers {
		results[i] = newWorker(r, (threads+31)/32)
		group.Go(func() { faults[i] = results[i].blocks(blocks) })
	}
	group.Wait()
	c := m.counts[k.Name]
	if c == nil || c.kernel != k { // an image of another text may have the same entry
		c = newCounts(k)
		m.counts[k.Name] = c
	}
	c.add(r, results, blocks, threads)
	for _, w := range results {
		w.release()
	}
	for _, f := range r.findings.list {
		m.findings.add(f)
	}
	for _, f := range faults {
		if f != nil {
			m.findings.add(f.Finding)
			if len(r.findings.list) > 0 {
				return errors.Join(f, &FoundError{r.findings.list})
			}
			return f
		}
	}
	if len(r.findings.list) > 0 && !m.options.Tolerate {
		return &FoundError{r.findings.list}
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
	chain    uint64 // the longest of its blocks
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
	blocked bool // for others, at an instruction that all execute together
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
	// and the line, or below zero the register, that the rest comes of. The last of valid
	// stands for all other registers.
	valid        []uint32
	origin       []int32
	good         [4]uint32 // of the elements of an access
	cause        int32
	shuffled     uint32 // lanes whose value of a shuffle is defined
	sources      [32]uint8
	localWritten []uint8

	worker *worker
	run    *run
	block  *block
	kernel *Kernel
	index  int // in the block
	local  []byte
	// executed counts the instructions since the last barrier of the block.
	executed uint64
	state    uint8
	arrived  uint32 // predicate brought to a barrier
	random   uint64

	// Order of accesses: synchronisations of the warp so far, the last of all lanes, and, if
	// parts of it synchronised, what each lane knows of each.
	time, fullSync uint32
	clocks         *[32][32]uint32

	result    [32]uint64 // of an operation that is not for all lanes
	addresses [32]uint64 // of an access, by lane
	pointers  [32]unsafe.Pointer
	last      *segment
	lastSlot  uint64
	order     []int
}

// register is where the lanes of a register lie.
func (w *warp) register(register int32) unsafe.Pointer { return unsafe.Add(w.base, register) }

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
	finished
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
			v.valid, v.origin = make([]uint32, len(k.tracked)+1), make([]int32, len(k.tracked)+1)
			v.localWritten = make([]uint8, 32*((k.Local+3)/4))
		}
		v.worker, v.run, v.block = w, r, w.block
		v.index, v.checks = i, checks
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
		v.worker, v.run = nil, nil
		v.block, v.last = nil, nil
		clear(v.pointers[:])
		v.kernel.warps.Put(v)
	}
}

// blocks runs blocks until none of all of them is left.
func (w *worker) blocks(total int) (fault *Fault) {
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
		if i >= total {
			return nil
		}
		w.one(i)
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
	var chain uint64
	for {
		if w.run.machine.options.Seed != 0 {
			shuffle(order, &random)
		}
		var blocked []*warp
		var slowest uint64
		for _, i := range order {
			v := w.warps[i]
			v.executed = 0
			if v.state == running {
				v.execute()
			}
			slowest = max(slowest, v.executed)
			if v.state == atBarrier {
				blocked = append(blocked, v)
			}
		}
		chain += slowest
		if len(blocked) == 0 {
			w.chain = max(w.chain, chain)
			return
		}
		w.barriers++
		b.pass(blocked, len(w.warps))
	}
}

// pass lets the warps that wait at a barrier go on, of so many that the block has.
func (b *block) pass(blocked []*warp, warps int) {
	first := blocked[0]
	expected := &first.kernel.code[first.pc]
	if len(blocked) < warps {
		first.find(FindBarrier, first.active, fmt.Sprintf("a barrier that %d of %d warps of the block do not reach: they have ended", warps-len(blocked), warps))
	}
	b.epoch++
	var or uint32
	for _, v := range blocked {
		or |= v.arrived
	}
	for _, v := range blocked {
		instruction := &v.kernel.code[v.pc]
		if instruction.reduce != expected.reduce {
			v.fail(FaultBarrier, v.active, fmt.Sprintf("a barrier while other warps of the block wait at one of another kind, line %d", expected.line))
		}
		if instruction.reduce {
			v.predicates[instruction.dst] = v.predicates[instruction.dst]&^v.active | -min(or, 1)&v.active
		}
		v.state = running
		v.time++
		v.fullSync = v.time
		v.pc++
		v.split()
	}
}
