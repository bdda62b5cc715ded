package ptx

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
)

// alone runs one instruction in a warp. D stands for its result and A, B, C for its operands; widths are their
// bytes, 1 for a predicate. It returns the result of each lane.
func alone(t testing.TB, op string, widths []int, a [3][32]uint64) (out [32]uint64) {
	t.Helper()
	var s strings.Builder
	s.WriteString(".version 8.2\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out)\n{\n" +
		"\t.reg .b64 %rd<8>;\n\t.reg .b32 %r<4>;\n\t.reg .pred %q<4>;\n\tld.param.u64 %rd1, [in];\n\tld.param.u64 %rd2, [out];\n\tmov.u32 %r1, %tid.x;\n" +
		"\tmad.wide.u32 %rd1, %r1, 8, %rd1;\n\tmad.wide.u32 %rd2, %r1, 8, %rd2;\n")
	for i, name := range []string{"D", "A", "B", "C"}[:len(widths)] {
		switch w := widths[i]; {
		case w == 1 && i > 0:
			fmt.Fprintf(&s, "\t.reg .pred %%%s;\n\tld.global.u32 %%r2, [%%rd1+%d];\n\tsetp.ne.u32 %%%s, %%r2, 0;\n", name, 256*(i-1), name)
		case w == 1:
			s.WriteString("\t.reg .pred %D;\n")
		case i > 0:
			fmt.Fprintf(&s, "\t.reg .b%d %%%s;\n\tld.global.u%d %%%s, [%%rd1+%d];\n", 8*w, name, 8*w, name, 256*(i-1))
		default:
			fmt.Fprintf(&s, "\t.reg .b%d %%D;\n", 8*w)
		}
	}
	for _, name := range []string{"D", "A", "B", "C"} {
		op = strings.ReplaceAll(op, " "+name, " %"+name)
	}
	fmt.Fprintf(&s, "\t%s;\n", op)
	if widths[0] == 1 {
		s.WriteString("\tselp.u64 %rd3, 1, 0, %D;\n\tst.global.u64 [%rd2], %rd3;\n\tret;\n}\n")
	} else {
		fmt.Fprintf(&s, "\tst.global.u64 [%%rd2], 0;\n\tst.global.u%d [%%rd2], %%D;\n\tret;\n}\n", 8*widths[0])
	}
	text, err := Parse("alone.ptx", []byte(s.String()))
	if err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	k, err := text.Kernel("k")
	if err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	m := NewMachine(Options{Shared: true, Global: true})
	in := make([]uint64, 96)
	for i := range in {
		in[i] = a[i/32][i%32]
	}
	from, to := upload(t, m, in), m.Memory.Alloc(256)
	if err := m.Launch(k, Launch{Block: [3]int{32, 1, 1}}, arguments(k, from, to)); err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	copy(out[:], download[uint64](t, m, to, 32))
	return out
}

func f32(v uint64) float32   { return math.Float32frombits(uint32(v)) }
func b32(v float32) uint64   { return uint64(math.Float32bits(v)) }
func f64(v uint64) float64   { return math.Float64frombits(v) }
func b64(v float64) uint64   { return math.Float64bits(v) }
func yes(v bool) uint64      { return uint64(bit(v)) }
func s32(v uint64) int32     { return int32(v) }
func u32(v int32) uint64     { return uint64(uint32(v)) }
func s64(v uint64) int64     { return int64(v) }
func high(a, b int64) uint64 { return uint64(uint32(a * b >> 32)) }

// exactly rounds a·b + c once, by numbers of any length.
func exactly(a, b, c float32) float32 {
	if s := float64(a)*float64(b) + float64(c); math.IsInf(s, 0) || s != s || a == 0 || b == 0 || c == 0 {
		return float32(s)
	}
	x := func(v float32) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(float64(v)) }
	v, _ := x(0).Add(x(0).Mul(x(a), x(b)), x(c)).Float32()
	return v
}

// Each instruction gives what the document says, for drawn operands and those at the ends of their range. What is
// expected is computed here by other means than the interpreter's.
func TestInstructions(t *testing.T) {
	type of = func(a, b, c uint64) uint64
	flushed := func(v uint64) float32 {
		if v&0x7f800000 == 0 {
			v &= 0x80000000
		}
		return f32(v)
	}
	for _, row := range []struct {
		op     string
		widths []int
		want   of
	}{
		{"add.s32 D, A, B", []int{4, 4, 4}, func(a, b, _ uint64) uint64 { return uint64(uint32(a + b)) }},
		{"sub.u64 D, A, B", []int{8, 8, 8}, func(a, b, _ uint64) uint64 { return a - b }},
		{"add.s16 D, A, B", []int{2, 2, 2}, func(a, b, _ uint64) uint64 { return (a + b) & 0xffff }},
		{"mul.lo.s32 D, A, B", []int{4, 4, 4}, func(a, b, _ uint64) uint64 { return uint64(uint32(a) * uint32(b)) }},
		{"mul.lo.s64 D, A, B", []int{8, 8, 8}, func(a, b, _ uint64) uint64 { return a * b }},
		{"mad.lo.s32 D, A, B, C", []int{4, 4, 4, 4}, func(a, b, c uint64) uint64 { return uint64(uint32(a)*uint32(b) + uint32(c)) }},
		{"mul.hi.s32 D, A, B", []int{4, 4, 4}, func(a, b, _ uint64) uint64 { return high(int64(s32(a)), int64(s32(b))) }},
		{"mul.hi.u32 D, A, B", []int{4, 4, 4}, func(a, b, _ uint64) uint64 { hi, _ := bits.Mul32(uint32(a), uint32(b)); return uint64(hi) }},
		{"mul.wide.s32 D, A, B", []int{8, 4, 4}, func(a, b, _ uint64) uint64 { return uint64(int64(s32(a)) * int64(s32(b))) }},
		{"mad.wide.u32 D, A, B, C", []int{8, 4, 4, 8}, func(a, b, c uint64) uint64 { return uint64(uint32(a))*uint64(uint32(b)) + c }},
		{"and.b32 D, A, B", []int{4, 4, 4}, func(a, b, _ uint64) uint64 { return uint64(uint32(a & b)) }},
		{"and.b16 D, A, B", []int{2, 2, 2}, func(a, b, _ uint64) uint64 { return a & b & 0xffff }},
		{"or.b64 D, A, B", []int{8, 8, 8}, func(a, b, _ uint64) uint64 { return a | b }},
		{"xor.b32 D, A, B", []int{4, 4, 4}, func(a, b, _ uint64) uint64 { return uint64(uint32(a ^ b)) }},
		{"not.b64 D, A", []int{8, 8}, func(a, _, _ uint64) uint64 { return ^a }},
		{"not.b32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 { return uint64(^uint32(a)) }},
		{"neg.s32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 { return uint64(-uint32(a)) }},
		{"abs.s32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 { return u32(max(s32(a), -s32(a))) }},
		{"min.s32 D, A, B", []int{4, 4, 4}, func(a, b, _ uint64) uint64 { return u32(min(s32(a), s32(b))) }},
		{"max.u64 D, A, B", []int{8, 8, 8}, func(a, b, _ uint64) uint64 { return max(a, b) }},
		{"min.s64 D, A, B", []int{8, 8, 8}, func(a, b, _ uint64) uint64 { return uint64(min(s64(a), s64(b))) }},
		{"shl.b32 D, A, 5", []int{4, 4}, func(a, _, _ uint64) uint64 { return uint64(uint32(a) << 5) }},
		{"shl.b64 D, A, 63", []int{8, 8}, func(a, _, _ uint64) uint64 { return a << 63 }},
		{"shl.b64 D, A, B", []int{8, 8, 4}, func(a, b, _ uint64) uint64 { return a << uint32(b) }},
		{"shr.u32 D, A, B", []int{4, 4, 4}, func(a, b, _ uint64) uint64 { return uint64(uint32(a) >> uint32(b)) }},
		{"shr.s32 D, A, B", []int{4, 4, 4}, func(a, b, _ uint64) uint64 { return u32(s32(a) >> uint32(b)) }},
		{"shr.s64 D, A, 17", []int{8, 8}, func(a, _, _ uint64) uint64 { return uint64(s64(a) >> 17) }},
		{"div.s32 D, A, 7", []int{4, 4}, func(a, _, _ uint64) uint64 { return u32(s32(a) / 7) }},
		{"div.s32 D, A, -1", []int{4, 4}, func(a, _, _ uint64) uint64 { return u32(-s32(a)) }},
		{"rem.s64 D, A, -1", []int{8, 8}, func(a, _, _ uint64) uint64 { return 0 }},
		{"div.u16 D, A, 7", []int{2, 2}, func(a, _, _ uint64) uint64 { return a & 0xffff / 7 }},
		{"div.u64 D, A, 10", []int{8, 8}, func(a, _, _ uint64) uint64 { return a / 10 }},
		{"rem.u32 D, A, 10", []int{4, 4}, func(a, _, _ uint64) uint64 { return uint64(uint32(a) % 10) }},
		{"add.cc.u32 D, A, B; addc.u32 D, C, 0", []int{4, 4, 4, 4}, func(a, b, c uint64) uint64 {
			return uint64(uint32(c) + uint32((uint64(uint32(a))+uint64(uint32(b)))>>32))
		}},
		{"sub.cc.u32 D, A, B; subc.u32 D, C, 0", []int{4, 4, 4, 4}, func(a, b, c uint64) uint64 { return uint64(uint32(c) - bit(uint32(a) < uint32(b))) }},
		{"mad.lo.cc.u32 D, A, B, C; madc.hi.u32 D, A, B, 0", []int{4, 4, 4, 4}, func(a, b, c uint64) uint64 {
			return (uint64(uint32(a))*uint64(uint32(b)) + uint64(uint32(c))) >> 32
		}},
		{"popc.b32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 { return uint64(bits.OnesCount32(uint32(a))) }},
		{"clz.b64 D, A", []int{4, 8}, func(a, _, _ uint64) uint64 { return uint64(bits.LeadingZeros64(a)) }},
		{"clz.b32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 { return uint64(bits.LeadingZeros32(uint32(a))) }},
		{"brev.b32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 { return uint64(bits.Reverse32(uint32(a))) }},
		{"bfind.u32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 { return uint64(uint32(31 - bits.LeadingZeros32(uint32(a)))) }},
		{"bfind.s32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 {
			return uint64(uint32(31 - bits.LeadingZeros32(uint32(s32(a)^s32(a)>>31))))
		}},
		{"bfind.shiftamt.u32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 {
			if uint32(a) == 0 {
				return 1<<32 - 1
			}
			return uint64(bits.LeadingZeros32(uint32(a)))
		}},
		{"bfi.b32 D, A, B, 4, 9", []int{4, 4, 4}, func(a, b, _ uint64) uint64 { return uint64(uint32(b&^(0x1ff<<4) | a&0x1ff<<4)) }},
		{"bfi.b64 D, A, B, 40, 30", []int{8, 8, 8}, func(a, b, _ uint64) uint64 { return b&(1<<40-1) | a<<40 }},
		{"prmt.b32 D, A, B, 0x7160", []int{4, 4, 4}, func(a, b, _ uint64) uint64 {
			return a&0xff | b>>16&0xff<<8 | a>>8&0xff<<16 | b>>24&0xff<<24
		}},
		{"prmt.b32 D, A, B, 0x888b", []int{4, 4, 4}, func(a, _, _ uint64) uint64 {
			return 0xff*(a>>31&1) + 0xffffff00*(a>>7&1)
		}},
		{"mov.b64 D, { A, B}", []int{8, 4, 4}, func(a, b, _ uint64) uint64 { return uint64(uint32(a)) | b<<32 }},
		{"mov.b32 D, { A, B}", []int{4, 2, 2}, func(a, b, _ uint64) uint64 { return uint64(uint16(a)) | b&0xffff<<16 }},
		{"mov.b64 { D, _}, A", []int{4, 8}, func(a, _, _ uint64) uint64 { return uint64(uint32(a)) }},
		{"mov.b64 {_, D}, A", []int{4, 8}, func(a, _, _ uint64) uint64 { return a >> 32 }},
		{"mov.u32 D, %laneid; add.u32 D, D, A", []int{4, 4}, nil},
		{"selp.b32 D, A, B, C", []int{4, 4, 4, 1}, func(a, b, c uint64) uint64 {
			if uint32(c) != 0 {
				return uint64(uint32(a))
			}
			return uint64(uint32(b))
		}},
		{"selp.b16 D, A, 3, C", []int{2, 2, 2, 1}, func(a, _, c uint64) uint64 {
			if uint32(c) != 0 {
				return a & 0xffff
			}
			return 3
		}},
		{"selp.f64 D, A, 0d3FF0000000000000, C", []int{8, 8, 8, 1}, func(a, _, c uint64) uint64 {
			if uint32(c) != 0 {
				return a
			}
			return b64(1)
		}},
		{"setp.lt.s32 D, A, B", []int{1, 4, 4}, func(a, b, _ uint64) uint64 { return yes(s32(a) < s32(b)) }},
		{"setp.lo.s32 D, A, B", []int{1, 4, 4}, func(a, b, _ uint64) uint64 { return yes(uint32(a) < uint32(b)) }},
		{"setp.ge.u32 D, A, B", []int{1, 4, 4}, func(a, b, _ uint64) uint64 { return yes(uint32(a) >= uint32(b)) }},
		{"setp.gt.s64 D, A, B", []int{1, 8, 8}, func(a, b, _ uint64) uint64 { return yes(s64(a) > s64(b)) }},
		{"setp.ne.b64 D, A, B", []int{1, 8, 8}, func(a, b, _ uint64) uint64 { return yes(a != b) }},
		{"setp.lt.s16 D, A, B", []int{1, 2, 2}, func(a, b, _ uint64) uint64 { return yes(int16(a) < int16(b)) }},
		{"setp.eq.u16 D, A, 0", []int{1, 2}, func(a, _, _ uint64) uint64 { return yes(uint16(a) == 0) }},
		{"setp.le.f32 D, A, B", []int{1, 4, 4}, func(a, b, _ uint64) uint64 { return yes(f32(a) <= f32(b)) }},
		{"setp.leu.f32 D, A, B", []int{1, 4, 4}, func(a, b, _ uint64) uint64 { return yes(!(f32(a) > f32(b))) }},
		{"setp.ne.f64 D, A, B", []int{1, 8, 8}, func(a, b, _ uint64) uint64 { return yes(f64(a) < f64(b) || f64(a) > f64(b)) }},
		{"setp.neu.f64 D, A, B", []int{1, 8, 8}, func(a, b, _ uint64) uint64 { return yes(f64(a) != f64(b)) }},
		{"setp.nan.f64 D, A, B", []int{1, 8, 8}, func(a, b, _ uint64) uint64 { return yes(f64(a) != f64(a) || f64(b) != f64(b)) }},
		{"setp.num.f32 D, A, B", []int{1, 4, 4}, func(a, b, _ uint64) uint64 { return yes(f32(a) == f32(a) && f32(b) == f32(b)) }},
		{"setp.eq.ftz.f32 D, A, B", []int{1, 4, 4}, func(a, b, _ uint64) uint64 { return yes(flushed(a) == flushed(b)) }},
		{"setp.lt.and.s32 D, A, B, C", []int{1, 4, 4, 1}, func(a, b, c uint64) uint64 { return yes(s32(a) < s32(b) && uint32(c) != 0) }},
		{"setp.lt.xor.s32 %q1| D, A, B, C", []int{1, 4, 4, 1}, func(a, b, c uint64) uint64 { return yes((s32(a) >= s32(b)) != (uint32(c) != 0)) }},
		{"or.pred D, A, B", []int{1, 1, 1}, func(a, b, _ uint64) uint64 { return yes(uint32(a)|uint32(b) != 0) }},
		{"not.pred D, A", []int{1, 1}, func(a, _, _ uint64) uint64 { return yes(uint32(a) == 0) }},
		{"add.f32 D, A, B", []int{4, 4, 4}, func(a, b, _ uint64) uint64 { return b32(float32(float64(f32(a)) + float64(f32(b)))) }},
		{"sub.f64 D, A, B", []int{8, 8, 8}, func(a, b, _ uint64) uint64 { return b64(f64(a) - f64(b)) }},
		{"mul.ftz.f32 D, A, B", []int{4, 4, 4}, func(a, b, _ uint64) uint64 { return b32(flushed(b32(flushed(a) * flushed(b)))) }},
		{"fma.rn.f32 D, A, B, C", []int{4, 4, 4, 4}, func(a, b, c uint64) uint64 { return b32(exactly(f32(a), f32(b), f32(c))) }},
		{"fma.rn.f64 D, A, B, C", []int{8, 8, 8, 8}, func(a, b, c uint64) uint64 { return b64(math.FMA(f64(a), f64(b), f64(c))) }},
		{"add.sat.f32 D, A, B", []int{4, 4, 4}, func(a, b, _ uint64) uint64 {
			s := f32(a) + f32(b)
			if !(s > 0) {
				return 0
			}
			return b32(min(s, 1))
		}},
		{"neg.f32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 { return a&0xffffffff ^ 1<<31 }},
		{"abs.f64 D, A", []int{8, 8}, func(a, _, _ uint64) uint64 { return a &^ (1 << 63) }},
		{"min.f32 D, A, B", []int{4, 4, 4}, func(a, b, _ uint64) uint64 {
			switch x, y := f32(a), f32(b); {
			case x != x:
				return b & 0xffffffff
			case y != y:
				return a & 0xffffffff
			default:
				return b32(min(x, y))
			}
		}},
		{"div.rn.f32 D, A, B", []int{4, 4, 4}, func(a, b, _ uint64) uint64 { return b32(float32(float64(f32(a)) / float64(f32(b)))) }},
		{"sqrt.rn.f64 D, A", []int{8, 8}, func(a, _, _ uint64) uint64 { return b64(math.Sqrt(f64(a))) }},
		{"rcp.rn.f64 D, A", []int{8, 8}, func(a, _, _ uint64) uint64 { return b64(1 / f64(a)) }},
		{"rcp.rn.f32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 { return b32(float32(1 / float64(f32(a)))) }},
		{"cvt.s64.s32 D, A", []int{8, 4}, func(a, _, _ uint64) uint64 { return uint64(int64(s32(a))) }},
		{"cvt.u64.u32 D, A", []int{8, 4}, func(a, _, _ uint64) uint64 { return uint64(uint32(a)) }},
		{"cvt.u32.u64 D, A", []int{4, 8}, func(a, _, _ uint64) uint64 { return uint64(uint32(a)) }},
		{"cvt.u16.u32 D, A", []int{2, 4}, func(a, _, _ uint64) uint64 { return a & 0xffff }},
		{"cvt.s32.s8 D, A", []int{4, 2}, func(a, _, _ uint64) uint64 { return u32(int32(int8(a))) }},
		{"cvt.s32.s16 D, A", []int{4, 2}, func(a, _, _ uint64) uint64 { return u32(int32(int16(a))) }},
		{"cvt.s64.s16 D, A", []int{8, 2}, func(a, _, _ uint64) uint64 { return uint64(int64(int16(a))) }},
		{"cvt.u8.u32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 { return a & 0xff }},
		{"cvt.s8.s32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 { return u32(int32(int8(a))) }},
		{"cvt.rn.f32.s32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 { return b32(float32(s32(a))) }},
		{"cvt.rn.f32.u32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 { return b32(float32(uint32(a))) }},
		{"cvt.rn.f64.s64 D, A", []int{8, 8}, func(a, _, _ uint64) uint64 { return b64(float64(s64(a))) }},
		{"cvt.rn.f64.u16 D, A", []int{8, 2}, func(a, _, _ uint64) uint64 { return b64(float64(uint16(a))) }},
		{"cvt.rzi.s32.f32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 { return u32(integerOf(math.Trunc(float64(f32(a))))) }},
		{"cvt.rni.s32.f64 D, A", []int{4, 8}, func(a, _, _ uint64) uint64 {
			if f64(a) != f64(a) {
				return 1 << 31
			}
			return u32(integerOf(math.RoundToEven(f64(a))))
		}},
		{"cvt.f64.f32 D, A", []int{8, 4}, func(a, _, _ uint64) uint64 { return b64(float64(f32(a))) }},
		{"cvt.rn.f32.f64 D, A", []int{4, 8}, func(a, _, _ uint64) uint64 { return b32(float32(f64(a))) }},
		{"cvt.sat.f32.f32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 {
			if !(f32(a) > 0) {
				return 0
			}
			return b32(min(f32(a), 1))
		}},
		{"cvt.rmi.f32.f32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 { return b32(float32(math.Floor(float64(f32(a))))) }},
		{"cvt.rna.tf32.f32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 {
			if a>>23&0xff == 0xff {
				return a & 0xffffffff
			}
			return (a&0xffffffff + 0x1000) &^ 0x1fff & 0xffffffff
		}},
		{"sqrt.approx.f32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 { return b32(float32(math.Sqrt(float64(f32(a))))) }},
		{"ex2.approx.ftz.f32 D, A", []int{4, 4}, func(a, _, _ uint64) uint64 { return b32(flushed(b32(float32(math.Exp2(float64(flushed(a))))))) }},
		{"div.full.f32 D, A, B", []int{4, 4, 4}, func(a, b, _ uint64) uint64 { return b32(float32(float64(f32(a)) / float64(f32(b)))) }},
		{"shfl.sync.bfly.b32 D, A, 5, 31, -1", []int{4, 4}, nil},
		{"vote.sync.ballot.b32 D, A, -1", []int{4, 1}, nil},
	} {
		var in [3][32]uint64
		rng := rand.New(rand.NewPCG(1, uint64(len(row.op))))
		ends := []uint64{0, 1, 1<<64 - 1, 1<<63 | 1<<31 | 1<<15, 1<<63 - 1, 0x7fff7fff, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7ff0000000000000, 0x7ff8000000000000, 33, 5,
			b64(-1.5), b32(2.5), b32(-2.5), b64(2.5), b32(0x1p-130), b64(3e9), b32(-0x1p-149)}
		floats := strings.Contains(row.op, ".f32") || strings.Contains(row.op, ".f64")
		for range 60 {
			for i := range in {
				for lane := range in[i] {
					switch v := rng.Uint64(); {
					case v&7 == 0:
						in[i][lane] = ends[rng.IntN(len(ends))]
					case floats && v&3 == 1:
						in[i][lane] = b32(float32(rng.NormFloat64()))
					case floats && v&3 == 2:
						in[i][lane] = b64(rng.NormFloat64())
					default:
						in[i][lane] = rng.Uint64() >> rng.IntN(64)
					}
				}
			}
			got := alone(t, row.op, row.widths, in)
			var ballot uint64
			for lane := range 32 {
				ballot |= yes(uint32(in[0][lane]) != 0) << lane
			}
			for lane, v := range got {
				var want uint64
				switch {
				case row.want != nil:
					want = row.want(in[0][lane], in[1][lane], in[2][lane])
				case strings.HasPrefix(row.op, "shfl"):
					want = uint64(uint32(in[0][lane^5]))
				case strings.HasPrefix(row.op, "vote"):
					want = ballot
				default:
					want = uint64(uint32(in[0][lane]) + uint32(lane))
				}
				same := v == want
				if row.widths[0] == 4 && strings.HasSuffix(strings.Fields(row.op)[0], "f32") || strings.Contains(row.op, ".f32.") {
					same = same || f32(v) != f32(v) && f32(want) != f32(want)
				}
				if row.widths[0] == 8 {
					same = same || f64(v) != f64(v) && f64(want) != f64(want)
				}
				if !same {
					t.Fatalf("%s of %#x, %#x, %#x: %#x, want %#x", row.op, in[0][lane], in[1][lane], in[2][lane], v, want)
				}
			}
		}
	}
}

// integerOf bounds a whole number to 32 bits; a NaN gives 0.
func integerOf(v float64) int32 {
	if v != v {
		return 0
	}
	return int32(max(math.MinInt32, min(math.MaxInt32, v)))
}
