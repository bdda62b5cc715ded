package equations

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/tensor"
)

// Errors of a step of the integrator are against two steps of half its length, in units of each state's scale.
const (
	remarkedError = 0.01
	refusedError  = 0.1
	// An implicit step damps what it does not resolve, so that its error passes.
	refusedImplicit = 0.5
	chosenError     = 1e-3 // what dual.Auto keeps unless Error says otherwise
	// A step is unstable where it enlarges deviations, by a factor that halved steps differ from by this share.
	unstableShare = 0.1
	squarings     = 6 // of a step's Jacobian: its power 64 shows its spectral radius

	walks         = 16
	walkSteps     = 64 // of a walk at most
	jacobianEvery = 16 // steps of walks
	heldAction    = 4  // steps in the mean
	narrowings    = 6  // of an action that violates a limit, towards Rest
	mostSubsteps  = 1024
	mostImplicit  = 64
	mostDoublings = 8  // in search of a number of substeps that would do
	finest        = 16 // implicit substeps where explicit ones are not finite
	// A walk ends so many widths of a state's range beyond it, or at so many times the largest start.
	widthsBeyond  = 0.25
	timesTheStart = 4.0
)

// integration is a check of a system's integrator. It visits states by random actions from random starts and clocks,
// to where a limit is violated or a state leaves its range.
type integration struct {
	y      System
	scale  []float64
	lo, hi []float64         // of the states that are visited
	hard   []bool            // of Margins
	values map[int][]float64 // of switched actions
}

// worstStep is the worst step of walks.
type worstStep struct {
	size            float64 // error; +Inf: not finite
	state           int
	s, u            []float64
	growth, refined float64 // of deviations where the step is unstable, by the step and by halved ones; else 0
}

func newIntegration(y System) *integration {
	given := y.StateScale != nil
	y.complete()
	k := &integration{y: y, scale: slices.Clone(y.StateScale), hard: slices.Repeat([]bool{true}, len(y.Margins)), values: map[int][]float64{}}
	for _, soft := range y.Soft {
		k.hard[slices.IndexFunc(y.Margins, func(v domain.Variable) bool { return v.Name == soft.Margin })] = false
	}
	for _, w := range y.Switches {
		k.values[slices.IndexFunc(y.Action, func(v domain.Variable) bool { return v.Name == w.Action })] = w.Values
	}
	largest := make([]float64, len(y.State))
	rng := k.random()
	for range trials {
		s, _ := k.start(rng)
		for i, v := range s {
			largest[i] = math.Max(largest[i], math.Abs(v))
		}
	}
	for i, v := range y.State {
		if !v.Bounded() {
			if !given {
				k.scale[i] = math.Max(1, largest[i])
			}
			beyond := timesTheStart * math.Max(k.scale[i], largest[i])
			k.lo, k.hi = append(k.lo, -beyond), append(k.hi, beyond)
			continue
		}
		beyond := widthsBeyond * (v.Hi - v.Lo)
		k.lo, k.hi = append(k.lo, v.Lo-beyond), append(k.hi, v.Hi+beyond)
	}
	return k
}

func (k *integration) random() *rand.Rand { return rand.New(rand.NewPCG(2, 0x696e7465677261)) } // "integra"

// start draws a start at a random clock.
func (k *integration) start(rng *rand.Rand) (s, c []float64) {
	y := &k.y
	p := make([]float64, len(y.Scenario))
	for i, v := range y.Scenario {
		p[i] = v.Lo + (v.Hi-v.Lo)*rng.Float64()
	}
	s, c = make([]float64, len(y.State)), make([]float64, len(y.Context), len(y.Context)+1)
	if y.Horizon == 0 {
		c = append(c, 0)
	}
	y.Initial(p, s, c)
	if y.Horizon == 0 {
		c[len(c)-1] = float64(rng.IntN(2)) * rng.Float64()
	}
	return s, c
}

// draw draws an action, half of them at an end of their box.
func (k *integration) draw(rng *rand.Rand, u []float64) {
	for i, a := range k.y.Action {
		switch values := k.values[i]; {
		case values != nil:
			u[i] = values[rng.IntN(len(values))]
		case !a.Bounded():
			u[i] = k.y.Rest[i] + rng.NormFloat64()
		case rng.IntN(2) == 0:
			u[i] = [2]float64{a.Lo, a.Hi}[rng.IntN(2)]
		default:
			u[i] = a.Lo + (a.Hi-a.Lo)*rng.Float64()
		}
	}
}

// with is the system with another integrator: of a number of substeps, or implicit.
func (k *integration) with(substeps int, implicit bool) System {
	y := k.y
	switch {
	case y.Stiff != nil:
		y.Stiff = &dual.Stiff{ODE: y.Stiff.ODE, Span: y.Stiff.Span, Substeps: substeps}
	case implicit:
		y.ODE, y.Stiff = nil, &dual.Stiff{ODE: y.ODE.Dual, Span: y.ODE.Span, Substeps: substeps}
	default:
		ode := *y.ODE
		ode.Substeps = substeps
		y.ODE = &ode
	}
	return y
}

// worst walks with an integrator and returns its worst step. It ends at the first one that is unstable or off by more
// than enough.
func (k *integration) worst(substeps int, implicit bool, enough float64) (w worstStep) {
	step, halved, fine := k.with(substeps, implicit), k.with(2*substeps, implicit), k.with(max(finest, 4*substeps), true)
	rng, visited := k.random(), 0
	next, better, m := make([]float64, len(k.scale)), make([]float64, len(k.scale)), make([]float64, len(k.hard))
	u := make([]float64, len(k.y.Action))
	for range walks {
		s, c := k.start(rng)
		for t := range min(k.y.Steps, walkSteps) {
			if t == 0 || rng.IntN(heldAction) == 0 {
				k.draw(rng, u)
			}
			if visited++; t == 0 || visited%jacobianEvery == 0 {
				w.destabilise(k, &step, &halved, s, c, u)
			}
			var sNext, cNext []float64
			for try := 0; sNext == nil && try <= narrowings; try++ {
				if try > 0 {
					k.narrow(rng, u)
				}
				integrate(&step, s, c, u, next)
				integrate(&halved, s, c, u, better)
				if !tensor.Finite(next) && !tensor.Finite(better) {
					if integrate(&fine, s, c, u, better); !tensor.Finite(better) {
						continue // so are the equations
					}
				}
				w.compare(k, s, u, next, better)
				sNext, cNext = k.advance(s, c, u, better, m)
			}
			if w.size > enough || w.growth > 0 {
				return w
			}
			if s, c = sNext, cNext; s == nil {
				break
			}
		}
	}
	return w
}

// narrow halves an action's distance to Rest, and draws the switched ones anew.
func (k *integration) narrow(rng *rand.Rand, u []float64) {
	for i, rest := range k.y.Rest {
		if values := k.values[i]; values != nil {
			u[i] = values[rng.IntN(len(values))]
		} else {
			u[i] = (u[i] + rest) / 2
		}
	}
}

// compare counts a step, next, that is better by halved ones.
func (w *worstStep) compare(k *integration, s, u, next, better []float64) {
	for i := range s {
		size := math.Abs(next[i]-better[i]) / k.scale[i]
		if math.IsNaN(size) {
			size = math.Inf(1)
		}
		if size > w.size {
			w.size, w.state, w.s, w.u = size, i, slices.Clone(s), slices.Clone(u)
		}
	}
}

// destabilise tests a step for stability.
func (w *worstStep) destabilise(k *integration, step, halved *System, s, c, u []float64) {
	radius, state := k.spectralRadius(step, s, c, u)
	if !(radius > 1) {
		return
	}
	if refined, _ := k.spectralRadius(halved, s, c, u); math.Abs(radius/refined-1) > unstableShare {
		w.growth, w.refined, w.state, w.s, w.u = radius, refined, state, slices.Clone(s), slices.Clone(u)
	}
}

// advance is the state and context after a step, nil where a walk ends.
func (k *integration) advance(s, c, u, next, m []float64) (sNext, cNext []float64) {
	y := &k.y
	sNext, cNext = slices.Clone(next), slices.Clone(c)
	if y.Real.Step != nil {
		y.Real.Step(s, c, u, sNext, cNext)
	}
	if len(m) > 0 {
		y.Real.Margins(s, c, u, sNext, m)
	}
	if y.Horizon == 0 {
		last := len(c) - 1
		cNext[last] = c[last] + 1/float64(y.Steps)
		if cNext[last] >= 1 {
			return nil, nil
		}
	}
	if !k.inside(sNext, m) {
		return nil, nil
	}
	return sNext, cNext
}

// inside reports whether a walk goes on from a state.
func (k *integration) inside(s, m []float64) bool {
	for i, v := range s {
		if !(v >= k.lo[i] && v <= k.hi[i]) {
			return false
		}
	}
	for i, v := range m {
		if k.hard[i] && !(v >= 0) {
			return false
		}
	}
	return true
}

// spectralRadius is that of a step's Jacobian by the state, in units of the states' scales, with the state that
// deviations grow in.
func (k *integration) spectralRadius(y *System, s, c, u []float64) (radius float64, state int) {
	n := len(s)
	wide := func(x []float64) []complex128 {
		z := make([]complex128, len(x))
		for i, v := range x {
			z[i] = complex(v, 0)
		}
		return z
	}
	zs, zc, zu, next := wide(s), wide(c), wide(u), make([]complex128, n)
	j, product := make([]float64, n*n), make([]float64, n*n)
	for column := range n {
		zs[column] = dual.Seed(s[column], k.scale[column])
		integrate(y, zs, zc, zu, next)
		zs[column] = complex(s[column], 0)
		for row, v := range next {
			j[row*n+column] = dual.Derivative(v) / k.scale[row]
		}
	}
	logarithm, power := 0.0, 1.0
	for square := range squarings + 1 {
		norm := 0.0
		for i, v := range j {
			if math.Abs(v) > norm {
				norm, state = math.Abs(v), i/n
			}
		}
		if norm == 0 || math.IsInf(norm, 0) || math.IsNaN(norm) {
			return norm, state
		}
		logarithm += math.Log(norm) / power
		if square == squarings {
			break
		}
		for i := range j {
			j[i] /= norm
		}
		clear(product)
		for row := range n {
			for l, v := range j[row*n : (row+1)*n] {
				if v != 0 {
					tensor.Axpy(v, j[l*n:(l+1)*n], product[row*n:(row+1)*n])
				}
			}
		}
		j, product = product, j
		power *= 2
	}
	return math.Exp(logarithm), state
}

// describe says what a step is off by.
func (w *worstStep) describe(y *System) string {
	span, name := 0.0, y.State[w.state].Name
	if y.ODE != nil {
		span = y.ODE.Span
	} else {
		span = y.Stiff.Span
	}
	text := fmt.Sprintf("one step of the integrator, %d × %.4g in the time of ode, ", *y.substeps(), span/float64(*y.substeps()))
	if math.IsInf(w.size, 1) {
		text += "is not finite in " + name
	} else {
		text += fmt.Sprintf("is off by %.3g %% of the scale of %s", 100*w.size, name)
	}
	if w.growth > 0 {
		text += fmt.Sprintf(", and unstable: a deviation of %s grows %.3g times in it, %.3g in two of half its length", name, w.growth, w.refined)
	}
	return text + fmt.Sprintf(" (at the state %.4g and the action %.4g)", w.s, w.u)
}

// fits reports whether walks with an integrator find no step that is unstable or off by more than size.
func (k *integration) fits(substeps int, implicit bool, size float64) bool {
	w := k.worst(substeps, implicit, size)
	return w.size <= size && w.growth == 0
}

// doubled is the first of first, 2·first, … to last with which it fits; 0: none.
func (k *integration) doubled(first, last int, implicit bool, size float64) int {
	for n := first; n <= last; n *= 2 {
		if k.fits(n, implicit, size) {
			return n
		}
	}
	return 0
}

// remedy says which integrator would do in place of one of so many substeps.
func (k *integration) remedy(substeps int) string {
	implicit := k.y.Stiff != nil
	var ways []string
	if n := k.doubled(2*substeps, substeps<<mostDoublings, implicit, remarkedError); n > 0 {
		ways = append(ways, fmt.Sprintf("substeps=%d", n))
	}
	if !implicit {
		if n := k.doubled(1, mostImplicit, true, remarkedError); n == 1 {
			ways = append(ways, "stiff=True")
		} else if n > 0 {
			ways = append(ways, fmt.Sprintf("stiff=True with substeps=%d", n))
		}
	}
	if ways == nil {
		return fmt.Sprintf("%d substeps are no better: are the equations smooth, and is the scale of the state its usual size?", substeps<<mostDoublings)
	}
	return fmt.Sprintf("give ode %s, with which it is at most 1 %% (in Go, Substeps of ODE, or Stiff; in a file, integrator)", strings.Join(ways, " or "))
}

// checkIntegrator walks with the integrator of a system. It returns a remark on steps that are not accurate, "" for
// none, and an error for those that are wrong. Functions that fail are reported by tryFunctions.
func (y *System) checkIntegrator() (remark string, err error) {
	substeps := y.substeps()
	if substeps == nil || y.checked {
		return "", nil
	}
	recovered(func() {
		k, refused := newIntegration(*y), refusedError
		if y.Stiff != nil {
			refused = refusedImplicit
		}
		w := k.worst(*substeps, y.Stiff != nil, refused)
		switch {
		case w.growth > 0 || w.size > refused:
			err = fmt.Errorf("%s: %s", w.describe(y), k.remedy(*substeps))
		case w.size > remarkedError:
			remark = fmt.Sprintf("%s: %s", w.describe(y), k.remedy(*substeps))
		}
	})
	return remark, err
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

// chooseSubsteps is the system with the number of substeps that it asks for by dual.Auto.
func (y System) chooseSubsteps() (System, error) {
	substeps := y.substeps()
	if substeps == nil || *substeps != dual.Auto {
		return y, nil
	}
	if err := y.validate(); err != nil {
		return y, err
	}
	size, implicit, most, n := chosenError, y.Stiff != nil, mostSubsteps, 1
	if implicit {
		most = mostImplicit
	}
	if requested := y.requestedError(); requested > 0 {
		size = requested
	}
	var k *integration
	failed := recovered(func() {
		k = newIntegration(y)
		n = k.doubled(1, most, implicit, size)
	})
	switch {
	case failed != nil:
		n = 1 // tryFunctions says what is wrong
	case n == 0 && !implicit && k.doubled(1, mostImplicit, true, size) > 0:
		return y, fmt.Errorf("system %q: no number of substeps up to %d keeps the error of a step below %v of the scale of each state, but stiff=True does (in Go, Stiff in place of ODE)", y.Name, most, size)
	case n == 0:
		return y, fmt.Errorf("system %q: no number of substeps up to %d keeps the error of a step below %v of the scale of each state: are the equations smooth, and are the scales the usual sizes?", y.Name, most, size)
	}
	z := (&integration{y: y}).with(n, implicit)
	y.ODE, y.Stiff = z.ODE, z.Stiff
	return y, nil
}

// requestedError is the error that dual.Auto is to keep; 0: the default.
func (y *System) requestedError() float64 {
	if y.ODE != nil {
		return y.ODE.Error
	}
	return y.Stiff.Error
}
