package equations

import (
	"math"

	"github.com/gpc-engine/gpc/domain/dual"
	"github.com/gpc-engine/gpc/tensor"
)

// Constants of the projection.
const (
	// relinearisations bounds how often margins are linearised anew: it converges
	// quadratically where they are smooth, and at once where they are linear in u.
	relinearisations = 10
	// settled is a step, relative to the boxes, that ends it.
	settled = 1e-9
	// slackWeight is how much dearer a unit of violation is than a half box of action,
	// where no action keeps all linearised margins.
	slackWeight = 1e4
	// independent is the share of a constraint's normal that has to lie outside the span
	// of the active ones.
	independent = 1e-10
)

// Project writes the nearest action that keeps box and margins, in the norm in which every
// box is of one size: the box alone where that keeps the margins, else the solutions of
// quadratic programs with the margins linearised at the last one. Where these find none it
// is the escape's action if that keeps them, else the one of about the least violation, and
// false.
func (p *Problem) Project(s, c, u []float64) bool {
	w := p.borrow()
	defer p.works.Put(w)
	q := &w.program
	copy(q.wanted, u)
	p.clip(u)
	if len(w.m) == 0 {
		return true
	}
	real := &p.system.Real
	marginsOf(p, real, &w.real, s, c, u, w.m)
	least := lowest(w.m)
	if p.spec.Keeps(least) {
		return true
	}
	copy(q.best, u)
	for range relinearisations {
		p.linearise(w, s, c, u)
		if !q.solve(false) && !q.solve(true) {
			break
		}
		moved := 0.0
		for i := range u {
			v := q.wanted[i] + p.half[i]*q.x[i]
			if !isFinite(v) {
				v = u[i]
			}
			moved = math.Max(moved, math.Abs(v-u[i])/p.half[i])
			u[i] = v
		}
		p.clip(u)
		marginsOf(p, real, &w.real, s, c, u, w.m)
		now := lowest(w.m)
		kept := p.spec.Keeps(now)
		if kept || now > least { // a NaN is neither
			copy(q.best, u)
			least = math.Min(now, 0)
		}
		if moved <= settled {
			break
		}
	}
	if least < -p.spec.MarginTolerance && real.Escape != nil {
		real.Escape(s, c, u)
		p.clip(u)
		marginsOf(p, real, &w.real, s, c, u, w.m)
		if now := lowest(w.m); now > least {
			copy(q.best, u)
			least = now
		}
	}
	copy(u, q.best)
	return p.spec.Keeps(least)
}

// clip moves u into its box.
func (p *Problem) clip(u []float64) {
	for i, a := range p.spec.Action {
		if a.Bounded() {
			u[i] = math.Min(a.Hi, math.Max(a.Lo, u[i]))
		}
	}
}

// lowest is the least margin, −Inf if one is NaN.
func lowest(m []float64) float64 {
	least := math.Inf(1)
	for _, v := range m {
		if math.IsNaN(v) {
			return math.Inf(-1)
		}
		least = math.Min(least, v)
	}
	return least
}

// linearise writes the constraints on x = (u − wanted)/half at u, whose margins are w.m.
func (p *Problem) linearise(w *work, s, c, u []float64) {
	q := &w.program
	nu, nm := len(u), len(w.m)
	widen(w.s, s)
	widen(w.c, c)
	widen(w.u, u)
	m := w.out[:nm]
	for k := range nm {
		q.b[k] = -w.m[k]
	}
	for i, v := range w.u {
		w.u[i] = dual.Seed(real(v), 1)
		marginsOf(p, &p.system.Dual, &w.dual, w.s, w.c, w.u, m)
		w.u[i] = v
		for k, x := range m {
			d := dual.Derivative(x)
			q.row(k)[i] = d * p.half[i]
			q.b[k] += d * (u[i] - q.wanted[i])
		}
	}
	for k := range nm {
		// Of unit length, so that violations of all limits are of one size.
		length := 0.0
		for _, v := range q.row(k)[:nu] {
			length = math.Hypot(length, v)
		}
		if length == 0 {
			length = 1
		}
		for i := range nu {
			q.row(k)[i] /= length
		}
		q.b[k] /= length
		q.row(k)[nu] = 1 / slackWeight
	}
	for i, a := range p.spec.Action {
		for side := range 2 {
			k := nm + 2*i + side
			clear(q.row(k))
			switch {
			case !a.Bounded():
				q.b[k] = math.Inf(-1)
			case side == 0:
				q.row(k)[i], q.b[k] = 1, (a.Lo-q.wanted[i])/p.half[i]
			default:
				q.row(k)[i], q.b[k] = -1, (q.wanted[i]-a.Hi)/p.half[i]
			}
		}
	}
}

// program is the quadratic program min ‖x‖² subject to aₖᵀx ≥ bₖ, solved by the dual active
// set method of Goldfarb and Idnani (Mathematical Programming 27, 1983).
type program struct {
	actions, constraints int
	wanted, best         []float64 // actions
	x                    []float64 // its last entry is the slack
	a, b                 []float64 // rows of actions and slack
	active               []int
	multipliers, r       []float64
	gram, z              []float64
}

func newProgram(actions, margins int) program {
	n, m := actions+1, margins+2*actions
	return program{
		actions: actions, constraints: m, wanted: make([]float64, actions), best: make([]float64, actions), x: make([]float64, n),
		a: make([]float64, m*n), b: make([]float64, m), active: make([]int, 0, n), multipliers: make([]float64, n+1), r: make([]float64, n),
		gram: make([]float64, n*n), z: make([]float64, n),
	}
}

func (q *program) row(k int) []float64 { return q.a[k*(q.actions+1) : (k+1)*(q.actions+1)] }

// solve writes x, and reports whether there is one. slack lets the margins be violated, at
// a price.
func (q *program) solve(slack bool) bool {
	n := q.actions
	if slack {
		n++
	}
	clear(q.x)
	q.active = q.active[:0]
	for range 10 * (q.constraints + n) {
		worst, at := 1e-14, -1
		for k := range q.constraints {
			if v := q.b[k] - tensor.DotInOrder(q.row(k)[:n], q.x); v > worst*(1+math.Abs(q.b[k])) {
				worst, at = v/(1+math.Abs(q.b[k])), k
			}
		}
		if at < 0 {
			return true
		}
		if !q.add(at, n) {
			return false
		}
	}
	return false
}

// add makes constraint k hold and active, dropping others on the way. It reports whether
// that is possible.
func (q *program) add(k, n int) bool {
	normal := q.row(k)[:n]
	multiplier := 0.0
	for {
		q.split(normal)
		z, size, length := q.z[:n], 0.0, 0.0
		for i, v := range normal {
			size += z[i] * z[i]
			length += v * v
		}
		// full is the step to the constraint, partial the step at which a multiplier is 0.
		full, partial, drop := math.Inf(1), math.Inf(1), -1
		if size > independent*length {
			full = (q.b[k] - tensor.DotInOrder(normal, q.x)) / size
		}
		for j := range q.active {
			if q.r[j] > 0 && q.multipliers[j]/q.r[j] < partial {
				partial, drop = q.multipliers[j]/q.r[j], j
			}
		}
		step := math.Min(full, partial)
		if !isFinite(step) {
			return false
		}
		for j := range q.active {
			q.multipliers[j] -= step * q.r[j]
		}
		multiplier += step
		if !math.IsInf(full, 1) {
			for i, v := range z {
				q.x[i] += step * v
			}
		}
		if full <= partial {
			q.multipliers[len(q.active)] = multiplier
			q.active = append(q.active, k)
			return true
		}
		copy(q.multipliers[drop:], q.multipliers[drop+1:len(q.active)])
		q.active = append(q.active[:drop], q.active[drop+1:]...)
	}
}

// split writes the coefficients r of the normal's projection onto the span of the active
// normals, and the rest z.
func (q *program) split(normal []float64) {
	n, k := len(normal), len(q.active)
	// Cholesky's factor of the Gram matrix.
	for i := range k {
		a := q.row(q.active[i])[:n]
		for j := range i + 1 {
			v := tensor.DotInOrder(a, q.row(q.active[j])[:n])
			for l := range j {
				v -= q.gram[i*k+l] * q.gram[j*k+l]
			}
			if i == j {
				q.gram[i*k+i] = math.Sqrt(v)
			} else {
				q.gram[i*k+j] = v / q.gram[j*k+j]
			}
		}
		v := tensor.DotInOrder(a, normal)
		for l := range i {
			v -= q.gram[i*k+l] * q.r[l]
		}
		q.r[i] = v / q.gram[i*k+i]
	}
	copy(q.z, normal)
	for i := k - 1; i >= 0; i-- {
		for l := i + 1; l < k; l++ {
			q.r[i] -= q.gram[l*k+i] * q.r[l]
		}
		q.r[i] /= q.gram[i*k+i]
		for l, v := range q.row(q.active[i])[:n] {
			q.z[l] -= q.r[i] * v
		}
	}
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
