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

// least and most are min and max of floating-point numbers: a NaN gives way, −0 is below 0.
func least[T float32 | float64](a, b T) T {
	if a != a || b < a || a == b && math.Signbit(float64(b)) {
		return b
	}
	return a
}

func most[T float32 | float64](a, b T) T {
	if a != a || b > a || a == b && !math.Signbit(float64(b)) {
		return b
	}
	return a
}

func clamp01(v float64) float64 {
	if v > 0 { // a NaN becomes 0
		return min(v, 1)
	}
	return 0
}

// An operation fills the 32 lanes of o from those of up to three operands.
type operation[T any] func(o, p, q, r *[32]T)

// each applies a function lane by lane: of what is rare. The common ones below are loops of
// their own.
func each[T any](f func(a, b, c T) T) operation[T] {
	return func(o, p, q, r *[32]T) {
		for i := range o {
			o[i] = f(p[i], q[i], r[i])
		}
	}
}

type integer interface {
	int32 | uint32 | int64 | uint64
}

func plus[T integer | float32 | float64](o, p, q, _ *[32]T) {
	for i := range o {
		o[i] = p[i] + q[i]
	}
}

func minus[T integer | float32 | float64](o, p, q, _ *[32]T) {
	for i := range o {
		o[i] = p[i] - q[i]
	}
}

func times[T float32 | float64](o, p, q, _ *[32]T) {
	for i := range o {
		o[i] = p[i] * q[i]
	}
}

func timesPlus[T integer](o, p, q, r *[32]T) {
	for i := range o {
		o[i] = p[i]*q[i] + r[i]
	}
}

func both[T integer](o, p, q, _ *[32]T) {
	for i := range o {
		o[i] = p[i] & q[i]
	}
}

func either[T integer](o, p, q, _ *[32]T) {
	for i := range o {
		o[i] = p[i] | q[i]
	}
}

// integers are the operations on integers whose operands all have the result's type.
func integers[T integer](op string) operation[T] {
	switch op {
	case "add":
		return plus[T]
	case "sub":
		return minus[T]
	case "and":
		return both[T]
	case "or":
		return either[T]
	case "xor":
		return each(func(a, b, _ T) T { return a ^ b })
	case "not":
		return each(func(a, _, _ T) T { return ^a })
	case "neg":
		return each(func(a, _, _ T) T { return -a })
	case "abs":
		return each(func(a, _, _ T) T { return max(a, -a) })
	case "min":
		return each(func(a, b, _ T) T { return min(a, b) })
	case "max":
		return each(func(a, b, _ T) T { return max(a, b) })
	case "mul", "mad":
		return timesPlus[T]
	}
	return nil
}

// floating are those on floating-point numbers, rounded to nearest.
func floating[T float32 | float64](op string) operation[T] {
	switch op {
	case "add":
		return plus[T]
	case "sub":
		return minus[T]
	case "mul":
		return times[T]
	case "neg":
		return each(func(a, _, _ T) T { return -a })
	case "abs":
		return each(func(a, _, _ T) T { return T(math.Abs(float64(a))) })
	case "min":
		return each(func(a, b, _ T) T { return least(a, b) })
	case "max":
		return each(func(a, b, _ T) T { return most(a, b) })
	case "div":
		return each(func(a, b, _ T) T { return a / b })
	case "rcp":
		return each(func(a, _, _ T) T { return 1 / a })
	case "sqrt":
		return each(func(a, _, _ T) T { return T(math.Sqrt(float64(a))) })
	}
	return nil
}

func fma32(o, p, q, r *[32]float32) {
	for i := range o {
		m, c := float64(p[i])*float64(q[i]), float64(r[i]) // the product is exact
		s := m + c
		if u := math.Float64bits(s); u&0x1fffffff != 0x10000000 && (u<<1 >= 897<<53 || u<<1 == 0) {
			o[i] = float32(s)
			continue
		}
		o[i] = fmaSlow(m, c, s)
	}
}

func fma64(o, p, q, r *[32]float64) {
	for i := range o {
		o[i] = math.FMA(p[i], q[i], r[i])
	}
}

// bind32 and bind64 tie an operation to the slots of its operands.
func bind32[T any](f operation[T], s [3]int) func(w *warp, d *v32) {
	return func(w *warp, d *v32) {
		f((*[32]T)(unsafe.Pointer(d)), (*[32]T)(unsafe.Pointer(&w.r32[s[0]])), (*[32]T)(unsafe.Pointer(&w.r32[s[1]])), (*[32]T)(unsafe.Pointer(&w.r32[s[2]])))
	}
}

func bind64[T any](f operation[T], s [3]int) func(w *warp, d *v64) {
	return func(w *warp, d *v64) {
		f((*[32]T)(unsafe.Pointer(d)), (*[32]T)(unsafe.Pointer(&w.r64[s[0]])), (*[32]T)(unsafe.Pointer(&w.r64[s[1]])), (*[32]T)(unsafe.Pointer(&w.r64[s[2]])))
	}
}

// operandCounts are those of operations that do not have one source.
var operandCounts = map[string]int{"add": 2, "sub": 2, "and": 2, "or": 2, "xor": 2, "min": 2, "max": 2, "div": 2, "rem": 2, "mul": 2, "mad": 3, "fma": 3}

// sources gives the slots of an operation's operands; those that it lacks stand for the
// first, or, of an addend, for zero.
func (b *builder) sources(t typ) (s [3]int) {
	n := max(1, operandCounts[b.in.parts[0]])
	b.arity(n + 1)
	slot := b.s32
	if t.size == 8 {
		slot = b.s64
	}
	for k := range s {
		switch {
		case k < n:
			s[k] = slot(b.in.args[k+1], t)
		case k == 2 && t.kind != 'f':
			s[k] = slot(operand{kind: 'i'}, t)
		default:
			s[k] = s[0]
		}
	}
	return s
}

// arithmetic compiles what computes one register from others of one type.
func (b *builder) arithmetic(out *instr) {
	op, t := b.in.parts[0], b.last()
	out.class = ClassInteger
	switch {
	case t.kind == 'p':
		b.logic(out)
	case t.kind == 'f' && t.size == 4:
		b.float32(out)
	case t.kind == 'f' && t.size == 8:
		b.float64(out)
	case t.kind == 'f' || t.size == 1:
		b.unknown()
	case b.has("cc") || op == "addc" || op == "subc" || op == "madc":
		b.carry(out, t)
	case op == "shl" || op == "shr":
		b.shift(out, t)
	case b.has("wide") || b.has("hi"):
		b.product(out, t)
	case op == "div" || op == "rem":
		b.division(out, t)
	case op == "popc" || op == "clz" || op == "bfind" || op == "bfi" || op == "brev" || op == "prmt":
		b.fields(out, t)
	default:
		b.integer(out, t)
	}
}

func (b *builder) integer(out *instr, t typ) {
	op := b.in.parts[0]
	b.only("lo")
	if t.size == 8 {
		out.kind, out.dst = do64, b.dst(b.in.args[0], 2)
		if t.kind == 's' {
			if f := integers[int64](op); f != nil {
				out.f64 = bind64(f, b.sources(t))
			}
		} else if f := integers[uint64](op); f != nil {
			out.f64 = bind64(f, b.sources(t))
		}
	} else {
		out.kind, out.dst = do32, b.dst(b.in.args[0], 1)
		if t.kind == 's' && t.size == 4 {
			if f := integers[int32](op); f != nil {
				out.f32 = bind32(f, b.sources(t))
			}
		} else if f := integers[uint32](op); f != nil && (t.kind != 's' || op != "min" && op != "max" && op != "abs") {
			out.f32 = bind32(f, b.sources(t))
			if t.size == 2 { // kept with zeros above
				g := out.f32
				out.f32 = func(w *warp, d *v32) {
					g(w, d)
					for i := range d {
						d[i] &= 0xffff
					}
				}
			}
		}
	}
	if out.f32 == nil && out.f64 == nil {
		b.unknown()
	}
}

// shift compiles shl and shr, whose second operand has 32 bits; Go's shifts by the width and
// more give what the document says.
func (b *builder) shift(out *instr, t typ) {
	b.only()
	b.arity(3)
	n := b.s32(b.in.args[2], typ{'u', 4})
	left := b.in.parts[0] == "shl"
	if t.size == 8 {
		x := b.s64(b.in.args[1], t)
		out.kind, out.dst = do64, b.dst(b.in.args[0], 2)
		out.f64 = func(w *warp, d *v64) {
			p, q := &w.r64[x], &w.r32[n]
			for i := range d {
				switch {
				case left:
					d[i] = p[i] << q[i]
				case t.kind == 's':
					d[i] = uint64(int64(p[i]) >> q[i])
				default:
					d[i] = p[i] >> q[i]
				}
			}
		}
		return
	}
	if t.size != 4 {
		b.unknown()
	}
	f := each(func(a, n, _ uint32) uint32 { return a >> n })
	if left {
		f = each(func(a, n, _ uint32) uint32 { return a << n })
	} else if t.kind == 's' {
		f = each(func(a, n, _ uint32) uint32 { return uint32(int32(a) >> n) })
	}
	x := b.s32(b.in.args[1], t)
	out.kind, out.dst, out.f32 = do32, b.dst(b.in.args[0], 1), bind32(f, [3]int{x, n, x})
}

// product compiles products of more bits than their factors, or the upper half of one.
func (b *builder) product(out *instr, t typ) {
	b.only("hi", "wide")
	args, add := b.in.args, b.in.parts[0] == "mad"
	if t.size != 4 || !add && b.in.parts[0] != "mul" {
		b.unknown()
	}
	b.arity(map[bool]int{false: 3, true: 4}[add])
	x, y, z := b.s32(args[1], t), b.s32(args[2], t), 0
	if b.has("hi") {
		if z = b.s32(operand{kind: 'i'}, t); add {
			z = b.s32(args[3], t)
		}
		out.kind, out.dst = do32, b.dst(args[0], 1)
		f := each(func(a, b, c uint32) uint32 { return uint32(uint64(a)*uint64(b)>>32) + c })
		if t.kind == 's' {
			f = each(func(a, b, c uint32) uint32 { return uint32(int64(int32(a))*int64(int32(b))>>32) + c })
		}
		out.f32 = bind32(f, [3]int{x, y, z})
		return
	}
	if z = b.s64(operand{kind: 'i'}, typ{'u', 8}); add {
		z = b.s64(args[3], typ{t.kind, 8})
	}
	out.kind, out.dst = do64, b.dst(args[0], 2)
	out.f64 = func(w *warp, d *v64) {
		p, q, r := &w.r32[x], &w.r32[y], &w.r64[z]
		if t.kind == 's' {
			for i := range d {
				d[i] = uint64(int64(int32(p[i]))*int64(int32(q[i]))) + r[i]
			}
			return
		}
		for i := range d {
			d[i] = uint64(p[i])*uint64(q[i]) + r[i]
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

// fields compiles operations on bit fields.
func (b *builder) fields(out *instr, t typ) {
	op, args, u32 := b.in.parts[0], b.in.args, typ{'u', 4}
	b.only("shiftamt")
	read := func(w *warp, i int) uint64 { return 0 }
	if t.size == 8 {
		x := b.s64(args[1], t)
		read = func(w *warp, i int) uint64 { return w.r64[x][i] }
	} else {
		x := b.s32(args[1], t)
		read = func(w *warp, i int) uint64 { return uint64(w.r32[x][i]) }
	}
	if op == "bfi" {
		b.arity(5)
		n, m := b.s32(args[3], u32), b.s32(args[4], u32)
		insert := func(a, v uint64, at, n uint32) uint64 {
			mask := (uint64(1)<<(n&255) - 1) << (at & 255)
			return v&^mask | a<<(at&255)&mask
		}
		if t.size == 8 {
			y := b.s64(args[2], t)
			out.kind, out.dst = do64, b.dst(args[0], 2)
			out.f64 = func(w *warp, d *v64) {
				for i := range d {
					d[i] = insert(read(w, i), w.r64[y][i], w.r32[n][i], w.r32[m][i])
				}
			}
			return
		}
		y := b.s32(args[2], t)
		out.kind, out.dst = do32, b.dst(args[0], 1)
		out.f32 = func(w *warp, d *v32) {
			for i := range d {
				d[i] = uint32(insert(read(w, i), uint64(w.r32[y][i]), w.r32[n][i], w.r32[m][i]))
			}
		}
		return
	}
	out.kind, out.dst = do32, b.dst(args[0], 1)
	if op == "prmt" {
		b.arity(4)
		out.f32 = bind32(each(permuted), [3]int{b.s32(args[1], t), b.s32(args[2], t), b.s32(args[3], t)})
		return
	}
	b.arity(2)
	if op == "brev" && t.size == 8 {
		b.unknown()
	}
	shift := b.has("shiftamt")
	out.f32 = func(w *warp, d *v32) {
		for i := range d {
			v := read(w, i)
			if op == "bfind" && t.kind == 's' && v>>(8*t.size-1) != 0 {
				v = ^v & (^uint64(0) >> (64 - 8*t.size))
			}
			n := uint32(bits.Len64(v))
			switch {
			case op == "popc":
				d[i] = uint32(bits.OnesCount64(v))
			case op == "brev":
				d[i] = bits.Reverse32(uint32(v))
			case op == "clz" || shift && n > 0:
				d[i] = uint32(8*t.size) - n
			default: // the highest bit, all ones where there is none
				d[i] = n - 1
			}
		}
	}
}

// permuted is prmt: four bytes chosen from eight, or their signs.
func permuted(x, y, choice uint32) (r uint32) {
	v := uint64(y)<<32 | uint64(x)
	for k := range 4 {
		s := choice >> (4 * k)
		c := uint32(v >> (8 * (s & 7)) & 255)
		if s&8 != 0 {
			c = uint32(int8(c)>>7) & 255
		}
		r |= c << (8 * k)
	}
	return r
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
	op, t := b.in.parts[0], typ{'f', 4}
	b.only("rn", "rz", "rm", "rp", "ftz", "sat", "approx", "full")
	out.kind, out.class, out.dst = do32, ClassFloat32, b.dst(b.in.args[0], 1)
	if op == "div" || op == "rcp" || op == "sqrt" || operandCounts[op] == 0 && op != "neg" && op != "abs" {
		out.class = ClassSpecial
	}
	s := b.sources(t)
	way, directed := 0, true
	switch {
	case b.has("rm"):
		way = -1
	case b.has("rp"):
		way = 1
	case !b.has("rz"):
		directed = false
	}
	var f func(w *warp, d *v32)
	switch {
	case directed && op == "fma":
		f = bind32(each(func(p, q, r float32) float32 { return fmaToward(p, q, r, way) }), s)
	case directed:
	case op == "fma":
		f = bind32(fma32, s)
	case b.has("approx") || b.has("full"):
		f = b.approx32(op, s[0], s[1])
	default:
		if g := floating[float32](op); g != nil {
			f = bind32(g, s)
		}
	}
	if f == nil {
		b.unknown()
	}
	if b.has("ftz") {
		f = flushed(f, s[:]...)
	}
	out.f32 = f
	if b.has("sat") {
		out.f32 = func(w *warp, d *v32) {
			f(w, d)
			for i, v := range floats(d) {
				floats(d)[i] = float32(clamp01(float64(v)))
			}
		}
	}
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
	op := b.in.parts[0]
	b.only("rn", "ftz", "approx")
	out.kind, out.class, out.dst = do64, ClassFloat64, b.dst(b.in.args[0], 2)
	if op == "div" || op == "rcp" || op == "sqrt" || op == "rsqrt" {
		out.class = ClassSpecial
	}
	s := b.sources(typ{'f', 8})
	g := floating[float64](op)
	switch {
	case op == "fma":
		out.f64 = bind64(fma64, s)
	case b.has("approx") && (op == "rcp" || op == "rsqrt"):
		out.f64 = b.approx64(op, s[0])
	case g != nil && !b.has("approx"):
		out.f64 = bind64(g, s)
	default:
		b.unknown()
	}
}
