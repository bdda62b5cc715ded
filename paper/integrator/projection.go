package integrator

import "math"

// discTolerance is how far, m/s², a point may lie outside a disc and still
// count as on its rim: rounding, far below Spec.MarginTolerance.
const discTolerance = 1e-12

// actionSet is the intersection of the input disc around 0 and the slew disc
// around u₋₁.
type actionSet struct {
	input, slew float64 // radii
	previous    [2]float64
}

func (y *System) discs(c []float64) actionSet {
	return actionSet{
		input:    y.Params.UMax,
		slew:     y.Params.RMax,
		previous: [2]float64{c[contextPrevious], c[contextPrevious+1]},
	}
}

// holds reports whether (x, y) is in the set, up to rounding.
func (d *actionSet) holds(x, y float64) bool {
	return insideDisc(x, y, d.input+discTolerance) && insideDisc(x-d.previous[0], y-d.previous[1], d.slew+discTolerance)
}

// insideDisc is math.Hypot(x, y) <= radius, which is asked only where squares, whose
// rounding is far below the band, do not tell.
func insideDisc(x, y, radius float64) bool {
	const band = 1e-12
	q, r := x*x+y*y, radius*radius
	if math.Abs(q-r) > band*r {
		return q < r
	}
	return math.Hypot(x, y) <= radius
}

// project writes the point of the set nearest to u, and reports whether the set
// is not empty. If it is, u becomes the point of the input disc nearest to u₋₁.
func (d actionSet) project(u []float64) bool {
	if d.holds(u[0], u[1]) {
		return true
	}
	// The nearest point of one disc, if the other holds it, is the nearest of
	// both; otherwise both rims bind.
	x, y := toDisc(u[0], u[1], 0, 0, d.input)
	if d.holds(x, y) {
		u[0], u[1] = x, y
		return true
	}
	x, y = toDisc(u[0], u[1], d.previous[0], d.previous[1], d.slew)
	if d.holds(x, y) {
		u[0], u[1] = x, y
		return true
	}
	corners, ok := d.corners()
	if !ok {
		u[0], u[1] = toDisc(d.previous[0], d.previous[1], 0, 0, d.input)
		return false
	}
	nearest := corners[0]
	if squared(corners[1], u) < squared(corners[0], u) {
		nearest = corners[1]
	}
	u[0], u[1] = nearest[0], nearest[1]
	return true
}

// corners are the two points common to both rims.
func (d *actionSet) corners() (points [2][2]float64, ok bool) {
	distance := math.Hypot(d.previous[0], d.previous[1])
	if distance == 0 {
		return points, false
	}
	axial := (distance*distance + d.input*d.input - d.slew*d.slew) / (2 * distance)
	halfChord2 := d.input*d.input - axial*axial
	if halfChord2 < -discTolerance {
		return points, false
	}
	halfChord := math.Sqrt(max(halfChord2, 0))
	ex, ey := d.previous[0]/distance, d.previous[1]/distance
	points[0] = [2]float64{axial*ex - halfChord*ey, axial*ey + halfChord*ex}
	points[1] = [2]float64{axial*ex + halfChord*ey, axial*ey - halfChord*ex}
	return points, true
}

func toDisc(x, y, cx, cy, radius float64) (float64, float64) {
	dx, dy := x-cx, y-cy
	if insideDisc(dx, dy, radius) {
		return x, y
	}
	d := math.Hypot(dx, dy)
	return cx + dx*radius/d, cy + dy*radius/d
}

func squared(a [2]float64, b []float64) float64 {
	dx, dy := a[0]-b[0], a[1]-b[1]
	return dx*dx + dy*dy
}

// nearest writes the action nearest to u that keeps input and slew bound and
// whose next position is outside the ellipse (ψ ≥ 1), and reports true. The set
// is two discs less an ellipse; its nearest point is one of finitely many: the
// nearest of the discs, the nearest of the ellipse, the corners where two of
// the three rims meet. Each costs a bounded number of operations, at most a few
// dozen root-bracketing rounds.
//
// When no action keeps all three it writes the one of largest ψ that keeps
// input and slew and reports false; likewise for an action that is not finite
// (u then moves towards zero input).
func (y *System) nearest(s, c, u []float64) bool {
	d := y.discs(c)
	if math.IsNaN(u[0]+u[1]) || math.IsInf(u[0]+u[1], 0) {
		u[0], u[1] = 0, 0
		d.project(u)
		return false
	}
	want := [2]float64{u[0], u[1]}
	if !d.project(u) {
		return false
	}
	free := y.freeMotion(s, c)
	if free.clearance(u[0], u[1]) >= 1 {
		return true
	}

	best, bestDistance := [2]float64{}, math.Inf(1)
	consider := func(point [2]float64) {
		if d.holds(point[0], point[1]) {
			if distance := squared(point, want[:]); distance < bestDistance {
				best, bestDistance = point, distance
			}
		}
	}
	clearest, clearestPsi := [2]float64{u[0], u[1]}, free.clearance(u[0], u[1])
	remember := func(point [2]float64) float64 {
		psi := free.clearance(point[0], point[1])
		if d.holds(point[0], point[1]) && psi > clearestPsi {
			clearest, clearestPsi = point, psi
		}
		return psi
	}

	if free.clearance(want[0], want[1]) < 1 {
		consider(free.nearestOnEllipse(want))
	}
	if corners, ok := d.corners(); ok {
		for _, point := range corners {
			if remember(point) >= 1 {
				consider(point)
			}
		}
	}
	for _, rim := range [2]struct {
		centre [2]float64
		radius float64
	}{{[2]float64{}, d.input}, {d.previous, d.slew}} {
		top, crossings, n := free.rim(rim.centre, rim.radius)
		remember(top)
		for _, point := range crossings[:n] {
			consider(point)
		}
	}
	if math.IsInf(bestDistance, 1) {
		u[0], u[1] = clearest[0], clearest[1]
		return clearestPsi >= 1
	}
	u[0], u[1] = best[0], best[1]
	return true
}

// freeMotion is the next position relative to the ellipse's centre as an affine
// function of the action: (x, y) + half·u.
type freeMotion struct {
	x, y, half, a, b float64
}

func (y *System) freeMotion(s, c []float64) freeMotion {
	e := &y.Params.Ellipse
	m := y.k64.next(motionOf(s), 0, 0)
	p := y.Params.limitAt(c[contextP], c[contextRate])
	return freeMotion{
		x:    m.q1 - e.C0[0] - e.Rho[0]*p,
		y:    m.q2 - e.C0[1] - e.Rho[1]*p,
		half: y.k64.half,
		a:    e.A,
		b:    e.B,
	}
}

// clearance is ψ of the next position after (u1, u2).
func (f *freeMotion) clearance(u1, u2 float64) float64 {
	x, y := (f.x+f.half*u1)/f.a, (f.y+f.half*u2)/f.b
	return x*x + y*y
}

// rim walks the circle of actions around centre: top is its point of largest ψ
// and crossings the up to two points with ψ = 1. One step moves the position so
// little (Params.Validate) that ψ on the circle has one maximum, near the
// direction of its gradient, and one minimum, opposite.
func (f *freeMotion) rim(centre [2]float64, radius float64) (top [2]float64, crossings [2][2]float64, n int) {
	rimPoint := func(angle float64) [2]float64 {
		sin, cos := math.Sincos(angle)
		return [2]float64{centre[0] + radius*cos, centre[1] + radius*sin}
	}
	psi := func(angle float64) float64 {
		p := rimPoint(angle)
		return f.clearance(p[0], p[1]) - 1
	}
	ia, ib := f.half/(f.a*f.a), f.half/(f.b*f.b)
	gx, gy := (f.x+f.half*centre[0])*ia, (f.y+f.half*centre[1])*ib // ½∇ψ at the centre
	extreme := func(angle float64) float64 {
		// Newton on dψ/dangle = 0; it starts within a few hundredths of a radian.
		for range 6 {
			sin, cos := math.Sincos(angle)
			hx, hy := gx+ia*f.half*radius*cos, gy+ib*f.half*radius*sin
			slope := -hx*sin + hy*cos
			bend := -hx*cos - hy*sin + radius*f.half*(ia*sin*sin+ib*cos*cos)
			if bend == 0 {
				break
			}
			angle -= slope / bend
		}
		return angle
	}
	guess := math.Atan2(gy, gx)
	high := extreme(guess)
	if psi(high) < psi(guess) {
		high = guess
	}
	low := extreme(guess + math.Pi)
	if !(psi(low) < psi(high)) {
		low = guess + math.Pi
	}
	top = rimPoint(high)
	psiHigh, psiLow := psi(high), psi(low)
	if !(psiHigh >= 0 && psiLow <= 0) {
		return top, crossings, 0
	}
	low = high + math.Remainder(low-high, 2*math.Pi)
	other := low - math.Copysign(2*math.Pi, low-high)
	for _, end := range [2]float64{low, other} {
		crossings[n] = rimPoint(root(psi, high, end, psiHigh, psiLow))
		n++
	}
	return top, crossings, n
}

// root finds where f, with f(positive) ≥ 0 ≥ f(negative), changes sign, by the
// Illinois variant of false position, and returns the side with f ≥ 0.
func root(f func(float64) float64, positive, negative, fPositive, fNegative float64) float64 {
	side := 0
	for range 60 {
		if fPositive == 0 || math.Abs(positive-negative) <= 1e-15*(1+math.Abs(positive)) {
			break
		}
		middle := (positive*fNegative - negative*fPositive) / (fNegative - fPositive)
		value := f(middle)
		if value >= 0 {
			if middle == positive {
				break
			}
			positive, fPositive = middle, value
			if side == 1 {
				fNegative /= 2
			}
			side = 1
		} else {
			if middle == negative {
				break
			}
			negative, fNegative = middle, value
			if side == -1 {
				fPositive /= 2
			}
			side = -1
		}
		if math.Abs(value) <= 1e-15 && value >= 0 {
			break
		}
	}
	return positive
}

// nearestOnEllipse returns the action whose next position is the point of the
// ellipse nearest to that of u, which must be inside. With the semi-axes sorted
// it solves (e₀y₀/(t+e₀²))² + (e₁y₁/(t+e₁²))² = 1 for t ∈ (−e₁², 0], where the
// left side falls, by bisection (Eberly, "Distance from a Point to an
// Ellipse").
func (f *freeMotion) nearestOnEllipse(u [2]float64) [2]float64 {
	px, py := f.x+f.half*u[0], f.y+f.half*u[1]
	e0, e1 := f.a, f.b
	y0, y1 := math.Abs(px), math.Abs(py)
	if e0 < e1 {
		e0, e1 = e1, e0
		y0, y1 = y1, y0
	}
	x0, x1 := 0.0, e1
	switch {
	case y1 > 0:
		low, high := -e1*e1+e1*y1, 0.0
		for range 200 {
			t := 0.5 * (low + high)
			if t <= low || t >= high {
				break
			}
			r0, r1 := e0*y0/(t+e0*e0), e1*y1/(t+e1*e1)
			if r0*r0+r1*r1 > 1 {
				low = t
			} else {
				high = t
			}
		}
		x0, x1 = e0*e0*y0/(high+e0*e0), e1*e1*y1/(high+e1*e1)
	case e0*y0 < e0*e0-e1*e1:
		x0 = e0 * e0 * y0 / (e0*e0 - e1*e1)
		x1 = e1 * math.Sqrt(max(0, 1-x0*x0/(e0*e0)))
	default:
		x0, x1 = e0, 0
	}
	// Outward by a few units in the last place, so that ψ ≥ 1 survives rounding.
	scale := (1 + 1e-15) / math.Hypot(x0/e0, x1/e1)
	x0, x1 = x0*scale, x1*scale
	if f.a < f.b {
		x0, x1 = x1, x0
	}
	x, y := math.Copysign(x0, px), math.Copysign(x1, py)
	return [2]float64{(x - f.x) / f.half, (y - f.y) / f.half}
}
