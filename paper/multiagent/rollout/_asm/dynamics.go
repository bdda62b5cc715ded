package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
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
