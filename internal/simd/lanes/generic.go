package lanes

import "math"

// interpret is the specification of the assembly: the same operations, one lane
// at a time. Every conversion to float64 forbids fusing what is to be rounded
// twice.
func interpret(code []uint32, cells []float64, width int) {
	for {
		o := op(code[0])
		if o == opEnd {
			return
		}
		if o >= stretch {
			var r run
			r, code = first(code)
			r.unroll(cells, width)
			continue
		}
		n := int(code[1])
		k := operands[o]
		code = code[2:]
		var head []float64
		if reduces[o] {
			head = cells[code[0]:][:width]
			code = code[1:]
		}
		long := 0
		if o.onRow() {
			head, long = cells[code[0]:], int(code[1])
			code = code[2:]
		}
		args := code[:n*k]
		code = code[n*k:]
		switch o {
		case opAdd, opSub, opMul, opDiv, opMax, opMin, opLess, opAtMost, opEqual, opMaximum, opMinimum, opAnd, opOr:
			for ; len(args) >= 3; args = args[3:] {
				binary(o, cells[args[0]:][:width], cells[args[1]:][:width], cells[args[2]:][:width])
			}
		case opFMA, opFNMA, opSelect, opChoose:
			for ; len(args) >= 4; args = args[4:] {
				ternary(o, cells[args[0]:][:width], cells[args[1]:][:width], cells[args[2]:][:width], cells[args[3]:][:width])
			}
		case opAbsMax, opAbsSum:
			for ; len(args) >= 1; args = args[1:] {
				unary(o, head, cells[args[0]:][:width])
			}
		case opSqrt, opFloor, opCopy, opNeg, opAbs, opShiftUp, opShiftDown:
			for ; len(args) >= 2; args = args[2:] {
				unary(o, cells[args[0]:][:width], cells[args[1]:][:width])
			}
		case opDot, opMaxNegProduct:
			for ; len(args) >= 2; args = args[2:] {
				reduce(o, head, cells[args[0]:][:width], cells[args[1]:][:width])
			}
		case opRowSum:
			clear(head[:long*width])
			fallthrough
		case opRow:
			for ; len(args) >= 2; args = args[2:] {
				row(opRow, head, cells[args[0]:][:width], cells[args[1]:], long)
			}
		case opRowSet:
			for ; len(args) >= 4; args = args[4:] {
				row(o, cells[args[0]:], cells[args[1]:][:width], cells[args[2]:], int(args[3]))
			}
		case opLower:
			for ; len(args) >= 3; args = args[3:] {
				lower(cells[args[0]:], cells[args[1]:], cells[args[2]:], width)
			}
		case opUpper:
			for ; len(args) >= 2; args = args[2:] {
				upper(cells[args[0]:], cells[args[1]:], width)
			}
		case opPivot:
			for ; len(args) >= 3; args = args[3:] {
				pivot(cells[args[0]:], cells[args[1]:], cells[args[2]:], width)
			}
		default:
			for ; len(args) >= 3; args = args[3:] {
				block(o, cells[args[0]:], cells[args[1]:], cells[args[2]:], width)
			}
		}
	}
}

// unroll interprets stretches as plain code, some repetitions at a time.
func (r *run) unroll(cells []float64, width int) {
	const most = 16
	var buf [3 + most*4 + 1]uint32
	o := r.op.plain()
	k, header := operands[o], o.header()
	copy(buf[2:header], r.head)
	for offset := 0; offset < len(r.args); offset += r.op.words() {
		arguments := r.args[offset+1:][:k]
		for i, n := 0, int(r.args[offset]); i < n; i += most {
			count := min(most, n-i)
			code := buf[:header+count*k+1]
			code[0], code[1], code[len(code)-1] = uint32(o), uint32(count), uint32(opEnd)
			for q, first := range arguments {
				step := uint32(width * (r.row >> q & 1))
				for w, a := header+q, first+uint32(i)*step; w < len(code)-1; w += k {
					code[w] = a
					a += step
				}
			}
			interpret(code, cells, width)
		}
	}
}

// zip1, zip and zip3 are d = f lane by lane; they are inlined with f.
func zip1(d, a []float64, f func(d, a float64) float64) {
	for l := range d {
		d[l] = f(d[l], a[l])
	}
}

func zip(d, a, b []float64, f func(a, b float64) float64) {
	for l := range d {
		d[l] = f(a[l], b[l])
	}
}

func zip3(d, a, b, c []float64, f func(a, b, c float64) float64) {
	for l := range d {
		d[l] = f(a[l], b[l], c[l])
	}
}

func binary(o op, d, a, b []float64) {
	bits := math.Float64bits
	switch o {
	case opAdd:
		zip(d, a, b, func(a, b float64) float64 { return a + b })
	case opSub:
		zip(d, a, b, func(a, b float64) float64 { return a - b })
	case opMul:
		zip(d, a, b, func(a, b float64) float64 { return float64(a * b) })
	case opDiv:
		zip(d, a, b, func(a, b float64) float64 { return a / b })
	case opMax:
		zip(d, a, b, larger)
	case opMin:
		zip(d, a, b, func(a, b float64) float64 { return choice(a < b, a, b) })
	case opLess:
		zip(d, a, b, func(a, b float64) float64 { return choice(a < b, 1, 0) })
	case opAtMost:
		zip(d, a, b, func(a, b float64) float64 { return choice(a <= b, 1, 0) })
	case opEqual:
		zip(d, a, b, func(a, b float64) float64 { return choice(a == b, 1, 0) })
	case opMaximum:
		zip(d, a, b, func(a, b float64) float64 { return max(a, b) })
	case opMinimum:
		zip(d, a, b, func(a, b float64) float64 { return min(a, b) })
	case opAnd:
		zip(d, a, b, func(a, b float64) float64 { return math.Float64frombits(bits(a) & bits(b)) })
	case opOr:
		zip(d, a, b, func(a, b float64) float64 { return math.Float64frombits(bits(a) | bits(b)) })
	}
}

func choice(first bool, a, b float64) float64 {
	if first {
		return a
	}
	return b
}

// row is d += a·x, or d = a·x, for n cells as wide as a.
func row(o op, d, a, x []float64, n int) {
	for offset := 0; n > 0; n-- {
		if o == opRow {
			for l, v := range a {
				d[offset+l] = math.FMA(v, x[offset+l], d[offset+l])
			}
		} else {
			for l, v := range a {
				d[offset+l] = float64(v * x[offset+l])
			}
		}
		offset += len(a)
	}
}

// larger is the vector instruction's maximum: b where the two do not compare.
func larger(a, b float64) float64 { return choice(a > b, a, b) }

// fused is math.FMA, which itself would be called by its address.
func fused(a, b, c float64) float64 { return math.FMA(a, b, c) }

func ternary(o op, d, a, b, c []float64) {
	switch o {
	case opFMA:
		zip3(d, a, b, c, fused)
	case opFNMA:
		zip3(d, a, b, c, func(a, b, c float64) float64 { return math.FMA(-a, b, c) })
	case opSelect:
		zip3(d, a, b, c, func(a, b, c float64) float64 { return choice(a < 0, b, c) })
	case opChoose:
		zip3(d, a, b, c, func(a, b, c float64) float64 { return choice(a != 0, b, c) })
	}
}

func unary(o op, d, a []float64) {
	switch o {
	case opSqrt:
		zip1(d, a, func(_, a float64) float64 { return math.Sqrt(a) })
	case opFloor:
		zip1(d, a, func(_, a float64) float64 { return math.Floor(a) })
	case opCopy:
		copy(d, a)
	case opNeg:
		zip1(d, a, func(_, a float64) float64 { return -a })
	case opAbs:
		zip1(d, a, func(_, a float64) float64 { return math.Abs(a) })
	case opShiftUp:
		zip1(d, a, func(_, a float64) float64 { return math.Float64frombits(math.Float64bits(a) << 52) })
	case opShiftDown:
		zip1(d, a, func(_, a float64) float64 { return math.Float64frombits(math.Float64bits(a) >> 52) })
	case opAbsMax:
		zip1(d, a, func(d, a float64) float64 { return larger(d, math.Abs(a)) })
	case opAbsSum:
		zip1(d, a, func(d, a float64) float64 { return d + math.Abs(a) })
	}
}

func reduce(o op, d, a, b []float64) {
	if o == opDot {
		zip3(d, a, b, d, fused)
	} else {
		zip3(d, d, a, b, func(d, a, b float64) float64 { return larger(d, -float64(a*b)) })
	}
}

// pivot factors the block A = [I; M I] diag(D, S) [I; M I]ᵀ by 2×2 pivots.
func pivot(a, pivots, negative []float64, width int) {
	for l := range width {
		entry := func(r, c int) float64 { return a[(4*r+c)*width+l] }
		p, one, two := invert2(entry(0, 0), entry(1, 0), entry(1, 1))
		negative[l] = negative[l] + one + two + two
		p00, p10, p11 := p[0], p[1], p[2]
		a20, a21 := entry(2, 0), entry(2, 1)
		a30, a31 := entry(3, 0), entry(3, 1)
		m20 := math.FMA(a21, p10, float64(a20*p00))
		m21 := math.FMA(a21, p11, float64(a20*p10))
		m30 := math.FMA(a31, p10, float64(a30*p00))
		m31 := math.FMA(a31, p11, float64(a30*p10))
		s22 := math.FMA(-m21, a21, math.FMA(-m20, a20, entry(2, 2)))
		s32 := math.FMA(-m31, a21, math.FMA(-m30, a20, entry(3, 2)))
		s33 := math.FMA(-m31, a31, math.FMA(-m30, a30, entry(3, 3)))
		q, one, two := invert2(s22, s32, s33)
		negative[l] = negative[l] + one + two + two
		for i, v := range [...]float64{p00, p10, p11, m20, m21, m30, m31, q[0], q[1], q[2]} {
			pivots[i*width+l] = v
		}
	}
}

// invert2 is the inverse [p₀ p₁; p₁ p₂] of [a b; b c]. One is 1 when it has one negative
// eigenvalue, its determinant being negative; two is 1 when it has two, by the sign of a.
func invert2(a, b, c float64) (p [3]float64, one, two float64) {
	det := math.FMA(a, c, -float64(b*b))
	r := 1 / det
	if det < 0 {
		one = 1
	} else if a < 0 {
		two = 1
	}
	return [3]float64{float64(c * r), -float64(b * r), float64(a * r)}, one, two
}

func block(o op, d, a, b []float64, width int) {
	entry := func(x []float64, r, c, l int) float64 { return x[(4*r+c)*width+l] }
	for l := range width {
		for r := range 4 {
			switch o {
			case opScale:
				w0, w1 := entry(a, r, 0, l), entry(a, r, 1, l)
				w2, w3 := entry(a, r, 2, l), entry(a, r, 3, l)
				w2 = math.FMA(-w1, b[4*width+l], math.FMA(-w0, b[3*width+l], w2))
				w3 = math.FMA(-w1, b[6*width+l], math.FMA(-w0, b[5*width+l], w3))
				a[(4*r+2)*width+l], a[(4*r+3)*width+l] = w2, w3
				d[4*r*width+l], d[(4*r+1)*width+l] = times2(w0, w1, b[l], b[width+l], b[2*width+l])
				d[(4*r+2)*width+l], d[(4*r+3)*width+l] = times2(w2, w3, b[7*width+l], b[8*width+l], b[9*width+l])
			case opSymmetric, opProduct:
				for c := range 4 {
					if o == opSymmetric && c > r {
						break
					}
					v := entry(d, r, c, l)
					for k := range 4 {
						v = math.FMA(-entry(a, r, k, l), entry(b, c, k, l), v)
					}
					d[(4*r+c)*width+l] = v
				}
			case opForward:
				v := d[r*width+l]
				for k := range 4 {
					v = math.FMA(-entry(a, r, k, l), b[k*width+l], v)
				}
				d[r*width+l] = v
			case opBackward:
				v := d[r*width+l]
				for k := range 4 {
					v = math.FMA(-entry(a, k, r, l), b[k*width+l], v)
				}
				d[r*width+l] = v
			}
		}
	}
}

// times2 is (x, y)·[p q; q r].
func times2(x, y, p, q, r float64) (float64, float64) {
	return math.FMA(y, q, float64(x*p)), math.FMA(y, r, float64(x*q))
}

// lower is y ← L⁻¹y and z = D⁻¹y with a pivoted block's L and D.
func lower(y, p, z []float64, width int) {
	for l := range width {
		y0, y1 := y[l], y[width+l]
		y2 := math.FMA(-y1, p[4*width+l], math.FMA(-y0, p[3*width+l], y[2*width+l]))
		y3 := math.FMA(-y1, p[6*width+l], math.FMA(-y0, p[5*width+l], y[3*width+l]))
		y[2*width+l], y[3*width+l] = y2, y3
		z[l], z[width+l] = times2(y0, y1, p[l], p[width+l], p[2*width+l])
		z[2*width+l], z[3*width+l] = times2(y2, y3, p[7*width+l], p[8*width+l], p[9*width+l])
	}
}

// upper is x ← L⁻ᵀx.
func upper(x, p []float64, width int) {
	for l := range width {
		x2, x3 := x[2*width+l], x[3*width+l]
		x[l] = math.FMA(-x3, p[5*width+l], math.FMA(-x2, p[3*width+l], x[l]))
		x[width+l] = math.FMA(-x3, p[6*width+l], math.FMA(-x2, p[4*width+l], x[width+l]))
	}
}
