package equations

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/tensor"
)

// Errors of a step of the integrator are against two steps of half its length, in units of each state's scale; of a state
// without a range, or of its size where that is larger.
const (
	remarkedError   = 0.01
	refusedError    = 0.1
	refusedImplicit = 0.5  // an implicit step damps what it does not resolve, so that its error passes
	chosenError     = 1e-3 // what dual.Auto keeps unless Error says otherwise
	// A step is unstable where it enlarges deviations, by a factor that halved steps differ from by this share.
	unstableShare = 0.1
	iterations    = 16 // of a deviation, the second half of which counts

	walks, walkSteps = 16, 64
	heldAction       = 4    // steps in the mean
	narrowings       = 6    // of an action that violates a limit, towards Rest
	stabilityEvery   = 16   // steps
	mostExplicit     = 1024 // substeps that are tried
	mostImplicit     = 64
	fineSubsteps     = 16 // implicit, at least, where explicit ones are not finite
)

// badStep is the worst step that walks with an integrator have found.
type badStep struct {
	size            float64 // error; +Inf: not finite
	state           int
	s, u            []float64
	growth, refined float64 // of deviations where the step is unstable, by the step and by halved ones; else 0
}

// substeps are those of ODE or Stiff; nil without either.
func (y *System) substeps() *int {
	switch {
	case y.ODE != nil:
		return &y.ODE.Substeps
	case y.Stiff != nil:
		return &y.Stiff.Substeps
	}
	return nil
}

// integrated is the system with another integrator: of a number of substeps, or implicit.
func (y System) integrated(substeps int, implicit bool) System {
	switch ode := y.ODE; {
	case ode == nil:
		y.Stiff = &dual.Stiff{ODE: y.Stiff.ODE, Span: y.Stiff.Span, Substeps: substeps}
	case implicit:
		y.ODE, y.Stiff = nil, &dual.Stiff{ODE: ode.Dual, Span: ode.Span, Substeps: substeps}
	default:
		y.ODE = &dual.Explicit{Real: ode.Real, Dual: ode.Dual, Span: ode.Span, Substeps: substeps}
	}
	return y
}

// worstStep walks with an integrator by random actions from random starts and clocks, to where limits are violated or
// states leave their ranges. It ends at a step that is unstable or off by more than enough.
func (p *Problem) worstStep(substeps int, implicit bool, enough float64) (w badStep) {
	y, nc := &p.system, len(p.spec.Context)
	step, halved, fine := y.integrated(substeps, implicit), y.integrated(2*substeps, implicit), y.integrated(max(fineSubsteps, 4*substeps), true)
	rng, visited := rand.New(rand.NewPCG(2, 0x696e7465677261)), 0 // "integra"
	u := make([]float64, len(y.Action))
	for range walks {
		parameters, s, c := make([]float64, len(y.Scenario)), make([]float64, len(y.State)), make([]float64, nc)
		for i, v := range y.Scenario {
			parameters[i] = v.Lo + (v.Hi-v.Lo)*rng.Float64()
		}
		if p.initial(parameters, s, c); p.clock >= 0 && rng.IntN(2) == 0 {
			c[p.clock] = rng.Float64()
		}
		for t := 0; t < min(y.Steps, walkSteps) && s != nil; t++ {
			if t == 0 || rng.IntN(heldAction) == 0 {
				p.drawAction(rng, u)
			}
			if visited++; t == 0 || visited%stabilityEvery == 0 {
				if growth, state := p.growth(&step, s, c, u); growth > 1 {
					if refined, _ := p.growth(&halved, s, c, u); math.Abs(growth/refined-1) > unstableShare {
						w = badStep{w.size, state, s, slices.Clone(u), growth, refined}
					}
				}
			}
			from, context := s, c
			for try := 0; ; try++ {
				next, better := make([]float64, len(from)), make([]float64, len(from))
				integrate(&step, from, c, u, next)
				integrate(&halved, from, c, u, better)
				if !tensor.Finite(next) && !tensor.Finite(better) { // where finer steps are not either, the equations are not
					integrate(&fine, from, c, u, better)
				}
				if w.compare(p, from, u, next, better); w.size > enough || w.growth > 0 {
					return w
				}
				if s, c = p.within(from, context, u, better); s != nil || try == narrowings {
					break
				}
				c = context
				for i, rest := range y.Rest {
					u[i] = (u[i] + rest) / 2
				}
				if y.snapAction != nil {
					p.drawAction(rng, u)
				}
			}
		}
	}
	return w
}

// drawAction draws an action, half of them at an end of their box.
func (p *Problem) drawAction(rng *rand.Rand, u []float64) {
	for i, a := range p.spec.Action {
		if u[i] = (a.Lo+a.Hi)/2 + (a.Hi-a.Lo)*(2*rng.Float64()-1); !a.Bounded() {
			u[i] = p.system.Rest[i] + rng.NormFloat64()
		}
	}
	domain.Clip(u, u, p.spec.Action)
	if p.system.snapAction != nil {
		p.system.snapAction(u)
	}
}

// compare counts a step, next, of which better is more accurate.
func (w *badStep) compare(p *Problem, s, u, next, better []float64) {
	if !tensor.Finite(better) && !tensor.Finite(next) {
		return
	}
	for i, v := range p.system.State {
		scale := p.system.StateScale[i]
		if !v.Bounded() {
			scale = math.Max(scale, math.Abs(s[i]))
		}
		size := math.Abs(next[i]-better[i]) / scale
		if math.IsNaN(size) {
			size = math.Inf(1)
		}
		if size > w.size {
			w.size, w.state, w.s, w.u = size, i, slices.Clone(s), slices.Clone(u)
		}
	}
}

// within is the state and context after an action, where that is within limits and ranges; else nil.
func (p *Problem) within(s, c, u, next []float64) (sNext, cNext []float64) {
	y, m := &p.system, make([]float64, len(p.system.Margins))
	cNext = slices.Clone(c)
	if y.Real.Step != nil {
		y.Real.Step(s, c, u, next, cNext)
	}
	if p.clock >= 0 {
		cNext[p.clock] = c[p.clock] + p.tick()
	}
	if len(m) > 0 {
		y.Real.Margins(s, c, u, next, m)
	}
	if p.declared != nil {
		m = m[:len(p.declared.hard)] // without rates
	}
	for i, v := range y.State {
		if !isFinite(next[i]) || v.Bounded() && (next[i] < v.Lo || next[i] > v.Hi) {
			return nil, nil
		}
	}
	if len(m) > 0 && !(slices.Min(m) >= 0) || p.clock >= 0 && cNext[p.clock] >= 1 {
		return nil, nil
	}
	return next, cNext
}

// growth is how many times a step enlarges a deviation of the state, at last, in units of the states' scales.
func (p *Problem) growth(y *System, s, c, u []float64) (factor float64, state int) {
	z, next, v := make([]complex128, len(s)+len(c)+len(u)), make([]complex128, len(s)), make([]float64, len(s))
	for i, x := range slices.Concat(s, c, u) {
		z[i] = complex(x, 0)
	}
	zs, zc, zu := split(p, z)
	for i := range v {
		v[i] = 1 / float64(1+i)
	}
	factor = 1
	for k := range iterations {
		largest := 0.0
		for i, scale := range y.StateScale {
			zs[i] = dual.Seed(s[i], v[i]*scale)
		}
		integrate(y, zs, zc, zu, next)
		for i, scale := range y.StateScale {
			v[i] = dual.Derivative(next[i]) / scale
			if size := math.Abs(v[i]); !(size <= largest) {
				largest, state = size, i
			}
		}
		if largest == 0 || !isFinite(largest) {
			return largest, state
		}
		for i := range v {
			v[i] /= largest
		}
		if k >= iterations/2 {
			factor *= math.Pow(largest, 2./iterations)
		}
	}
	return factor, state
}

// enoughSubsteps is the first of first, 2·first, … to last with which no step is unstable or off by more than size; 0: none.
func (p *Problem) enoughSubsteps(first, last int, implicit bool, size float64) int {
	for n := first; n <= last; n *= 2 {
		if w := p.worstStep(n, implicit, size); w.size <= size && w.growth == 0 {
			return n
		}
	}
	return 0
}

// checkIntegrator walks with the system's integrator. It writes a remark on steps that are not accurate, and returns an
// error for those that are wrong. Functions that fail are reported by tryFunctions.
func (p *Problem) checkIntegrator() (err error) {
	y, n := &p.system, p.system.substeps()
	if n == nil || y.unchecked {
		return nil
	}
	if p.switching != nil {
		p.remark = p.switching.inner.remark
		return nil
	}
	recovered(func() {
		stiff, refused, most := y.ODE == nil, refusedError, mostExplicit
		if stiff {
			refused, most = refusedImplicit, mostImplicit
		}
		w := p.worstStep(*n, stiff, refused)
		if w.size <= remarkedError && w.growth == 0 {
			return
		}
		var ways []string
		if n := p.enoughSubsteps(2**n, most, stiff, remarkedError); n > 0 {
			ways = append(ways, fmt.Sprintf("substeps=%d", n))
		}
		if n := p.enoughSubsteps(1, mostImplicit, true, remarkedError); n > 0 && !stiff {
			ways = append(ways, strings.TrimSuffix(fmt.Sprintf("stiff=True with substeps=%d", n), " with substeps=1"))
		}
		help := fmt.Sprintf("give ode %s, with which it is at most 1 %% (in Go, Substeps of ODE, or Stiff; in a file, integrator)", strings.Join(ways, " or "))
		if ways == nil {
			help = fmt.Sprintf("no number of substeps up to %d is enough: are the equations smooth, and is the scale of the state its usual size?", most)
		}
		if text := w.describe(y) + ": " + help; w.growth > 0 || w.size > refused {
			err = fmt.Errorf("%s", text)
		} else {
			p.remark = text
		}
	})
	return err
}

// describe says what a step is off by.
func (w *badStep) describe(y *System) string {
	name, n, span := y.State[w.state].Name, *y.substeps(), 0.0
	if y.ODE != nil {
		span = y.ODE.Span
	} else {
		span = y.Stiff.Span
	}
	text := fmt.Sprintf("one step of the integrator, %d × %.4g in the time of ode, is off by %.3g %% of the scale of %s", n, span/float64(n), 100*w.size, name)
	text = strings.Replace(text, "off by +Inf % of the scale of", "not finite in", 1)
	if w.growth > 0 {
		text += fmt.Sprintf(", and unstable: a deviation of %s grows %.3g times in it, %.3g in two of half its length", name, w.growth, w.refined)
	}
	return text + fmt.Sprintf(" (at the state %.4g and the action %.4g)", w.s, w.u)
}

// chooseSubsteps makes the problem with the least number of substeps, in doublings, that keeps the Error of ODE or Stiff.
func (y System) chooseSubsteps() (*Problem, error) {
	most, size := mostExplicit, chosenError
	if y.ODE != nil {
		size = cmp.Or(y.ODE.Error, size)
	} else {
		most, size = mostImplicit, cmp.Or(y.Stiff.Error, size)
	}
	y.unchecked = true
	p, err := New(y.integrated(1, false))
	if err != nil { // nor may the finest be finite
		p, err = New(y.integrated(most, false))
	}
	if y.unchecked = false; err != nil {
		return nil, err
	}
	if p.switching != nil {
		p = p.switching.inner
	}
	if n := p.enoughSubsteps(1, most, y.ODE == nil, size); n > 0 {
		return New(y.integrated(n, false))
	}
	return nil, fmt.Errorf("system %q: no number of substeps up to %d keeps the error of a step below %v of the scale of each state: try stiff=True (in Go, Stiff), or smooth equations", y.Name, most, size)
}
