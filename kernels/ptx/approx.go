package ptx

import "math"

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
	x := operand + seed*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return float64(int64(x)) / (1 << 63)
}

// within adds a drawn error to an exact value and rounds; what is rounded stays inside the
// bound, unless the bound is less than the rounding itself.
func (w *warp) within(exact, bound float64, operand uint64) float32 {
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

// approx32 compiles the approximate instructions of float32; nil where there is none.
func (b *builder) approx32(op string, x, y int) func(w *warp, d *v32) {
	var exact func(v float64) float64
	relative, absolute := 0.0, 0.0
	switch op {
	case "ex2":
		exact, relative = math.Exp2, boundEx2
	case "lg2":
		exact = math.Log2
	case "rcp":
		exact, relative = func(v float64) float64 { return 1 / v }, boundRcp
	case "sqrt":
		exact, relative = math.Sqrt, boundSqrt
	case "rsqrt":
		exact, relative = func(v float64) float64 { return 1 / math.Sqrt(v) }, boundRsqrt
	case "sin":
		exact, absolute = math.Sin, boundSin
	case "cos":
		exact, absolute = math.Cos, boundSin
	case "tanh":
		exact, relative = math.Tanh, boundTanh
	case "div":
		zeros := b.has("approx")
		return func(w *warp, d *v32) {
			p, q, o := floats(&w.r32[x]), floats(&w.r32[y]), floats(d)
			for i := range o {
				v := float64(p[i]) / float64(q[i])
				if c := math.Abs(float64(q[i])); zeros && c > 0x1p126 && !math.IsInf(c, 0) {
					o[i] = float32(math.Copysign(0, v))
					if math.IsInf(float64(p[i]), 0) {
						o[i] = float32(math.NaN())
					}
					continue
				}
				o[i] = w.within(v, math.Abs(v)*boundDiv, uint64(math.Float32bits(p[i]))<<32|uint64(math.Float32bits(q[i])))
			}
		}
	default:
		return nil
	}
	return func(w *warp, d *v32) {
		p, o := floats(&w.r32[x]), floats(d)
		for i := range o {
			v := exact(float64(p[i]))
			bound := absolute
			if relative > 0 {
				bound = relative * math.Abs(v)
			}
			if op == "lg2" {
				bound = boundLg2
				if p[i] < 0.5 || p[i] > 2 {
					bound *= math.Abs(v)
				}
			}
			o[i] = w.within(v, bound, uint64(math.Float32bits(p[i])))
		}
	}
}

// approx64 compiles rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64: of the upper half of the
// operand, with the lower half of the result zero.
func (b *builder) approx64(op string, x int) func(w *warp, d *v64) {
	return func(w *warp, d *v64) {
		p := &w.r64[x]
		for i := range d {
			u := p[i] &^ 0xffffffff
			if u&0x7ff0000000000000 == 0 {
				u &= 1 << 63 // flushed
			}
			v := math.Float64frombits(u)
			r := 1 / v
			if op == "rsqrt" {
				r = 1 / math.Sqrt(v)
				if v == 0 {
					r = math.Copysign(math.Inf(1), v)
				}
			}
			if r-r == 0 {
				r += w.draw(u) * math.Abs(r) * (boundGross / 2) // and half for what is cut
			}
			o := math.Float64bits(r) &^ 0xffffffff
			if o&0x7ff0000000000000 == 0 {
				o &= 1 << 63
			}
			if r != r {
				o = 0x7ff8000000000000
			}
			d[i] = o
		}
	}
}
