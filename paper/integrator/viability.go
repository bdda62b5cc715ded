package integrator

import "math"

// An action that keeps every limit now can leave no action that keeps them
// next: the slew bound allows a full reversal only within eight steps, so a
// state can head for the ellipse with too little time to turn. Project
// therefore asks for a continuation as well.

// Constants of the look-ahead.
const (
	escapeSteps = 10 // decisions followed; a reversal of u takes eight
	escapeTrims = 8  // bisections between the wanted action and an escape
)

// direction is an angle from the outward normal of the ellipse.
type direction struct{ sin, cos float64 }

// escapes are the directions in which an escape accelerates: straight away first,
// then past it on either side.
var escapes = [...]direction{newDirection(0), newDirection(math.Pi / 3), newDirection(-math.Pi / 3)}

func newDirection(angle float64) direction {
	sin, cos := math.Sincos(angle)
	return direction{sin, cos}
}

// Project writes an action that keeps input and slew bound, whose next position
// is outside the ellipse, and from which an escape keeps all three for as long as
// the ellipse is approached; and reports true. An action that has this already,
// or whose nearest one-step feasible action has it, becomes that nearest action;
// otherwise the wanted action is moved towards the first action of the escape
// that needs the smallest change, by bisection. Where no escape is found it keeps
// the nearest one-step feasible action. The number of operations is bounded. Like
// nearest, it reports false where no action keeps this step's limits.
func (y *System) Project(s, c, u []float64) bool {
	if !y.nearest(s, c, u) {
		return false
	}
	if y.escapable(s, c, u[0], u[1]) {
		return true
	}
	want := [2]float64{u[0], u[1]}
	distance := math.Inf(1)
	var trial [2]float64
	feasible := func(escape [2]float64, share float64) bool {
		trial = [2]float64{want[0] + share*(escape[0]-want[0]), want[1] + share*(escape[1]-want[1])}
		return y.nearest(s, c, trial[:]) && y.escapable(s, c, trial[0], trial[1])
	}
	for _, heading := range escapes {
		flight := y.flight(s, c)
		escape := flight.turn(heading)
		if !feasible(escape, 1) {
			continue
		}
		best, lo, hi := trial, 0.0, 1.0
		for range escapeTrims {
			if share := (lo + hi) / 2; feasible(escape, share) {
				best, hi = trial, share
			} else {
				lo = share
			}
		}
		if d := squared(best, want[:]); d < distance {
			distance = d
			u[0], u[1] = best[0], best[1]
		}
	}
	return true
}

// flight is a state on its way past the ellipse.
type flight struct {
	system *System
	motion[float64]
	u1, u2  float64 // the last action
	p, rate float64 // operating parameter that the next step is tested at, and ṗ
}

func (y *System) flight(s, c []float64) flight {
	return flight{y, motionOf(s), c[contextPrevious], c[contextPrevious+1], y.Params.limitAt(c[contextP], c[contextRate]), c[contextRate]}
}

// gradient is half that of the ellipse's level function at the position; up at the
// centre.
func (f *flight) gradient() (float64, float64) {
	e := &f.system.Params.Ellipse
	n1, n2 := (f.q1-e.C0[0]-e.Rho[0]*f.p)/(e.A*e.A), (f.q2-e.C0[1]-e.Rho[1]*f.p)/(e.B*e.B)
	if n1 == 0 && n2 == 0 {
		return 0, 1
	}
	return n1, n2
}

// turn is the next action of an escape: from the last one towards full
// acceleration at an angle from the normal, as far as the slew bound lets it.
// The way there is a chord of the input disc, so that bound is kept too.
func (f *flight) turn(heading direction) [2]float64 {
	n1, n2 := f.gradient()
	limit := f.system.Params.UMax / math.Sqrt(n1*n1+n2*n2)
	to1, to2 := limit*(n1*heading.cos-n2*heading.sin), limit*(n1*heading.sin+n2*heading.cos)
	u1, u2 := toDisc(to1, to2, f.u1, f.u2, f.system.Params.RMax)
	return [2]float64{u1, u2}
}

// step applies an action and reports whether the next position is outside the
// ellipse of this step.
func (f *flight) step(u1, u2 float64) bool {
	f.motion = f.system.k64.next(f.motion, u1, u2)
	feasible := f.system.Params.Ellipse.clearance(f.q1, f.q2, f.p) >= 1
	f.u1, f.u2 = u1, u2
	f.p += f.rate * f.system.Params.Dt
	return feasible
}

// recedes reports that position, velocity relative to the ellipse and
// acceleration all point out of the half-plane that holds the ellipse: it is
// convex and moves steadily, so holding the action keeps clear of it for good.
func (f *flight) recedes() bool {
	e := &f.system.Params.Ellipse
	n1, n2 := f.gradient()
	return (f.v1-e.Rho[0]*f.rate)*n1+(f.v2-e.Rho[1]*f.rate)*n2 >= 0 && f.u1*n1+f.u2*n2 >= 0
}

// escapable reports whether, after the action (u1, u2), one of the escapes keeps
// clear of the ellipse until it is left behind or escapeSteps have passed. The
// action itself is taken to be feasible.
func (y *System) escapable(s, c []float64, u1, u2 float64) bool {
	next := y.flight(s, c)
	next.step(u1, u2)
	for _, heading := range escapes {
		f := next
		clear := true
		for n := 0; clear && n < escapeSteps && !f.recedes(); n++ {
			u := f.turn(heading)
			clear = f.step(u[0], u[1])
		}
		if clear {
			return true
		}
	}
	return false
}
