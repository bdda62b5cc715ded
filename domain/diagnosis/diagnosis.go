// Package diagnosis finds mistakes in a case's system: limits with the wrong sign, actions without effect, degrees in place of
// radians, costs that jump. It evaluates the functions and solves nothing.
//
// The central function is Case. The others are its parts, at points that Starts and Visited draw from the case's plant.
package diagnosis

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/tensor"
)

// Severity of a finding.
type Severity string

const (
	Error  Severity = "error"  // no controller can be made of the system
	Remark Severity = "remark" // it may not be meant
	Hint   Severity = "hint"   // no mistake as such; a cause where the solver fails or episodes are unsafe
)

// Finding is one result of a check.
type Finding struct {
	Severity Severity `json:"severity"`           // `error`: no controller can be made; `remark`: may not be meant; `hint`: no mistake as such, a cause where the solver fails or episodes are unsafe
	Subject  string   `json:"of"`                 // kind and name, such as “margin left”; “”: the system as a whole
	Function string   `json:"function,omitempty"` // of the system that it is about: `step`, `ode`, `objectives`, `margins`, `initial`
	Message  string   `json:"message"`            // what was found, and where
	Fix      string   `json:"fix"`                // what would help
}

func (f *Finding) String() string { return f.Message + Help(f.Fix) }

// Help ends a message with what would help; "" for an unknown fix.
func Help(fix string) string {
	if fix == "" {
		return ""
	}
	return "; what would help: " + fix
}

// Findings are those of one check.
type Findings []Finding

func (f *Findings) add(severity Severity, subject, function, fix, format string, args ...any) {
	*f = append(*f, Finding{severity, subject, function, fmt.Sprintf(format, args...), fix})
}

// Fatal is the first error; nil: there is none.
func (f Findings) Fatal() *Finding {
	if i := slices.IndexFunc(f, func(one Finding) bool { return one.Severity == Error }); i >= 0 {
		return &f[i]
	}
	return nil
}

// Constants of the checks.
const (
	seed                         = 20240917
	startsChecked, pointsChecked = 32, 40
	visitedSteps                 = 8         // of an episode
	walkSteps                    = 60        // of a roll-out, at most
	unlike                       = 1e5       // ratio of two objectives' mean sizes beyond which a preference between them says nothing
	bigState, smallState         = 100, 1e-3 // bounds of the size of a state that has no range, so that its scale is 1
	farAway                      = 2.0       // in widths of a state's range from its middle: where doing nothing should not lead
	unboundedBy                  = 10.0      // an objective that falls by more than in proportion at this times the distance falls without end
	kinkShare                    = 1e-2      // of a function's size and slope: a kink is a change of slope by it
	segments, halvings           = 128, 13   // the segment of a line with the largest second difference is halved
	listed                       = 8         // numbers of a vector
	affordable                   = 0.25      // s of CPU time for starts and visited states; without lanes what follows takes some 50 times as long
)

// Fixes that several findings and the errors of solvers share.
const (
	keepLimits = "margins that are ≥ 0 where their limits are kept (limit − value, not value − limit), and starts within them with the room that stopping takes"
	smooth     = "equations without jumps (x/√(x² + ε²) for the sign of x), with costs and states of usual size"
	divisor    = "a margin that keeps what divides above 0, or √(x² + ε²) in its place"
	roundOff   = "equations without corners (√(x² + ε²) for |x|); of Go's, System.Source lets the solver round them by itself"
)

// Unsolved describes in a few words why a solver has no optimum, by the text of its error, and what would help.
func Unsolved(text string) (reason, fix string) {
	switch {
	case strings.Contains(text, domain.ErrInfeasible.Error()):
		return "no plan keeps the limits", "limits that some plan keeps to the end of the episode from every start, or soft ones; " + keepLimits
	case strings.Contains(text, domain.ErrNotConverged.Error()):
		return "the solver does not converge", smooth
	case strings.Contains(text, context.DeadlineExceeded.Error()):
		return "its part of the budget ended", "a larger budget, fewer episodes or fewer steps"
	}
	return "the solver fails", ""
}

// Case checks a case that has a plant; without one it finds nothing.
func Case(c *domain.Case) (findings Findings) {
	if c.Plant == nil {
		return nil
	}
	start := cpuTime()
	starts, err := Starts(c)
	var points []Point
	if err == nil {
		if findings = AtStarts(c.Problem, starts); findings.Fatal() != nil {
			return findings // from such starts nothing else says what is wrong
		}
		points, err = Visited(c)
	}
	if err != nil {
		findings.add(Error, "", "initial", "starts that an episode can begin in", "%v", err)
		return findings
	}
	if share := affordable / (cpuTime() - start).Seconds(); share < 1 {
		starts = starts[:max(1, int(share*startsChecked))]
		findings.add(Hint, "", "", "functions that take less time", "the functions take long: corners, walks and the action at rest are looked at from %d of %d starts", len(starts), startsChecked)
	}
	return slices.Concat(findings, Effects(c.Problem, points), Hints(c.Problem, starts))
}

var cpuTime = machine.CPUTime // a test has another

// Point is a state, context and action.
type Point struct{ S, C, U []float64 }

func (x Point) clone() Point { return Point{slices.Clone(x.S), slices.Clone(x.C), slices.Clone(x.U)} }

// evaluator evaluates points side by side: where they lead to, and their next states, objectives and margins. With project
// their actions are moved to where they keep the limits, if the limits are all that a projection keeps.
type evaluator func(points []Point, project bool) (successors []Point, outputs [][]float64)

func newEvaluator(p domain.Problem) evaluator {
	many, err := domain.ValuesOf(p)
	if err != nil { // the solver's to report
		many, _ = domain.ValuesOf(struct{ domain.Problem }{p})
	}
	spec := p.Spec()
	ns, nu, nj := len(spec.Measured), len(spec.Action), spec.ObjectiveSize()
	nx, nm := ns+len(spec.Context), len(spec.Margins)
	batched := spec.Switches == nil && domain.AbilitiesOfProblem(p).ManyValues != nil
	return func(points []Point, project bool) (successors []Point, outputs [][]float64) {
		var x, u []float64
		for _, v := range points {
			x, u = append(append(x, v.S...), v.C...), append(u, v.U...)
			if project && !batched {
				p.Project(v.S, v.C, u[len(u)-nu:])
			}
		}
		n := len(points)
		next, j, m := make([]float64, n*nx), make([]float64, n*nj), make([]float64, n*nm)
		if many.Evaluate(n, x, u, next, j, m); project && batched {
			many.Project(n, x, u, next, j, m)
		}
		for i := range n {
			s := next[i*nx : (i+1)*nx]
			successors = append(successors, Point{s[:ns:ns], s[ns:], u[i*nu : (i+1)*nu : (i+1)*nu]})
			outputs = append(outputs, slices.Concat(s[:ns], j[i*nj:(i+1)*nj], m[i*nm:(i+1)*nm]))
		}
		return successors, outputs
	}
}

// Draw draws values of variables from their ranges, of a standard normal distribution without one.
func Draw(rng *rand.Rand, variables []domain.Variable) []float64 {
	x := make([]float64, len(variables))
	for i, v := range variables {
		if v.Bounded() {
			x[i] = v.Draw(rng)
		} else {
			x[i] = rng.NormFloat64()
		}
	}
	return x
}

func newRand(purpose uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed+purpose, 0x9e3779b97f4a7c15))
}

// begin is an episode with its first state and an action of zero.
func begin(c *domain.Case, index int) (domain.Episode, Point, error) {
	spec := c.Problem.Spec()
	e, err := c.Plant.Episode(seed, index, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}})
	if err != nil {
		return nil, Point{}, fmt.Errorf("episode %d: %w", index, err)
	}
	x := Point{make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())}
	e.Observe(x.S, x.C)
	return e, x, nil
}

// Starts are states that episodes begin in, with actions of zero.
func Starts(c *domain.Case) (starts []Point, err error) {
	for index := range startsChecked {
		_, x, err := begin(c, index)
		if err != nil {
			return nil, err
		}
		starts = append(starts, x)
	}
	return starts, nil
}

// Visited are states that random actions, each projected, lead to.
func Visited(c *domain.Case) (points []Point, err error) {
	spec, rng := c.Problem.Spec(), newRand(0)
	for index := 0; len(points) < pointsChecked && index < pointsChecked; index++ {
		e, x, err := begin(c, index)
		if err != nil {
			return nil, err
		}
		for step := 0; step < visitedSteps && !e.Done(); step++ {
			x.U = Draw(rng, spec.Action)
			e.Observe(x.S, x.C)
			if !tensor.Finite(x.S) || !tensor.Finite(x.C) {
				break
			}
			points = append(points, x.clone())
			c.Problem.Project(x.S, x.C, x.U)
			if _, err := e.Apply(x.U); err != nil {
				return nil, fmt.Errorf("episode %d, step %d: %w", index, step, err)
			}
		}
	}
	return points, nil
}

// violations counts the starts where margins are below zero with the action at rest; margins reports whether one counts.
func violations(p domain.Problem, starts []Point, margins func(x Point, m []float64) bool) (n int, counts []int, least []float64) {
	spec := p.Spec()
	m := make([]float64, len(spec.Margins))
	counts, least = make([]int, len(m)), make([]float64, len(m))
	for _, start := range starts {
		x := start.clone()
		if p.Fallback(x.S, x.C, x.U); !margins(x, m) {
			continue
		}
		n++
		for i, value := range m {
			if value < -spec.MarginTolerance {
				counts[i]++
				least[i] = math.Min(least[i], value)
			}
		}
	}
	return n, counts, least
}

// AtStarts holds the starts to the limits, and to the ranges that Spec gives of states.
func AtStarts(p domain.Problem, starts []Point) (findings Findings) {
	spec := p.Spec()
	violating, counts, least := violations(p, starts, func(x Point, m []float64) bool {
		feasible := p.Project(x.S, x.C, x.U)
		p.Margins(x.S, x.C, x.U, m)
		return !feasible
	})
	if violating > len(starts)/4 {
		severity, worst := Remark, 0
		if violating == len(starts) {
			severity = Error
		}
		var texts []string
		for i, n := range counts {
			if n > 0 {
				texts = append(texts, fmt.Sprintf("%s in %d of them, down to %.3g", name(spec.Margins, "margin", i), n, least[i]))
			}
			if n > counts[worst] {
				worst = i
			}
		}
		findings.add(severity, name(spec.Margins, "margin", worst), "margins", keepLimits, "at %d of %d starts no action keeps the limits for one step: %s", violating, len(starts), strings.Join(texts, "; "))
	} else { // a map cannot keep a limit of the state that an episode begins outside of
		inPlace := marginsInPlace(p)
		_, counts, least = violations(p, starts, func(x Point, m []float64) bool {
			inPlace(x, m)
			return true
		})
		for i, n := range counts {
			if subject := name(spec.Margins, "margin", i); n > 0 {
				findings.add(Remark, subject, "margins", "starts within the limits (a narrower scenario), or a limit with the room that these starts need",
					"%s is violated where episodes begin, at %d of %d starts, down to %.3g", subject, n, len(starts), least[i])
			}
		}
	}
	for i, v := range spec.Measured {
		size, n := 0.0, 0
		for _, x := range starts {
			size += math.Abs(x.S[i]) / float64(len(starts))
			if width := v.Hi - v.Lo; v.Bounded() && (x.S[i] < v.Lo-width || x.S[i] > v.Hi+width) {
				n++
			}
		}
		switch subject := name(spec.Measured, "state", i); {
		case n > len(starts)/2:
			findings.add(Remark, subject, "initial", "the range and the starts in one unit, angles in radians", "%s has the range [%g, %g] %s and is about %.3g at the starts", subject, v.Lo, v.Hi, v.Unit, size)
		case !v.Bounded() && (size > bigState*v.Scale() || size > 0 && size < smallState*v.Scale()):
			findings.add(Remark, subject, "initial", "lo and hi of the state, a state scale, or another unit", "%s is about %.3g %s at the starts and has no range, so that its scale is taken to be %g", subject, size, v.Unit, v.Scale())
		}
	}
	return findings
}

// marginsInPlace are the margins of a state, with those of its action that leave it alone.
func marginsInPlace(p domain.Problem) func(x Point, m []float64) {
	if equations, ok := p.(interface{ MarginsInPlace(s, c, m []float64) }); ok {
		return func(x Point, m []float64) { equations.MarginsInPlace(x.S, x.C, m) }
	}
	other, abilities := make([]float64, len(p.Spec().Margins)), domain.AbilitiesOfProblem(p)
	return func(x Point, m []float64) { domain.StateMargins(p, abilities, x.S, x.C, x.U, m, other) }
}

// Effects finds actions without effect, objectives that no action changes, and objectives that cannot be weighed against
// each other.
func Effects(p domain.Problem, points []Point) (findings Findings) {
	spec := p.Spec()
	moves, counts := make([]bool, spec.ActionSize()), make([]bool, spec.ActionSize())
	size, negative, undefined := make([]float64, spec.ObjectiveSize()), make([]int, spec.ObjectiveSize()), make([]int, spec.ObjectiveSize())
	evaluate, ns := newEvaluator(p), spec.MeasuredSize()
	_, outputs := evaluate(points, false)
	for n, x := range points {
		for i, v := range outputs[n][ns : ns+len(size)] {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				undefined[i]++
				continue
			}
			size[i] += math.Abs(v) / float64(len(points))
			if v < 0 {
				negative[i]++
			}
		}
		for k, a := range spec.Action {
			other := x.clone()
			if other.U[k] += 0.1; a.Bounded() {
				other.U[k] = a.Lo + math.Mod(x.U[k]-a.Lo+0.37*(a.Hi-a.Lo), a.Hi-a.Lo)
			}
			if !counts[k] {
				changes, objective := evaluate.effect(spec, x, other)
				moves[k], counts[k] = moves[k] || changes, objective
			}
		}
	}
	for k, v := range moves {
		if subject := name(spec.Action, "action", k); !v {
			findings.add(Remark, subject, "step", "equations that use it, or no such action", "%s changes neither a later state nor an objective nor a margin", subject)
		}
	}
	if !slices.Contains(counts, true) {
		findings.add(Error, "", "objectives", "objectives of what the action leads to (the next state), or of the action itself", "no objective depends on the action")
	}
	if domain.AbilitiesOfProblem(p).Weigh != nil {
		return findings
	}
	findings = append(findings, unbounded(p, evaluate, points, size)...)
	largest := slices.Index(size, slices.Max(size))
	for i, v := range size {
		subject := name(spec.Objectives, "objective", i)
		if undefined[i] > 0 {
			findings.add(Remark, subject, "objectives", "a margin where the equations end, and a cost that is finite a little beyond it",
				"%s is not finite at %d of %d states that random actions lead to", subject, undefined[i], len(points))
		}
		if v > 0 && size[largest] > unlike*v {
			findings.add(Remark, subject, "objectives", "each objective divided by its usual size",
				"%s is about %.2g and %s about %.2g: no preference weighs the second", name(spec.Objectives, "objective", largest), size[largest], subject, v)
		}
		if 10*negative[i] > 9*len(points) {
			findings.add(Remark, subject, "objectives", "what is missing to the best value in place of the value",
				"%s is negative at %d of %d states: regret is relative to what the optimum costs, and urgency takes a gain for nothing to lose", subject, negative[i], len(points))
		}
	}
	return findings
}

// effect reports whether another action changes anything, later decisions included, and whether it changes an objective.
func (evaluate evaluator) effect(spec *domain.Spec, x, other Point) (changes, objective bool) {
	pair, ns, end := []Point{x, other}, spec.MeasuredSize(), spec.MeasuredSize()+spec.ObjectiveSize()
	for range min(spec.Steps, walkSteps) {
		next, outputs := evaluate(pair, false)
		if !slices.Equal(outputs[0][ns:end], outputs[1][ns:end]) {
			return true, true
		}
		changes = changes || !slices.Equal(outputs[0], outputs[1]) || !slices.Equal(next[0].C, next[1].C)
		if !changes || !tensor.Finite(next[0].S) || !tensor.Finite(next[1].S) {
			break
		}
		next[1].U = x.U
		pair = next
	}
	return changes, false
}

// unbounded finds an objective that falls faster than in proportion, the farther an action without a box
// or a state is moved. Nothing is best then, and the solver ends where its iterations do.
func unbounded(p domain.Problem, evaluate evaluator, points []Point, size []float64) (findings Findings) {
	spec := p.Spec()
	reported, nu := make([]bool, len(size)), spec.ActionSize()
	for _, point := range points[:min(len(points), 4)] {
		start := point.clone()
		p.Project(start.S, start.C, start.U) // shares of a relaxed switch sum to 1
		for i, v := range slices.Concat(spec.Action, spec.Measured) {
			if i < nu && v.Bounded() {
				continue
			}
			var displaced []Point // two to each side
			for _, distance := range []float64{unboundedBy, unboundedBy * unboundedBy, -unboundedBy, -unboundedBy * unboundedBy} {
				x := slices.Concat(start.U, start.S)
				x[i] += distance * v.Scale()
				displaced = append(displaced, Point{x[nu:], start.C, x[:nu]})
			}
			_, outputs := evaluate(displaced, false)
			for side := range slices.Chunk(outputs, 2) {
				for k, least := range size {
					if first, second := side[0][len(start.S)+k], side[1][len(start.S)+k]; !reported[k] && first < -least && second < unboundedBy*unboundedBy/2*first {
						reported[k] = true
						findings.add(Remark, name(spec.Objectives, "objective", k), "objectives", "a cost that is at least 0, such as (v − v_max)² in place of −v²",
							"%s has no least value: it is %.3g and %.3g where %s is moved by 10 and by 100 of its ranges", name(spec.Objectives, "objective", k), first, second, v.Name)
					}
				}
			}
		}
	}
	return findings
}

// name is that of a variable with its kind.
func name(variables []domain.Variable, kind string, i int) string {
	if len(variables) == 0 {
		return ""
	}
	return kind + " " + variables[i].Name
}

// list writes the first of some numbers.
func list(x []float64) string {
	if len(x) > listed {
		return strings.Replace(fmt.Sprintf("%.3g", x[:listed]), "]", " …]", 1)
	}
	return fmt.Sprintf("%.3g", x)
}

// Hints say what may keep a solver from converging, and episodes from being safe.
func Hints(p domain.Problem, starts []Point) Findings {
	return slices.Concat(atRest(p, starts), kinks(p, starts), Room(p, starts))
}

// Room finds random walks of projected actions that end in a state in which no action keeps the limits for one step more.
func Room(p domain.Problem, starts []Point) (findings Findings) {
	spec := p.Spec()
	rng, evaluate, walks := newRand(7), newEvaluator(p), slices.Clone(starts)
	n, subject, example := 0, "", ""
	for range min(spec.Steps-1, walkSteps) { // what is to be reached at the end is no room
		for i := range walks {
			walks[i].U = Draw(rng, spec.Action)
		}
		next, outputs := evaluate(walks, true)
		remaining := walks[:0]
		for i, x := range walks {
			if m := outputs[i][len(outputs[i])-len(spec.Margins):]; !spec.Keeps(domain.Smallest(m)) {
				if !p.Project(x.S, x.C, x.U) {
					if n++; n == 1 && len(m) > 0 {
						subject = name(spec.Margins, "margin", max(0, slices.Index(m, domain.Smallest(m)))) // the first of NaNs
						example = fmt.Sprintf(", first %s at the state %s", subject, list(x.S))
					}
					continue
				}
				single, _ := evaluate([]Point{x}, false)
				next[i] = single[0]
			}
			if tensor.Finite(next[i].S) {
				remaining = append(remaining, next[i])
			}
		}
		walks = remaining
	}
	if n > 0 {
		findings.add(Hint, subject, "margins", "a margin less the room that stopping or turning takes; else some episodes are safe only by a plan",
			"%d of %d walks of random actions, each projected, end where no action keeps the limits%s", n, len(starts), example)
	}
	return findings
}

// atRest finds how far the action at rest leads when it is constant for an episode.
func atRest(p domain.Problem, starts []Point) (findings Findings) {
	spec := p.Spec()
	worst, evaluate := farAway, newEvaluator(p)
	var all []Point
	for _, start := range starts {
		all = append(all, start.clone())
		p.Fallback(start.S, start.C, all[len(all)-1].U)
	}
	for range spec.Steps {
		all, _ = evaluate(all, false)
		all = slices.DeleteFunc(all, func(x Point) bool { return !tensor.Finite(x.S) })
		for _, x := range all {
			for i, v := range spec.Measured {
				if distance := math.Abs(x.S[i]-v.Middle()) / v.Scale(); distance > worst {
					worst, findings = distance, nil
					subject := name(spec.Measured, "state", i)
					findings.add(Hint, subject, "step", "a rest that about holds the system where it is; if none does, the episode may be long for so fast a system",
						"the action at rest, %s, which the solver begins with, takes %s to %.3g when it is held for the episode", list(x.U), subject, x.S[i])
				}
			}
		}
	}
	return findings
}

// kinks finds outputs that jump or have a corner on lines through the starts, the first of each function. Corners of states
// and margins are hints. Those that the solver rounds are left out.
func kinks(p domain.Problem, starts []Point) (findings Findings) {
	spec, rounded := p.Spec(), domain.AbilitiesOfProblem(p).Derivatives.Rounded
	rounds := rounded != nil && rounded() > 0
	rng, inPlace := newRand(8), marginsInPlace(p)
	reported, more := map[int]bool{}, map[int]int{}
	evaluate := newEvaluator(p)
	outputs := func(x Point) []float64 {
		_, single := evaluate([]Point{x}, false)
		return single[0]
	}
	for _, middle := range starts {
		direction, first, last := make([]float64, len(middle.S)), Draw(rng, spec.Action), Draw(rng, spec.Action)
		for i, v := range spec.Measured {
			direction[i] = v.Scale() * (rng.Float64() - 0.5)
		}
		for _, w := range spec.Switches { // between its values nothing is meant
			first[w.Action] = w.Values[rng.IntN(len(w.Values))]
			last[w.Action] = first[w.Action]
		}
		place := func(t float64) Point {
			x := middle.clone()
			tensor.Axpy(t-0.5, direction, x.S)
			for i := range x.U {
				x.U[i] = first[i] + t*(last[i]-first[i])
			}
			return x
		}
		var line []Point
		for i := range 2*segments + 1 {
			line = append(line, place(float64(i)/(2*segments)))
		}
		_, grid := evaluate(line, false)
		var bends []float64 // where next states have a kink, which what follows from them has too
		for k, value := range grid[0] {
			ofState := k < len(spec.Measured)
			if reported[k] && !ofState {
				continue
			}
			threshold := kinkShare * (1e-6 + math.Abs(value) + math.Abs(grid[2*segments][k]-value))
			t, bend := steepest(func(t float64) float64 { return outputs(place(t))[k] }, grid, k, threshold)
			if !(bend > threshold*math.Exp2(-halvings)/segments) {
				continue
			}
			if ofState {
				bends = append(bends, t)
			}
			if reported[k] || !ofState && slices.ContainsFunc(bends, func(bend float64) bool { return math.Abs(bend-t) < 1./segments }) {
				continue
			}
			if k >= len(spec.Measured) && k < len(grid[0])-len(spec.Margins) && !slices.Equal(softKept(p, place(t-1./segments)), softKept(p, place(t+1./segments))) {
				continue // a price begins
			}
			point, m := place(t), make([]float64, len(spec.Margins))
			inPlace(point, m)
			if m = append(m, outputs(point)[len(grid[0])-len(m):]...); slices.ContainsFunc(m, func(v float64) bool { return !(v >= 0) }) {
				continue // beyond a limit
			}
			if reported[k] = true; bend <= threshold && rounds {
				continue
			}
			kink := kinkAt(spec, grid, k, point, bend, threshold)
			if i := slices.IndexFunc(findings, func(f Finding) bool { return f.Function == kink.Function && f.Severity == kink.Severity }); i >= 0 {
				more[i]++
			} else {
				findings = append(findings, kink)
			}
		}
	}
	for i, n := range more {
		findings[i].Message += fmt.Sprintf(" (and %d more of %s)", n, findings[i].Function)
	}
	return findings
}

// kinkAt is the finding of a bend of output k at a point of a line; above the threshold it is a jump or a pole.
func kinkAt(spec *domain.Spec, grid [][]float64, k int, point Point, bend, threshold float64) Finding {
	kind, fix, cause := "has a corner", roundOff, "a branch, |x|, max or min"
	severity, function, subject := Hint, "step", ""
	switch n, m := len(spec.Measured), len(spec.Measured)+spec.ObjectiveSize(); {
	case k < n:
		subject, kind = name(spec.Measured, "state", k), "has a corner in the next step"
	case k < m:
		severity, function, subject = Remark, "objectives", name(spec.Objectives, "objective", k-n)
	default:
		function, subject = "margins", name(spec.Margins, "margin", k-m)
	}
	if bend > threshold {
		severity = Remark
		kind, fix, cause = strings.Replace(kind, "has a corner", "jumps", 1), smooth, "a branch, or a division by what is 0 there"
		byEntry := func(a, b []float64) int { return cmp.Compare(a[k], b[k]) }
		if slices.MaxFunc(grid, byEntry)[k]-slices.MinFunc(grid, byEntry)[k] < bend/8 {
			kind, fix, cause = strings.Replace(kind, "jumps", "has a pole", 1), divisor, "a division by what is 0 there"
		}
	}
	excess, entry := domain.Excess(point.S, spec.Measured)
	if excess > 0 {
		cause = name(spec.Measured, "state", entry) + " is outside of its range, and there is " + cause
	}
	if excess > 0 || spec.Switches != nil { // searches need no slopes
		severity = Hint
	}
	return Finding{severity, subject, function, fmt.Sprintf("%s %s at the state %s: %s", subject, kind, list(point.S), cause), fix}
}

// softKept are the soft limits that a point keeps.
func softKept(p domain.Problem, x Point) (within []bool) {
	if soft := domain.AbilitiesOfProblem(p).Soft; soft != nil {
		m := make([]float64, len(soft.Limits))
		soft.Margins(x.S, x.C, x.U, m)
		for _, v := range m {
			within = append(within, v >= 0)
		}
	}
	return within
}

// steepest is the place of the largest second difference of f over a length of 2^−halvings/segments, and that difference. Entry k of
// a grid over [0, 1] has values of f. The difference is 0 where no segment exceeds the threshold in proportion to its length.
func steepest(f func(t float64) float64, grid [][]float64, k int, threshold float64) (t, bend float64) {
	width := 1. / segments
	for i := range 2*segments - 1 {
		if d := math.Abs(grid[i][k] - 2*grid[i+1][k] + grid[i+2][k]); d > bend {
			t, bend = float64(i)/(2*segments), d
		}
	}
	if bend <= threshold*width/4 {
		return t, 0
	}
	i := int(t * 2 * segments)
	points := [5]float64{0: grid[i][k], 2: grid[i+1][k], 4: grid[i+2][k]}
	for halving := range halvings { // the half, among three, whose second difference is largest
		start, best := t, 0
		width /= 2
		points[1], points[3] = f(start+width/2), f(start+3*width/2)
		bend = -1
		for i := range 3 {
			if d := math.Abs(points[i] - 2*points[i+1] + points[i+2]); d > bend {
				t, bend, best = start+float64(i)*width/2, d, i
			}
		}
		if bend < threshold*math.Exp2(-float64(halving+2))/segments { // a corner's falls by a half each time
			return t, 0
		}
		points[0], points[2], points[4] = points[best], points[best+1], points[best+2]
	}
	return t, bend
}
