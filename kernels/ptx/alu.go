package ptx

import (
	"math"
	"math/bits"
	"unsafe"
)

func floats(v *v32) *[32]float32  { return (*[32]float32)(unsafe.Pointer(v)) }
func doubles(v *v64) *[32]float64 { return (*[32]float64)(unsafe.Pointer(v)) }
func signed(v *v32) *[32]int32    { return (*[32]int32)(unsafe.Pointer(v)) }
func signed64(v *v64) *[32]int64  { return (*[32]int64)(unsafe.Pointer(v)) }

// fmaSlow rounds p + c, of which s is the sum in float64, where the rounding of s to float32 might be a second one that
// matters: at what looks like a tie, and below the normal range. The sum is rounded to
// odd, which a rounding to fewer digits cannot tell from the exact one.
func fmaSlow(p, c, s float64) float32 {
	b := s - p
	e := (p - (s - b)) + (c - b)
	if e == 0 || s != s || math.IsInf(s, 0) {
		return float32(s)
	}
	u := math.Float64bits(s)
	if u&1 == 0 {
		if (e > 0) == (s > 0) {
			u++
		} else {
			u--
		}
	}
	return float32(math.Float64frombits(u))
}

// fmaToward is a·b + c rounded down (toward −1) or up (+1) or to zero (0).
func fmaToward(a, b, c float32, way int) float32 {
	p, d := float64(a)*float64(b), float64(c)
	s := p + d
	t := s - p
	e := (p - (s - t)) + (d - t)
	f := float32(s)
	if s != s || math.IsInf(s, 0) {
		return f
	}
	diff := s - float64(f) // exact: of the part that rounding left
	below := diff < 0 || diff == 0 && e < 0
	above := diff > 0 || diff == 0 && e > 0
	if way == 0 && s > 0 || way < 0 {
		if below {
			f = math.Nextafter32(f, float32(math.Inf(-1)))
		}
	} else if above {
		f = math.Nextafter32(f, float32(math.Inf(1)))
	}
	return f
}

func flush(v float32) float32 {
	if math.Float32bits(v)&0x7f800000 == 0 {
		return math.Float32frombits(math.Float32bits(v) & 0x80000000)
	}
	return v
}

func min32(a, b float32) float32 {
	switch {
	case a != a:
		return b
	case b != b || a < b || a == b && math.Signbit(float64(a)):
		return a
	}
	return b
}

func max32(a, b float32) float32 {
	switch {
	case a != a:
		return b
	case b != b || a > b || a == b && !math.Signbit(float64(a)):
		return a
	}
	return b
}

func min64(a, b float64) float64 {
	switch {
	case a != a:
		return b
	case b != b || a < b || a == b && math.Signbit(a):
		return a
	}
	return b
}

func max64(a, b float64) float64 {
	switch {
	case a != a:
		return b
	case b != b || a > b || a == b && !math.Signbit(a):
		return a
	}
	return b
}

func clamp01(v float64) float64 {
	switch {
	case v > 1:
		return 1
	case v > 0:
		return v
	}
	return 0 // a NaN too
}

// one, two and three apply a function lane by lane: of what is rare.
func one32(a int, f func(x uint32) uint32) func(*warp, *v32) {
	return func(w *warp, d *v32) {
		p := &w.r32[a]
		for i := range d {
			d[i] = f(p[i])
		}
	}
}

func two32(a, b int, f func(x, y uint32) uint32) func(*warp, *v32) {
	return func(w *warp, d *v32) {
		p, q := &w.r32[a], &w.r32[b]
		for i := range d {
			d[i] = f(p[i], q[i])
		}
	}
}

func three32(a, b, c int, f func(x, y, z uint32) uint32) func(*warp, *v32) {
	return func(w *warp, d *v32) {
		p, q, r := &w.r32[a], &w.r32[b], &w.r32[c]
		for i := range d {
			d[i] = f(p[i], q[i], r[i])
		}
	}
}

func one64(a int, f func(x uint64) uint64) func(*warp, *v64) {
	return func(w *warp, d *v64) {
		p := &w.r64[a]
		for i := range d {
			d[i] = f(p[i])
		}
	}
}

func two64(a, b int, f func(x, y uint64) uint64) func(*warp, *v64) {
	return func(w *warp, d *v64) {
		p, q := &w.r64[a], &w.r64[b]
		for i := range d {
			d[i] = f(p[i], q[i])
		}
	}
}

func oneFloat(a int, f func(x float32) float32) func(*warp, *v32) {
	return one32(a, func(x uint32) uint32 { return math.Float32bits(f(math.Float32frombits(x))) })
}

func twoFloat(a, b int, f func(x, y float32) float32) func(*warp, *v32) {
	return two32(a, b, func(x, y uint32) uint32 { return math.Float32bits(f(math.Float32frombits(x), math.Float32frombits(y))) })
}

func oneDouble(a int, f func(x float64) float64) func(*warp, *v64) {
	return one64(a, func(x uint64) uint64 { return math.Float64bits(f(math.Float64frombits(x))) })
}

func twoDouble(a, b int, f func(x, y float64) float64) func(*warp, *v64) {
	return two64(a, b, func(x, y uint64) uint64 { return math.Float64bits(f(math.Float64frombits(x), math.Float64frombits(y))) })
}

// arithmetic compiles what computes one register from others of one type.
func (b *builder) arithmetic(out *instr) {
	op := b.in.parts[0]
	t := b.last()
	out.class = ClassInteger
	switch {
	case t.kind == 'p':
		b.logic(out)
		return
	case t.kind == 'f' && t.size == 4:
		out.class = ClassFloat32
	case t.kind == 'f' && t.size == 8:
		out.class = ClassFloat64
	case t.kind == 'f':
		b.unknown()
	}
	if t.kind != 'f' && (b.has("cc") || op == "addc" || op == "subc" || op == "madc") {
		b.carry(out, t)
		return
	}
	if t.kind == 'f' && t.size == 4 {
		b.float32(out)
		return
	}
	if t.kind == 'f' {
		b.float64(out)
		return
	}
	if op == "mul" || op == "mad" || op == "mul24" || op == "mad24" {
		b.product(out, t)
		return
	}
	switch op {
	case "popc", "clz", "bfind", "bfe", "bfi", "brev", "prmt", "sad", "lop3", "shf", "div", "rem":
		b.special(out, t)
		return
	}
	b.only()
	if t.size == 8 {
		b.integer64(out, t)
		return
	}
	b.integer32(out, t)
}

func (b *builder) integer32(out *instr, t typ) {
	op, args := b.in.parts[0], b.in.args
	out.kind, out.dst = do32, b.dst(args[0], 1)
	x := b.s32(args[1], t)
	y := x
	switch op {
	case "not", "neg", "abs", "cnot":
		b.arity(2)
	case "shl", "shr":
		b.arity(3)
		y = b.s32(args[2], typ{'u', 4})
	default:
		b.arity(3)
		y = b.s32(args[2], t)
	}
	f := two(op, x, y, t)
	if f == nil {
		b.unknown()
	}
	if t.size < 4 { // kept with zeros above
		keep := uint32(1)<<(8*t.size) - 1
		g := f
		f = func(w *warp, d *v32) {
			g(w, d)
			for i := range d {
				d[i] &= keep
			}
		}
	}
	out.f32 = f
}

// two gives the common operations on 32 bits; those on 16 keep the low ones.
func two(op string, x, y int, t typ) func(w *warp, d *v32) {
	narrow := func(v uint32) int32 { return int32(v) }
	if t.size == 2 {
		narrow = func(v uint32) int32 { return int32(int16(v)) }
	}
	switch op + string(t.kind) {
	case "adds", "addu":
		return func(w *warp, d *v32) {
			p, q := &w.r32[x], &w.r32[y]
			for i := range d {
				d[i] = p[i] + q[i]
			}
		}
	case "subs", "subu":
		return func(w *warp, d *v32) {
			p, q := &w.r32[x], &w.r32[y]
			for i := range d {
				d[i] = p[i] - q[i]
			}
		}
	case "andb":
		return func(w *warp, d *v32) {
			p, q := &w.r32[x], &w.r32[y]
			for i := range d {
				d[i] = p[i] & q[i]
			}
		}
	case "orb":
		return func(w *warp, d *v32) {
			p, q := &w.r32[x], &w.r32[y]
			for i := range d {
				d[i] = p[i] | q[i]
			}
		}
	case "xorb":
		return func(w *warp, d *v32) {
			p, q := &w.r32[x], &w.r32[y]
			for i := range d {
				d[i] = p[i] ^ q[i]
			}
		}
	case "shlb":
		return func(w *warp, d *v32) {
			p, q := &w.r32[x], &w.r32[y]
			for i := range d {
				d[i] = p[i] << q[i]
			}
		}
	case "shru", "shrb":
		return func(w *warp, d *v32) {
			p, q := &w.r32[x], &w.r32[y]
			for i := range d {
				d[i] = p[i] >> q[i]
			}
		}
	case "shrs":
		return two32(x, y, func(a, n uint32) uint32 { return uint32(narrow(a) >> n) })
	case "notb":
		return func(w *warp, d *v32) {
			p := &w.r32[x]
			for i := range d {
				d[i] = ^p[i]
			}
		}
	case "negs":
		return one32(x, func(a uint32) uint32 { return -a })
	case "abss":
		return one32(x, func(a uint32) uint32 {
			if narrow(a) < 0 {
				return -a
			}
			return a
		})
	case "cnotb":
		return one32(x, func(a uint32) uint32 {
			if a == 0 {
				return 1
			}
			return 0
		})
	case "mins":
		return two32(x, y, func(a, b uint32) uint32 { return uint32(min(narrow(a), narrow(b))) })
	case "maxs":
		return two32(x, y, func(a, b uint32) uint32 { return uint32(max(narrow(a), narrow(b))) })
	case "minu":
		return two32(x, y, func(a, b uint32) uint32 { return min(a, b) })
	case "maxu":
		return two32(x, y, func(a, b uint32) uint32 { return max(a, b) })
	}
	return nil
}

func (b *builder) integer64(out *instr, t typ) {
	op, args := b.in.parts[0], b.in.args
	out.kind, out.dst = do64, b.dst(args[0], 2)
	x := b.s64(args[1], t)
	if op == "shl" || op == "shr" {
		b.arity(3)
		n := b.s32(args[2], typ{'u', 4})
		switch {
		case op == "shl":
			out.f64 = func(w *warp, d *v64) {
				p, q := &w.r64[x], &w.r32[n]
				for i := range d {
					d[i] = p[i] << q[i]
				}
			}
		case t.kind == 's':
			out.f64 = func(w *warp, d *v64) {
				p, q := &w.r64[x], &w.r32[n]
				for i := range d {
					d[i] = uint64(int64(p[i]) >> q[i])
				}
			}
		default:
			out.f64 = func(w *warp, d *v64) {
				p, q := &w.r64[x], &w.r32[n]
				for i := range d {
					d[i] = p[i] >> q[i]
				}
			}
		}
		return
	}
	if op == "not" || op == "neg" || op == "abs" {
		b.arity(2)
		out.f64 = one64(x, map[string]func(uint64) uint64{
			"not": func(a uint64) uint64 { return ^a },
			"neg": func(a uint64) uint64 { return -a },
			"abs": func(a uint64) uint64 { return uint64(max(int64(a), -int64(a))) },
		}[op])
		return
	}
	b.arity(3)
	y := b.s64(args[2], t)
	switch op + string(t.kind) {
	case "adds", "addu":
		out.f64 = func(w *warp, d *v64) {
			p, q := &w.r64[x], &w.r64[y]
			for i := range d {
				d[i] = p[i] + q[i]
			}
		}
	case "subs", "subu":
		out.f64 = func(w *warp, d *v64) {
			p, q := &w.r64[x], &w.r64[y]
			for i := range d {
				d[i] = p[i] - q[i]
			}
		}
	case "andb":
		out.f64 = two64(x, y, func(a, b uint64) uint64 { return a & b })
	case "orb":
		out.f64 = two64(x, y, func(a, b uint64) uint64 { return a | b })
	case "xorb":
		out.f64 = two64(x, y, func(a, b uint64) uint64 { return a ^ b })
	case "mins":
		out.f64 = two64(x, y, func(a, b uint64) uint64 { return uint64(min(int64(a), int64(b))) })
	case "maxs":
		out.f64 = two64(x, y, func(a, b uint64) uint64 { return uint64(max(int64(a), int64(b))) })
	case "minu":
		out.f64 = two64(x, y, func(a, b uint64) uint64 { return min(a, b) })
	case "maxu":
		out.f64 = two64(x, y, func(a, b uint64) uint64 { return max(a, b) })
	default:
		b.unknown()
	}
}

// product compiles integer mul and mad.
func (b *builder) product(out *instr, t typ) {
	b.only("lo", "hi", "wide")
	args := b.in.args
	add := b.in.parts[0] == "mad"
	if add {
		b.arity(4)
	} else {
		b.arity(3)
	}
	switch {
	case b.has("wide") && t.size == 4:
		out.kind, out.dst = do64, b.dst(args[0], 2)
		x, y, z := b.s32(args[1], t), b.s32(args[2], t), -1
		if add {
			z = b.s64(args[3], typ{t.kind, 8})
		}
		out.f64 = func(w *warp, d *v64) {
			p, q := &w.r32[x], &w.r32[y]
			if t.kind == 's' {
				for i := range d {
					d[i] = uint64(int64(int32(p[i])) * int64(int32(q[i])))
				}
			} else {
				for i := range d {
					d[i] = uint64(p[i]) * uint64(q[i])
				}
			}
			if z >= 0 {
				r := &w.r64[z]
				for i := range d {
					d[i] += r[i]
				}
			}
		}
		if add { // the addend may share the result's register
			g := out.f64
			out.f64 = func(w *warp, d *v64) {
				var t v64
				g(w, &t)
				*d = t
			}
		}
	case b.has("wide") && t.size == 2:
		out.kind, out.dst = do32, b.dst(args[0], 1)
		x, y, z := b.s32(args[1], t), b.s32(args[2], t), b.s32(operand{kind: 'i'}, typ{'u', 4})
		if add {
			z = b.s32(args[3], typ{t.kind, 4})
		}
		out.f32 = three32(x, y, z, func(a, b, c uint32) uint32 {
			if t.kind == 's' {
				return uint32(int32(int16(a))*int32(int16(b))) + c
			}
			return a&0xffff*(b&0xffff) + c
		})
	case t.size == 8:
		out.kind, out.dst = do64, b.dst(args[0], 2)
		x, y, z := b.s64(args[1], t), b.s64(args[2], t), b.s64(operand{kind: 'i'}, t)
		if add {
			z = b.s64(args[3], t)
		}
		high := b.has("hi")
		out.f64 = func(w *warp, d *v64) {
			p, q, r := &w.r64[x], &w.r64[y], &w.r64[z]
			for i := range d {
				if high {
					hi, _ := bits.Mul64(p[i], q[i])
					if t.kind == 's' {
						hi -= uint64(int64(p[i])>>63)&q[i] + uint64(int64(q[i])>>63)&p[i]
					}
					d[i] = hi + r[i]
				} else {
					d[i] = p[i]*q[i] + r[i]
				}
			}
		}
	default:
		out.kind, out.dst = do32, b.dst(args[0], 1)
		x, y, z := b.s32(args[1], t), b.s32(args[2], t), b.s32(operand{kind: 'i'}, t)
		if add {
			z = b.s32(args[3], t)
		}
		switch {
		case t.size == 2:
			if b.has("hi") {
				b.unknown()
			}
			out.f32 = three32(x, y, z, func(a, b, c uint32) uint32 { return (a*b + c) & 0xffff })
		case b.has("hi") && t.kind == 's':
			out.f32 = three32(x, y, z, func(a, b, c uint32) uint32 { return uint32(int64(int32(a))*int64(int32(b))>>32) + c })
		case b.has("hi"):
			out.f32 = three32(x, y, z, func(a, b, c uint32) uint32 { return uint32(uint64(a)*uint64(b)>>32) + c })
		default:
			out.f32 = func(w *warp, d *v32) {
				p, q, r := &w.r32[x], &w.r32[y], &w.r32[z]
				for i := range d {
					d[i] = p[i]*q[i] + r[i]
				}
			}
		}
	}
}

// carry compiles arithmetic over the carry bit.
func (b *builder) carry(out *instr, t typ) {
	op, args := b.in.parts[0], b.in.args
	if t.size != 4 {
		b.unknown()
	}
	b.only("cc", "lo", "hi")
	out.kind = doAny
	d := b.dst(args[0], 1)
	x, y, z := b.s32(args[1], t), b.s32(args[2], t), -1
	if op == "mad" || op == "madc" {
		b.arity(4)
		z = b.s32(args[3], t)
	} else {
		b.arity(3)
	}
	sets, high := b.has("cc"), b.has("hi")
	out.fx = func(w *warp, mask uint32) {
		for m := mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m)
			p, q := w.r32[x][i], w.r32[y][i]
			in := w.carry >> i & 1
			var sum, carry uint32
			switch op {
			case "add":
				sum, carry = bits.Add32(p, q, 0)
			case "addc":
				sum, carry = bits.Add32(p, q, in)
			case "sub":
				sum, carry = bits.Sub32(p, q, 0)
			case "subc":
				sum, carry = bits.Sub32(p, q, in)
			default:
				v := uint64(p) * uint64(q)
				if high && t.kind == 's' {
					v = uint64(int64(int32(p)) * int64(int32(q)))
				}
				if high {
					v >>= 32
				}
				if op == "mad" {
					in = 0
				}
				sum, carry = bits.Add32(uint32(v), w.r32[z][i], in)
			}
			w.r32[d][i] = sum
			if sets {
				w.carry = w.carry&^(1<<i) | carry<<i
			}
		}
	}
}

// special compiles bit fields and integer division.
func (b *builder) special(out *instr, t typ) {
	op, args := b.in.parts[0], b.in.args
	u32 := typ{'u', 4}
	switch op {
	case "div", "rem":
		b.only()
		b.arity(3)
		b.division(out, t)
		return
	case "popc", "clz", "bfind":
		b.only("shiftamt")
		b.arity(2)
		out.kind, out.dst = do32, b.dst(args[0], 1)
		shift := b.has("shiftamt")
		of := func(v uint64, size int) uint32 {
			n := bits.Len64(v)
			switch {
			case op == "popc":
				return uint32(bits.OnesCount64(v))
			case op == "clz":
				return uint32(8*size - n)
			case n == 0:
				return ^uint32(0)
			case shift:
				return uint32(8*size - n)
			}
			return uint32(n - 1)
		}
		if t.size == 8 {
			x := b.s64(args[1], t)
			out.f32 = func(w *warp, d *v32) {
				p := &w.r64[x]
				for i := range d {
					v := p[i]
					if op == "bfind" && t.kind == 's' && int64(v) < 0 {
						v = ^v
					}
					d[i] = of(v, 8)
				}
			}
			return
		}
		out.f32 = one32(b.s32(args[1], t), func(v uint32) uint32 {
			if op == "bfind" && t.kind == 's' && int32(v) < 0 {
				v = ^v
			}
			return of(uint64(v), 4)
		})
		return
	case "bfe":
		b.arity(4)
		n, m := b.s32(args[2], u32), b.s32(args[3], u32)
		if t.size == 8 {
			x := b.s64(args[1], t)
			out.kind, out.dst = do64, b.dst(args[0], 2)
			out.f64 = func(w *warp, d *v64) {
				p, q, r := w.r64[x], &w.r32[n], &w.r32[m]
				for i := range d {
					d[i] = extract(p[i], q[i]&255, r[i]&255, t)
				}
			}
			return
		}
		out.kind, out.dst = do32, b.dst(args[0], 1)
		out.f32 = three32(b.s32(args[1], t), n, m, func(v, at, n uint32) uint32 { return uint32(extract(uint64(v), at&255, n&255, t)) })
		return
	case "bfi":
		b.arity(5)
		n, m := b.s32(args[3], u32), b.s32(args[4], u32)
		insert := func(a, v uint64, at, n uint32) uint64 {
			mask := (uint64(1)<<n - 1) << at
			return v&^mask | a<<at&mask
		}
		if t.size == 8 {
			x, y := b.s64(args[1], t), b.s64(args[2], t)
			out.kind, out.dst = do64, b.dst(args[0], 2)
			out.f64 = func(w *warp, d *v64) {
				for i := range d {
					d[i] = insert(w.r64[x][i], w.r64[y][i], w.r32[n][i]&255, w.r32[m][i]&255)
				}
			}
			return
		}
		x, y := b.s32(args[1], t), b.s32(args[2], t)
		out.kind, out.dst = do32, b.dst(args[0], 1)
		out.f32 = func(w *warp, d *v32) {
			for i := range d {
				d[i] = uint32(insert(uint64(w.r32[x][i]), uint64(w.r32[y][i]), w.r32[n][i]&255, w.r32[m][i]&255))
			}
		}
		return
	case "brev":
		b.arity(2)
		if t.size == 8 {
			out.kind, out.dst, out.f64 = do64, b.dst(args[0], 2), one64(b.s64(args[1], t), bits.Reverse64)
			return
		}
		out.kind, out.dst, out.f32 = do32, b.dst(args[0], 1), one32(b.s32(args[1], t), bits.Reverse32)
		return
	case "prmt":
		b.arity(4)
		b.only()
		out.kind, out.dst = do32, b.dst(args[0], 1)
		out.f32 = three32(b.s32(args[1], t), b.s32(args[2], t), b.s32(args[3], t), func(x, y, sel uint32) uint32 {
			v, r := uint64(y)<<32|uint64(x), uint32(0)
			for k := range 4 {
				s := sel >> (4 * k)
				c := uint32(v >> (8 * (s & 7)) & 255)
				if s&8 != 0 {
					c = uint32(int8(c)>>7) & 255
				}
				r |= c << (8 * k)
			}
			return r
		})
		return
	case "lop3":
		b.arity(5)
		out.kind, out.dst = do32, b.dst(args[0], 1)
		table := uint32(args[4].imm)
		out.f32 = three32(b.s32(args[1], t), b.s32(args[2], t), b.s32(args[3], t), func(x, y, z uint32) uint32 {
			var r uint32
			for k := range uint32(8) {
				if table>>k&1 == 0 {
					continue
				}
				m := ^uint32(0)
				for j, v := range [3]uint32{z, y, x} {
					if k>>j&1 != 0 {
						m &= v
					} else {
						m &= ^v
					}
				}
				r |= m
			}
			return r
		})
		return
	case "shf":
		b.arity(4)
		b.only("l", "r", "clamp", "wrap")
		left, wrap := b.has("l"), b.has("wrap")
		out.kind, out.dst = do32, b.dst(args[0], 1)
		out.f32 = three32(b.s32(args[1], t), b.s32(args[2], t), b.s32(args[3], u32), func(lo, hi, n uint32) uint32 {
			if wrap {
				n &= 31
			}
			n = min(n, 32)
			v := uint64(hi)<<32 | uint64(lo)
			if left {
				return uint32(v << n >> 32)
			}
			return uint32(v >> n)
		})
		return
	}
	b.unknown()
}

func extract(v uint64, at, n uint32, t typ) uint64 {
	width := uint32(8 * t.size)
	if t.kind == 's' && n > 0 {
		sign := v >> min(at+n-1, width-1) & 1
		r := uint64(0)
		if at < width {
			r = v >> at
			if n < 64 {
				r &= uint64(1)<<n - 1
			}
		}
		if have := min(n, width-min(at, width)); sign != 0 && have < 64 {
			r |= ^uint64(0) << have
		}
		return r
	}
	if at >= width || n == 0 {
		return 0
	}
	return v >> at & (uint64(1)<<n - 1)
}

// division reports a divisor of zero, of which the result is not defined.
func (b *builder) division(out *instr, t typ) {
	args, rem := b.in.args, b.in.parts[0] == "rem"
	of := func(x, y uint64) uint64 {
		if t.kind == 's' {
			if y == ^uint64(0) {
				if rem {
					return 0
				}
				return -x
			}
			if rem {
				return uint64(int64(x) % int64(y))
			}
			return uint64(int64(x) / int64(y))
		}
		if rem {
			return x % y
		}
		return x / y
	}
	out.kind, out.class = doAny, ClassSpecial
	if t.size == 8 {
		d, x, y := b.dst(args[0], 2), b.s64(args[1], t), b.s64(args[2], t)
		out.fx = func(w *warp, mask uint32) {
			for m := mask; m != 0; m &= m - 1 {
				i := bits.TrailingZeros32(m)
				if w.r64[y][i] == 0 {
					w.find(FindDivision, 1<<i, "a division by zero")
					w.r64[d][i] = ^uint64(0)
					continue
				}
				w.r64[d][i] = of(w.r64[x][i], w.r64[y][i])
			}
		}
		return
	}
	d, x, y := b.dst(args[0], 1), b.s32(args[1], t), b.s32(args[2], t)
	wide := func(v uint32) uint64 {
		switch {
		case t.size == 2 && t.kind == 's':
			return uint64(int16(v))
		case t.kind == 's':
			return uint64(int32(v))
		}
		return uint64(v)
	}
	keep := uint32(1<<(8*t.size) - 1)
	out.fx = func(w *warp, mask uint32) {
		for m := mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m)
			if w.r32[y][i] == 0 {
				w.find(FindDivision, 1<<i, "a division by zero")
				w.r32[d][i] = ^uint32(0)
				continue
			}
			w.r32[d][i] = uint32(of(wide(w.r32[x][i]), wide(w.r32[y][i]))) & keep
		}
	}
}

// logic compiles operations on predicates.
func (b *builder) logic(out *instr) {
	out.kind, out.class, out.dst = doPred, ClassCompare, b.dst(b.in.args[0], 0)
	b.only()
	x := b.sp(b.in.args[1])
	if b.in.parts[0] == "not" {
		b.arity(2)
		out.fp = func(w *warp) uint32 { return ^x(w) }
		return
	}
	b.arity(3)
	y := b.sp(b.in.args[2])
	switch b.in.parts[0] {
	case "and":
		out.fp = func(w *warp) uint32 { return x(w) & y(w) }
	case "or":
		out.fp = func(w *warp) uint32 { return x(w) | y(w) }
	case "xor":
		out.fp = func(w *warp) uint32 { return x(w) ^ y(w) }
	default:
		b.unknown()
	}
}

func (b *builder) float32(out *instr) {
	op, args, t := b.in.parts[0], b.in.args, typ{'f', 4}
	b.only("rn", "rz", "rm", "rp", "ftz", "sat", "approx", "full")
	out.kind, out.dst = do32, b.dst(args[0], 1)
	way, ftz, sat, directed := 0, b.has("ftz"), b.has("sat"), true
	switch {
	case b.has("rm"):
		way = -1
	case b.has("rp"):
		way = 1
	case !b.has("rz"):
		directed = false
	}
	if directed && op != "fma" && op != "add" && op != "sub" && op != "mul" {
		b.unknown()
	}
	x := b.s32(args[1], t)
	operands := map[string]int{"fma": 4, "mad": 4, "add": 3, "sub": 3, "mul": 3, "div": 3, "min": 3, "max": 3, "copysign": 3}[op]
	if operands == 0 {
		operands = 2
	}
	b.arity(operands)
	y, z := x, x
	if operands > 2 {
		y = b.s32(args[2], t)
	}
	if operands > 3 {
		z = b.s32(args[3], t)
	}
	var f func(w *warp, d *v32)
	switch {
	case directed:
		one, zero := float32(1), float32(0)
		f = three32(x, y, z, func(a, b, c uint32) uint32 {
			p, q, r := math.Float32frombits(a), math.Float32frombits(b), math.Float32frombits(c)
			switch op {
			case "add":
				q, r = one, q
			case "sub":
				q, r = one, -q
			case "mul":
				r = zero
			}
			return math.Float32bits(fmaToward(p, q, r, way))
		})
	case op == "fma" || op == "mad":
		f = func(w *warp, d *v32) {
			p, q, r, o := floats(&w.r32[x]), floats(&w.r32[y]), floats(&w.r32[z]), floats(d)
			for i := range o {
				m, c := float64(p[i])*float64(q[i]), float64(r[i])
				s := m + c
				if u := math.Float64bits(s); u&0x1fffffff != 0x10000000 && (u<<1 >= 897<<53 || u<<1 == 0) {
					o[i] = float32(s)
					continue
				}
				o[i] = fmaSlow(m, c, s)
			}
		}
	case op == "add":
		f = func(w *warp, d *v32) {
			p, q, o := floats(&w.r32[x]), floats(&w.r32[y]), floats(d)
			for i := range o {
				o[i] = p[i] + q[i]
			}
		}
	case op == "sub":
		f = func(w *warp, d *v32) {
			p, q, o := floats(&w.r32[x]), floats(&w.r32[y]), floats(d)
			for i := range o {
				o[i] = p[i] - q[i]
			}
		}
	case op == "mul":
		f = func(w *warp, d *v32) {
			p, q, o := floats(&w.r32[x]), floats(&w.r32[y]), floats(d)
			for i := range o {
				o[i] = p[i] * q[i]
			}
		}
	case op == "neg":
		f = one32(x, func(a uint32) uint32 { return a ^ 0x80000000 })
	case op == "abs":
		f = one32(x, func(a uint32) uint32 { return a &^ 0x80000000 })
	case op == "copysign":
		f = two32(x, y, func(a, b uint32) uint32 { return b&^0x80000000 | a&0x80000000 })
	case op == "min":
		f = twoFloat(x, y, min32)
	case op == "max":
		f = twoFloat(x, y, max32)
	case op == "div" && !b.has("approx") && !b.has("full"):
		out.class = ClassSpecial
		f = twoFloat(x, y, func(a, b float32) float32 { return a / b })
	case op == "rcp" && !b.has("approx"):
		out.class = ClassSpecial
		f = oneFloat(x, func(a float32) float32 { return 1 / a })
	case op == "sqrt" && !b.has("approx"):
		out.class = ClassSpecial
		f = oneFloat(x, func(a float32) float32 { return float32(math.Sqrt(float64(a))) })
	default:
		out.class = ClassSpecial
		f = b.approx32(op, x, y)
		if f == nil {
			b.unknown()
		}
	}
	if ftz {
		f = flushed(f, x, y, z)
	}
	if sat {
		g := f
		f = func(w *warp, d *v32) {
			g(w, d)
			for i, v := range floats(d) {
				floats(d)[i] = float32(clamp01(float64(v)))
			}
		}
	}
	out.f32 = f
}

// flushed takes subnormal operands and results for zeros of their sign.
func flushed(f func(w *warp, d *v32), slots ...int) func(w *warp, d *v32) {
	return func(w *warp, d *v32) {
		var kept [3]v32
		for k, s := range slots {
			kept[k] = w.r32[s]
			v := floats(&w.r32[s])
			for i := range v {
				v[i] = flush(v[i])
			}
		}
		var t v32
		f(w, &t)
		for k := len(slots) - 1; k >= 0; k-- { // one slot may stand twice: the first copy is whole
			w.r32[slots[k]] = kept[k]
		}
		for i, v := range floats(&t) {
			floats(d)[i] = flush(v)
		}
	}
}

func (b *builder) float64(out *instr) {
	op, args, t := b.in.parts[0], b.in.args, typ{'f', 8}
	b.only("rn", "ftz", "approx")
	out.kind, out.dst = do64, b.dst(args[0], 2)
	x := b.s64(args[1], t)
	operands := map[string]int{"fma": 4, "mad": 4, "add": 3, "sub": 3, "mul": 3, "div": 3, "min": 3, "max": 3, "copysign": 3}[op]
	if operands == 0 {
		operands = 2
	}
	b.arity(operands)
	y, z := x, x
	if operands > 2 {
		y = b.s64(args[2], t)
	}
	if operands > 3 {
		z = b.s64(args[3], t)
	}
	switch op {
	case "fma", "mad":
		out.f64 = func(w *warp, d *v64) {
			p, q, r, o := doubles(&w.r64[x]), doubles(&w.r64[y]), doubles(&w.r64[z]), doubles(d)
			for i := range o {
				o[i] = math.FMA(p[i], q[i], r[i])
			}
		}
	case "add":
		out.f64 = func(w *warp, d *v64) {
			p, q, o := doubles(&w.r64[x]), doubles(&w.r64[y]), doubles(d)
			for i := range o {
				o[i] = p[i] + q[i]
			}
		}
	case "sub":
		out.f64 = func(w *warp, d *v64) {
			p, q, o := doubles(&w.r64[x]), doubles(&w.r64[y]), doubles(d)
			for i := range o {
				o[i] = p[i] - q[i]
			}
		}
	case "mul":
		out.f64 = func(w *warp, d *v64) {
			p, q, o := doubles(&w.r64[x]), doubles(&w.r64[y]), doubles(d)
			for i := range o {
				o[i] = p[i] * q[i]
			}
		}
	case "neg":
		out.f64 = one64(x, func(a uint64) uint64 { return a ^ 1<<63 })
	case "abs":
		out.f64 = one64(x, func(a uint64) uint64 { return a &^ (1 << 63) })
	case "copysign":
		out.f64 = two64(x, y, func(a, b uint64) uint64 { return b&^(1<<63) | a&(1<<63) })
	case "min":
		out.f64 = twoDouble(x, y, min64)
	case "max":
		out.f64 = twoDouble(x, y, max64)
	case "div":
		out.class = ClassSpecial
		out.f64 = twoDouble(x, y, func(a, b float64) float64 { return a / b })
	case "sqrt":
		out.class = ClassSpecial
		out.f64 = oneDouble(x, math.Sqrt)
	case "rcp", "rsqrt":
		out.class = ClassSpecial
		switch {
		case b.has("approx"):
			out.f64 = b.approx64(op, x)
		case op == "rcp":
			out.f64 = oneDouble(x, func(a float64) float64 { return 1 / a })
		default:
			b.unknown()
		}
	default:
		b.unknown()
	}
}
