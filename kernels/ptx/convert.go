package ptx

import (
	"math"
	"math/bits"
)

// move compiles mov: registers, numbers, special registers, addresses, and packing.
func (b *builder) move(out *instr) {
	b.arity(2)
	b.only()
	to, from, t := b.in.args[0], b.in.args[1], b.last()
	out.class = ClassMove
	switch {
	case to.kind == 'v':
		b.unpack(out, to.list, from, t)
	case from.kind == 'v':
		b.pack(out, to, from.list, t)
	case t.kind == 'p':
		out.kind, out.dst, out.fp = doPred, b.dst(to, 0), b.sp(from)
	case from.kind == 's':
		out.kind, out.dst = do32, b.dst(to, 1)
		for i, name := range specials {
			if name == from.name {
				out.f32 = func(w *warp, d *v32) { *d = w.special[i] }
			}
		}
	case t.size == 8:
		out.kind, out.dst = do64, b.dst(to, 2)
		x := b.s64(from, t)
		out.f64 = func(w *warp, d *v64) { *d = w.r64[x] }
	default:
		out.kind, out.dst = do32, b.dst(to, 1)
		x := b.s32(from, t)
		out.f32 = func(w *warp, d *v32) { *d = w.r32[x] }
	}
}

// pack puts two registers of 32 bits together in one of 64, the first below.
func (b *builder) pack(out *instr, to operand, parts []operand, t typ) {
	if len(parts) != 2 || t.size != 8 {
		b.unknown()
	}
	x, y := b.s32(parts[0], typ{'b', 4}), b.s32(parts[1], typ{'b', 4})
	out.kind, out.dst = do64, b.dst(to, 2)
	out.f64 = func(w *warp, d *v64) {
		p, q := &w.r32[x], &w.r32[y]
		for i := range d {
			d[i] = uint64(p[i]) | uint64(q[i])<<32
		}
	}
}

// unpack is its reverse; a part may be left out.
func (b *builder) unpack(out *instr, to []operand, from operand, t typ) {
	if len(to) != 2 || t.size != 8 {
		b.unknown()
	}
	into := [2]int32{-1, -1}
	for k, o := range to {
		if o.kind != '_' {
			into[k] = b.dst(o, 1)
		}
	}
	x := b.s64(from, t)
	out.kind = doAny
	out.fx = func(w *warp, active uint32) {
		v := w.r64[x]
		for k, d := range into {
			if d < 0 {
				continue
			}
			r := &w.r32[d]
			for m := active; m != 0; m &= m - 1 {
				i := bits.TrailingZeros32(m) & 31
				r[i] = uint32(v[i] >> (32 * k))
			}
		}
	}
}

// address compiles cvta, between generic addresses and those of a space.
func (b *builder) address(out *instr) {
	b.arity(2)
	b.only("to", "shared", "global", "local", "const", "param")
	if b.last().size != 8 {
		b.unknown()
	}
	base := uint64(0)
	switch {
	case b.has("shared"):
		base = sharedWindow
	case b.has("local"):
		base = localWindow
	case b.has("param"):
		b.unknown()
	}
	if b.has("to") {
		base = -base
	}
	out.kind, out.class, out.dst = do64, ClassInteger, b.dst(b.in.args[0], 2)
	x := b.s64(b.in.args[1], typ{'u', 8})
	out.f64 = func(w *warp, d *v64) {
		p := &w.r64[x]
		for i := range d {
			d[i] = p[i] + base
		}
	}
}

// integral rounds to an integer as a modifier says.
func integral(way string) func(float64) float64 {
	switch way {
	case "rni":
		return math.RoundToEven
	case "rzi":
		return math.Trunc
	case "rmi":
		return math.Floor
	case "rpi":
		return math.Ceil
	}
	return nil
}

// toInteger converts a rounded number, bounded to the type; a NaN as the manual says.
func toInteger(v float64, t typ, from typ) uint64 {
	if v != v {
		if from.size == 8 || t.size == 8 {
			return 1 << (8*t.size - 1)
		}
		return 0
	}
	if t.kind == 's' {
		top := math.Ldexp(1, 8*t.size-1)
		switch {
		case v >= top:
			return 1<<(8*t.size-1) - 1
		case v < -top:
			return -(uint64(1) << (8*t.size - 1))
		}
		return uint64(int64(v))
	}
	switch {
	case v <= 0:
		return 0
	case v >= math.Ldexp(1, 8*t.size):
		return ^uint64(0) >> (64 - 8*t.size)
	case v >= 1<<63:
		return uint64(v-(1<<63)) + 1<<63
	}
	return uint64(v)
}

func extend(v uint64, t typ) uint64 {
	shift := 64 - 8*t.size
	if t.kind == 's' {
		return uint64(int64(v<<shift) >> shift)
	}
	return v << shift >> shift
}

// convert compiles cvt.
func (b *builder) convert(out *instr) {
	b.arity(2)
	parts := b.in.parts
	if len(parts) < 3 {
		b.unknown()
	}
	to, ok := typeOf(parts[len(parts)-2])
	from := b.last()
	way := ""
	for _, p := range parts[1 : len(parts)-2] {
		switch p {
		case "rn", "rni", "rzi", "rmi", "rpi", "rna", "rz":
			way = p
		case "ftz", "sat":
		default:
			b.unknown()
		}
	}
	sat, ftz := b.has("sat"), b.has("ftz")
	tf32 := parts[len(parts)-2] == "tf32"
	if tf32 {
		to, ok = typ{'f', 4}, way == "rna" && from == typ{'f', 4}
	}
	if !ok || sat && from.kind != 'f' || from.kind == 'f' && from.size == 2 || to.kind == 'f' && to.size == 2 || way == "rz" || way == "rna" && !tf32 {
		b.unknown()
	}
	out.class = ClassConvert
	round := integral(way)
	var value func(v uint64) uint64
	switch {
	case tf32:
		value = func(v uint64) uint64 {
			if v&0x7f800000 == 0x7f800000 {
				return v
			}
			return (v + 0x1000) & 0xffffe000
		}
	case from.kind == 'f' && to.kind == 'f':
		value = func(v uint64) uint64 {
			x := math.Float64frombits(v)
			if from.size == 4 {
				x = float64(math.Float32frombits(uint32(v)))
				if ftz {
					x = float64(flush(float32(x)))
				}
			}
			if round != nil {
				x = round(x)
			}
			if sat {
				x = clamp01(x)
			}
			if to.size == 8 {
				return math.Float64bits(x)
			}
			f := float32(x)
			if ftz {
				f = flush(f)
			}
			return uint64(math.Float32bits(f))
		}
	case from.kind == 'f':
		if round == nil {
			b.unknown()
		}
		value = func(v uint64) uint64 {
			x := math.Float64frombits(v)
			if from.size == 4 {
				x = float64(math.Float32frombits(uint32(v)))
			}
			return toInteger(round(x), to, from)
		}
	case to.kind == 'f':
		if way != "rn" {
			b.unknown()
		}
		value = func(v uint64) uint64 {
			v = extend(v, from)
			if to.size == 8 {
				if from.kind == 's' {
					return math.Float64bits(float64(int64(v)))
				}
				return math.Float64bits(float64(v))
			}
			if from.kind == 's' {
				return uint64(math.Float32bits(float32(int64(v))))
			}
			return uint64(math.Float32bits(float32(v)))
		}
	default:
		value = func(v uint64) uint64 {
			return extend(v, from)
		}
	}
	// A result narrower than its register is extended to it by its type's sign.
	width := 4
	if b.regs[b.in.args[0].reg].file() == 2 {
		width = 8
	} else if b.regs[b.in.args[0].reg].typ.size == 2 {
		width = 2
	}
	wide := from.size == 8
	if o := b.in.args[1]; o.kind == 'r' {
		wide = b.regs[o.reg].file() == 2
	}
	x := 0
	if wide {
		x = b.s64(b.in.args[1], from)
	} else {
		x = b.s32(b.in.args[1], from)
	}
	if width == 8 {
		out.kind, out.dst = do64, b.dst(b.in.args[0], 2)
		switch {
		case !wide && to == typ{'s', 8} && from == typ{'s', 4}:
			out.f64 = func(w *warp, d *v64) {
				p := signed(&w.r32[x])
				for i := range d {
					d[i] = uint64(p[i])
				}
			}
		case !wide && to.size == 8 && from == typ{'u', 4} && to.kind != 'f':
			out.f64 = func(w *warp, d *v64) {
				p := &w.r32[x]
				for i := range d {
					d[i] = uint64(p[i])
				}
			}
		case wide:
			out.f64 = bind64(each(func(v, _, _ uint64) uint64 { return extend(value(v), to) }), [3]int{x, x, x})
		default:
			out.f64 = func(w *warp, d *v64) {
				p := &w.r32[x]
				for i := range d {
					d[i] = extend(value(uint64(p[i])), to)
				}
			}
		}
		return
	}
	keep := uint32(1<<(8*width) - 1)
	out.kind, out.dst = do32, b.dst(b.in.args[0], 1)
	switch {
	case wide && to.kind != 'f' && from.kind != 'f' && to.size == 4 && !sat:
		out.f32 = func(w *warp, d *v32) {
			p := &w.r64[x]
			for i := range d {
				d[i] = uint32(p[i])
			}
		}
	case wide:
		out.f32 = func(w *warp, d *v32) {
			p := &w.r64[x]
			for i := range d {
				d[i] = uint32(extend(value(p[i]), to)) & keep
			}
		}
	default:
		out.f32 = bind32(each(func(v, _, _ uint32) uint32 { return uint32(extend(value(uint64(v)), to)) & keep }), [3]int{x, x, x})
	}
}

// compared gives the bits of the lanes of which a comparison holds. Of numbers of which one
// is a NaN the unordered ones hold, whose names end with u, and nan.
func compared[T ordered](op string) func(p, q *[32]T) uint32 {
	not := func(f func(p, q *[32]T) uint32) func(p, q *[32]T) uint32 {
		return func(p, q *[32]T) uint32 { return ^f(p, q) }
	}
	unlike := func(p, q *[32]T) uint32 { return numbers(p, q) &^ equal(p, q) }
	return map[string]func(p, q *[32]T) uint32{
		"eq": equal[T], "ne": unlike, "lt": below[T], "le": atMost[T], "gt": above[T], "ge": atLeast[T], "num": numbers[T],
		"equ": not(unlike), "neu": not(equal[T]), "ltu": not(atLeast[T]), "leu": not(above[T]), "gtu": not(atMost[T]), "geu": not(below[T]), "nan": not(numbers[T]),
	}[op]
}

type ordered interface {
	int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64
}

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// What follows gives a bit of each lane. The bits come in from above: a shift by one each
// time is cheaper than one by the lane.

func equal[T ordered](p, q *[32]T) (m uint32) {
	for i := range p {
		m = m>>1 | bit(p[i] == q[i])<<31
	}
	return m
}

func below[T ordered](p, q *[32]T) (m uint32) {
	for i := range p {
		m = m>>1 | bit(p[i] < q[i])<<31
	}
	return m
}

func atMost[T ordered](p, q *[32]T) (m uint32) {
	for i := range p {
		m = m>>1 | bit(p[i] <= q[i])<<31
	}
	return m
}

func above[T ordered](p, q *[32]T) uint32   { return below(q, p) }
func atLeast[T ordered](p, q *[32]T) uint32 { return atMost(q, p) }

// numbers are the lanes without a NaN.
func numbers[T ordered](p, q *[32]T) uint32 { return equal(p, p) & equal(q, q) }

func sixteen[T int16 | uint16](f func(p, q *[32]T) uint32, x, y int) func(w *warp) uint32 {
	if f == nil {
		return nil
	}
	return func(w *warp) uint32 {
		var p, q [32]T
		for i := range p {
			p[i], q[i] = T(w.r32[x][i]), T(w.r32[y][i])
		}
		return f(&p, &q)
	}
}

// compare compiles setp.
func (b *builder) compare(out *instr) {
	args, parts := b.in.args, b.in.parts
	t := b.last()
	if len(args) < 3 || len(args) > 4 || len(parts) < 3 {
		b.unknown()
	}
	b.only("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan", "and", "or", "xor", "ftz")
	op := parts[1]
	kind := t.kind
	if kind == 'b' {
		kind = 'u'
	}
	if alias := map[string]string{"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}[op]; alias != "" {
		op, kind = alias, 'u'
	}
	var f func(w *warp) uint32
	if t.size == 8 {
		x, y := b.s64(args[1], t), b.s64(args[2], t)
		switch kind {
		case 'u':
			if g := compared[uint64](op); g != nil {
				f = func(w *warp) uint32 { return g(&w.r64[x], &w.r64[y]) }
			}
		case 's':
			if g := compared[int64](op); g != nil {
				f = func(w *warp) uint32 { return g(signed64(&w.r64[x]), signed64(&w.r64[y])) }
			}
		case 'f':
			if g := compared[float64](op); g != nil {
				f = func(w *warp) uint32 { return g(doubles(&w.r64[x]), doubles(&w.r64[y])) }
			}
		}
	} else {
		x, y := b.s32(args[1], t), b.s32(args[2], t)
		switch {
		case t.size == 2 && kind == 'u':
			f = sixteen(compared[uint16](op), x, y)
		case t.size == 2 && kind == 's':
			f = sixteen(compared[int16](op), x, y)
		case t.size != 4:
		case kind == 'u':
			if g := compared[uint32](op); g != nil {
				f = func(w *warp) uint32 { return g(&w.r32[x], &w.r32[y]) }
			}
		case kind == 's':
			if g := compared[int32](op); g != nil {
				f = func(w *warp) uint32 { return g(signed(&w.r32[x]), signed(&w.r32[y])) }
			}
		case kind == 'f':
			if g := compared[float32](op); g != nil {
				f = func(w *warp) uint32 { return g(floats(&w.r32[x]), floats(&w.r32[y])) }
				if b.has("ftz") {
					f = func(w *warp) uint32 {
						p, q := *floats(&w.r32[x]), *floats(&w.r32[y])
						for i := range p {
							p[i], q[i] = flush(p[i]), flush(q[i])
						}
						return g(&p, &q)
					}
				}
			}
		}
	}
	if f == nil {
		b.unknown()
	}
	join := func(m, c uint32) uint32 { return m }
	with := func(*warp) uint32 { return 0 }
	if len(args) == 4 {
		with = b.sp(args[3])
		switch {
		case b.has("and"):
			join = func(m, c uint32) uint32 { return m & c }
		case b.has("or"):
			join = func(m, c uint32) uint32 { return m | c }
		case b.has("xor"):
			join = func(m, c uint32) uint32 { return m ^ c }
		default:
			b.unknown()
		}
	}
	out.class = ClassCompare
	d := b.dst(args[0], 0)
	if pair := args[0].pair; pair >= 0 {
		e := b.slot[pair]
		out.kind = doAny
		out.fx = func(w *warp, mask uint32) {
			m, c := f(w), with(w)
			p, q := join(m, c), join(^m, c)
			w.pred[d] = w.pred[d]&^mask | p&mask
			w.pred[e] = w.pred[e]&^mask | q&mask
		}
		return
	}
	out.kind, out.dst, out.fp = doPred, d, f
	if len(args) == 4 {
		out.fp = func(w *warp) uint32 { return join(f(w), with(w)) }
	}
}

// selected compiles selp.
func (b *builder) selected(out *instr) {
	b.arity(4)
	args := b.in.args
	out.class = ClassMove
	t, p := b.last(), b.sp(args[3])
	b.only()
	if t.size == 8 {
		x, y := b.s64(args[1], t), b.s64(args[2], t)
		out.kind, out.dst = do64, b.dst(args[0], 2)
		out.f64 = func(w *warp, d *v64) {
			m, p, q := p(w), &w.r64[x], &w.r64[y]
			for i := range d {
				s := -uint64(m >> i & 1)
				d[i] = p[i]&s | q[i]&^s
			}
		}
		return
	}
	x, y := b.s32(args[1], t), b.s32(args[2], t)
	out.kind, out.dst = do32, b.dst(args[0], 1)
	out.f32 = func(w *warp, d *v32) {
		m, p, q := p(w), &w.r32[x], &w.r32[y]
		for i := range d {
			s := -(m >> i & 1)
			d[i] = p[i]&s | q[i]&^s
		}
	}
}
