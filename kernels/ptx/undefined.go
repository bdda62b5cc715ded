package ptx

import (
	"cmp"
	"fmt"
	"slices"
)

// What was never written, a register or a word of memory, may be read: a compiler moves an
// operation before the choice that drops its result, and a tile may be read with its margin.
// What is computed from it is followed, a bit for each lane and register and for each byte of
// memory, to where it would have an effect: an address, a branch, a vote, or a value stored in
// global memory.

// tainted are the registers that may hold something computed from what was never written: those of first and, with
// memory, what loads bring.
func tainted(code []resolved, first []int32, registers int, memory bool) bitset {
	set := make(bitset, (registers+63)/64)
	grows := true
	add := func(r int32) {
		grows = grows || !set.contains(r)
		set.set(r)
	}
	for _, r := range first {
		add(r)
	}
	for grows {
		grows = false
		for i := range code {
			reads := false
			switch code[i].parts[0] {
			case "ld", "ldu", "atom":
				reads = memory && !slices.Contains(code[i].parts, "param")
			default:
				code[i].uses(func(r int32) { reads = reads || set.contains(r) })
			}
			if reads {
				code[i].defines(add)
			}
		}
	}
	return set
}

// suspect is what an instruction does with registers of tainted, by their index in
// Kernel.tracked and warp.valid; −1 stands for a register that is none of them.
type suspect struct {
	reads    []int32 // of what it computes from, in order
	address  []int32
	writes   []int32
	guard    int32
	effect   bool  // what it reads has one
	yes, no  int32 // of selp: what is chosen from
	selector func(w *warp) uint32
	any      bool // of reads

	// few says that it does no more than compute write from up to three: registers that are
	// none of them have the index behind the last.
	few   bool
	three [3]int32
	write int32
}

// suspects gives what an instruction does with such registers, nil where it has none, and whether one of them may
// hold what was never written though all memory was.
func (b *builder) suspects(instruction *resolved) (s *suspect, always bool) {
	s = &suspect{guard: -1, yes: -1, no: -1}
	any := false
	index := func(r int32) int32 {
		i, ok := b.track[r]
		if r < 0 || !ok {
			return -1
		}
		any, always = true, always || b.check.contains(r)
		return i
	}
	if instruction.guard >= 0 {
		s.guard = index(instruction.guard)
	}
	list := func(dst *[]int32, o *operand) {
		for _, e := range elements(*o) {
			r := int32(-1)
			if e.kind == 'r' || e.kind == 'a' {
				r = index(e.reg)
			}
			*dst = append(*dst, r)
			if e.kind == 'r' && e.pair >= 0 {
				*dst = append(*dst, index(e.pair))
			}
		}
	}
	for i := range instruction.args {
		switch {
		case i < instruction.results():
			list(&s.writes, &instruction.args[i])
		case instruction.args[i].kind == 'a':
			list(&s.address, &instruction.args[i])
		case instruction.parts[0] == "selp" && len(instruction.args) == 4 && i == 1 && instruction.args[i].kind == 'r':
			s.yes = index(instruction.args[i].reg)
		case instruction.parts[0] == "selp" && len(instruction.args) == 4 && i == 2 && instruction.args[i].kind == 'r':
			s.no = index(instruction.args[i].reg)
		default:
			list(&s.reads, &instruction.args[i])
		}
	}
	if !any {
		return nil, false
	}
	if s.yes >= 0 || s.no >= 0 {
		s.selector = b.predicate(instruction.args[3])
	}
	for _, r := range s.reads {
		s.any = s.any || r >= 0
	}
	moves := false // what is read, otherwise than lane by lane
	switch instruction.parts[0] {
	case "atom", "red", "vote", "bar", "match", "redux":
		s.effect = true
	case "ld", "ldu", "st", "shfl", "mma":
		moves = true
	}
	if s.guard < 0 && len(s.address) == 0 && !s.effect && !moves && s.selector == nil && len(s.reads) <= 3 && len(s.writes) <= 1 {
		unused := int32(len(b.kernel.tracked))
		s.few, s.three, s.write = true, [3]int32{unused, unused, unused}, unused
		for i, r := range s.reads {
			if r >= 0 {
				s.three[i] = r
			}
		}
		if len(s.writes) > 0 && s.writes[0] >= 0 {
			s.write = s.writes[0]
		}
	}
	return s, always
}

// plainly is follow where all that is read is defined; it tells whether that was so.
func (w *warp) plainly(s *suspect, mask uint32) bool {
	if w.valid[s.three[0]]&w.valid[s.three[1]]&w.valid[s.three[2]]&mask != mask {
		return false
	}
	w.valid[s.write] |= mask
	return true
}

// follow is what an instruction does with undefined values, before it is executed.
func (w *warp) follow(instruction *instr, s *suspect, mask uint32) {
	if s.guard >= 0 {
		w.defined(s.guard, w.active, "a predicate")
	}
	for _, r := range s.address {
		if r >= 0 {
			w.defined(r, mask, "an address")
		}
	}
	if instruction.access != nil {
		if instruction.access.store && s.any {
			for k, r := range s.reads {
				if r < 0 {
					continue
				}
				if s.effect || w.checks&checkUnwritten == 0 {
					w.defined(r, mask, "a stored value")
				} else if k < 4 {
					w.good[k] = w.valid[r] | ^mask
					if w.good[k] != all {
						w.cause = w.origin[r]
					}
				}
			}
		}
		return
	}
	if s.effect {
		for _, r := range s.reads {
			if r >= 0 {
				w.defined(r, mask, "an operand")
			}
		}
	}
	good, cause := all, int32(-1)
	if s.any && !s.effect {
		for _, r := range s.reads {
			if r >= 0 && mask&^w.valid[r] != 0 {
				good &= w.valid[r]
				cause = r
			}
		}
	}
	if s.selector != nil {
		p, yes, no := s.selector(w), all, all
		if s.yes >= 0 {
			yes = w.valid[s.yes]
		}
		if s.no >= 0 {
			no = w.valid[s.no]
		}
		if c := p&yes | ^p&no; mask&^c != 0 {
			good &= c
			if cause = s.yes; cause < 0 || mask&p&^yes == 0 {
				cause = s.no
			}
		}
	}
	if instruction.moves != nil && good&mask != mask {
		instruction.moves(w, s, mask)
		return
	}
	origin := int32(0)
	if cause >= 0 {
		origin = cmp.Or(w.origin[cause], -1-cause)
	}
	for _, d := range s.writes {
		w.define(d, good, mask, origin)
	}
}

// define notes which lanes of a register, of those of a mask, hold something defined, and what the others come of.
func (w *warp) define(register int32, good, mask uint32, origin int32) {
	if register < 0 {
		return
	}
	w.valid[register] = w.valid[register]&^mask | good&mask
	if good&mask != mask {
		w.origin[register] = origin
	}
}

// loaded notes which lanes of what was loaded are defined.
func (w *warp) loaded(instruction *instr, s *suspect, mask uint32) {
	for k, d := range s.writes {
		w.define(d, w.good[min(k, 3)], mask, instruction.line)
	}
	w.good = [4]uint32{all, all, all, all}
}

// unwritten says of a register where what it lacks comes from: the line of a load, or, below
// zero, a register.
func (w *warp) unwritten(origin int32) string {
	if origin > 0 {
		return fmt.Sprintf("memory that nothing has written, read at line %d", origin)
	}
	if i := int(-1 - origin); i < len(w.kernel.tracked) {
		return fmt.Sprintf("register %s, which nothing has written", w.kernel.tracked[i])
	}
	return "a register that nothing has written"
}

// defined reports a register whose undefined lanes have an effect.
func (w *warp) defined(r int32, mask uint32, text string) {
	m := mask &^ w.valid[r]
	if m == 0 {
		return
	}
	origin := w.origin[r]
	kind := FindUnwritten
	if origin <= 0 {
		kind = FindRegister
		if origin == 0 {
			origin = -1 - r
		}
	}
	w.find(kind, m, fmt.Sprintf("%s, register %s, comes of %s", text, w.kernel.tracked[r], w.unwritten(origin)))
}

// movesShuffle and movesProduct pass on what is undefined from lane to lane. Of a shuffle
// spread does it, once it is known which lane reads which.
func movesShuffle(w *warp, s *suspect, mask uint32) {
	w.shuffled = all
	for _, r := range s.reads {
		if r >= 0 {
			w.shuffled &= w.valid[r]
			if mask&^w.valid[r] != 0 {
				w.cause = w.origin[r]
			}
		}
	}
}

// spread passes undefined lanes on to those that read them.
func (w *warp) spread(s *suspect, mask uint32) {
	var good uint32
	for i := range lanes(mask) {
		good |= (w.shuffled >> w.sources[i] & 1) << i
	}
	w.shuffled = all
	w.define(s.writes[0], good, mask, w.cause)
	if len(s.writes) > 1 {
		w.define(s.writes[1], all, mask, 0)
	}
}

func movesProduct(w *warp, s *suspect, mask uint32) {
	valid := func(k int) uint32 {
		if r := s.reads[k]; r >= 0 {
			if w.valid[r] != all {
				w.cause = w.origin[r]
			}
			return w.valid[r]
		}
		return all
	}
	// Four lanes hold a row of A, or a column of B.
	whole := func(m uint32) (groups uint32) {
		for g := range 8 {
			if m>>(4*g)&15 == 15 {
				groups |= 1 << g
			}
		}
		return groups
	}
	low, high, columns := whole(valid(0)&valid(2)), whole(valid(1)&valid(3)), whole(valid(4)&valid(5))
	for i, d := range s.writes {
		rows := low
		if i >= 2 {
			rows = high
		}
		var good uint32
		c := valid(6 + i)
		for lane := range 32 {
			good |= (rows >> (lane >> 2) & (columns >> (2*(lane&3) + i&1)) & (c >> lane) & 1) << lane
		}
		w.define(d, good, all, w.cause)
	}
}

// element is which element of an access a word belongs to.
func element(a *access, address, word uint64) int {
	switch a.size {
	case 4:
		return int(word-address>>2) & 3
	case 8:
		return int(word-address>>2) >> 1 & 3
	}
	return 0
}

// reportStored reports undefined values that go into global memory.
func (w *warp) reportStored(mask uint32) {
	if bad := mask &^ (w.good[0] & w.good[1] & w.good[2] & w.good[3]); bad != 0 {
		kind := FindUnwritten
		if w.cause <= 0 {
			kind = FindRegister
		}
		w.find(kind, bad, fmt.Sprintf("lanes %08x store in global memory what comes of %s", bad, w.unwritten(w.cause)))
	}
}

// observeLocal follows what is written of local memory.
func (w *warp) observeLocal(a *access, mask uint32) {
	n := a.bytes()
	words := (w.kernel.Local + 3) / 4
	for i := range lanes(mask) {
		x := w.addresses[i]
		b := part(x, n)
		for word := x >> 2; word<<2 < x+uint64(n); word++ {
			c := &w.localWritten[i*words+int(word)]
			w.mark(a, i, x, word, b, c)
		}
	}
}

// mark follows one word of an access: what is written of it, or is read unwritten.
func (w *warp) mark(a *access, lane int, address, word uint64, bytes uint8, valid *uint8) {
	e := element(a, address, word)
	switch {
	case !a.store:
		if bytes&^*valid != 0 {
			w.good[e] &^= 1 << lane
		}
	case w.good[e]>>lane&1 != 0:
		*valid |= bytes
	default:
		*valid &^= bytes
	}
}
