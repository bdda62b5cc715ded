package equations

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/tensor"
)

// Errors of a step of the integrator are in units of each state's scale, by two steps of half its length.
const (
	remarkedError   = 0.01
	refusedError    = 0.1
	refusedImplicit = 0.5  // an implicit step damps what it does not resolve, so that its error passes
	chosenError     = 1e-3 // what dual.Auto keeps unless Error says otherwise
	// A step is unstable where it enlarges deviations by this share, and halved steps enlarge them otherwise by it.
	unstableShare = 0.1
	iterations    = 64 // of a deviation, the second half of which counts

	walks, walkSteps = 16, 64
	heldAction       = 4    // steps in the mean
	narrowings       = 6    // of an action that violates a limit, towards Rest
	stabilityEvery   = 16   // steps
	mostExplicit     = 1024 // substeps that are tried
	mostImplicit     = 64
	fineImplicit     = 16 // at least, where explicit substeps are not finite
)

// badStep is the worst step that walks with an integrator have found.
type badStep struct {
	size            float64 // error; +Inf: not finite
	state           int
	s, u            []float64
	growth, refined float64 // of deviations where the step is unstable, by the step and by halved ones; else 0
}

// substeps are those of ODE or Stiff; 0 without either.
func (y *System) substeps() int {
	switch {
	case y.ODE != nil:
		return y.ODE.Substeps
	case y.Stiff != nil:
		return y.Stiff.Substeps
	}
	return 0
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
// states leave their ranges. It ends at a step that is unstable or off by more than limit.
func (p *Problem) worstStep(substeps int, implicit bool, limit float64) (w badStep) {
	y, visited := &p.system, 0
	step, halved, fine := y.integrated(substeps, implicit), y.integrated(2*substeps, implicit), y.integrated(max(fineImplicit, 4*substeps), true)
	rng := rand.New(rand.NewPCG(2, 0x696e7465677261)) // "integra"
	u, parameters := make([]float64, len(y.Action)), make([]float64, len(y.Scenario))
	for range walks {
		s, c := make([]float64, len(y.State)), make([]float64, len(p.spec.Context))
		domain.DrawScenario(rng, y.Scenario, parameters)
		if p.initial(parameters, s, c); p.clock >= 0 && rng.IntN(2) == 0 {
			c[p.clock] = rng.Float64()
		}
		for t := 0; t < min(y.Steps, walkSteps) && s != nil; t++ {
			if t == 0 || rng.IntN(heldAction) == 0 {
				p.drawAction(rng, u)
			}
			visited++
			unstable := t == 0 || visited%stabilityEvery == 0 // is to be tested
			var sNext, cNext []float64
			for try := 0; sNext == nil && try <= narrowings; try++ {
				if try > 0 {
					p.narrowAction(rng, u)
				}
				next, better := make([]float64, len(s)), make([]float64, len(s))
				integrate(&step, s, c, u, next)
				integrate(&halved, s, c, u, better)
				if !tensor.Finite(next) && !tensor.Finite(better) {
					if integrate(&fine, s, c, u, better); !tensor.Finite(better) {
						continue // so are the equations
					}
				}
				trial := w
				if unstable {
					trial.destabilise(p, &step, &halved, s, c, u)
				}
				trial.compare(p, s, u, next, better)
				if (trial.growth > 0 || trial.size > max(w.size, min(limit, remarkedError))) && p.leadsBeyond(&fine, s, c, u, next, better) {
					continue
				}
				if w, unstable = trial, false; w.size > limit || w.growth > 0 {
					return w
				}
				sNext, cNext = p.permitted(s, c, u, better)
			}
			s, c = sNext, cNext
		}
	}
	return w
}

// drawAction draws an action, half of them at an end of their box.
func (p *Problem) drawAction(rng *rand.Rand, u []float64) {
	for i, a := range p.spec.Action {
		if u[i] = a.Middle() + (a.Hi-a.Lo)*(2*rng.Float64()-1); !a.Bounded() {
			u[i] = p.system.Rest[i] + rng.NormFloat64()
		}
	}
	domain.Clip(u, u, p.spec.Action)
	if p.system.snapAction != nil {
		p.system.snapAction(u)
	}
}

// narrowAction halves an action's distance to Rest; with switches it draws another.
func (p *Problem) narrowAction(rng *rand.Rand, u []float64) {
	if p.system.snapAction != nil {
		p.drawAction(rng, u)
		return
	}
	for i, rest := range p.system.Rest {
		u[i] = (u[i] + rest) / 2
	}
}

// compare counts a step, next, of which better is more accurate. A large state without a range is its own scale.
func (w *badStep) compare(p *Problem, s, u, next, better []float64) {
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
			if w.size = size; w.growth == 0 {
				w.state, w.s, w.u = i, s, slices.Clone(u)
			}
		}
	}
}

// destabilise tests a step for stability.
func (w *badStep) destabilise(p *Problem, step, halved *System, s, c, u []float64) {
	growth, state := p.growth(step, s, c, u)
	if !(growth > 1+unstableShare) {
		return
	}
	if refined, _ := p.growth(halved, s, c, u); math.Abs(growth/refined-1) > unstableShare {
		*w = badStep{size: w.size, state: state, s: s, u: slices.Clone(u), growth: growth, refined: refined}
	}
}

// leadsBeyond reports whether an action leads beyond a hard limit, where no plan goes. Fine steps tell; where they are not
// finite, next and better.
func (p *Problem) leadsBeyond(fine *System, s, c, u, next, better []float64) bool {
	end := make([]float64, len(s))
	integrate(fine, s, c, u, end)
	one, other := p.hardMargins(s, c, u, next), p.hardMargins(s, c, u, better)
	for i, v := range p.hardMargins(s, c, u, end) {
		if v < 0 || math.IsNaN(v) && one[i] < 0 && other[i] < 0 {
			return true
		}
	}
	return false
}

// hardMargins are those of an action that leads to next, without rates.
func (p *Problem) hardMargins(s, c, u, next []float64) []float64 {
	m := make([]float64, len(p.system.Margins))
	if len(m) > 0 {
		p.system.Real.Margins(s, c, u, next, m)
	}
	if p.declared != nil {
		m = m[:len(p.declared.hard)]
	}
	return m
}

// permitted is the state and context after an action, nil beyond limits, ranges and the episode's end.
func (p *Problem) permitted(s, c, u, next []float64) (sNext, cNext []float64) {
	y, m := &p.system, p.hardMargins(s, c, u, next)
	if cNext = slices.Clone(c); y.Real.Step != nil {
		y.Real.Step(s, c, u, next, cNext)
	}
	if p.clock >= 0 {
		cNext[p.clock] = c[p.clock] + p.tick()
	}
	ends := len(m) > 0 && !(slices.Min(m) >= 0) || p.clock >= 0 && cNext[p.clock] >= 1
	for i, v := range y.State {
		ends = ends || !isFinite(next[i]) || v.Bounded() && (next[i] < v.Lo || next[i] > v.Hi)
	}
	if ends {
		return nil, nil
	}
	return next, cNext
}

// growth is how many times a step enlarges a deviation of the state, at last, in units of the states' scales.
func (p *Problem) growth(y *System, s, c, u []float64) (factor float64, state int) {
	n := len(s)
	z, next := make([]complex128, n+len(c)+len(u)), make([]complex128, n)
	domain.Constants(z, slices.Concat(s, c, u))
	zs, zc, zu := split(p, z)
	slopes, deviation, image := make([]float64, n*n), make([]float64, n), make([]float64, n) // slopes: [by][of]
	for k, scale := range y.StateScale {
		zs[k] = dual.Seed(s[k], scale)
		integrate(y, zs, zc, zu, next)
		zs[k] = complex(s[k], 0)
		for i, scale := range y.StateScale {
			slopes[k*n+i] = dual.Derivative(next[i]) / scale
		}
		deviation[k] = 1 / float64(1+k)
	}
	factor = 1
	for k := range iterations {
		clear(image)
		for i, v := range deviation {
			tensor.Axpy(v, slopes[i*n:(i+1)*n], image)
		}
		largest := 0.0
		for i, v := range image {
			if size := math.Abs(v); !(size <= largest) {
				largest, state = size, i
			}
		}
		if largest == 0 || !isFinite(largest) {
			return largest, state
		}
		for i, v := range image {
			deviation[i] = v / largest
		}
		if k >= iterations/2 {
			factor *= math.Pow(largest, 2./iterations)
		}
	}
	return factor, state
}

// leastSubsteps is the first of first, 2·first, … with which no step is unstable or off by more than size; 0: none.
func (p *Problem) leastSubsteps(first int, implicit bool, size float64) int {
	last := mostExplicit
	if implicit {
		last = mostImplicit
	}
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
	if p.switching != nil {
		p.remark = p.switching.inner.remark
	}
	y, n := &p.system, p.system.substeps()
	if n == 0 || y.unchecked || p.switching != nil {
		return nil
	}
	recovered(func() {
		stiff, refused, help := y.ODE == nil, refusedError, ""
		if stiff {
			refused = refusedImplicit
		}
		w := p.worstStep(n, stiff, refused)
		if w.size <= remarkedError && w.growth == 0 {
			return
		}
		if n := p.leastSubsteps(2*n, stiff, remarkedError); n > 0 {
			help = " or " + p.adviseSubsteps(n, false)
		}
		if n := p.leastSubsteps(1, true, remarkedError); n > 0 && !stiff {
			help += " or " + p.adviseSubsteps(n, true)
		}
		if help == "" {
			help = "more substeps are no better: are the equations smooth, and is the scale of the state its usual size?"
		} else {
			help = fmt.Sprintf("give %s, with which it is at most 1 %%", strings.TrimPrefix(help, " or "))
		}
		if text := w.describe(y) + ": " + help; w.growth > 0 || w.size > refused {
			err = errors.New(text)
		} else {
			p.remark = text
		}
	})
	return err
}

// adviseSubsteps says which integrator would do, in the words of Python and of system files, or of Go.
func (p *Problem) adviseSubsteps(n int, implicit bool) string {
	words := [2]string{"Substeps: %d of ODE", "Stiff in place of ODE, with Substeps: %d"}
	if s := p.original.Source; s != nil {
		if _, isFile := s.sourceText.(givenProgram); isFile {
			words = [2]string{"ode substeps=%d", "stiff=True with substeps=%d (method radau of a file's integrator)"}
		}
	}
	if implicit {
		return fmt.Sprintf(words[1], n)
	}
	return fmt.Sprintf(words[0], n)
}

// describe says what a step is off by.
func (w *badStep) describe(y *System) string {
	name := y.State[w.state].Name
	text := fmt.Sprintf("one step of the integrator (substeps=%d) is off by %.3g %% of the scale of %s", y.substeps(), 100*w.size, name)
	if math.IsInf(w.size, 1) {
		text = fmt.Sprintf("one step of the integrator (substeps=%d) is not finite in %s", y.substeps(), name)
	}
	if w.growth > 0 {
		text += fmt.Sprintf(", and unstable: a deviation of %s grows %.3g times in it, %.3g in two of half its length", name, w.growth, w.refined)
	}
	return text + fmt.Sprintf(" (at the state %.4g and the action %.4g)", w.s, w.u)
}

// chooseSubsteps makes the problem with the least number of substeps, in doublings, that keeps the Error of ODE or Stiff.
func (y System) chooseSubsteps() (p *Problem, err error) {
	stiff, size := y.ODE == nil, chosenError
	if stiff {
		size = cmp.Or(y.Stiff.Error, size)
	} else {
		size = cmp.Or(y.ODE.Error, size)
	}
	y.unchecked = true
	for _, n := range [2]int{1, mostImplicit} { // one of them may not be finite
		if p, err = New(y.integrated(n, false)); err == nil {
			break
		}
	}
	if y.unchecked = false; err != nil {
		return nil, err
	}
	if p.switching != nil {
		p = p.switching.inner
	}
	if n := p.leastSubsteps(1, stiff, size); n > 0 {
		return New(y.integrated(n, false))
	}
	return nil, fmt.Errorf("system %q: no number of substeps keeps the error of a step below %v of the scale of each state: try %s, or smooth equations", y.Name, size, p.adviseSubsteps(1, true))
}
