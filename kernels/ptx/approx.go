package ptx

import (
	"math"
	"unsafe"
)

// Approximate instructions give the exact value, rounded, with an error drawn by
// Options.Errors inside the bound that NVIDIA's PTX ISA document states (version 8.2; where
// an earlier one states more room, that). Without a seed they give the exact value rounded.
//
//	ex2.approx.f32       2 ulp            (2^-22 relative)
//	lg2.approx.f32       2^-22 absolute on [0.5, 2], relative elsewhere
//	rcp.approx.f32       1 ulp
//	sqrt.approx.f32      2^-23 relative
//	rsqrt.approx.f32     2^-22.9 relative
//	sin, cos.approx.f32  2^-20.9 absolute on [−π, π], and no bound beyond: there as within
//	tanh.approx.f32      2^-11 relative
//	div.approx, .full    2 ulp; approx beyond |b| = 2^126 gives zeros
//	rcp, rsqrt.approx.ftz.f64  of the upper 32 bits, which the result keeps: 2^-20 relative
const (
	boundEx2   = 0x1p-22
	boundLg2   = 0x1p-22
	boundRcp   = 0x1p-23
	boundSqrt  = 0x1p-23
	boundRsqrt = 0x1p-23 * 1.0717 // 2^-22.9
	boundSin   = 0x1p-21 * 1.0717 // 2^-20.9
	boundTanh  = 0x1p-11
	boundDiv   = 0x1p-22
	boundGross = 0x1p-20
)

// draw is a number in [−1, 1] that the seed, the instruction's operand and nothing else
// decide: the same instruction gives the same value for the same operand, as on a device.
func (w *warp) draw(operand uint64) float64 {
	seed := w.run.machine.options.Errors
	if seed == 0 {
		return 0
	}
	return float64(int64(mix(operand+mix(seed)))) / (1 << 63)
}

// approximate adds a drawn error to an exact value and rounds; what is rounded stays inside the
// bound, unless the bound is less than the rounding itself.
func (w *warp) approximate(exact, bound float64, operand uint64) float32 {
	if bound == 0 || exact == 0 || math.IsInf(exact, 0) || exact != exact {
		return float32(exact)
	}
	nearest := float32(exact)
	v := float32(exact + w.draw(operand)*bound)
	if math.Abs(float64(v)-exact) > bound {
		return nearest
	}
	return v
}

// approximate puts the rows of approximate instructions into the table.
func approximate() {
	relative := func(bound float64) func(x, v float64) float64 {
		return func(_, v float64) float64 { return bound * math.Abs(v) }
	}
	absolute := func(bound float64) func(x, v float64) float64 { return func(_, _ float64) float64 { return bound } }
	for op, row := range map[string]struct {
		exact func(x float64) float64
		bound func(x, v float64) float64 // for operand x and exact value v
	}{
		"ex2": {math.Exp2, relative(boundEx2)},
		"lg2": {math.Log2, func(x, v float64) float64 {
			if x < 0.5 || x > 2 {
				return boundLg2 * math.Abs(v)
			}
			return boundLg2
		}},
		"rcp":   {func(x float64) float64 { return 1 / x }, relative(boundRcp)},
		"sqrt":  {math.Sqrt, relative(boundSqrt)},
		"rsqrt": {func(x float64) float64 { return 1 / math.Sqrt(x) }, relative(boundRsqrt)},
		"sin":   {math.Sin, absolute(boundSin)},
		"cos":   {math.Cos, absolute(boundSin)},
		"tanh":  {math.Tanh, relative(boundTanh)},
	} {
		semantics[op+".approx.f32"] = loop[float32](1, func(w *warp, o, p, _, _ unsafe.Pointer) {
			d, a := vector[float32](o), vector[float32](p)
			for i, x := range a {
				v := row.exact(float64(x))
				d[i] = w.approximate(v, row.bound(float64(x), v), uint64(math.Float32bits(x)))
			}
		}).withClass(ClassSpecial)
	}
	for op, zeros := range map[string]bool{"div.approx.f32": true, "div.full.f32": false} {
		semantics[op] = loop[float32](2, func(w *warp, o, p, q, _ unsafe.Pointer) {
			d, a, b := vector[float32](o), vector[float32](p), vector[float32](q)
			for i := range d {
				v := float64(a[i]) / float64(b[i])
				operands := uint64(math.Float32bits(a[i]))<<32 | uint64(math.Float32bits(b[i]))
				switch c := math.Abs(float64(b[i])); {
				case !zeros || c <= 0x1p126 || c != c || math.IsInf(c, 0):
					d[i] = w.approximate(v, math.Abs(v)*boundDiv, operands)
				case math.IsInf(float64(a[i]), 0):
					d[i] = float32(math.NaN())
				default:
					d[i] = float32(math.Copysign(0, v))
				}
			}
		}).withClass(ClassSpecial)
	}
	for op, exact := range map[string]func(x float64) float64{
		"rcp": func(x float64) float64 { return 1 / x },
		"rsqrt": func(x float64) float64 {
			if x == 0 {
				return math.Copysign(math.Inf(1), x)
			}
			return 1 / math.Sqrt(x)
		},
	} {
		semantics[op+".approx.ftz.f64"] = loop[uint64](1, func(w *warp, o, p, _, _ unsafe.Pointer) {
			d, a := vector[uint64](o), vector[uint64](p)
			for i := range d {
				d[i] = upper(a[i])
				r := exact(math.Float64frombits(d[i]))
				if r-r == 0 {
					r += w.draw(d[i]) * math.Abs(r) * (boundGross / 2) // and half for what is cut
				}
				if d[i] = upper(math.Float64bits(r)); r != r {
					d[i] = 0x7ff8000000000000
				}
			}
		}).withClass(ClassSpecial)
	}
}

// upper keeps the upper half of a float64, and of a subnormal number its sign alone.
func upper(u uint64) uint64 {
	u &^= 0xffffffff
	if u&0x7ff0000000000000 == 0 {
		u &= 1 << 63
	}
	return u
}
