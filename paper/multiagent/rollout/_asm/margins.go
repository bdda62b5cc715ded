package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// scored is what the score of margins accumulates over one step and over all.
type scored struct {
	penalty, k         reg.GPVirtual
	sum, step          reg.VecVirtual // score of all steps, smallest margin of this one
	gx, gy             reg.VecVirtual
	cost, low, until   Mem
	alive, safe        Mem                    // 1 while all steps were safe, and how many were
	constants, weights map[int]reg.VecVirtual // those held in registers, by offset
}

// margin: the score of one margin from the vector (dx, dy) between the centres,
// in every lane. With grad it leaves in dx, dy the slope in the first position,
// negated, and use adds it up. Where all lanes are out of reach, which is most
// pairs of a scene, only the constant score of the reach is added.
func (v vectors) margin(s *scored, exp, grad bool, dx, dy reg.VecVirtual, radii func() reg.VecVirtual, use func()) {
	square := v.reg()
	VMOVAPS(dx, square)
	VFMADD213PS(s.constant(tiny), dx, square)
	VFMADD231PS(dy, dy, square)
	r := radii()
	t := v.reg()
	VADDPS(s.constant(reachConstant), r, t)
	VMULPS(t, t, t)
	if v.wide {
		k := K()
		VCMPPS(U8(less), t, square, k)
		KORTESTW(k, k)
	} else {
		VCMPPS(U8(less), t, square, t)
		some := GP32()
		VMOVMSKPS(t, some)
		TESTL(some, some)
	}
	JE(LabelRef("far"))
	// 1/d from 12 or 14 bits by one step of Newton, r(3 − d²r²)/2: a square root
	// and a division would take several times as long.
	inverse := v.reg()
	if v.wide {
		VRSQRT14PS(square, inverse)
	} else {
		VRSQRTPS(square, inverse)
	}
	VMULPS(inverse, square, t)
	VFNMADD213PS(s.constant(three), inverse, t)
	VMULPS(s.constant(half), inverse, inverse)
	VMULPS(t, inverse, inverse)
	h := square
	VMULPS(inverse, square, h)
	VSUBPS(r, h, h)
	if grad && exp {
		VMOVAPS(h, r)
	}
	VMINPS(s.constant(reachConstant), h, h)
	VMINPS(h, s.step, s.step)
	// Square·m·(2t − m) with t = max(0, Buffer − h), m = min(t, Knee)
	VMOVUPS(s.weight(penaltyBuffer), t)
	VSUBPS(h, t, t)
	slope := v.zero()
	VMAXPS(slope, t, t)
	VMINPS(s.weight(penaltyKnee), t, slope)
	VADDPS(t, t, t)
	VSUBPS(slope, t, t)
	VMULPS(s.weight(penaltySquare), slope, slope)
	VFMADD231PS(slope, t, s.sum)
	if grad {
		VADDPS(slope, slope, slope)
	}
	if exp {
		// Exp·exp(−clip(h)), 2^n·2^f with n whole and |f| ≤ 1/2.
		VMAXPS(s.constant(minusThree), h, h)
		f, n := t, v.reg()
		VMULPS(s.constant(minusLog2E), h, f)
		if v.wide {
			VRNDSCALEPS(U8(0), f, n)
		} else {
			VROUNDPS(U8(0), f, n)
		}
		VSUBPS(n, f, f)
		p := v.reg()
		VMOVUPS(s.constant(exp6), p)
		for _, c := range []int{exp5, exp4, exp3, exp2, exp1, one} {
			VFMADD213PS(s.constant(c), f, p)
		}
		if v.wide {
			VSCALEFPS(n, p, p)
		} else {
			VCVTPS2DQ(n, n)
			VPSLLD(U8(23), n, n)
			VPADDD(n, p, p)
		}
		VMULPS(s.weight(penaltyExp), p, p)
		VADDPS(p, s.sum, s.sum)
		if grad {
			v.where(equal, h, r, p)
			VADDPS(p, slope, slope)
		}
	}
	if grad {
		VMULPS(inverse, slope, slope)
		VMULPS(slope, dx, dx)
		VMULPS(slope, dy, dy)
		use()
	}
	if exp {
		JMP(LabelRef("joined"))
	}
	Label("far")
	if exp {
		t := v.reg()
		VMOVUPS(s.weight(penaltyExp), t)
		VFMADD231PS(s.constant(expReach), t, s.sum)
		Label("joined")
	}
}

// constant is row offset of the constants, penalty that of the penalty: in a
// register where there are 32 of them, else in memory.
func (s *scored) constant(offset int) Op { return s.held(s.constants, s.k, offset) }

func (s *scored) weight(offset int) Op { return s.held(s.weights, s.penalty, offset) }

func (s *scored) held(registers map[int]reg.VecVirtual, base reg.GPVirtual, offset int) Op {
	if r, ok := registers[offset]; ok {
		return r
	}
	return at(base, offset)
}

func suffix(exp, grad bool) string {
	s := ""
	if exp {
		s += "Exp"
	}
	if grad {
		s += "Grad"
	}
	return s
}

// close ends a step: low, and the count of safe leading steps, which are kept in
// memory because eight lanes have few registers.
func (v vectors) close(s *scored) {
	v.merge(s.step, s.low)
	alive, safe := v.load(s.alive), v.reg()
	v.where(greaterEqual, s.step, v.load(at(s.penalty, penaltyHard)), alive)
	VMOVUPS(alive, s.alive)
	VADDPS(s.safe, alive, safe)
	VMOVUPS(safe, s.safe)
}

// merge lowers a row of memory to x.
func (v vectors) merge(x reg.VecVirtual, m Mem) {
	t := v.reg()
	VMINPS(m, x, t)
	VMOVUPS(t, m)
}

// open loads the accumulators.
func (v vectors) open(exp bool) *scored {
	s := &scored{penalty: pointer("p"), k: pointer("constants")}
	s.cost, s.low, s.until = at(pointer("cost"), 0), at(pointer("low"), 0), at(pointer("until"), 0)
	s.alive, s.safe = AllocLocal(row), AllocLocal(row)
	s.sum = v.load(s.cost)
	VMOVUPS(v.load(at(s.k, one)), s.alive)
	VMOVUPS(v.zero(), s.safe)
	s.step = v.reg()
	if v.wide {
		s.constants, s.weights = map[int]reg.VecVirtual{}, map[int]reg.VecVirtual{}
		hold := []int{tiny, three, half, reachConstant}
		weights := []int{penaltyBuffer, penaltySquare, penaltyKnee}
		if exp {
			hold = append(hold, minusThree, minusLog2E, one, expReach, exp1, exp2, exp3, exp4, exp5, exp6)
			weights = append(weights, penaltyExp)
		}
		for _, c := range hold {
			s.constants[c] = v.load(at(s.k, c))
		}
		for _, c := range weights {
			s.weights[c] = v.load(at(s.penalty, c))
		}
	}
	return s
}

// finish writes the accumulators.
func (v vectors) finish(s *scored) {
	VMOVUPS(s.sum, s.cost)
	v.merge(v.load(s.safe), s.until)
	end()
}

// twin is the name of what a variant computes.
func twin(name string, exp, grad bool) string {
	if !exp {
		name += " without Exp"
	}
	if !grad {
		name += " without derivatives"
	}
	return name
}

// discs: every path against the same discs, which differ from step to step.
func (v vectors) discs(exp, grad bool) {
	v.begin("discs"+suffix(exp, grad), "func(path, discs *float32, count, steps int, p *float32, cost, low, until, grad, constants *float32)",
		twin("discsTwin", exp, grad))
	path, discs, count, steps := pointer("path"), pointer("discs"), pointer("count"), pointer("steps")
	s := v.open(exp)
	var g reg.GPVirtual
	if grad {
		g = pointer("grad")
	}
	TESTQ(steps, steps)
	JE(LabelRef("done"))
	Label("step")
	VMOVUPS(at(s.k, reachConstant), s.step)
	if grad {
		s.gx, s.gy = v.load(at(g, 0)), v.load(at(g, row))
	}
	j := GP64()
	MOVQ(count, j)
	TESTQ(j, j)
	JE(LabelRef("next"))
	Label("disc")
	{
		dx, dy, centre := v.load(at(path, pathX)), v.load(at(path, pathY)), v.reg()
		VBROADCASTSS(at(discs, 0), centre)
		VSUBPS(centre, dx, dx)
		VBROADCASTSS(at(discs, 4), centre)
		VSUBPS(centre, dy, dy)
		v.margin(s, exp, grad, dx, dy, func() reg.VecVirtual { return v.broadcast(at(discs, 8)) }, func() {
			VSUBPS(dx, s.gx, s.gx)
			VSUBPS(dy, s.gy, s.gy)
		})
	}
	ADDQ(U8(discBytes), discs)
	DECQ(j)
	JNE(LabelRef("disc"))
	Label("next")
	v.close(s)
	if grad {
		VMOVUPS(s.gx, at(g, 0))
		VMOVUPS(s.gy, at(g, row))
		ADDQ(U32(gradBytes), g)
	}
	ADDQ(U32(pathBytes), path)
	DECQ(steps)
	JNE(LabelRef("step"))
	Label("done")
	v.finish(s)
}

// pair: the paths of two robots, lane by lane.
func (v vectors) pair(exp, grad bool) {
	v.begin("pair"+suffix(exp, grad), "func(path, other *float32, radii float32, steps int, p *float32, cost, low, until, grad, otherGrad, constants *float32)",
		twin("pairTwin", exp, grad))
	path, other, steps := pointer("path"), pointer("other"), pointer("steps")
	s := v.open(exp)
	var g, h reg.GPVirtual
	if grad {
		g, h = pointer("grad"), pointer("otherGrad")
	}
	b, err := Param("radii").Resolve()
	if err != nil {
		panic(err)
	}
	TESTQ(steps, steps)
	JE(LabelRef("done"))
	Label("step")
	VMOVUPS(at(s.k, reachConstant), s.step)
	dx, dy := v.load(at(path, pathX)), v.load(at(path, pathY))
	VSUBPS(at(other, pathX), dx, dx)
	VSUBPS(at(other, pathY), dy, dy)
	v.margin(s, exp, grad, dx, dy, func() reg.VecVirtual { return v.broadcast(b.Addr) }, func() {
		for i, d := range []reg.VecVirtual{dx, dy} {
			t := v.load(at(g, i*row))
			VSUBPS(d, t, t)
			VMOVUPS(t, at(g, i*row))
			VADDPS(at(h, i*row), d, t)
			VMOVUPS(t, at(h, i*row))
		}
	})
	if grad {
		ADDQ(U32(gradBytes), g)
		ADDQ(U32(gradBytes), h)
	}
	v.close(s)
	ADDQ(U32(pathBytes), path)
	ADDQ(U32(pathBytes), other)
	DECQ(steps)
	JNE(LabelRef("step"))
	Label("done")
	v.finish(s)
}
