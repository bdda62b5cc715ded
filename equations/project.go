package equations

import (
	"cmp"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
)

// Constants of the projection.
const (
	// relinearisations bounds the linearisations of the margins: the method converges quadratically where they are
	// smooth, at once where they are linear in u.
	relinearisations = 10
	// converged is the step, relative to the boxes, that ends the projection.
	converged = 1e-9
	// slackWeight is the penalty of a unit of violation relative to half a box of action, where no action satisfies
	// all linearised margins.
	slackWeight = 1e4
)

// Project writes the nearest action within box and margins, in half widths of the box. The clipped action suffices
// where it satisfies the margins. Else quadratic programs follow, with the margins linearised at the last solution.
// Where these fail, Project writes the escape's action if that satisfies the margins, else one of about the least
// violation, and returns false. An action of a switch becomes the nearest value that it may take; see projectSwitched.
func (p *Problem) Project(s, c, u []float64) bool {
	w := p.borrow()
	defer p.works.Put(w)
	if p.switching != nil {
		return p.projectSwitched(w, s, c, u)
	}
	return p.spec.Keeps(p.projectReal(w, s, c, u))
}

// projectReal is Project with the actions of switches as they are. It returns the smallest margin.
func (p *Problem) projectReal(w *work, s, c, u []float64) float64 {
	q := &w.program
	copy(w.requested, u)
	domain.Clip(u, u, p.spec.Action)
	if len(w.m) == 0 {
		return math.Inf(1)
	}
	real := &p.system.Real
	evaluateMargins(p, real, &w.real, s, c, u, w.m)
	smallest := smallestMargin(w.m)
	if p.spec.Keeps(smallest) || len(p.spec.Switches) == len(u) {
		return smallest
	}
	copy(w.best, u)
	for range relinearisations {
		p.linearise(w, s, c, u)
		if !q.solve(false) && !q.solve(true) {
			break
		}
		change := p.follow(w, u)
		evaluateMargins(p, real, &w.real, s, c, u, w.m)
		margin := smallestMargin(w.m)
		feasible := p.spec.Keeps(margin)
		if feasible || margin > smallest { // a NaN is neither
			copy(w.best, u)
			smallest = math.Min(margin, 0)
		}
		if change <= converged {
			break
		}
	}
	if smallest < -p.spec.MarginTolerance && real.Escape != nil {
		real.Escape(s, c, u)
		domain.Clip(u, u, p.spec.Action)
		evaluateMargins(p, real, &w.real, s, c, u, w.m)
		if margin := smallestMargin(w.m); margin > smallest {
			copy(w.best, u)
			smallest = margin
		}
	}
	copy(u, w.best)
	return smallest
}

// follow writes the solution of the quadratic program into u, and returns how far it moved in half boxes.
func (p *Problem) follow(w *work, u []float64) (change float64) {
	for i := range u {
		v := w.requested[i] + p.half[i]*w.program.x[i]
		if !isFinite(v) {
			v = u[i]
		}
		change = math.Max(change, math.Abs(v-u[i])/p.half[i])
		u[i] = v
	}
	domain.Clip(u, u, p.spec.Action)
	return change
}

// smallestMargin is the smallest margin, −Inf if one is NaN.
func smallestMargin(m []float64) float64 {
	if smallest := domain.Smallest(m); !math.IsNaN(smallest) {
		return smallest
	}
	return math.Inf(-1)
}

// linearise writes the constraints on x = (u − requested)/half at u, whose margins are w.m.
func (p *Problem) linearise(w *work, s, c, u []float64) {
	domain.Constants(w.s, s)
	domain.Constants(w.c, c)
	domain.Constants(w.u, u)
	m := w.out[:len(w.m)]
	for i, v := range w.u {
		if p.spec.SwitchOf(i) >= 0 {
			continue
		}
		w.u[i] = dual.Seed(real(v), 1)
		evaluateMargins(p, &p.system.Dual, &w.dual, w.s, w.c, w.u, m)
		w.u[i] = v
		for k, x := range m {
			w.program.row(k)[i] = dual.Derivative(x)
		}
	}
	p.constrain(w, u)
}

// constrain makes the constraints of the derivatives of the margins by the actions without a switch, which stand in
// their rows.
func (p *Problem) constrain(w *work, u []float64) {
	q := &w.program
	nu, nm := len(u), len(w.m)
	for k := range nm {
		row, b, length := q.row(k), -w.m[k], 0.0
		for i, d := range row[:nu] {
			switch row[i] = d * p.half[i]; {
			case p.spec.SwitchOf(i) >= 0:
				row[i] = 0
				continue
			case length == 0:
				length = math.Abs(row[i])
			default:
				length = math.Hypot(length, row[i])
			}
			b += d * (u[i] - w.requested[i])
		}
		length = cmp.Or(length, 1) // unit length makes violations of all limits comparable
		for i := range nu {
			row[i] /= length
		}
		q.b[k], row[nu] = b/length, 1/slackWeight
	}
	for i, a := range p.spec.Action {
		for side := range 2 {
			k := nm + 2*i + side
			clear(q.row(k))
			switch {
			case !a.Bounded() || p.spec.SwitchOf(i) >= 0:
				q.b[k] = math.Inf(-1)
			case side == 0:
				q.row(k)[i], q.b[k] = 1, (a.Lo-w.requested[i])/p.half[i]
			default:
				q.row(k)[i], q.b[k] = -1, (w.requested[i]-a.Hi)/p.half[i]
			}
		}
	}
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
