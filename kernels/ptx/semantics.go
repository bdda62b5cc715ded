package ptx

import (
	"maps"
	"math"
	"math/bits"
	"reflect"
	"unsafe"
)

// operation computes the 32 lanes of a result o from those of up to three operands. o may be one of the operands.
// Lanes outside w.mask are computed too, and dropped by the caller.
type operation func(w *warp, o, p, q, r unsafe.Pointer)

// semantic is one row of the table of instructions that compute a register from registers.
type semantic struct {
	result  typ
	sources []typ
	class   Class
	apply   operation
}

var (
	// semantics has a row for each opcode. Its key leaves out what changes operands and results alike for every
	// opcode (.ftz, .sat) or is the only rounding (.rn); .b stands under .u (see resolved.key).
	semantics = rows{}
	// comparisons stand under their modifier and type. Those of floating-point numbers whose names end with u, and
	// nan, hold where one is a NaN.
	comparisons = map[string]comparison{}
	// loaders move into registers by the type in memory and the register's bytes, and extend by the type's sign.
	loaders = map[typ]map[int]mover{}
)

type rows map[string]semantic

// vector gives the lanes of a register.
func vector[T any](p unsafe.Pointer) *[32]T { return (*[32]T)(p) }

// typeFor is the PTX type of a Go type.
func typeFor[T any]() typ {
	t := reflect.TypeFor[T]()
	kind := byte('s')
	if t.Kind() >= reflect.Float32 {
		kind = 'f'
	} else if t.Kind() >= reflect.Uint {
		kind = 'u'
	}
	return typ{kind, int(t.Size())}
}

// loop is an operation on n operands of one type, written as a loop over the lanes: for what programs do most.
func loop[T any](n int, f operation) semantic {
	t := typeFor[T]()
	class := ClassInteger
	if t.kind == 'f' {
		class = map[int]Class{4: ClassFloat32, 8: ClassFloat64}[t.size]
	}
	return semantic{t, []typ{t, t, t}[:n], class, f}
}

// one, two and three make operations of functions of a lane.
func one[D, A any](f func(A) D) semantic {
	s := loop[D](1, func(_ *warp, o, p, _, _ unsafe.Pointer) {
		d, a := vector[D](o), vector[A](p)
		for i := range d {
			d[i] = f(a[i])
		}
	})
	s.sources = []typ{typeFor[A]()}
	return s
}

func two[D, A, B any](f func(A, B) D) semantic {
	s := loop[D](2, func(_ *warp, o, p, q, _ unsafe.Pointer) {
		d, a, b := vector[D](o), vector[A](p), vector[B](q)
		for i := range d {
			d[i] = f(a[i], b[i])
		}
	})
	s.sources = []typ{typeFor[A](), typeFor[B]()}
	return s
}

func three[T any](f func(a, b, c T) T) semantic {
	return loop[T](3, func(_ *warp, o, p, q, r unsafe.Pointer) {
		d, a := vector[T](o), vector[T](p)
		b, c := vector[T](q), vector[T](r)
		for i := range d {
			d[i] = f(a[i], b[i], c[i])
		}
	})
}

// withClass gives a row another class.
func (s semantic) withClass(c Class) semantic {
	s.class = c
	return s
}

// takes leaves out the last operands; they are zero.
func (s semantic) takes(n int) semantic {
	s.sources = s.sources[:n]
	return s
}

type integer interface {
	int16 | uint16 | int32 | uint32 | int64 | uint64
}

type number interface{ integer | float32 | float64 }

func plus[T number](_ *warp, o, p, q, _ unsafe.Pointer) {
	d, a, b := vector[T](o), vector[T](p), vector[T](q)
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

func minus[T number](_ *warp, o, p, q, _ unsafe.Pointer) {
	d, a, b := vector[T](o), vector[T](p), vector[T](q)
	for i := range d {
		d[i] = a[i] - b[i]
	}
}

func times[T number](_ *warp, o, p, q, _ unsafe.Pointer) {
	d, a, b := vector[T](o), vector[T](p), vector[T](q)
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

// timesPlus multiplies numbers of type N and adds one of type W.
func timesPlus[W, N integer](_ *warp, o, p, q, r unsafe.Pointer) {
	d, a := vector[W](o), vector[N](p)
	b, c := vector[N](q), vector[W](r)
	for i := range d {
		d[i] = W(a[i])*W(b[i]) + c[i]
	}
}

func and[T integer](_ *warp, o, p, q, _ unsafe.Pointer) {
	d, a, b := vector[T](o), vector[T](p), vector[T](q)
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

func or[T integer](_ *warp, o, p, q, _ unsafe.Pointer) {
	d, a, b := vector[T](o), vector[T](p), vector[T](q)
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

func shiftLeft[T integer](_ *warp, o, p, q, _ unsafe.Pointer) {
	d, a, n := vector[T](o), vector[T](p), vector[uint32](q)
	for i := range d {
		d[i] = a[i] << n[i]
	}
}

func shiftRight[T integer](_ *warp, o, p, q, _ unsafe.Pointer) {
	d, a, n := vector[T](o), vector[T](p), vector[uint32](q)
	for i := range d {
		d[i] = a[i] >> n[i]
	}
}

// converted is a conversion as Go has it: between integers by their lower bits and their sign, to and between
// floating-point numbers to the nearest.
func converted[D, A number](_ *warp, o, p, _, _ unsafe.Pointer) {
	d, a := vector[D](o), vector[A](p)
	for i := range d {
		d[i] = D(a[i])
	}
}

func fma32(_ *warp, o, p, q, r unsafe.Pointer) {
	d, a := vector[float32](o), vector[float32](p)
	b, c := vector[float32](q), vector[float32](r)
	for i := range d {
		m, c := float64(a[i])*float64(b[i]), float64(c[i]) // the product is exact
		s := m + c
		if u := math.Float64bits(s); u&0x1fffffff != 0x10000000 && (u<<1 >= 897<<53 || u<<1 == 0) {
			d[i] = float32(s)
			continue
		}
		d[i] = fmaSlow(m, c, s)
	}
}

func fma64(_ *warp, o, p, q, r unsafe.Pointer) {
	d, a := vector[float64](o), vector[float64](p)
	b, c := vector[float64](q), vector[float64](r)
	for i := range d {
		d[i] = math.FMA(a[i], b[i], c[i])
	}
}

// add puts rows into the table under the name of their type.
func add(t typ, list rows) {
	for op, s := range list {
		semantics[op+"."+t.String()] = s
	}
}

// The tables are filled type by type.
func init() {
	maps.Copy(semantics, rows{
		"popc.u32": one(func(a uint32) uint32 { return uint32(bits.OnesCount32(a)) }),
		"popc.u64": one(func(a uint64) uint32 { return uint32(bits.OnesCount64(a)) }),
		"clz.u32":  one(func(a uint32) uint32 { return uint32(bits.LeadingZeros32(a)) }),
		"clz.u64":  one(func(a uint64) uint32 { return uint32(bits.LeadingZeros64(a)) }),
		"brev.u32": one(bits.Reverse32),
		"brev.u64": one(bits.Reverse64),
		"prmt.u32": three(permuted),

		"mul.wide.u16": wide[uint32, uint16](2), "mad.wide.u16": wide[uint32, uint16](3),
		"mul.wide.s16": wide[int32, int16](2), "mad.wide.s16": wide[int32, int16](3),
		"mul.wide.u32": wide[uint64, uint32](2), "mad.wide.u32": wide[uint64, uint32](3),
		"mul.wide.s32": wide[int64, int32](2), "mad.wide.s32": wide[int64, int32](3),

		"fma.f32":    loop[float32](3, fma32),
		"fma.f64":    loop[float64](3, fma64),
		"fma.rz.f32": three(func(a, b, c float32) float32 { return fmaToward(a, b, c, 0) }),
		"fma.rm.f32": three(func(a, b, c float32) float32 { return fmaToward(a, b, c, -1) }),
		"fma.rp.f32": three(func(a, b, c float32) float32 { return fmaToward(a, b, c, 1) }),

		// The conversions that programs do most; builder.convert has the others.
		"cvt.s64.s32": convertible[int64, int32](), "cvt.u64.u32": convertible[uint64, uint32](), "cvt.u32.u64": convertible[uint32, uint64](),
		"cvt.f64.f32": convertible[float64, float32](), "cvt.f32.f64": convertible[float32, float64](),
		"cvt.f32.s32": convertible[float32, int32](), "cvt.f64.s32": convertible[float64, int32](),
	})
	integers[uint16]()
	integers[int16]()
	integers[uint32]()
	integers[int32]()
	integers[uint64]()
	integers[int64]()
	halves[uint32]()
	halves[int32]()
	floating[float32]()
	floating[float64]()
	loading[uint8]()
	loading[int8]()
	approximate()
}

func wide[W, N integer](n int) semantic {
	s := loop[W](3, timesPlus[W, N])
	s.sources = []typ{typeFor[N](), typeFor[N](), typeFor[W]()}[:n]
	return s
}

func convertible[D, A number]() semantic {
	return semantic{typeFor[D](), []typ{typeFor[A]()}, ClassConvert, converted[D, A]}
}

// integers are the operations on integers whose operands have the result's type. Go's shifts by the width and more
// give what the document says, and so does its division of the least number by −1.
func integers[T integer]() {
	compared[T]()
	loading[T]()
	t := typeFor[T]()
	add(t, rows{
		"mov": loop[T](1, converted[T, T]).withClass(ClassMove),
		"add": loop[T](2, plus[T]), "sub": loop[T](2, minus[T]),
		"mul.lo": loop[T](2, timesPlus[T, T]), "mad.lo": loop[T](3, timesPlus[T, T]),
		"and": loop[T](2, and[T]), "or": loop[T](2, or[T]),
		"xor": two(func(a, b T) T { return a ^ b }),
		"not": one(func(a T) T { return ^a }),
		"neg": one(func(a T) T { return -a }),
		"abs": one(func(a T) T { return max(a, -a) }),
		"min": two(func(a, b T) T { return min(a, b) }),
		"max": two(func(a, b T) T { return max(a, b) }),
		"shl": {t, []typ{t, {'u', 4}}, ClassInteger, shiftLeft[T]},
		"shr": {t, []typ{t, {'u', 4}}, ClassInteger, shiftRight[T]},
		"div": divided(func(a, b T) T { return a / b }),
		"rem": divided(func(a, b T) T { return a % b }),
		"bfind": one(func(a T) uint32 {
			return uint32(bits.Len64(magnitude(a))) - 1 // all ones where there is none
		}),
		"bfind.shiftamt": one(func(a T) uint32 {
			if n := bits.Len64(magnitude(a)); n > 0 {
				return uint32(8*t.size - n)
			}
			return ^uint32(0)
		}),
	})
}

// magnitude is a number's bits, those of a negative one inverted.
func magnitude[T integer](a T) uint64 {
	if a < 0 {
		a = ^a
	}
	return uint64(a)
}

// divided reports a divisor of zero: the result is not defined.
func divided[T integer](f func(a, b T) T) semantic {
	return loop[T](2, func(w *warp, o, p, q, _ unsafe.Pointer) {
		d, a, b := vector[T](o), vector[T](p), vector[T](q)
		for i := range d {
			if b[i] != 0 {
				d[i] = f(a[i], b[i])
				continue
			}
			if w.mask>>i&1 != 0 {
				w.find(FindDivision, 1<<i, "a division by zero")
			}
			d[i] = T(0) - 1
		}
	}).withClass(ClassSpecial)
}

// halves are operations on the upper and lower 32 bits of larger numbers.
func halves[T int32 | uint32]() {
	t := typeFor[T]()
	high := func(a, b uint32) uint32 { return uint32(uint64(int64(T(a))*int64(T(b))) >> 32) }
	product := three(func(a, b, c T) T { return T(high(uint32(a), uint32(b))) + c })
	add(t, rows{"mul.hi": product.takes(2), "mad.hi": product})
	for op, row := range map[string]struct {
		n int
		f func(a, b, c, carry uint32) (sum, out uint32)
	}{
		"add":     {2, func(a, b, _, _ uint32) (uint32, uint32) { return bits.Add32(a, b, 0) }},
		"addc":    {2, func(a, b, _, carry uint32) (uint32, uint32) { return bits.Add32(a, b, carry) }},
		"sub":     {2, func(a, b, _, _ uint32) (uint32, uint32) { return bits.Sub32(a, b, 0) }},
		"subc":    {2, func(a, b, _, carry uint32) (uint32, uint32) { return bits.Sub32(a, b, carry) }},
		"mad.lo":  {3, func(a, b, c, _ uint32) (uint32, uint32) { return bits.Add32(a*b, c, 0) }},
		"madc.lo": {3, func(a, b, c, carry uint32) (uint32, uint32) { return bits.Add32(a*b, c, carry) }},
		"mad.hi":  {3, func(a, b, c, _ uint32) (uint32, uint32) { return bits.Add32(high(a, b), c, 0) }},
		"madc.hi": {3, func(a, b, c, carry uint32) (uint32, uint32) { return bits.Add32(high(a, b), c, carry) }},
	} {
		carrying := func(sets bool) semantic {
			return loop[T](row.n, func(w *warp, o, p, q, r unsafe.Pointer) {
				d, a := vector[uint32](o), vector[uint32](p)
				b, c := vector[uint32](q), vector[uint32](r)
				for i := range d {
					sum, out := row.f(a[i], b[i], c[i], w.carry>>i&1)
					d[i] = sum
					if sets && w.mask>>i&1 != 0 {
						w.carry = w.carry&^(1<<i) | out<<i
					}
				}
			})
		}
		add(t, rows{op + ".cc": carrying(true)})
		if semantics[op+"."+t.String()].apply == nil {
			add(t, rows{op: carrying(false)})
		}
	}
}

// floating are the operations on floating-point numbers, rounded to the nearest.
func floating[T float32 | float64]() {
	compared[T]()
	add(typeFor[T](), rows{
		"mov": loop[T](1, converted[T, T]).withClass(ClassMove),
		"add": loop[T](2, plus[T]), "sub": loop[T](2, minus[T]), "mul": loop[T](2, times[T]),
		"neg":  one(func(a T) T { return -a }),
		"abs":  one(func(a T) T { return T(math.Abs(float64(a))) }),
		"min":  two(least[T]),
		"max":  two(most[T]),
		"div":  two(func(a, b T) T { return a / b }).withClass(ClassSpecial),
		"rcp":  one(func(a T) T { return 1 / a }).withClass(ClassSpecial),
		"sqrt": one(func(a T) T { return T(math.Sqrt(float64(a))) }).withClass(ClassSpecial),
	})
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

// inserted is bfi: the lowest n bits of a in v from a position on.
func inserted[T uint32 | uint64](a, v T, position, n uint32) T {
	mask := (T(1)<<(n&255) - 1) << (position & 255)
	return v&^mask | a<<(position&255)&mask
}

// fmaSlow rounds p + c, of which s is the sum in float64, where rounding s to float32 might be a second rounding that
// matters: at what looks like a tie, and below the normal range. The sum is rounded to odd, which a rounding to fewer
// digits cannot tell from the exact one.
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

// flushes gives lanes with subnormal numbers as zeros of their sign.
func flushes(p unsafe.Pointer) (v [32]float32) {
	for i, x := range vector[float32](p) {
		v[i] = flush(x)
	}
	return v
}

// flushed takes subnormal float32 for zeros of their sign, in operands and in the result.
func flushed(f operation) operation {
	return func(w *warp, o, p, q, r unsafe.Pointer) {
		a, b, c := flushes(p), flushes(q), flushes(r)
		f(w, o, unsafe.Pointer(&a), unsafe.Pointer(&b), unsafe.Pointer(&c))
		*vector[float32](o) = flushes(o)
	}
}

// saturated bounds a result to 0 to 1.
func saturated(f operation) operation {
	return func(w *warp, o, p, q, r unsafe.Pointer) {
		f(w, o, p, q, r)
		for i, v := range vector[float32](o) {
			vector[float32](o)[i] = float32(clamp01(float64(v)))
		}
	}
}

func clamp01(v float64) float64 {
	if v > 0 { // a NaN becomes 0
		return min(v, 1)
	}
	return 0
}
