package lanes

// shortest is the least number of repetitions that make a stretch.
const shortest = 6

// stretches tells the operations that may be repeated in stretches: those of single cells.
func (o op) stretches() bool { return (o < opPivot || o > opUpper) && !o.onRow() && o != opRowSet }

// stretched is code with stretches in the place of their repetitions. Every number is computed as before, in the same order.
func stretched(code [][]uint32) [][]uint32 {
	var b Builder
	forEachRun(code, func(r run) {
		k, head := operands[r.op], Ref(0)
		if len(r.head) > 0 {
			head = Ref(r.head[0])
		}
		for args := r.args; len(args) > 0; {
			n, strides := 1, 0
			if r.op.stretches() {
				n, strides = longest(r.op, args)
			}
			if n < shortest {
				copy(b.extend(r.op, head, r.row, 1), args[:k])
				args = args[k:]
				continue
			}
			words := b.extend(r.op+stretch, head, strides, 1)
			words[0] = uint32(n)
			copy(words[1:], args[:k])
			args = args[n*k:]
		}
	})
	b.close()
	return b.code
}

// longest is how many repetitions at the beginning of args are a stretch, and its strides.
func longest(o op, args []uint32) (n, strides int) {
	k := operands[o]
	if len(args) < shortest*k {
		return 1, 0
	}
	most := len(args) / k
	for q := range k {
		switch args[k+q] - args[q] {
		case 0:
		case 1:
			strides |= 1 << q
		default:
			return 1, 0
		}
	}
	if !reduces[o] {
		if strides&1 == 0 {
			return 1, 0
		}
		for q := 1; q < k; q++ {
			most = min(most, independent(args[0], args[q], strides>>q&1 == 1, most))
		}
	}
	for n = 1; n < most; n++ {
		for q := range k {
			if args[n*k+q]-args[(n-1)*k+q] != uint32(strides>>q&1) {
				return n, strides
			}
		}
	}
	return n, strides
}

// independent is how many repetitions, most at most, write cells from d without one that is read later.
func independent(d, a uint32, advances bool, most int) int {
	if advances && d > a {
		return min(most, int(d-a))
	}
	if !advances && a >= d {
		return min(most, int(a-d)+1)
	}
	return most
}
