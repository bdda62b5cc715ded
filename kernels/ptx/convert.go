package ptx

import (
	"math"
	"unsafe"

	"github.com/x448/float16"
)

// move compiles mov: registers, numbers, special registers, addresses, and packing.
func (b *builder) move(out *instr) {
	b.arity(2)
	to, from, t := b.instruction.args[0], b.instruction.args[1], b.last()
	switch {
	case t.kind == 'p':
		b.allow()
		out.kind, out.class = doPredicate, ClassMove
		out.dst, out.holds = b.register(to, 0), b.predicate(from)
	case from.kind == 'v' && len(from.list) == 2 && t.size == 8: // the first below
		pack := two(func(low, high uint32) uint64 { return uint64(low) | uint64(high)<<32 })
		b.lanes(out, pack.withClass(ClassMove), []operand{to, from.list[0], from.list[1]})
	case from.kind == 'v' && len(from.list) == 2 && t.size == 4:
		pack := two(func(low, high uint16) uint32 { return uint32(low) | uint32(high)<<16 })
		b.lanes(out, pack.withClass(ClassMove), []operand{to, from.list[0], from.list[1]})
	case to.kind == 'v' && len(to.list) == 2 && t.size == 8:
		b.unpack(out, to.list, b.operand(from, t))
	default:
		b.arithmetic(out, b.instruction.args)
	}
}

// unpack parts a register of 64 bits into two of 32; one may be left out.
func (b *builder) unpack(out *instr, to []operand, from int32) {
	registers := [2]int32{-1, -1}
	for k, o := range to {
		if o.kind != '_' {
			registers[k] = b.register(o, 4)
		}
	}
	out.kind, out.class = doMasked, ClassMove
	out.effect = func(w *warp, mask uint32) {
		v := *vector[uint64](w.register(from))
		for k, d := range registers {
			if d < 0 {
				continue
			}
			r := vector[uint32](w.register(d))
			for i := range lanes(mask) {
				r[i] = uint32(v[i] >> (32 * k))
			}
		}
	}
}

// address compiles cvta, between generic addresses and those of a space.
func (b *builder) address(out *instr) {
	b.arity(2)
	b.allow("to", "shared", "global", "local", "const")
	if b.last().size != 8 {
		b.unknown()
	}
	base := uint64(0)
	for space, name := range spaceNames {
		if b.hasModifier(name) {
			base = windows[space]
		}
	}
	if b.hasModifier("to") {
		base = -base
	}
	b.lanes(out, one(func(a uint64) uint64 { return a + base }), b.instruction.args)
}

// insert compiles bfi, the one operation with four operands.
func (b *builder) insert(out *instr) {
	b.arity(5)
	args := b.instruction.args
	n := b.operand(args[4], typ{'u', 4})
	var s semantic
	switch b.instruction.op {
	case "bfi.b32":
		s = inserting[uint32](n)
	case "bfi.b64":
		s = inserting[uint64](n)
	default:
		b.unknown()
	}
	b.lanes(out, s, args[:4])
}

func inserting[T uint32 | uint64](length int32) semantic {
	s := loop[T](3, func(w *warp, o, p, q, r unsafe.Pointer) {
		d, a, v := vector[T](o), vector[T](p), vector[T](q)
		positions, n := vector[uint32](r), vector[uint32](w.register(length))
		for i := range d {
			d[i] = inserted(a[i], v[i], positions[i], n[i])
		}
	})
	s.sources[2] = typ{'u', 4}
	return s
}

// integral rounds to a whole number as a modifier says.
var integral = map[string]func(float64) float64{"rni": math.RoundToEven, "rzi": math.Trunc, "rmi": math.Floor, "rpi": math.Ceil}

// toInteger converts a rounded number, bounded to the type; a NaN as the manual says.
func toInteger(v float64, t typ, source typ) uint64 {
	if v != v {
		if source.size == 8 || t.size == 8 {
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

// convert compiles cvt. An operand narrower than its register is taken from its lower bits, a narrower result is
// extended to its register by its type's sign.
func (b *builder) convert(out *instr) {
	b.arity(2)
	parts, args := b.instruction.parts, b.instruction.args
	if len(parts) < 3 {
		b.unknown()
	}
	from := b.last()
	to, ok := typeOf(parts[len(parts)-2])
	width, wide := b.width(args[0], to), b.width(args[1], from)
	if s, quick := semantics[b.quick(to)]; quick && width == to.size && wide == from.size {
		b.lanes(out, s, args)
		return
	}
	way := ""
	for _, p := range parts[1 : len(parts)-2] {
		switch p {
		case "rn", "rni", "rzi", "rmi", "rpi", "rna":
			way = p
		case "ftz", "sat":
		default:
			b.unknown()
		}
	}
	var value func(v uint64) uint64
	switch round := integral[way]; {
	case b.instruction.op == "cvt.rn.f16.f32":
		to, value = typ{'u', 2}, func(v uint64) uint64 { return uint64(float16.Fromfloat32(math.Float32frombits(uint32(v))).Bits()) }
	case b.instruction.op == "cvt.f32.f16":
		to, value = typ{'u', 4}, func(v uint64) uint64 { return uint64(math.Float32bits(float16.Frombits(uint16(v)).Float32())) }
	case parts[len(parts)-2] == "tf32" && way == "rna" && from == typ{'f', 4}:
		to, value = typ{'f', 4}, tensorFloat
	case !ok || way == "rna" || from.kind == 'f' && from.size == 2 || to.kind == 'f' && to.size == 2 || b.hasModifier("sat") && from.kind != 'f':
		b.unknown()
	case from.kind == 'f':
		if round == nil && to.kind != 'f' {
			b.unknown()
		}
		value = fromFloat(from, to, round, b.hasModifier("ftz"), b.hasModifier("sat"))
	case to.kind == 'f' && way != "rn":
		b.unknown()
	default:
		value = fromInteger(from, to)
	}
	f := bitOperations[[2]int{width, wide}](func(v uint64) uint64 { return extend(value(v), to) })
	b.lanes(out, semantic{typ{'u', width}, []typ{{from.kind, wide}}, ClassConvert, f}, args)
}

// quick is the opcode of a conversion to the nearest as semantics names it; "" for others.
func (b *builder) quick(to typ) string {
	p, from := b.instruction.parts, b.last()
	if len(p) == 4 && p[1] == "rn" || len(p) == 3 && (to.kind == 'f') == (from.kind == 'f') {
		return "cvt." + to.String() + "." + from.String()
	}
	return ""
}

// bitOperations makes an operation of a function of the bits of a lane, by the bytes of the result's and operand's registers.
var bitOperations = map[[2]int]func(f func(uint64) uint64) operation{
	{2, 2}: passed[uint16, uint16], {2, 4}: passed[uint16, uint32], {2, 8}: passed[uint16, uint64],
	{4, 2}: passed[uint32, uint16], {4, 4}: passed[uint32, uint32], {4, 8}: passed[uint32, uint64],
	{8, 2}: passed[uint64, uint16], {8, 4}: passed[uint64, uint32], {8, 8}: passed[uint64, uint64],
}

func passed[D, A integer](f func(uint64) uint64) operation {
	return one(func(a A) D { return D(f(uint64(a))) }).apply
}

// tensorFloat rounds float32 to TF32, ties away from zero.
func tensorFloat(v uint64) uint64 {
	if v&0x7f800000 == 0x7f800000 {
		return v
	}
	return (v + 0x1000) & 0xffffe000
}

// fromFloat converts a floating-point number, rounded to a whole one where round is not nil.
func fromFloat(from, to typ, round func(float64) float64, flushes, saturates bool) func(v uint64) uint64 {
	return func(v uint64) uint64 {
		x := math.Float64frombits(v)
		if from.size == 4 {
			f := math.Float32frombits(uint32(v))
			if flushes {
				f = flush(f)
			}
			x = float64(f)
		}
		if round != nil {
			x = round(x)
		}
		if saturates {
			x = clamp01(x)
		}
		switch {
		case to.kind != 'f':
			return toInteger(x, to, from)
		case to.size == 8:
			return math.Float64bits(x)
		case flushes:
			return uint64(math.Float32bits(flush(float32(x))))
		}
		return uint64(math.Float32bits(float32(x)))
	}
}

// fromInteger converts an integer, to the nearest floating-point number.
func fromInteger(from, to typ) func(v uint64) uint64 {
	return func(v uint64) uint64 {
		v = extend(v, from)
		switch {
		case to.kind != 'f':
			return v
		case to.size == 8 && from.kind == 's':
			return math.Float64bits(float64(int64(v)))
		case to.size == 8:
			return math.Float64bits(float64(v))
		case from.kind == 's':
			return uint64(math.Float32bits(float32(int64(v))))
		}
		return uint64(math.Float32bits(float32(v)))
	}
}

// comparison gives the bits of the lanes for which a comparison holds.
type comparison func(p, q unsafe.Pointer) uint32

func compared[T number]() {
	negation := func(f comparison) comparison {
		return func(p, q unsafe.Pointer) uint32 { return ^f(p, q) }
	}
	greater := func(p, q unsafe.Pointer) uint32 { return less[T](q, p) }
	atLeast := func(p, q unsafe.Pointer) uint32 { return atMost[T](q, p) }
	numbers := func(p, q unsafe.Pointer) uint32 { return equal[T](p, p) & equal[T](q, q) }
	unlike := func(p, q unsafe.Pointer) uint32 { return numbers(p, q) &^ equal[T](p, q) }
	for op, f := range map[string]comparison{
		"eq": equal[T], "ne": unlike, "lt": less[T], "le": atMost[T], "gt": greater, "ge": atLeast, "num": numbers,
		"equ": negation(unlike), "neu": negation(equal[T]), "ltu": negation(atLeast), "leu": negation(greater), "gtu": negation(atMost[T]), "geu": negation(less[T]), "nan": negation(numbers),
	} {
		comparisons[op+"."+typeFor[T]().String()] = f
	}
}

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// What follows gives a bit of each lane. The bits come in from above: a shift by one each time is cheaper than one by
// the lane.

func equal[T number](p, q unsafe.Pointer) (m uint32) {
	a, b := vector[T](p), vector[T](q)
	for i := range a {
		m = m>>1 | bit(a[i] == b[i])<<31
	}
	return m
}

func less[T number](p, q unsafe.Pointer) (m uint32) {
	a, b := vector[T](p), vector[T](q)
	for i := range a {
		m = m>>1 | bit(a[i] < b[i])<<31
	}
	return m
}

func atMost[T number](p, q unsafe.Pointer) (m uint32) {
	a, b := vector[T](p), vector[T](q)
	for i := range a {
		m = m>>1 | bit(a[i] <= b[i])<<31
	}
	return m
}

// joins are what setp does with its result and another predicate.
var joins = map[string]func(m, c uint32) uint32{
	"and": func(m, c uint32) uint32 { return m & c },
	"or":  func(m, c uint32) uint32 { return m | c },
	"xor": func(m, c uint32) uint32 { return m ^ c },
}

// compare compiles setp.
func (b *builder) compare(out *instr) {
	args, parts := b.instruction.args, b.instruction.parts
	t := b.last()
	if len(args) < 3 || len(args) > 4 || len(parts) < 3 {
		b.unknown()
	}
	op, join := parts[1], func(m, _ uint32) uint32 { return m }
	if t.kind == 'b' {
		t.kind = 'u'
	}
	if name := map[string]string{"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}[op]; name != "" {
		op, t.kind = name, 'u'
	}
	f := comparisons[op+"."+t.String()]
	b.allow(parts[1], "and", "or", "xor", "ftz")
	if f == nil {
		b.unknown()
	}
	if b.hasModifier("ftz") && t == (typ{'f', 4}) {
		f = func(p, q unsafe.Pointer) uint32 {
			a, b := flushes(p), flushes(q)
			return comparisons[op+".f32"](unsafe.Pointer(&a), unsafe.Pointer(&b))
		}
	}
	other := func(*warp) uint32 { return 0 }
	if len(args) == 4 {
		if join = joins[parts[2]]; join == nil {
			b.unknown()
		}
		other = b.predicate(args[3])
	}
	x, y := b.operand(args[1], t), b.operand(args[2], t)
	out.kind, out.class, out.dst = doPredicate, ClassCompare, b.register(args[0], 0)
	out.holds = func(w *warp) uint32 { return f(w.register(x), w.register(y)) }
	if pair := args[0].pair; pair >= 0 { // the second is the join with the opposite
		d, e := out.dst, b.slot[pair]
		out.kind = doMasked
		out.effect = func(w *warp, mask uint32) {
			m, c := f(w.register(x), w.register(y)), other(w)
			w.predicates[d] = w.predicates[d]&^mask | join(m, c)&mask
			w.predicates[e] = w.predicates[e]&^mask | join(^m, c)&mask
		}
	} else if len(args) == 4 {
		out.holds = func(w *warp) uint32 { return join(f(w.register(x), w.register(y)), other(w)) }
	}
}

// selected compiles selp.
func (b *builder) selected(out *instr) {
	b.arity(4)
	b.allow()
	t, p := b.last(), b.predicate(b.instruction.args[3])
	choose := map[int]func(p func(w *warp) uint32) operation{2: selection[uint16], 4: selection[uint32], 8: selection[uint64]}[t.size]
	if choose == nil {
		b.unknown()
	}
	b.lanes(out, semantic{t, []typ{t, t}, ClassMove, choose(p)}, b.instruction.args)
}

func selection[T uint16 | uint32 | uint64](predicate func(w *warp) uint32) operation {
	return func(w *warp, o, p, q, _ unsafe.Pointer) {
		m, d := predicate(w), vector[T](o)
		a, b := vector[T](p), vector[T](q)
		for i := range d {
			s := -T(m >> i & 1)
			d[i] = a[i]&s | b[i]&^s
		}
	}
}

// logic compiles operations on predicates.
func (b *builder) logic(out *instr) {
	b.allow()
	join := joins[b.instruction.parts[0]]
	switch {
	case b.instruction.parts[0] == "not":
		b.arity(2)
		x := b.predicate(b.instruction.args[1])
		out.holds = func(w *warp) uint32 { return ^x(w) }
	case join != nil:
		b.arity(3)
		x, y := b.predicate(b.instruction.args[1]), b.predicate(b.instruction.args[2])
		out.holds = func(w *warp) uint32 { return join(x(w), y(w)) }
	default:
		b.unknown()
	}
	out.kind, out.class, out.dst = doPredicate, ClassCompare, b.register(b.instruction.args[0], 0)
}
