package lanes

// shortest is the least number of repetitions that make a stretch.
const shortest = 6

// stretches tells the operations that may be repeated in stretches: those of single cells.
func (o op) stretches() bool { return (o < opPivot || o > opUpper) && !o.onRow() && o != opRowSet }

// longest is how many repetitions of an operation from start on are a stretch, and its strides. Unless they are gathered, the
// cells of every column of more than one advance by one.
func longest(o op, cols []Col, start, n int, gathered bool) (most, strides int) {
	if most = n - start; most < shortest {
		return most, 0
	}
	for q, c := range cols {
		if len(c) == 1 {
			continue
		}
		switch c[start+1] - c[start] {
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
		for q, c := range cols[1:] {
			most = min(most, independent(uint32(cols[0][start]), uint32(c[min(start, len(c)-1)]), strides>>(q+1)&1 == 1, most))
		}
	}
	for i := start + 1; gathered && i < start+most; i++ {
		for q, c := range cols {
			if len(c) > 1 && c[i]-c[i-1] != Ref(strides>>q&1) {
				return i - start, strides
			}
		}
	}
	return most, strides
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
