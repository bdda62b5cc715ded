package backendtest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// Constants of the checks of a system as such.
const (
	// startsChecked are the starts that limits and ranges are checked at.
	startsChecked = 32
	walkSteps     = 60 // of a random walk from each, at most
	// unlike is the ratio of two objectives' mean sizes beyond which a preference
	// between them says nothing.
	unlike = 1e5
	// bigState and smallState bound the size of a state that has no range and whose
	// scale is therefore taken to be 1.
	bigState, smallState = 100, 1e-3
	// farAway, in widths of a state's range from its middle, is where doing nothing
	// should not lead.
	farAway = 2.0
	// unboundedBy is how many times farther out an objective is looked at again: one that falls by more
	// than in proportion falls without end.
	unboundedBy = 10.0
	// A kink is a change of slope by this share of the function's size and slope.
	kinkShare = 1e-2
	// halvings narrow a segment to where its second difference is largest.
	halvings = 20
)

// starts are states that episodes begin in.
func starts(c domain.Case) (points []point, err error) {
	spec := c.Problem.Spec()
	for index := range startsChecked {
		episode, err := c.Plant.Episode(domainSeed, index, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}})
		if err != nil {
			return nil, fmt.Errorf("episode %d: %w", index, err)
		}
		p := point{make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())}
		episode.Observe(p.s, p.c)
		points = append(points, p)
	}
	return points, nil
}

// checkStarts holds the starts to the limits, and to the ranges that Spec gives of states.
func checkStarts(p domain.Problem, points []point) (errs []error) {
	spec := p.Spec()
	m := make([]float64, len(spec.Margins))
	lost := make([]int, len(m))
	least := make([]float64, len(m))
	without := 0
	for _, at := range points {
		u := slices.Clone(at.u)
		if p.Fallback(at.s, at.c, u); p.Project(at.s, at.c, u) {
			continue
		}
		without++
		p.Margins(at.s, at.c, u, m)
		for i, v := range m {
			if v < -spec.MarginTolerance {
				lost[i]++
				least[i] = math.Min(least[i], v)
			}
		}
	}
	if without > len(points)/4 {
		var which []string
		for i, n := range lost {
			if n > 0 {
				which = append(which, fmt.Sprintf("%s in %d of them, down to %.3g", name(spec.Margins, "margin", i), n, least[i]))
			}
		}
		errs = append(errs, fmt.Errorf("at %d of %d starts no action keeps the limits for one step: %s. A margin is ≥ 0 where its limit is kept (limit − value, not value − limit); starts have to lie within the limits, with the room that stopping takes", without, len(points), strings.Join(which, "; ")))
	}
	errs = append(errs, checkLimitsAtStarts(p, points)...)
	for i, v := range spec.Measured {
		sum, beyond := 0.0, 0
		for _, at := range points {
			sum += math.Abs(at.s[i]) / float64(len(points))
			if width := v.Hi - v.Lo; v.Bounded() && (at.s[i] < v.Lo-width || at.s[i] > v.Hi+width) {
				beyond++
			}
		}
		switch {
		case beyond > len(points)/2:
			errs = append(errs, fmt.Errorf("%s has the range [%g, %g] %s and is about %.3g at the starts: is one of them in another unit?", name(spec.Measured, "state", i), v.Lo, v.Hi, v.Unit, sum))
		case !v.Bounded() && (sum > bigState*v.Scale() || sum > 0 && sum < smallState*v.Scale()):
			errs = append(errs, fmt.Errorf("%s is about %.3g %s at the starts and has no range, so that its scale is taken to be %g: give it Lo and Hi, a StateScale, or another unit", name(spec.Measured, "state", i), sum, v.Unit, v.Scale()))
		}
	}
	return errs
}

// checkLimitsAtStarts finds limits of the state that starts are beyond: where a map is to keep a limit, no
// episode may begin outside it.
func checkLimitsAtStarts(p domain.Problem, points []point) (errs []error) {
	spec := p.Spec()
	m, other, may := make([]float64, len(spec.Margins)), make([]float64, len(spec.Margins)), domain.AbilitiesOfProblem(p)
	beyond, least := make([]int, len(m)), make([]float64, len(m))
	for _, at := range points {
		if of, ok := p.(limitsInPlace); ok {
			of.MarginsInPlace(at.s, at.c, m)
		} else {
			u := slices.Clone(at.u)
			p.Fallback(at.s, at.c, u)
			domain.StateMargins(p, may, at.s, at.c, u, m, other)
		}
		for i, v := range m {
			if v < -spec.MarginTolerance {
				beyond[i]++
				least[i] = math.Min(least[i], v)
			}
		}
	}
	for i, n := range beyond {
		if n > 0 {
			errs = append(errs, fmt.Errorf("%s is broken where episodes begin, at %d of %d starts, down to %.3g: draw starts within the limits (Scenario, Initial), or write the limit with the room that these starts need", name(spec.Margins, "margin", i), n, len(points), least[i]))
		}
	}
	return errs
}

// limitsInPlace is a problem that can say what its limits of the next state are of the present one;
// equations is.
type limitsInPlace interface {
	MarginsInPlace(s, c, m []float64)
}

// unbounded finds an objective that falls faster than in proportion, the farther an action without a box
// or a state is moved: nothing is best then, and the solver ends where its iterations do.
func unbounded(p domain.Problem, points []point, size []float64) (errs []error) {
	spec := p.Spec()
	j := make([]float64, spec.ObjectiveSize())
	found := make([]string, len(j))
	falls := func(k int, of string, place func(far float64) point) {
		value := func(far float64) float64 {
			at := place(far)
			p.Objectives(at.s, at.u, at.c, j)
			return j[k]
		}
		near, far := value(unboundedBy), value(unboundedBy*unboundedBy)
		if near < -size[k] && far < unboundedBy*unboundedBy/2*near {
			found[k] = fmt.Sprintf("it is %.3g and %.3g where %s is moved by 10 and by 100 of its ranges", near, far, of)
		}
	}
	for _, start := range points[:min(len(points), 4)] {
		for k := range j {
			for i, a := range spec.Action {
				for _, side := range []float64{1, -1} {
					if !a.Bounded() {
						falls(k, name(spec.Action, "action", i), func(far float64) point {
							at := start.clone()
							at.u[i] += side * far * a.Scale()
							return at
						})
					}
				}
			}
			for i, v := range spec.Measured {
				for _, side := range []float64{1, -1} {
					falls(k, name(spec.Measured, "state", i), func(far float64) point {
						at := start.clone()
						at.s[i] += side * far * v.Scale()
						return at
					})
				}
			}
		}
	}
	for k, why := range found {
		if why != "" {
			errs = append(errs, fmt.Errorf("%s has no least value: %s. Write a cost that is at least 0, such as (v − v_max)² in place of −v²", name(spec.Objectives, "objective", k), why))
		}
	}
	return errs
}

// checkEffects finds actions without effect, objectives that no action changes, and
// objectives that cannot be weighed against each other.
func checkEffects(p domain.Problem, points []point) (errs []error) {
	spec := p.Spec()
	moves, counts := make([]bool, spec.ActionSize()), make([]bool, spec.ActionSize())
	size, negative := make([]float64, spec.ObjectiveSize()), make([]int, spec.ObjectiveSize())
	for _, at := range points {
		before := outputsAt(p, at)
		for i, v := range before.j {
			size[i] += math.Abs(v) / float64(len(points))
			if v < 0 {
				negative[i]++
			}
		}
		for k, a := range spec.Action {
			moved := at.clone()
			if moved.u[k] += 0.1; a.Bounded() {
				moved.u[k] = a.Lo + math.Mod(at.u[k]-a.Lo+0.37*(a.Hi-a.Lo), a.Hi-a.Lo)
			}
			after := outputsAt(p, moved)
			counts[k] = counts[k] || !slices.Equal(after.j, before.j)
			moves[k] = moves[k] || counts[k] || !slices.Equal(after.next, before.next) || !slices.Equal(after.m, before.m)
		}
	}
	for k, v := range moves {
		if !v {
			errs = append(errs, fmt.Errorf("%s changes neither the next state nor an objective nor a margin", name(spec.Action, "action", k)))
		}
	}
	if !slices.Contains(counts, true) {
		errs = append(errs, fmt.Errorf("no objective depends on the action: objectives are of what the action leads to (sNext), or of the action itself"))
	}
	if domain.AbilitiesOfProblem(p).Weigh != nil {
		return errs
	}
	errs = append(errs, unbounded(p, points, size)...)
	largest := slices.Index(size, slices.Max(size))
	for i, v := range size {
		if v > 0 && size[largest] > unlike*v {
			errs = append(errs, fmt.Errorf("%s is about %.2g and %s about %.2g: no preference weighs the second; divide each by its usual size", name(spec.Objectives, "objective", largest), size[largest], name(spec.Objectives, "objective", i), v))
		}
		if 10*negative[i] > 9*len(points) {
			errs = append(errs, fmt.Errorf("%s is negative at %d of %d states: regret is relative to what the optimum costs, and urgency takes a gain for nothing to lose; write what is missing to the best instead", name(spec.Objectives, "objective", i), negative[i], len(points)))
		}
	}
	return errs
}

// checkRoom says where a random walk of projected actions ends in a state in which no action
// keeps the limits for one step more; "" where it never does. It is no mistake as such.
func checkRoom(p domain.Problem, points []point) string {
	spec := p.Spec()
	m, next := make([]float64, len(spec.Margins)), make([]float64, spec.ContextSize())
	rng := newRand(domainSeed + 7)
	lost, example := 0, ""
	for _, start := range points {
		at := start.clone()
		for range min(spec.Steps, walkSteps) {
			u := draw(rng, spec.Action)
			if !p.Project(at.s, at.c, u) {
				p.Margins(at.s, at.c, u, m)
				if lost++; lost == 1 {
					example = fmt.Sprintf("%s at the state %.3g", name(spec.Margins, "margin", slices.Index(m, slices.Min(m))), at.s)
				}
				break
			}
			sNext := make([]float64, len(at.s))
			p.Step(at.s, at.c, u, sNext, next)
			if copy(at.s, sNext); !tensor.Finite(at.s) {
				break
			}
			copy(at.c, next)
		}
	}
	if lost == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d walks of random actions, each projected, end where no action keeps the limits, first %s: leave in that margin the room that stopping or turning takes, or expect episodes in which nothing short of planning keeps it", lost, len(points), example)
}

// outputs of a problem's functions at a point.
type outputs struct{ next, j, m []float64 }

func outputsAt(p domain.Problem, at point) outputs {
	spec := p.Spec()
	o := outputs{make([]float64, spec.MeasuredSize()), make([]float64, spec.ObjectiveSize()), make([]float64, len(spec.Margins))}
	p.Step(at.s, at.c, at.u, o.next, make([]float64, len(at.c)))
	p.Objectives(at.s, at.u, at.c, o.j)
	p.Margins(at.s, at.c, at.u, o.m)
	return o
}

func (o outputs) all() []float64 { return slices.Concat(o.next, o.j, o.m) }

// nameOf is what entry i of all is.
func (o outputs) nameOf(spec *domain.Spec, i int) string {
	switch n, m := len(o.next), len(o.next)+len(o.j); {
	case i < n:
		return "the next " + name(spec.Measured, "state", i)
	case i < m:
		return name(spec.Objectives, "objective", i-n)
	default:
		return name(spec.Margins, "margin", i-m)
	}
}

func name(variables []domain.Variable, kind string, i int) string {
	return fmt.Sprintf("%s %d (%s)", kind, i, variables[i].Name)
}

// whyUnsolved says what of a problem may keep a solver from converging: where its first
// plan leads, and where the functions are not smooth.
func whyUnsolved(p domain.Problem, points []point) (hints []error) {
	for _, hint := range []string{fallbackHeld(p, points), kink(p, points)} {
		if hint != "" {
			hints = append(hints, fmt.Errorf("a hint: %s", hint))
		}
	}
	return hints
}

// fallbackHeld says how far holding Fallback for an episode leads away; "" for not far.
func fallbackHeld(p domain.Problem, points []point) string {
	spec := p.Spec()
	worst, which := farAway, -1
	var value float64
	var held []float64
	for _, start := range points {
		at := start.clone()
		p.Fallback(at.s, at.c, at.u)
		for range spec.Steps {
			sNext, after := make([]float64, len(at.s)), make([]float64, len(at.c))
			p.Step(at.s, at.c, at.u, sNext, after)
			if !tensor.Finite(sNext) {
				break
			}
			for i, v := range spec.Measured {
				if away := math.Abs(sNext[i]-(v.Lo+v.Hi)/2) / v.Scale(); away > worst {
					worst, which, value, held = away, i, sNext[i], at.u
				}
			}
			at.s, at.c = sNext, after
		}
	}
	if which < 0 {
		return ""
	}
	return fmt.Sprintf("Fallback (in equations: Rest) of %.3g, which the solver begins with, takes %s to %.3g when it is held for the episode: let it be an action that about holds the system where it is; if none does, the episode may be long for so fast a system", held, name(spec.Measured, "state", which), value)
}

// kink looks for places where a function jumps or has a corner; "" for none.
func kink(p domain.Problem, points []point) string {
	spec := p.Spec()
	rng := newRand(domainSeed + 8)
	for _, middle := range points {
		along, from, to := make([]float64, len(middle.s)), draw(rng, spec.Action), draw(rng, spec.Action)
		for i, v := range spec.Measured {
			along[i] = v.Scale() * (rng.Float64() - 0.5)
		}
		place := func(t float64) point {
			x := middle.clone()
			for i, d := range along {
				x.s[i] += (t - 0.5) * d
			}
			for i := range x.u {
				x.u[i] = from[i] + t*(to[i]-from[i])
			}
			return x
		}
		at := func(t float64) []float64 { return outputsAt(p, place(t)).all() }
		ends := [2][]float64{at(0), at(1)}
		for k := range ends[0] {
			lo, hi := 0.0, 1.0
			for range halvings { // the half, among three, whose second difference is largest
				best, begin := -1.0, lo
				for _, a := range [3]float64{lo, lo + (hi-lo)/4, (lo + hi) / 2} {
					if d := bend(at, k, a, a+(hi-lo)/2); d > best {
						best, begin = d, a
					}
				}
				lo, hi = begin, begin+(hi-lo)/2
			}
			size := 1e-6 + math.Abs(ends[0][k]) + math.Abs(ends[1][k]-ends[0][k])
			what, d := "has a corner", bend(at, k, lo, hi)
			if !(d > kinkShare*size*(hi-lo)) {
				continue
			}
			if d > kinkShare*size {
				what = "jumps"
			}
			x := place(lo)
			return fmt.Sprintf("%s %s at the state %.3g: a branch, |x|, max or min. The solver needs a slope that does not jump: √(x² + ε²) for |x|, x/√(x² + ε²) for its sign, a square behind max", outputsAt(p, x).nameOf(spec, k), what, x.s)
		}
	}
	return ""
}

// bend is the second difference of entry k over [a, b].
func bend(at func(t float64) []float64, k int, a, b float64) float64 {
	return math.Abs(at(a)[k] - 2*at((a + b) / 2)[k] + at(b)[k])
}
