package equations

import (
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/domain/dual"
	"github.com/gpc-engine/gpc/tensor"
)

// curved is what Linearise and Curvature compute in: the step of an action, then those of the
// escape after it. Of a step, which is ODE's or Stiff's, package dual knows the derivatives. What
// follows it, objectives, margins and context, is a function of (s, c, u, sNext) that costs little,
// and so is the escape's action, of (s, c).
type curved struct {
	p     *Problem
	known structure
	steps []curvedStep
	next  []float64

	// Of the present call: the number of inputs to differentiate by, and which entries of
	// (s, c, u, sNext) move with them: all but those of c that never do. actions and nexts are
	// where those of u and of sNext begin in vary.
	n              int
	vary           []int
	actions, nexts int
	sizes          []float64 // [len(vary)]

	after, away      dual.Curvature // of what follows a step, and of the escape's action
	cNext, j, m, u   []complex128
	costs            bool      // whether objectives are wanted of the present step
	w, z             []float64 // weights of j and m in it; z nil: m has none
	ofNext, ofAction []float64 // of cNext and of the escape's action
	back             []float64 // adjoint of what a step leads to, (sNext, cNext)
	adjoint          []float64 // of its s, c and u
	slopes, jacobian []float64
}

// curvedStep is one step, along the directions of the call's inputs.
type curvedStep struct {
	x     []complex128 // s, c, u and sNext, without derivatives
	along []float64    // [len(vary)][n]
	tape  *dual.Tape   // nil: the step is Stiff's
}

// structure is where the functions of a system with ODE have derivatives at all.
type structure struct {
	ode         *dual.Structure
	after, away *dual.Pattern
}

// newCurved makes the workspace, with what is known of the structure.
func (p *Problem) newCurved(known structure) *curved {
	ns, nc, nu := len(p.spec.Measured), len(p.spec.Context), len(p.spec.Action)
	inputs := ns + nc + nu
	k := &curved{
		p: p, steps: make([]curvedStep, 1+p.system.EscapeSteps), next: make([]float64, ns),
		cNext: make([]complex128, nc), j: make([]complex128, len(p.spec.Objectives)), m: make([]complex128, len(p.system.Margins)), u: make([]complex128, nu),
		back: make([]float64, ns+nc), adjoint: make([]float64, inputs), slopes: make([]float64, inputs+ns),
	}
	for i := range k.steps {
		k.steps[i].x = make([]complex128, inputs+ns)
		if p.system.ODE != nil {
			k.steps[i].tape = p.system.ODE.Tape(ns, nc, nu, known.ode)
		}
	}
	k.known = known
	k.after = dual.Curvature{F: func(x []complex128) float64 {
		k.follow(x)
		sum := weigh(k.ofNext, k.cNext) - weigh(k.z, k.m)
		if k.costs {
			sum += weigh(k.w, k.j)
		}
		return sum
	}}
	k.away = dual.Curvature{F: func(x []complex128) float64 {
		k.escape(x)
		return weigh(k.ofAction, k.u)
	}}
	return k
}

// weigh is wᵀ of the derivatives of x, times dual.Step.
func weigh(w []float64, x []complex128) float64 {
	sum := 0.0
	for i, v := range w {
		sum += v * imag(x[i])
	}
	return sum
}

// The structure is that of so many points, scattered around starts by a share of the sizes.
const (
	lessons = 16
	scatter = 0.3
)

// learn finds the structure near some starts, (s, c, u) each: nothing where a function of the system
// does not take the points.
func (p *Problem) learn(starts [][]float64) (known structure) {
	if within(func() { known = p.structureNear(starts) }) != nil {
		return structure{}
	}
	return known
}

func (p *Problem) structureNear(starts [][]float64) structure {
	y := &p.system
	ns, nc, nu := len(p.spec.Measured), len(p.spec.Context), len(p.spec.Action)
	inputs := ns + nc + nu
	rng := rand.New(rand.NewPCG(2, 0x6375727665)) // "curve"
	some := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	sizes := slices.Concat(y.StateScale, slices.Repeat([]float64{1}, nc), p.half, y.StateScale)
	known := structure{after: dual.NewPattern(inputs + ns), away: dual.NewPattern(ns + nc)}
	k := p.newCurved(structure{})
	k.costs = true
	k.w, k.z, k.ofNext, k.ofAction = some(len(k.j)), some(len(k.m)), some(nc), some(nu)
	var points [][]float64
	for _, start := range starts[:min(lessons, len(starts))] {
		x := slices.Concat(start[:inputs], start[:ns])
		for i, size := range sizes {
			x[i] += scatter * size * rng.NormFloat64()
		}
		x[ns+p.clock] = rng.Float64()
		points = append(points, x[:inputs])
		k.after.Learn(known.after, x, sizes)
		if y.Dual.Escape != nil {
			k.away.Learn(known.away, x[:ns+nc], sizes[:ns+nc])
		}
	}
	known.ode = y.ODE.Structure(points, sizes[:inputs], ns, nc)
	return known
}

// add is Add of one of the functions, by what is known where that holds.
func (k *curved) add(f *dual.Curvature, known *dual.Pattern, x []complex128, entries int, along, h []float64) (slopes []float64) {
	vary, sizes, slopes := k.vary[:entries], k.sizes[:entries], k.slopes[:entries]
	f.Slopes(x, vary, slopes)
	if f.Pattern = known; known != nil && f.Exceeds(known, x, vary, slopes, sizes) {
		f.Pattern = nil
	}
	f.Add(x, vary, slopes, sizes, along, k.n, h)
	return slopes
}

// follow evaluates what follows a step at x = (s, c, u, sNext): the objectives where they are wanted.
func (k *curved) follow(x []complex128) {
	of := &k.p.system.Dual
	s, c, u, next := k.split(x)
	k.remember(x)
	if k.costs {
		of.Objectives(s, c, u, next, k.j)
	}
	if len(k.m) > 0 {
		of.Margins(s, c, u, next, k.m)
	}
}

// remember evaluates the context after a step, but for the clock's advance.
func (k *curved) remember(x []complex128) {
	s, c, u, next := k.split(x)
	copy(k.cNext, c)
	if step := k.p.system.Dual.Step; step != nil {
		step(s, c, u, next, k.cNext)
		k.cNext[k.p.clock] = c[k.p.clock]
	}
}

// escape evaluates its action in x = (s, c).
func (k *curved) escape(x []complex128) {
	ns := len(k.next)
	escapeTo(k.p, &k.p.system.Dual, x[:ns], x[ns:ns+len(k.cNext)], k.u)
}

// split views x as s, c, u and sNext.
func (k *curved) split(x []complex128) (s, c, u, next []complex128) {
	end := len(x) - len(k.next)
	s, c, u = split(k.p, x[:end:end])
	return s, c, u, x[end:]
}

// begin makes the first step, of which a unit of each input is its entry of size.
func (k *curved) begin(s, c, u []float64, by []int, size []float64) {
	ns, contexts, inputs := len(s), len(s)+len(c), len(s)+len(c)+len(u)
	k.n, k.vary, k.sizes = len(by), k.vary[:0], k.sizes[:0]
	remembers := len(k.steps) > 1 && k.p.system.Dual.Step != nil
	for a := range inputs + ns {
		moves := a < ns || a >= contexts || slices.Contains(by, a) || remembers && a != ns+k.p.clock
		if a == contexts {
			k.actions = len(k.vary)
		}
		if a == inputs {
			k.nexts = len(k.vary)
		}
		if moves {
			of := a
			if a >= inputs {
				of -= inputs
			}
			k.vary, k.sizes = append(k.vary, a), append(k.sizes, size[of])
		}
	}
	for i := range k.steps {
		t := &k.steps[i]
		t.along = slices.Grow(t.along[:0], len(k.vary)*k.n)[:len(k.vary)*k.n]
	}
	first := &k.steps[0]
	widen(first.x, s)
	widen(first.x[ns:], c)
	widen(first.x[contexts:], u)
	clear(first.along[:k.nexts*k.n])
	for q, b := range by {
		first.along[slices.Index(k.vary, b)*k.n+q] = size[b]
	}
	if first.tape != nil {
		k.step(0)
		return
	}
	k.jacobian = slices.Grow(k.jacobian[:0], ns*k.n)[:ns*k.n]
	k.p.system.Stiff.Jacobian(s, c, u, by, k.next, k.jacobian)
	for i, to := 0, first.along[k.nexts*k.n:]; i < len(to); i++ {
		to[i] = size[by[i%k.n]] * k.jacobian[i]
	}
	widen(first.x[inputs:], k.next)
}

// step takes step t from its s, c and u by ODE.
func (k *curved) step(t int) {
	at := &k.steps[t]
	end := len(at.x) - len(k.next)
	at.tape.Forward(at.x[:end], k.vary[:k.nexts], at.along[:k.nexts*k.n], k.sizes[:k.nexts], k.n, k.next, at.along[k.nexts*k.n:])
	widen(at.x[end:], k.next)
}

// goOn makes step t of the escape from the one before it, whose x and along are known.
func (k *curved) goOn(t int) {
	from, to, ns := &k.steps[t-1], &k.steps[t], len(k.next)
	contexts := ns + len(k.cNext)
	copy(to.x, from.x[len(from.x)-ns:])
	copy(to.along, from.along[k.nexts*k.n:])
	k.remember(from.x)
	copy(to.x[ns:], k.cNext)
	to.x[ns+k.p.clock] += complex(k.p.tick(), 0)
	ofContext := to.along[ns*k.n : k.actions*k.n]
	if k.p.system.Dual.Step == nil {
		copy(ofContext, from.along[ns*k.n:k.actions*k.n])
	} else {
		clear(ofContext)
		k.spread(from, len(k.vary), func() { k.remember(from.x) }, func(i int, along []float64) {
			for r, a := range k.vary[ns:k.actions] {
				addTo(ofContext[r*k.n:(r+1)*k.n], k.cNext[a-ns], along)
			}
		})
	}
	k.escape(to.x)
	copy(to.x[contexts:], k.u)
	ofAction := to.along[k.actions*k.n : k.nexts*k.n]
	clear(ofAction)
	k.spread(to, k.actions, func() { k.escape(to.x) }, func(i int, along []float64) {
		for r, v := range k.u {
			addTo(ofAction[r*k.n:(r+1)*k.n], v, along)
		}
	})
	k.step(t)
}

// spread calls f with a derivative in each of the first entries of vary in turn, and see with
// the directions of that entry.
func (k *curved) spread(t *curvedStep, entries int, f func(), see func(i int, along []float64)) {
	for i, a := range k.vary[:entries] {
		at := t.x[a]
		t.x[a] = complex(real(at), dual.Step)
		f()
		t.x[a] = at
		see(i, t.along[i*k.n:(i+1)*k.n])
	}
}

// addTo adds the derivative of v times along to row.
func addTo(row []float64, v complex128, along []float64) {
	if d := dual.Derivative(v); d != 0 {
		for q, x := range along {
			row[q] += d * x
		}
	}
}

// Linearise implements domain.Curved where the system has ODE, or Stiff and no Escape.
func (p *Problem) Linearise(s, c, u []float64, by []int, size, next, j, margins []float64) bool {
	if !p.curves() {
		return false
	}
	work := p.borrow()
	defer p.works.Put(work)
	k := work.curves(p)
	k.begin(s, c, u, by, size)
	n, ns, nm := len(by), len(s), len(k.m)
	copy(next[:ns*n], k.steps[0].along[k.nexts*n:])
	ofContext, objectives := next[ns*n:(ns+len(c))*n], j[:len(k.j)*n]
	clear(ofContext)
	clear(objectives)
	for t := range k.steps {
		if t > 0 {
			k.goOn(t)
		}
		at := &k.steps[t]
		ofMargins := margins[t*nm*n : (t+1)*nm*n]
		clear(ofMargins)
		k.costs = t == 0
		k.spread(at, len(k.vary), func() { k.follow(at.x) }, func(i int, along []float64) {
			for r, v := range k.m {
				addTo(ofMargins[r*n:(r+1)*n], v, along)
			}
			if t > 0 {
				return
			}
			for r, v := range k.j {
				addTo(objectives[r*n:(r+1)*n], v, along)
			}
			for r, v := range k.cNext {
				addTo(ofContext[r*n:(r+1)*n], v, along)
			}
		})
	}
	return true
}

// Curvature implements domain.Curved where Linearise does. Steps of the escape behind the last
// one whose margins are weighed are not taken, and none where all are far.
func (p *Problem) Curvature(s, c, u []float64, by []int, size, w, lambda, z []float64, far bool, h []float64) bool {
	if !p.curves() {
		return false
	}
	work := p.borrow()
	defer p.works.Put(work)
	k := work.curves(p)
	n, ns, nm := len(by), len(s), len(k.m)
	contexts := ns + len(c)
	h = h[:n*n]
	clear(h)
	last := len(k.steps) - 1
	if far = far && p.system.ODE != nil; far {
		last = 0
	}
	for last > 0 && tensor.AllZero(z[last*nm:(last+1)*nm]) {
		last--
	}
	k.begin(s, c, u, by, size)
	for t := 1; t <= last; t++ {
		k.goOn(t)
	}
	clear(k.back)
	k.w = w
	for t := last; t >= 0; t-- {
		at := &k.steps[t]
		if k.costs = t == 0; k.costs {
			for i, v := range lambda {
				k.back[i] += v
			}
		}
		if k.z, k.ofNext = z[t*nm:(t+1)*nm], k.back[ns:]; far {
			k.z = nil
		}
		slopes := k.add(&k.after, k.known.after, at.x, len(k.vary), at.along, h)
		ofNext := k.back[:ns]
		for i, v := range slopes[k.nexts:] {
			ofNext[i] += v / dual.Step
		}
		if at.tape == nil {
			p.system.Stiff.AddCurvature(s, c, u, ofNext, by, size, h)
			break
		}
		clear(k.adjoint)
		for i, a := range k.vary[:k.nexts] {
			k.adjoint[a] = slopes[i] / dual.Step
		}
		at.tape.Backward(ofNext, k.adjoint, h)
		if t == 0 {
			break
		}
		k.ofAction = k.adjoint[contexts:]
		for i, slope := range k.add(&k.away, k.known.away, at.x[:contexts], k.actions, at.along, h) {
			k.adjoint[k.vary[i]] += slope / dual.Step
		}
		copy(k.back, k.adjoint)
	}
	return true
}
