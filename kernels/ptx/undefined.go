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
	in := make(bitset, (registers+63)/64)
	changed := true
	add := func(r int32) {
		changed = changed || !in.has(r)
		in.set(r)
	}
	for _, r := range first {
		add(r)
	}
	for changed {
		changed = false
		for i := range code {
			reads := false
			switch code[i].parts[0] {
			case "ld", "ldu", "atom":
				reads = memory && !slices.Contains(code[i].parts, "param")
			default:
				code[i].uses(func(r int32) { reads = reads || in.has(r) })
			}
			if reads {
				code[i].defines(add)
			}
		}
	}
	return in
}

// suspect is what an instruction does with registers of tainted, by their index in
// Kernel.tracked and warp.written; −1 stands for a register that is none of them.
type suspect struct {
	reads   []int32 // of what it computes from, in order
	address []int32
	writes  []int32
	guard   int32
	effect  bool  // what it reads has one
	yes, no int32 // of selp: what is chosen from
	by      func(w *warp) uint32
	any     bool // of reads

	// few says that it does no more than compute write from up to three: registers that are
	// none of them have the index behind the last.
	few   bool
	three [3]int32
	write int32
}

// suspects gives what an instruction does with such registers, nil where it has none, and whether one of them may
// hold what was never written though all memory was.
func (b *builder) suspects(in *resolved) (s *suspect, always bool) {
	s = &suspect{guard: -1, yes: -1, no: -1}
	found := false
	of := func(r int32) int32 {
		i, ok := b.track[r]
		if r < 0 || !ok {
			return -1
		}
		found, always = true, always || b.check.has(r)
		return i
	}
	if in.guard >= 0 {
		s.guard = of(in.guard)
	}
	list := func(into *[]int32, o *operand) {
		for _, e := range elements(*o) {
			r := int32(-1)
			if e.kind == 'r' || e.kind == 'a' {
				r = of(e.reg)
			}
			*into = append(*into, r)
			if e.kind == 'r' && e.pair >= 0 {
				*into = append(*into, of(e.pair))
			}
		}
	}
	for i := range in.args {
		switch {
		case i < in.results():
			list(&s.writes, &in.args[i])
		case in.args[i].kind == 'a':
			list(&s.address, &in.args[i])
		case in.parts[0] == "selp" && len(in.args) == 4 && i == 1 && in.args[i].kind == 'r':
			s.yes = of(in.args[i].reg)
		case in.parts[0] == "selp" && len(in.args) == 4 && i == 2 && in.args[i].kind == 'r':
			s.no = of(in.args[i].reg)
		default:
			list(&s.reads, &in.args[i])
		}
	}
	if !found {
		return nil, false
	}
	if s.yes >= 0 || s.no >= 0 {
		s.by = b.predicate(in.args[3])
	}
	for _, r := range s.reads {
		s.any = s.any || r >= 0
	}
	moves := false // what is read, otherwise than lane by lane
	switch in.parts[0] {
	case "atom", "red", "vote", "bar", "match", "redux":
		s.effect = true
	case "ld", "ldu", "st", "shfl", "mma":
		moves = true
	}
	if s.guard < 0 && len(s.address) == 0 && !s.effect && !moves && s.by == nil && len(s.reads) <= 3 && len(s.writes) <= 1 {
		none := int32(len(b.kernel.tracked))
		s.few, s.three, s.write = true, [3]int32{none, none, none}, none
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
	if w.written[s.three[0]]&w.written[s.three[1]]&w.written[s.three[2]]&mask != mask {
		return false
	}
	w.written[s.write] |= mask
	return true
}

// follow is what an instruction does with undefined values, before it is executed.
func (w *warp) follow(in *instr, s *suspect, mask uint32) {
	if s.guard >= 0 {
		w.defined(s.guard, w.active, "a predicate")
	}
	for _, r := range s.address {
		if r >= 0 {
			w.defined(r, mask, "an address")
		}
	}
	if in.access != nil {
		if in.access.store && s.any {
			for k, r := range s.reads {
				if r < 0 {
					continue
				}
				if s.effect || w.checks&checkUnwritten == 0 {
					w.defined(r, mask, "a stored value")
				} else if k < 4 {
					w.good[k] = w.written[r] | ^mask
					if w.good[k] != all {
						w.from = w.origin[r]
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
	good, from := all, int32(-1)
	if s.any && !s.effect {
		for _, r := range s.reads {
			if r >= 0 && mask&^w.written[r] != 0 {
				good &= w.written[r]
				from = r
			}
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
		if c := p&yes | ^p&no; mask&^c != 0 {
			good &= c
			if from = s.yes; from < 0 || mask&p&^yes == 0 {
				from = s.no
			}
		}
	}
	if in.moves != nil && good&mask != mask {
		in.moves(w, s, mask)
		return
	}
	origin := int32(0)
	if from >= 0 {
		origin = cmp.Or(w.origin[from], -1-from)
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
	w.written[register] = w.written[register]&^mask | good&mask
	if good&mask != mask {
		w.origin[register] = origin
	}
}

// loaded notes which lanes of what was loaded are defined.
func (w *warp) loaded(in *instr, s *suspect, mask uint32) {
	for k, d := range s.writes {
		w.define(d, w.good[min(k, 3)], mask, in.line)
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
func (w *warp) defined(r int32, mask uint32, what string) {
	m := mask &^ w.written[r]
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
	w.find(kind, m, fmt.Sprintf("%s, register %s, comes of %s", what, w.kernel.tracked[r], w.unwritten(origin)))
}

// movesShuffle and movesProduct pass on what is undefined from lane to lane. Of a shuffle
// spread does it, once it is known which lane reads which.
func movesShuffle(w *warp, s *suspect, mask uint32) {
	w.shuffled = all
	for _, r := range s.reads {
		if r >= 0 {
			w.shuffled &= w.written[r]
			if mask&^w.written[r] != 0 {
				w.from = w.origin[r]
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
	w.define(s.writes[0], good, mask, w.from)
	if len(s.writes) > 1 {
		w.define(s.writes[1], all, mask, 0)
	}
}

func movesProduct(w *warp, s *suspect, mask uint32) {
	is := func(k int) uint32 {
		if r := s.reads[k]; r >= 0 {
			if w.written[r] != all {
				w.from = w.origin[r]
			}
			return w.written[r]
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
	low, high, columns := whole(is(0)&is(2)), whole(is(1)&is(3)), whole(is(4)&is(5))
	for i, d := range s.writes {
		rows := low
		if i >= 2 {
			rows = high
		}
		var good uint32
		c := is(6 + i)
		for lane := range 32 {
			good |= (rows >> (lane >> 2) & (columns >> (2*(lane&3) + i&1)) & (c >> lane) & 1) << lane
		}
		w.define(d, good, all, w.from)
	}
}

// element is which element of an access a word belongs to.
func element(a *access, at, word uint64) int {
	switch a.size {
	case 4:
		return int(word-at>>2) & 3
	case 8:
		return int(word-at>>2) >> 1 & 3
	}
	return 0
}

// reportStored reports undefined values that go into global memory.
func (w *warp) reportStored(mask uint32) {
	if bad := mask &^ (w.good[0] & w.good[1] & w.good[2] & w.good[3]); bad != 0 {
		kind := FindUnwritten
		if w.from <= 0 {
			kind = FindRegister
		}
		w.find(kind, bad, fmt.Sprintf("lanes %08x store in global memory what comes of %s", bad, w.unwritten(w.from)))
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
func (w *warp) mark(a *access, lane int, at, word uint64, bytes uint8, written *uint8) {
	e := element(a, at, word)
	switch {
	case !a.store:
		if bytes&^*written != 0 {
			w.good[e] &^= 1 << lane
		}
	case w.good[e]>>lane&1 != 0:
		*written |= bytes
	default:
		*written &^= bytes
	}
}
