package rollout

import "math"

type real interface{ ~float32 | ~float64 }

// Vector is one number per lane.
type Vector[T real] [Lanes]T

// Unicycle is a robot's pose and speed, the heading as a unit vector.
type Unicycle[T real] struct{ X, Y, Cos, Sin, V T }

// Step is one period of eq. multiagent-unicycle under the acceleration a and a turn
// of which half has the sine and cosine given; it returns the mean heading and speed.
// How that half turn is had from ω is the caller's: each has a series as exact as it
// needs.
func (r *Unicycle[T]) Step(dt, lo, hi, a, sin, cos T) (meanCos, meanSin, mean T) {
	next := min(max(r.V+dt*a, lo), hi)
	mean = (r.V + next) / 2
	r.V = next
	meanCos, meanSin = r.Cos*cos-r.Sin*sin, r.Sin*cos+r.Cos*sin
	r.Cos, r.Sin = meanCos*cos-meanSin*sin, meanSin*cos+meanCos*sin
	r.X += dt * mean * meanCos
	r.Y += dt * mean * meanSin
	return meanCos, meanSin, mean
}

// HalfTurn is sine and cosine of half a step's turn, at most 0.25 rad (see
// world.Params.Validate), by series exact to 1e-12.
func HalfTurn(x float64) (sin, cos float64) {
	q := x * x
	return x * (1 - q*(1.0/6)*(1-q*(1.0/20)*(1-q*(1.0/42)))), 1 - q*(1.0/2)*(1-q*(1.0/12)*(1-q*(1.0/30)*(1-q*(1.0/56))))
}

// Huber is weight·m·(2t − m) with m = min(t, knee) of a depth t ≥ 0, and its derivative
// in t: weight·t² up to the knee, linear from there.
func Huber[T real](weight, t, knee T) (cost, slope T) {
	m := min(t, knee)
	return weight * m * (2*t - m), 2 * weight * m
}

// Bounds are the limits of one robot's controls, and its previous action.
type Bounds[T real] struct {
	Previous [PlanFields]T
	Lo, Hi   [PlanFields]T
	Slew     [PlanFields]T // largest change per step
}

// Motion is one robot's state and what its path is scored by, each number
// repeated in every lane (see Repeat).
type Motion[T real] struct {
	X, Y, Cos, Sin, V Vector[T] // pose and speed now
	A, Omega          Vector[T] // previous action
	Dt, VLo, VHi      Vector[T]
	GoalX, GoalY      Vector[T]
	Effort            Vector[T] // weight of a² + ω² of each step
	Smooth            Vector[T] // weight of the squared change of the action
}

// Penalty is how margins h are scored, each number repeated in every lane:
//
//	Σ Exp·exp(−clip(h, −3, 3)) + Square·m·(2t − m),  t = max(0, Buffer − h), m = min(t, Knee)
//
// with Buffer ≤ Reach: the second term is Square·t² up to Knee and grows linearly
// from there (Huber's function). NoKnee leaves it a square everywhere.
type Penalty[T real] struct {
	Exp, Square, Buffer, Knee Vector[T]
	Hard                      Vector[T] // least margin of a step that counts as safe
}

// Repeat fills a vector.
func Repeat[T real](x T) (v Vector[T]) {
	for i := range v {
		v[i] = x
	}
	return v
}

// limitTwin moves every action, in order, to the nearest within box and slew
// bound around the one before it.
func limitTwin[T real](plan []T, steps int, b *Bounds[T]) {
	for f := range PlanFields {
		previous := Repeat(b.Previous[f])
		for k := range steps {
			row := plan[(k*PlanFields+f)*Lanes:][:Lanes]
			for l := range row {
				lo, hi := max(b.Lo[f], previous[l]-b.Slew[f]), min(b.Hi[f], previous[l]+b.Slew[f])
				row[l] = min(max(row[l], lo), hi)
				previous[l] = row[l]
			}
		}
	}
}

// trackTwin rolls plans out and adds to cost
//
//	Σ_k goal[k]·‖p_{k+1} − goal‖² + Effort·‖u_k‖² + Smooth·‖u_k − u_{k−1}‖².
func trackTwin[T real](plan, path, goal []T, steps int, m *Motion[T], cost *Vector[T]) {
	for l := range Lanes {
		r := Unicycle[T]{m.X[l], m.Y[l], m.Cos[l], m.Sin[l], m.V[l]}
		a0, w0 := m.A[l], m.Omega[l]
		dt := m.Dt[l]
		sum := cost[l]
		for k := range steps {
			a, w := plan[(k*PlanFields)*Lanes+l], plan[(k*PlanFields+1)*Lanes+l]
			half := w * dt / 2
			h2 := half * half
			sin := half * (1 + h2*(-1.0/6+h2*(1.0/120)))
			cos := 1 + h2*(-0.5+h2*(1.0/24+h2*(-1.0/720)))
			meanCos, meanSin, mean := r.Step(dt, m.VLo[l], m.VHi[l], a, sin, cos)
			var free T
			if r.V > m.VLo[l] && r.V < m.VHi[l] {
				free = 1
			}
			row := path[k*PathFields*Lanes:][:PathFields*Lanes]
			row[X*Lanes+l], row[Y*Lanes+l] = r.X, r.Y
			row[Cos*Lanes+l], row[Sin*Lanes+l] = meanCos, meanSin
			row[Speed*Lanes+l], row[Free*Lanes+l] = mean, free
			dx, dy := r.X-m.GoalX[l], r.Y-m.GoalY[l]
			da, dw := a-a0, w-w0
			a0, w0 = a, w
			sum += goal[k]*(dx*dx+dy*dy) + m.Effort[l]*(a*a+w*w) + m.Smooth[l]*(da*da+dw*dw)
		}
		cost[l] = sum
	}
}

// NoKnee is a Knee beyond every depth, m.
const NoKnee = 1e6

// tinySquare keeps a distance of zero from dividing: (10⁻⁶ m)².
const tinySquare = 1e-12

// marginScore is a margin h, its score, and the score's derivative in the first body's position.
type marginScore[T real] struct{ h, score, gx, gy T }

// margin scores one pair of bodies in one lane.
func (p *Penalty[T]) margin(l int, dx, dy, radii T) marginScore[T] {
	square := dx*dx + dy*dy + tinySquare
	if reach := radii + Reach; square >= reach*reach {
		return marginScore[T]{h: Reach, score: p.Exp[l] * expReach}
	}
	d := T(math.Sqrt(float64(square)))
	full := d - radii
	h := min(full, Reach)
	t := max(p.Buffer[l]-h, 0)
	score, slope := Huber(p.Square[l], t, p.Knee[l])
	if p.Exp[l] != 0 {
		c := max(h, -3)
		e := p.Exp[l] * T(math.Exp(float64(-c)))
		score += e
		if c == full {
			slope += e
		}
	}
	slope /= d
	return marginScore[T]{h, score, -slope * dx, -slope * dy}
}

// discsTwin scores paths against count discs per step. It adds to cost, lowers
// low to the smallest margin and safeSteps to the number of leading steps whose
// margins are all at least Hard, and, where grad is given, adds the derivatives
// in the positions to it, [step][x, y][lane].
func discsTwin[T real](path, discs []T, count, steps int, p *Penalty[T], cost, low, safeSteps *Vector[T], grad []T) {
	for l := range Lanes {
		sum, least := cost[l], low[l]
		safe, alive := T(0), true
		for k := range steps {
			x, y := path[(k*PathFields+X)*Lanes+l], path[(k*PathFields+Y)*Lanes+l]
			var gx, gy T
			for j := range count {
				d := discs[(k*count+j)*DiscFields:][:DiscFields]
				m := p.margin(l, x-d[0], y-d[1], d[2])
				sum += m.score
				gx += m.gx
				gy += m.gy
				least = min(least, m.h)
				alive = alive && m.h >= p.Hard[l]
			}
			if grad != nil {
				grad[(k*2)*Lanes+l] += gx
				grad[(k*2+1)*Lanes+l] += gy
			}
			if alive {
				safe++
			}
		}
		cost[l], low[l], safeSteps[l] = sum, least, min(safeSteps[l], safe)
	}
}

// pairTwin is discsTwin for the paths of two robots whose radii and safety
// distance sum to radii; grads are of both positions.
func pairTwin[T real](path, other []T, radii T, steps int, p *Penalty[T], cost, low, safeSteps *Vector[T], grad, otherGrad []T) {
	for l := range Lanes {
		sum, least := cost[l], low[l]
		safe, alive := T(0), true
		for k := range steps {
			x, y := (k*PathFields+X)*Lanes+l, (k*PathFields+Y)*Lanes+l
			m := p.margin(l, path[x]-other[x], path[y]-other[y], radii)
			sum += m.score
			if grad != nil {
				grad[(k*2)*Lanes+l] += m.gx
				grad[(k*2+1)*Lanes+l] += m.gy
				otherGrad[(k*2)*Lanes+l] -= m.gx
				otherGrad[(k*2+1)*Lanes+l] -= m.gy
			}
			least = min(least, m.h)
			alive = alive && m.h >= p.Hard[l]
			if alive {
				safe++
			}
		}
		cost[l], low[l], safeSteps[l] = sum, least, min(safeSteps[l], safe)
	}
}

// backTwin is the reverse mode of trackTwin: from the derivatives in the
// positions (grad, without the goal's) to those of the whole cost in the plan,
// written to out [step][a, ω][lane].
func backTwin[T real](plan, path, grad, goal []T, steps int, m *Motion[T], out []T) {
	for l := range Lanes {
		var px, py, heading, speed T // adjoints of p, θ and v after the step
		var nextA, nextW T           // derivative of the next step's change
		dt := m.Dt[l]
		for k := steps - 1; k >= 0; k-- {
			row := path[k*PathFields*Lanes:][:PathFields*Lanes]
			px += grad[(k*2)*Lanes+l] + 2*goal[k]*(row[X*Lanes+l]-m.GoalX[l])
			py += grad[(k*2+1)*Lanes+l] + 2*goal[k]*(row[Y*Lanes+l]-m.GoalY[l])
			c, s, v := row[Cos*Lanes+l], row[Sin*Lanes+l], row[Speed*Lanes+l]
			gh := dt * v * (c*py - s*px)
			gv := dt * (c*px + s*py) / 2
			adjoint := row[Free*Lanes+l] * (speed + gv)
			a, w := plan[(k*PlanFields)*Lanes+l], plan[(k*PlanFields+1)*Lanes+l]
			a0, w0 := m.A[l], m.Omega[l]
			if k > 0 {
				a0, w0 = plan[((k-1)*PlanFields)*Lanes+l], plan[((k-1)*PlanFields+1)*Lanes+l]
			}
			changeA, changeW := 2*m.Smooth[l]*(a-a0), 2*m.Smooth[l]*(w-w0)
			out[(k*PlanFields)*Lanes+l] = dt*adjoint + 2*m.Effort[l]*a + changeA - nextA
			out[(k*PlanFields+1)*Lanes+l] = dt*(heading+gh/2) + 2*m.Effort[l]*w + changeW - nextW
			nextA, nextW = changeA, changeW
			heading += gh
			speed = adjoint + gv
		}
	}
}
