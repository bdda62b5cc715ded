// Command asm generates the AVX2 and AVX-512 kernels of package rollout. Each
// function below states the loop it emits; twin.go has the same loops in Go. An
// AVX2 kernel works on eight of a block's sixteen lanes and is called twice.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// row is the size of one number per lane, in bytes, whatever the register holds.
const row = 64

// Sizes and places fixed by twin.go.
const (
	planBytes = 2 * row
	pathBytes = 6 * row
	gradBytes = 2 * row
	discBytes = 3 * 4

	pathX, pathY, pathCos, pathSin, pathSpeed, pathFree = 0, row, 2 * row, 3 * row, 4 * row, 5 * row

	motionX, motionY, motionCos, motionSin, motionV = 0, row, 2 * row, 3 * row, 4 * row
	motionA, motionOmega                            = 5 * row, 6 * row
	motionDt, motionVLo, motionVHi                  = 7 * row, 8 * row, 9 * row
	motionGoalX, motionGoalY                        = 10 * row, 11 * row
	motionEffort, motionSmooth                      = 12 * row, 13 * row

	penaltyExp, penaltySquare, penaltyBuffer, penaltyKnee, penaltyHard = 0, row, 2 * row, 3 * row, 4 * row
)

// Rows of the table of constants, see constants.go.
const (
	half = iota * row
	one
	two
	sin3
	sin5
	cos2
	cos4
	cos6
	tiny
	minusThree
	three
	minusLog2E
	exp1
	exp2
	exp3
	exp4
	exp5
	exp6
	reachConstant
	expReach
)

// vectors is an instruction set.
type vectors struct {
	suffix string
	wide   bool
	reg    func() reg.VecVirtual
}

var sets = []vectors{{"512", true, ZMM}, {"256", false, YMM}}

func main() {
	ConstraintExpr("amd64,!purego")
	for _, v := range sets {
		v.limit()
		v.track()
		for _, exp := range []bool{false, true} {
			for _, grad := range []bool{false, true} {
				v.discs(exp, grad)
				v.pair(exp, grad)
			}
		}
		v.back()
	}
	Generate()
}

func at(base reg.Register, offset int) Mem { return Mem{Base: base, Disp: offset} }

func (v vectors) begin(name, signature, twin string) {
	TEXT(name+v.suffix, NOSPLIT, signature)
	Pragma("noescape")
	Doc(name + v.suffix + " is " + twin + ".")
}

func end() {
	VZEROUPPER()
	RET()
}

func (v vectors) load(m Mem) reg.VecVirtual {
	r := v.reg()
	VMOVUPS(m, r)
	return r
}

func (v vectors) broadcast(m Mem) reg.VecVirtual {
	r := v.reg()
	VBROADCASTSS(m, r)
	return r
}

func (v vectors) zero() reg.VecVirtual {
	r := v.reg()
	if v.wide {
		VPXORD(r, r, r)
	} else {
		VXORPS(r, r, r)
	}
	return r
}

// copyOf is a second register with the same content.
func (v vectors) copyOf(a reg.VecVirtual) reg.VecVirtual {
	r := v.reg()
	VMOVAPS(a, r)
	return r
}

// where leaves in dst its lanes whose comparison of a with b (predicate of
// VCMPPS, a ? b) holds, and zero elsewhere.
func (v vectors) where(predicate uint8, a, b Op, dst reg.VecVirtual) {
	if v.wide {
		k := K()
		VCMPPS(U8(predicate), b, a, k)
		VMOVAPS_Z(dst, k, dst)
		return
	}
	m := v.reg()
	VCMPPS(U8(predicate), b, a, m)
	VANDPS(m, dst, dst)
}

// Predicates of VCMPPS, ordered and quiet: false for NaN.
const (
	equal        = 0x00
	less         = 0x11
	greaterEqual = 0x1d
	greater      = 0x1e
)

// limit: row = min(max(row, max(lo, previous − slew)), min(hi, previous + slew)),
// in order of the steps, for a and for ω.
func (v vectors) limit() {
	v.begin("limit", "func(plan *float32, steps int, b *float32)", "limitTwin")
	plan, steps, b := pointer("plan"), pointer("steps"), pointer("b")
	const field = 4
	var previous, lo, hi, slew [2]reg.VecVirtual
	for f := range 2 {
		previous[f] = v.broadcast(at(b, f*field))
		lo[f] = v.broadcast(at(b, (2+f)*field))
		hi[f] = v.broadcast(at(b, (4+f)*field))
		slew[f] = v.broadcast(at(b, (6+f)*field))
	}
	TESTQ(steps, steps)
	JE(LabelRef("done"))
	Label("step")
	for f := range 2 {
		x := v.load(at(plan, f*row))
		t := v.reg()
		VSUBPS(slew[f], previous[f], t)
		VMAXPS(lo[f], t, t)
		VMAXPS(x, t, x) // of a NaN and a number the first: x stays a NaN
		VADDPS(slew[f], previous[f], t)
		VMINPS(hi[f], t, t)
		VMINPS(x, t, previous[f])
		VMOVUPS(previous[f], at(plan, f*row))
	}
	ADDQ(U32(planBytes), plan)
	DECQ(steps)
	JNE(LabelRef("step"))
	Label("done")
	end()
}

// rotate turns (c, s) by the angle of (cos, sin).
func (v vectors) rotate(c, s, cos, sin reg.VecVirtual) (rc, rs reg.VecVirtual) {
	rc, rs = v.reg(), v.reg()
	VMULPS(c, cos, rc)
	VFNMADD231PS(s, sin, rc)
	VMULPS(s, cos, rs)
	VFMADD231PS(c, sin, rs)
	return rc, rs
}

// track: the dynamics of trackTwin, one step after the other.
func (v vectors) track() {
	v.begin("track", "func(plan, path, goal *float32, steps int, m *float32, cost *float32, constants *float32)", "trackTwin")
	plan, path, goal, steps := pointer("plan"), pointer("path"), pointer("goal"), pointer("steps")
	m, cost, k := pointer("m"), pointer("cost"), pointer("constants")
	sum := v.load(at(cost, 0))
	x, y := v.load(at(m, motionX)), v.load(at(m, motionY))
	c, s := v.load(at(m, motionCos)), v.load(at(m, motionSin))
	speed := v.load(at(m, motionV))
	previousA, previousW := v.load(at(m, motionA)), v.load(at(m, motionOmega))
	TESTQ(steps, steps)
	JE(LabelRef("done"))
	Label("step")
	{
		// v' = clip(v + dt·a), v̄ = (v + v')/2, free where the clip did nothing.
		raw := v.copyOf(speed)
		a := v.load(at(plan, 0))
		VFMADD231PS(at(m, motionDt), a, raw)
		next := v.reg()
		VMAXPS(at(m, motionVLo), raw, next)
		VMINPS(at(m, motionVHi), next, next)
		free := v.load(at(k, one))
		v.where(greater, raw, v.load(at(m, motionVLo)), free)
		v.where(less, raw, v.load(at(m, motionVHi)), free)
		VMOVUPS(free, at(path, pathFree))
		VADDPS(next, speed, speed)
		mean := v.reg()
		VMULPS(at(k, half), speed, mean)
		VMOVUPS(mean, at(path, pathSpeed))
		VMOVAPS(next, speed)
		// half = ω·dt/2, its sine and cosine by series, two turns.
		angle := v.load(at(plan, row))
		VMULPS(at(m, motionDt), angle, angle)
		VMULPS(at(k, half), angle, angle)
		square := v.reg()
		VMULPS(angle, angle, square)
		sin := v.load(at(k, sin5))
		VFMADD213PS(at(k, sin3), square, sin)
		VFMADD213PS(at(k, one), square, sin)
		VMULPS(angle, sin, sin)
		cos := v.load(at(k, cos6))
		VFMADD213PS(at(k, cos4), square, cos)
		VFMADD213PS(at(k, cos2), square, cos)
		VFMADD213PS(at(k, one), square, cos)
		cb, sb := v.rotate(c, s, cos, sin)
		VMOVUPS(cb, at(path, pathCos))
		VMOVUPS(sb, at(path, pathSin))
		VMULPS(at(m, motionDt), mean, mean)
		VFMADD231PS(mean, cb, x)
		VFMADD231PS(mean, sb, y)
		VMOVUPS(x, at(path, pathX))
		VMOVUPS(y, at(path, pathY))
		nc, ns := v.rotate(cb, sb, cos, sin)
		VMOVAPS(nc, c)
		VMOVAPS(ns, s)
	}
	{
		// goal[k]·‖p − goal‖²
		weight := v.broadcast(at(goal, 0))
		d, e := v.reg(), v.reg()
		VSUBPS(at(m, motionGoalX), x, d)
		VSUBPS(at(m, motionGoalY), y, e)
		VMULPS(d, d, d)
		VFMADD231PS(e, e, d)
		VFMADD231PS(weight, d, sum)
	}
	{
		// Effort·‖u‖² + Smooth·‖u − u₋₁‖²
		a, w := v.load(at(plan, 0)), v.load(at(plan, row))
		d, e := v.reg(), v.reg()
		VSUBPS(previousA, a, d)
		VSUBPS(previousW, w, e)
		VMOVAPS(a, previousA)
		VMOVAPS(w, previousW)
		VMULPS(d, d, d)
		VFMADD231PS(e, e, d)
		VFMADD231PS(at(m, motionSmooth), d, sum)
		VMULPS(a, a, d)
		VFMADD231PS(w, w, d)
		VFMADD231PS(at(m, motionEffort), d, sum)
	}
	ADDQ(U32(planBytes), plan)
	ADDQ(U32(pathBytes), path)
	ADDQ(U32(4), goal)
	DECQ(steps)
	JNE(LabelRef("step"))
	Label("done")
	VMOVUPS(sum, at(cost, 0))
	end()
}

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
func (s *scored) weight(offset int) Op   { return s.held(s.weights, s.penalty, offset) }

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

func pointer(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

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

// back: the adjoints of track from the last step to the first.
func (v vectors) back() {
	v.begin("back", "func(plan, path, grad, goal *float32, steps int, m *float32, out, constants *float32)", "backTwin")
	plan, path, grad, goal := pointer("plan"), pointer("path"), pointer("grad"), pointer("goal")
	steps, m, out, k := pointer("steps"), pointer("m"), pointer("out"), pointer("constants")
	px, py, heading, speed, nextA, nextW := v.zero(), v.zero(), v.zero(), v.zero(), v.zero(), v.zero()
	TESTQ(steps, steps)
	JE(LabelRef("done"))
	t := GP64()
	// All rows are walked from their last step.
	for _, r := range []struct {
		p     reg.GPVirtual
		bytes int
	}{{plan, planBytes}, {out, planBytes}, {path, pathBytes}, {grad, gradBytes}, {goal, 4}} {
		MOVQ(steps, t)
		DECQ(t)
		IMUL3Q(U32(uint32(r.bytes)), t, t)
		ADDQ(t, r.p)
	}
	Label("step")
	{
		weight := v.broadcast(at(goal, 0))
		VADDPS(weight, weight, weight)
		for i, p := range []reg.VecVirtual{px, py} {
			d := v.load(at(path, pathX+i*row))
			VSUBPS(at(m, motionGoalX+i*row), d, d)
			VFMADD213PS(at(grad, i*row), weight, d)
			VADDPS(d, p, p)
		}
	}
	gh, gv, through := v.reg(), v.reg(), v.reg()
	{
		c, s := v.load(at(path, pathCos)), v.load(at(path, pathSin))
		VMULPS(c, py, gh)
		VFNMADD231PS(s, px, gh)
		VMULPS(at(path, pathSpeed), gh, gh)
		VMULPS(at(m, motionDt), gh, gh)
		VMULPS(c, px, gv)
		VFMADD231PS(s, py, gv)
		VMULPS(at(m, motionDt), gv, gv)
		VMULPS(at(k, half), gv, gv)
		VADDPS(gv, speed, through)
		VMULPS(at(path, pathFree), through, through)
	}
	for i := range 2 {
		u, before := v.load(at(plan, i*row)), v.load(at(m, motionA+i*row))
		next := []reg.VecVirtual{nextA, nextW}[i]
		first := "first" + string(rune('0'+i))
		CMPQ(steps, U8(1))
		JE(LabelRef(first))
		VMOVUPS(at(plan, i*row-planBytes), before)
		Label(first)
		// 2·Smooth·(u − u₋₁), and 2·Effort·u
		change, g := v.reg(), v.reg()
		VSUBPS(before, u, change)
		VMULPS(at(m, motionSmooth), change, change)
		VADDPS(change, change, change)
		VSUBPS(next, change, g)
		VMOVAPS(change, next)
		VADDPS(u, u, u)
		VFMADD231PS(at(m, motionEffort), u, g)
		if i == 0 {
			VFMADD231PS(at(m, motionDt), through, g)
		} else {
			VMULPS(at(k, half), gh, u)
			VADDPS(u, heading, u)
			VFMADD231PS(at(m, motionDt), u, g)
		}
		VMOVUPS(g, at(out, i*row))
	}
	VADDPS(gh, heading, heading)
	VADDPS(gv, through, speed)
	SUBQ(U32(planBytes), plan)
	SUBQ(U32(planBytes), out)
	SUBQ(U32(pathBytes), path)
	SUBQ(U32(gradBytes), grad)
	SUBQ(U32(4), goal)
	DECQ(steps)
	JNE(LabelRef("step"))
	Label("done")
	end()
}
